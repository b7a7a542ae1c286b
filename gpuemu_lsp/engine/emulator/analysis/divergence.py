"""Divergence analysis: uniform, affine and varying registers; blocks that may execute divergently.

SIMT execution on vectors
    A warp is 32 lanes that execute the same block of LLVM vector code under an active mask. Each lane has a program
    counter; the lanes with the lowest block number run, and the others wait until the running lanes reach their block
    (:mod:`.cfg` explains how the numbering makes lanes reconverge). As long as a warp is converged nothing of this is
    needed: a uniform branch is a scalar compare and jump, no mask is applied, and a uniform or affine register is a
    scalar. This analysis decides where that is the case. The approach is whole-function vectorisation (Karrenberg and
    Hack, CGO 2011); the terms are those of LLVM's "Convergence and Uniformity".

Data divergence
    Registers are classified in the lattice uniform < affine < varying (:mod:`..ir.lattice`) by the transfer functions
    of :mod:`.shape_propagation`: ``%tid.x`` is affine, an atomic or a shuffle is varying, a load from a uniform address
    is uniform, and sums and multiples of affine values by a constant stay affine (:mod:`.affine_rules`).

Control divergence (sync divergence)
    If a branch depends on a value that is not uniform, its lanes may take different successors. Analyses on SSA then
    mark the phi nodes where the sides join. The IR here is not SSA, and the criterion is one of storage: a uniform
    register has one scalar for the whole warp. While lanes run block D, other lanes wait at a block T. If D writes a
    register that is live into T, one scalar cannot hold the values of both groups, and the register becomes varying.
    Because the lowest block runs first, only pairs D < T matter.

Temporal divergence
    A value can be uniform in every iteration of a loop and still differ between lanes after it, when they leave in
    different iterations. The lanes that have left wait at the reconvergence point T while the others write the register
    in the loop, so the same rule covers it. For instance::

        block                               branch in 1: the condition is varying
          0   k = 0                           sides             {2, 1} and {} (straight to 3)
          1   while (k < n[t])   --> 3        reconvergence     3 = ipdom(1)
          2       k = k + 1      --> 1        defined in {1,2}  k
          3   y[t] = k                        live into 3       k   =>  k is varying, 1 and 2 are divergent

        lane      0  1  2  3      n = 2, 0, 1, 2
        block 1   x  x  x  x      lane 1 leaves and waits at 3
        block 2   x  .  x  x
        block 1   x  .  x  x      lane 2 leaves
        block 2   x  .  .  x
        block 1   x  .  .  x      lanes 0 and 3 leave: no lane is left below 3
        block 3   x  x  x  x      reconverged; k = 2, 0, 1, 2

Fixed point
    The propagation starts optimistically with no value known and only ever raises values. When it is stable, branches
    that turned out to be divergent force registers to varying as above, which may make further branches divergent. Both
    steps are monotone on a finite lattice, so that the alternation ends.

Divergent and partial blocks
    A block is *divergent* if it may run while live lanes wait elsewhere: its edges must compare their target with the
    lowest waiting block. It is *partial* if it may run without all 32 lanes: memory accesses need the active mask.
    After ``if (i >= n) return;`` blocks are partial but not divergent, since lanes that have exited wait for nothing.

Independent thread scheduling
    Since Volta every lane makes forward progress on its own (CUDA C++ Programming Guide, "Independent Thread
    Scheduling"): a lane may spin on a lock that is held by a lane of the same warp, which waits for it at the
    reconvergence point. An order of blocks alone would never leave that loop. Likewise ``bar.sync`` and collectives
    with ``.sync`` may be reached by some lanes of a warp while others are elsewhere. The analysis need not exclude
    this, because code that relies on it checks, and hands the warp over to the *scalar-PC version*, whose assumptions
    are :func:`all_divergent`. There, lanes at different program counters take turns, and lanes can wait one by one.

    ===========================================================  =====================================================
    situation                                                    code that relies on this analysis
    ===========================================================  =====================================================
    irreducible control flow, recursion                          does not exist (``reconverges`` is False)
    a barrier or collective that lanes reach divergently         hands over at that instruction
    a loop that runs long while other lanes wait                 hands over when its budget of iterations is used up
    a convergent block reached without all live lanes            hands over before the block
    a branch speculated uniform that diverges                    continues in the fallback version of the same analysis
    an affine 32-bit value that wraps where it is widened        restarts the launch with the register pinned varying
    ===========================================================  =====================================================

    A barrier in divergent code is thus run as the hardware runs it, lane by lane, and reported by the barrier resolver.

Further reading: Coutinho, Sampaio, Pereira and Meira, "Divergence analysis and optimizations", PACT 2011, and Sampaio
et al., "Divergence analysis", TOPLAS 35(4), 2013, for affine values; Rosemann, Moll and Hack, "An abstract
interpretation for SPMD divergence on reducible control flow graphs", POPL 2021, for sync and temporal divergence in
SSA.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass

from gpuemu_lsp.engine.emulator.analysis.cfg import ControlFlowGraph
from gpuemu_lsp.engine.emulator.analysis.dataflow import reachable
from gpuemu_lsp.engine.emulator.analysis.liveness import Liveness
from gpuemu_lsp.engine.emulator.analysis.shape_propagation import ShapePropagation, integer_constants
from gpuemu_lsp.engine.emulator.ir.lattice import VARYING, ThreadBlockShape, VectorShape
from gpuemu_lsp.engine.emulator.ir.program import EXIT, Branch, Program, Switch


@dataclass(frozen=True, slots=True)
class DivergenceInfo:
    """Result of the analysis: shapes of registers, and sets of blocks.

    ``divergent``: blocks that may run while live lanes of the warp wait elsewhere. ``partial``: blocks that may run
    without all 32 lanes. ``constants``: registers known to hold one integer. ``reconverges`` False means that block
    order does not make lanes reconverge, and only the scalar-PC version is correct. ``divergent_loop_branches``: blocks
    whose divergent branch decides whether lanes enter a loop or leave it, so that all lanes continue after it.
    """

    shapes: Mapping[str, VectorShape]
    divergent: frozenset[int]
    partial: frozenset[int]
    constants: Mapping[str, int]
    reconverges: bool
    divergent_loop_branches: frozenset[int] = frozenset()


def all_divergent(program: Program) -> DivergenceInfo:
    """Return the assumptions of the scalar-PC version: every register varies, every block may run divergently."""
    everywhere = frozenset(range(len(program.blocks)))
    shapes = dict.fromkeys(program.registers, VARYING)
    return DivergenceInfo(shapes, everywhere, everywhere, integer_constants(program), reconverges=True)


def analyse_divergence(
    program: Program,
    graph: ControlFlowGraph,
    live: Liveness,
    block: ThreadBlockShape,
    pinned: Set[str],
    frame_bytes: int,
    speculated_uniform: Set[int] = frozenset(),
) -> DivergenceInfo:
    """Classify every register and every block.

    Parameters
    ----------
    block
        Shapes of ``%tid`` in the thread blocks that the code is for.
    pinned
        Registers that are varying whatever the transfer functions say.
    frame_bytes
        Size of a thread's local memory: the stride between lanes of a local variable's generic address.
    speculated_uniform
        Blocks whose branch is taken to be uniform although its condition may vary. The generated code must check.
    """
    propagation = ShapePropagation(program, block, pinned, frame_bytes)
    # A register that is read before it is written holds the same "uninitialised" value in all lanes.
    propagation.initialise(live.registers(live.live_in[0]))
    divergent: set[int] = set()
    # With a ragged block size any block may run in the last warp, which is not full.
    partial: set[int] = set() if block.full_warps else set(range(len(program.blocks)))
    reconverges = graph.reducible
    # A speculated branch is treated as if it had been visited already: it forces nothing to varying.
    visited: set[int] = set(speculated_uniform)
    loop_branches: set[int] = set()
    while True:
        propagation.solve()
        # Values only rise: a branch that is divergent stays so, and needs to be visited once.
        found = [b for b in range(len(program.blocks)) if b not in visited and _diverges(program, b, propagation)]
        if not found:
            break
        visited.update(found)
        forced = 0
        for number in found:
            sides, reconvergence = _divergent_sides(program, graph, number)
            region = set().union(*sides)
            partial |= region
            if _decides_loop(program, graph, number, region):
                loop_branches.add(number)
            # Lanes in such a block would run after the lanes that already wait at the reconvergence point.
            if reconvergence < len(program.blocks) and any(b >= reconvergence for b in region):
                reconverges = False
            forced |= _propagate_divergence(sides, reconvergence, live, divergent)
        propagation.force_varying(live.registers(forced))
    return DivergenceInfo(
        propagation.shapes(),
        frozenset(divergent),
        frozenset(partial),
        propagation.constants,
        reconverges,
        frozenset(loop_branches),
    )


def _diverges(program: Program, number: int, propagation: ShapePropagation) -> bool:
    """Whether lanes may leave a block to different successors."""
    end = program.blocks[number].terminator
    if isinstance(end, Branch):
        return not propagation.shape(end.guard.register).uniform
    if isinstance(end, Switch):
        return not propagation.shape(end.index).uniform
    return False


def _decides_loop(program: Program, graph: ControlFlowGraph, number: int, region: Set[int]) -> bool:
    """Whether a divergent branch controls a loop whose lanes all continue after it.

    Such branches are worth speculating: a loop over ``i = tid; i < n; i += blockDim`` diverges in at most one warp.
    """
    end = program.blocks[number].terminator
    # A side that exits needs no speculation: the remaining lanes stay converged.
    if not isinstance(end, Branch) or EXIT in (end.taken, end.not_taken):
        return False
    return any(latch in region and header in region for latch, header in graph.back_edges)


def _divergent_sides(program: Program, graph: ControlFlowGraph, number: int) -> tuple[list[set[int]], int]:
    """Return, for each target of a branch, the blocks reachable before reconvergence; and the reconvergence point."""
    reconvergence = graph.reconvergence_point[number]
    sides = []
    for target in dict.fromkeys(program.blocks[number].targets):
        starts = () if target in (EXIT, reconvergence) else (target,)
        # Lanes stop at the reconvergence point: what follows is executed converged.
        sides.append(reachable(starts, lambda block: (t for t in graph.successors[block] if t != reconvergence)))
    return sides, reconvergence


def _propagate_divergence(sides: Sequence[set[int]], reconvergence: int, live: Liveness, divergent: set[int]) -> int:
    """Add the blocks that run while lanes of another side wait to ``divergent``; return the registers that must vary.

    The registers are bits of ``live``: those defined in a block D and live into a block T > D where lanes wait.
    """
    forced = 0
    count = len(live.live_in)
    for i, side in enumerate(sides):
        waiting: set[int] = set()
        for j, other in enumerate(sides):
            if j != i:
                waiting |= other
        # At the exit nothing is live, and no lane waits for another to end.
        if reconvergence < count:
            waiting.add(reconvergence)
        if not side or not waiting:
            continue
        order = sorted(waiting)
        needed = 0
        # Downwards, so that each waiting block is added once for all the blocks below it.
        for block in sorted(side, reverse=True):
            while order and order[-1] > block:
                needed |= live.live_in[order.pop()]
            forced |= live.defined[block] & needed
        highest = max(waiting)
        divergent.update(b for b in side if b < highest)
    return forced
