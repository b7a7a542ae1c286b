"""Conflicts of the race detector: what orders two accesses that no barrier does, and the record of a race.

Called out of line by the lane path (:mod:`.race_detector`), for accesses that epochs show unordered.
"""

from __future__ import annotations

from typing import Final

from llvmlite import ir

from gpuemu_lsp.engine.emulator.abi.access_flags import RaceFlag
from gpuemu_lsp.engine.emulator.abi.field_access import element_offset, load_field, load_pointer, store_field
from gpuemu_lsp.engine.emulator.abi.race_records import THREAD_IN_BLOCK, Epoch, OrderAnswer, RaceCall, ShadowPlane
from gpuemu_lsp.engine.emulator.abi.states import EVENT_KINDS, EventKind
from gpuemu_lsp.engine.emulator.abi.structs import BlockRecord, EventRecord, LaunchRecord, Warp
from gpuemu_lsp.engine.emulator.devicelib.race_epochs import return_if, view_access
from gpuemu_lsp.engine.emulator.devicelib.race_order import call_python
from gpuemu_lsp.engine.emulator.llvm import ir_tools as t
from gpuemu_lsp.engine.emulator.llvm.ir_tools import I1, I8, I32, I64, POINTER, VOID, Value, i32, i64

_MOST_RACES_ASKED_FOR: Final = 1024
"""Races of a site and kind after which Python is not asked whether further accesses are ordered."""


def add_conflict(module: ir.Module) -> Value:
    """Add ``race_conflict``: report two accesses that neither barriers nor lane clocks order, unless others do.

    Arguments are those of ``race_lane``, then site, thread, epoch, kind (1 for a write) and lanes of the other access.
    """
    parameters = [POINTER, I32, I32, I64, I32, I32, I64, I32, I32, I32, I32, I32]
    function, b = t.new_function(module, "race_conflict", VOID, parameters)
    ctx, site, lane, address, size, flags, value, first_site, thread, epoch, wrote, lanes = function.args
    launch = load_pointer(b, ctx, Warp.LAUNCH)
    number = load_field(b, ctx, Warp.FIRST_THREAD)
    block = load_pointer(b, ctx, Warp.BLOCK)
    place = b.sub(address, load_field(b, block, BlockRecord.SHARED))
    shared = b.icmp_unsigned("<", place, load_field(b, launch, LaunchRecord.SHARED_SIZE))
    # Cells of shared memory omit the block, which can only be this one where a cluster has no others.
    several = b.icmp_unsigned(">", load_field(b, launch, LaunchRecord.CLUSTER_BLOCKS), i32(1))
    full = b.select(b.and_(shared, b.not_(several)), b.or_(thread, b.and_(number, i32(~THREAD_IN_BLOCK))), thread)
    between = load_field(b, launch, LaunchRecord.RACE_BETWEEN_BLOCKS)
    with b.if_then(b.icmp_unsigned("!=", between, i32(0))):
        # A record that stands for several blocks names only one of them.
        one_block = b.icmp_unsigned("<", b.and_(epoch, i32(Epoch.SPREAD)), i32(Epoch.SPREAD))
        own_program = b.and_(b.icmp_unsigned("<=", b.xor(full, number), i32(THREAD_IN_BLOCK)), one_block)
        reads_back = b.and_(b.not_(shared), _reads_back(b, number, full, flags, epoch, wrote))
        # The compiler orders the accesses of threads, and what a program gives to the asynchronous proxy the program.
        threads = _threads_of_program(b, launch)
        mine, theirs = b.and_(b.add(number, lane), i32(THREAD_IN_BLOCK)), b.and_(full, i32(THREAD_IN_BLOCK))
        proxy = b.or_(b.icmp_unsigned(">=", mine, threads), b.icmp_unsigned(">=", theirs, threads))
        return_if(b, b.and_(own_program, b.not_(b.or_(reads_back, proxy))), None)
    # Equal-value rule: a weak store of the bytes that are there already changes nothing that any order could show.
    # Kernels rely on it, for example to set a flag from many threads.
    weak_store = b.icmp_unsigned("==", b.and_(flags, i32(RaceFlag.STORE | RaceFlag.ATOMIC)), i32(RaceFlag.STORE))
    with b.if_then(weak_store):
        return_if(b, _equal_bytes(b, t.at(b, address, 0), t.at(b, ctx, value), b.zext(size, I64)), None)
    # Last, because it is a call into Python: release and acquire, locks, named barriers.
    python = load_field(b, launch, LaunchRecord.RACE_CALLBACK)
    party, party_site = b.alloca(I32), b.alloca(I32)
    b.store(full, party)
    b.store(first_site, party_site)
    with b.if_then(b.icmp_unsigned("!=", python, i64(0))):
        # A block that holds a lock accesses much that the last one wrote: Python is asked once.
        later = b.icmp_unsigned("==", b.lshr(number, i32(10)), load_field(b, launch, LaunchRecord.ORDERED_BLOCK))
        earlier = b.icmp_unsigned("==", b.lshr(full, i32(10)), load_field(b, launch, LaunchRecord.ORDERED_AFTER))
        before = b.icmp_unsigned("<", epoch, load_field(b, launch, LaunchRecord.ORDERED_UNTIL))
        return_if(b, b.and_(b.and_(later, earlier), before), None)
        # A tile that a copy has brought has thousands of cells of one writer.
        single = b.icmp_unsigned("==", b.and_(epoch, i32(Epoch.SPREAD)), i32(0))
        known = b.icmp_unsigned("==", full, t.load(b, ctx, element_offset(b, Warp.ORDERED_THREAD, lane), I32))
        before = b.icmp_unsigned("<", epoch, t.load(b, ctx, element_offset(b, Warp.ORDERED_UNTIL, lane), I32))
        return_if(b, b.and_(b.and_(single, known), before), None)
        # A lock that excludes nothing races at each access: more of them say nothing that is not known.
        kind = _kind(b, launch, ctx, flags, (first_site, full, epoch, wrote))
        raced = b.load(_counter(b, launch, site, kind), typ=I64)
        return_if(b, b.icmp_unsigned(">=", raced, i64(_MOST_RACES_ASKED_FOR)), None)
        answer = call_python(b, ctx, RaceCall.ORDERED, lane, address, full, epoch)
        return_if(b, b.icmp_unsigned("==", answer, i32(OrderAnswer.ORDERED)), None)
        with b.if_then(b.icmp_unsigned("==", answer, i32(OrderAnswer.OTHER_UNORDERED))):
            view = view_access(b, ctx, address)
            reader = b.load(view.plane(ShadowPlane.OTHER_READER), typ=I32)
            b.store(b.select(several, reader, b.or_(reader, b.and_(number, i32(~THREAD_IN_BLOCK)))), party)
            b.store(b.load(view.plane(ShadowPlane.OTHER_READ_SITE), typ=I32), party_site)
    full, other_site = b.load(party), b.load(party_site)
    me = b.add(number, lane)
    own = b.shl(i32(1), lane)
    # Another call into Python, after the one that more often decides. Of two accesses that race one at most is a read.
    # Once per site: a race there has then been recorded, and a missing barrier races in every iteration of a loop.
    kind = _kind(b, launch, ctx, flags, (other_site, full, epoch, wrote))
    first = b.icmp_unsigned("==", b.load(_counter(b, launch, site, kind), typ=I64), i64(0))
    is_load = b.icmp_unsigned("==", b.and_(flags, i32(RaceFlag.STORE)), i32(0))
    with b.if_then(b.and_(first, is_load)):
        _return_if_unused(b, launch, site, me, own)
    # Lanes are known of a read by one thread or warp; the writer's own earlier read is ordered before its write.
    other_read = b.icmp_unsigned("==", wrote, i32(0))
    few = b.icmp_unsigned("<=", b.and_(epoch, i32(Epoch.SPREAD)), i32(1))
    with b.if_then(b.and_(first, b.and_(other_read, few))):
        same_warp = b.icmp_unsigned("<", b.xor(full, me), i32(32))
        _return_if_unused(b, launch, other_site, full, b.select(same_warp, b.and_(lanes, b.not_(own)), lanes))
    _record_event(b, launch, ctx, function.args[1:6], (other_site, full, epoch, wrote))
    b.ret_void()
    return function


def _threads_of_program(b: ir.IRBuilder, launch: Value) -> Value:
    sizes = [load_field(b, launch, field) for field in (LaunchRecord.NTID_X, LaunchRecord.NTID_Y, LaunchRecord.NTID_Z)]
    return b.mul(b.mul(sizes[0], sizes[1]), sizes[2])


def _reads_back(
    b: ir.IRBuilder, number: Value, other: Value, flags: Value, other_epoch: Value, other_wrote: Value
) -> Value:
    """Return whether a weak load by one warp of a program and a weak store by another one conflict.

    In either order: a barrier separates loads from the later stores of their program (:mod:`.ptx.triton_stores`), so
    that the load is the later one in the program. Triton's compiler orders accesses to shared memory only.
    """
    wrote = b.icmp_unsigned("!=", b.and_(flags, i32(RaceFlag.STORE)), i32(0))
    one_wrote = b.xor(wrote, b.icmp_unsigned("!=", other_wrote, i32(0)))
    weak = b.icmp_unsigned("==", b.and_(flags, i32(RaceFlag.STRONG | RaceFlag.ATOMIC)), i32(0))
    # A record of several warps names only one of them.
    one_weak_warp = b.icmp_unsigned("==", b.and_(other_epoch, i32(Epoch.STRONG | 2)), i32(0))
    other_warp = b.icmp_unsigned(">=", b.xor(number, other), i32(32))
    return b.and_(b.and_(one_wrote, weak), b.and_(one_weak_warp, other_warp))


def _return_if_unused(b: ir.IRBuilder, launch: Value, site: Value, thread: Value, lanes: Value) -> None:
    """Return from the function if none of the lanes of a thread's warp uses what they have loaded."""
    # The callback is not set for programs whose values cannot be followed.
    python = load_field(b, launch, LaunchRecord.UNUSED_READ_CALLBACK)
    with b.if_then(b.icmp_unsigned("!=", python, i64(0))):
        answer = t.call_pointer(b, I32, b.inttoptr(python, POINTER), [site, thread, lanes])
        return_if(b, b.icmp_unsigned("!=", answer, i32(0)), None)


_OTHER_ACCESS: Final = (
    EventRecord.OTHER_SITE,
    EventRecord.OTHER_THREAD,
    EventRecord.OTHER_EPOCH,
    EventRecord.OTHER_WROTE,
)


def _record_event(
    b: ir.IRBuilder, launch: Value, ctx: Value, access: tuple[Value, ...], other: tuple[Value, ...]
) -> None:
    """Count a race; keep the first of each site and kind."""
    site, lane, address, size, flags = access
    # A race in a loop is reported once, with a count: the table must hold the other sites' first races.
    kind = _kind(b, launch, ctx, flags, other)
    counter = _counter(b, launch, site, kind)
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
            (EventRecord.KIND, kind),
            (EventRecord.LANE, lane),
            (EventRecord.BYTES, size),
            (EventRecord.ADDRESS, address),
            (EventRecord.BLOCK, load_field(b, block, BlockRecord.LINEAR)),
            (EventRecord.WARP, load_field(b, ctx, Warp.WARP_ID)),
            (EventRecord.FLAGS, flags),
        )
        for field, value in (*fields, *zip(_OTHER_ACCESS, other, strict=True)):
            store_field(b, value, record, field)


def _kind(b: ir.IRBuilder, launch: Value, ctx: Value, flags: Value, other: tuple[Value, ...]) -> Value:
    """Return the kind of event of a race."""
    _, thread, epoch, _ = other
    between = b.icmp_unsigned("!=", load_field(b, launch, LaunchRecord.RACE_BETWEEN_BLOCKS), i32(0))
    number = load_field(b, ctx, Warp.FIRST_THREAD)
    own_block = b.icmp_unsigned("<=", b.xor(thread, number), i32(THREAD_IN_BLOCK))
    one_block = b.icmp_unsigned("<", b.and_(epoch, i32(Epoch.SPREAD)), i32(Epoch.SPREAD))
    threads = b.select(_weak_and_strong(b, flags, epoch), i32(EventKind.WEAK_STRONG_RACE), i32(EventKind.RACE))
    return b.select(b.and_(between, b.and_(own_block, one_block)), i32(EventKind.PROGRAM_RACE), threads)


def _counter(b: ir.IRBuilder, launch: Value, site: Value, kind: Value) -> Value:
    """Return the address of the number of races of a site and kind."""
    index = b.add(b.mul(b.zext(site, I64), i64(EVENT_KINDS)), b.zext(kind, I64))
    return b.gep(load_pointer(b, launch, LaunchRecord.COUNTS), [index], source_etype=I64)


def _weak_and_strong(b: ir.IRBuilder, flags: Value, other_epoch: Value) -> Value:
    """Return whether exactly one of the two accesses is strong."""
    # Of a record with weak and strong accesses the weak ones are passed as a record of their own.
    mine = b.icmp_unsigned("!=", b.and_(flags, i32(RaceFlag.STRONG)), i32(0))
    return b.xor(mine, b.icmp_unsigned("!=", b.and_(other_epoch, i32(Epoch.STRONG)), i32(0)))


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
