"""The race detector's fastest path, for global memory: shadow lines.

Consecutive threads mostly access consecutive cells, and the same threads come back to them. One
:class:`~gpuemu_lsp.engine.emulator.abi.race_records.ShadowLine` records that for 16 cells. An access that does not fit
expands the line: its threads are written to the line's cells, and for the rest of the launch the cells are used.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from llvmlite import ir

from gpuemu_lsp.engine.emulator.abi.field_access import load_field, load_pointer, store_field
from gpuemu_lsp.engine.emulator.abi.race_records import ShadowLine, ShadowPlane
from gpuemu_lsp.engine.emulator.abi.structs import LaunchRecord, Warp
from gpuemu_lsp.engine.emulator.devicelib.race_epochs import first_active_address
from gpuemu_lsp.engine.emulator.llvm import ir_tools as t
from gpuemu_lsp.engine.emulator.llvm.ir_tools import I1, I32, I64, POINTER, VOID, Value, i32, i64

_LOW = 0xFFFF
_RECORD = ir.VectorType(I32, 4)
_PAIR = ir.VectorType(I32, 8)
"""The records of two lines."""


def add_expand_lines(module: ir.Module) -> Value:
    """Add ``race_expand_lines(ctx, address, cells)``: expand the shadow lines of these cells."""
    function, b = t.new_function(module, "race_expand_lines", VOID, [POINTER, I64, I32])
    ctx, address, cells = function.args
    launch = load_pointer(b, ctx, Warp.LAUNCH)
    launch_start = load_field(b, launch, LaunchRecord.RACE_LAUNCH_EPOCH)
    cell = cell_number(b, launch, address)
    last = b.ashr(b.add(cell, b.sub(b.zext(cells, I64), i64(1))), i64(ShadowLine.SHIFT))
    with _each(b, b.ashr(cell, i64(ShadowLine.SHIFT)), b.add(last, i64(1))) as number:
        line = _line(b, launch, number)
        # Expanded in an earlier launch does not count: shadow memory is not cleared between launches.
        expanded = b.and_(
            b.icmp_unsigned("==", load_field(b, line, ShadowLine.LANES), i32(ShadowLine.EXPANDED)),
            b.icmp_unsigned(">=", load_field(b, line, ShadowLine.EPOCH), launch_start),
        )
        with b.if_then(b.not_(expanded)):
            base = b.add(load_field(b, launch, LaunchRecord.RACE_PLANES), b.shl(number, i64(2 + ShadowLine.SHIFT)))
            for record, planes in (
                (line, (ShadowPlane.WRITER, ShadowPlane.WRITE_EPOCH, ShadowPlane.WRITE_SITE)),
                (
                    t.at(b, line, load_field(b, launch, LaunchRecord.RACE_PLANE_STRIDE)),
                    (ShadowPlane.READER, ShadowPlane.READ_EPOCH, ShadowPlane.READ_SITE),
                ),
            ):
                _write_to_cells(b, launch, record, base, planes, launch_start)
                # Both records, so that neither loads nor stores of a row find a line to use.
                store_field(b, i32(ShadowLine.EXPANDED), record, ShadowLine.LANES)
                store_field(b, load_field(b, ctx, Warp.EPOCH), record, ShadowLine.EPOCH)
    b.ret_void()
    return function


def _write_to_cells(
    b: ir.IRBuilder, launch: Value, record: Value, base: Value, planes: tuple[int, int, int], launch_start: Value
) -> None:
    """Write a record of this launch to the planes of its cells, of which the first are at ``base``."""
    epoch, lanes = load_field(b, record, ShadowLine.EPOCH), load_field(b, record, ShadowLine.LANES)
    with b.if_then(b.icmp_unsigned(">=", epoch, launch_start)):
        vector = ir.VectorType(I32, ShadowLine.CELLS)

        def c(value: Value) -> Value:
            return t.splat(b, value, ShadowLine.CELLS)

        # The other cells of the line have not been accessed in this launch, or not in this direction.
        step = b.lshr(t.iota(I32, ShadowLine.CELLS), c(b.lshr(lanes, i32(16))))
        threads = b.add(c(load_field(b, record, ShadowLine.FIRST_THREAD)), step)
        active = b.bitcast(b.trunc(lanes, ir.IntType(16)), ir.VectorType(I1, ShadowLine.CELLS))
        stride = load_field(b, launch, LaunchRecord.RACE_PLANE_STRIDE)
        for plane, value in zip(planes, (threads, c(epoch), c(load_field(b, record, ShadowLine.SITE))), strict=True):
            pointer = b.inttoptr(b.add(base, b.mul(stride, i64(plane))), POINTER)
            t.intrinsic(b, f"llvm.masked.store.{t.mangled(vector)}.p0", VOID, [value, pointer, i32(4), active])


def expand_lines_of(b: ir.IRBuilder, expand: Value, ctx: Value, address: Value, cells: Value) -> None:
    """Expand the shadow lines of an access that is not a row, so that its cells hold all that is stored."""
    launch = load_pointer(b, ctx, Warp.LAUNCH)
    with b.if_then(b.icmp_unsigned("<", address, load_field(b, launch, LaunchRecord.RACE_PRIVATE_START))):
        cell = cell_number(b, launch, address)
        line = _line(b, launch, b.ashr(cell, i64(ShadowLine.SHIFT)))
        # Only the first line is tested here. An access that reaches into a second one always makes the call.
        fits = b.icmp_unsigned(
            "<=", b.add(b.and_(cell, i64(ShadowLine.CELLS - 1)), b.zext(cells, I64)), i64(ShadowLine.CELLS)
        )
        expanded = b.icmp_unsigned("==", load_field(b, line, ShadowLine.LANES), i32(ShadowLine.EXPANDED))
        recent = b.icmp_unsigned(
            ">=", load_field(b, line, ShadowLine.EPOCH), load_field(b, launch, LaunchRecord.RACE_LAUNCH_EPOCH)
        )
        with b.if_then(b.not_(b.and_(fits, b.and_(expanded, recent)))):
            b.call(expand, [ctx, address, cells])


def add_row_by_line(module: ir.Module, by_cell: Value, expand: Value, *, is_store: bool) -> Value:
    """Add ``race_row_load`` or ``race_row_store``: ``by_cell`` with shadow lines in front of it.

    ``by_cell`` is the function from :func:`~gpuemu_lsp.engine.emulator.devicelib.race_batch.add_row_by_cell`, which has
    the same parameters.
    """
    name = "race_row_store" if is_store else "race_row_load"
    function, b = t.new_function(module, name, I1, [POINTER, I32, I32, I64, I32, I32, I32])
    ctx, site, mask, address, first, cells, shift = function.args
    launch = load_pointer(b, ctx, Warp.LAUNCH)
    inside = first_active_address(b, launch, mask, address, first, shift)
    # Shared memory has no lines: behind a barrier other threads access the same cells, which would expand each line.
    private = b.icmp_unsigned(">=", inside, load_field(b, launch, LaunchRecord.RACE_PRIVATE_START))
    with b.if_then(private):
        b.ret(b.call(by_cell, function.args))
        b.position_at_end(b.append_basic_block("dead"))
    cell = cell_number(b, launch, address)
    run = ShadowLineRun(
        b,
        (load_field(b, launch, LaunchRecord.RACE_LINES), load_field(b, launch, LaunchRecord.RACE_PLANE_STRIDE)),
        site,
        b.add(load_field(b, ctx, Warp.FIRST_THREAD), first),
        shift,
        load_field(b, ctx, Warp.EPOCH),
        load_field(b, launch, LaunchRecord.RACE_LAUNCH_EPOCH),
        is_store=is_store,
    )
    # A row may begin inside a line, and a warp's row of 32 lanes then covers three lines.
    offset = b.trunc(b.and_(cell, i64(ShadowLine.CELLS - 1)), I32)
    number = b.ashr(cell, i64(ShadowLine.SHIFT))
    count = b.lshr(cells, shift)
    # ``count`` is at least 1: a shift by 32 bits would be poison in LLVM.
    every = b.lshr(i32(-1), b.sub(i32(32), count))
    lanes = b.and_(b.lshr(mask, first), every)
    whole = b.and_(b.icmp_unsigned("==", lanes, every), b.icmp_unsigned("==", offset, i32(0)))
    # Fastest first: whole lines two at a time, then line by line with any lanes, then cell by cell.
    pairs, single, closer = (b.append_basic_block(n) for n in ("pairs", "single", "closer"))
    even = b.icmp_unsigned("==", b.and_(cells, i32(2 * ShadowLine.CELLS - 1)), i32(0))
    b.cbranch(b.and_(whole, even), pairs, single)

    b.position_at_end(pairs)
    with _each(b, i64(0), b.zext(b.lshr(cells, i32(ShadowLine.SHIFT + 1)), I64)) as index:
        fine, new = run.pair(b.add(number, b.shl(index, i64(1))), b.shl(b.trunc(index, I32), i32(ShadowLine.SHIFT + 1)))
        go_on = b.append_basic_block("fine")
        b.cbranch(fine, go_on, single)
        b.position_at_end(go_on)
        run.record_pair(new)
    b.ret(ir.Constant(I1, 1))

    b.position_at_end(single)
    # With several cells to a lane, a partly active line would need the mask widened to cells: left to the cells.
    narrow = b.icmp_unsigned("==", shift, i32(0))
    full_lines = b.and_(whole, b.icmp_unsigned("==", b.and_(cells, i32(ShadowLine.CELLS - 1)), i32(0)))
    each = b.append_basic_block("each")
    b.cbranch(b.or_(narrow, full_lines), each, closer)
    b.position_at_end(each)
    bits = b.select(narrow, b.shl(b.zext(lanes, I64), b.zext(offset, I64)), i64(-1))
    lines = b.lshr(b.add(b.add(offset, cells), i32(ShadowLine.CELLS - 1)), i32(ShadowLine.SHIFT))
    with _each(b, i64(0), b.zext(lines, I64)) as index:
        start = b.shl(index, i64(ShadowLine.SHIFT))
        own = b.select(narrow, b.lshr(bits, b.and_(start, i64(63))), i64(_LOW))
        own = b.and_(b.trunc(own, I32), i32(_LOW))
        with b.if_then(b.icmp_unsigned("!=", own, i32(0))):
            run.single(b.add(number, index), b.sub(b.trunc(start, I32), offset), own, closer)
    b.ret(ir.Constant(I1, 1))

    # Lines before the one that does not fit have been recorded already: expanding them writes that to their cells.
    b.position_at_end(closer)
    b.call(expand, [ctx, address, cells])
    b.ret(b.call(by_cell, function.args))
    return function


class ShadowLineRun:
    """Emits the check and the record of a row's access by shadow lines.

    ``lines`` are the address of the records of writes and the distance to those of reads; ``first`` is the thread of
    the row's first cell; a thread accesses ``1 << shift`` cells.
    """

    def __init__(
        self,
        b: ir.IRBuilder,
        lines: tuple[Value, Value],
        site: Value,
        first: Value,
        shift: Value,
        now: Value,
        launch_start: Value,
        *,
        is_store: bool,
    ) -> None:
        self._b, self._lines, self._site, self._first, self._shift = b, lines, site, first, shift
        self._now, self._launch_start, self._is_store = now, launch_start, is_store
        self._stored_shift = b.shl(shift, i32(16))

    def _records(self, number: Value) -> tuple[Value, Value]:
        """Return the record of a line that the access changes, and the other one."""
        b = self._b
        written = b.add(self._lines[0], b.mul(number, i64(ShadowLine.SIZE)))
        read = b.add(written, self._lines[1])
        own, other = (written, read) if self._is_store else (read, written)
        return t.at(b, own, 0), t.at(b, other, 0)

    def pair(self, number: Value, cell: Value) -> tuple[Value, tuple[Value, Value]]:
        """Return whether two whole lines fit, and the new record with its address for :meth:`record_pair`.

        They fit if both records of both lines are stale, or those of the same threads and lanes. ``cell`` is the number
        of the row's cells before them.
        """
        b = self._b
        thread = b.add(self._first, b.lshr(cell, self._shift))
        all_lanes = b.or_(self._stored_shift, i32(_LOW))
        new = self._two_records(thread, all_lanes, b.lshr(i32(ShadowLine.CELLS), self._shift))
        own, other = self._records(number)
        bits, fits = ir.IntType(8), None
        for record in (own, other):
            # Elements 0 to 3 of the vector are thread, epoch, lanes, site of the first line, 4 to 7 those of the
            # second. A comparison of all eight gives one bit each; shifts bring the epoch's and the lanes' bits to the
            # thread's place, so that bits 0 and 4 of the result stand for the two lines.
            stored = t.load(b, record, 0, _PAIR, align=4)
            stale = b.bitcast(b.icmp_unsigned("<", stored, t.splat(b, self._launch_start, 8)), bits)
            same = b.bitcast(b.icmp_unsigned("==", stored, new), bits)
            one = b.or_(b.lshr(stale, ir.Constant(bits, 1)), b.and_(same, b.lshr(same, ir.Constant(bits, 2))))
            fits = one if fits is None else b.and_(fits, one)
        both_lines = ir.Constant(bits, 0x11)
        return b.icmp_unsigned("==", b.and_(fits, both_lines), both_lines), (new, own)

    def record_pair(self, new: tuple[Value, Value]) -> None:
        """Store what :meth:`pair` returned."""
        t.store(self._b, *new, 0, align=4)

    def single(self, number: Value, cell: Value, own: Value, refused: ir.Block) -> None:
        """Record the access to the cells ``own`` of one line if it fits, else branch to ``refused``.

        It fits if both records are stale or of the same threads: each cell is then accessed by one thread only, whose
        accesses program order orders.
        """
        b = self._b
        changed, other = self._records(number)
        # The thread of the line's cell 0, which may lie before the row: the number is then less than the row's first.
        thread = b.add(self._first, b.select(self._one_cell_each(), cell, b.lshr(cell, self._shift)))
        lanes = load_field(b, changed, ShadowLine.LANES)
        epoch = load_field(b, changed, ShadowLine.EPOCH)
        stale, same = self._state(changed, thread)
        others = b.and_(b.and_(lanes, i32(_LOW)), b.not_(own))
        # The record has one epoch and site for all its cells: cells that are not accessed now stay in it only if these
        # are true of them, too.
        alike = b.and_(
            b.icmp_unsigned("==", epoch, self._now),
            b.icmp_unsigned("==", load_field(b, changed, ShadowLine.SITE), self._site),
        )
        joins = b.and_(same, b.or_(alike, b.icmp_unsigned("==", others, i32(0))))
        # The other record need not have the same cells: an own read before an own write is ordered, whatever the cell.
        fits = b.and_(b.or_(stale, joins), b.or_(*self._state(other, thread)))
        go_on = b.append_basic_block("fine")
        b.cbranch(fits, go_on, refused)
        b.position_at_end(go_on)
        new_lanes = b.or_(b.or_(own, b.select(stale, i32(0), others)), self._stored_shift)
        for field, value in (
            (ShadowLine.FIRST_THREAD, thread),
            (ShadowLine.EPOCH, self._now),
            (ShadowLine.LANES, new_lanes),
            (ShadowLine.SITE, self._site),
        ):
            store_field(b, value, changed, field)

    def _state(self, record: Value, thread: Value) -> tuple[Value, Value]:
        """Return whether a record is of an earlier launch, and whether it is of the same threads as the row."""
        b = self._b
        stale = b.icmp_unsigned("<", load_field(b, record, ShadowLine.EPOCH), self._launch_start)
        # An expanded line never matches: its shift is not one that a row has.
        shift = b.lshr(load_field(b, record, ShadowLine.LANES), i32(16))
        first = b.icmp_unsigned("==", load_field(b, record, ShadowLine.FIRST_THREAD), thread)
        return stale, b.and_(first, b.icmp_unsigned("==", shift, self._shift))

    def _one_cell_each(self) -> Value:
        return self._b.icmp_unsigned("==", self._shift, i32(0))

    def _two_records(self, thread: Value, lanes: Value, step: Value) -> Value:
        """Return the records of two lines as one vector; the second one's first thread is ``step`` higher."""
        b = self._b
        record = ir.Constant(_RECORD, ir.Undefined)
        for index, value in enumerate((thread, self._now, lanes, self._site)):
            record = b.insert_element(record, value, i32(index))
        pair = b.shuffle_vector(record, record, ir.Constant(_PAIR, [i % 4 for i in range(8)]))
        second = ir.Constant(_PAIR, [-1 if i == 4 else 0 for i in range(8)])
        return b.add(pair, b.and_(t.splat(b, step, 8), second))


def cell_number(b: ir.IRBuilder, launch: Value, address: Value) -> Value:
    """Return the number of the shadow cell of an address, counted from the arena's start."""
    offset = b.sub(address, load_field(b, launch, LaunchRecord.ARENA))
    return b.ashr(offset, load_field(b, launch, LaunchRecord.RACE_CELL_SHIFT))


def _line(b: ir.IRBuilder, launch: Value, number: Value) -> Value:
    """Return the record of writes to a line."""
    return t.at(b, load_field(b, launch, LaunchRecord.RACE_LINES), b.mul(number, i64(ShadowLine.SIZE)))


@contextmanager
def _each(b: ir.IRBuilder, first: Value, end: Value) -> Iterator[Value]:
    """Build a loop over the numbers from ``first`` (at least once) up to ``end``."""
    before = b.block
    loop = b.append_basic_block("line")
    b.branch(loop)
    b.position_at_end(loop)
    index = b.phi(I64)
    index.add_incoming(first, before)
    yield index
    following = b.add(index, i64(1))
    index.add_incoming(following, b.block)
    done = b.append_basic_block("line.end")
    b.cbranch(b.icmp_signed("<", following, end), loop, done)
    b.position_at_end(done)
