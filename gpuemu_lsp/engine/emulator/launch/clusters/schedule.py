"""Gives each block of a cluster its turn until all have ended."""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum

from gpuemu_lsp.engine.emulator.abi.memory import Shadow
from gpuemu_lsp.engine.emulator.abi.structs import LaunchRecord
from gpuemu_lsp.engine.emulator.launch.barriers import BarrierResolver, live_mask
from gpuemu_lsp.engine.emulator.launch.cluster_barrier import WarpName
from gpuemu_lsp.engine.emulator.launch.clusters.places import clusters_of, place_block, place_windows, withdraw
from gpuemu_lsp.engine.emulator.launch.setup import BARRIERS_PER_CALL, add_resident
from gpuemu_lsp.engine.emulator.launch.state import LaunchReport, PreparedLaunch, ResidentBlock
from gpuemu_lsp.engine.emulator.launch.vector_clocks import VectorClocks


class Turn(Enum):
    """How the turn of a block ended: it has no more warps, used up its time, or waits for another block."""

    ENDED = 0
    USED_UP = 1
    WAITS = 2


class ClusterSchedule:
    """Runs the clusters of one launch, one after another.

    ``turn`` executes a block until its turn ends; ``between`` is called when a cluster has ended, with the number of
    blocks so far.
    """

    def __init__(
        self,
        prepared: PreparedLaunch,
        barriers: BarrierResolver,
        clocks: VectorClocks,
        report: LaunchReport,
    ) -> None:
        self._prepared, self._barriers, self._clocks, self._report = prepared, barriers, clocks, report

    def run(self, turn: Callable[[ResidentBlock], Turn], between: Callable[[int], None]) -> None:
        """Run all clusters, until the launch ends."""
        prepared = self._prepared
        while len(prepared.residents) < prepared.cluster_blocks:
            add_resident(prepared)
        place_windows(prepared)
        done = 0
        for cluster, numbers in clusters_of(prepared):
            prepared.launch.set(LaunchRecord.RACE_CLUSTER_EPOCH, prepared.launch.get(LaunchRecord.RACE_HIGHEST_EPOCH))
            for rank, (resident, number) in enumerate(zip(prepared.residents, numbers, strict=True)):
                place_block(prepared, resident, rank, cluster, number)
            self._barriers.start_cluster()
            self._run_cluster(turn)
            if self._report.status != "completed":
                return
            done += len(numbers)
            between(done)

    def _run_cluster(self, turn: Callable[[ResidentBlock], Turn]) -> None:
        prepared = self._prepared
        order = prepared.residents[::-1] if prepared.request.descending else prepared.residents
        while not all(one.ended for one in prepared.residents):
            progress = False
            for resident in order:
                if self._report.status != "completed":
                    return
                if resident.ended:
                    continue
                self._focus(resident)
                result = turn(resident)
                resident.started = True
                if result is Turn.ENDED:
                    resident.ended = True
                    prepared.on_exit(resident)
                    withdraw(prepared, resident, Shadow.EXITED)
                progress |= result is not Turn.WAITS
            if all(one.started for one in prepared.residents):
                progress |= self._release()
            if not progress:
                self._report_deadlock()
                return

    def _focus(self, resident: ResidentBlock) -> None:
        prepared, launch = self._prepared, self._prepared.launch
        prepared.focus(resident)
        # The scheduler in generated code counts from the last block down in a descending launch.
        position = prepared.blocks - 1 - resident.number if prepared.request.descending else resident.number
        launch.set(LaunchRecord.IN_BLOCK, int(resident.started))
        launch.set(LaunchRecord.NEXT_BLOCK, position)
        launch.set(LaunchRecord.BLOCK_END, position + 1)
        launch.set(LaunchRecord.BARRIERS_LEFT, BARRIERS_PER_CALL)

    def _release(self) -> bool:
        """End the phase of the cluster's barrier if all threads have arrived; return whether it has ended."""
        if not self._barriers.end_cluster_phase(self._live()):
            return False
        self._clocks.synchronise_cluster(self._prepared.residents)
        return True

    def _live(self) -> dict[WarpName, int]:
        """Return the lanes of the cluster's warps that have not exited."""
        prepared = self._prepared
        return {
            (rank, index): live_mask(prepared.warp(resident, index))
            for rank, resident in enumerate(prepared.residents)
            for index in range(0 if resident.ended else prepared.warp_count)
        }

    def _report_deadlock(self) -> None:
        prepared = self._prepared
        threads = sum(mask.bit_count() for mask in self._live().values())
        for resident in prepared.residents:
            if not resident.ended:
                warps = [prepared.warp(resident, index) for index in range(prepared.warp_count)]
                self._barriers.report_deadlock(resident, warps, threads)
