"""The block scheduler in generated code: executes block after block and warp after warp.

It handles what ordinary launches consist of and returns to Python for everything else; the division of work is
described in :mod:`~gpuemu_lsp.engine.emulator.launch.scheduler`.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from llvmlite import ir

from gpuemu_lsp.engine.emulator.abi.field_access import load_field, load_pointer, store_field, store_lanes
from gpuemu_lsp.engine.emulator.abi.memory import SHADOW_OFFSET
from gpuemu_lsp.engine.emulator.abi.race_records import Epoch
from gpuemu_lsp.engine.emulator.abi.states import BarrierKind, Resume, Status
from gpuemu_lsp.engine.emulator.abi.structs import BlockRecord, LaunchRecord, Warp
from gpuemu_lsp.engine.emulator.llvm import ir_tools as t
from gpuemu_lsp.engine.emulator.llvm.ir_tools import I1, I8, I32, I64, POINTER, Value, i32, i64


def add_block_scheduler(module: ir.Module) -> None:
    """Add ``run_blocks(launch) -> i32``: 0 when all blocks up to ``BLOCK_END`` have ended, 1 when Python must decide.

    Called again after a 1, it continues in the block where it stopped.
    """
    highest, b = t.new_function(module, "highest_epoch", I32, [POINTER])
    b.ret(_highest_epoch(b, highest.args[0]))
    start_block = _add_start_block(module, highest)
    release_barrier = _add_release_barrier(module, highest)
    function, b = t.new_function(module, "run_blocks", I32, [POINTER])
    _RunBlocks(b, function.args[0], highest).emit(start_block, release_barrier)


class _RunBlocks:
    """Emits ``run_blocks``.

    A sweep executes every ready warp of the block once, until it ends, waits or yields. Sweeps repeat while a warp is
    ready; when none is, the block has ended, or its barrier is released, or Python must decide.
    """

    def __init__(self, b: ir.IRBuilder, launch: Value, highest: Value) -> None:
        self._b, self._launch, self._highest = b, launch, highest
        self._warps = load_pointer(b, launch, LaunchRecord.WARPS)
        self._stride = load_field(b, launch, LaunchRecord.WARP_STRIDE)
        self._count = load_field(b, launch, LaunchRecord.WARP_COUNT)
        self._next_block, self._running, self._sweep, self._each = self._labels("block", "running", "sweep", "warp")
        self._run, self._after, self._swept, self._ask = self._labels("run", "after", "swept", "ask")
        self._finished, self._over, self._start = self._labels("finished", "over", "start")

    def emit(self, start_block: Value, release_barrier: Value) -> None:
        """Emit the whole function; both arguments are functions of the module."""
        b, launch = self._b, self._launch
        b.branch(self._next_block)

        b.position_at_end(self._next_block)
        number = load_field(b, launch, LaunchRecord.NEXT_BLOCK)
        last = load_field(b, launch, LaunchRecord.BLOCK_END)
        b.cbranch(b.icmp_unsigned(">=", number, last), self._over, self._running)
        b.position_at_end(self._over)
        b.ret(i32(0))
        b.position_at_end(self._running)
        in_block = load_field(b, launch, LaunchRecord.IN_BLOCK)
        b.cbranch(b.icmp_unsigned("!=", in_block, i32(0)), self._sweep, self._start)
        b.position_at_end(self._start)
        b.call(start_block, [launch])
        b.branch(self._sweep)

        ended, ready = self._emit_sweep()
        self._emit_after_sweep(ended, ready, release_barrier)

        # The next block uses the contexts again: what the launch needs to know of this block's epochs is copied.
        b.position_at_end(self._finished)
        with b.if_then(_detects_races(b, launch)):
            highest = load_field(b, launch, LaunchRecord.RACE_HIGHEST_EPOCH)
            highest = _later(b, highest, b.call(self._highest, [launch]))
            store_field(b, highest, launch, LaunchRecord.RACE_HIGHEST_EPOCH)
        store_field(b, i32(0), launch, LaunchRecord.IN_BLOCK)
        following = b.add(load_field(b, launch, LaunchRecord.NEXT_BLOCK), i64(1))
        store_field(b, following, launch, LaunchRecord.NEXT_BLOCK)
        b.branch(self._next_block)
        b.position_at_end(self._ask)
        b.ret(i32(1))

    def _emit_sweep(self) -> tuple[Value, Value]:
        """Emit the loop over warps; return how many have ended and how many are ready after it."""
        b = self._b
        b.position_at_end(self._sweep)
        b.branch(self._each)
        b.position_at_end(self._each)
        index, ended, ready = b.phi(I32), b.phi(I32), b.phi(I32)
        for phi in (index, ended, ready):
            phi.add_incoming(i32(0), self._sweep)
        # Warps are executed in order of their number and blocks likewise, so that a launch is deterministic: the same
        # findings in every run, and a failing case that fails again.
        warp = t.at(b, self._warps, b.mul(b.zext(index, I64), self._stride))
        status = load_field(b, warp, Warp.STATUS)
        b.cbranch(b.icmp_unsigned("==", status, i32(Status.READY)), self._run, self._after)
        results = self._emit_run(warp)
        b.position_at_end(self._after)
        now = b.phi(I32)
        now.add_incoming(status, self._each)
        for value, block in results:
            now.add_incoming(value, block)
        ended_now = b.add(ended, b.zext(b.icmp_unsigned("==", now, i32(Status.DONE)), I32))
        ready_now = b.add(ready, b.zext(b.icmp_unsigned("==", now, i32(Status.READY)), I32))
        following = b.add(index, i32(1))
        for phi, value in ((index, following), (ended, ended_now), (ready, ready_now)):
            phi.add_incoming(value, self._after)
        b.cbranch(b.icmp_unsigned("<", following, self._count), self._each, self._swept)
        return ended_now, ready_now

    def _emit_run(self, warp: Value) -> list[tuple[Value, ir.Block]]:
        """Emit the call of the warp function; return the statuses with which the sweep continues, by basic block."""
        b, launch = self._b, self._launch
        b.position_at_end(self._run)
        result = t.call_pointer(b, I32, load_pointer(b, warp, Warp.FUNCTION), [warp])
        store_field(b, result, warp, Warp.STATUS)
        rare, usual, misspeculated, other = self._labels("odd", "even", "apart", "other")
        # One comparison for the usual results: DONE, READY and BARRIER have the lowest numbers.
        b.cbranch(b.icmp_unsigned(">", result, i32(Status.BARRIER)), rare, usual)
        b.position_at_end(rare)
        b.cbranch(b.icmp_unsigned("==", result, i32(Status.MISSPECULATED)), misspeculated, other)
        b.position_at_end(misspeculated)
        count = b.add(load_field(b, launch, LaunchRecord.MISSPECULATIONS), i32(1))
        store_field(b, count, launch, LaunchRecord.MISSPECULATIONS)
        store_field(b, load_field(b, launch, LaunchRecord.FALLBACK), warp, Warp.FUNCTION)
        # Before any other warp: with the fallback alone, accesses of different warps would happen in the same order,
        # and results must not depend on speculation.
        b.branch(self._run)
        b.position_at_end(other)
        # A yield is the end of a quantum: a warp that spins on a flag must let the warp run that sets it. Any other
        # result than YIELD (a trap, divergence, lanes that wait one by one) is Python's at once.
        yields = b.sub(load_field(b, launch, LaunchRecord.YIELDS_LEFT), i32(1))
        store_field(b, yields, launch, LaunchRecord.YIELDS_LEFT)
        again = b.and_(b.icmp_unsigned("==", result, i32(Status.YIELD)), b.icmp_signed(">", yields, i32(0)))
        (resume,) = self._labels("resume")
        b.cbranch(again, resume, self._ask)
        b.position_at_end(resume)
        store_field(b, i32(Status.READY), warp, Warp.STATUS)
        b.branch(self._after)
        b.position_at_end(usual)
        b.branch(self._after)
        return [(i32(Status.READY), resume), (result, usual)]

    def _emit_after_sweep(self, ended: Value, ready: Value, release_barrier: Value) -> None:
        b, launch = self._b, self._launch
        b.position_at_end(self._swept)
        waiting, not_all = self._labels("waiting", "notall")
        b.cbranch(b.icmp_unsigned("==", ended, self._count), self._finished, not_all)
        b.position_at_end(not_all)
        b.cbranch(b.icmp_unsigned("!=", ready, i32(0)), self._sweep, waiting)
        b.position_at_end(waiting)
        (opened,) = self._labels("opened")
        b.cbranch(b.call(release_barrier, [launch]), opened, self._ask)
        b.position_at_end(opened)
        # A loop with a barrier in each iteration uses up no quantum, so that no warp ever yields: barriers are counted,
        # too, for Python to test the time limit now and then.
        barriers = b.sub(load_field(b, launch, LaunchRecord.BARRIERS_LEFT), i32(1))
        store_field(b, barriers, launch, LaunchRecord.BARRIERS_LEFT)
        b.cbranch(b.icmp_signed(">", barriers, i32(0)), self._sweep, self._ask)

    def _labels(self, *names: str) -> list[ir.Block]:
        return [self._b.append_basic_block(name) for name in names]


def _detects_races(b: ir.IRBuilder, launch: Value) -> Value:
    """Return whether the launch has shadow cells: without race detection, epochs need not be kept."""
    return b.icmp_unsigned("!=", load_field(b, launch, LaunchRecord.RACE_PLANES), i64(0))


def _add_start_block(module: ir.Module, highest: Value) -> Value:
    """Add ``start_block(launch)``: set up the next block, with fresh shared and local memory."""
    function, b = t.new_function(module, "start_block", t.VOID, [POINTER])
    launch = function.args[0]
    block = load_pointer(b, launch, LaunchRecord.BLOCK)
    steps = b.alloca(I64)
    b.store(load_field(b, launch, LaunchRecord.STEPS), steps)
    position = load_field(b, launch, LaunchRecord.NEXT_BLOCK)
    highest_number = load_field(b, launch, LaunchRecord.FIRST_OF_DESCENDING)
    descending = b.icmp_unsigned("!=", highest_number, i64(0))
    number = b.select(descending, b.sub(highest_number, position), position)
    grid_x = b.zext(load_field(b, launch, LaunchRecord.GRID_X), I64)
    grid_y = b.zext(load_field(b, launch, LaunchRecord.GRID_Y), I64)
    rest = b.udiv(number, grid_x)
    clusters = b.icmp_unsigned(">", load_field(b, launch, LaunchRecord.CLUSTER_BLOCKS), i32(1))
    for field, own_cluster, value in (
        (BlockRecord.X, BlockRecord.CLUSTER_X, b.urem(number, grid_x)),
        (BlockRecord.Y, BlockRecord.CLUSTER_Y, b.urem(rest, grid_y)),
        (BlockRecord.Z, BlockRecord.CLUSTER_Z, b.udiv(rest, grid_y)),
    ):
        store_field(b, b.trunc(value, I32), block, field)
        # The place in a larger cluster is set by Python, which starts the blocks of one.
        known = load_field(b, block, own_cluster)
        store_field(b, b.select(clusters, known, b.trunc(value, I32)), block, own_cluster)
    store_field(b, number, block, BlockRecord.LINEAR)
    # Blocks share one window of shared memory, one after another: what the block before left there must neither be
    # initialised nor have plausible values.
    fresh = b.trunc(load_field(b, launch, LaunchRecord.FRESH_SHADOW), I8)
    content = b.trunc(load_field(b, launch, LaunchRecord.FILL), I8)
    shared = load_field(b, block, BlockRecord.SHARED)
    # 0 for kernels without shared memory: most launches have many small blocks, and their start must cost little.
    shared_size = load_field(b, launch, LaunchRecord.SHARED_RESET_SIZE)
    with b.if_then(b.icmp_unsigned("!=", shared_size, i64(0))):
        _fill(b, shared, content, shared_size)
        _copy(b, b.add(shared, i64(SHADOW_OFFSET)), load_field(b, launch, LaunchRecord.SHARED_SHADOW), shared_size)
    local, local_size = load_field(b, launch, LaunchRecord.LOCAL), load_field(b, launch, LaunchRecord.LOCAL_SIZE)
    with b.if_then(b.icmp_unsigned("!=", local_size, i64(0))):
        # Without it a thread would read what an earlier block, or an earlier launch, left there.
        _fill(b, local, content, local_size)
        _fill(b, b.add(local, i64(SHADOW_OFFSET)), fresh, local_size)
    code = load_field(b, launch, LaunchRecord.FUNCTION)
    with b.if_then(_detects_races(b, launch)):
        # After every epoch of the blocks before: their accesses to shared memory, whose cells are not cleared, are then
        # ordered before this block.
        # All blocks of a cluster start in one epoch: they access each other's shared memory.
        earlier = _later(b, b.call(highest, [launch]), load_field(b, launch, LaunchRecord.RACE_LAUNCH_EPOCH))
        now = b.add(_later(b, earlier, load_field(b, launch, LaunchRecord.RACE_CLUSTER_EPOCH)), i32(Epoch.TICK))
        # Thread numbers are unique for 4 Mi blocks; further ones share them, which can only miss a race between blocks
        # that far apart.
        first = b.shl(b.trunc(number, I32), i32(10))
        with _each_warp(b, launch) as warp:
            _set_epoch(b, warp, now)
            store_field(b, now, warp, Warp.START_EPOCH)
            store_field(b, now, warp, Warp.CLUSTER_BARRIER_EPOCH)
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
        # The context's counter is reset for the step limit of the next block; the launch's total must not lose it.
        b.store(b.add(b.load(steps), load_field(b, warp, Warp.STEPS)), steps)
        store_field(b, i64(0), warp, Warp.STEPS)
    store_field(b, b.load(steps), launch, LaunchRecord.STEPS)
    store_field(b, i32(1), launch, LaunchRecord.IN_BLOCK)
    b.ret_void()
    return function


def _add_release_barrier(module: ir.Module, highest: Value) -> Value:
    """Add ``release_barrier(launch) -> i1``: release the block if all its threads wait at one ``bar.sync``.

    Anything less regular (exited threads, thread counts, reductions, different barrier instructions) is Python's.
    """
    function, b = t.new_function(module, "release_barrier", I1, [POINTER])
    launch = function.args[0]
    total, same = b.alloca(I32), b.alloca(I1)
    b.store(i32(0), total)
    b.store(ir.Constant(I1, 1), same)
    # Compared with the first warp's lane 0: a warp with status BARRIER waits as a whole, and describes its barrier in
    # the first elements of the per-lane arrays.
    first = load_pointer(b, launch, LaunchRecord.WARPS)
    name, site = load_field(b, first, Warp.BARRIER_ID), load_field(b, first, Warp.BARRIER_SITE)
    with _each_warp(b, launch) as warp:
        regular = b.icmp_unsigned("==", load_field(b, warp, Warp.STATUS), i32(Status.BARRIER))
        for field, wanted in (
            (Warp.BARRIER_ID, name),
            (Warp.BARRIER_SITE, site),
            (Warp.BARRIER_COUNT, i32(0)),
            (Warp.BARRIER_KIND, i32(BarrierKind.SYNC)),
        ):
            regular = b.and_(regular, b.icmp_unsigned("==", load_field(b, warp, field), wanted))
        b.store(b.and_(b.load(same), regular), same)
        lanes = t.unary_intrinsic(b, "ctpop", load_field(b, warp, Warp.BARRIER_MASK))
        b.store(b.add(b.load(total), lanes), total)
    all_threads = b.icmp_unsigned("==", b.load(total), load_field(b, launch, LaunchRecord.BLOCK_THREADS))
    # Threads that have exited make the count smaller: whether the barrier then opens, and what is reported, is decided
    # in Python.
    released = b.and_(b.load(same), all_threads)
    with b.if_then(released):
        with _each_warp(b, launch) as warp:
            store_field(b, i32(Status.READY), warp, Warp.STATUS)
            store_field(b, i32(0), warp, Warp.BARRIER_MASK)
        with b.if_then(_detects_races(b, launch)):
            now = b.add(b.call(highest, [launch]), i32(Epoch.TICK))
            with _each_warp(b, launch) as warp:
                _set_epoch(b, warp, now)
    b.ret(released)
    return function


def _highest_epoch(b: ir.IRBuilder, launch: Value) -> Value:
    """Return the latest epoch of the block's warps."""
    slot = b.alloca(I32)
    b.store(i32(0), slot)
    with _each_warp(b, launch) as warp:
        b.store(_later(b, b.load(slot), load_field(b, warp, Warp.EPOCH)), slot)
    return b.load(slot)


def _later(b: ir.IRBuilder, one: Value, other: Value) -> Value:
    return b.select(b.icmp_unsigned(">", one, other), one, other)


def _set_epoch(b: ir.IRBuilder, warp: Value, now: Value) -> None:
    """Start an epoch before which all accesses of the block are ordered."""
    for field in (Warp.EPOCH, Warp.WARP_BARRIER_EPOCH, Warp.BLOCK_BARRIER_EPOCH):
        store_field(b, now, warp, field)


@contextmanager
def _each_warp(b: ir.IRBuilder, launch: Value) -> Iterator[Value]:
    """Build a loop over the contexts of the block's warps."""
    warps = load_pointer(b, launch, LaunchRecord.WARPS)
    stride = load_field(b, launch, LaunchRecord.WARP_STRIDE)
    count = load_field(b, launch, LaunchRecord.WARP_COUNT)
    before = b.block
    loop = b.append_basic_block("each")
    b.branch(loop)
    b.position_at_end(loop)
    index = b.phi(I32)
    index.add_incoming(i32(0), before)
    yield t.at(b, warps, b.mul(b.zext(index, I64), stride))
    following = b.add(index, i32(1))
    index.add_incoming(following, b.block)
    end = b.append_basic_block("each.end")
    b.cbranch(b.icmp_unsigned("<", following, count), loop, end)
    b.position_at_end(end)


def _fill(b: ir.IRBuilder, address: Value, value: Value, size: Value) -> None:
    pointer = b.inttoptr(address, POINTER)
    t.intrinsic(b, "llvm.memset.p0.i64", t.VOID, [pointer, value, size, ir.Constant(I1, 0)])


def _copy(b: ir.IRBuilder, to: Value, source: Value, size: Value) -> None:
    arguments = [b.inttoptr(to, POINTER), b.inttoptr(source, POINTER), size, ir.Constant(I1, 0)]
    t.intrinsic(b, "llvm.memcpy.p0.p0.i64", t.VOID, arguments)
