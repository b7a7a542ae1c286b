"""Accesses of a program to global and shared memory, the memory that threads share."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from gpuemu_lsp.engine.emulator.ir.opcodes import (
    access_type,
    is_bulk_copy,
    is_surface_access,
    memory_space,
    type_bytes,
    vector_length,
)
from gpuemu_lsp.engine.emulator.ir.operands import surface_object
from gpuemu_lsp.engine.emulator.ir.program import Program
from gpuemu_lsp.engine.ptx.model import Address, Immediate, Instruction


@dataclass(frozen=True, slots=True)
class MemoryAccess:
    """One access of an instruction: its site, basic block, state space and address, and whether it writes.

    An asynchronous copy is two accesses of one site: it reads global memory and writes shared memory.
    """

    site: int
    block: int
    instruction: Instruction
    space: str
    address: Address
    is_write: bool

    @property
    def key(self) -> tuple[int, bool]:
        """The site, and whether it is the write: unique among the accesses of a program."""
        return self.site, self.is_write

    @property
    def is_copy_source(self) -> bool:
        """Whether it is the read of an asynchronous copy."""
        return self.instruction.opcode == "cp" and not self.is_write

    @property
    def size(self) -> int:
        """Bytes that each thread accesses."""
        operands = self.instruction.operands
        if on_mbarrier(self.instruction):
            # An mbarrier object is an opaque 64-bit word (PTX ISA section 9.7.13.15).
            return 8
        if self.instruction.opcode == "cp":
            return operands[2].bits if isinstance(operands[2], Immediate) else 16
        return type_bytes(access_type(self.instruction)) * vector_length(self.instruction)


def memory_accesses(program: Program) -> Iterator[MemoryAccess]:
    """Yield all accesses to global and shared memory, in program order."""
    site = 0
    for number, block in enumerate(program.blocks):
        for instruction in block.code:
            for space, address, is_write in _accesses(instruction):
                yield MemoryAccess(site, number, instruction, space, address, is_write)
            site += 1
        # The terminator has a site of its own.
        site += 1


def _accesses(instruction: Instruction) -> list[tuple[str, Address, bool]]:
    """Return the state space, the address and whether it is a write, of each access of an instruction."""
    addresses = [operand for operand in instruction.operands if isinstance(operand, Address)]
    # Not ordered as the accesses of a thread are.
    if is_bulk_copy(instruction):
        return []
    if instruction.opcode == "cp" and len(addresses) >= 2:
        return [("shared", addresses[0], True), ("global", addresses[1], False)]
    if on_mbarrier(instruction):
        # Every operation counts as a write, even test_wait: any plain access to an mbarrier object that is in use is
        # undefined (PTX ISA section 9.7.13.15), a read as well.
        # Another block's object has a generic address.
        space = memory_space(instruction)
        return [("shared" if space == "shared" else "generic", address, True) for address in addresses[:1]]
    if is_surface_access(instruction):
        # The memory behind it is found by its object, as that of a pointer is.
        base = surface_object(instruction)
        return [] if base is None else [("global", Address(base), instruction.opcode == "sust")]
    space = memory_space(instruction)
    if instruction.opcode not in ("ld", "st", "atom", "red", "ldu") or space not in ("global", "shared", "generic"):
        return []
    return [(space, address, instruction.opcode not in ("ld", "ldu")) for address in addresses]


def has_block_scope(instruction: Instruction) -> bool:
    """Whether a fence or a strong operation has ``.cta`` scope, which includes its own block only (section 8.5)."""
    return "cta" in instruction.modifiers


def on_mbarrier(instruction: Instruction) -> bool:
    """Whether an instruction works on an ``mbarrier`` object."""
    # ``mbarrier.arrive`` and its like, and ``cp.async.mbarrier.arrive``.
    return "mbarrier" in (instruction.opcode, *instruction.modifiers[:2])
