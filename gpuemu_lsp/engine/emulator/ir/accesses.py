"""What the instructions of a program touch of the memory that threads share."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from gpuemu_lsp.engine.emulator.ir.opcodes import access_type, memory_space, type_bytes, vector_length
from gpuemu_lsp.engine.emulator.ir.program import Program
from gpuemu_lsp.engine.ptx.model import Address, Immediate, Instruction


@dataclass(frozen=True, slots=True)
class MemoryAccess:
    """A place an instruction touches that threads share."""

    site: int
    block: int
    instruction: Instruction
    space: str
    address: Address
    is_write: bool

    @property
    def key(self) -> tuple[int, bool]:
        """What tells it from all others."""
        return self.site, self.is_write

    @property
    def is_copy_source(self) -> bool:
        """Whether it is the read of an asynchronous copy."""
        return self.instruction.opcode == "cp" and not self.is_write

    @property
    def size(self) -> int:
        """How many bytes each thread touches."""
        operands = self.instruction.operands
        if on_mbarrier(self.instruction):
            return 8
        if self.instruction.opcode == "cp":
            return operands[2].bits if isinstance(operands[2], Immediate) else 16
        return type_bytes(access_type(self.instruction)) * vector_length(self.instruction)


def memory_accesses(program: Program) -> Iterator[MemoryAccess]:
    """Give all accesses to global and shared memory, in the order of the code."""
    site = 0
    for number, block in enumerate(program.blocks):
        for instruction in block.code:
            for space, address, stores in _places(instruction):
                yield MemoryAccess(site, number, instruction, space, address, stores)
            site += 1
        site += 1


def _places(instruction: Instruction) -> list[tuple[str, Address, bool]]:
    """Return, for each place an instruction touches: its space, its address, and whether it is written."""
    addresses = [operand for operand in instruction.operands if isinstance(operand, Address)]
    if instruction.opcode == "cp" and len(addresses) >= 2:
        return [("shared", addresses[0], True), ("global", addresses[1], False)]
    if on_mbarrier(instruction):
        return [("shared", address, True) for address in addresses[:1]]
    space = memory_space(instruction)
    if instruction.opcode not in ("ld", "st", "atom", "red", "ldu") or space not in ("global", "shared", "generic"):
        return []
    return [(space, address, instruction.opcode not in ("ld", "ldu")) for address in addresses]


def on_mbarrier(instruction: Instruction) -> bool:
    """Whether an instruction works on an ``mbarrier`` object."""
    return "mbarrier" in (instruction.opcode, *instruction.modifiers[:2])
