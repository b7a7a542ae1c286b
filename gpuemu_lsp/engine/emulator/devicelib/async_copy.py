"""Asynchronous copies to shared memory (PTX ISA section 9.7.9.25) as functions of the device library.

The bytes of a ``cp.async`` may arrive at any time up to the wait. Here they arrive as late as possible, when the
issuing thread waits; until then the target holds poison that counts as uninitialised, so that a read in between is
reported. To the race detector the thread writes to the target twice: at the copy and at the wait. What the same thread
writes to it in between, by a store or by a later copy, is reported here.

Pending copies lie in one queue per warp. A thread's groups are numbered by the groups it has committed before. A full
queue delivers all its copies, as hardware may at any time.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from llvmlite import ir

from gpuemu_lsp.engine.emulator.abi.access_flags import IN_FLIGHT_FLAG, STORE_FLAG
from gpuemu_lsp.engine.emulator.abi.field_access import load_field, load_pointer, store_field
from gpuemu_lsp.engine.emulator.abi.memory import Shadow
from gpuemu_lsp.engine.emulator.abi.states import EventKind
from gpuemu_lsp.engine.emulator.abi.structs import (
    MAX_PENDING_COPIES,
    REGISTER_BYTES,
    BlockRecord,
    CopyEntry,
    CopyQueue,
    LaunchRecord,
    Warp,
)
from gpuemu_lsp.engine.emulator.devicelib.shadow_bytes import change_shadow, shadow_bits
from gpuemu_lsp.engine.emulator.llvm import ir_tools as t
from gpuemu_lsp.engine.emulator.llvm.ir_tools import I1, I8, I32, I64, POINTER, VOID, Value, i32, i64, load, store

NAMES: Final = ("copy_begin", "copy_commit", "copy_wait")

_WORD = 4


def add_async_copies(module: ir.Module, event: Value, check: Value, load_lanes: Value, store_lanes: Value) -> None:
    """Add the functions of :data:`NAMES`, given ``record_event``, ``check_access``, ``load`` and ``store``."""
    deliver = _add_deliver(module, event, store_lanes)
    wait = _add_wait(module, deliver)
    _add_commit(module)
    overlap = _add_overlap(module, event)
    _add_begin(module, check, load_lanes, store_lanes, wait, overlap)


def _queue(b: ir.IRBuilder, ctx: Value) -> Value:
    """Return the address of the warp's CopyQueue."""
    first = load_field(b, load_pointer(b, ctx, Warp.BLOCK), BlockRecord.COPIES)
    warp = b.zext(load_field(b, ctx, Warp.WARP_ID), I64)
    return b.inttoptr(b.add(first, b.mul(warp, i64(CopyQueue.SIZE))), POINTER)


def _entry(b: ir.IRBuilder, queue: Value, index: Value) -> Value:
    return t.at(b, queue, b.add(i64(CopyQueue.ENTRIES), b.mul(b.zext(index, I64), i64(CopyEntry.SIZE))))


def _row(b: ir.IRBuilder, lane: Value, size: int, start: int | Value = 0) -> Value:
    """Return the offset of a lane's element in a row that begins at ``start``."""
    offset = b.mul(b.zext(lane, I64), i64(size))
    return b.add(offset, i64(start) if isinstance(start, int) else start)


def _move(b: ir.IRBuilder, to: Value, source: Value, size: int) -> None:
    arguments = [to, source, i64(size), ir.Constant(I1, 0)]
    t.intrinsic(b, "llvm.memcpy.p0.p0.i64", VOID, arguments)


def _fill(b: ir.IRBuilder, to: Value, byte: Value, size: int) -> None:
    t.intrinsic(b, "llvm.memset.p0.i64", VOID, [to, byte, i64(size), ir.Constant(I1, 0)])


def _add_deliver(module: ir.Module, event: Value, store_lanes: Value) -> Value:
    """Add ``copy_deliver(ctx, entry, lanes)``: store a pending copy for these lanes."""
    function, b = t.new_function(module, "copy_deliver", VOID, [POINTER, POINTER, I32])
    ctx, entry, lanes = function.args
    # The store function of ordinary accesses does the work, with its checks and the race detector's second write: the
    # entry is copied to the scratch space, where that function expects addresses and values.
    _move(b, t.at(b, ctx, Warp.ADDRESSES), t.at(b, entry, CopyEntry.TARGETS), 32 * 8)
    for word in range(4):
        _move(b, t.at(b, ctx, Warp.VALUES + word * REGISTER_BYTES), t.at(b, entry, CopyEntry.DATA + word * 128), 128)
    site, flags = load_field(b, entry, CopyEntry.SITE), load_field(b, entry, CopyEntry.FLAGS)
    size = load_field(b, entry, CopyEntry.BYTES)
    fresh = b.trunc(load_field(b, load_pointer(b, ctx, Warp.LAUNCH), LaunchRecord.FRESH_SHADOW), I8)
    with b.if_then(b.not_(_has(b, fresh, Shadow.INITIALISED))), t.for_lanes(b, lanes) as lane:
        target = load(b, entry, _row(b, lane, 8, CopyEntry.TARGETS), I64)
        every, some = shadow_bits(b, target, b.zext(size, I64))
        # A store leaves the bit of the flight, another copy that has been delivered clears it.
        with b.if_then(b.and_(_has(b, every, Shadow.IN_FLIGHT), _has(b, some, Shadow.INITIALISED))):
            b.call(event, [ctx, site, i32(EventKind.COPY_OVERTAKEN), lane, target, size, i32(STORE_FLAG)])
    b.call(store_lanes, [ctx, site, lanes, i32(_WORD), b.lshr(size, i32(2)), i32(0), flags])
    with t.for_lanes(b, lanes) as lane:
        target = load(b, entry, _row(b, lane, 8, CopyEntry.TARGETS), I64)
        change_shadow(b, target, size, keep=255 & ~Shadow.IN_FLIGHT, add=0)
    left = b.and_(load_field(b, entry, CopyEntry.PENDING_MASK), b.not_(lanes))
    store_field(b, left, entry, CopyEntry.PENDING_MASK)
    b.ret_void()
    return function


def _has(b: ir.IRBuilder, bits: Value, bit: int) -> Value:
    return b.icmp_unsigned("!=", b.and_(bits, ir.Constant(I8, bit)), ir.Constant(I8, 0))


def _add_overlap(module: ir.Module, event: Value) -> Value:
    """Add ``copy_overlap(ctx, entry, earlier)``: report lanes whose copy overtakes one that is pending in ``earlier``.

    Within one group the same bytes may be copied twice, as where a thread repeats its last element.
    """
    function, b = t.new_function(module, "copy_overlap", VOID, [POINTER, POINTER, POINTER])
    function.linkage = "internal"
    ctx, entry, earlier = function.args
    size, before = (b.zext(load_field(b, one, CopyEntry.BYTES), I64) for one in (entry, earlier))
    pending = (load_field(b, one, CopyEntry.PENDING_MASK) for one in (entry, earlier))
    with t.for_lanes(b, b.and_(*pending)) as lane:
        place = _row(b, lane, 8, CopyEntry.TARGETS)
        target, other = (load(b, one, place, I64) for one in (entry, earlier))
        apart = b.or_(
            b.icmp_unsigned(">=", target, b.add(other, before)), b.icmp_unsigned(">=", other, b.add(target, size))
        )
        place = _row(b, lane, 4, CopyEntry.GROUPS)
        repeated = b.icmp_unsigned("==", load(b, entry, place, I32), load(b, earlier, place, I32))
        repeated = b.and_(repeated, b.and_(b.icmp_unsigned("==", target, other), b.icmp_unsigned("==", size, before)))
        for word in range(4):
            place = _row(b, lane, 4, CopyEntry.DATA + word * 128)
            same = b.icmp_unsigned("==", load(b, entry, place, I32), load(b, earlier, place, I32))
            repeated = b.and_(repeated, same)
        with b.if_then(b.not_(b.or_(apart, repeated))):
            flags = i32(STORE_FLAG | IN_FLIGHT_FLAG)
            site = load_field(b, entry, CopyEntry.SITE)
            b.call(event, [ctx, site, i32(EventKind.COPY_OVERTAKEN), lane, target, b.trunc(size, I32), flags])
    b.ret_void()
    return function


def _add_commit(module: ir.Module) -> None:
    """Add ``copy_commit(ctx, lanes)``: the copies issued since the last commit become a group."""
    function, b = t.new_function(module, "copy_commit", VOID, [POINTER, I32])
    ctx, lanes = function.args
    queue = _queue(b, ctx)
    # Counted even if no copy was issued: an empty group is a group to ``cp.async.wait_group``.
    with t.for_lanes(b, lanes) as lane:
        place = _row(b, lane, 4, CopyQueue.COMMITTED)
        store(b, b.add(load(b, queue, place, I32), i32(1)), queue, place)
    b.ret_void()


def _add_wait(module: ir.Module, deliver: Value) -> Value:
    """Add ``copy_wait(ctx, lanes, pending)``: deliver all but the last ``pending`` groups, with -1 all copies.

    Lanes commit on their own, so that one entry may be due for some of its lanes only; it stays for the others.
    """
    function, b = t.new_function(module, "copy_wait", VOID, [POINTER, I32, I32])
    ctx, lanes, pending = function.args
    queue = _queue(b, ctx)
    count = load_field(b, ctx, Warp.COPY_COUNT)
    kept, due = b.alloca(I32), b.alloca(I32)
    b.store(i32(0), kept)
    # One pass that also compacts the queue: entries still pending move to the front, in their order, because later
    # copies to the same bytes must be delivered later.
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


@contextmanager
def _count(b: ir.IRBuilder, limit: Value) -> Iterator[Value]:
    """Build a loop that counts from 0 to ``limit``, which may be 0."""
    before = b.block
    head, body = b.append_basic_block("count"), b.append_basic_block("counted")
    end = b.append_basic_block("count.end")
    b.branch(head)
    b.position_at_end(head)
    index = b.phi(I32)
    index.add_incoming(i32(0), before)
    b.cbranch(b.icmp_unsigned("<", index, limit), body, end)
    b.position_at_end(body)
    yield index
    index.add_incoming(b.add(index, i32(1)), b.block)
    b.branch(head)
    b.position_at_end(end)


def _add_begin(
    module: ir.Module, check: Value, load_lanes: Value, store_lanes: Value, wait: Value, overlap: Value
) -> None:
    """Add ``copy_begin(ctx, site, lanes, bytes, source_flags, target_flags)``: issue one copy per lane.

    Targets lie in ``Warp.ADDRESSES``, sources in ``Warp.VALUES``, and in its second row the number of bytes to read
    (``src-size``). The rest of the target becomes zero.
    """
    function, b = t.new_function(module, "copy_begin", VOID, [POINTER, I32, I32, I32, I32, I32])
    ctx, site, lanes, size, source_flags, target_flags = function.args
    targets, sources, taken = (b.alloca(ir.ArrayType(I64, 32)) for _ in range(3))
    for copy, row in ((targets, Warp.ADDRESSES), (sources, Warp.VALUES), (taken, Warp.VALUES + REGISTER_BYTES)):
        copy.type = POINTER
        _move(b, copy, t.at(b, ctx, row), 32 * 8)
    # The scratch space is saved above because delivering a copy uses it.
    queue = _queue(b, ctx)
    # Early delivery is one of the schedules that hardware may choose; a missing wait is then found a little less often.
    with b.if_then(b.icmp_unsigned(">=", load_field(b, ctx, Warp.COPY_COUNT), i32(MAX_PENDING_COPIES))):
        b.call(wait, [ctx, i32(-1), i32(-1)])
        _move(b, t.at(b, ctx, Warp.ADDRESSES), targets, 32 * 8)
    index = load_field(b, ctx, Warp.COPY_COUNT)
    entry = _entry(b, queue, index)
    words = b.lshr(size, i32(2))
    allowed, whole, there = b.alloca(I32), b.alloca(I32), b.alloca(I32)
    for lanes_found in (allowed, whole, there):
        b.store(i32(0), lanes_found)
    flying = b.alloca(I8)
    b.store(ir.Constant(I8, 0), flying)
    # Targets are checked now, when the instruction that is at fault is executing, not at the wait.
    with t.for_lanes(b, lanes) as lane:
        target = load(b, targets, _row(b, lane, 8), I64)
        may = b.call(check, [ctx, site, lane, target, size, size, target_flags])
        bit = b.shl(i32(1), lane)
        b.store(b.or_(b.load(allowed), b.select(may, bit, i32(0))), allowed)
        with b.if_then(may):
            every, some = shadow_bits(b, target, b.zext(size, I64))
            b.store(b.or_(b.load(flying), some), flying)
            known = b.and_(_has(b, every, Shadow.INITIALISED), b.not_(_has(b, some, Shadow.IN_FLIGHT)))
            b.store(b.or_(b.load(there), b.select(known, bit, i32(0))), there)
            # A later lane with the same target finds it.
            change_shadow(b, target, size, 255, Shadow.IN_FLIGHT)
        full = b.icmp_unsigned(">=", load(b, taken, _row(b, lane, 8), I64), b.zext(size, I64))
        b.store(b.or_(b.load(whole), b.select(full, bit, i32(0))), whole)
    _fill(b, t.at(b, entry, CopyEntry.DATA), ir.Constant(I8, 0), 4 * 128)
    _copy_whole(b, load_lanes, [ctx, site, b.load(whole), i32(_WORD), words, i32(0), source_flags], sources, entry)
    # The rest, lane by lane. Bytes that are not read stay 0 in the entry (``src-size`` smaller than the copy).
    partial = b.and_(lanes, b.not_(b.load(whole)))
    with t.for_lanes(b, partial) as lane:
        address = load(b, sources, _row(b, lane, 8), I64)
        count = b.trunc(load(b, taken, _row(b, lane, 8), I64), I32)
        with b.if_then(b.icmp_unsigned("!=", count, i32(0))):
            _copy_bytes(b, check, load_lanes, (ctx, site, lane, address, count, size, source_flags), entry)
    _move(b, t.at(b, entry, CopyEntry.TARGETS), targets, 32 * 8)
    in_flight = _has(b, b.load(flying), Shadow.IN_FLIGHT)
    with b.if_then(in_flight):
        _leave_out_repeated(b, entry, allowed)
    _leave_out_present(b, entry, allowed, b.load(there), words)
    good = b.load(allowed)
    # The first of the two writes that the race detector sees; it also makes a read before the wait show poison.
    _move(b, t.at(b, ctx, Warp.ADDRESSES), targets, 32 * 8)
    _poison(b, store_lanes, [ctx, site, good, i32(_WORD), words, i32(0), target_flags])
    # Where uninitialised reads are not checked, fresh memory counts as initialised, and so must the target.
    fresh = b.trunc(load_field(b, load_pointer(b, ctx, Warp.LAUNCH), LaunchRecord.FRESH_SHADOW), I8)
    keep = b.or_(fresh, ir.Constant(I8, 255 & ~Shadow.INITIALISED))
    with t.for_lanes(b, good) as lane:
        change_shadow(b, load(b, targets, _row(b, lane, 8), I64), size, keep, Shadow.IN_FLIGHT)
    _move(b, t.at(b, entry, CopyEntry.GROUPS), t.at(b, queue, CopyQueue.COMMITTED), 32 * 4)
    for field, value in (
        (CopyEntry.PENDING_MASK, good),
        (CopyEntry.SITE, site),
        (CopyEntry.BYTES, size),
        (CopyEntry.FLAGS, target_flags),
    ):
        store_field(b, value, entry, field)
    with b.if_then(in_flight), _count(b, index) as number:
        b.call(overlap, [ctx, entry, _entry(b, queue, number)])
    store_field(b, b.add(index, i32(1)), ctx, Warp.COPY_COUNT)
    b.ret_void()


def _leave_out_repeated(b: ir.IRBuilder, entry: Value, lanes: Value) -> None:
    """Leave out of ``lanes`` those whose target and bytes a lower one has, as where a tail repeats its last element."""
    with t.for_lanes(b, b.load(lanes)) as lane:
        bit = b.shl(i32(1), lane)
        target = load(b, entry, _row(b, lane, 8, CopyEntry.TARGETS), I64)
        with t.for_lanes(b, b.and_(b.load(lanes), b.sub(bit, i32(1)))) as lower:
            same = b.icmp_unsigned("==", target, load(b, entry, _row(b, lower, 8, CopyEntry.TARGETS), I64))
            for word in range(4):
                mine, other = (
                    load(b, entry, _row(b, one, 4, CopyEntry.DATA + word * 128), I32) for one in (lane, lower)
                )
                same = b.and_(same, b.icmp_unsigned("==", mine, other))
            b.store(b.and_(b.load(lanes), b.select(same, b.not_(bit), i32(-1))), lanes)


def _leave_out_present(b: ir.IRBuilder, entry: Value, lanes: Value, known: Value, words: Value) -> None:
    """Leave out of ``lanes`` those of ``known``, whose target is initialised, that copy the bytes that are there.

    As with stores: what changes nothing shows in no order.
    """
    differs = b.alloca(I32)
    with t.for_lanes(b, b.and_(b.load(lanes), known)) as lane:
        target = load(b, entry, _row(b, lane, 8, CopyEntry.TARGETS), I64)
        b.store(i32(0), differs)
        with _count(b, words) as word:
            row = b.zext(word, I64)
            wanted = load(b, entry, _row(b, lane, 4, b.add(b.mul(row, i64(128)), i64(CopyEntry.DATA))), I32)
            found = load(b, target, b.mul(row, i64(_WORD)), I32)
            b.store(b.or_(b.load(differs), b.xor(wanted, found)), differs)
        present = b.icmp_unsigned("==", b.load(differs), i32(0))
        b.store(b.and_(b.load(lanes), b.select(present, b.not_(b.shl(i32(1), lane)), i32(-1))), lanes)
        with b.if_then(present):
            size = b.shl(words, i32(2))
            change_shadow(b, target, size, 255 & ~Shadow.IN_FLIGHT, 0)


def _poison(b: ir.IRBuilder, store_lanes: Value, arguments: list[Value]) -> None:
    ctx = arguments[0]
    content = b.trunc(load_field(b, load_pointer(b, ctx, Warp.LAUNCH), LaunchRecord.FILL), I8)
    for word in range(4):
        _fill(b, t.at(b, ctx, Warp.VALUES + word * REGISTER_BYTES), content, 128)
    b.call(store_lanes, arguments)


def _copy_whole(b: ir.IRBuilder, load_lanes: Value, arguments: list[Value], sources: Value, entry: Value) -> None:
    """Load the sources of the lanes that read all bytes, as one access."""
    ctx, _, lanes, _, words, *_ = arguments
    _move(b, t.at(b, ctx, Warp.ADDRESSES), sources, 32 * 8)
    b.call(load_lanes, arguments)
    # Rows of the scratch space have 8 bytes per lane, those of an entry 4: no ``cp.async`` has wider elements.
    with t.for_lanes(b, lanes) as lane, _count(b, words) as word:
        row = b.zext(word, I64)
        value = load(b, ctx, _row(b, lane, 4, b.add(b.mul(row, i64(REGISTER_BYTES)), i64(Warp.VALUES))), I32)
        store(b, value, entry, _row(b, lane, 4, b.add(b.mul(row, i64(128)), i64(CopyEntry.DATA))))


def _copy_bytes(b: ir.IRBuilder, check: Value, load_lanes: Value, given: tuple[Value, ...], entry: Value) -> None:
    """Load the first bytes of one lane, one by one: a shorter ``src-size`` may be any number.

    The address must be aligned to the size of the whole copy all the same.
    """
    ctx, site, lane, address, count, size, flags = given
    aligned = b.call(check, [ctx, site, lane, address, i32(1), size, flags])
    # Through the load function of ordinary accesses, for its checks and its part in race detection.
    with b.if_then(aligned), _count(b, count) as byte:
        wide = b.zext(byte, I64)
        store(b, b.add(address, wide), ctx, _row(b, lane, 8, Warp.ADDRESSES))
        b.call(load_lanes, [ctx, site, b.shl(i32(1), lane), i32(1), i32(1), i32(0), flags])
        value = load(b, ctx, _row(b, lane, 1, Warp.VALUES), I8)
        row = b.mul(b.lshr(wide, i64(2)), i64(128))
        place = b.add(_row(b, lane, 4, CopyEntry.DATA), b.add(row, b.and_(wide, i64(3))))
        store(b, value, entry, place)
