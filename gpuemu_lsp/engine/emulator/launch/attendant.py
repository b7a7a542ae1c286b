"""Decides how a block goes on when generated code has returned before its end: see :mod:`.scheduler`."""

from __future__ import annotations

import time

from gpuemu_lsp.engine.emulator.abi.records import RecordView
from gpuemu_lsp.engine.emulator.abi.states import Status
from gpuemu_lsp.engine.emulator.abi.structs import LaunchRecord, Warp
from gpuemu_lsp.engine.emulator.launch.barriers import BarrierResolver
from gpuemu_lsp.engine.emulator.launch.limits.launch_limits import LaunchLimits
from gpuemu_lsp.engine.emulator.launch.limits.stop_request import StopRequest
from gpuemu_lsp.engine.emulator.launch.setup import BARRIERS_PER_CALL, YIELDS_PER_CALL
from gpuemu_lsp.engine.emulator.launch.state import LaunchReport, PreparedLaunch, ResidentBlock
from gpuemu_lsp.engine.emulator.launch.vector_clocks import VectorClocks
from gpuemu_lsp.engine.emulator.versions.tiering import LaunchProfile, LaunchVersions


class AssumptionError(Exception):
    """A specialised version met a value that it assumes not to occur, at ``site``."""

    def __init__(self, site: int) -> None:
        super().__init__(site)
        self.site = site


class BlockAttendant:
    """Attends to the resident blocks of one launch, or of one host thread of it; reports to ``report``."""

    def __init__(
        self,
        prepared: PreparedLaunch,
        clocks: VectorClocks,
        versions: LaunchVersions,
        stop: StopRequest,
        report: LaunchReport,
    ) -> None:
        self._prepared, self._versions, self._report = prepared, versions, report
        self._started = time.monotonic()
        self.limits = LaunchLimits(prepared, versions, report, stop)
        self.barriers = BarrierResolver(prepared, clocks, report)
        self.use_best_code()

    def use_best_code(self) -> None:
        """Begin blocks in the best code that is compiled."""
        launch, versions = self._prepared.launch, self._versions
        launch.set(LaunchRecord.FUNCTION, versions.specialised or versions.scalar_pc())
        launch.set(LaunchRecord.FALLBACK, versions.fallback)

    def hurry(self) -> None:
        """Let generated code return soon, from another thread: at the next yield or barrier."""
        # A decrement at the same moment undoes it: the launch is then looked at when it would have been.
        self._prepared.launch.set(LaunchRecord.YIELDS_LEFT, 0)
        self._prepared.launch.set(LaunchRecord.BARRIERS_LEFT, 0)

    def elapsed_ms(self) -> float:
        """Return the time the launch has run, without compilation."""
        return (time.monotonic() - self._started - self._versions.compile_seconds) * 1e3

    def profile(self, blocks: int) -> LaunchProfile:
        """Return the divergence seen in the first ``blocks`` blocks."""
        prepared = self._prepared
        diverged = prepared.divergence_counts.table32(len(prepared.kernel.program.blocks))
        misspeculations = prepared.launch.get(LaunchRecord.MISSPECULATIONS)
        return LaunchProfile(diverged.tolist(), blocks * prepared.warp_count, misspeculations)

    def promote(self, milliseconds: float, profile: LaunchProfile | None = None) -> None:
        """Continue in better code if that pays for so much time; see :meth:`LaunchVersions.promote`."""
        replacements = self._versions.promote(milliseconds, profile)
        if not replacements:
            return
        launch = self._prepared.launch
        launch.set(LaunchRecord.FALLBACK, self._versions.fallback)
        first = launch.get(LaunchRecord.FUNCTION)
        launch.set(LaunchRecord.FUNCTION, replacements.get(first, first))
        for resident in self._prepared.residents:
            for warp in self.warps(resident):
                current = warp.get(Warp.FUNCTION)
                warp.set(Warp.FUNCTION, replacements.get(current, current))

    def attend(self, resident: ResidentBlock) -> bool:
        """Decide how the warps of a block continue; return whether the block has merely used up its time."""
        launch = self._prepared.launch
        # Many barriers without a yield count as time used up, too.
        used_up = launch.get(LaunchRecord.BARRIERS_LEFT) <= 0
        launch.set(LaunchRecord.YIELDS_LEFT, YIELDS_PER_CALL)
        launch.set(LaunchRecord.BARRIERS_LEFT, BARRIERS_PER_CALL)
        warps = self.warps(resident)
        for warp in warps:
            status = warp.get(Warp.STATUS)
            if status == Status.STOP:
                self._report.status = "stopped"
                return False
            if status == Status.ASSUMPTION_FAILED:
                raise AssumptionError(warp.get(Warp.STOP_SITE))
            if status == Status.DIVERGED:
                self._enter_scalar_pc(warp)
            elif status == Status.YIELD:
                used_up = True
                warp.set(Warp.STATUS, Status.READY)
        if self.limits.exceeded(resident, warps):
            return False
        if used_up:
            resident.yields += 1
            # A warp that spins for another one must not keep that one at a barrier whose threads have all come.
            self.barriers.release(resident, warps)
            self.promote(self.elapsed_ms())
            return True
        if not any(warp.get(Warp.STATUS) == Status.READY for warp in warps):
            self.barriers.resolve(resident, warps)
        return False

    def _enter_scalar_pc(self, warp: RecordView) -> None:
        """Continue a warp in the scalar-PC version."""
        warp.set(Warp.FUNCTION, self._versions.scalar_pc())
        # Each lane executes its barrier or collective again, on its own: none of them waits any longer.
        warp.set(Warp.BARRIER_MASK, 0)
        warp.set(Warp.COLLECTIVE_MASK, 0)
        warp.set(Warp.STATUS, Status.READY)

    def warps(self, resident: ResidentBlock) -> list[RecordView]:
        """Return the contexts of a block's warps."""
        return [self._prepared.warp(resident, index) for index in range(self._prepared.warp_count)]
