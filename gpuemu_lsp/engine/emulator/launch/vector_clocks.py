"""Orders between threads that floors cannot tell: fences with flags, locks, named barriers.

Vector clocks, but only where a program needs them: what a thread released through a place, and who has learnt of it.
A clock is kept for a block (what its threads did before its last barrier) or for one thread.
"""

from __future__ import annotations

import ctypes
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

from gpuemu_lsp.engine.emulator.abi.race_records import Epoch, RaceCall, ShadowPlane
from gpuemu_lsp.engine.emulator.abi.structs import LaunchRecord, Warp
from gpuemu_lsp.engine.emulator.analysis.race_candidates import RaceCandidates
from gpuemu_lsp.engine.emulator.ir.lattice import WARP_SIZE
from gpuemu_lsp.engine.emulator.launch.race_shadow import shared_planes
from gpuemu_lsp.engine.emulator.launch.setup import PreparedLaunch, ResidentBlock

Clocks: TypeAlias = Mapping[int, int]
"""For a thread's number, or the complement of a block's, the first epoch that is not known."""

_CALL = ctypes.CFUNCTYPE(
    ctypes.c_int32, ctypes.c_int64, ctypes.c_int32, ctypes.c_int32, ctypes.c_int64, ctypes.c_uint32, ctypes.c_uint32
)


@dataclass(frozen=True, slots=True)
class _Here:
    """The thread that asks, and its floors."""

    thread: int
    lane: int
    context: int

    def field(self, offset: int) -> int:
        return ctypes.c_uint32.from_address(self.context + offset).value

    @property
    def block(self) -> int:
        return self.thread >> 10

    @property
    def block_floor(self) -> int:
        return self.field(Warp.BLOCK_BARRIER_EPOCH)

    @property
    def fenced(self) -> int:
        return self.field(Warp.FENCE_EPOCH.element(self.lane))


@dataclass(slots=True)
class _Learnt:
    """What threads of one block have learnt of others: each thread's last lesson, and what barriers have spread."""

    all: dict[int, int] = field(default_factory=dict)
    by_thread: dict[int, tuple[int, Clocks]] = field(default_factory=dict)


class VectorClocks:
    """What is known of one launch beyond floors; answers the race checker's calls while it runs."""

    def __init__(self, prepared: PreparedLaunch, tracking: RaceCandidates) -> None:
        self._prepared = prepared
        self._tracking = tracking
        self._released: dict[int, Clocks] = {}
        self._blocks: dict[int, _Learnt] = {}
        self._arrived: dict[tuple[int, int], dict[int, int]] = {}
        self._call = _CALL(self._answer)
        if tracking.needs_vector_clocks:
            prepared.launch.set(LaunchRecord.RACE_CALLBACK, ctypes.cast(self._call, ctypes.c_void_p).value or 0)

    @property
    def trusting(self) -> bool:
        """Whether accesses are not watched because all threads meet at one and the same barrier each time."""
        return self._tracking.assumes_full_barriers

    def close(self) -> None:
        """Note how far the launch's epochs went."""
        if not self._tracking.sites:
            return
        highest = self._prepared.launch.get(LaunchRecord.RACE_HIGHEST_EPOCH)
        for resident in self._prepared.residents:
            for index in range(self._prepared.warp_count):
                highest = max(highest, self._prepared.warp(resident, index).get(Warp.EPOCH))
        shared_planes().end(highest)

    # ---- what translated code asks -----------------------------------------------------------------------------------

    def _answer(self, context: int, what: int, lane: int, address: int, who: int, when: int) -> int:
        first = ctypes.c_uint32.from_address(context + Warp.FIRST_THREAD).value
        here = _Here(first + lane, lane, context)
        if what == RaceCall.ORDERED:
            return int(self._ordered(here, who, when))
        if what == RaceCall.ACQUIRE:
            clocks = self._released.get(who)
            if clocks is not None:  # else an earlier launch left its mark
                self._learn(here, clocks)
        else:
            self._release(here, address)
        return 0

    def _ordered(self, here: _Here, who: int, when: int) -> bool:
        """Return whether an access noted in a cell is known to be behind a thread; in doubt it is."""
        spread = when & Epoch.SPREAD
        if spread == Epoch.SPREAD:
            return True  # which blocks these were is not kept
        doubt = False
        for clocks in self._lessons(here):
            if when < clocks.get(~(who >> 10), 0):
                return True
            if spread == 0 and when < clocks.get(who, 0):
                return True
            if spread and any(thread >> 10 == who >> 10 for thread in clocks if thread >= 0):
                doubt = True  # some of these threads are known: which, is not kept
        return doubt

    def _lessons(self, here: _Here) -> Iterable[Clocks]:
        learnt = self._blocks.get(here.block)
        if learnt is None:
            return
        self._spread(learnt, here.block_floor)
        yield learnt.all
        warp_floor = here.field(Warp.WARP_BARRIER_EPOCH)
        for thread, (when, clocks) in learnt.by_thread.items():
            if thread == here.thread or (thread >> 5 == here.thread >> 5 and when < warp_floor):
                yield clocks

    def _spread(self, learnt: _Learnt, floor: int) -> None:
        """Give the whole block what single threads learnt before its last barrier."""
        for thread in [thread for thread, (when, _) in learnt.by_thread.items() if when < floor]:
            _join(learnt.all, learnt.by_thread.pop(thread)[1])

    def _learn(self, here: _Here, clocks: Clocks) -> None:
        learnt = self._blocks.setdefault(here.block, _Learnt())
        self._spread(learnt, here.block_floor)
        _, known = learnt.by_thread.get(here.thread, (0, {}))
        merged: Clocks = clocks
        if known:
            both = dict(clocks)
            _join(both, known)
            merged = both
        learnt.by_thread[here.thread] = (here.field(Warp.EPOCH), merged)

    def _release(self, here: _Here, address: int) -> None:
        """Let whoever comes to this place learn what the thread knew at its last fence."""
        launch = self._prepared.launch
        offset = (address - launch.get(LaunchRecord.ARENA)) >> launch.get(LaunchRecord.RACE_CELL_SHIFT)
        plane = ShadowPlane.RELEASE * launch.get(LaunchRecord.RACE_PLANE_STRIDE)
        cell = launch.get(LaunchRecord.RACE_PLANES) + plane + 4 * offset
        mark = ctypes.c_uint32.from_address(cell)
        clocks: dict[int, int] = dict(self._released.get(mark.value, {}))
        for known in self._lessons(here):
            _join(clocks, known)
        # What the block did before its last barrier counts as released, too: a fence of each thread before a barrier,
        # then one thread's flag, is a common idiom.
        _join(clocks, {~here.block: here.block_floor})
        if here.fenced >= here.block_floor:
            floor = here.field(Warp.WARP_BARRIER_EPOCH)
            if floor > here.block_floor and here.fenced >= floor:
                _join(
                    clocks,
                    dict.fromkeys(range(here.thread & -WARP_SIZE, (here.thread & -WARP_SIZE) + WARP_SIZE), floor),
                )
            _join(clocks, {here.thread: here.fenced})
        number = shared_planes().release()
        self._released[number] = clocks
        mark.value = number

    # ---- barriers of a part of the block -----------------------------------------------------------------------------

    def arrive(self, resident: ResidentBlock, name: int, thread: int) -> None:
        """Note that a thread, by its number in its block, has come to a barrier without waiting there."""
        clocks = self._arrived.setdefault((resident.number, name), {})
        number = (resident.number << 10) + thread
        learnt = self._blocks.setdefault(resident.number, _Learnt())
        _join(clocks, learnt.by_thread.get(number, (0, {}))[1])
        _join(clocks, {number: self._next(resident)})

    def meet(self, resident: ResidentBlock, name: int, threads: list[int], alive: int) -> None:
        """Note that threads of a block have met at a barrier; ``alive`` threads there are."""
        prepared = self._prepared
        contexts = [prepared.warp(resident, index) for index in range(prepared.warp_count)]
        now = self._next(resident)
        clocks = self._arrived.pop((resident.number, name), {})
        if len(threads) == alive:
            for context in contexts:
                for offset in (Warp.EPOCH, Warp.WARP_BARRIER_EPOCH, Warp.BLOCK_BARRIER_EPOCH):
                    context.set(offset, now)
            return
        learnt = self._blocks.setdefault(resident.number, _Learnt())
        first = resident.number << 10
        lessons = [learnt.by_thread[first + thread][1] for thread in threads if first + thread in learnt.by_thread]
        for lesson in {id(lesson): lesson for lesson in lessons}.values():
            _join(clocks, lesson)
        _join(clocks, {first + thread: now for thread in threads})
        for thread in threads:
            learnt.by_thread[(resident.number << 10) + thread] = (now, clocks)

    def _next(self, resident: ResidentBlock) -> int:
        """Begin a new epoch in all warps of a block."""
        prepared = self._prepared
        contexts = [prepared.warp(resident, index) for index in range(prepared.warp_count)]
        now = max(context.get(Warp.EPOCH) for context in contexts) + Epoch.TICK
        for context in contexts:
            context.set(Warp.EPOCH, now)
        return now


def _join(clocks: dict[int, int], more: Clocks) -> None:
    for key, when in more.items():
        if clocks.get(key, 0) < when:
            clocks[key] = when


def attach_race_detector(prepared: PreparedLaunch, tracking: RaceCandidates) -> VectorClocks:
    """Set up the race checker for a launch."""
    if tracking.sites:
        first = prepared.residents[0]
        planes = shared_planes()
        planes.begin(prepared.launch, tracking.cell_shift, min(first.shared.address, first.local.address))
        planes.install(prepared.launch, prepared.arena, tracking.cell_shift)
        prepared.grown = lambda: planes.install(prepared.launch, prepared.arena, tracking.cell_shift)
    return VectorClocks(prepared, tracking)
