"""Limits of a launch, and what is reported of one that is stopped.

A launch ends as hung when a warp exceeds ``max_steps`` backward jumps or the launch ``max_seconds``, without the time
spent on compilation, or when it is asked to stop. Each time the report names a loop: that of the warp that executes.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from gpuemu_lsp.engine.cause import Cause
from gpuemu_lsp.engine.emulator.abi.records import RecordView, lanes_of
from gpuemu_lsp.engine.emulator.abi.states import Resume, Status
from gpuemu_lsp.engine.emulator.abi.structs import LaunchRecord, Warp
from gpuemu_lsp.engine.emulator.analysis.counted_loops import is_counted
from gpuemu_lsp.engine.emulator.ir.lattice import WARP_SIZE
from gpuemu_lsp.engine.emulator.ir.program import EXIT
from gpuemu_lsp.engine.emulator.launch.limits.stop_request import StopRequest
from gpuemu_lsp.engine.emulator.launch.state import Incident, LaunchReport, PreparedLaunch, ResidentBlock
from gpuemu_lsp.engine.emulator.versions.tiering import LaunchVersions
from gpuemu_lsp.engine.time_limit import TimeLimit

_ENDLESS = "this loop does not terminate"
_MESSAGES: Final = {
    Cause.STEP_LIMIT: f"{_ENDLESS}: the step limit was reached",
    Cause.LONG_LOOP: "this loop, which counts to a bound, did not come to its end in {steps:,} steps",
    Cause.TIME_LIMIT: "this loop did not come to its end in {seconds:g} s",
    Cause.TIME_LIMIT_WAITING: f"{_ENDLESS}: the time limit was reached",
    Cause.ENDLESS_WAIT: f"{_ENDLESS}: it waits for a change that no thread makes, as all that are left wait",
    Cause.STOPPED: "the launch was stopped in this loop",
    Cause.STOPPED_WAITING: "the launch was stopped while it waited in this loop",
}


class LaunchLimits:
    """The limits of one launch, which adds to ``report`` where it was stopped."""

    def __init__(
        self, prepared: PreparedLaunch, versions: LaunchVersions, report: LaunchReport, stop: StopRequest
    ) -> None:
        self._prepared, self._versions, self._report, self._stop = prepared, versions, report, stop
        self._limit = TimeLimit(prepared.request.max_seconds)
        self._unchanged_turns = 0

    @property
    def have_passed(self) -> bool:
        """Whether the launch has used up its time, or is asked to stop."""
        return self._stop.reason is not None or self._limit.left() + self._versions.compile_seconds < 0

    def note_turn(self, *, changed: bool) -> None:
        """Note a turn of a block, after which its warps were as after the turn before, or not."""
        self._unchanged_turns = 0 if changed else self._unchanged_turns + 1

    def exceeded(self, resident: ResidentBlock, warps: list[RecordView]) -> bool:
        """End the launch if it has exceeded its steps or its time, or is asked to stop."""
        if self._report.status != "completed":
            return True
        kernel = self._prepared.kernel
        live = [(index, warp) for index, warp in enumerate(warps) if warp.get(Warp.STATUS) != Status.DONE]
        for index, warp in live:
            if warp.get(Warp.STEPS) > self._prepared.request.max_steps:
                counted = is_counted(kernel.program, kernel.graph, self._block_of(warp)[0])
                self._report_hang(resident, index, warp, Cause.LONG_LOOP if counted else Cause.STEP_LIMIT)
                return True
        if live and self.have_passed:
            index, warp = _executing(live)
            waits, stopped = self._only_waits(), self._stop.reason is not None
            limit = Cause.TIME_LIMIT_WAITING if waits else Cause.TIME_LIMIT
            stop = Cause.STOPPED_WAITING if waits else Cause.STOPPED
            self._report_hang(resident, index, warp, stop if stopped else limit)
            return True
        return False

    def report_wait(self, resident: ResidentBlock, warps: list[RecordView]) -> None:
        """End the launch, as it is proved to wait without an end."""
        self._report_hang(resident, *_executing(list(enumerate(warps))), Cause.ENDLESS_WAIT)

    def report_call(self, site: int) -> None:
        """End the launch at a call that device code makes, such as ``printf``, for which no time is left."""
        seconds, block = self._prepared.request.max_seconds, self._prepared.launch.get(LaunchRecord.NEXT_BLOCK)
        message = f"the launch did not come to its end in {seconds:g} s, and made calls such as this one until then"
        cause = Cause.TIME_LIMIT if self._stop.reason is None else Cause.STOPPED
        self._report.add(Incident("sync/hang", message, site, 0, block, cause=cause))
        self._report.status = "hung"

    def _only_waits(self) -> bool:
        """Return whether the warps of all blocks that have started had the same registers after two turns, or wait.

        What a block waits for may have happened after its last turn: each has had one since a block last changed.
        """
        residents, status = self._prepared.residents, self._prepared.warp_values
        started = [one for one in residents if one.started] or residents[:1]
        runs = [one for one in started if np.isin(status(one, Warp.STATUS), (Status.READY, Status.YIELD)).any()]
        same = all(one.moves == 0 and one.last_contexts is not None for one in runs)
        return same and self._unchanged_turns >= len(runs)

    def _report_hang(self, resident: ResidentBlock, index: int, warp: RecordView, cause: Cause) -> None:
        site, lane = self._place_of(warp)
        thread, block = index * WARP_SIZE + lane, resident.number
        request = self._prepared.request
        message = _MESSAGES[cause].format(steps=request.max_steps, seconds=request.max_seconds)
        self._report.add(Incident("sync/hang", message, site, thread, block, cause=cause))
        self._report.status = "hung"

    def _place_of(self, warp: RecordView) -> tuple[int, int]:
        """Return the site at which a warp continues, and a lane that does."""
        number, lane = self._block_of(warp)
        return self._first_located(number), lane

    def _block_of(self, warp: RecordView) -> tuple[int, int]:
        """Return the basic block at which a warp continues, and a lane that does."""
        resume = warp.get(Warp.RESUME)
        if resume >= Resume.FIRST_BLOCK:
            number, lane = resume - Resume.FIRST_BLOCK, lanes_of(warp.get(Warp.ACTIVE_MASK) or 1)[0]
        else:
            runnable = warp.get(Warp.LIVE_MASK) & ~warp.get(Warp.BARRIER_MASK)
            lane = lanes_of(runnable or 1)[0]
            number = int(warp.row(Warp.PC)[lane])
        return (number if 0 <= number < len(self._prepared.kernel.program.blocks) else 0), lane

    def _first_located(self, number: int) -> int:
        """Return the first site from a basic block on that has a source line: a block of one jump has none."""
        kernel = self._prepared.kernel
        start = kernel.site_of_block(number)
        seen: set[int] = set()
        while number >= 0 and number not in seen:
            seen.add(number)
            block, first = kernel.program.blocks[number], kernel.site_of_block(number)
            for site in range(first, first + len(block.code) + 1):
                instruction = kernel.sites[site][0]
                if instruction is not None and instruction.location is not None:
                    return site
            number = next(iter(block.targets), EXIT)
        return start


def _executing(warps: list[tuple[int, RecordView]]) -> tuple[int, RecordView]:
    """Return a warp that executes: it is in the loop that does not end, and the others wait for it."""
    return next((one for one in warps if one[1].get(Warp.STATUS) == Status.READY), warps[0])
