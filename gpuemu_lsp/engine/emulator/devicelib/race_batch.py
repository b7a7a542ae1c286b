"""The race detector's fast paths: a whole warp's access by shadow cells.

Three forms: a row (consecutive lanes at consecutive addresses, a coalesced access), a broadcast (all lanes at one
address), and scattered lanes. Each checks and records the access if it is ordered after everything stored, as far as
epochs show; else it returns 0 with at most some of the cells recorded, and the caller repeats the access lane by lane
with ``race_lane``. Recording a cell twice is harmless: the second record is that of the same thread and epoch.
"""

from __future__ import annotations

from llvmlite import ir

from gpuemu_lsp.engine.emulator.abi.field_access import load_element, load_pointer
from gpuemu_lsp.engine.emulator.abi.race_records import Epoch, ShadowPlane
from gpuemu_lsp.engine.emulator.abi.structs import Warp
from gpuemu_lsp.engine.emulator.devicelib.race_epochs import (
    ROW,
    AccessView,
    each_cell,
    first_active_address,
    keep_other_reader,
    return_if,
    view_access,
)
from gpuemu_lsp.engine.emulator.devicelib.race_lines import expand_lines_of
from gpuemu_lsp.engine.emulator.llvm import ir_tools as t
from gpuemu_lsp.engine.emulator.llvm.ir_tools import I1, I32, I64, POINTER, VOID, Value, i32


def add_row_by_cell(module: ir.Module, *, is_store: bool, shared: bool) -> Value:
    """Add ``race_row_load_by_cell`` (or ``store``): ``(ctx, site, mask, address, first, cells, shift) -> i1``.

    Lanes from ``first`` on access consecutive addresses, ``1 << shift`` cells each, ``cells`` in all. With ``shared``
    it is ``race_row_load_shared``, for shared memory only.
    """
    name = _name("race_row", is_store=is_store, shared=shared) + ("" if shared else "_by_cell")
    function, b = t.new_function(module, name, I1, [POINTER, I32, I32, I64, I32, I32, I32])
    ctx, site, mask, address, first, cells, shift = function.args
    launch = load_pointer(b, ctx, Warp.LAUNCH)
    inside = first_active_address(b, launch, mask, address, first, shift)
    view = view_access(b, ctx, address, shared=shared, inside=inside)
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
    # A lane has ``1 << shift`` cells, so that neighbouring cells may belong to one lane and share its mask bit.
    index = b.add(c(start), t.iota(I32, ROW))
    lane = b.add(c(first), b.lshr(index, c(shift)))
    bits = b.trunc(b.lshr(c(mask), b.and_(lane, c(i32(31)))), ir.VectorType(I1, ROW))
    active = b.and_(bits, b.icmp_unsigned("<", index, c(cells)))
    me = b.add(c(view.me), lane)
    byte = b.zext(b.shl(start, i32(2)), I64)

    # The planes have a margin at both ends, so that cells of inactive lanes can be loaded with the others.
    def fetch(plane: int) -> Value:
        return b.load(view.plane(plane, byte), typ=vector, align=4)

    def store(plane: int, value: Value, mask: Value) -> None:
        call = f"llvm.masked.store.{t.mangled(vector)}.p0"
        t.intrinsic(b, call, VOID, [value, view.plane(plane, byte), i32(4), mask])

    narrow = ir.IntType(ROW)
    written, read = fetch(ShadowPlane.WRITE_EPOCH), fetch(ShadowPlane.READ_EPOCH)

    def some(bits: Value) -> Value:
        return b.icmp_unsigned("!=", b.bitcast(b.and_(bits, active), narrow), ir.Constant(narrow, 0))

    def record(epoch: Value) -> None:
        planes = (ShadowPlane.WRITER, me), (ShadowPlane.WRITE_EPOCH, c(view.now)), (ShadowPlane.WRITE_SITE, c(site))
        if not is_store:
            planes = (ShadowPlane.READER, me), (ShadowPlane.READ_EPOCH, epoch), (ShadowPlane.READ_SITE, c(site))
        for plane, value in planes:
            store(plane, value, active)

    latch = b.append_basic_block("noted")
    if shared:
        # Most accesses to shared memory follow a block barrier that orders everything stored. Two epoch comparisons
        # show that without a look at threads; of reads also that the block has only read since.
        again = b.icmp_unsigned("==", read, c(view.read_by_block))
        old = b.icmp_unsigned("<", read, c(view.quick_barrier))
        fresh = b.and_(b.icmp_unsigned("<", written, c(view.quick_barrier)), old if is_store else b.or_(old, again))
        usual, closer = b.append_basic_block("usual"), b.append_basic_block("closer")
        b.cbranch(some(b.not_(fresh)), closer, usual)
        b.position_at_end(usual)
        # A record of several warps' reads stays as it is: it already stands for this one.
        record(b.select(again, read, c(view.now)))
        b.branch(latch)
        b.position_at_end(closer)
    # Any unordered write refuses the whole row, also where the vector clocks or the equal-value rule would allow it.
    bad, _ = view.unordered(fetch(ShadowPlane.WRITER), written, me)
    last = fetch(ShadowPlane.READER)
    concurrent, distance = view.unordered(last, read, me)
    # Partial-mask synchronisation is known lane by lane. It decides about a conflict, and for reads about whether the
    # earlier ones must stay in the record; both are left to ``race_lane``.
    refused = concurrent
    if not is_store:
        refused = view.maybe_ordered_by_partial_sync(read, distance, concurrent)
        refused = b.or_(refused, view.joins_strong(read, concurrent))
    return_if(b, some(b.or_(bad, refused)), 0)
    if not is_store:
        # The lanes plane is kept up for reads only: of several unordered writes none is recorded here.
        mine = b.shl(c(i32(1)), lane)
        lanes = b.or_(view.lanes_of(last, read, fetch(ShadowPlane.READER_LANES)), mine)
        store(ShadowPlane.READER_LANES, b.select(concurrent, lanes, mine), active)
        others = b.and_(b.and_(concurrent, active), b.icmp_unsigned("!=", last, me))
        last_site = fetch(ShadowPlane.READ_SITE)
        store(ShadowPlane.OTHER_READER, last, others)
        store(ShadowPlane.OTHER_READ_SITE, last_site, others)
    record(view.merged_epoch(read, distance, concurrent, c(i32(0))))
    b.branch(latch)
    b.position_at_end(latch)
    following = b.add(start, i32(ROW))
    start.add_incoming(following, b.block)
    b.cbranch(b.icmp_unsigned("<", following, cells), loop, end)
    b.position_at_end(end)
    b.ret(ir.Constant(I1, 1))
    return function


def add_broadcast(module: ir.Module, expand: Value, *, is_store: bool, shared: bool) -> Value:
    """Add ``race_broadcast_load`` (or ``store``): ``(ctx, site, lanes, address, cells) -> i1``.

    All ``lanes`` access one address; a store by several of them must store one value.
    """
    name = _name("race_broadcast", is_store=is_store, shared=shared)
    function, b = t.new_function(module, name, I1, [POINTER, I32, I32, I64, I32])
    ctx, site, lanes, address, cells = function.args
    view = view_access(b, ctx, address, shared=shared)
    # Generated code makes the call whatever the mask: a branch round it would cost more than this test.
    is_empty = b.icmp_unsigned("==", lanes, i32(0))
    return_if(b, is_empty if shared else b.or_(view.foreign, is_empty), 1)
    if not shared:
        expand_lines_of(b, expand, ctx, address, cells)
    lane = t.intrinsic(b, "llvm.cttz.i32", I32, [lanes, ir.Constant(I1, 1)])
    me = b.add(view.me, lane)
    several = b.zext(b.icmp_unsigned("!=", b.and_(lanes, b.sub(lanes, i32(1))), i32(0)), I32)
    last = b.sub(i32(31), t.intrinsic(b, "llvm.ctlz.i32", I32, [lanes, ir.Constant(I1, 1)]))
    with each_cell(b, b.zext(cells, I64)) as index:
        _check_cell(b, view, site, me, index, lanes, several, is_store=is_store, shared=shared)
        if not is_store:
            # The lane that is named may write later: the race is then with another of these readers.
            with b.if_then(b.icmp_unsigned("!=", several, i32(0))):
                b.store(b.add(view.me, last), view.plane(ShadowPlane.OTHER_READER, index))
                b.store(site, view.plane(ShadowPlane.OTHER_READ_SITE, index))
    b.ret(ir.Constant(I1, 1))
    return function


def _check_cell(
    b: ir.IRBuilder,
    view: AccessView,
    site: Value,
    me: Value,
    index: Value,
    lanes: Value,
    several: Value | None,
    *,
    is_store: bool,
    shared: bool = False,
) -> None:
    """Check and record one cell of an access by ``lanes`` of the warp, at the first of which ``me`` is.

    ``several`` is 1 if they are more than one; None means that they are one.
    """

    def fetch(plane: int) -> Value:
        return b.load(view.plane(plane, index), typ=I32)

    # An access stored for one of the lanes is ordered before that lane by program order, but not before the others:
    # it counts as one of the warp. So does the record of an access by several lanes.
    def widened(epoch: Value) -> Value:
        assert several is not None
        alone = b.icmp_unsigned("==", b.and_(epoch, i32(Epoch.SPREAD)), i32(0))
        return b.or_(epoch, b.and_(several, b.zext(alone, I32)))

    def record(epoch: Value) -> None:
        planes = (ShadowPlane.WRITER, me), (ShadowPlane.WRITE_EPOCH, view.now), (ShadowPlane.WRITE_SITE, site)
        if not is_store:
            planes = (ShadowPlane.READER, me), (ShadowPlane.READ_EPOCH, epoch), (ShadowPlane.READ_SITE, site)
        for plane, value in planes:
            b.store(value, view.plane(plane, index))

    written, read = fetch(ShadowPlane.WRITE_EPOCH), fetch(ShadowPlane.READ_EPOCH)
    latch = b.append_basic_block("noted")
    if shared:
        # As in add_row_by_cell: ordered by the last block barrier, or only read by the block since.
        again = b.icmp_unsigned("==", read, view.read_by_block)
        old = b.icmp_unsigned("<", read, view.quick_barrier)
        fresh = b.and_(b.icmp_unsigned("<", written, view.quick_barrier), old if is_store else b.or_(old, again))
        usual, closer = b.append_basic_block("usual"), b.append_basic_block("closer")
        b.cbranch(fresh, usual, closer)
        b.position_at_end(usual)
        if several is not None:
            b.store(lanes, view.plane(ShadowPlane.READER_LANES, index))
        record(b.select(again, read, view.now if several is None else b.or_(view.now, several)))
        b.branch(latch)
        b.position_at_end(closer)
    bad, _ = view.unordered(fetch(ShadowPlane.WRITER), written if several is None else widened(written), me)
    epoch = read if several is None else widened(read)
    concurrent, distance = view.unordered(fetch(ShadowPlane.READER), epoch, me)
    refused = concurrent
    if not is_store:
        refused = view.maybe_ordered_by_partial_sync(epoch, distance, concurrent)
        refused = b.or_(refused, view.joins_strong(epoch, concurrent))
    return_if(b, b.or_(bad, refused), 0)
    if not is_store:
        both = b.or_(view.lanes_of(fetch(ShadowPlane.READER), read, fetch(ShadowPlane.READER_LANES)), lanes)
        b.store(b.select(concurrent, both, lanes), view.plane(ShadowPlane.READER_LANES, index))
        keep_other_reader(view, index, concurrent, me)
    merged = view.merged_epoch(epoch, distance, concurrent, i32(0))
    # A broadcast store is recorded as the first lane's write: all lanes store one value, so that this can only miss a
    # race of the other lanes with a later write by that lane itself.
    if several is not None and not is_store:
        merged = widened(merged)
    record(merged)
    b.branch(latch)
    b.position_at_end(latch)


def add_scattered(module: ir.Module, expand: Value, *, is_store: bool) -> Value:
    """Add ``race_scattered_load`` (or ``store``): ``(ctx, site, mask, cells) -> i1``.

    Each lane has an address of its own, in the context's scratch space.
    """
    name = _name("race_scattered", is_store=is_store, shared=False)
    function, b = t.new_function(module, name, I1, [POINTER, I32, I32, I32])
    ctx, site, mask, cells = function.args
    count = b.zext(cells, I64)
    with t.for_lanes(b, mask) as lane:
        address = load_element(b, ctx, Warp.ADDRESSES, lane)
        view = view_access(b, ctx, address)
        with b.if_then(b.not_(view.foreign)):
            expand_lines_of(b, expand, ctx, address, cells)
            me = b.add(view.me, lane)
            with each_cell(b, count) as index:
                _check_cell(b, view, site, me, index, b.shl(i32(1), lane), None, is_store=is_store)
    b.ret(ir.Constant(I1, 1))
    return function


def _name(kind: str, *, is_store: bool, shared: bool) -> str:
    return f"{kind}_{'store' if is_store else 'load'}{'_shared' if shared else ''}"
