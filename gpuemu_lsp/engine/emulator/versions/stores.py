"""The pointers through which a kernel writes global memory."""

from __future__ import annotations

from dataclasses import dataclass

from gpuemu_lsp.engine.emulator.analysis.provenance import all_roots, origins
from gpuemu_lsp.engine.emulator.ir.accesses import has_block_scope
from gpuemu_lsp.engine.emulator.ir.opcodes import is_surface_access, memory_space
from gpuemu_lsp.engine.emulator.ir.operands import flattened
from gpuemu_lsp.engine.emulator.ir.program import Program
from gpuemu_lsp.engine.ptx.model import Address, Instruction

Pointer = tuple[int, int] | str
"""Number of an argument and an offset in it, or the name of a variable of the module."""

_READS = frozenset({"ld", "ldu", "ldmatrix", "prefetch", "prefetchu", "cvta", "isspacep", "mov", "tex", "tld4", "txq"})
"""Opcodes that write no memory, of those that have an address. Any other is taken for a write."""


@dataclass(frozen=True, slots=True)
class Stores:
    """The pointers to all that a kernel writes, but for addresses that it loads, if it stores ``elsewhere``.

    Through those of ``atomic`` it writes by atomic operations of the device's scope only; none if it stores elsewhere.
    """

    pointers: frozenset[Pointer]
    elsewhere: bool
    atomic: frozenset[Pointer] = frozenset()


def stores_of(program: Program) -> Stores:
    """Return what a kernel writes, all of its threads together."""
    known, found, plain = origins(program), set[str](), set[str]()
    # What copies of the asynchronous proxy and surfaces write is described by objects in memory.
    elsewhere = program.recursive or program.has_bulk_copies
    numbers = {name: index for index, name in enumerate(program.params)}
    for instruction in (instruction for block in program.blocks for instruction in block.code):
        elsewhere |= is_surface_access(instruction) and instruction.opcode == "sust"
        for address in _written(instruction):
            roots = all_roots(address, known) or {""}
            found |= roots
            if instruction.opcode not in ("atom", "red") or has_block_scope(instruction):
                plain |= roots
    pointers, atomic = set[Pointer](), set[Pointer]()
    for root in found:
        name, _, offset = root.rpartition("+")
        pointer = (numbers[name], int(offset)) if name in numbers else root
        if name in numbers or root in program.variables:
            pointers.add(pointer)
            if root not in plain:
                atomic.add(pointer)
        else:
            elsewhere |= root not in program.local and root not in program.shared
    return Stores(frozenset(pointers), elsewhere, frozenset() if elsewhere else frozenset(atomic))


def _written(instruction: Instruction) -> list[Address]:
    """Return the addresses of global memory that an instruction may write."""
    opcode, modifiers = instruction.opcode, instruction.modifiers
    if opcode in _READS or (opcode == "wmma" and "load" in modifiers) or memory_space(instruction) not in _WRITABLE:
        return []
    addresses = [operand for operand in flattened(instruction.operands) if isinstance(operand, Address)]
    # An asynchronous copy by threads writes shared memory, and reads what its second address says.
    return addresses[:0] if opcode == "cp" and "bulk" not in modifiers else addresses


_WRITABLE = ("global", "generic")
