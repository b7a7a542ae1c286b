"""Accesses whose address is computed from a floating-point number that was loaded."""

from __future__ import annotations

from collections.abc import Callable

from gpuemu_lsp.engine.emulator.analysis.cfg import build_cfg
from gpuemu_lsp.engine.emulator.frontend.flatten import flatten
from gpuemu_lsp.engine.emulator.ir.opcodes import memory_space
from gpuemu_lsp.engine.emulator.ir.operands import address_operand, registers_read, registers_written
from gpuemu_lsp.engine.ptx.model import Instruction, Location, Register
from gpuemu_lsp.engine.ptx.parser import parse

_LOADS = frozenset({"ld", "ldu", "atom", "tex", "tld4", "suld", "call", "shfl"})
_FLOATS = ("f16", "f32", "f64", "bf16")


def accesses_indexed_by_floats(ptx: str, entry: str) -> frozenset[Location]:
    """Return the source locations of these accesses.

    Values are followed through registers, and not through memory.
    """
    program, _graph = build_cfg(flatten(parse(ptx), entry))
    instructions = [instruction for block in program.blocks for instruction in block.code]
    loaded = _reached(instructions, _is_load)
    indices = _reached(instructions, lambda one: _is_conversion(one) and not loaded.isdisjoint(registers_read(one)))
    found: set[Location] = set()
    for instruction in instructions:
        address = address_operand(instruction)
        if address is None or instruction.location is None or not isinstance(address.base, Register):
            continue
        if address.base.name in indices:
            found.add(instruction.location)
    return frozenset(found)


def _reached(instructions: list[Instruction], starts: Callable[[Instruction], bool]) -> set[str]:
    """Return the registers that some instructions write, and those computed from them."""
    found: set[str] = set()
    for one in instructions:
        if starts(one):
            found.update(registers_written(one))
    before = -1
    while len(found) != before:
        before = len(found)
        for one in instructions:
            # The value that a load returns is another one than its address.
            if one.opcode not in _LOADS and not found.isdisjoint(registers_read(one)):
                found.update(registers_written(one))
    return found


def _is_load(instruction: Instruction) -> bool:
    return instruction.opcode in _LOADS and memory_space(instruction) != "param"


def _is_conversion(instruction: Instruction) -> bool:
    """Return whether an instruction converts a floating-point number to an integer."""
    types = [one for one in instruction.modifiers if one.lstrip("busf").isdigit() or one == "bf16"]
    return instruction.opcode == "cvt" and len(types) == 2 and types[1] in _FLOATS and types[0] not in _FLOATS
