"""The scheduler of a launch: two levels, one in generated code and one in Python.

Generated level
===============

``run_blocks`` (:mod:`~gpuemu_lsp.engine.emulator.devicelib.block_scheduler`) executes block after block on one CPU
thread. Inside a block it sweeps over the warps: each ready warp's function is called and returns a
:class:`~gpuemu_lsp.engine.emulator.abi.states.Status`. Its decisions are those that ordinary launches need, and
together cost a few nanoseconds per warp:

================================  ====================================================================================
what it sees                      what it does
================================  ====================================================================================
``DONE`` of all warps             ends the block, starts the next one
``BARRIER`` of all threads        releases them, if all wait at one plain ``bar.sync`` (and starts a new epoch)
``YIELD``                         continues with the next warp, for at most ``YIELDS_PER_CALL`` times
``MISSPECULATED``                 calls the fallback version of the warp function at once
================================  ====================================================================================

For everything else it returns 1, with each warp's status in its context. It also returns now and then on its own, so
that limits are tested: after so many yields or barriers.

Python level
============

:class:`Scheduler` decides what happens next:

================================  ====================================================================================
what it sees                      what it does
================================  ====================================================================================
``STOP``                          ends the launch: a trap, an unsupported instruction
``DIVERGED``                      continues the warp in the scalar-PC version
``ASSUMPTION_FAILED``             raises, so that the launch starts again without the assumption
``YIELD`` (time used up)          tests the limits, promotes to better code, or lets other blocks execute
no warp ready                     :class:`~gpuemu_lsp.engine.emulator.launch.barriers.BarrierResolver`: barriers,
                                  collectives, deadlocks
================================  ====================================================================================

Several resident blocks
=======================

Blocks normally execute one after another in one set of records (``ResidentBlock``): deterministic, and their shared
memory stays in the CPU's cache. A kernel whose blocks wait for each other (a grid barrier, a decoupled look-back) would
then never end: the first block spins for a flag that a later one sets. A block that has used up its time more than
``_PATIENCE`` times, or whose warps have the same registers at two looks, therefore stays resident while further blocks
start next to it, up to as many as a GPU holds. The first two looks come soon; how long a block has spun in vain makes
no difference to what the launch does. Each
resident block then gets a turn until it yields; when a round ends no block, as many as there are are started. Once all
blocks have ended the extra records are dropped.

A turn of a block that spins is wasted, and long if its loads acquire, which Python executes. Turns are short at first.
A block whose warps have the same registers after two turns only waits for a change in memory, and keeps short turns;
those of another one become longer.

Hardware likewise makes progress in all of its resident blocks, the number of which is limited.

Limits
======

:mod:`~gpuemu_lsp.engine.emulator.launch.limits`: a launch ends as hung at its limits of steps and time, or when it is
asked to stop. One that is proved to wait without an end ends at once:
:mod:`~gpuemu_lsp.engine.emulator.launch.limits.endless_waits`.
"""

from __future__ import annotations

import ctypes
import time
from typing import Final, Protocol

import numpy as np

from gpuemu_lsp.engine.emulator.abi.states import Status
from gpuemu_lsp.engine.emulator.abi.structs import LaunchRecord, Warp
from gpuemu_lsp.engine.emulator.devicelib.library import DEVICE_LIBRARY
from gpuemu_lsp.engine.emulator.ir.lattice import WARP_SIZE
from gpuemu_lsp.engine.emulator.jit import compile
from gpuemu_lsp.engine.emulator.launch.attendant import BlockAttendant
from gpuemu_lsp.engine.emulator.launch.clusters.schedule import ClusterSchedule, Turn
from gpuemu_lsp.engine.emulator.launch.limits.endless_waits import EndlessWaits, contexts_of
from gpuemu_lsp.engine.emulator.launch.limits.stop_request import StopRequest
from gpuemu_lsp.engine.emulator.launch.setup import SPIN_QUANTUM, YIELDS_PER_CALL, add_resident
from gpuemu_lsp.engine.emulator.launch.state import LaunchReport, PreparedLaunch, ResidentBlock
from gpuemu_lsp.engine.emulator.launch.vector_clocks import VectorClocks
from gpuemu_lsp.engine.emulator.versions.tiering import LaunchProfile, LaunchVersions

_PATIENCE: Final = 8
"""Times that a block may use up its yields before other blocks become resident with it."""

_FIRST_LOOK: Final = 4
"""Yields of each warp up to the first look, so that a block that waits for another one is soon found to do so."""

_MOST_MOVES: Final = 16

_LONG_STRETCH_SECONDS: Final = 0.1
"""Time from which stretches of blocks no longer grow: an interrupt takes effect between two of them."""

_LEAST_SIDE_BY_SIDE_MS: Final = 0.5
"""Time in order from which blocks are executed side by side."""

_MULTIPROCESSORS: Final = 148
_BLOCKS_OF_ONE: Final = 32
_THREADS_OF_ONE: Final = 2048
"""What the largest GPUs have and hold at a time (CUDA programming guide, technical specifications)."""


class OutOfOrderError(Exception):
    """Blocks that were executed side by side share memory, or have something to report."""


class SideBySide(Protocol):
    """Executes blocks on several host threads: :class:`~gpuemu_lsp.engine.emulator.launch.threads.team.BlockTeam`."""

    def run(self, first: int, end: int) -> LaunchReport | None:
        """Execute the blocks from ``first`` to ``end``; return a report if the time limit, or a request, ends it."""

    def hurry(self) -> None:
        """Begin no further blocks, and let generated code return soon."""


class Scheduler:
    """Runs one prepared launch. ``team`` executes blocks side by side; None where all are executed in order."""

    def __init__(
        self,
        prepared: PreparedLaunch,
        clocks: VectorClocks,
        versions: LaunchVersions,
        stop: StopRequest,
        team: SideBySide | None = None,
    ) -> None:
        self._prepared, self._team = prepared, team
        self._versions = versions
        # Each further stretch is twice as long, up to a limit.
        self._stretch = versions.first_blocks
        self._report = LaunchReport()
        self._run_blocks = compile.function(DEVICE_LIBRARY.address("run_blocks"), ctypes.c_void_p)
        self._attendant = BlockAttendant(prepared, clocks, versions, stop, self._report)
        self._limits = self._attendant.limits
        self._quantum = prepared.launch.get(LaunchRecord.QUANTUM)
        held = min(_BLOCKS_OF_ONE, _THREADS_OF_ONE // (prepared.warp_count * WARP_SIZE))
        self._most_residents = _MULTIPROCESSORS * held
        self._clocks = clocks
        self._barriers = self._attendant.barriers
        self._waits = EndlessWaits(prepared, self._barriers, self._run_blocks)

    def run(self) -> LaunchReport:
        """Run all blocks.

        Raises
        ------
        AssumptionError, BarrierAssumptionError, OutOfOrderError
            If the launch must be started again: with other code, or in order.
        """
        prepared = self._prepared
        if prepared.cluster_blocks > 1:
            ClusterSchedule(prepared, self._barriers, self._clocks, self._report).run(self._turn, self._after_blocks)
            self._report.steps = self._steps()
            return self._report
        residents, upcoming = prepared.residents, 0
        while not self._ended:
            if len(residents) == 1 and not residents[0].started:
                started = time.monotonic()
                side_by_side = self._team is not None and self._pays(upcoming)
                run = self._run_side_by_side if side_by_side else self._run_in_order
                upcoming = run(residents[0], upcoming)
                if upcoming >= prepared.blocks and not residents[0].started:
                    break
                if not self._versions.is_final:
                    self._after_blocks(upcoming)
                self._stretch *= 2 if time.monotonic() - started < _LONG_STRETCH_SECONDS else 1
                # A check is not worse for one launch that takes long, but a run has a limit as a whole.
                if prepared.arena.lasting is not None and self._limits.have_passed:
                    self._report.status = "hung"
                continue
            upcoming = self._run_round(upcoming)
        if prepared.launch.get(LaunchRecord.CLAIM_CONFLICT):
            raise OutOfOrderError
        self._report.steps = self._steps()
        return self._report

    def stop(self) -> None:
        """End the launch when generated code returns next."""
        self._report.status = "stopped"

    def hurry(self) -> None:
        """Let generated code return soon, from another thread: at the next yield or barrier."""
        self._attendant.hurry()
        if self._team is not None:
            self._team.hurry()

    def is_over(self, site: int) -> bool:
        """Return whether the launch has ended, as it does at a call for which no time is left.

        A call takes as long as thousands of backward jumps, after which alone a warp yields.
        """
        if not self._ended and self._limits.have_passed:
            self._limits.report_call(site)
            self.hurry()
        return self._report.status == "hung"

    def _after_blocks(self, done: int) -> None:
        """Continue in better code, if that pays, after ``done`` blocks."""
        # Between blocks no warp is suspended: the only point at which speculative code can be entered.
        to_come = self._attendant.elapsed_ms() * (self._prepared.blocks - done) / max(done, 1)
        self._attendant.promote(to_come, self.profile(done))

    def profile(self, blocks: int) -> LaunchProfile:
        """Return the divergence seen in the first ``blocks`` blocks."""
        return self._attendant.profile(blocks)

    def _turn(self, resident: ResidentBlock) -> Turn:
        """Execute a block of a cluster until it ends, has used up its time, or waits for another block."""
        launch = self._prepared.launch
        while not self._ended:
            # Each warp may spin for one quantum: it probably waits for another block.
            launch.set(LaunchRecord.YIELDS_LEFT, self._prepared.warp_count)
            if not self._run_blocks(launch.address):
                self._limits.note_turn(changed=True)
                return Turn.ENDED
            if self._attendant.attend(resident):
                resident.moves = 0 if self._is_unchanged(resident) else 1
                return Turn.USED_UP
            if not any(warp.get(Warp.STATUS) == Status.READY for warp in self._attendant.warps(resident)):
                return Turn.WAITS
        return Turn.USED_UP

    @property
    def _ended(self) -> bool:
        return self._report.status != "completed"

    # ---- choice of blocks --------------------------------------------------------------------------------------------

    def _run_in_order(self, resident: ResidentBlock, upcoming: int) -> int:
        """Run blocks one after another until a stretch has ended or one must stay resident; return the next block."""
        launch = self._prepared.launch
        self._prepared.focus(resident)
        launch.set(LaunchRecord.NEXT_BLOCK, upcoming)
        last = self._prepared.blocks
        launch.set(LaunchRecord.BLOCK_END, min(upcoming + self._stretch, last))
        launch.set(LaunchRecord.IN_BLOCK, 0)
        launch.set(LaunchRecord.YIELDS_LEFT, min(_FIRST_LOOK * self._prepared.warp_count, YIELDS_PER_CALL))
        current = -1
        while not self._ended and self._run_blocks(launch.address):
            number = launch.get(LaunchRecord.NEXT_BLOCK)
            if number != current:
                current = number
                resident.start(number)
                resident.started = False
            used_up = self._attendant.attend(resident)
            if used_up:
                resident.moves = 0 if self._is_unchanged(resident) else 1
                if resident.yields == 1:
                    launch.set(LaunchRecord.YIELDS_LEFT, self._prepared.warp_count)
            waits = used_up and (resident.moves == 0 or resident.yields > _PATIENCE)
            if waits and last > number + 1:
                resident.started = True
                return number + 1
            if last == number + 1:
                self._end_if_stuck([resident], quiet=used_up and resident.moves == 0)
        return launch.get(LaunchRecord.NEXT_BLOCK)

    def _pays(self, upcoming: int) -> bool:
        """Return whether the blocks from ``upcoming`` on take long enough to be executed side by side."""
        launch, blocks = self._prepared.launch, self._prepared.blocks
        if self._report.incidents or launch.get(LaunchRecord.EVENT_COUNT) or blocks - upcoming < 2:
            return False
        each = self._attendant.elapsed_ms() / upcoming if upcoming else self._prepared.kernel.block_ms
        return each * (blocks - upcoming) >= _LEAST_SIDE_BY_SIDE_MS

    def _run_side_by_side(self, _: ResidentBlock, upcoming: int) -> int:
        """Run blocks on several threads until a stretch has ended; return the next block."""
        assert self._team is not None
        blocks = self._prepared.blocks
        end = blocks if self._versions.is_final else min(upcoming + self._stretch, blocks)
        report = self._team.run(upcoming, end)
        if report is not None:
            self._report.status = report.status
            self._report.incidents.update(report.incidents)
            self._report.counts.update(report.counts)
        return end

    def _run_round(self, upcoming: int) -> int:
        """Give each resident block a turn; add a resident block if none has ended. Return the next block to start."""
        prepared = self._prepared
        launch = prepared.launch
        progress = False
        for resident in prepared.residents:
            if self._ended:
                return upcoming
            if not resident.started:
                if upcoming >= prepared.blocks:
                    continue
                resident.start(upcoming)
                upcoming += 1
                launch.set(LaunchRecord.IN_BLOCK, 0)
            else:
                launch.set(LaunchRecord.IN_BLOCK, 1)
            prepared.focus(resident)
            launch.set(LaunchRecord.NEXT_BLOCK, resident.number)
            launch.set(LaunchRecord.BLOCK_END, resident.number + 1)
            # One quantum for each warp: the block probably waits for another one, and spinning does not help that one.
            # If it waits for itself, every warp must have had its turn.
            launch.set(LaunchRecord.YIELDS_LEFT, prepared.warp_count)
            launch.set(LaunchRecord.BARRIERS_LEFT, 1)
            launch.set(LaunchRecord.QUANTUM, min(SPIN_QUANTUM << resident.moves, self._quantum))
            while not self._ended:
                if not self._run_blocks(launch.address):
                    resident.started, progress = False, True
                    self._limits.note_turn(changed=True)
                    break
                if self._is_unchanged(resident):
                    self._continue_spinning(resident)
                    break
                resident.moves = min(resident.moves + 1, _MOST_MOVES)
                if self._attendant.attend(resident):
                    break
        launch.set(LaunchRecord.QUANTUM, self._quantum)
        started = [one for one in prepared.residents if one.started]
        full = upcoming >= prepared.blocks or len(prepared.residents) >= self._most_residents
        unchanged = all(one.moves == 0 and one.last_contexts is not None for one in started)
        self._end_if_stuck(started, quiet=not progress and full and unchanged)
        if not progress:
            count = len(prepared.residents)
            for _ in range(min(count, prepared.blocks - upcoming, self._most_residents - count)):
                add_resident(prepared)
        if upcoming >= prepared.blocks and not any(resident.started for resident in prepared.residents):
            del prepared.residents[1:]
        return upcoming

    def _end_if_stuck(self, started: list[ResidentBlock], *, quiet: bool) -> None:
        """End the launch if its blocks that have started, all that can, wait without an end."""
        if started and not self._ended and self._waits.note(quiet=quiet) and self._waits.proven(started):
            self._limits.report_wait(started[0], self._attendant.warps(started[0]))

    def _is_unchanged(self, resident: ResidentBlock) -> bool:
        """Return whether the warps of a block are as they were when they were looked at last: it spins."""
        contexts = contexts_of(self._prepared, resident)
        last, resident.last_contexts = resident.last_contexts, contexts
        unchanged = last is not None and np.array_equal(contexts, last)
        self._limits.note_turn(changed=not unchanged)
        return unchanged

    def _continue_spinning(self, resident: ResidentBlock) -> None:
        """Let the warps of a block go on: what else there is to do for it was done when they were looked at last."""
        resident.moves = 0
        statuses = self._prepared.warp_values(resident, Warp.STATUS)
        statuses[statuses == Status.YIELD] = Status.READY
        if self._limits.have_passed:
            self._limits.exceeded(resident, self._attendant.warps(resident))

    def _steps(self) -> int:
        each = (self._prepared.warp_values(resident, Warp.STEPS).sum() for resident in self._prepared.residents)
        return self._prepared.launch.get(LaunchRecord.STEPS) + sum(map(int, each))
