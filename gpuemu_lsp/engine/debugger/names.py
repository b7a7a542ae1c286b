"""What the names of the source mean at a moment: variables of a function, indices, shared arrays, buffers."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Final

from gpuemu_lsp.engine.debug.dwarf.model import SourceVariable, Storage, Type, all_scopes
from gpuemu_lsp.engine.debug.explain import RecordedBlock
from gpuemu_lsp.engine.debug.instance_cache import kept_results
from gpuemu_lsp.engine.debugger.frames import StackFrame
from gpuemu_lsp.engine.debugger.objects import Moment, Object, array_of, type_of_dtype
from gpuemu_lsp.engine.element_types import element_type
from gpuemu_lsp.engine.emulator.ir.lattice import WARP_SIZE
from gpuemu_lsp.engine.emulator.ir.opcodes import access_type, type_bytes
from gpuemu_lsp.engine.execution import Dim3
from gpuemu_lsp.engine.fuzz.dtypes import numpy_dtype
from gpuemu_lsp.engine.ptx.demangle import demangled_name

_INT: Final = Type("base", "int", 4, "int")
_TIME: Final = Type("base", "long long", 8, "int")
_UNSIGNED: Final = Type("base", "unsigned int", 4, "uint")
_INDEX: Final = Type("struct", "uint3", 12, members=tuple((name, 4 * at, _UNSIGNED) for at, name in enumerate("xyz")))
_ENCODINGS: Final = {"f": "float", "s": "int", "u": "uint", "b": "uint"}
_SHARED: Final = (
    r"__shared__\s+(?:__align__\([^)]*\)\s*|alignas\([^)]*\)\s*)?([\w:<> ]+?)\s*\b{name}\s*((?:\[[^\]]*\]\s*)+);"
)


@dataclass(frozen=True, slots=True)
class Named:
    """A name and its object; ``storage`` is where a variable of a thread is."""

    name: str
    object: Object
    storage: Storage | None = None


class Names:
    """The names of one recorded block."""

    def __init__(self, block: RecordedBlock) -> None:
        self._block, self._recording = block, block.recording

    # ---- a thread ----------------------------------------------------------------------------------------------------

    def indices(self, thread: int) -> dict[str, Object]:
        """Return the built-in variables of a thread that are the same at each moment."""
        block, recording = self._block, self._recording
        triples = {
            "threadIdx": block.thread_index(thread),
            "blockIdx": recording.block_index,
            "blockDim": recording.threads,
            "gridDim": recording.grid,
        }
        numbers = {"warpSize": WARP_SIZE, "lane": thread % WARP_SIZE, "warp": thread // WARP_SIZE}
        return {name: _triple(value) for name, value in triples.items()} | {
            name: Object(_INT, data=value.to_bytes(4, "little")) for name, value in numbers.items()
        }

    def builtins(self, moment: Moment) -> dict[str, Object]:
        """Return the built-in variables of a thread, and the time, counted in instructions of warps."""
        return self.indices(moment.thread) | {"time": Object(_TIME, data=moment.tick.to_bytes(8, "little"))}

    def visible(self, frame: StackFrame) -> dict[str, SourceVariable]:
        """Return the variables of a function by name."""
        return self._visible(frame.line, frame.level)

    @kept_results(256)
    def _visible(self, line: int, level: int) -> dict[str, SourceVariable]:
        return {one.name: one for one in self._block.variables.visible(line, level)}

    @cached_property
    def enumerators(self) -> dict[str, Object]:
        """The enumerators of the types that variables have."""
        types = (variable.type for scope in all_scopes(self._block.scopes) for variable in scope.variables)
        return {
            name: Object(type_, data=(value % (1 << 8 * type_.size)).to_bytes(type_.size, "little"))
            for type_ in types
            for name, value in type_.enumerators
        }

    def registers(self, frame: StackFrame) -> list[str]:
        """Return the names of the registers of a function, as they are in the PTX."""
        prefix = f"{frame.call}:" if frame.call else ""
        names = (name.removeprefix(prefix) for name in self._block.history.program.registers if name.startswith(prefix))
        return [name for name in names if ":" not in name]

    def register(self, moment: Moment, frame: StackFrame, name: str) -> Object | None:
        """Return a register of a function, None if it has none of this name."""
        full = f"{frame.call}:{name}" if frame.call else name
        type_ = self._block.history.program.registers.get(full)
        if type_ is None:
            return None
        definition = self._block.history.definition(full, moment.thread, moment.tick)
        size = max(type_bytes(type_), 1)
        data = None if definition is None else (definition.bits % (1 << 8 * size)).to_bytes(size, "little")
        return Object(Type("base", type_.lstrip("."), size, _ENCODINGS.get(type_.lstrip(".")[0], "uint")), data=data)

    def variable(self, moment: Moment, frame: StackFrame, variable: SourceVariable) -> Named:
        """Return one variable of a function."""
        storage = variable.storage_at(frame.line)
        if storage is None:
            return Named(variable.name, Object(variable.type))
        prefix = f"{frame.call}:" if frame.call else ""
        if storage.space == "register":
            storage = replace(storage, name=prefix + storage.name)
            definition = self._block.history.definition(storage.name, moment.thread, moment.tick)
            size = max(variable.type.size, 1)
            bits = None if definition is None else definition.bits % (1 << 8 * size)
            data = None if bits is None else bits.to_bytes(size, "little")
            return Named(variable.name, Object(variable.type, data=data), storage)
        address = self._block.variables.address(storage, prefix, moment.thread)
        return Named(variable.name, Object(variable.type, address), storage)

    @cached_property
    def arguments(self) -> dict[str, Object]:
        """The arguments of the launch that are passed by value, and the constants that it was compiled for."""
        return {
            name: Object(type_of_dtype(value.dtype), data=value.tobytes())
            for name, value in self._block.scalars.items()
            if name.isidentifier()
        }

    # ---- the block ---------------------------------------------------------------------------------------------------

    @cached_property
    def shared(self) -> dict[str, Object]:
        """The arrays in shared memory."""
        program, arrays = self._block.history.program, {}
        for symbol, slot in program.shared.items():
            size = slot.size or self._recording.shared_size - slot.offset
            if size > 0:
                name = demangled_name(symbol).rpartition("::")[2]
                address = self._recording.shared + slot.offset
                arrays[name] = Object(self._shared_type(name, address, size), address)
        return arrays

    @cached_property
    def buffers(self) -> dict[str, Object]:
        """The buffers of the launch, and variables of the module."""
        found = {}
        for picture in self._recording.memory:
            if picture.kind in ("local", "param", "shared"):
                continue
            format_ = self._block.formats.get(picture.name)
            start = format_.start if format_ is not None else 0
            size = max(len(picture.data) - start, 0)
            element = type_of_dtype(format_.dtype) if format_ is not None else None
            element = element or self._accessed(picture.address, size) or _UNSIGNED
            shape = format_.shape if format_ is not None else ()
            counts = shape if shape else (size // max(element.size, 1),)
            scalar = picture.kind != "buffer" and element.size == size
            type_ = element if scalar else array_of(element, counts)
            found[demangled_name(picture.name)] = Object(type_, picture.address + start)
        return found

    def _shared_type(self, name: str, address: int, size: int) -> Type:
        """Return the type of a shared array: as it is declared, or else by the accesses to it."""
        declared = self._declared(name, size)
        if declared is not None:
            return declared
        element = self._accessed(address, size) or _UNSIGNED
        return element if element.size == size else array_of(element, (size // element.size,))

    def _declared(self, name: str, size: int) -> Type | None:
        for text in self._texts:
            match = re.search(_SHARED.replace("{name}", re.escape(name)), text)
            known = element_type(match[1]) if match is not None else None
            if match is None or known is None or known.lanes != 1:
                continue
            element = type_of_dtype(numpy_dtype(known.dtype))
            sizes = [self._constant(one, text) for one in re.findall(r"\[([^\]]*)\]", match[2])]
            unknown, total = sizes.count(None), size // element.size
            product = 1
            for one in sizes:
                product *= one or 1
            if unknown <= 1 and product and total % product == 0 and (unknown or product == total):
                return array_of(element, tuple(one or total // product for one in sizes))
        return None

    @staticmethod
    def _constant(text: str, source: str) -> int | None:
        """Return the value of a size: a number, a constant of the file, or the sum of both."""
        total = 0
        for part in text.split("+"):
            word = part.strip()
            if re.fullmatch(r"[A-Za-z_]\w*", word):
                match = re.search(rf"\b(?:int|define|size_t|unsigned)\s+{word}\b\s*=?\s*(\d+)", source)
                word = match[1] if match is not None else ""
            if not word.isdecimal():
                return None
            total += int(word)
        return total

    @cached_property
    def _texts(self) -> list[str]:
        paths = dict.fromkeys(place.path for place in self._block.statements.places)
        return [text for text in map(self._block.source.text_of, paths) if text is not None]

    def _accessed(self, address: int, size: int) -> Type | None:
        """Return the type by which most accesses to some bytes read and write them, None if there are none."""
        table = self._block.accesses.table
        there = table[(table["address"] >= address) & (table["address"] < address + size)][:256]
        counts = Counter(
            (_ENCODINGS.get(access_type(one)[0], "uint"), int(row["size"]))
            for row in there
            if (one := self._block.history.instruction(int(row["cause"]))) is not None
        )
        if not counts:
            return None
        encoding, width = counts.most_common(1)[0][0]
        names = {("float", 4): "float", ("float", 8): "double", ("int", 4): "int", ("uint", 4): "unsigned int"}
        return Type("base", names.get((encoding, width), f"{encoding}{8 * width}"), width, encoding)


def _triple(values: Dim3) -> Object:
    return Object(_INDEX, data=b"".join(value.to_bytes(4, "little") for value in values))
