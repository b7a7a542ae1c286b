"""Variables of the source at a moment: their values from registers and memory, by the DWARF of the code."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

import numpy as np

from gpuemu_lsp.engine.debug.accesses import Accesses
from gpuemu_lsp.engine.debug.dwarf.model import Scope, SourceVariable, Storage, Type
from gpuemu_lsp.engine.debug.history import History
from gpuemu_lsp.engine.debug.memory_names import MemoryNames, number
from gpuemu_lsp.engine.element_types import element_type
from gpuemu_lsp.engine.findings import Json
from gpuemu_lsp.engine.fuzz.dtypes import numpy_dtype


class Variables:
    """Values of the variables of a recorded block; there are none without debug information."""

    def __init__(self, history: History, accesses: Accesses, scopes: Sequence[Scope], names: MemoryNames) -> None:
        self._history, self._accesses, self._scopes, self._names = history, accesses, scopes, names

    def visible(self, line: int, level: int | None = None) -> Iterator[SourceVariable]:
        """Yield the variables in scope at a line of the PTX; an inner one hides an outer one of its name.

        ``level`` is that of one of the functions that are inlined into each other there, 0 the outermost.
        """
        variables: dict[str, SourceVariable] = {}
        for function in self._scopes:
            inlined = -1
            for scope in function.at(line):
                inlined += bool(scope.function)
                if level in (None, inlined):
                    variables |= {variable.name: variable for variable in scope.variables}
        yield from variables.values()

    def value(self, variable: SourceVariable, call: int, line: int, thread: int, tick: int) -> Json:
        """Return the value of a variable before a tick, None where it has none that can be shown.

        Parameters
        ----------
        variable : SourceVariable
            A variable in scope.
        call : int
            The inlined call whose variable it is, 0 for the kernel.
        line : int
            The line of the PTX that is executed next.
        thread : int
            The thread, by its linear number in the block.
        tick : int
            The moment.
        """
        storage = variable.storage_at(line)
        if storage is None:
            return None
        prefix = f"{call}:" if call else ""
        bits = self._bits(storage, prefix, variable.type.size, thread, tick)
        return None if bits is None else self._shown(variable.type, bits)

    def _bits(self, storage: Storage, prefix: str, size: int, thread: int, tick: int) -> int | None:
        history = self._history
        if storage.space == "register":
            definition = history.definition(prefix + storage.name, thread, tick)
            return definition.bits if definition is not None else None
        address = self.address(storage, prefix, thread)
        if address is None or not 0 < size <= 8:
            return None
        data, valid = self._accesses.memory(address, size, tick)
        return int.from_bytes(data, "little") if valid.all() else None

    def address(self, storage: Storage, prefix: str, thread: int) -> int | None:
        """Return the address of a variable that is in memory."""
        history, program = self._history, self._history.program
        if storage.space == "local" or storage.name.startswith("__local_depot"):
            slot = program.local.get(prefix + storage.name)
            frame = max(program.local_bytes, 1)
            return None if slot is None else history.recording.local + frame * thread + slot.offset + storage.offset
        slot = program.shared.get(storage.name)
        if slot is not None:
            return history.recording.shared + slot.offset + storage.offset
        address = history.recording.variables.get(storage.name)
        return None if address is None else address + storage.offset

    def _shown(self, type_: Type, bits: int) -> Json:
        """Return a value as JSON has it; a pointer as what it points to."""
        if type_.kind == "pointer" and self._accesses.picture(bits) is not None:
            size = type_.target.size if type_.target is not None and type_.target.size else 1
            return f"&{self._names.name(bits, size)}"
        return scalar(type_, bits)


def scalar(type_: Type, bits: int) -> Json:
    """Return the value of a number or an enumerator, None for what is not a scalar."""
    if (
        type_.bits is None
        and type_.kind in ("base", "struct")
        and (known := element_type(type_.name)) is not None
        and known.lanes == 1
    ):
        # Halves are structs.
        return number(bits & ((1 << 8 * type_.size) - 1), numpy_dtype(known.dtype))
    if type_.kind in ("base", "enum") and 0 < type_.size <= 8:
        if type_.encoding == "float":
            return number(bits & ((1 << 8 * type_.size) - 1), np.dtype(f"<f{type_.size}"))
        value = type_.number(bits)
        names = {constant: name for name, constant in type_.enumerators}
        return bool(value) if type_.encoding == "bool" else names.get(value, value)
    return None


def mentioned(text: str) -> frozenset[str]:
    """Return the identifiers in a line of the source, without those of comments and strings."""
    code = re.sub(r"//.*|/\*.*?\*/|\"(?:[^\"\\]|\\.)*\"", " ", text)
    return frozenset(re.findall(r"(?<![\w.])[A-Za-z_]\w*", code))
