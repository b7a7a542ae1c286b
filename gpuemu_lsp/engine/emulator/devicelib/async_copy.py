"""Asynchronous copies to shared memory (PTX ISA section 9.7.9.25) as functions of the shared runtime.

The bytes of a ``cp.async`` may arrive at any time up to the wait, so they arrive as late as they can: when the thread
that asked for them waits. Until then the place holds poison that counts as never written, and whoever reads it is
reported. To the race checker the thread writes there twice, when it asks and when it waits.

Copies under way lie in a queue per warp; a thread's groups are numbered by how many it has committed before. A queue
that is full delivers all it holds, as hardware may.
"""

from __future__ import annotations

from llvmlite import ir

from gpuemu_lsp.engine.emulator.abi.field_access import load_field, load_pointer, store_field
from gpuemu_lsp.engine.emulator.abi.memory import Shadow
from gpuemu_lsp.engine.emulator.abi.structs import (
    MAX_PENDING_COPIES,
    REGISTER_BYTES,
    BlockRecord,
    CopyEntry,
    CopyQueue,
    LaunchRecord,
    Warp,
)
from gpuemu_lsp.engine.emulator.devicelib.shadow import shade
from gpuemu_lsp.engine.emulator.llvm import ir_tools as t
from gpuemu_lsp.engine.emulator.llvm.ir_tools import I1, I8, I32, I64, POINTER, VOID, Value, i32, i64, load, store

NAMES = ("copy_begin", "copy_commit", "copy_wait")

_POISON = 0xCBCBCBCB
_WORD = 4


def add_copies(module: ir.Module, check: Value, loading: Value, storing: Value) -> None:
    """Add the functions of :data:`NAMES`, given ``check``, ``load`` and ``store`` of the runtime."""
    deliver = _add_deliver(module, storing)
    wait = _add_wait(module, deliver)
    _add_commit(module)
    _add_begin(module, check, loading, storing, wait)


def _queue(b: ir.IRBuilder, ctx: Value) -> Value:
    """Return the address of the warp's queue."""
    first = load_field(b, load_pointer(b, ctx, Warp.BLOCK), BlockRecord.COPIES)
    warp = b.zext(load_field(b, ctx, Warp.WARP_ID), I64)
    return b.inttoptr(b.add(first, b.mul(warp, i64(CopyQueue.SIZE))), POINTER)


def _entry(b: ir.IRBuilder, queue: Value, index: Value) -> Value:
    return t.at(b, queue, b.add(i64(CopyQueue.ENTRIES), b.mul(b.zext(index, I64), i64(CopyEntry.SIZE))))


def _row(b: ir.IRBuilder, lane: Value, size: int, start: int | Value = 0) -> Value:
    """Return the offset of a lane's place in a row of values."""
    offset = b.mul(b.zext(lane, I64), i64(size))
    return b.add(offset, i64(start) if isinstance(start, int) else start)


def _move(b: ir.IRBuilder, to: Value, source: Value, size: int) -> None:
    arguments = [to, source, i64(size), ir.Constant(I1, 0)]
    t.intrinsic(b, "llvm.memcpy.p0.p0.i64", VOID, arguments)


def _fill(b: ir.IRBuilder, to: Value, byte: int, size: int) -> None:
    t.intrinsic(b, "llvm.memset.p0.i64", VOID, [to, ir.Constant(I8, byte), i64(size), ir.Constant(I1, 0)])


def _add_deliver(module: ir.Module, storing: Value) -> Value:
    """Add ``copy_deliver(ctx, entry, lanes)``: store what was copied for these lanes."""
    function, b = t.new_function(module, "copy_deliver", VOID, [POINTER, POINTER, I32])
    ctx, entry, lanes = function.args
    _move(b, t.at(b, ctx, Warp.ADDRESSES), t.at(b, entry, CopyEntry.TARGETS), 32 * 8)
    for word in range(4):
        _move(b, t.at(b, ctx, Warp.VALUES + word * REGISTER_BYTES), t.at(b, entry, CopyEntry.DATA + word * 128), 128)
    site, flags = load_field(b, entry, CopyEntry.SITE), load_field(b, entry, CopyEntry.FLAGS)
    size = load_field(b, entry, CopyEntry.BYTES)
    b.call(storing, [ctx, site, lanes, i32(_WORD), b.lshr(size, i32(2)), i32(0), flags])
    with t.for_lanes(b, lanes) as lane:
        target = load(b, entry, _row(b, lane, 8, CopyEntry.TARGETS), I64)
        shade(b, target, size, keep=255 & ~Shadow.IN_FLIGHT, add=0)
    left = b.and_(load_field(b, entry, CopyEntry.PENDING_MASK), b.not_(lanes))
    store_field(b, left, entry, CopyEntry.PENDING_MASK)
    b.ret_void()
    return function


def _add_commit(module: ir.Module) -> None:
    """Add ``copy_commit(ctx, lanes)``: what they asked for since the last time is a group."""
    function, b = t.new_function(module, "copy_commit", VOID, [POINTER, I32])
    ctx, lanes = function.args
    queue = _queue(b, ctx)
    with t.for_lanes(b, lanes) as lane:
        place = _row(b, lane, 4, CopyQueue.COMMITTED)
        store(b, b.add(load(b, queue, place, I32), i32(1)), queue, place)
    b.ret_void()


def _add_wait(module: ir.Module, deliver: Value) -> Value:
    """Add ``copy_wait(ctx, lanes, pending)``: deliver all but the last ``pending`` groups; -1 for all there is."""
    function, b = t.new_function(module, "copy_wait", VOID, [POINTER, I32, I32])
    ctx, lanes, pending = function.args
    queue = _queue(b, ctx)
    count = load_field(b, ctx, Warp.COPY_COUNT)
    kept, due = b.alloca(I32), b.alloca(I32)
    b.store(i32(0), kept)
    with _count(b, count) as index:
        entry = _entry(b, queue, index)
        b.store(i32(0), due)
        with t.for_lanes(b, b.and_(lanes, load_field(b, entry, CopyEntry.PENDING_MASK))) as lane:
            committed = load(b, queue, _row(b, lane, 4, CopyQueue.COMMITTED), I32)
            group = load(b, entry, _row(b, lane, 4, CopyEntry.GROUPS), I32)
            over = b.icmp_signed(">", b.sub(committed, group), pending)
            bit = b.select(over, b.shl(i32(1), lane), i32(0))
            b.store(b.or_(b.load(due), bit), due)
        now = b.load(due)
        with b.if_then(b.icmp_unsigned("!=", now, i32(0))):
            b.call(deliver, [ctx, entry, now])
        with b.if_then(b.icmp_unsigned("!=", load_field(b, entry, CopyEntry.PENDING_MASK), i32(0))):
            place = b.load(kept)
            with b.if_then(b.icmp_unsigned("!=", place, index)):
                _move(b, _entry(b, queue, place), entry, CopyEntry.SIZE)
            b.store(b.add(place, i32(1)), kept)
    store_field(b, b.load(kept), ctx, Warp.COPY_COUNT)
    b.ret_void()
    return function


class _count:  # noqa: N801 - used as a context manager function
    """Build a loop that counts from 0 to ``limit``, which may be 0."""

    def __init__(self, builder: ir.IRBuilder, limit: Value) -> None:
        self._b, self._limit = builder, limit

    def __enter__(self) -> Value:
        b = self._b
        before = b.block
        self._head, body = b.append_basic_block("count"), b.append_basic_block("counted")
        self._end = b.append_basic_block("count.end")
        b.branch(self._head)
        b.position_at_end(self._head)
        self._index = b.phi(I32)
        self._index.add_incoming(i32(0), before)
        b.cbranch(b.icmp_unsigned("<", self._index, self._limit), body, self._end)
        b.position_at_end(body)
        return self._index

    def __exit__(self, *unused: object) -> None:
        b = self._b
        self._index.add_incoming(b.add(self._index, i32(1)), b.block)
        b.branch(self._head)
        b.position_at_end(self._end)


def _add_begin(module: ir.Module, check: Value, loading: Value, storing: Value, wait: Value) -> None:
    """Add ``copy_begin(ctx, site, lanes, bytes, source_flags, target_flags)``: start one copy per lane.

    Targets lie in ``ADDRESS``; in ``VALUE`` the sources, and in its second row how many of the bytes to take from
    them. The rest becomes zero.
    """
    function, b = t.new_function(module, "copy_begin", VOID, [POINTER, I32, I32, I32, I32, I32])
    ctx, site, lanes, size, source_flags, target_flags = function.args
    targets, sources, taken = (b.alloca(ir.ArrayType(I64, 32)) for _ in range(3))
    for room, place in ((targets, Warp.ADDRESSES), (sources, Warp.VALUES), (taken, Warp.VALUES + REGISTER_BYTES)):
        room.type = POINTER
        _move(b, room, t.at(b, ctx, place), 32 * 8)
    queue = _queue(b, ctx)
    with b.if_then(b.icmp_unsigned(">=", load_field(b, ctx, Warp.COPY_COUNT), i32(MAX_PENDING_COPIES))):
        b.call(wait, [ctx, i32(-1), i32(-1)])
        _move(b, t.at(b, ctx, Warp.ADDRESSES), targets, 32 * 8)
    index = load_field(b, ctx, Warp.COPY_COUNT)
    entry = _entry(b, queue, index)
    words = b.lshr(size, i32(2))
    allowed, whole = b.alloca(I32), b.alloca(I32)
    b.store(i32(0), allowed)
    b.store(i32(0), whole)
    with t.for_lanes(b, lanes) as lane:
        target = load(b, targets, _row(b, lane, 8), I64)
        may = b.call(check, [ctx, site, lane, target, size, size, target_flags])
        bit = b.shl(i32(1), lane)
        b.store(b.or_(b.load(allowed), b.select(may, bit, i32(0))), allowed)
        full = b.icmp_unsigned(">=", load(b, taken, _row(b, lane, 8), I64), b.zext(size, I64))
        b.store(b.or_(b.load(whole), b.select(full, bit, i32(0))), whole)
    good = b.load(allowed)
    _poison(b, storing, [ctx, site, good, i32(_WORD), words, i32(0), target_flags])
    fresh = b.trunc(load_field(b, load_pointer(b, ctx, Warp.LAUNCH), LaunchRecord.FRESH_SHADOW), I8)
    keep = b.or_(fresh, ir.Constant(I8, 255 & ~Shadow.INITIALISED))
    with t.for_lanes(b, good) as lane:
        shade(b, load(b, targets, _row(b, lane, 8), I64), size, keep, Shadow.IN_FLIGHT)
    _fill(b, t.at(b, entry, CopyEntry.DATA), 0, 4 * 128)
    _take_whole(b, loading, [ctx, site, b.load(whole), i32(_WORD), words, i32(0), source_flags], sources, entry)
    partial = b.and_(lanes, b.not_(b.load(whole)))
    with t.for_lanes(b, partial) as lane:
        address = load(b, sources, _row(b, lane, 8), I64)
        count = b.trunc(load(b, taken, _row(b, lane, 8), I64), I32)
        with b.if_then(b.icmp_unsigned("!=", count, i32(0))):
            _take_some(b, check, loading, (ctx, site, lane, address, count, size, source_flags), entry)
    _move(b, t.at(b, entry, CopyEntry.TARGETS), targets, 32 * 8)
    _move(b, t.at(b, entry, CopyEntry.GROUPS), t.at(b, queue, CopyQueue.COMMITTED), 32 * 4)
    for field, value in (
        (CopyEntry.PENDING_MASK, good),
        (CopyEntry.SITE, site),
        (CopyEntry.BYTES, size),
        (CopyEntry.FLAGS, target_flags),
    ):
        store_field(b, value, entry, field)
    store_field(b, b.add(index, i32(1)), ctx, Warp.COPY_COUNT)
    b.ret_void()


def _poison(b: ir.IRBuilder, storing: Value, arguments: list[Value]) -> None:
    ctx = arguments[0]
    for word in range(4):
        _fill(b, t.at(b, ctx, Warp.VALUES + word * REGISTER_BYTES), _POISON & 0xFF, 128)
    b.call(storing, arguments)


def _take_whole(b: ir.IRBuilder, loading: Value, arguments: list[Value], sources: Value, entry: Value) -> None:
    """Load all bytes of the lanes that want them."""
    ctx, _, lanes, _, words, *_ = arguments
    _move(b, t.at(b, ctx, Warp.ADDRESSES), sources, 32 * 8)
    b.call(loading, arguments)
    with t.for_lanes(b, lanes) as lane, _count(b, words) as word:
        row = b.zext(word, I64)
        value = load(b, ctx, _row(b, lane, 4, b.add(b.mul(row, i64(REGISTER_BYTES)), i64(Warp.VALUES))), I32)
        store(b, value, entry, _row(b, lane, 4, b.add(b.mul(row, i64(128)), i64(CopyEntry.DATA))))


def _take_some(b: ir.IRBuilder, check: Value, loading: Value, given: tuple[Value, ...], entry: Value) -> None:
    """Load the first bytes of one lane, one by one; the address must be aligned to the whole."""
    ctx, site, lane, address, count, size, flags = given
    aligned = b.call(check, [ctx, site, lane, address, i32(1), size, flags])
    with b.if_then(aligned), _count(b, count) as byte:
        wide = b.zext(byte, I64)
        store(b, b.add(address, wide), ctx, _row(b, lane, 8, Warp.ADDRESSES))
        b.call(loading, [ctx, site, b.shl(i32(1), lane), i32(1), i32(1), i32(0), flags])
        value = load(b, ctx, _row(b, lane, 1, Warp.VALUES), I8)
        row = b.mul(b.lshr(wide, i64(2)), i64(128))
        place = b.add(_row(b, lane, 4, CopyEntry.DATA), b.add(row, b.and_(wide, i64(3))))
        store(b, value, entry, place)
