"""The inner scheduler as LLVM IR: runs block after block, warp after warp, and asks Python when something is odd."""

from __future__ import annotations

from llvmlite import ir

from gpuemu_lsp.engine.emulator.abi.field_access import load_field, load_pointer, store_field, store_lanes
from gpuemu_lsp.engine.emulator.abi.memory import POISON, SHADOW_OFFSET
from gpuemu_lsp.engine.emulator.abi.race_records import Epoch
from gpuemu_lsp.engine.emulator.abi.states import BarrierKind, Resume, Status
from gpuemu_lsp.engine.emulator.abi.structs import BlockRecord, LaunchRecord, Warp
from gpuemu_lsp.engine.emulator.llvm import ir_tools as t
from gpuemu_lsp.engine.emulator.llvm.ir_tools import I1, I8, I32, I64, POINTER, Value, i32, i64


def add_conductor(module: ir.Module) -> Value:
    """Add ``conduct(launch) -> i32``: 0 when all blocks up to ``BLOCK_END`` have ended, 1 when Python must look.

    Handles what ordinary launches do: warps that end, ``bar.sync`` of all threads, and some yields.
    """
    highest, at = t.new_function(module, "highest_epoch", I32, [POINTER])
    at.ret(highest_epoch(at, highest.args[0]))
    begin = _add_begin(module, highest)
    release = _add_release(module, highest)
    function, b = t.new_function(module, "run_blocks", I32, [POINTER])
    launch = function.args[0]
    warps = load_pointer(b, launch, LaunchRecord.WARPS)
    step = load_field(b, launch, LaunchRecord.WARP_STRIDE)
    count = load_field(b, launch, LaunchRecord.WARP_COUNT)

    next_block, running, sweep, each = (b.append_basic_block(n) for n in ("block", "running", "sweep", "warp"))
    run, after, swept, ask = (b.append_basic_block(n) for n in ("run", "after", "swept", "ask"))
    finished, over, start = (b.append_basic_block(n) for n in ("finished", "over", "start"))
    b.branch(next_block)

    b.position_at_end(next_block)
    number = load_field(b, launch, LaunchRecord.NEXT_BLOCK)
    b.cbranch(b.icmp_unsigned(">=", number, load_field(b, launch, LaunchRecord.BLOCK_END)), over, running)
    b.position_at_end(over)
    b.ret(i32(0))
    b.position_at_end(running)
    under_way = load_field(b, launch, LaunchRecord.IN_BLOCK)
    b.cbranch(b.icmp_unsigned("!=", under_way, i32(0)), sweep, start)
    b.position_at_end(start)
    b.call(begin, [launch])
    b.branch(sweep)

    # One sweep: every warp that can run does, until it ends or waits.
    b.position_at_end(sweep)
    b.branch(each)
    b.position_at_end(each)
    index, ended, ready = b.phi(I32), b.phi(I32), b.phi(I32)
    for phi in (index, ended, ready):
        phi.add_incoming(i32(0), sweep)
    warp = t.at(b, warps, b.mul(b.zext(index, I64), step))
    status = load_field(b, warp, Warp.STATUS)
    b.cbranch(b.icmp_unsigned("==", status, i32(Status.READY)), run, after)
    b.position_at_end(run)
    result = t.call_pointer(b, I32, load_pointer(b, warp, Warp.FUNCTION), [warp])
    store_field(b, result, warp, Warp.STATUS)
    odd, even = b.append_basic_block("odd"), b.append_basic_block("even")
    apart, other = b.append_basic_block("apart"), b.append_basic_block("other")
    b.cbranch(b.icmp_unsigned(">", result, i32(Status.BARRIER)), odd, even)
    b.position_at_end(odd)
    b.cbranch(b.icmp_unsigned("==", result, i32(Status.MISSPECULATED)), apart, other)
    b.position_at_end(apart)
    store_field(
        b, b.add(load_field(b, launch, LaunchRecord.MISSPECULATIONS), i32(1)), launch, LaunchRecord.MISSPECULATIONS
    )
    store_field(b, load_field(b, launch, LaunchRecord.FALLBACK), warp, Warp.FUNCTION)
    b.branch(run)  # before any other warp: the order of what happens is that of the plain code
    b.position_at_end(other)
    yields = b.sub(load_field(b, launch, LaunchRecord.YIELDS_LEFT), i32(1))
    store_field(b, yields, launch, LaunchRecord.YIELDS_LEFT)
    again = b.and_(b.icmp_unsigned("==", result, i32(Status.YIELD)), b.icmp_signed(">", yields, i32(0)))
    resume = b.append_basic_block("resume")
    b.cbranch(again, resume, ask)
    b.position_at_end(resume)
    store_field(b, i32(Status.READY), warp, Warp.STATUS)
    b.branch(after)
    b.position_at_end(even)
    b.branch(after)
    b.position_at_end(after)
    now = b.phi(I32)
    now.add_incoming(status, each)
    now.add_incoming(i32(Status.READY), resume)
    now.add_incoming(result, even)
    ended_now = b.add(ended, b.zext(b.icmp_unsigned("==", now, i32(Status.DONE)), I32))
    ready_now = b.add(ready, b.zext(b.icmp_unsigned("==", now, i32(Status.READY)), I32))
    following = b.add(index, i32(1))
    for phi, value in ((index, following), (ended, ended_now), (ready, ready_now)):
        phi.add_incoming(value, after)
    b.cbranch(b.icmp_unsigned("<", following, count), each, swept)

    b.position_at_end(swept)
    waiting = b.append_basic_block("waiting")
    not_all = b.append_basic_block("notall")
    b.cbranch(b.icmp_unsigned("==", ended_now, count), finished, not_all)
    b.position_at_end(not_all)
    b.cbranch(b.icmp_unsigned("!=", ready_now, i32(0)), sweep, waiting)
    b.position_at_end(waiting)
    opened = b.append_basic_block("opened")
    b.cbranch(b.call(release, [launch]), opened, ask)
    b.position_at_end(opened)
    # A loop that waits in every round uses up no yields: Python looks at the clock now and then.
    meetings = b.sub(load_field(b, launch, LaunchRecord.BARRIERS_LEFT), i32(1))
    store_field(b, meetings, launch, LaunchRecord.BARRIERS_LEFT)
    b.cbranch(b.icmp_signed(">", meetings, i32(0)), sweep, ask)
    b.position_at_end(finished)
    with b.if_then(_watched(b, launch)):
        high = _later(b, load_field(b, launch, LaunchRecord.RACE_HIGHEST_EPOCH), b.call(highest, [launch]))
        store_field(b, high, launch, LaunchRecord.RACE_HIGHEST_EPOCH)
    store_field(b, i32(0), launch, LaunchRecord.IN_BLOCK)
    store_field(b, b.add(load_field(b, launch, LaunchRecord.NEXT_BLOCK), i64(1)), launch, LaunchRecord.NEXT_BLOCK)
    b.branch(next_block)
    b.position_at_end(ask)
    b.ret(i32(1))
    return function


def _watched(b: ir.IRBuilder, launch: Value) -> Value:
    """Return whether the race checker looks at the launch: nobody else needs epochs."""
    return b.icmp_unsigned("!=", load_field(b, launch, LaunchRecord.RACE_PLANES), i64(0))


def _add_begin(module: ir.Module, highest: Value) -> Value:
    """Add ``begin(launch)``: set up the next block, with fresh shared and local memory."""
    function, b = t.new_function(module, "start_block", t.VOID, [POINTER])
    launch = function.args[0]
    block = load_pointer(b, launch, LaunchRecord.BLOCK)
    steps = b.alloca(I64)
    b.store(load_field(b, launch, LaunchRecord.STEPS), steps)
    number = load_field(b, launch, LaunchRecord.NEXT_BLOCK)
    grid_x = b.zext(load_field(b, launch, LaunchRecord.GRID_X), I64)
    grid_y = b.zext(load_field(b, launch, LaunchRecord.GRID_Y), I64)
    rest = b.udiv(number, grid_x)
    for field, value in (
        (BlockRecord.X, b.urem(number, grid_x)),
        (BlockRecord.Y, b.urem(rest, grid_y)),
        (BlockRecord.Z, b.udiv(rest, grid_y)),
    ):
        store_field(b, b.trunc(value, I32), block, field)
    store_field(b, number, block, BlockRecord.LINEAR)
    fresh = b.trunc(load_field(b, launch, LaunchRecord.FRESH_SHADOW), I8)
    shared = load_field(b, block, BlockRecord.SHARED)
    shared_size = load_field(b, launch, LaunchRecord.SHARED_RESET_SIZE)
    with b.if_then(b.icmp_unsigned("!=", shared_size, i64(0))):
        _fill(b, shared, ir.Constant(I8, POISON), shared_size)
        _copy(b, b.add(shared, i64(SHADOW_OFFSET)), load_field(b, launch, LaunchRecord.SHARED_SHADOW), shared_size)
    local, local_size = load_field(b, launch, LaunchRecord.LOCAL), load_field(b, launch, LaunchRecord.LOCAL_SIZE)
    with b.if_then(b.icmp_unsigned("!=", local_size, i64(0))):
        _fill(b, b.add(local, i64(SHADOW_OFFSET)), fresh, local_size)
    code = load_field(b, launch, LaunchRecord.FUNCTION)
    with b.if_then(_watched(b, launch)):
        now = b.add(
            _later(b, b.call(highest, [launch]), load_field(b, launch, LaunchRecord.RACE_LAUNCH_EPOCH)), i32(Epoch.TICK)
        )
        first = b.shl(b.trunc(number, I32), i32(10))
        with _each_warp(b, launch) as warp:
            _set_epoch(b, warp, now)
            store_field(b, now, warp, Warp.START_EPOCH)
            store_lanes(b, ir.Constant(ir.VectorType(I32, 32), None), warp, Warp.ACQUIRED)
            store_field(b, b.add(first, b.shl(load_field(b, warp, Warp.WARP_ID), i32(5))), warp, Warp.FIRST_THREAD)
    with _each_warp(b, launch) as warp:
        store_field(b, i32(Resume.START), warp, Warp.RESUME)
        store_field(b, i32(Status.READY), warp, Warp.STATUS)
        store_field(b, code, warp, Warp.FUNCTION)
        for field, value in (
            (Warp.BARRIER_MASK, 0),
            (Warp.COLLECTIVE_MASK, 0),
            (Warp.PREFERRED_LANE, -1),
            (Warp.FORCE_COLLECTIVE, 0),
            (Warp.COPY_COUNT, 0),
        ):
            store_field(b, i32(value), warp, field)
        b.store(b.add(b.load(steps), load_field(b, warp, Warp.STEPS)), steps)
        store_field(b, i64(0), warp, Warp.STEPS)
    store_field(b, b.load(steps), launch, LaunchRecord.STEPS)
    store_field(b, i32(1), launch, LaunchRecord.IN_BLOCK)
    b.ret_void()
    return function


def _add_release(module: ir.Module, highest: Value) -> Value:
    """Add ``release(launch) -> i1``: open the barrier if all threads of the block wait at the same plain one."""
    function, b = t.new_function(module, "release_barrier", I1, [POINTER])
    launch = function.args[0]
    total, same = b.alloca(I32), b.alloca(I1)
    b.store(i32(0), total)
    b.store(ir.Constant(I1, 1), same)
    first = load_pointer(b, launch, LaunchRecord.WARPS)
    name, site = load_field(b, first, Warp.BARRIER_ID), load_field(b, first, Warp.BARRIER_SITE)
    with _each_warp(b, launch) as warp:
        plain = b.icmp_unsigned("==", load_field(b, warp, Warp.STATUS), i32(Status.BARRIER))
        for field, wanted in (
            (Warp.BARRIER_ID, name),
            (Warp.BARRIER_SITE, site),
            (Warp.BARRIER_COUNT, i32(0)),
            (Warp.BARRIER_KIND, i32(BarrierKind.SYNC)),
        ):
            plain = b.and_(plain, b.icmp_unsigned("==", load_field(b, warp, field), wanted))
        b.store(b.and_(b.load(same), plain), same)
        lanes = t.unary_intrinsic(b, "ctpop", load_field(b, warp, Warp.BARRIER_MASK))
        b.store(b.add(b.load(total), lanes), total)
    everybody = b.icmp_unsigned("==", b.load(total), load_field(b, launch, LaunchRecord.BLOCK_THREADS))
    opens = b.and_(b.load(same), everybody)
    with b.if_then(opens):
        with _each_warp(b, launch) as warp:
            store_field(b, i32(Status.READY), warp, Warp.STATUS)
            store_field(b, i32(0), warp, Warp.BARRIER_MASK)
        with b.if_then(_watched(b, launch)):
            now = b.add(b.call(highest, [launch]), i32(Epoch.TICK))
            with _each_warp(b, launch) as warp:
                _set_epoch(b, warp, now)
    b.ret(opens)
    return function


def highest_epoch(b: ir.IRBuilder, launch: Value) -> Value:
    """Return the latest epoch of the block's warps."""
    slot = b.alloca(I32)
    b.store(i32(0), slot)
    with _each_warp(b, launch) as warp:
        b.store(_later(b, b.load(slot), load_field(b, warp, Warp.EPOCH)), slot)
    return b.load(slot)


def _later(b: ir.IRBuilder, one: Value, other: Value) -> Value:
    return b.select(b.icmp_unsigned(">", one, other), one, other)


def _set_epoch(b: ir.IRBuilder, warp: Value, now: Value) -> None:
    """Begin an epoch in which all that the block's threads did is behind them."""
    for field in (Warp.EPOCH, Warp.WARP_BARRIER_EPOCH, Warp.BLOCK_BARRIER_EPOCH):
        store_field(b, now, warp, field)


class _each_warp:  # noqa: N801 - used as a context manager function
    """Build a loop over the contexts of the block."""

    def __init__(self, builder: ir.IRBuilder, launch: Value) -> None:
        self._b, self._launch = builder, launch

    def __enter__(self) -> Value:
        b = self._b
        self._warps = load_pointer(b, self._launch, LaunchRecord.WARPS)
        self._step = load_field(b, self._launch, LaunchRecord.WARP_STRIDE)
        self._count = load_field(b, self._launch, LaunchRecord.WARP_COUNT)
        before = b.block
        self._loop = b.append_basic_block("each")
        b.branch(self._loop)
        b.position_at_end(self._loop)
        self._index = b.phi(I32)
        self._index.add_incoming(i32(0), before)
        return t.at(b, self._warps, b.mul(b.zext(self._index, I64), self._step))

    def __exit__(self, *unused: object) -> None:
        b = self._b
        following = b.add(self._index, i32(1))
        self._index.add_incoming(following, b.block)
        end = b.append_basic_block("each.end")
        b.cbranch(b.icmp_unsigned("<", following, self._count), self._loop, end)
        b.position_at_end(end)


def _fill(b: ir.IRBuilder, address: Value, value: Value, size: Value) -> None:
    pointer = b.inttoptr(address, POINTER)
    t.intrinsic(b, "llvm.memset.p0.i64", t.VOID, [pointer, value, size, ir.Constant(I1, 0)])


def _copy(b: ir.IRBuilder, to: Value, source: Value, size: Value) -> None:
    arguments = [b.inttoptr(to, POINTER), b.inttoptr(source, POINTER), size, ir.Constant(I1, 0)]
    t.intrinsic(b, "llvm.memcpy.p0.p0.i64", t.VOID, arguments)
