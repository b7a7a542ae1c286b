"""The host threads of one launch, and what the main thread does while they execute blocks."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from queue import SimpleQueue
from threading import Lock
from typing import Final

import numpy as np

from gpuemu_lsp.engine.emulator.abi.structs import LaunchRecord, Warp
from gpuemu_lsp.engine.emulator.analysis.block_claims import BlockClaims
from gpuemu_lsp.engine.emulator.analysis.race_candidates import RaceCandidates
from gpuemu_lsp.engine.emulator.launch.attendant import BlockAttendant
from gpuemu_lsp.engine.emulator.launch.limits.stop_request import StopRequest
from gpuemu_lsp.engine.emulator.launch.race_shadow import ShadowPlanes
from gpuemu_lsp.engine.emulator.launch.scheduler import OutOfOrderError
from gpuemu_lsp.engine.emulator.launch.setup import copy_for_thread
from gpuemu_lsp.engine.emulator.launch.state import LaunchReport, PreparedLaunch
from gpuemu_lsp.engine.emulator.launch.threads.block_thread import BlockProgress, Blocks, BlockThread
from gpuemu_lsp.engine.emulator.launch.threads.claim_table import claim_table, set_owner
from gpuemu_lsp.engine.emulator.launch.threads.helpers import helper
from gpuemu_lsp.engine.emulator.launch.vector_clocks import VectorClocks
from gpuemu_lsp.engine.emulator.versions.tiering import LaunchVersions

_SHARES: Final = 2
"""Blocks are given out in so many shares for each thread, and those that are left in smaller ones."""

_MOST_KEPT_BYTES: Final = 256 << 20
"""Memory of a launch up to which the shadow cells of the threads are kept for the next one."""


class BlockTeam:
    """Executes blocks of a launch on ``threads`` host threads; the first one's own are created when they are needed.

    Raises
    ------
    OutOfOrderError
        If the system refuses memory for the claims.
    """

    def __init__(
        self,
        prepared: PreparedLaunch,
        versions: LaunchVersions,
        claims: BlockClaims,
        candidates: RaceCandidates,
        stop: StopRequest,
        threads: int,
    ) -> None:
        self._prepared, self._versions, self._stop = prepared, versions, stop
        self._candidates, self._threads = candidates, min(threads, prepared.blocks)
        with _enough_memory():
            self._first = claim_table().begin(prepared.launch, prepared.arena, claims.cell_shift)
        self._members: list[BlockThread] = []
        self._pauses: SimpleQueue[tuple[int, BlockProgress]] = SimpleQueue()
        self._lock = Lock()
        self._next = self._end = 0

    def run(self, first: int, end: int) -> LaunchReport | None:
        """Execute the blocks from ``first`` to ``end``; return a report if the time limit, or a request, ends it.

        Raises
        ------
        OutOfOrderError
            If the launch must be repeated in order.
        AssumptionError, BarrierAssumptionError
            If it must be started again with other code.
        """
        if not self._members:
            with _enough_memory():
                self._begin()
        self._next, self._end = first, end
        for member in self._members:
            member.attendant.use_best_code()
        own, *others = self._members
        for number, member in enumerate(others):
            self._resume(number, member)
        busy, own_progress = len(others), BlockProgress.MORE
        stopped: LaunchReport | None = None
        try:
            while busy or own_progress is BlockProgress.MORE:
                if own_progress is BlockProgress.MORE:
                    own_progress = own.execute_some()
                    if own_progress is BlockProgress.NEEDS_ATTENTION:
                        stopped = self._attend(own)
                        own_progress = BlockProgress.MORE if stopped is None else BlockProgress.DONE
                # Not while there are blocks for this thread, unless another one needs attention.
                while busy and (own_progress is BlockProgress.DONE or not self._pauses.empty()):
                    number, progress = self._pauses.get()
                    busy -= 1
                    if progress is BlockProgress.NEEDS_ATTENTION and stopped is None:
                        stopped = self._attend(others[number])
                        if stopped is None:
                            self._resume(number, others[number])
                            busy += 1
        finally:
            if busy:
                # An error, or an interrupt.
                self.hurry()
            for _ in range(busy):
                self._pauses.get()
        self._add_counts()
        self._keep_last_block()
        return stopped

    def _resume(self, number: int, member: BlockThread) -> None:
        """Let a helper execute blocks until it has no more, or needs attention."""
        helper(number).call(lambda: self._pauses.put((number, member.execute_all())))

    def _attend(self, member: BlockThread) -> LaunchReport | None:
        """Decide how a member goes on; return its report if the launch has used up its time."""
        if not member.has_reports:
            member.attend()
        if member.has_used_up_its_time:
            self.hurry()
            return member.report
        if member.has_reports or member.report.incidents or member.report.status != "completed":
            raise OutOfOrderError
        return None

    def hurry(self) -> None:
        """Begin no further blocks, and let generated code return soon."""
        self._end = 0
        for member in self._members:
            member.attendant.hurry()

    def _add_counts(self) -> None:
        """Move what the threads have counted to the launch."""
        launch, prepared = self._prepared.launch, self._prepared
        blocks = len(prepared.kernel.program.blocks)
        for member in self._members:
            other = member.prepared
            steps = other.warp_values(other.residents[0], Warp.STEPS)
            for field, more in ((LaunchRecord.STEPS, int(steps.sum())), (LaunchRecord.MISSPECULATIONS, 0)):
                launch.set(field, launch.get(field) + other.launch.get(field) + more)
                other.launch.set(field, 0)
            steps[:] = 0
            np.bitwise_or(prepared.coverage.bytes, other.coverage.bytes, out=prepared.coverage.bytes)
            prepared.divergence_counts.table32(blocks)[:] += other.divergence_counts.table32(blocks)
            other.divergence_counts.table32(blocks)[:] = 0

    def _keep_last_block(self) -> None:
        """Leave in shared and local memory what the last block has left there, as in order.

        A later launch may find it in lanes that load next to a buffer; a kernel with undefined values may use these.
        """
        arena, first = self._prepared.arena, self._prepared.residents[0]
        for member in self._members:
            if member.prepared.launch.get(LaunchRecord.BLOCK_END) == self._prepared.blocks:
                last = member.prepared.residents[0]
                for region, other in ((first.shared, last.shared), (first.local, last.local)):
                    arena.data(region.address, region.size)[:] = arena.data(other.address, other.size)

    def close(self) -> None:
        """Keep what the next launch needs to know."""
        if self._candidates.sites:
            for planes, member in zip(_planes(), self._members, strict=False):
                copy = member.prepared
                highest = int(copy.warp_values(copy.residents[0], Warp.EPOCH).max())
                planes.end(max(highest, copy.launch.get(LaunchRecord.RACE_HIGHEST_EPOCH)))
                if self._prepared.arena.size > _MOST_KEPT_BYTES:
                    planes.drop()
        self._members.clear()

    def _begin(self) -> None:
        prepared, candidates = self._prepared, self._candidates
        copies = [copy_for_thread(prepared, index) for index in range(self._threads)]
        # A pointer that has left its buffer would find this block's memory, and another one's on another thread.
        for region in (prepared.residents[0].shared, prepared.residents[0].local):
            prepared.arena.shadow(region.address, region.size)[:] = 0
        for index, copy in enumerate(copies):
            set_owner(copy.launch, self._first + 1 + index)
            if index == len(_planes()):
                _planes().append(ShadowPlanes())
            if candidates.sites:
                planes = _planes()[index]
                planes.begin(copy.launch, candidates.cell_shift, prepared.launch.get(LaunchRecord.RACE_PRIVATE_START))
                with prepared.arena.apart():
                    planes.install(copy.launch, prepared.arena, candidates.cell_shift)
            report, clocks = LaunchReport(), VectorClocks(copy, candidates)
            attendant = BlockAttendant(copy, clocks, self._versions, self._stop, report)
            self._members.append(BlockThread(copy, attendant, report, self._next_blocks))

    def _next_blocks(self) -> Blocks | None:
        with self._lock:
            left = self._end - self._next
            if left <= 0:
                return None
            first = self._next
            self._next += max(1, left // (_SHARES * self._threads))
            return first, self._next


@contextmanager
def _enough_memory() -> Iterator[None]:
    """Let a launch run in order if there is no memory for several threads."""
    try:
        yield
    except (OSError, MemoryError) as error:
        raise OutOfOrderError from error


@cache
def _planes() -> list[ShadowPlanes]:
    """Return the shadow cells of this process's host threads."""
    return []


# Shared mappings stay shared after fork, as those of the planes of one thread do.
os.register_at_fork(after_in_child=_planes.cache_clear)
