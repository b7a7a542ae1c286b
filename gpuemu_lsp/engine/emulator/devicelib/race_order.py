"""Orders that the race detector keeps per lane or asks of Python: partial-mask synchronisation, release, acquire.

The clocks of releases are kept in :mod:`~gpuemu_lsp.engine.emulator.launch.vector_clocks`.
"""

from __future__ import annotations

from llvmlite import ir

from gpuemu_lsp.engine.emulator.abi.access_flags import RaceFlag
from gpuemu_lsp.engine.emulator.abi.field_access import (
    element_offset,
    load_element,
    load_field,
    load_pointer,
    store_field,
)
from gpuemu_lsp.engine.emulator.abi.race_records import Epoch, RaceCall, ShadowPlane
from gpuemu_lsp.engine.emulator.abi.structs import LaunchRecord, Warp
from gpuemu_lsp.engine.emulator.devicelib.race_epochs import AccessView, view_access
from gpuemu_lsp.engine.emulator.llvm import ir_tools as t
from gpuemu_lsp.engine.emulator.llvm.ir_tools import I1, I32, I64, POINTER, VOID, Value, i32, i64


def acquire(b: ir.IRBuilder, view: AccessView, ctx: Value, lane: Value, address: Value, flags: Value) -> None:
    """Join the clocks released through an address, if there are any that the lane has not acquired last."""
    released = b.load(view.plane(ShadowPlane.RELEASE), typ=I32)
    acquired = element_offset(b, Warp.ACQUIRED, lane)
    # Spinning on a flag acquires the same release over and over: the call into Python is made once for each.
    is_new = b.icmp_unsigned("!=", released, t.load(b, ctx, acquired, I32))
    with b.if_then(b.and_(is_new, b.icmp_unsigned("!=", released, i32(0)))):
        t.store(b, released, ctx, acquired)
        scope = b.and_(flags, i32(RaceFlag.BLOCK_SCOPE))
        call_python(b, ctx, RaceCall.ACQUIRE, lane, address, released, scope)


def release(b: ir.IRBuilder, view: AccessView, ctx: Value, lane: Value, address: Value, flags: Value) -> None:
    """Publish through an address what is ordered before the lane's last fence, unless that is published there."""
    fence = load_element(b, ctx, Warp.FENCE_EPOCH, lane)
    # Without a fence before it a release publishes nothing of this block: the call is not worth its time.
    useful = b.icmp_unsigned(">", fence, load_field(b, ctx, Warp.START_EPOCH))
    # Spinning on an atomic operation releases over and over. With the location's last release the lane's own, and
    # without a fence or barrier since, nothing has been added.
    now, epoch = view.now, element_offset(b, Warp.RELEASED_EPOCH, lane)
    known = element_offset(b, Warp.ACQUIRED, lane)
    same_epoch = b.icmp_unsigned("==", t.load(b, ctx, epoch, I32), now)
    number = view.plane(ShadowPlane.RELEASE)
    same_release = b.icmp_unsigned("==", t.load(b, ctx, known, I32), b.load(number, typ=I32))
    with b.if_then(b.and_(useful, b.not_(b.and_(same_epoch, same_release)))):
        call_python(b, ctx, RaceCall.RELEASE, lane, address, b.and_(flags, i32(RaceFlag.BLOCK_SCOPE)), i32(0))
        t.store(b, now, ctx, epoch)
        t.store(b, b.load(number, typ=I32), ctx, known)


def call_python(b: ir.IRBuilder, ctx: Value, what: int, lane: Value, address: Value, who: Value, when: Value) -> Value:
    """Make a :class:`RaceCall`; its other operands are those of ``VectorClocks``."""
    pointer = load_pointer(b, load_pointer(b, ctx, Warp.LAUNCH), LaunchRecord.RACE_CALLBACK)
    return t.call_pointer(b, I32, pointer, [ctx, i32(what), lane, address, who, when])


def add_sync_warp(module: ir.Module) -> None:
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


def _acquire_together(b: ir.IRBuilder, ctx: Value) -> None:
    """Let all 32 lanes acquire through one address, if it is the same in all, with one call into Python."""
    vector = ir.VectorType(I64, 32)
    addresses = t.load(b, ctx, Warp.ADDRESSES, vector, align=8)
    first = load_element(b, ctx, Warp.ADDRESSES, i32(0))
    differ = b.icmp_unsigned("!=", addresses, t.splat(b, first, 32))
    one = b.icmp_unsigned("==", b.bitcast(differ, I32), i32(0))
    launch = load_pointer(b, ctx, Warp.LAUNCH)
    with b.if_then(one):
        released = b.load(view_access(b, ctx, first).plane(ShadowPlane.RELEASE), typ=I32)
        known = t.load(b, ctx, Warp.ACQUIRED, ir.VectorType(I32, 32), align=4)
        new = b.icmp_unsigned("!=", known, t.splat(b, released, 32))
        is_new = b.icmp_unsigned("!=", b.bitcast(new, I32), i32(0))
        with b.if_then(b.and_(is_new, b.icmp_unsigned("!=", released, i32(0)))):
            several = b.icmp_unsigned(">", load_field(b, launch, LaunchRecord.CLUSTER_BLOCKS), i32(1))
            scope = b.select(several, i32(0), i32(RaceFlag.BLOCK_SCOPE))
            call_python(b, ctx, RaceCall.ACQUIRE_WARP, i32(0), first, released, scope)
            t.store(b, t.splat(b, released, 32), ctx, Warp.ACQUIRED, align=4)


def add_acquire_release(module: ir.Module) -> None:
    """Add ``race_acquire_release(ctx, lanes, call)``: a :class:`RaceCall` through the addresses in the scratch space.

    For operations whose order is not that of a memory access of their own: those on ``mbarrier`` objects, which lie in
    shared memory.
    """
    function, b = t.new_function(module, "race_acquire_release", VOID, [POINTER, I32, I32])
    ctx, lanes, call = function.args
    is_acquire = b.icmp_unsigned("==", call, i32(RaceCall.ACQUIRE))
    with b.if_then(b.and_(is_acquire, b.icmp_unsigned("==", lanes, i32(-1)))):
        _acquire_together(b, ctx)
    with t.for_lanes(b, lanes) as lane:
        address = load_element(b, ctx, Warp.ADDRESSES, lane)
        # Threads of all blocks of a cluster use its objects.
        launch = load_pointer(b, ctx, Warp.LAUNCH)
        several = b.icmp_unsigned(">", load_field(b, launch, LaunchRecord.CLUSTER_BLOCKS), i32(1))
        scope = b.select(several, i32(0), i32(RaceFlag.BLOCK_SCOPE))
        with b.if_else(is_acquire) as (acquires, releases):
            with acquires:
                acquire(b, view_access(b, ctx, address), ctx, lane, address, scope)
            with releases:
                call_python(b, ctx, RaceCall.RELEASE, lane, address, scope, i32(0))
    b.ret_void()
