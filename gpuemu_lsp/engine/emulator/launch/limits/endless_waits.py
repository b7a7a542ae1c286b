"""A proof that a launch never goes on: each thread that is left waits for a change that none of them makes.

A launch whose blocks have all started, or that has as many as a GPU holds, is *quiet* when no block has ended for a
while and the registers of all warps stay the same. That alone proves nothing: a warp may count in memory what another
one waits for. :meth:`EndlessWaits.proven` therefore lets each warp that can execute take one backward jump, and asks
for two things:

- The warp is then as it was, at the same block of the control-flow graph.
- No block on a path from there to that jump can change memory, or reads a clock. With one backward jump, these are the
  blocks that the jump's header leads to, and that lead to the jump, without another one.

If both hold for all warps, memory is the same before and after, and each warp has taken one iteration that led it back:
so does every further one, in any order. Warps in the version with one program counter per lane take more than one jump
at a time. There all blocks of the strongly connected component count: a lane that has left it does not come back.

Other warps have ended, or wait at a barrier for those. Nothing is proved of several groups of lanes of one warp that
wait in loops of their own, as they have their turns one after another, of waits in clusters, and of memory that
something else may write.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

import numpy as np
import numpy.typing as npt

from gpuemu_lsp.engine.emulator.abi.records import lanes_of
from gpuemu_lsp.engine.emulator.abi.states import EXITED_PC, Resume, Status
from gpuemu_lsp.engine.emulator.abi.structs import LaunchRecord, Warp
from gpuemu_lsp.engine.emulator.ir.program import BasicBlock, Branch, Jump, Switch
from gpuemu_lsp.engine.emulator.launch.barriers import BarrierResolver
from gpuemu_lsp.engine.emulator.launch.state import PreparedLaunch, ResidentBlock
from gpuemu_lsp.engine.emulator.ops import supports
from gpuemu_lsp.engine.ptx.model import Instruction

_WITHOUT_EFFECT = frozenset(("ld", "ldu", "fence", "membar", "nanosleep", "cvta", "isspacep", "vote", "activemask"))
"""Opcodes that change no memory, besides those of elementwise instructions."""

_TESTS = frozenset(("test_wait", "try_wait"))
_CHANGING = ("%clock", "%globaltimer", "%pm")
"""Special registers that have another value each time, by the beginning of their name."""

_SETTINGS = (LaunchRecord.QUANTUM, LaunchRecord.YIELDS_LEFT, LaunchRecord.BARRIERS_LEFT, LaunchRecord.BLOCK_END)


class EndlessWaits:
    """Looks whether the blocks of a launch wait without an end; ``run_blocks`` is the generated block scheduler."""

    def __init__(self, prepared: PreparedLaunch, barriers: BarrierResolver, run_blocks: Callable[[int], int]) -> None:
        self._prepared, self._barriers, self._run_blocks = prepared, barriers, run_blocks
        self._quiet = 0
        self._harmless: dict[int, bool] = {}

    def note(self, *, quiet: bool) -> bool:
        """Note whether the launch is quiet; return whether a proof is worth its time: it costs little at first."""
        self._quiet = self._quiet + 1 if quiet else 0
        return self._quiet >= 2 and self._quiet.bit_count() == 1

    def proven(self, started: Iterable[ResidentBlock]) -> bool:
        """Return whether these blocks, all that have started and not ended, wait without an end.

        Otherwise they have merely executed a little further.
        """
        prepared = self._prepared
        lasting = prepared.arena.lasting
        if prepared.kernel.program.recursive or (lasting is not None and lasting.others_write()):
            return False
        kept = [(setting, prepared.launch.get(setting)) for setting in _SETTINGS]
        try:
            return all(self._waits(resident) for resident in started)
        finally:
            for setting, value in kept:
                prepared.launch.set(setting, value)

    def _waits(self, resident: ResidentBlock) -> bool:
        prepared, launch = self._prepared, self._prepared.launch
        statuses = prepared.warp_values(resident, Warp.STATUS)
        statuses[statuses == Status.YIELD] = Status.READY
        if not self._may_wait(resident, statuses):
            return False
        prepared.focus(resident)
        launch.set(LaunchRecord.IN_BLOCK, 1)
        launch.set(LaunchRecord.NEXT_BLOCK, resident.number)
        launch.set(LaunchRecord.BLOCK_END, resident.number + 1)
        launch.set(LaunchRecord.QUANTUM, 1)
        launch.set(LaunchRecord.YIELDS_LEFT, int(np.count_nonzero(statuses == Status.READY)))
        launch.set(LaunchRecord.BARRIERS_LEFT, 1)
        before = contexts_of(prepared, resident)
        if not self._run_blocks(launch.address):
            resident.started = False
            return False
        statuses[statuses == Status.YIELD] = Status.READY
        if np.isin(statuses, (Status.READY, Status.BARRIER, Status.DONE)).all():
            self._barriers.release(resident, [prepared.warp(resident, index) for index in range(prepared.warp_count)])
        return np.array_equal(before, contexts_of(prepared, resident))

    def _may_wait(self, resident: ResidentBlock, statuses: npt.NDArray[np.integer]) -> bool:
        """Return whether no warp of a block can change memory, as far as the code says, and one can execute."""
        if not np.isin(statuses, (Status.READY, Status.BARRIER, Status.DONE)).all():
            return False
        ready = np.flatnonzero(statuses == Status.READY).tolist()
        for index in ready:
            warp = self._prepared.warp(resident, index)
            resume = warp.get(Warp.RESUME)
            if resume >= Resume.FIRST_BLOCK:
                if not self._is_harmless(resume - Resume.FIRST_BLOCK, self._iteration):
                    return False
            elif resume == Resume.SAVED and not warp.get(Warp.COLLECTIVE_MASK):
                pcs = warp.row(Warp.PC)
                waiting = warp.get(Warp.BARRIER_MASK)
                lanes = lanes_of(warp.get(Warp.LIVE_MASK) & ~waiting)
                places = {int(pcs[lane]) for lane in lanes} - {EXITED_PC}
                if not all(self._is_harmless(~place, lambda key: self._component(~key)) for place in places):
                    return False
            else:
                return False
        return bool(ready)

    def _is_harmless(self, key: int, blocks: Callable[[int], set[int]]) -> bool:
        if key not in self._harmless:
            program = self._prepared.kernel.program
            self._harmless[key] = all(_changes_nothing(program.blocks[number]) for number in blocks(key))
        return self._harmless[key]

    def _iteration(self, header: int) -> set[int]:
        """Return the blocks on the paths from a block to a backward jump to it, without another one."""
        graph = self._prepared.kernel.graph
        forward = _reached({header}, lambda n: [to for to in graph.successors[n] if to > n])
        latches = {source for source, target in graph.back_edges if target == header and source in forward}
        return forward & _reached(latches, lambda n: [of for of in graph.predecessors[n] if of < n])

    def _component(self, number: int) -> set[int]:
        """Return the blocks that a block leads to, and that lead to it."""
        graph = self._prepared.kernel.graph
        after = _reached({number}, lambda n: graph.successors[n])
        return after & _reached({number}, lambda n: graph.predecessors[n])


def contexts_of(prepared: PreparedLaunch, resident: ResidentBlock) -> npt.NDArray[np.int64]:
    """Return a copy of the contexts of a block's warps, a row each, without their count of backward jumps."""
    words = prepared.kernel.context_bytes // 8
    contexts = resident.warps.table64(words * prepared.warp_count).reshape(-1, words).copy()
    contexts[:, Warp.STEPS >> 3] = 0
    return contexts


def _reached(start: set[int], following: Callable[[int], Sequence[int]]) -> set[int]:
    found, waiting = set(start), list(start)
    while waiting:
        for number in following(waiting.pop()):
            if number not in found:
                found.add(number)
                waiting.append(number)
    return found


def _changes_nothing(block: BasicBlock) -> bool:
    return isinstance(block.terminator, Jump | Branch | Switch) and all(map(_has_no_effect, block.code))


def _has_no_effect(instruction: Instruction) -> bool:
    if any(name.startswith(_CHANGING) for operand in instruction.operands for name in [getattr(operand, "name", "")]):
        return False
    opcode = instruction.opcode
    if opcode == "mbarrier":
        return bool(_TESTS.intersection(instruction.modifiers))
    return opcode in _WITHOUT_EFFECT or supports(instruction)
