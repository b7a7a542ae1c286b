"""What the race checker sees of one access: its cell, who it is, and how far back everything is ordered.

Epochs as in FastTrack (Flanagan and Freund, PLDI 2009), with the orders of a GPU in place of locks: a thread's own
program, its warp's ``.sync`` instructions, its block's barriers. Each order is a floor: what a thread of the same warp
(block) did before the floor's epoch is behind us. See :class:`~gpuemu_lsp.engine.emulator.abi.structs.Cell`.
"""

from __future__ import annotations

from dataclasses import dataclass

from llvmlite import ir

from gpuemu_lsp.engine.emulator.abi.field_access import load_field, load_pointer
from gpuemu_lsp.engine.emulator.abi.race_records import THREAD_IN_BLOCK, Epoch, ShadowPlane
from gpuemu_lsp.engine.emulator.abi.structs import BlockRecord, LaunchRecord, Warp
from gpuemu_lsp.engine.emulator.llvm import ir_tools as t
from gpuemu_lsp.engine.emulator.llvm.ir_tools import I1, I32, I64, Value, i32, i64

STORE = 1
STRONG = 2
ACQUIRES = 4
RELEASES = 8
ATOMIC = 16
WATCHED = 32
"""Flags of :func:`~gpuemu_lsp.engine.emulator.devicelib.race_detector.add_lane`: what an access is."""

ROW = 16
"""Cells looked at together."""


@dataclass(frozen=True, slots=True)
class View:
    """What one access sees: where its cell lies, who lane 0 is, and the floors."""

    b: ir.IRBuilder
    cell: Value
    distance: Value
    me: Value
    foreign: Value
    now: Value
    warp_floor: Value
    block_floor: Value
    launch_floor: Value
    partly: Value

    @property
    def read_by_block(self) -> Value:
        """What is noted of a place that several warps of the block have read in this epoch."""
        return self.b.or_(self.now, i32(2))

    def plane(self, number: int, index: Value | int = 0) -> Value:
        """Return a pointer into a plane, ``index`` bytes on."""
        b = self.b
        base = b.add(self.cell, b.mul(self.distance, i64(number))) if number else self.cell
        return t.at(b, base, index)

    def unordered(self, who: Value, when: Value, me: Value) -> tuple[Value, Value]:
        """Return whether an access noted in a cell is not known to be behind us, and how far its thread is from us."""
        b = self.b

        def c(value: Value) -> Value:
            return t.splat(b, value, ROW) if isinstance(who.type, ir.VectorType) else value

        spread = b.and_(when, c(i32(Epoch.SPREAD)))
        power = b.add(spread, b.shl(spread, c(i32(2))))  # one bit per level: 0, 1, 32, 1024
        x = b.or_(b.xor(who, me), b.lshr(b.shl(c(i32(1)), power), c(i32(5))))
        far = b.select(b.icmp_unsigned("<", x, c(i32(1024))), c(self.block_floor), c(self.launch_floor))
        floor = b.select(b.icmp_unsigned("<", x, c(i32(32))), c(self.warp_floor), far)
        late = b.icmp_unsigned(">=", when, floor)
        return b.and_(late, b.icmp_unsigned("!=", x, c(i32(0)))), x

    def perhaps_met(self, when: Value, x: Value, behind: Value) -> Value:
        """Return where an access of the warp itself may be ordered by lanes that have met since, not by a floor."""
        b = self.b

        def c(value: Value) -> Value:
            return t.splat(b, value, ROW) if isinstance(when.type, ir.VectorType) else value

        near = b.icmp_unsigned("<", x, c(i32(32)))
        return b.and_(b.and_(behind, near), b.icmp_unsigned("<", when, c(self.partly)))

    def lanes(self, who: Value, when: Value, noted: Value) -> Value:
        """Return a bit for each lane of the warp that made the accesses of a cell; ``noted`` is what it keeps of them.

        Only where they are all of one warp: of others nobody asks.
        """
        b = self.b

        def c(value: Value) -> Value:
            return t.splat(b, value, ROW) if isinstance(who.type, ir.VectorType) else value

        alone = b.icmp_unsigned("==", b.and_(when, c(i32(Epoch.SPREAD))), c(i32(0)))
        return b.select(alone, b.shl(c(i32(1)), b.and_(who, c(i32(31)))), noted)

    def merged(self, when: Value, x: Value, concurrent: Value, strong: Value) -> Value:
        """Return the epoch to note for an access that may be concurrent with those noted."""
        b = self.b

        def c(value: Value) -> Value:
            return t.splat(b, value, ROW) if isinstance(when.type, ir.VectorType) else value

        wide = [b.zext(b.icmp_unsigned(">=", x, c(i32(limit))), when.type) for limit in (1, 32, 1024)]
        level = b.add(b.add(wide[0], wide[1]), wide[2])
        clock = b.and_(when, c(i32(-Epoch.TICK)))
        later = b.select(b.icmp_unsigned(">", clock, c(self.now)), clock, c(self.now))
        both = b.and_(when, strong)
        return b.select(concurrent, b.or_(b.or_(later, level), both), b.or_(c(self.now), strong))


def first_place(b: ir.IRBuilder, launch: Value, mask: Value, address: Value, first: Value, shift: Value) -> Value:
    """Return where the first active lane of a row is, which begins at ``address`` with lane ``first``.

    The row itself may begin before the memory it is in, where lanes without a part in it stand.
    """
    lane = t.intrinsic(b, "llvm.cttz.i32", I32, [b.lshr(mask, first), ir.Constant(I1, 0)])
    cells = b.shl(b.zext(b.and_(lane, i32(31)), I64), b.zext(shift, I64))
    return b.add(address, b.shl(cells, load_field(b, launch, LaunchRecord.RACE_CELL_SHIFT)))


def view_of(b: ir.IRBuilder, ctx: Value, address: Value, *, shared: bool = False, inside: Value | None = None) -> View:
    """Return what an access at ``address`` sees; ``shared`` says that it is known to lie in shared memory.

    ``inside`` is a place that tells which memory is meant, where ``address`` itself may lie before it.
    """
    launch, block = load_pointer(b, ctx, Warp.LAUNCH), load_pointer(b, ctx, Warp.BLOCK)
    offset = b.sub(address, load_field(b, launch, LaunchRecord.ARENA))
    index = b.shl(b.ashr(offset, load_field(b, launch, LaunchRecord.RACE_CELL_SHIFT)), i64(2))
    cell = b.add(load_field(b, launch, LaunchRecord.RACE_PLANES), index)
    number = load_field(b, ctx, Warp.FIRST_THREAD)
    me, foreign = b.and_(number, i32(THREAD_IN_BLOCK)), ir.Constant(I1, 0)
    if not shared:
        told = address if inside is None else inside
        place = b.sub(told, load_field(b, block, BlockRecord.SHARED))
        near = b.icmp_unsigned("<", place, load_field(b, launch, LaunchRecord.SHARED_SIZE))
        private = b.icmp_unsigned(">=", told, load_field(b, launch, LaunchRecord.RACE_PRIVATE_START))
        me = b.select(near, me, number)
        foreign = b.and_(private, b.not_(near))
    return View(
        b,
        cell,
        load_field(b, launch, LaunchRecord.RACE_PLANE_STRIDE),
        me,
        foreign,
        load_field(b, ctx, Warp.EPOCH),
        load_field(b, ctx, Warp.WARP_BARRIER_EPOCH),
        load_field(b, ctx, Warp.BLOCK_BARRIER_EPOCH),
        load_field(b, launch, LaunchRecord.RACE_LAUNCH_EPOCH),
        load_field(b, ctx, Warp.PARTIAL_SYNC_EPOCH),
    )


def unmet(b: ir.IRBuilder, ctx: Value, lane: Value, when: Value, lanes: Value) -> Value:
    """Return which of ``lanes`` a lane of the same warp has not met since ``when``, as far as it knows."""
    vector = ir.VectorType(I32, 32)
    known = t.load(b, ctx, b.add(i64(Warp.LANE_CLOCKS), b.shl(b.zext(lane, I64), i64(7))), vector, align=4)
    unknown = b.bitcast(b.icmp_unsigned(">=", t.splat(b, when, 32), known), I32)
    return b.and_(b.and_(lanes, b.not_(b.shl(i32(1), lane))), unknown)


def return_if(b: ir.IRBuilder, condition: Value, result: int | None) -> None:
    """Return from the function where ``condition`` holds: nothing, or an i1."""
    with b.if_then(condition):
        if result is None:
            b.ret_void()
        else:
            b.ret(ir.Constant(I1, result))
        b.position_at_end(b.append_basic_block("dead"))


def note_other(view: View, index: Value, late: Value, me: Value) -> None:
    """Keep the last reader beside the one that takes its place, where nothing orders the two."""
    b = view.b
    who = b.load(view.plane(ShadowPlane.READER, index), typ=I32)
    with b.if_then(b.and_(late, b.icmp_unsigned("!=", who, me))):
        b.store(who, view.plane(ShadowPlane.OTHER_READER, index))
        b.store(
            b.load(view.plane(ShadowPlane.READ_SITE, index), typ=I32), view.plane(ShadowPlane.OTHER_READ_SITE, index)
        )


class each_cell:  # noqa: N801 - used as a context manager function
    """Build a loop over the cells of an access: yields byte offsets into a plane."""

    def __init__(self, builder: ir.IRBuilder, count: Value) -> None:
        self._b, self._count = builder, count

    def __enter__(self) -> Value:
        b = self._b
        before = b.block
        self._loop = b.append_basic_block("cell")
        b.branch(self._loop)
        b.position_at_end(self._loop)
        self._index = b.phi(I64)
        self._index.add_incoming(i64(0), before)
        return b.shl(self._index, i64(2))

    def __exit__(self, *unused: object) -> None:
        b = self._b
        following = b.add(self._index, i64(1))
        self._index.add_incoming(following, b.block)
        end = b.append_basic_block("cell.end")
        b.cbranch(b.icmp_unsigned("<", following, self._count), self._loop, end)
        b.position_at_end(end)
