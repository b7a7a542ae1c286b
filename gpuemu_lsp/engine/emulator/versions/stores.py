"""The pointers through which a kernel writes global memory."""

from __future__ import annotations

from dataclasses import dataclass

from gpuemu_lsp.engine.emulator.analysis.provenance import origins, roots
from gpuemu_lsp.engine.emulator.ir.accesses import memory_accesses
from gpuemu_lsp.engine.emulator.ir.opcodes import is_surface_access
from gpuemu_lsp.engine.emulator.ir.program import Program

Pointer = tuple[int, int] | str
"""Number of an argument and an offset in it, or the name of a variable of the module."""


@dataclass(frozen=True, slots=True)
class Stores:
    """The pointers to all that a kernel writes, but for addresses that it loads, if it stores ``elsewhere``."""

    pointers: frozenset[Pointer]
    elsewhere: bool


def stores_of(program: Program) -> Stores:
    """Return what a kernel writes by stores, atomics and reductions, all of its threads together."""
    known, found = origins(program), set[str]()
    # What copies of the asynchronous proxy and surfaces write is described by objects in memory.
    elsewhere = program.recursive or program.has_bulk_copies
    numbers = {name: index for index, name in enumerate(program.params)}
    for access in memory_accesses(program):
        if access.is_write and access.space != "shared":
            found |= roots(access.address, known)
            elsewhere |= is_surface_access(access.instruction)
    pointers = set[Pointer]()
    for root in found:
        name, _, offset = root.rpartition("+")
        if name in numbers:
            pointers.add((numbers[name], int(offset)))
        elif root in program.variables:
            pointers.add(root)
        else:
            elsewhere |= root not in program.local and root not in program.shared
    return Stores(frozenset(pointers), elsewhere)
