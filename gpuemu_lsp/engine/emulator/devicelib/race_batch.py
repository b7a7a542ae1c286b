"""The race checker for accesses of many lanes: neighbours, all at one place, or each at its own."""

from __future__ import annotations

from llvmlite import ir

from gpuemu_lsp.engine.emulator.abi.field_access import load_pointer
from gpuemu_lsp.engine.emulator.abi.race_records import Epoch, ShadowPlane
from gpuemu_lsp.engine.emulator.abi.structs import Warp
from gpuemu_lsp.engine.emulator.devicelib.race_epochs import (
    ROW,
    View,
    each_cell,
    first_place,
    note_other,
    return_if,
    view_of,
)
from gpuemu_lsp.engine.emulator.devicelib.race_lines import settle_cell
from gpuemu_lsp.engine.emulator.llvm import ir_tools as t
from gpuemu_lsp.engine.emulator.llvm.ir_tools import I1, I32, I64, POINTER, VOID, Value, i32, i64


def add_row(module: ir.Module, *, is_store: bool, shared: bool) -> Value:
    """Add ``race_row_load_by_cell`` (or ``store``): ``(ctx, site, mask, address, first, cells, shift) -> i1``.

    Lanes from ``first`` on access neighbouring places, ``1 << shift`` cells each, ``cells`` in all. Returns whether all
    is in order, and notes the access if so. With ``shared`` it is ``..._shared``, for shared memory only, and quicker:
    where all that was noted is older than the last barrier, or a read by the block since, no thread need be looked at.
    """
    name = _name("race_row", is_store=is_store, shared=shared) + ("" if shared else "_by_cell")
    function, b = t.new_function(module, name, I1, [POINTER, I32, I32, I64, I32, I32, I32])
    ctx, site, mask, address, first, cells, shift = function.args
    launch = load_pointer(b, ctx, Warp.LAUNCH)
    view = view_of(b, ctx, address, shared=shared, inside=first_place(b, launch, mask, address, first, shift))
    if not shared:
        return_if(b, view.foreign, 1)
    vector = ir.VectorType(I32, ROW)

    def c(value: Value) -> Value:
        return t.splat(b, value, ROW)

    before = b.block
    loop, end = b.append_basic_block("chunk"), b.append_basic_block("chunk.end")
    b.branch(loop)
    b.position_at_end(loop)
    start = b.phi(I32)
    start.add_incoming(i32(0), before)
    index = b.add(c(start), t.iota(I32, ROW))
    lane = b.add(c(first), b.lshr(index, c(shift)))
    bits = b.trunc(b.lshr(c(mask), b.and_(lane, c(i32(31)))), ir.VectorType(I1, ROW))
    active = b.and_(bits, b.icmp_unsigned("<", index, c(cells)))
    me = b.add(c(view.me), lane)
    byte = b.zext(b.shl(start, i32(2)), I64)

    def fetch(plane: int) -> Value:
        return b.load(view.plane(plane, byte), typ=vector, align=4)

    def note(plane: int, value: Value) -> None:
        call = f"llvm.masked.store.{t.mangled(vector)}.p0"
        t.intrinsic(b, call, VOID, [value, view.plane(plane, byte), i32(4), active])

    narrow = ir.IntType(ROW)
    written, read = fetch(ShadowPlane.WRITE_EPOCH), fetch(ShadowPlane.READ_EPOCH)

    def some(bits: Value) -> Value:
        return b.icmp_unsigned("!=", b.bitcast(b.and_(bits, active), narrow), ir.Constant(narrow, 0))

    def write(when: Value) -> None:
        planes = (ShadowPlane.WRITER, me), (ShadowPlane.WRITE_EPOCH, c(view.now)), (ShadowPlane.WRITE_SITE, c(site))
        if not is_store:
            planes = (ShadowPlane.READER, me), (ShadowPlane.READ_EPOCH, when), (ShadowPlane.READ_SITE, c(site))
        for plane, value in planes:
            note(plane, value)

    latch = b.append_basic_block("noted")
    if shared:
        again = b.icmp_unsigned("==", read, c(view.read_by_block))
        old = b.icmp_unsigned("<", read, c(view.block_floor))
        fresh = b.and_(b.icmp_unsigned("<", written, c(view.block_floor)), old if is_store else b.or_(old, again))
        usual, closer = b.append_basic_block("usual"), b.append_basic_block("closer")
        b.cbranch(some(b.not_(fresh)), closer, usual)
        b.position_at_end(usual)
        write(b.select(again, read, c(view.now)))
        b.branch(latch)
        b.position_at_end(closer)
    bad, _ = view.unordered(fetch(ShadowPlane.WRITER), written, me)
    last = fetch(ShadowPlane.READER)
    behind, x = view.unordered(last, read, me)
    # Whether lanes that met have met them all is seen lane by lane.
    return_if(b, some(b.or_(bad, behind if is_store else view.perhaps_met(read, x, behind))), 0)
    if not is_store:
        mine = b.shl(c(i32(1)), lane)
        lanes = b.or_(view.lanes(last, read, fetch(ShadowPlane.READER_LANES)), mine)
        note(ShadowPlane.READER_LANES, b.select(behind, lanes, mine))
        others = b.and_(b.and_(behind, active), b.icmp_unsigned("!=", last, me))
        for plane, value in (
            (ShadowPlane.OTHER_READER, last),
            (ShadowPlane.OTHER_READ_SITE, fetch(ShadowPlane.READ_SITE)),
        ):
            place = view.plane(plane, byte)
            t.intrinsic(b, f"llvm.masked.store.{t.mangled(vector)}.p0", VOID, [value, place, i32(4), others])
    write(view.merged(read, x, behind, c(i32(0))))
    b.branch(latch)
    b.position_at_end(latch)
    following = b.add(start, i32(ROW))
    start.add_incoming(following, b.block)
    b.cbranch(b.icmp_unsigned("<", following, cells), loop, end)
    b.position_at_end(end)
    b.ret(ir.Constant(I1, 1))
    return function


def add_one(module: ir.Module, settle: Value, *, is_store: bool, shared: bool) -> Value:
    """Add ``race_broadcast_load`` or ``race_broadcast_store``: ``(ctx, site, lanes, address, cells) -> i1``.

    All ``lanes`` access one place; stores only with one value. Otherwise as :func:`add_row`.
    """
    name = _name("race_broadcast", is_store=is_store, shared=shared)
    function, b = t.new_function(module, name, I1, [POINTER, I32, I32, I64, I32])
    ctx, site, lanes, address, cells = function.args
    view = view_of(b, ctx, address, shared=shared)
    nobody = b.icmp_unsigned("==", lanes, i32(0))
    return_if(b, nobody if shared else b.or_(view.foreign, nobody), 1)
    if not shared:
        settle_cell(b, settle, ctx, address, cells)
    lane = t.intrinsic(b, "llvm.cttz.i32", I32, [lanes, ir.Constant(I1, 1)])
    me = b.add(view.me, lane)
    several = b.zext(b.icmp_unsigned("!=", b.and_(lanes, b.sub(lanes, i32(1))), i32(0)), I32)
    last = b.sub(i32(31), t.intrinsic(b, "llvm.ctlz.i32", I32, [lanes, ir.Constant(I1, 1)]))
    with each_cell(b, b.zext(cells, I64)) as index:
        _one_cell(b, view, site, me, index, lanes, several, is_store=is_store, shared=shared)
        if not is_store:  # the one that is named may write later: another of these readers is the other party then
            with b.if_then(b.icmp_unsigned("!=", several, i32(0))):
                b.store(b.add(view.me, last), view.plane(ShadowPlane.OTHER_READER, index))
                b.store(site, view.plane(ShadowPlane.OTHER_READ_SITE, index))
    b.ret(ir.Constant(I1, 1))
    return function


def _one_cell(
    b: ir.IRBuilder,
    view: View,
    site: Value,
    me: Value,
    index: Value,
    lanes: Value,
    several: Value | None,
    *,
    is_store: bool,
    shared: bool = False,
) -> None:
    """Check and note one cell of an access by ``lanes`` of the warp; ``several`` is 1 if they are more than one."""

    def fetch(plane: int) -> Value:
        return b.load(view.plane(plane, index), typ=I32)

    # An access by several lanes is only behind all of them if it is behind the warp.
    def among(when: Value) -> Value:
        if several is None:
            return when
        alone = b.icmp_unsigned("==", b.and_(when, i32(Epoch.SPREAD)), i32(0))
        return b.or_(when, b.and_(several, b.zext(alone, I32)))

    def write(when: Value) -> None:
        planes = (ShadowPlane.WRITER, me), (ShadowPlane.WRITE_EPOCH, view.now), (ShadowPlane.WRITE_SITE, site)
        if not is_store:
            planes = (ShadowPlane.READER, me), (ShadowPlane.READ_EPOCH, when), (ShadowPlane.READ_SITE, site)
        for plane, value in planes:
            b.store(value, view.plane(plane, index))

    written, read = fetch(ShadowPlane.WRITE_EPOCH), fetch(ShadowPlane.READ_EPOCH)
    latch = b.append_basic_block("noted")
    if shared:
        again = b.icmp_unsigned("==", read, view.read_by_block)
        old = b.icmp_unsigned("<", read, view.block_floor)
        fresh = b.and_(b.icmp_unsigned("<", written, view.block_floor), old if is_store else b.or_(old, again))
        usual, closer = b.append_basic_block("usual"), b.append_basic_block("closer")
        b.cbranch(fresh, usual, closer)
        b.position_at_end(usual)
        if several is not None:
            b.store(lanes, view.plane(ShadowPlane.READER_LANES, index))
        write(b.select(again, read, view.now if several is None else b.or_(view.now, several)))
        b.branch(latch)
        b.position_at_end(closer)
    bad, _ = view.unordered(fetch(ShadowPlane.WRITER), among(written), me)
    when = among(read)
    behind, x = view.unordered(fetch(ShadowPlane.READER), when, me)
    return_if(b, b.or_(bad, behind if is_store else view.perhaps_met(when, x, behind)), 0)
    if not is_store:
        both = b.or_(view.lanes(fetch(ShadowPlane.READER), read, fetch(ShadowPlane.READER_LANES)), lanes)
        b.store(b.select(behind, both, lanes), view.plane(ShadowPlane.READER_LANES, index))
        note_other(view, index, behind, me)
    noted = view.merged(when, x, behind, i32(0))
    if several is not None and not is_store:
        alone = b.icmp_unsigned("==", b.and_(noted, i32(Epoch.SPREAD)), i32(0))
        noted = b.or_(noted, b.and_(several, b.zext(alone, I32)))
    write(noted)
    b.branch(latch)
    b.position_at_end(latch)


def add_lanes(module: ir.Module, settle: Value, *, is_store: bool) -> Value:
    """Add ``race_scattered_load`` or ``race_scattered_store``: ``(ctx, site, mask, cells) -> i1``.

    Each lane has an address of its own, in the context's scratch space. Otherwise as :func:`add_row`.
    """
    name = "race_scattered_store" if is_store else "race_scattered_load"
    function, b = t.new_function(module, name, I1, [POINTER, I32, I32, I32])
    ctx, site, mask, cells = function.args
    count = b.zext(cells, I64)
    with t.for_lanes(b, mask) as lane:
        place = b.add(i64(Warp.ADDRESSES), b.shl(b.zext(lane, I64), i64(3)))
        address = t.load(b, ctx, place, I64)
        view = view_of(b, ctx, address)
        with b.if_then(b.not_(view.foreign)):
            settle_cell(b, settle, ctx, address, cells)
            me = b.add(view.me, lane)
            with each_cell(b, count) as index:
                _one_cell(b, view, site, me, index, b.shl(i32(1), lane), None, is_store=is_store)
    b.ret(ir.Constant(I1, 1))
    return function


def _name(kind: str, *, is_store: bool, shared: bool) -> str:
    return f"{kind}_{'store' if is_store else 'load'}{'_shared' if shared else ''}"
