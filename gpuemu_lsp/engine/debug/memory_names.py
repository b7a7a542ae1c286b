"""Names and values of memory in the words of the source: elements of buffers, of shared arrays and of local ones."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from gpuemu_lsp.engine.debug.accesses import Accesses
from gpuemu_lsp.engine.debug.dwarf.model import Scope, Type, all_scopes
from gpuemu_lsp.engine.debug.history import History
from gpuemu_lsp.engine.emulator.ir.opcodes import access_type
from gpuemu_lsp.engine.findings import Json
from gpuemu_lsp.engine.ptx.demangle import demangled_name


@dataclass(frozen=True, slots=True)
class Format:
    """How the bytes of a buffer are read: elements of ``dtype``, in an array of ``shape``, () if it is not known.

    ``start`` is the offset of the first element: a pointer need not be to the begin of its memory.
    """

    dtype: np.dtype[Any]
    shape: tuple[int, ...] = ()
    start: int = 0


@dataclass(frozen=True, slots=True)
class LaunchArguments:
    """The arguments of a launch by name: how its buffers are read, and the values of the others."""

    formats: Mapping[str, Format]
    scalars: Mapping[str, np.generic]


class MemoryNames:
    """Names of elements of memory; ``formats`` are those of the buffers by name, ``scopes`` have local variables."""

    def __init__(
        self, history: History, accesses: Accesses, formats: Mapping[str, Format], scopes: Sequence[Scope] = ()
    ) -> None:
        self._history, self._accesses, self._formats = history, accesses, formats
        self._locals = [
            (storage.name, storage.offset, variable)
            for scope in all_scopes(scopes)
            for variable in scope.variables
            for _, _, storage in variable.storages
            if storage.space == "local"
        ]

    def name(self, address: int, size: int) -> str:
        """Return the name of the element of ``size`` bytes at an address."""
        picture = self._accesses.picture(address)
        if picture is None:
            return self._beyond(address, size)
        offset = address - picture.address
        if picture.kind == "shared" and picture.address == self._history.recording.shared:
            return self._in_shared(offset, size)
        if picture.kind == "local":
            return self._in_local(offset % max(self._history.program.local_bytes, 1), size)
        if picture.kind != "buffer" and len(picture.data) == size:
            return demangled_name(picture.name)
        return self._in_buffer(picture.name, offset, size)

    def array(self, address: int, size: int) -> str:
        """Return the name of the array that an element is in."""
        return self.name(address, size).partition("[")[0]

    def value(self, address: int, size: int, bits: int, tick: int) -> Json:
        """Return the value of an element that is accessed at a tick, by the type of its buffer or instruction."""
        picture = self._accesses.picture(address)
        known = self._formats.get(picture.name) if picture is not None and picture.kind == "buffer" else None
        if known is not None and known.dtype.itemsize == size:
            return number(bits, known.dtype)
        if known is not None and size in (2 * known.dtype.itemsize, 4 * known.dtype.itemsize):
            # Packed: elements of two bytes as one word, for example.
            width = known.dtype.itemsize * 8
            parts = (bits >> first & (1 << width) - 1 for first in range(0, size * 8, width))
            return f"{{{', '.join(str(number(part, known.dtype)) for part in parts)}}}"
        instruction = self._history.instruction(tick)
        kind = access_type(instruction) if instruction is not None else f"u{size * 8}"
        letter = {"f": "f", "s": "i"}.get(kind[0], "u")
        usual = letter != "f" or size in (2, 4, 8)
        return number(bits, np.dtype(f"<{letter if usual else 'u'}{size}"))

    def _in_buffer(self, buffer: str, offset: int, size: int) -> str:
        format_ = self._formats.get(buffer)
        element = format_.dtype.itemsize if format_ is not None else size
        start = format_.start if format_ is not None else 0
        index, rest = divmod(offset - start, element)
        if rest:
            return f"byte {offset} of {buffer}"
        shape = format_.shape if format_ is not None else ()
        if len(shape) > 1 and 0 <= index < int(np.prod(shape)):
            return f"{demangled_name(buffer)}[{', '.join(map(str, np.unravel_index(index, shape)))}]"
        return f"{demangled_name(buffer)}[{index}]"

    def _in_shared(self, offset: int, size: int) -> str:
        program = self._history.program
        before = [(slot.offset, name) for name, slot in program.shared.items() if slot.offset <= offset]
        if not before:
            return f"shared memory at byte {offset}"
        first, name = max(before)
        slot = program.shared[name]
        short = demangled_name(name).rpartition("::")[2]
        return short if slot.size == size else _element(short, offset - first, size)

    def _in_local(self, offset: int, size: int) -> str:
        """Return the name of an element in the memory of a thread."""
        for name, slot in self._history.program.local.items():
            if not slot.offset <= offset < slot.offset + slot.size:
                continue
            for symbol, first, variable in self._locals:
                place = offset - slot.offset - first
                if name.rpartition(":")[2] == symbol and 0 <= place < variable.type.size:
                    part = _part(variable.type, place, size)
                    return _element(variable.name, place, size) if part is None else f"{variable.name}{part}"
        return f"local memory at byte {offset}"

    def _beyond(self, address: int, size: int) -> str:
        """Return the name of an element out of bounds, by the region that it is closest to."""
        near = [one for one in self._history.recording.memory if one.kind not in ("local", "param")]
        closest = min(
            near, key=lambda one: max(one.address - address, address - one.address - len(one.data), 0), default=None
        )
        distance = 1 << 32
        if closest is None or not -distance < address - closest.address < distance:
            return f"address {address:#x}"
        if closest.kind == "shared":
            return self._in_shared(address - closest.address, size)
        return self._in_buffer(closest.name, address - closest.address, size)


def _part(type_: Type, offset: int, size: int) -> str | None:
    """Return how C writes a part of an object: ``.parts[1]``; None where its type has none of this size there."""
    if type_.size == size:
        return "" if offset == 0 else None
    if type_.kind == "array" and type_.target is not None and type_.target.size:
        index, rest = divmod(offset, type_.target.size)
        inner = _part(type_.target, rest, size)
        indices = np.unravel_index(index, type_.counts) if index < np.prod(type_.counts) else ()
        return "".join(f"[{one}]" for one in indices) + inner if indices and inner is not None else None
    for name, first, member in type_.members:
        if first <= offset < first + member.size and member.bits is None:
            inner = _part(member, offset - first, size)
            return None if inner is None else f".{name}{inner}" if name else inner
    return None


def _element(name: str, offset: int, size: int) -> str:
    return f"byte {offset} of {name}" if offset % size else f"{name}[{offset // size}]"


def number(bits: int, dtype: np.dtype[Any]) -> Json:
    """Return bits as a value of a type; a value that JSON does not have as a string."""
    value = np.frombuffer(bits.to_bytes(8, "little"), dtype=dtype, count=1)[0]
    if dtype.kind in "iu":
        return int(value)
    if dtype.kind == "b":
        return bool(value)
    real = float(value)
    # The shortest text that the type's precision needs.
    return float(str(value)) if np.isfinite(real) else str(real)


def number_of(value: np.generic) -> Json:
    """Return a NumPy scalar of at most eight bytes as :func:`number` returns its bits."""
    return number(int.from_bytes(value.tobytes(), "little"), value.dtype)
