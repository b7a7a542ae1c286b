"""Vector clocks for synchronisation beyond barrier epochs: release and acquire, locks, named barriers.

The generated race detector compares epochs. Where these show two accesses unordered, and the kernel has fences, named
barriers or ``mbarrier`` objects, it asks Python. This module then keeps what FastTrack keeps for locks: the clock that
a thread has released through a location, and the clocks that each thread has acquired (PTX ISA section 8.8, release and
acquire patterns; a fence followed by a strong write releases, a strong read acquires).

A clock maps threads to epochs: accesses of the thread before that epoch are ordered. To stay small, one entry may stand
for a whole block: what all its threads did before its last barrier. Two facts about GPUs keep clocks short:

- A barrier of the block makes all its threads equal. What one of them has acquired before it is the block's then, and
  is moved from the thread's clock to the block's (:meth:`BlockClocks.spread`).
- Kernels release after a barrier by one thread, so that a released clock often is one block entry and one thread entry.

A release by a fence or store of ``.cta`` scope is acquired by threads of its own block only, and an acquire of that
scope acquires from its own block only (section 8.5). Where a shadow cell stands for several accesses the answer is
"ordered" if any of them is, which can only miss races; unless it is known of the warp of one that it has released
nothing that was acquired.
"""

from __future__ import annotations

import ctypes
from collections import defaultdict
from collections.abc import Iterable, Sequence

from gpuemu_lsp.engine.emulator.abi.race_records import Epoch, OrderAnswer, RaceCall, ShadowPlane
from gpuemu_lsp.engine.emulator.abi.structs import LaunchRecord, Warp
from gpuemu_lsp.engine.emulator.analysis.race_candidates import RaceCandidates
from gpuemu_lsp.engine.emulator.ir.lattice import WARP_SIZE
from gpuemu_lsp.engine.emulator.launch.clocks.callers import Caller
from gpuemu_lsp.engine.emulator.launch.clocks.records import BlockClocks, Clock, Released, join, joined
from gpuemu_lsp.engine.emulator.launch.race_shadow import shadow_planes
from gpuemu_lsp.engine.emulator.launch.state import PreparedLaunch, ResidentBlock
from gpuemu_lsp.engine.emulator.launch.unused_reads import UnusedReads

_CALL = ctypes.CFUNCTYPE(
    ctypes.c_int32, ctypes.c_int64, ctypes.c_int32, ctypes.c_int32, ctypes.c_int64, ctypes.c_uint32, ctypes.c_uint32
)


_MOST_ORDERS = 1024
"""Threads whose order is kept: those that issue copies and products in a few blocks."""


class VectorClocks:
    """Released and acquired clocks of one launch; serves the race detector's calls while it runs."""

    def __init__(self, prepared: PreparedLaunch, candidates: RaceCandidates) -> None:
        self._prepared = prepared
        # Kept here, because the launch holds nothing but its address.
        self._unused_reads = UnusedReads(prepared) if candidates.sites else None
        self._candidates = candidates
        self._released: dict[int, Released] = {}
        self._blocks: defaultdict[int, BlockClocks] = defaultdict(BlockClocks)
        self._arrived: dict[tuple[int, int], dict[int, int]] = {}
        self._orders: dict[int, tuple[tuple[int, ...], Clock]] = {}
        self._call = _CALL(self._answer)
        # Without an address the generated code makes no calls: most kernels synchronise by barriers only.
        if candidates.needs_vector_clocks:
            prepared.launch.set(LaunchRecord.RACE_CALLBACK, ctypes.cast(self._call, ctypes.c_void_p).value or 0)

    @property
    def assumes_full_barriers(self) -> bool:
        """Whether accesses are not instrumented because all threads wait at the same barrier instruction each time."""
        return self._candidates.assumes_full_barriers

    def close(self) -> None:
        """Store the launch's highest epoch, after which the next launch starts."""
        if not self._candidates.sites:
            return
        highest = self._prepared.launch.get(LaunchRecord.RACE_HIGHEST_EPOCH)
        # A launch may end in the middle of blocks, by a trap or a time limit.
        for resident in self._prepared.residents:
            highest = max(highest, int(self._prepared.warp_values(resident, Warp.EPOCH).max()))
        shadow_planes().end(highest)

    # ---- calls of generated code -------------------------------------------------------------------------------------

    def _answer(self, context: int, call: int, lane: int, address: int, who: int, when: int) -> int:
        first = ctypes.c_uint32.from_address(context + Warp.FIRST_THREAD).value
        caller = Caller(first + lane, lane, context)
        if call == RaceCall.ORDERED:
            return self._ordered(caller, address, who, when)
        if call in (RaceCall.ACQUIRE, RaceCall.ACQUIRE_WARP):
            # Release numbers are unique across launches: one of an earlier launch is not found, as it should.
            released = self._released.get(who)
            if released is not None:
                # With .cta scope only from releases by the own block; of several blocks' releases, if in doubt.
                everything = not when or ~caller.block in released.all
                clock = released.clock(caller.block, everything=everything)
                if clock:
                    (self._acquire if call == RaceCall.ACQUIRE else self._acquire_together)(caller, clock)
        else:
            self._release(caller, address, block_scope=bool(who))
        return 0

    def _ordered(self, caller: Caller, address: int, who: int, when: int) -> OrderAnswer:
        """Return whether the accesses of a shadow cell are ordered before the caller; if in doubt, they are."""
        spread = when & Epoch.SPREAD
        # Several blocks: the cell names only one of them.
        if spread == Epoch.SPREAD:
            return OrderAnswer.ORDERED
        in_doubt = False
        clocks = self._blocks.get(caller.block)
        for clock in self._acquired(caller):
            until = clock.get(~(who >> 10), 0)
            if when < until:
                if clocks is not None and clock is clocks.all:
                    self._remember(caller.block, who >> 10, until)
                return OrderAnswer.ORDERED
            if spread == 0 and when < clock.get(who, 0):
                if who >> 10 == caller.block:
                    caller.remember(who, clock[who])
                return OrderAnswer.ORDERED
            # Several threads of a block, some of which are ordered: the cell does not name them all.
            if spread and any(thread >> 10 == who >> 10 for thread in clock if thread >= 0):
                in_doubt = True
        if not in_doubt:
            return OrderAnswer.UNORDERED
        return self._of_readers(caller, address, who, when) if spread > 1 else OrderAnswer.ORDERED

    def _of_readers(self, caller: Caller, address: int, who: int, when: int) -> OrderAnswer:
        """Return the answer about several readers of shared memory, of which the cell names two.

        Their epoch is that of the last: whether one that has released something did so after its read is not known.
        """
        if self._prepared.shared_owner(address) is None:
            return OrderAnswer.ORDERED
        # Without a cluster cells of shared memory omit the block, which can only be the caller's.
        omitted = 0 if self._prepared.cluster_blocks > 1 else caller.block << 10
        planes = (ShadowPlane.READER, ShadowPlane.OTHER_READER, ShadowPlane.READ_EPOCH)
        last, other, epoch = (self._cell(plane, address).value for plane in planes)
        if epoch != when or omitted | last != omitted | who:
            return OrderAnswer.ORDERED
        acquired = {one >> 5 for clock in self._acquired(caller) for one in clock if one >= 0}
        for thread, answer in ((last, OrderAnswer.UNORDERED), (other, OrderAnswer.OTHER_UNORDERED)):
            warp = (omitted | thread) >> 5
            if thread >> 10 == last >> 10 and warp != caller.thread >> 5 and warp not in acquired:
                return answer
        return OrderAnswer.ORDERED

    def _remember(self, block: int, after: int, until: int) -> None:
        """Let generated code answer the next questions about two blocks: what a block has acquired stays acquired."""
        launch = self._prepared.launch
        launch.set(LaunchRecord.ORDERED_BLOCK, block)
        launch.set(LaunchRecord.ORDERED_AFTER, after)
        launch.set(LaunchRecord.ORDERED_UNTIL, until)

    def _acquired(self, caller: Caller) -> Iterable[Clock]:
        """Yield the clocks that the caller has acquired, itself or through its warp or block."""
        clocks = self._blocks.get(caller.block)
        if clocks is None:
            return
        # Now, as a clock is needed: the generated scheduler releases barriers without a call into Python.
        clocks.spread(caller.block_barrier)
        yield clocks.all
        together = clocks.of_warps.get(caller.thread >> 5)
        if together is not None:
            yield together[1]
        warp_barrier = caller.get(Warp.WARP_BARRIER_EPOCH)
        for thread, epoch, clock in clocks.of_warp(caller.thread):
            if thread == caller.thread or epoch < warp_barrier:
                yield clock

    def _acquire(self, caller: Caller, clock: Clock) -> None:
        clocks = self._blocks[caller.block]
        clocks.spread(caller.block_barrier)
        _, known = clocks.by_thread.get(caller.thread, (0, {}))
        # Released clocks are shared by all that acquire them, so that a join needs a copy.
        merged = joined(clock, known) if known and known is not clock else clock
        clocks.acquire(caller.thread, caller.get(Warp.EPOCH), merged)

    def _acquire_together(self, caller: Caller, clock: Clock) -> None:
        """Let all lanes of the caller's warp acquire a clock."""
        clocks = self._blocks[caller.block]
        clocks.spread(caller.block_barrier)
        clocks.acquire_together(caller.thread >> 5, caller.get(Warp.EPOCH), clock)

    def _release(self, caller: Caller, address: int, *, block_scope: bool) -> None:
        """Publish through an address what is ordered before the caller's last fence."""
        number = self._release_number(address)
        # What others released through this address before stays: a lock or counter that several threads update forms a
        # release sequence, and its reader acquires from all of them.
        before = self._released.get(number.value, Released())
        wide = 0 if block_scope else caller.fence(block_scope=False)
        narrow = caller.fence(block_scope=True)
        to_all = self._published(caller, wide, before.all) if wide else before.all
        by_block = before.by_block
        # Most releases are wide: a clock of the block alone is needed only if it holds more.
        if narrow > wide or caller.block in by_block:
            own = self._published(caller, narrow, by_block.get(caller.block, {}))
            by_block = {**by_block, caller.block: own}
        released = shadow_planes().next_release()
        self._released[released] = Released(to_all, by_block)
        number.value = released

    def _release_number(self, address: int) -> ctypes.c_uint32:
        """Return the number of the last release through an address, in shadow memory."""
        return self._cell(ShadowPlane.RELEASE, address)

    def _cell(self, plane: ShadowPlane, address: int) -> ctypes.c_uint32:
        """Return the value of a plane of shadow memory for an address."""
        launch = self._prepared.launch
        offset = (address - launch.get(LaunchRecord.ARENA)) >> launch.get(LaunchRecord.RACE_CELL_SHIFT)
        distance = plane * launch.get(LaunchRecord.RACE_PLANE_STRIDE)
        return ctypes.c_uint32.from_address(launch.get(LaunchRecord.RACE_PLANES) + distance + 4 * offset)

    # ---- the asynchronous proxy --------------------------------------------------------------------------------------

    @property
    def follows_threads(self) -> bool:
        """Whether accesses are instrumented, and orders other than barriers are followed."""
        return self._candidates.needs_vector_clocks

    def order_of(self, context: int, lane: int, *, whole_warp: bool) -> Clock:
        """Return what is ordered before a thread's next access; ``context`` is the address of its warp's context.

        ``whole_warp``: all lanes of the warp make the access together.
        """
        first = ctypes.c_uint32.from_address(context + Warp.FIRST_THREAD).value
        epoch = ctypes.c_uint32.from_address(context + Warp.EPOCH)
        now = epoch.value + Epoch.TICK
        epoch.value = now
        clock = dict(self._known_order(Caller(first + lane, lane, context), now))
        if whole_warp:
            clock.update(dict.fromkeys(range(first, first + WARP_SIZE), now))
        clock[first + lane] = now
        return clock

    def _known_order(self, caller: Caller, now: int) -> Clock:
        """Return what is ordered before a thread: computed again if it has synchronised since the last time."""
        clocks = self._blocks.get(caller.block)
        barrier = caller.block_barrier
        changes = (0, 0)
        if clocks is not None:
            clocks.spread(barrier)
            changes = clocks.changes, clocks.changes_of_warps.get(caller.thread >> 5, 0)
        key = (barrier, caller.get(Warp.WARP_BARRIER_EPOCH), *changes)
        known = self._orders.get(caller.thread)
        if known is None or known[0] != key:
            if len(self._orders) > _MOST_ORDERS:
                self._orders.clear()
            known = self._orders[caller.thread] = key, self._published(caller, now, {})
        return known[1]

    def knows(self, context: int, number: int, epoch: int) -> bool:
        """Return whether a warp has acquired what a thread did in an epoch: it, its block, or any of its lanes.

        ``context`` is the address of the warp's context. Barriers of the thread's block count only where something that
        has acquired it came to them: for threads that are not of the program.
        """
        caller = Caller(ctypes.c_uint32.from_address(context + Warp.FIRST_THREAD).value, 0, context)
        clocks = self._blocks.get(caller.block)
        if clocks is None:
            return False
        clocks.spread(caller.block_barrier)
        together = clocks.of_warps.get(caller.thread >> 5, (0, {}))
        acquired = (clocks.all, together[1], *(clock for _, _, clock in clocks.of_warp(caller.thread)))
        return any(epoch < clock.get(number, 0) for clock in acquired)

    def set_order(self, number: int, epoch: int, clock: Clock) -> None:
        """Let a clock be all that a thread has acquired, for one that is not a thread of the program."""
        self._blocks[number >> 10].acquire(number, epoch, clock)

    def publish(self, address: int, block: int, clock: Clock) -> None:
        """Release a clock through an address, for threads of a block or of its cluster."""
        number = self._release_number(address)
        before = self._released.get(number.value, Released())
        to_all, by_block = dict(before.all), dict(before.by_block)
        if self._prepared.cluster_blocks > 1:
            join(to_all, clock)
        else:
            by_block[block] = joined(by_block.get(block, {}), clock)
        released = shadow_planes().next_release()
        self._released[released] = Released(to_all, by_block)
        number.value = released

    def learn(self, context: int, lanes: Sequence[int], clock: Clock) -> None:
        """Let lanes of a warp acquire a clock."""
        first = ctypes.c_uint32.from_address(context + Warp.FIRST_THREAD).value
        if len(lanes) == WARP_SIZE:
            self._acquire_together(Caller(first, 0, context), clock)
            return
        for lane in lanes:
            self._acquire(Caller(first + lane, lane, context), clock)

    def _published(self, caller: Caller, fence: int, before: Clock) -> Clock:
        """Return a released clock, joined with what is ordered before a fence of the caller."""
        clock = dict(before)
        for acquired in self._acquired(caller):
            join(clock, acquired)
        # Also what the whole block did before its last barrier: a barrier, then a fence and a flag by one thread, is
        # the common way to publish a block's results, and causality order is transitive (PTX ISA section 8.9.5).
        join(clock, {~caller.block: caller.block_barrier})
        # The same for the warp's last barrier. Accesses after the fence are not released: its epoch is the bound.
        if fence >= caller.block_barrier:
            warp_barrier = caller.get(Warp.WARP_BARRIER_EPOCH)
            if warp_barrier > caller.block_barrier and fence >= warp_barrier:
                first = caller.thread & -WARP_SIZE
                join(clock, dict.fromkeys(range(first, first + WARP_SIZE), warp_barrier))
            join(clock, {caller.thread: fence})
        return clock

    # ---- barriers of some threads of the block -----------------------------------------------------------------------

    def arrive(self, resident: ResidentBlock, barrier: int, thread: int) -> None:
        """Release a thread's clock to a barrier at which it arrives without waiting (``bar.arrive``).

        ``thread`` is its index in the block.
        """
        clock = self._arrived.setdefault((resident.number, barrier), {})
        number = (resident.number << 10) + thread
        clocks = self._blocks[resident.number]
        for known in clocks.known_to(number):
            join(clock, known)
        join(clock, {number: self._next_epoch(resident)})

    def synchronise(self, resident: ResidentBlock, barrier: int, threads: list[int], live: int) -> None:
        """Order the threads that leave a barrier after all that have come to it; ``live`` threads are in the block."""
        now = self._next_epoch(resident)
        clock = self._arrived.pop((resident.number, barrier), {})
        # All live threads: the same as a barrier that the generated scheduler releases.
        if len(threads) == live:
            for epoch in (Warp.WARP_BARRIER_EPOCH, Warp.BLOCK_BARRIER_EPOCH):
                self._prepared.warp_values(resident, epoch)[:] = now
            return
        clocks = self._blocks[resident.number]
        first = resident.number << 10
        acquired = [known for thread in threads for known in clocks.known_to(first + thread)]
        # Threads that left an earlier barrier together share one clock object: joined once.
        for one in {id(one): one for one in acquired}.values():
            join(clock, one)
        join(clock, {first + thread: now for thread in threads})
        for thread in threads:
            clocks.acquire(first + thread, now, clock)

    def synchronise_cluster(self, residents: list[ResidentBlock]) -> None:
        """Order all threads of a cluster's blocks after all that they did before its barrier.

        What a thread does between its arrival and its wait counts as before the barrier, which can only miss races.
        """
        prepared = self._prepared
        contexts = [prepared.warp(one, index) for one in residents for index in range(prepared.warp_count)]
        now = max(context.get(Warp.EPOCH) for context in contexts) + Epoch.TICK
        for context in contexts:
            for epoch in (Warp.EPOCH, Warp.WARP_BARRIER_EPOCH, Warp.BLOCK_BARRIER_EPOCH, Warp.CLUSTER_BARRIER_EPOCH):
                context.set(epoch, now)
        clock: dict[int, int] = {~one.number: now for one in residents}
        for one in residents:
            known = self._blocks.get(one.number)
            if known is not None:
                known.spread(now)
                join(clock, known.all)
        for one in residents:
            join(self._blocks[one.number].all, clock)

    def _next_epoch(self, resident: ResidentBlock) -> int:
        """Start a new epoch in all warps of a block: epochs of different warps become comparable."""
        epochs = self._prepared.warp_values(resident, Warp.EPOCH)
        now = int(epochs.max()) + Epoch.TICK
        epochs[:] = now
        return now


def attach_race_detector(prepared: PreparedLaunch, candidates: RaceCandidates) -> VectorClocks:
    """Give a launch its shadow memory and vector clocks."""
    if candidates.sites:
        first = prepared.residents[0]
        planes = shadow_planes()
        planes.begin(prepared.launch, candidates.cell_shift, min(first.shared.address, first.local.address))
        planes.install(prepared.launch, prepared.arena, candidates.cell_shift)
        prepared.launch.set(LaunchRecord.RACE_BETWEEN_BLOCKS, int(not prepared.request.checks.block_races))
        prepared.on_growth = lambda: planes.install(prepared.launch, prepared.arena, candidates.cell_shift)
    return VectorClocks(prepared, candidates)
