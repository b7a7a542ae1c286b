"""The outer scheduler: what the inner one cannot decide. Spinning blocks, lanes on their own, hangs."""

from __future__ import annotations

import ctypes
import time

from gpuemu_lsp.engine.emulator.abi.records import RecordView, lanes_of
from gpuemu_lsp.engine.emulator.abi.states import Resume, Status
from gpuemu_lsp.engine.emulator.abi.structs import LaunchRecord, Warp
from gpuemu_lsp.engine.emulator.devicelib.library import DEVICE_LIBRARY
from gpuemu_lsp.engine.emulator.ir.lattice import WARP_SIZE
from gpuemu_lsp.engine.emulator.ir.program import EXIT
from gpuemu_lsp.engine.emulator.jit import compile
from gpuemu_lsp.engine.emulator.launch.barriers import BarrierResolver
from gpuemu_lsp.engine.emulator.launch.report import Incident, LaunchReport
from gpuemu_lsp.engine.emulator.launch.setup import BARRIERS_PER_CALL, YIELDS_PER_CALL, PreparedLaunch, ResidentBlock
from gpuemu_lsp.engine.emulator.launch.vector_clocks import VectorClocks
from gpuemu_lsp.engine.emulator.versions.tiering import LaunchCode, LaunchProfile

_PATIENCE = 6
"""How often a block may use up its yields before other blocks are started beside it."""

_MAX_RESIDENT = 256

_FIRST_BLOCKS = 8
"""Blocks run before the time for all of them is first estimated; the stretches double."""


class AssumptionError(Exception):
    """Specialised code met a case it was not made for; ``site`` says where."""

    def __init__(self, site: int) -> None:
        super().__init__(site)
        self.site = site


class Scheduler:
    """Runs one prepared launch."""

    def __init__(self, prepared: PreparedLaunch, order: VectorClocks, code: LaunchCode) -> None:
        self._prepared = prepared
        self._code = code
        self._stretch = _FIRST_BLOCKS
        self._began = time.monotonic()
        self._report = LaunchReport()
        self._conduct = compile.function(DEVICE_LIBRARY.address("run_blocks"), ctypes.c_void_p)
        self._deadline = self._began + prepared.request.max_seconds
        self._meetings = BarrierResolver(prepared, order, self._report)
        prepared.launch.set(LaunchRecord.FUNCTION, code.fast or code.general())
        prepared.launch.set(LaunchRecord.FALLBACK, code.plain)

    def run(self) -> LaunchReport:
        """Run all blocks.

        Raises
        ------
        AssumptionError, DistrustError
            If the launch must be started again with another translation.
        """
        prepared = self._prepared
        residents = prepared.residents
        upcoming = 0
        while not self._ended:
            if len(residents) == 1 and not residents[0].under_way:
                upcoming = self._run_alone(residents[0], upcoming)
                if upcoming >= prepared.blocks and not residents[0].under_way:
                    break
                to_come = self._elapsed() * (prepared.blocks - upcoming) / max(upcoming, 1)
                self._consider(to_come, self.seen(upcoming))
                self._stretch *= 2
                continue
            upcoming = self._run_together(upcoming)
        self._report.steps = self._steps()
        return self._report

    @property
    def _ended(self) -> bool:
        return self._report.status != "completed"

    # ---- which block runs --------------------------------------------------------------------------------------------

    def _run_alone(self, resident: ResidentBlock, upcoming: int) -> int:
        """Run blocks one after another until all have ended or one is stuck; return the next block's number."""
        launch = self._prepared.launch
        self._prepared.focus(resident)
        launch.set(LaunchRecord.NEXT_BLOCK, upcoming)
        end = self._prepared.blocks if self._code.best else min(upcoming + self._stretch, self._prepared.blocks)
        launch.set(LaunchRecord.BLOCK_END, end)
        launch.set(LaunchRecord.IN_BLOCK, 0)
        seen = -1
        while not self._ended and self._conduct(launch.address):
            number = launch.get(LaunchRecord.NEXT_BLOCK)
            if number != seen:
                seen, resident.asked = number, 0
                resident.arrivals.clear()
            resident.number = number
            spinning = self._attend(resident)
            if spinning and resident.asked > _PATIENCE and self._prepared.blocks > number + 1:
                resident.under_way = True
                return number + 1
        return launch.get(LaunchRecord.NEXT_BLOCK)

    def _run_together(self, upcoming: int) -> int:
        """Give each resident block a turn; start one more when none ended."""
        prepared = self._prepared
        launch = prepared.launch
        progress = False
        for resident in prepared.residents:
            if self._ended:
                return upcoming
            if not resident.under_way:
                if upcoming >= prepared.blocks:
                    continue
                resident.number, resident.under_way, resident.asked = upcoming, True, 0
                resident.arrivals.clear()
                upcoming += 1
                launch.set(LaunchRecord.IN_BLOCK, 0)
            else:
                launch.set(LaunchRecord.IN_BLOCK, 1)
            prepared.focus(resident)
            launch.set(LaunchRecord.NEXT_BLOCK, resident.number)
            launch.set(LaunchRecord.BLOCK_END, resident.number + 1)
            launch.set(LaunchRecord.YIELDS_LEFT, 1)  # a block that waits for another one is not to wait for long
            launch.set(LaunchRecord.BARRIERS_LEFT, 1)
            while not self._ended:
                if not self._conduct(launch.address):
                    resident.under_way, progress = False, True
                    break
                if self._attend(resident):
                    break
        if not progress and upcoming < prepared.blocks and len(prepared.residents) < _MAX_RESIDENT:
            prepared.add_resident()
        if upcoming >= prepared.blocks and not any(r.under_way for r in prepared.residents):
            del prepared.residents[1:]
        return upcoming

    def _elapsed(self) -> float:
        """Return the milliseconds the launch has run, translations not counted."""
        return (time.monotonic() - self._began - self._code.seconds) * 1e3

    def seen(self, blocks: int) -> LaunchProfile:
        """Return what has been seen of lanes that part, in so many blocks."""
        prepared = self._prepared
        parted = prepared.parted.table32(len(prepared.kernel.program.blocks))
        return LaunchProfile(
            parted.tolist(), blocks * prepared.warp_count, prepared.launch.get(LaunchRecord.MISSPECULATIONS)
        )

    def _consider(self, milliseconds: float, seen: LaunchProfile | None = None) -> None:
        """Go on in optimised code if that pays for so much time."""
        better = self._code.improve(milliseconds, seen)
        if not better:
            return
        launch = self._prepared.launch
        launch.set(LaunchRecord.FALLBACK, self._code.plain)
        first = launch.get(LaunchRecord.FUNCTION)
        launch.set(LaunchRecord.FUNCTION, better.get(first, first))
        for resident in self._prepared.residents:
            for warp in self._warps(resident):
                now = warp.get(Warp.FUNCTION)
                warp.set(Warp.FUNCTION, better.get(now, now))

    def _steps(self) -> int:
        total = self._prepared.launch.get(LaunchRecord.STEPS)
        for resident in self._prepared.residents:
            total += sum(warp.get(Warp.STEPS) for warp in self._warps(resident))
        return total

    def _warps(self, resident: ResidentBlock) -> list[RecordView]:
        return [self._prepared.warp(resident, index) for index in range(self._prepared.warp_count)]

    # ---- one block that needs attention ------------------------------------------------------------------------------

    def _attend(self, resident: ResidentBlock) -> bool:
        """Decide what the warps of a block do next; return whether some only used up their time."""
        launch = self._prepared.launch
        yielded = launch.get(LaunchRecord.BARRIERS_LEFT) <= 0
        launch.set(LaunchRecord.YIELDS_LEFT, YIELDS_PER_CALL)
        launch.set(LaunchRecord.BARRIERS_LEFT, BARRIERS_PER_CALL)
        warps = self._warps(resident)
        for warp in warps:
            status = warp.get(Warp.STATUS)
            if status == Status.STOP:
                self._report.status = "stopped"
                return False
            if status == Status.ASSUMPTION_FAILED:
                raise AssumptionError(warp.get(Warp.STOP_SITE))
            if status == Status.DIVERGED:
                self._hand_over(warp)
            elif status == Status.YIELD:
                yielded = True
                warp.set(Warp.STATUS, Status.READY)
        if self._over_budget(resident, warps):
            return False
        if yielded:
            resident.asked += 1
            self._consider(self._elapsed())
            return True
        if not any(warp.get(Warp.STATUS) == Status.READY for warp in warps):
            self._meetings.resolve(resident, warps)
        return False

    def _hand_over(self, warp: RecordView) -> None:
        """Let the general translation run a warp whose lanes must be independent."""
        warp.set(Warp.FUNCTION, self._code.general())
        warp.set(Warp.BARRIER_MASK, 0)
        warp.set(Warp.COLLECTIVE_MASK, 0)
        warp.set(Warp.STATUS, Status.READY)

    def _over_budget(self, resident: ResidentBlock, warps: list[RecordView]) -> bool:
        """End a launch that has used up its steps or its time: in a loop, whether that waits or not."""
        living = [(index, warp) for index, warp in enumerate(warps) if warp.get(Warp.STATUS) != Status.DONE]
        for index, warp in living:
            if warp.get(Warp.STEPS) > self._prepared.request.max_steps:
                self._hang(resident, index, warp, "this loop does not terminate: the step limit was reached")
                return True
        if living and time.monotonic() - self._code.seconds > self._deadline:
            index, warp = next((one for one in living if one[1].get(Warp.STATUS) == Status.READY), living[0])
            self._hang(resident, index, warp, "this loop does not terminate: the time limit was reached")
            return True
        return False

    def _hang(self, resident: ResidentBlock, index: int, warp: RecordView, message: str) -> None:
        resume = warp.get(Warp.RESUME)
        if resume >= Resume.FIRST_BLOCK:
            number, lane = resume - Resume.FIRST_BLOCK, lanes_of(warp.get(Warp.ACTIVE_MASK) or 1)[0]
        else:
            runnable = warp.get(Warp.LIVE_MASK) & ~warp.get(Warp.BARRIER_MASK)
            lane = lanes_of(runnable or 1)[0]
            number = int(warp.row(Warp.PC)[lane])
        number = number if 0 <= number < len(self._prepared.kernel.program.blocks) else 0
        site = self._first_located(number)
        self._report.add(Incident("sync/hang", message, site, index * WARP_SIZE + lane, resident.number))
        self._report.status = "hung"

    def _first_located(self, number: int) -> int:
        """Return the first site from a block on that has a line: a lone jump has none, where it leads to has."""
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
