"""Which accesses to shared memory can happen between the same two barriers: only these can race.

A block's threads go from one meeting of them all to the next. What they may do on the way is what can be reached from
there without such a barrier. This holds while all threads wait at one and the same barrier of the program each time,
which the scheduler sees: see :meth:`.kernels.Kernel.distrust_barriers`.
"""

from __future__ import annotations

from collections.abc import Iterator

from gpuemu_lsp.engine.emulator.ir.program import EXIT, BarrierSync, Program
from gpuemu_lsp.engine.ptx.model import Immediate


def barrier_intervals(program: Program) -> Iterator[frozenset[int]]:
    """Give, for the entry and each barrier of all threads, the blocks that may run before the next such barrier."""
    ends = (block.terminator for block in program.blocks)
    starts = {0} | {end.target for end in ends if isinstance(end, BarrierSync) and is_full_barrier(end)}
    for start in sorted(starts - {EXIT}):
        seen, left = {start}, [start]
        while left:
            block = program.blocks[left.pop()]
            if not (isinstance(block.terminator, BarrierSync) and is_full_barrier(block.terminator)):
                fresh = set(block.targets) - seen - {EXIT}
                seen |= fresh
                left += fresh
        yield frozenset(seen)


def is_full_barrier(barrier: BarrierSync) -> bool:
    """Whether all threads of the block wait at a barrier, and at barrier 0."""
    operands = barrier.instruction.operands
    modifiers = barrier.instruction.modifiers
    whole = len(operands) < (3 if "red" in modifiers else 2) and "arrive" not in modifiers
    name = operands[0] if operands else Immediate(0, "int")
    return whole and isinstance(name, Immediate) and not name.bits
