"""Reads that only move an object from one place of a thread's memory to another: not yet a use of its bytes.

Unoptimised code copies objects whole, with padding, members nobody has set, and the one byte of an empty class. To set
a bit field it reads the word round it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping

from gpuemu_lsp.engine.emulator.analysis.provenance import UNKNOWN, origins, roots
from gpuemu_lsp.engine.emulator.ir.operands import registers_read, registers_written, terminator_reads
from gpuemu_lsp.engine.emulator.ir.program import Program
from gpuemu_lsp.engine.ptx.model import Address, Immediate, Instruction, Register

_MOVES = frozenset({"mov"})
_MASKED = frozenset({"mov", "and", "or", "cvt"})
"""What may be done to the rest of a word once a bit field has been masked out."""


def is_only_copied(program: Program, load: Instruction) -> bool:
    """Whether what ``load`` reads goes nowhere but into local memory.

    A pointer that was itself loaded counts as one into local memory: it is how such code hands on ``this``.
    """
    known = origins(program)
    uses: dict[str, list[Instruction]] = defaultdict(list)
    for block in program.blocks:
        for instruction in block.code:
            for name in registers_read(instruction):
                uses[name].append(instruction)
    decided = {name for block in program.blocks for name in terminator_reads(block)}
    left = [(name, False) for name in registers_written(load)]
    seen = set(left)
    while left:
        name, masked = left.pop()
        if name in decided:
            return False
        for use in uses[name]:
            masks = use.opcode == "bfi" or (use.opcode == "and" and isinstance(use.operands[-1], Immediate))
            if use.guard is None and (masks or use.opcode in (_MASKED if masked else _MOVES)):
                fresh = {(target, masked or masks) for target in registers_written(use)} - seen
                seen |= fresh
                left += fresh
            elif use.opcode != "st" or not _to_own_memory(use, name, program, known):
                return False
    return True


def _to_own_memory(store: Instruction, name: str, program: Program, known: Mapping[str, frozenset[str]]) -> bool:
    address = next(operand for operand in store.operands if isinstance(operand, Address))
    guard = store.guard.register.name if store.guard is not None else None
    if name == guard or (isinstance(address.base, Register) and address.base.name == name):
        return False
    found = roots(address, known)
    return bool(found) and found <= {*program.local, UNKNOWN}
