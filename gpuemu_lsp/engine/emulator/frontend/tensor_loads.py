"""Loads from tensor memory whose registers are read without ``tcgen05.wait::ld``.

The manual asks for the wait. Published kernels leave it out, and are right: ptxas lets the first instruction that reads
a register wait for the load. A wait stands before that instruction here, if it is in the block of the load: what comes
after it comes after the load. Registers that are read in another block do not show that something has waited.
"""

from __future__ import annotations

from dataclasses import replace

from gpuemu_lsp.engine.emulator.ir.opcodes import TENSOR_MEMORY
from gpuemu_lsp.engine.emulator.ir.operands import registers_read, registers_written
from gpuemu_lsp.engine.ptx.model import Instruction

_WAIT = "wait::ld"


def with_waits_of_reads(codes: list[list[Instruction]]) -> list[list[Instruction]]:
    """Return the instructions of each block with waits for loads before the first read of their registers."""
    return [_waiting(code) if any(map(_is_load, code)) else code for code in codes]


def _is_load(instruction: Instruction) -> bool:
    return instruction.opcode == TENSOR_MEMORY and instruction.modifiers[0] == "ld"


def _waiting(code: list[Instruction]) -> list[Instruction]:
    result: list[Instruction] = []
    loaded: set[str] = set()
    for instruction in code:
        if instruction.opcode == TENSOR_MEMORY and instruction.modifiers[0] == _WAIT:
            loaded.clear()
        if not loaded.isdisjoint(registers_read(instruction)):
            result.append(replace(instruction, opcode=TENSOR_MEMORY, modifiers=(_WAIT,), operands=(), guard=None))
            loaded.clear()
        if _is_load(instruction):
            loaded.update(registers_written(instruction))
        result.append(instruction)
    return result
