"""Programs of the emulator's IR, from a few lines of PTX."""

from __future__ import annotations

from gpuemu_lsp.engine.emulator.analysis.cfg import ControlFlowGraph, build_cfg
from gpuemu_lsp.engine.emulator.frontend.flatten import flatten
from gpuemu_lsp.engine.emulator.ir.program import Program
from gpuemu_lsp.engine.ptx.model import Instruction
from gpuemu_lsp.engine.ptx.parser import parse
from support.emulator_launch import ptx_kernel

_REGISTERS = ".reg .pred %p<9>; .reg .b16 %h<9>; .reg .b32 %r<20>; .reg .b64 %d<20>; .reg .f32 %f<9>;"


def program(body: str, parameters: str = "x y n:u32", before: str = "") -> Program:
    """Return kernel ``k`` with this body, flattened; ``before`` has device functions."""
    text = ptx_kernel(parameters, f"{_REGISTERS}\n{body}")
    head, entry, kernel = text.partition(".visible .entry")
    return flatten(parse(head + before + entry + kernel), "k")


def graph(body: str, **more: str) -> tuple[Program, ControlFlowGraph]:
    """Return a program with its blocks in execution order, and its graph."""
    return build_cfg(program(body, **more))


def instructions(program: Program, opcode: str) -> list[Instruction]:
    """Return all instructions of an opcode, in program order."""
    return [one for block in program.blocks for one in block.code if one.opcode == opcode]


def block_with(program: Program, opcode: str) -> int:
    """Return the number of the only block that contains an opcode."""
    (number,) = {n for n, block in enumerate(program.blocks) if any(one.opcode == opcode for one in block.code)}
    return number
