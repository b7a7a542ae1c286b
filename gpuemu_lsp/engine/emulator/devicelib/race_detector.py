"""The race detector's general path: one lane's access, warp synchronisation, release and acquire, conflicts.

What epochs show is decided here; orders beyond barriers and warp synchronisation are asked of Python
(:mod:`~gpuemu_lsp.engine.emulator.launch.vector_clocks`). The essay is in :mod:`~gpuemu_lsp.engine.emulator.devicelib`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, NamedTuple

from llvmlite import ir

from gpuemu_lsp.engine.emulator.abi.access_flags import RaceFlag
from gpuemu_lsp.engine.emulator.abi.field_access import (
    element_offset,
    load_element,
    load_field,
    load_pointer,
    store_field,
)
from gpuemu_lsp.engine.emulator.abi.race_records import THREAD_IN_BLOCK, Epoch, RaceCall, ShadowPlane
from gpuemu_lsp.engine.emulator.abi.states import EVENT_KINDS, EventKind
from gpuemu_lsp.engine.emulator.abi.structs import BlockRecord, EventRecord, LaunchRecord, Warp
from gpuemu_lsp.engine.emulator.devicelib.race_batch import add_broadcast, add_row_by_cell, add_scattered
from gpuemu_lsp.engine.emulator.devicelib.race_epochs import (
    AccessView,
    each_cell,
    keep_other_reader,
    return_if,
    unsynchronised_lanes,
    view_access,
)
from gpuemu_lsp.engine.emulator.devicelib.race_lines import add_expand_lines, add_row_by_line, expand_lines_of
from gpuemu_lsp.engine.emulator.llvm import ir_tools as t
from gpuemu_lsp.engine.emulator.llvm.ir_tools import I1, I8, I32, I64, POINTER, VOID, Value, i32, i64


class _Planes(NamedTuple):
    """Planes of a cell that store the last access of one kind."""

    thread: ShadowPlane
    epoch: ShadowPlane
    site: ShadowPlane
    lanes: ShadowPlane


_WRITES: Final = _Planes(ShadowPlane.WRITER, ShadowPlane.WRITE_EPOCH, ShadowPlane.WRITE_SITE, ShadowPlane.WRITER_LANES)
_READS: Final = _Planes(ShadowPlane.READER, ShadowPlane.READ_EPOCH, ShadowPlane.READ_SITE, ShadowPlane.READER_LANES)


@dataclass(frozen=True, slots=True)
class _Earlier:
    """The stored access of a cell as seen from the current one.

    ``concurrent``: neither a barrier nor a synchronisation of lanes orders it before the current access.
    """

    epoch: Value
    distance: Value
    concurrent: Value


def add_lane(module: ir.Module, expand: Value) -> Value:
    """Add ``race_lane(ctx, site, lane, address, size, flags, value)``: check, report and record one lane's access.

    ``flags`` are :class:`RaceFlag` bits. ``value`` is the offset of a store's new bytes in the context.
    """
    conflict = _add_conflict(module)
    function, b = t.new_function(module, "race_lane", VOID, [POINTER, I32, I32, I64, I32, I32, I64])
    ctx, _, lane, address, size, flags, _ = function.args
    view = view_access(b, ctx, address)
    # Local memory; the function is called for generic addresses, too, whose space is known at run time only.
    return_if(b, view.foreign, None)
    me = b.add(view.me, lane)

    def has(flag: int) -> Value:
        return b.icmp_unsigned("!=", b.and_(flags, i32(flag)), i32(0))

    is_store = has(RaceFlag.STORE)
    strong = b.select(has(RaceFlag.STRONG), i32(Epoch.STRONG), i32(0))
    # An acquire takes effect before its own access is checked: the releasing thread may have accessed this location
    # before its fence, too (a lock that it initialised, say).
    with b.if_then(has(RaceFlag.ACQUIRE)):
        _acquire(b, view, ctx, lane, address)
    launch = load_pointer(b, ctx, Warp.LAUNCH)
    cells = b.lshr(b.zext(size, I64), load_field(b, launch, LaunchRecord.RACE_CELL_SHIFT))
    expand_lines_of(b, expand, ctx, address, b.trunc(cells, I32))
    with each_cell(b, cells) as index:
        cell = _LaneCell(view, function.args, me, strong, index, conflict)
        last_write = cell.check(_WRITES)
        with b.if_else(is_store) as (then, otherwise):
            with then:
                cell.check(_READS)
                # Unordered writes coexist only if both are strong. In any other case the earlier one has just been
                # reported, and this one takes its place.
                both_strong = b.icmp_unsigned("!=", b.and_(last_write.epoch, strong), i32(0))
                cell.record(_WRITES, last_write, both_strong)
            with otherwise:
                cell.record_read()
    # A release without a fence before it publishes nothing of this block: the call is not worth its time.
    fence = load_element(b, ctx, Warp.FENCE_EPOCH, lane)
    useful = b.icmp_unsigned(">", fence, load_field(b, ctx, Warp.START_EPOCH))
    # A release follows its own access, so that the acquiring thread does not find an unordered write.
    with b.if_then(b.and_(has(RaceFlag.RELEASE), useful)):
        _call_python(b, ctx, RaceCall.RELEASE, lane, address, i32(0), i32(0))
    b.ret_void()
    return function


class _LaneCell:
    """Emits the check and the record of one lane's access for one shadow cell."""

    def __init__(
        self, view: AccessView, arguments: tuple[Value, ...], me: Value, strong: Value, index: Value, conflict: Value
    ) -> None:
        self._b, self._view, self._arguments, self._conflict = view.b, view, arguments, conflict
        self._ctx, self._site, self._lane = arguments[:3]
        self._me, self._strong, self._index = me, strong, index

    def check(self, planes: _Planes) -> _Earlier:
        """Report a race with the stored access unless something orders the two; return that access."""
        b = self._b
        thread, epoch = self._load(planes.thread), self._load(planes.epoch)
        unordered, distance = self._view.unordered(thread, epoch, self._me)
        lanes = self._view.lanes_of(thread, epoch, self._load(planes.lanes))
        site = self._load(planes.site)
        if planes is _READS:
            # The last of several readers may be the writer itself: the other party is then another reader.
            several = b.icmp_unsigned("!=", b.and_(epoch, i32(Epoch.SPREAD)), i32(0))
            mine = b.and_(several, b.icmp_unsigned("==", thread, self._me))
            thread = b.select(mine, self._load(ShadowPlane.OTHER_READER), thread)
            site = b.select(mine, self._load(ShadowPlane.OTHER_READ_SITE), site)
        # Two strong accesses never race (PTX ISA section 8.7.1); a strong access and a weak one do.
        weak = b.icmp_unsigned("==", b.and_(epoch, self._strong), i32(0))
        # Out of line: conflicts are rare, and most are resolved there by an order that epochs do not show.
        with b.if_then(b.and_(unordered, weak)):
            other = [site, thread, epoch, i32(int(planes is _WRITES)), lanes]
            b.call(self._conflict, [*self._arguments, *other])
        return _Earlier(epoch, distance, self._concurrent(epoch, distance, unordered, lanes))

    def record_read(self) -> None:
        """Store the access as the cell's last read."""
        view = self._view
        thread, epoch = self._load(_READS.thread), self._load(_READS.epoch)
        unordered, distance = view.unordered(thread, epoch, self._me)
        lanes = view.lanes_of(thread, epoch, self._load(_READS.lanes))
        concurrent = self._concurrent(epoch, distance, unordered, lanes)
        keep_other_reader(view, self._index, concurrent, self._me)
        # Reads never race with each other: all unordered ones stay, as one merged record.
        self.record(_READS, _Earlier(epoch, distance, concurrent), ir.Constant(I1, 1))

    def record(self, planes: _Planes, earlier: _Earlier, compatible: Value) -> None:
        """Store the access, together with the earlier one where they are concurrent and ``compatible``.

        An earlier access that is ordered before this one is forgotten: what is ordered after this one is ordered after
        it, too. The exception is a weak access under a strong one, which alone would hide a race of the weak access
        with a later strong one: a weak access of the same thread stays in place of this one, and a concurrent weak read
        stays the one that is named.
        """
        b, view = self._b, self._view
        epoch = earlier.epoch
        # Only since the block's last barrier: before it, the access can race with other blocks alone, which is missed.
        own = b.and_(b.icmp_unsigned("==", earlier.distance, i32(0)), b.icmp_unsigned(">=", epoch, view.block_barrier))
        was_weak = b.icmp_unsigned("==", b.and_(epoch, i32(Epoch.STRONG)), i32(0))
        weak_before_strong = b.and_(was_weak, b.icmp_unsigned("!=", self._strong, i32(0)))
        stays = b.and_(own, weak_before_strong)
        both = b.and_(earlier.concurrent, compatible)
        # The weak access keeps its own epoch. With the epoch of the strong one, threads that have synchronised with
        # this thread in between would seem to race.
        new_epoch = b.select(stays, epoch, view.merged_epoch(epoch, earlier.distance, both, self._strong))
        # Of concurrent accesses the weak one is named in a finding: only it can race with strong ones.
        keeps_name = b.or_(stays, b.and_(both, weak_before_strong))
        before = view.lanes_of(self._load(planes.thread), epoch, self._load(planes.lanes))
        own_lane = b.shl(i32(1), self._lane)
        lanes = b.select(both, b.or_(before, own_lane), own_lane)
        for plane, value in (
            (planes.lanes, b.select(stays, before, lanes)),
            (planes.thread, b.select(keeps_name, self._load(planes.thread), self._me)),
            (planes.epoch, new_epoch),
            (planes.site, b.select(keeps_name, self._load(planes.site), self._site)),
        ):
            b.store(value, view.plane(plane, self._index))

    def _load(self, plane: int) -> Value:
        return self._b.load(self._view.plane(plane, self._index), typ=I32)

    def _concurrent(self, epoch: Value, distance: Value, unordered: Value, lanes: Value) -> Value:
        """Return whether an access unordered by barriers is also unordered by partial-mask synchronisation.

        Lanes that have all synchronised with this one are ordered before it, whatever the warp's last-barrier epoch.
        """
        b = self._b
        near = b.icmp_unsigned("<", distance, i32(32))
        missing = unsynchronised_lanes(b, self._ctx, self._lane, epoch, lanes)
        return b.and_(unordered, b.not_(b.and_(near, b.icmp_unsigned("==", missing, i32(0)))))


def _acquire(b: ir.IRBuilder, view: AccessView, ctx: Value, lane: Value, address: Value) -> None:
    """Join the clocks released through an address, if there are any that the lane has not acquired last."""
    released = b.load(view.plane(ShadowPlane.RELEASE), typ=I32)
    acquired = element_offset(b, Warp.ACQUIRED, lane)
    # Spinning on a flag acquires the same release over and over: the call into Python is made once for each.
    is_new = b.icmp_unsigned("!=", released, t.load(b, ctx, acquired, I32))
    with b.if_then(b.and_(is_new, b.icmp_unsigned("!=", released, i32(0)))):
        t.store(b, released, ctx, acquired)
        _call_python(b, ctx, RaceCall.ACQUIRE, lane, address, released, i32(0))


def _call_python(b: ir.IRBuilder, ctx: Value, what: int, lane: Value, address: Value, who: Value, when: Value) -> Value:
    pointer = load_pointer(b, load_pointer(b, ctx, Warp.LAUNCH), LaunchRecord.RACE_CALLBACK)
    return t.call_pointer(b, I32, pointer, [ctx, i32(what), lane, address, who, when])


def _add_conflict(module: ir.Module) -> Value:
    """Add ``race_conflict``: report two accesses that no barrier orders, unless something else does.

    Arguments are those of ``race_lane``, then site, thread, epoch, kind (1 for a write) and lanes of the other access.
    """
    parameters = [POINTER, I32, I32, I64, I32, I32, I64, I32, I32, I32, I32, I32]
    function, b = t.new_function(module, "race_conflict", VOID, parameters)
    ctx, _, lane, address, size, flags, value, other_site, thread, epoch, wrote, lanes = function.args
    launch = load_pointer(b, ctx, Warp.LAUNCH)
    number = load_field(b, ctx, Warp.FIRST_THREAD)
    block = load_pointer(b, ctx, Warp.BLOCK)
    place = b.sub(address, load_field(b, block, BlockRecord.SHARED))
    shared = b.icmp_unsigned("<", place, load_field(b, launch, LaunchRecord.SHARED_SIZE))
    # Cells of shared memory omit the block, which can only be this one.
    full = b.select(shared, b.or_(thread, b.and_(number, i32(~THREAD_IN_BLOCK))), thread)
    # Lanes of one warp may have synchronised with a partial mask: ordered if all of them have.
    near = b.icmp_unsigned("<", b.xor(full, number), i32(32))
    one_warp = b.icmp_unsigned("<=", b.and_(epoch, i32(Epoch.SPREAD)), i32(1))
    with b.if_then(b.and_(near, one_warp)):
        return_if(b, b.icmp_unsigned("==", unsynchronised_lanes(b, ctx, lane, epoch, lanes), i32(0)), None)
    # Equal-value rule: a weak store of the bytes that are there already changes nothing that any order could show.
    # Kernels rely on it, for example to set a flag from many threads.
    weak_store = b.icmp_unsigned("==", b.and_(flags, i32(RaceFlag.STORE | RaceFlag.ATOMIC)), i32(RaceFlag.STORE))
    with b.if_then(weak_store):
        return_if(b, _equal_bytes(b, t.at(b, address, 0), t.at(b, ctx, value), b.zext(size, I64)), None)
    # Last, because it is a call into Python: release and acquire, locks, named barriers.
    python = load_field(b, launch, LaunchRecord.RACE_CALLBACK)
    with b.if_then(b.icmp_unsigned("!=", python, i64(0))):
        answer = _call_python(b, ctx, RaceCall.ORDERED, lane, address, full, epoch)
        return_if(b, b.icmp_unsigned("!=", answer, i32(0)), None)
    _record_event(b, launch, ctx, function.args[1:6], (other_site, full, epoch, wrote))
    b.ret_void()
    return function


_OTHER_ACCESS: Final = (
    EventRecord.OTHER_SITE,
    EventRecord.OTHER_THREAD,
    EventRecord.OTHER_EPOCH,
    EventRecord.OTHER_WROTE,
)


def _record_event(
    b: ir.IRBuilder, launch: Value, ctx: Value, access: tuple[Value, ...], other: tuple[Value, ...]
) -> None:
    """Count a race; keep the first of each site."""
    site, lane, address, size, flags = access
    # A race in a loop is reported once, with a count: the table must hold the other sites' first races.
    index = b.add(b.mul(b.zext(site, I64), i64(EVENT_KINDS)), i64(EventKind.RACE))
    counter = b.gep(load_pointer(b, launch, LaunchRecord.COUNTS), [index], source_etype=I64)
    seen = b.load(counter, typ=I64)
    b.store(b.add(seen, i64(1)), counter)
    number = load_field(b, launch, LaunchRecord.EVENT_COUNT)
    free = b.icmp_unsigned("<", number, load_field(b, launch, LaunchRecord.EVENT_LIMIT))
    with b.if_then(b.and_(b.icmp_unsigned("==", seen, i64(0)), free)):
        store_field(b, b.add(number, i64(1)), launch, LaunchRecord.EVENT_COUNT)
        record = t.at(b, load_pointer(b, launch, LaunchRecord.EVENTS), b.mul(number, i64(EventRecord.SIZE)))
        block = load_pointer(b, ctx, Warp.BLOCK)
        fields = (
            (EventRecord.SITE, site),
            (EventRecord.KIND, i32(EventKind.RACE)),
            (EventRecord.LANE, lane),
            (EventRecord.BYTES, size),
            (EventRecord.ADDRESS, address),
            (EventRecord.BLOCK, load_field(b, block, BlockRecord.LINEAR)),
            (EventRecord.WARP, load_field(b, ctx, Warp.WARP_ID)),
            (EventRecord.FLAGS, flags),
        )
        for field, value in (*fields, *zip(_OTHER_ACCESS, other, strict=True)):
            store_field(b, value, record, field)


def _equal_bytes(b: ir.IRBuilder, one: Value, other: Value, size: Value) -> Value:
    """Return whether ``size`` bytes, at least one, are equal."""
    before = b.block
    loop, end = b.append_basic_block("same"), b.append_basic_block("same.end")
    b.branch(loop)
    b.position_at_end(loop)
    index, so_far = b.phi(I64), b.phi(I1)
    equal = b.icmp_unsigned("==", t.load(b, one, index, I8), t.load(b, other, index, I8))
    both = b.and_(so_far, equal)
    following = b.add(index, i64(1))
    for phi, first, then in ((index, i64(0), following), (so_far, ir.Constant(I1, 1), both)):
        phi.add_incoming(first, before)
        phi.add_incoming(then, loop)
    b.cbranch(b.icmp_unsigned("<", following, size), loop, end)
    b.position_at_end(end)
    return both


def _add_sync_warp(module: ir.Module) -> None:
    """Add ``race_sync_warp(ctx, active, live)``: order lanes as ``bar.warp.sync`` does.

    Each lane's member mask lies in the scratch space: lanes that execute together may have different ones, and those
    with the same mask are one group. A group of all live lanes starts a new epoch of the warp's last barrier; a smaller
    one only joins its members' clocks.
    """
    function, b = t.new_function(module, "race_sync_warp", VOID, [POINTER, I32, I32])
    ctx, active, live = function.args
    vector = ir.VectorType(I32, 32)
    zero = ir.Constant(vector, None)
    todo, joined = b.alloca(I32), b.alloca(vector)
    b.store(active, todo)
    with t.for_lanes(b, active) as lane:
        mask = b.add(i64(Warp.VALUES), b.shl(b.zext(lane, I64), i64(2)))
        own = b.shl(i32(1), lane)
        members = b.or_(b.and_(t.load(b, ctx, mask, I32), active), own)
        # The first lane of each group acts for all of it.
        is_first = b.icmp_unsigned("!=", b.and_(b.load(todo), own), i32(0))
        with b.if_then(is_first):
            b.store(b.and_(b.load(todo), b.not_(members)), todo)
            now = b.add(load_field(b, ctx, Warp.EPOCH), i32(Epoch.TICK))
            store_field(b, now, ctx, Warp.EPOCH)
            with b.if_else(b.icmp_unsigned("==", members, live)) as (all_live, some):
                with all_live:
                    store_field(b, now, ctx, Warp.WARP_BARRIER_EPOCH)
                with some:
                    store_field(b, now, ctx, Warp.PARTIAL_SYNC_EPOCH)
                    _join_lane_clocks(b, ctx, members, now, joined, zero)
    b.ret_void()


def _join_lane_clocks(b: ir.IRBuilder, ctx: Value, members: Value, now: Value, joined: Value, zero: Value) -> None:
    """Give each member the maximum of all members' vector clocks, with the new epoch for the members themselves.

    The maximum makes the order transitive: a member passes on what it has synchronised with before.
    """
    vector = zero.type
    b.store(zero, joined)

    def clock(lane: Value) -> Value:
        return b.add(i64(Warp.LANE_CLOCKS), b.shl(b.zext(lane, I64), i64(7)))

    with t.for_lanes(b, members) as lane:
        more = t.load(b, ctx, clock(lane), vector, align=4)
        b.store(t.intrinsic(b, "llvm.umax.v32i32", vector, [b.load(joined), more]), joined)
    # Set, not joined: the new epoch is later than any clock, and covers all that the members did before this point.
    bits = b.trunc(b.lshr(t.splat(b, members, 32), t.iota(I32, 32)), ir.VectorType(I1, 32))
    b.store(b.select(bits, t.splat(b, now, 32), b.load(joined)), joined)
    with t.for_lanes(b, members) as lane:
        t.store(b, b.load(joined), ctx, clock(lane), align=4)


def _add_acquire_release(module: ir.Module) -> None:
    """Add ``race_acquire_release(ctx, lanes, call)``: a :class:`RaceCall` through the addresses in the scratch space.

    For operations whose order is not that of a memory access of their own: those on ``mbarrier`` objects.
    """
    function, b = t.new_function(module, "race_acquire_release", VOID, [POINTER, I32, I32])
    ctx, lanes, call = function.args
    with t.for_lanes(b, lanes) as lane:
        address = load_element(b, ctx, Warp.ADDRESSES, lane)
        with b.if_else(b.icmp_unsigned("==", call, i32(RaceCall.ACQUIRE))) as (acquire, release):
            with acquire:
                _acquire(b, view_access(b, ctx, address), ctx, lane, address)
            with release:
                _call_python(b, ctx, RaceCall.RELEASE, lane, address, i32(0), i32(0))
    b.ret_void()


def add_race_detector(module: ir.Module) -> Value:
    """Add the functions of :data:`NAMES` and what they call; return ``race_lane``."""
    expand = add_expand_lines(module)
    for is_store in (False, True):
        for shared in (False, True):
            add_broadcast(module, expand, is_store=is_store, shared=shared)
        add_row_by_cell(module, is_store=is_store, shared=True)
        by_cell = add_row_by_cell(module, is_store=is_store, shared=False)
        add_row_by_line(module, by_cell, expand, is_store=is_store)
        add_scattered(module, expand, is_store=is_store)
    _add_sync_warp(module)
    _add_acquire_release(module)
    return add_lane(module, expand)


NAMES: Final = (
    "race_row_load", "race_row_store", "race_row_load_shared", "race_row_store_shared",
    "race_broadcast_load", "race_broadcast_store", "race_broadcast_load_shared", "race_broadcast_store_shared",
    "race_scattered_load", "race_scattered_store",
    "race_sync_warp", "race_lane", "race_acquire_release",
)  # fmt: skip
"""Functions that generated code calls."""
