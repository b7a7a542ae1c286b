"""Barrier intervals: the blocks that may execute between the same two barriers of the thread block.

A barrier of all threads separates what precedes it from what follows: of accesses to shared memory only those in one
interval can race ("barrier interval" as in GPUVerify and GKLEE). An interval starts at the entry or after a barrier,
and holds all blocks that are reachable from there without passing another barrier.

This is sound only if all threads of a block wait at the *same* barrier instruction each time. ``bar.sync 0`` in the two
sides of a branch pair up as well, since they name one barrier, and then threads are in different intervals at one time.
The barrier resolver checks this during the launch, which is repeated without the assumption where it does not hold.
"""

from __future__ import annotations

from collections.abc import Iterator

from gpuemu_lsp.engine.emulator.analysis.dataflow import reachable
from gpuemu_lsp.engine.emulator.ir.opcodes import is_cluster_barrier
from gpuemu_lsp.engine.emulator.ir.program import EXIT, BarrierSync, Program
from gpuemu_lsp.engine.ptx.model import Immediate


def barrier_intervals(program: Program) -> Iterator[frozenset[int]]:
    """Yield the blocks of each interval: of that which starts at the entry, and of one per full barrier."""

    def following(number: int) -> Iterator[int]:
        block = program.blocks[number]
        # A named or partial barrier lets some threads pass: it does not end the interval.
        if not (isinstance(block.terminator, BarrierSync) and is_full_barrier(block.terminator)):
            yield from (target for target in block.targets if target != EXIT)

    ends = (block.terminator for block in program.blocks)
    starts = {0} | {end.target for end in ends if isinstance(end, BarrierSync) and is_full_barrier(end)}
    for start in sorted(starts - {EXIT}):
        yield frozenset(reachable([start], following))


def is_full_barrier(barrier: BarrierSync) -> bool:
    """Whether it is barrier 0 of all threads of the block, as ``__syncthreads`` is."""
    # Between arrival and wait at a cluster's barrier threads go on.
    if is_cluster_barrier(barrier.instruction):
        return False
    operands = barrier.instruction.operands
    modifiers = barrier.instruction.modifiers
    # With a thread count (the second operand; bar.red has a predicate at the end) only some threads take part, and
    # bar.arrive does not wait.
    whole = len(operands) < (3 if "red" in modifiers else 2) and "arrive" not in modifiers
    name = operands[0] if operands else Immediate(0, "int")
    return whole and isinstance(name, Immediate) and not name.bits
