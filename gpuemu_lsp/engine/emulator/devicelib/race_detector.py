"""The race checker as LLVM IR: what happens-before can be told from epochs is decided here, the rest by Python."""

from __future__ import annotations

from llvmlite import ir

from gpuemu_lsp.engine.emulator.abi.access_flags import RaceFlag
from gpuemu_lsp.engine.emulator.abi.field_access import load_field, load_pointer, store_field
from gpuemu_lsp.engine.emulator.abi.race_records import THREAD_IN_BLOCK, Epoch, RaceCall, ShadowPlane
from gpuemu_lsp.engine.emulator.abi.states import EVENT_KINDS, EventKind
from gpuemu_lsp.engine.emulator.abi.structs import BlockRecord, EventRecord, LaunchRecord, Warp
from gpuemu_lsp.engine.emulator.devicelib.race_batch import add_lanes, add_one, add_row
from gpuemu_lsp.engine.emulator.devicelib.race_epochs import (
    View,
    each_cell,
    note_other,
    return_if,
    unmet,
    view_of,
)
from gpuemu_lsp.engine.emulator.devicelib.race_lines import add_row_of_lines, add_settle, settle_cell
from gpuemu_lsp.engine.emulator.llvm import ir_tools as t
from gpuemu_lsp.engine.emulator.llvm.ir_tools import I1, I8, I32, I64, POINTER, VOID, Value, i32, i64


def add_lane(module: ir.Module, settle: Value) -> Value:
    """Add ``race_lane(ctx, site, lane, address, size, flags, value)``: check, report and note one lane's access.

    ``value`` is where a plain store's new bytes lie in the context: writing what is there already is no race.
    """
    conflict = _add_conflict(module)
    function, b = t.new_function(module, "race_lane", VOID, [POINTER, I32, I32, I64, I32, I32, I64])
    ctx, site, lane, address, size, flags, value = function.args
    view = view_of(b, ctx, address)
    return_if(b, view.foreign, None)
    me = b.add(view.me, lane)

    def flagged(bit: int) -> Value:
        return b.icmp_unsigned("!=", b.and_(flags, i32(bit)), i32(0))

    is_store = flagged(RaceFlag.STORE)
    strong = b.select(flagged(RaceFlag.STRONG), i32(Epoch.STRONG), i32(0))
    with b.if_then(flagged(RaceFlag.ACQUIRE)):
        _acquire(b, view, ctx, lane, address)
    launch = load_pointer(b, ctx, Warp.LAUNCH)
    cells = b.lshr(b.zext(size, I64), load_field(b, launch, LaunchRecord.RACE_CELL_SHIFT))
    settle_cell(b, settle, ctx, address, b.trunc(cells, I32))
    with each_cell(b, cells) as index:

        def fetch(plane: int) -> Value:
            return b.load(view.plane(plane, index), typ=I32)

        def check(planes: tuple[int, int, int, int], wrote: int) -> tuple[Value, Value, Value]:
            who, when = fetch(planes[0]), fetch(planes[1])
            late, x = view.unordered(who, when, me)
            lanes = view.lanes(who, when, fetch(planes[3]))
            where = fetch(planes[2])
            if not wrote:
                # The last of several readers may be the writer itself: another one is the other party.
                several = b.icmp_unsigned("!=", b.and_(when, i32(Epoch.SPREAD)), i32(0))
                mine = b.and_(several, b.icmp_unsigned("==", who, me))
                who = b.select(mine, fetch(ShadowPlane.OTHER_READER), who)
                where = b.select(mine, fetch(ShadowPlane.OTHER_READ_SITE), where)
            weak = b.icmp_unsigned("==", b.and_(when, strong), i32(0))
            with b.if_then(b.and_(late, weak)):
                other = [where, who, when, i32(wrote), lanes]
                b.call(conflict, [ctx, site, lane, address, size, flags, value, *other])
            return when, x, b.and_(late, b.not_(met(when, x, lanes)))

        def met(when: Value, x: Value, lanes: Value) -> Value:
            """Return whether accesses of the warp are behind us by what lanes know of each other.

            Whatever comes behind us comes behind them, so that they need be noted no longer.
            """
            near = b.icmp_unsigned("<", x, i32(32))
            return b.and_(near, b.icmp_unsigned("==", unmet(b, ctx, lane, when, lanes), i32(0)))

        def note(planes: tuple[int, int, int, int], when: Value, x: Value, late: Value, both: Value) -> None:
            """Note the access beside or instead of the last one; a plain one that may yet race is not forgotten."""
            own = b.and_(b.icmp_unsigned("==", x, i32(0)), b.icmp_unsigned(">=", when, view.block_floor))
            plain = b.icmp_unsigned("==", b.and_(when, i32(Epoch.STRONG)), i32(0))
            kept = b.and_(plain, b.icmp_unsigned("!=", strong, i32(0)))
            mine = b.and_(own, kept)
            # Its epoch stays as it was: what was ordered before it since is behind the plain access, too.
            noted = b.select(mine, when, view.merged(when, x, b.and_(late, both), strong))
            beside = b.and_(late, both)
            named = b.or_(mine, b.and_(beside, kept))
            before = view.lanes(fetch(planes[0]), when, fetch(planes[3]))
            own_lane = b.shl(i32(1), lane)
            lanes = b.select(beside, b.or_(before, own_lane), own_lane)
            for plane, what in (
                (planes[3], b.select(mine, before, lanes)),
                (planes[0], b.select(named, fetch(planes[0]), me)),
                (planes[1], noted),
                (planes[2], b.select(named, fetch(planes[2]), site)),
            ):
                b.store(what, view.plane(plane, index))

        writes = ShadowPlane.WRITER, ShadowPlane.WRITE_EPOCH, ShadowPlane.WRITE_SITE, ShadowPlane.WRITER_LANES
        reads = ShadowPlane.READER, ShadowPlane.READ_EPOCH, ShadowPlane.READ_SITE, ShadowPlane.READER_LANES
        written, x, late = check(writes, 1)
        with b.if_else(is_store) as (then, otherwise):
            with then:
                check(reads, 0)
                note(writes, written, x, late, b.icmp_unsigned("!=", b.and_(written, strong), i32(0)))
            with otherwise:
                who, when = fetch(ShadowPlane.READER), fetch(ShadowPlane.READ_EPOCH)
                late, x = view.unordered(who, when, me)
                late = b.and_(late, b.not_(met(when, x, view.lanes(who, when, fetch(ShadowPlane.READER_LANES)))))
                note_other(view, index, late, me)
                note(reads, when, x, late, ir.Constant(I1, 1))
    # Nothing is released by a thread that had no fence.
    fenced = t.load(b, ctx, b.add(i64(Warp.FENCE_EPOCH), b.shl(b.zext(lane, I64), i64(2))), I32)
    useful = b.icmp_unsigned(">", fenced, load_field(b, ctx, Warp.START_EPOCH))
    with b.if_then(b.and_(flagged(RaceFlag.RELEASE), useful)):
        _call_python(b, ctx, RaceCall.RELEASE, lane, address, i32(0), i32(0))
    b.ret_void()
    return function


def _acquire(b: ir.IRBuilder, view: View, ctx: Value, lane: Value, address: Value) -> None:
    """Learn what was released through this place, if anything was."""
    released = b.load(view.plane(ShadowPlane.RELEASE), typ=I32)
    place = b.add(i64(Warp.ACQUIRED), b.shl(b.zext(lane, I64), i64(2)))
    news = b.icmp_unsigned("!=", released, t.load(b, ctx, place, I32))
    with b.if_then(b.and_(news, b.icmp_unsigned("!=", released, i32(0)))):
        t.store(b, released, ctx, place)
        _call_python(b, ctx, RaceCall.ACQUIRE, lane, address, released, i32(0))


def _call_python(b: ir.IRBuilder, ctx: Value, what: int, lane: Value, address: Value, who: Value, when: Value) -> Value:
    pointer = load_pointer(b, load_pointer(b, ctx, Warp.LAUNCH), LaunchRecord.RACE_CALLBACK)
    return t.call_pointer(b, I32, pointer, [ctx, i32(what), lane, address, who, when])


def _add_conflict(module: ir.Module) -> Value:
    """Add ``race_conflict``: report two accesses that no floor orders, unless something else does."""
    parameters = [POINTER, I32, I32, I64, I32, I32, I64, I32, I32, I32, I32, I32]
    function, b = t.new_function(module, "race_conflict", VOID, parameters)
    ctx, _, lane, address, size, flags, value, other_site, who, when, wrote, lanes = function.args
    launch = load_pointer(b, ctx, Warp.LAUNCH)
    number = load_field(b, ctx, Warp.FIRST_THREAD)
    block = load_pointer(b, ctx, Warp.BLOCK)
    place = b.sub(address, load_field(b, block, BlockRecord.SHARED))
    shared = b.icmp_unsigned("<", place, load_field(b, launch, LaunchRecord.SHARED_SIZE))
    full = b.select(shared, b.or_(who, b.and_(number, i32(~THREAD_IN_BLOCK))), who)
    # Lanes of one warp may have met with a partial mask: what is not known of any of them is behind us then.
    near = b.icmp_unsigned("<", b.xor(full, number), i32(32))
    one_warp = b.icmp_unsigned("<=", b.and_(when, i32(Epoch.SPREAD)), i32(1))
    with b.if_then(b.and_(near, one_warp)):
        return_if(b, b.icmp_unsigned("==", unmet(b, ctx, lane, when, lanes), i32(0)), None)
    plain = b.icmp_unsigned("==", b.and_(flags, i32(RaceFlag.STORE | RaceFlag.ATOMIC)), i32(RaceFlag.STORE))
    with b.if_then(plain):
        return_if(b, _same(b, t.at(b, address, 0), t.at(b, ctx, value), b.zext(size, I64)), None)
    python = load_field(b, launch, LaunchRecord.RACE_CALLBACK)
    with b.if_then(b.icmp_unsigned("!=", python, i64(0))):
        answer = _call_python(b, ctx, RaceCall.ORDERED, lane, address, full, when)
        return_if(b, b.icmp_unsigned("!=", answer, i32(0)), None)
    _note_event(b, launch, ctx, function.args[1:6], (other_site, full, when, wrote))
    b.ret_void()
    return function


_OTHER_ACCESS = (
    EventRecord.OTHER_SITE,
    EventRecord.OTHER_THREAD,
    EventRecord.OTHER_EPOCH,
    EventRecord.OTHER_WROTE,
)


def _note_event(
    b: ir.IRBuilder, launch: Value, ctx: Value, access: tuple[Value, ...], other: tuple[Value, ...]
) -> None:
    """Count a race; keep the first of each site."""
    site, lane, address, size, flags = access
    index = b.add(b.mul(b.zext(site, I64), i64(EVENT_KINDS)), i64(EventKind.RACE))
    counter = b.gep(load_pointer(b, launch, LaunchRecord.COUNTS), [index], source_etype=I64)
    seen = b.load(counter, typ=I64)
    b.store(b.add(seen, i64(1)), counter)
    number = load_field(b, launch, LaunchRecord.EVENT_COUNT)
    room = b.icmp_unsigned("<", number, load_field(b, launch, LaunchRecord.EVENT_LIMIT))
    with b.if_then(b.and_(b.icmp_unsigned("==", seen, i64(0)), room)):
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


def _same(b: ir.IRBuilder, one: Value, other: Value, size: Value) -> Value:
    """Return whether two stretches of bytes are equal."""
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


def add_meet(module: ir.Module) -> Value:
    """Add ``race_meet(ctx, active, alive)``: lanes meet whose masks, in the scratch space, name each other.

    When all living lanes meet the warp's floor rises; else only what the members know of each other.
    """
    function, b = t.new_function(module, "race_sync_warp", VOID, [POINTER, I32, I32])
    ctx, active, alive = function.args
    vector = ir.VectorType(I32, 32)
    zero = ir.Constant(vector, None)
    slot, known = b.alloca(I32), b.alloca(vector)
    b.store(active, slot)
    with t.for_lanes(b, active) as lane:
        place = b.add(i64(Warp.VALUES), b.shl(b.zext(lane, I64), i64(2)))
        own = b.shl(i32(1), lane)
        members = b.or_(b.and_(t.load(b, ctx, place, I32), active), own)
        fresh = b.icmp_unsigned("!=", b.and_(b.load(slot), own), i32(0))
        with b.if_then(fresh):
            b.store(b.and_(b.load(slot), b.not_(members)), slot)
            now = b.add(load_field(b, ctx, Warp.EPOCH), i32(Epoch.TICK))
            store_field(b, now, ctx, Warp.EPOCH)
            with b.if_else(b.icmp_unsigned("==", members, alive)) as (everybody, some):
                with everybody:
                    store_field(b, now, ctx, Warp.WARP_BARRIER_EPOCH)
                with some:
                    store_field(b, now, ctx, Warp.PARTIAL_SYNC_EPOCH)
                    b.store(zero, known)

                    def row(one: Value) -> Value:
                        return b.add(i64(Warp.LANE_CLOCKS), b.shl(b.zext(one, I64), i64(7)))

                    with t.for_lanes(b, members) as one:
                        more = t.load(b, ctx, row(one), vector, align=4)
                        b.store(t.intrinsic(b, "llvm.umax.v32i32", vector, [b.load(known), more]), known)
                    bits = b.trunc(b.lshr(t.splat(b, members, 32), t.iota(I32, 32)), ir.VectorType(I1, 32))
                    b.store(b.select(bits, t.splat(b, now, 32), b.load(known)), known)
                    with t.for_lanes(b, members) as one:
                        t.store(b, b.load(known), ctx, row(one), align=4)
    b.ret_void()
    return function


def add_synchronise(module: ir.Module) -> None:
    """Add ``race_synchronise(ctx, lanes, what)``: acquire or release through the addresses in the scratch space."""
    function, b = t.new_function(module, "race_acquire_release", VOID, [POINTER, I32, I32])
    ctx, lanes, what = function.args
    with t.for_lanes(b, lanes) as lane:
        place = b.add(i64(Warp.ADDRESSES), b.shl(b.zext(lane, I64), i64(3)))
        address = t.load(b, ctx, place, I64)
        with b.if_else(b.icmp_unsigned("==", what, i32(RaceCall.ACQUIRE))) as (acquire, release):
            with acquire:
                _acquire(b, view_of(b, ctx, address), ctx, lane, address)
            with release:
                _call_python(b, ctx, RaceCall.RELEASE, lane, address, i32(0), i32(0))
    b.ret_void()


def add_races(module: ir.Module) -> Value:
    """Add all of the above; return ``race_lane``."""
    settle = add_settle(module)
    for is_store in (False, True):
        for shared in (False, True):
            add_one(module, settle, is_store=is_store, shared=shared)
        add_row(module, is_store=is_store, shared=True)
        add_row_of_lines(module, add_row(module, is_store=is_store, shared=False), settle, is_store=is_store)
        add_lanes(module, settle, is_store=is_store)
    add_meet(module)
    add_synchronise(module)
    return add_lane(module, settle)


NAMES = (
    "race_row_load", "race_row_store", "race_row_load_shared", "race_row_store_shared",
    "race_broadcast_load", "race_broadcast_store", "race_broadcast_load_shared", "race_broadcast_store_shared",
    "race_scattered_load", "race_scattered_store",
    "race_sync_warp", "race_lane", "race_acquire_release",
)  # fmt: skip
