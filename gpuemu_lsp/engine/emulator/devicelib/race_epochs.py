"""Epoch comparison of the race detector: the shadow cell of an access, its thread, and its last-barrier epochs.

The essay is in :mod:`~gpuemu_lsp.engine.emulator.devicelib`.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from llvmlite import ir

from gpuemu_lsp.engine.emulator.abi.field_access import load_field, load_pointer
from gpuemu_lsp.engine.emulator.abi.race_records import THREAD_IN_BLOCK, Epoch, ShadowPlane
from gpuemu_lsp.engine.emulator.abi.structs import BlockRecord, LaunchRecord, Warp
from gpuemu_lsp.engine.emulator.llvm import ir_tools as t
from gpuemu_lsp.engine.emulator.llvm.ir_tools import I1, I32, I64, Value, i32, i64

ROW = 16
"""Shadow cells compared at once."""


@dataclass(frozen=True, slots=True)
class AccessView:
    """Shadow cell, thread and epochs of one access.

    ``me`` is the thread number of lane 0; ``stride`` the distance from one plane of the cell to the next. ``foreign``
    is true for local memory, which has no shadow cells because no other thread can access it. ``quick_barrier`` is an
    epoch before which all accesses to shared memory are ordered, of all threads, ``launch_start`` one before which
    those of other blocks are.
    """

    b: ir.IRBuilder
    cell: Value
    stride: Value
    me: Value
    foreign: Value
    now: Value
    warp_barrier: Value
    block_barrier: Value
    quick_barrier: Value
    launch_start: Value
    partial_sync: Value

    @property
    def read_by_block(self) -> Value:
        """Epoch of a location that several warps of the block have read since the last barrier."""
        return self.b.or_(self.now, i32(2))

    def plane(self, number: int, index: Value | int = 0) -> Value:
        """Return a pointer to a plane of the cell, ``index`` bytes further."""
        b = self.b
        base = b.add(self.cell, b.mul(self.stride, i64(number))) if number else self.cell
        return t.at(b, base, index)

    def unordered(self, thread: Value, epoch: Value, me: Value) -> tuple[Value, Value]:
        """Return whether an access stored in a cell is unordered with this one as far as epochs show, and the distance.

        The distance is 0 for the same thread, below 32 within the warp, below 1024 within the block; all operands may
        be vectors of :data:`ROW` cells.
        """
        b = self.b

        def c(value: Value) -> Value:
            return t.splat(b, value, ROW) if isinstance(thread.type, ir.VectorType) else value

        spread = b.and_(epoch, c(i32(Epoch.SPREAD)))
        # The cell names only the last of several threads. Their spread 0, 1, 2, 3 becomes a distance of at least 0, 1,
        # 32, 1024, so that the access counts as made by another thread of the warp, the block, or the grid.
        power = b.add(spread, b.shl(spread, c(i32(2))))
        distance = b.or_(b.xor(thread, me), b.lshr(b.shl(c(i32(1)), power), c(i32(5))))
        far = b.select(b.icmp_unsigned("<", distance, c(i32(1024))), c(self.block_barrier), c(self.launch_start))
        barrier = b.select(b.icmp_unsigned("<", distance, c(i32(32))), c(self.warp_barrier), far)
        # No barrier inside a launch orders different blocks: only the start of the launch does.
        late = b.icmp_unsigned(">=", epoch, barrier)
        return b.and_(late, b.icmp_unsigned("!=", distance, c(i32(0)))), distance

    def maybe_ordered_by_partial_sync(self, epoch: Value, distance: Value, unordered: Value) -> Value:
        """Return whether a partial-mask synchronisation since the access may order it although no barrier does."""
        b = self.b

        def c(value: Value) -> Value:
            return t.splat(b, value, ROW) if isinstance(epoch.type, ir.VectorType) else value

        near = b.icmp_unsigned("<", distance, c(i32(32)))
        return b.and_(b.and_(unordered, near), b.icmp_unsigned("<", epoch, c(self.partial_sync)))

    def joins_strong(self, epoch: Value, concurrent: Value) -> Value:
        """Return whether a weak read would join a record with strong ones, which only ``race_lane`` keeps apart."""
        b = self.b
        strong, zero = i32(Epoch.STRONG), i32(0)
        if isinstance(epoch.type, ir.VectorType):
            strong, zero = t.splat(b, strong, ROW), t.splat(b, zero, ROW)
        return b.and_(concurrent, b.icmp_unsigned("!=", b.and_(epoch, strong), zero))

    def lanes_of(self, thread: Value, epoch: Value, stored: Value) -> Value:
        """Return a bit for each lane of the warp whose accesses the cell stands for; ``stored`` are those of the cell.

        Meaningless for accesses of several warps, which no partial-mask synchronisation can order.
        """
        b = self.b

        def c(value: Value) -> Value:
            return t.splat(b, value, ROW) if isinstance(thread.type, ir.VectorType) else value

        # The lanes plane is written for several lanes only; a single thread is known by its number.
        alone = b.icmp_unsigned("==", b.and_(epoch, c(i32(Epoch.SPREAD))), c(i32(0)))
        return b.select(alone, b.shl(c(i32(1)), b.and_(thread, c(i32(31)))), stored)

    def merged_epoch(self, epoch: Value, distance: Value, concurrent: Value, flags: Value) -> Value:
        """Return the epoch to store for this access, which joins the stored ones where it is ``concurrent`` with them.

        One cell then stands for all of them: with the latest clock and the largest distance, so that a later access is
        ordered after it only if it is ordered after each; with the flags of any. ``flags`` are those of this access.
        """
        b = self.b

        def c(value: Value) -> Value:
            return t.splat(b, value, ROW) if isinstance(epoch.type, ir.VectorType) else value

        # Distance classes as numbers: each limit that the distance reaches adds one to the spread.
        wide = [b.zext(b.icmp_unsigned(">=", distance, c(i32(limit))), epoch.type) for limit in (1, 32, 1024)]
        spread = b.add(b.add(wide[0], wide[1]), wide[2])
        clock = b.and_(epoch, c(i32(-Epoch.TICK)))
        later = b.select(b.icmp_unsigned(">", clock, c(self.now)), clock, c(self.now))
        any_flag = b.or_(b.and_(epoch, c(i32(Epoch.STRONG | Epoch.BLOCK_SCOPE))), flags)
        return b.select(concurrent, b.or_(b.or_(later, spread), any_flag), b.or_(c(self.now), flags))


def first_active_address(
    b: ir.IRBuilder, launch: Value, mask: Value, address: Value, first: Value, shift: Value
) -> Value:
    """Return the address of the first active lane of a row that begins at ``address`` with lane ``first``.

    Inactive lanes may lie outside the memory that the row is in, so that the row's own address does not identify it.
    """
    lane = t.intrinsic(b, "llvm.cttz.i32", I32, [b.lshr(mask, first), ir.Constant(I1, 0)])
    cells = b.shl(b.zext(b.and_(lane, i32(31)), I64), b.zext(shift, I64))
    return b.add(address, b.shl(cells, load_field(b, launch, LaunchRecord.RACE_CELL_SHIFT)))


def view_access(
    b: ir.IRBuilder, ctx: Value, address: Value, *, shared: bool = False, inside: Value | None = None
) -> AccessView:
    """Return the view of an access at ``address``; ``shared`` if it is known to lie in shared memory.

    ``inside`` is an address that identifies the memory, where ``address`` itself may lie before it.
    """
    # Loaded again for every access: between two of them the warp may have synchronised.
    launch, block = load_pointer(b, ctx, Warp.LAUNCH), load_pointer(b, ctx, Warp.BLOCK)
    # An arithmetic shift: a row may begin before the arena, and its cells are then in the plane's lower margin.
    offset = b.sub(address, load_field(b, launch, LaunchRecord.ARENA))
    index = b.shl(b.ashr(offset, load_field(b, launch, LaunchRecord.RACE_CELL_SHIFT)), i64(2))
    cell = b.add(load_field(b, launch, LaunchRecord.RACE_PLANES), index)
    number = load_field(b, ctx, Warp.FIRST_THREAD)
    several = b.icmp_unsigned(">", load_field(b, launch, LaunchRecord.CLUSTER_BLOCKS), i32(1))
    # Blocks use the same shared window one after another, and its cells are not cleared in between. Without the block
    # in the thread number, accesses of an earlier block are ordered by this block's first epoch. The blocks of a
    # cluster access each other's memory: there the barrier of the cluster orders, and its first epoch.
    me, foreign = b.select(several, number, b.and_(number, i32(THREAD_IN_BLOCK))), ir.Constant(I1, 0)
    block_barrier = load_field(b, ctx, Warp.BLOCK_BARRIER_EPOCH)
    cluster_barrier = load_field(b, ctx, Warp.CLUSTER_BARRIER_EPOCH)
    start = load_field(b, launch, LaunchRecord.RACE_LAUNCH_EPOCH)
    far = b.select(several, cluster_barrier, start)
    if not shared:
        known = address if inside is None else inside
        place = b.sub(known, load_field(b, block, BlockRecord.CLUSTER_SHARED))
        near = b.icmp_unsigned("<", place, load_field(b, launch, LaunchRecord.CLUSTER_SHARED_SIZE))
        private = b.icmp_unsigned(">=", known, load_field(b, launch, LaunchRecord.RACE_PRIVATE_START))
        me = b.select(near, me, number)
        far = b.select(near, far, start)
        foreign = b.and_(private, b.not_(near))
    return AccessView(
        b,
        cell,
        load_field(b, launch, LaunchRecord.RACE_PLANE_STRIDE),
        me,
        foreign,
        load_field(b, ctx, Warp.EPOCH),
        load_field(b, ctx, Warp.WARP_BARRIER_EPOCH),
        block_barrier,
        b.select(several, cluster_barrier, block_barrier),
        far,
        load_field(b, ctx, Warp.PARTIAL_SYNC_EPOCH),
    )


def return_if(b: ir.IRBuilder, condition: Value, result: int | None) -> None:
    """Return from the function where ``condition`` holds: nothing, or an i1."""
    with b.if_then(condition):
        if result is None:
            b.ret_void()
        else:
            b.ret(ir.Constant(I1, result))
        # llvmlite closes the conditional with a branch of its own, which needs a block to stand in.
        b.position_at_end(b.append_basic_block("dead"))


def keep_other_reader(view: AccessView, index: Value, unordered: Value, me: Value) -> None:
    """Store the last reader as the other reader, where this read takes its place and nothing orders the two.

    If this thread then writes, the race is with the other reader: a finding must not name the same thread twice.
    """
    b = view.b
    reader = b.load(view.plane(ShadowPlane.READER, index), typ=I32)
    with b.if_then(b.and_(unordered, b.icmp_unsigned("!=", reader, me))):
        b.store(reader, view.plane(ShadowPlane.OTHER_READER, index))
        site = b.load(view.plane(ShadowPlane.READ_SITE, index), typ=I32)
        b.store(site, view.plane(ShadowPlane.OTHER_READ_SITE, index))


@contextmanager
def each_cell(b: ir.IRBuilder, count: Value) -> Iterator[Value]:
    """Build a loop over the ``count`` cells of an access, at least one: yields byte offsets into a plane."""
    before = b.block
    loop = b.append_basic_block("cell")
    b.branch(loop)
    b.position_at_end(loop)
    index = b.phi(I64)
    index.add_incoming(i64(0), before)
    yield b.shl(index, i64(2))
    following = b.add(index, i64(1))
    index.add_incoming(following, b.block)
    end = b.append_basic_block("cell.end")
    b.cbranch(b.icmp_unsigned("<", following, count), loop, end)
    b.position_at_end(end)
