"""The checked access lane by lane, and the event record.

Generated code handles the ordinary case itself and calls these functions when a check fails or an access has no vector
form. Every access is contained: a load that is refused yields 0, a store that is refused is dropped, and the kernel
continues, so that one launch shows all of its faults.
"""

from __future__ import annotations

from llvmlite import ir

from gpuemu_lsp.engine.emulator.abi.access_flags import (
    AHEAD_FLAG,
    EXITED_FLAG,
    IN_FLIGHT_FLAG,
    QUIET_FLAG,
    RACE_SHIFT,
    SPACE_SHIFT,
    SPACES,
    STORE_FLAG,
    WINDOW_SHIFT,
)
from gpuemu_lsp.engine.emulator.abi.field_access import (
    element_offset,
    load_field,
    load_pointer,
    store_field,
)
from gpuemu_lsp.engine.emulator.abi.memory import Shadow
from gpuemu_lsp.engine.emulator.abi.states import EVENT_KINDS, EventKind
from gpuemu_lsp.engine.emulator.abi.structs import REGISTER_BYTES, BlockRecord, EventRecord, LaunchRecord, Warp
from gpuemu_lsp.engine.emulator.devicelib.claim_windows import global_window
from gpuemu_lsp.engine.emulator.devicelib.row_access import MEMORY_BITS, PLAIN_RACE_FLAGS
from gpuemu_lsp.engine.emulator.devicelib.shadow_bytes import mark_written, shadow_bits
from gpuemu_lsp.engine.emulator.llvm.ir_tools import (
    I1,
    I8,
    I16,
    I32,
    I64,
    POINTER,
    VOID,
    Value,
    at,
    for_lanes,
    i32,
    i64,
    load,
    new_function,
    store,
)

_NULL_PAGE = 1 << 16
"""Addresses below are reported as null pointers, also with the offset of a field or a small index."""


def add_record_event(module: ir.Module) -> Value:
    """Add ``record_event(ctx, site, kind, lane, address, size, access)``.

    All events are counted; the first of each site and kind is recorded, as far as the table has space, and the highest
    address.
    """
    function, b = new_function(module, "record_event", VOID, [POINTER, I32, I32, I32, I64, I32, I32])
    ctx, site, kind, lane, address, size, access = function.args
    launch = load_pointer(b, ctx, Warp.LAUNCH)
    counts = load_pointer(b, launch, LaunchRecord.COUNTS)
    index = b.add(b.mul(b.zext(site, I64), i64(EVENT_KINDS)), b.zext(kind, I64))
    # Not atomic: one thread executes all blocks of a launch.
    counter = b.gep(counts, [index], source_etype=I64)
    seen = b.load(counter, typ=I64)
    b.store(b.add(seen, i64(1)), counter)
    highest = b.gep(load_pointer(b, launch, LaunchRecord.HIGHEST), [index], source_etype=I64)
    known = b.load(highest, typ=I64)
    b.store(b.select(b.icmp_unsigned(">", address, known), address, known), highest)
    number = load_field(b, launch, LaunchRecord.EVENT_COUNT)
    fresh = b.and_(
        b.icmp_unsigned("==", seen, i64(0)),
        b.icmp_unsigned("<", number, load_field(b, launch, LaunchRecord.EVENT_LIMIT)),
    )
    # One record for each site and kind: a fault in a loop would otherwise fill the table, and hide the others.
    with b.if_then(fresh):
        store_field(b, b.add(number, i64(1)), launch, LaunchRecord.EVENT_COUNT)
        record = at(b, load_pointer(b, launch, LaunchRecord.EVENTS), b.mul(number, i64(EventRecord.SIZE)))
        block = load_pointer(b, ctx, Warp.BLOCK)
        for field, value in (
            (EventRecord.SITE, site),
            (EventRecord.KIND, kind),
            (EventRecord.LANE, lane),
            (EventRecord.BYTES, size),
            (EventRecord.ADDRESS, address),
            (EventRecord.BLOCK, load_field(b, block, BlockRecord.LINEAR)),
            (EventRecord.WARP, load_field(b, ctx, Warp.WARP_ID)),
            (EventRecord.FLAGS, access),
        ):
            store_field(b, value, record, field)
    b.ret_void()
    return function


def add_check_access(module: ir.Module, event: Value) -> Value:
    """Add ``check_access(ctx, site, lane, address, size, alignment, flags) -> i1``: whether a lane's access may happen.

    The order of the tests is that of their precedence in reports: null, misaligned, out of bounds, read-only,
    uninitialised. Only the last lets the access happen, as hardware does.
    """
    function, b = new_function(module, "check_access", I1, [POINTER, I32, I32, I64, I32, I32, I32])
    ctx, site, lane, address, size, alignment, flags = function.args
    launch = load_pointer(b, ctx, Warp.LAUNCH)
    access = b.and_(flags, i32(STORE_FLAG))
    is_store = b.icmp_unsigned("!=", access, i32(0))

    def refuse(condition: Value, kind: int) -> None:
        with b.if_then(condition):
            b.call(event, [ctx, site, i32(kind), lane, address, size, access])
            b.ret(ir.Constant(I1, 0))
            b.position_at_end(b.append_basic_block("dead"))

    refuse(b.icmp_unsigned("<", address, i64(_NULL_PAGE)), EventKind.NULL)
    # ``alignment`` is a power of two: addresses are naturally aligned, those of vectors as a whole (PTX ISA, ``ld``).
    low_bits = b.and_(address, b.zext(b.sub(alignment, i32(1)), I64))
    refuse(b.icmp_unsigned("!=", low_bits, i64(0)), EventKind.MISALIGNED)
    size64 = b.zext(size, I64)
    # The window of the address's space: a local variable's index that leaves the thread's frame would otherwise reach
    # the next thread's, which is addressable.
    space = b.and_(b.lshr(flags, i32(SPACE_SHIFT)), i32(3))
    shared = b.icmp_unsigned("==", space, i32(SPACES["shared"]))
    local = b.icmp_unsigned("==", space, i32(SPACES["local"]))
    frame = load_field(b, launch, LaunchRecord.LOCAL_FRAME)
    start, extent_of_window = global_window(b, launch, b.lshr(flags, i32(WINDOW_SHIFT)))
    low = b.select(
        shared,
        load_field(b, load_pointer(b, ctx, Warp.BLOCK), BlockRecord.SHARED),
        b.select(
            local,
            b.add(load_field(b, ctx, Warp.LOCAL), b.mul(b.zext(lane, I64), frame)),
            start,
        ),
    )
    extent = b.select(
        shared,
        load_field(b, launch, LaunchRecord.SHARED_SIZE),
        b.select(local, frame, extent_of_window),
    )
    offset = b.sub(address, low)
    # Two unsigned comparisons: an address below the window gives a huge offset, which could wrap in the sum.
    fits = b.icmp_unsigned("<=", b.add(offset, size64), extent)
    inside = b.and_(b.icmp_unsigned("<", offset, extent), fits)
    refuse(b.not_(inside), EventKind.OUT_OF_BOUNDS)
    # Inside the window there are still guard zones, and gaps between variables.
    every, some = shadow_bits(b, address, size64)

    def has(bits: Value, bit: int) -> Value:
        return b.icmp_unsigned("!=", b.and_(bits, ir.Constant(I8, bit)), ir.Constant(I8, 0))

    # The bits of a block that is not there become those of the event.
    gone = b.and_(b.lshr(some, ir.Constant(I8, 4)), ir.Constant(I8, EXITED_FLAG | AHEAD_FLAG))
    with b.if_then(b.not_(has(every, Shadow.ADDRESSABLE))):
        about = b.or_(access, b.zext(gone, I32))
        b.call(event, [ctx, site, i32(EventKind.OUT_OF_BOUNDS), lane, address, size, about])
        b.ret(ir.Constant(I1, 0))
        b.position_at_end(b.append_basic_block("dead"))
    refuse(b.and_(is_store, has(some, Shadow.READ_ONLY)), EventKind.READ_ONLY)
    silent = b.or_(is_store, b.icmp_unsigned("!=", b.and_(flags, i32(QUIET_FLAG)), i32(0)))
    with b.if_then(b.and_(b.not_(silent), b.not_(has(some, Shadow.INITIALISED)))):
        # The message differs where a copy is pending: the program did write the bytes, but reads them before the wait.
        late = b.select(has(some, Shadow.IN_FLIGHT), i32(IN_FLIGHT_FLAG), i32(0))
        b.call(event, [ctx, site, i32(EventKind.UNINITIALISED), lane, address, size, b.or_(access, late)])
    with b.if_then(b.and_(is_store, has(some, Shadow.WATCHED))):
        overlaps = b.and_(
            b.icmp_unsigned("<", address, load_field(b, launch, LaunchRecord.WATCH_HIGH)),
            b.icmp_unsigned(">", b.add(address, size64), load_field(b, launch, LaunchRecord.WATCH_LOW)),
        )
        with b.if_then(overlaps):
            store_field(b, b.zext(site, I64), launch, LaunchRecord.WATCH_SITE)
            thread = b.add(b.mul(load_field(b, ctx, Warp.WARP_ID), i32(32)), lane)
            store_field(b, b.zext(thread, I64), launch, LaunchRecord.WATCH_THREAD)
            block = load_pointer(b, ctx, Warp.BLOCK)
            store_field(b, load_field(b, block, BlockRecord.LINEAR), launch, LaunchRecord.WATCH_BLOCK)
    b.ret(ir.Constant(I1, 1))
    return function


def add_access(module: ir.Module, check: Value, race: Value, whole_warp: Value, *, is_store: bool) -> Value:
    """Add ``load`` or ``store``: ``(ctx, site, mask, size, count, unused, flags)`` over the context's scratch space.

    ``size`` is that of one element; ``count`` elements follow each other at each lane's address. Bit i of ``unused`` is
    set if the register that element i is loaded to is never read. Element i of all lanes is in row i of
    ``Warp.VALUES``. ``whole_warp`` is tried first where it can apply; it accesses nothing if it returns 0.
    """
    name = "store" if is_store else "load"
    function, b = new_function(module, name, VOID, [POINTER, I32, I32, I32, I32, I32, I32])
    ctx, site, mask, size, count, unused, flags = function.args
    size64 = b.zext(size, I64)
    total = b.mul(size, count)
    races = b.lshr(flags, i32(RACE_SHIFT))
    space = b.and_(b.lshr(flags, i32(SPACE_SHIFT)), i32(3))
    plain = b.icmp_unsigned("==", b.and_(races, i32(~PLAIN_RACE_FLAGS)), i32(0))
    single = b.and_(b.icmp_unsigned("==", count, i32(1)), b.icmp_unsigned("!=", space, i32(SPACES["local"])))
    # The whole warp at once only where no lane can order another one, and where the lanes share one window.
    with b.if_then(b.and_(plain, single)):
        memory = b.and_(b.lshr(flags, i32(SPACE_SHIFT)), i32(MEMORY_BITS))
        with b.if_then(b.call(whole_warp, [ctx, site, mask, size, memory, races])):
            b.ret_void()
    with for_lanes(b, mask) as lane:
        lane64 = b.zext(lane, I64)
        start = load(b, ctx, b.add(i64(Warp.ADDRESSES), b.mul(lane64, i64(8))), I64)
        before = b.block
        loop, end = b.append_basic_block("element"), b.append_basic_block("element.end")
        b.branch(loop)
        b.position_at_end(loop)
        index = b.phi(I32)
        index.add_incoming(i32(0), before)
        index64 = b.zext(index, I64)
        address = b.add(start, b.mul(index64, size64))
        # A vector access is tested at its first element, with the alignment of the whole; its later elements then are
        # aligned, too.
        alignment = b.select(b.icmp_unsigned("==", index, i32(0)), total, size)
        # NVRTC widens neighbouring loads to vectors, which also load bytes that the program never uses: not a finding.
        quiet = b.mul(b.and_(b.lshr(unused, index), i32(1)), i32(QUIET_FLAG))
        allowed = b.call(check, [ctx, site, lane, address, size, alignment, b.or_(flags, quiet)])
        scratch = b.add(
            b.add(i64(Warp.VALUES), b.mul(index64, i64(REGISTER_BYTES))),
            b.mul(lane64, size64),
        )
        # Before the access: the race detector compares a store's bytes with those in memory.
        with b.if_then(b.and_(allowed, b.icmp_unsigned("!=", races, i32(0)))):
            b.call(race, [ctx, site, lane, address, size, races, scratch])
        # Sizes are known at run time only: one function serves all element types.
        for width in (I8, I16, I32, I64):
            with b.if_then(b.icmp_unsigned("==", size, i32(width.width // 8))):
                if is_store:
                    with b.if_then(allowed):
                        store(b, load(b, ctx, scratch, width, align=1), address, 0, align=1)
                else:
                    with b.if_else(allowed) as (then, otherwise):
                        with then:
                            store(b, load(b, address, 0, width, align=1), ctx, scratch, align=1)
                        with otherwise:
                            store(b, ir.Constant(width, 0), ctx, scratch, align=1)
        if is_store:
            with b.if_then(allowed):
                mark_written(b, address, size64)
        following = b.add(index, i32(1))
        index.add_incoming(following, b.block)
        b.cbranch(b.icmp_unsigned("<", following, count), loop, end)
        b.position_at_end(end)
    b.ret_void()
    return function


def add_affine_addresses(module: ir.Module) -> None:
    """Add ``affine_addresses(ctx, first, count, base, step, window, offset, spare)``: addresses to the scratch space.

    Lane ``first + i`` gets ``base + i * step``, without its ``spare`` upper bits, plus ``window + offset``. Shared and
    local addresses have 32 bits and are signed: they may be negative before the constant offset is added.
    """
    function, b = new_function(module, "affine_addresses", VOID, [POINTER, I32, I32, I64, I64, I64, I64, I64])
    ctx, first, count, base, step, window, offset, spare = function.args
    before = b.block
    loop, end = b.append_basic_block("lane"), b.append_basic_block("end")
    b.branch(loop)
    b.position_at_end(loop)
    index = b.phi(I32)
    index.add_incoming(i32(0), before)
    address = b.add(base, b.mul(b.zext(index, I64), step))
    address = b.ashr(b.shl(address, spare), spare)
    address = b.add(b.add(address, window), offset)
    store(b, address, ctx, element_offset(b, Warp.ADDRESSES, b.add(first, index)))
    following = b.add(index, i32(1))
    index.add_incoming(following, loop)
    b.cbranch(b.icmp_unsigned("<", following, count), loop, end)
    b.position_at_end(end)
    b.ret_void()
