"""The race checker's short way for global memory: what a run of threads did to a line of cells, in one record.

Neighbouring threads mostly access neighbouring cells, and the same threads come back to them. A record says just that;
see :class:`~gpuemu_lsp.engine.emulator.abi.structs.Line`. What does not fit is settled: the record's threads are
written into the cells of the line, which is looked at cell by cell for the rest of the launch.
"""

from __future__ import annotations

from llvmlite import ir

from gpuemu_lsp.engine.emulator.abi.field_access import load_field, load_pointer, store_field
from gpuemu_lsp.engine.emulator.abi.race_records import ShadowLine, ShadowPlane
from gpuemu_lsp.engine.emulator.abi.structs import LaunchRecord, Warp
from gpuemu_lsp.engine.emulator.devicelib.race_epochs import first_place
from gpuemu_lsp.engine.emulator.llvm import ir_tools as t
from gpuemu_lsp.engine.emulator.llvm.ir_tools import I1, I32, I64, POINTER, VOID, Value, i32, i64

_LOW = 0xFFFF
_RECORD = ir.VectorType(I32, 4)
_PAIR = ir.VectorType(I32, 8)
"""The records of two lines."""


def add_settle(module: ir.Module) -> Value:
    """Add ``race_settle(ctx, address, cells)``: from now on look at the lines of these cells cell by cell."""
    function, b = t.new_function(module, "race_expand_lines", VOID, [POINTER, I64, I32])
    ctx, address, cells = function.args
    launch = load_pointer(b, ctx, Warp.LAUNCH)
    floor = load_field(b, launch, LaunchRecord.RACE_LAUNCH_EPOCH)
    cell = cell_number(b, launch, address)
    last = b.ashr(b.add(cell, b.sub(b.zext(cells, I64), i64(1))), i64(ShadowLine.SHIFT))
    with _each(b, b.ashr(cell, i64(ShadowLine.SHIFT)), b.add(last, i64(1))) as number:
        line = _line(b, launch, number)
        settled = b.and_(
            b.icmp_unsigned("==", load_field(b, line, ShadowLine.LANES), i32(ShadowLine.EXPANDED)),
            b.icmp_unsigned(">=", load_field(b, line, ShadowLine.EPOCH), floor),
        )
        with b.if_then(b.not_(settled)):
            base = b.add(load_field(b, launch, LaunchRecord.RACE_PLANES), b.shl(number, i64(2 + ShadowLine.SHIFT)))
            for record, planes in (
                (line, (ShadowPlane.WRITER, ShadowPlane.WRITE_EPOCH, ShadowPlane.WRITE_SITE)),
                (
                    t.at(b, line, load_field(b, launch, LaunchRecord.RACE_PLANE_STRIDE)),
                    (ShadowPlane.READER, ShadowPlane.READ_EPOCH, ShadowPlane.READ_SITE),
                ),
            ):
                _spread(b, launch, record, base, planes, floor)
                store_field(b, i32(ShadowLine.EXPANDED), record, ShadowLine.LANES)
                store_field(b, load_field(b, ctx, Warp.EPOCH), record, ShadowLine.EPOCH)
    b.ret_void()
    return function


def _spread(
    b: ir.IRBuilder, launch: Value, record: Value, base: Value, planes: tuple[int, int, int], floor: Value
) -> None:
    """Write a record of this launch into its cells."""
    when, lanes = load_field(b, record, ShadowLine.EPOCH), load_field(b, record, ShadowLine.LANES)
    with b.if_then(b.icmp_unsigned(">=", when, floor)):
        vector = ir.VectorType(I32, ShadowLine.CELLS)

        def c(value: Value) -> Value:
            return t.splat(b, value, ShadowLine.CELLS)

        step = b.lshr(t.iota(I32, ShadowLine.CELLS), c(b.lshr(lanes, i32(16))))
        who = b.add(c(load_field(b, record, ShadowLine.FIRST_THREAD)), step)
        active = b.bitcast(b.trunc(lanes, ir.IntType(16)), ir.VectorType(I1, ShadowLine.CELLS))
        distance = load_field(b, launch, LaunchRecord.RACE_PLANE_STRIDE)
        for plane, value in zip(planes, (who, c(when), c(load_field(b, record, ShadowLine.SITE))), strict=True):
            place = b.inttoptr(b.add(base, b.mul(distance, i64(plane))), POINTER)
            t.intrinsic(b, f"llvm.masked.store.{t.mangled(vector)}.p0", VOID, [value, place, i32(4), active])


def settle_cell(b: ir.IRBuilder, settle: Value, ctx: Value, address: Value, cells: Value) -> None:
    """Make sure that the cells of an access, none of a row, are looked at by themselves."""
    launch = load_pointer(b, ctx, Warp.LAUNCH)
    with b.if_then(b.icmp_unsigned("<", address, load_field(b, launch, LaunchRecord.RACE_PRIVATE_START))):
        cell = cell_number(b, launch, address)
        line = _line(b, launch, b.ashr(cell, i64(ShadowLine.SHIFT)))
        fits = b.icmp_unsigned(
            "<=", b.add(b.and_(cell, i64(ShadowLine.CELLS - 1)), b.zext(cells, I64)), i64(ShadowLine.CELLS)
        )
        settled = b.icmp_unsigned("==", load_field(b, line, ShadowLine.LANES), i32(ShadowLine.EXPANDED))
        recent = b.icmp_unsigned(
            ">=", load_field(b, line, ShadowLine.EPOCH), load_field(b, launch, LaunchRecord.RACE_LAUNCH_EPOCH)
        )
        with b.if_then(b.not_(b.and_(fits, b.and_(settled, recent)))):
            b.call(settle, [ctx, address, cells])


def add_row_of_lines(module: ir.Module, by_cell: Value, settle: Value, *, is_store: bool) -> Value:
    """Add ``race_row_load`` or ``race_row_store``, as in :func:`.race_together.add_row`, which ``by_cell`` is from."""
    name = "race_row_store" if is_store else "race_row_load"
    function, b = t.new_function(module, name, I1, [POINTER, I32, I32, I64, I32, I32, I32])
    ctx, site, mask, address, first, cells, shift = function.args
    launch = load_pointer(b, ctx, Warp.LAUNCH)
    inside = first_place(b, launch, mask, address, first, shift)
    private = b.icmp_unsigned(">=", inside, load_field(b, launch, LaunchRecord.RACE_PRIVATE_START))
    with b.if_then(private):
        b.ret(b.call(by_cell, function.args))
        b.position_at_end(b.append_basic_block("dead"))
    cell = cell_number(b, launch, address)
    row = ShadowLineRun(
        b,
        (load_field(b, launch, LaunchRecord.RACE_LINES), load_field(b, launch, LaunchRecord.RACE_PLANE_STRIDE)),
        site,
        b.add(load_field(b, ctx, Warp.FIRST_THREAD), first),
        shift,
        load_field(b, ctx, Warp.EPOCH),
        load_field(b, launch, LaunchRecord.RACE_LAUNCH_EPOCH),
        is_store=is_store,
    )
    offset = b.trunc(b.and_(cell, i64(ShadowLine.CELLS - 1)), I32)
    number = b.ashr(cell, i64(ShadowLine.SHIFT))
    count = b.lshr(cells, shift)
    every = b.lshr(i32(-1), b.sub(i32(32), count))
    lanes = b.and_(b.lshr(mask, first), every)
    whole = b.and_(b.icmp_unsigned("==", lanes, every), b.icmp_unsigned("==", offset, i32(0)))
    pairs, single, closer = (b.append_basic_block(n) for n in ("pairs", "single", "closer"))
    even = b.icmp_unsigned("==", b.and_(cells, i32(2 * ShadowLine.CELLS - 1)), i32(0))
    b.cbranch(b.and_(whole, even), pairs, single)

    b.position_at_end(pairs)
    with _each(b, i64(0), b.zext(b.lshr(cells, i32(ShadowLine.SHIFT + 1)), I64)) as index:
        fine, new = row.pair(b.add(number, b.shl(index, i64(1))), b.shl(b.trunc(index, I32), i32(ShadowLine.SHIFT + 1)))
        go_on = b.append_basic_block("fine")
        b.cbranch(fine, go_on, single)
        b.position_at_end(go_on)
        row.note_pair(new)
    b.ret(ir.Constant(I1, 1))

    b.position_at_end(single)
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
            row.single(b.add(number, index), b.sub(b.trunc(start, I32), offset), own, closer)
    b.ret(ir.Constant(I1, 1))

    b.position_at_end(closer)
    b.call(settle, [ctx, address, cells])
    b.ret(b.call(by_cell, function.args))
    return function


class ShadowLineRun:
    """Checks and notes an access of neighbouring threads, line after line.

    ``first`` is the thread of its first cell, ``lines`` where the records of writes lie, and how far on those of reads.
    """

    def __init__(
        self,
        b: ir.IRBuilder,
        lines: tuple[Value, Value],
        site: Value,
        first: Value,
        shift: Value,
        now: Value,
        floor: Value,
        *,
        is_store: bool,
    ) -> None:
        self.b, self.lines, self.site, self.first, self.shift, self.now, self.floor = (
            b, lines, site, first, shift, now, floor,
        )  # fmt: skip
        self.high = b.shl(shift, i32(16))
        self.is_store = is_store

    def _records(self, number: Value) -> tuple[Value, Value]:
        """Return the record of a line that the access changes, and the other one."""
        b = self.b
        written = b.add(self.lines[0], b.mul(number, i64(ShadowLine.SIZE)))
        read = b.add(written, self.lines[1])
        kept, other = (written, read) if self.is_store else (read, written)
        return t.at(b, kept, 0), t.at(b, other, 0)

    def pair(self, number: Value, cell: Value) -> tuple[Value, tuple[Value, Value]]:
        """Return whether two whole lines were last accessed as now, or never, and what to note of them where.

        ``cell`` cells of the row are before them.
        """
        b = self.b
        who = b.add(self.first, b.lshr(cell, self.shift))
        new = self._noted(who, b.or_(self.high, i32(_LOW)), b.lshr(i32(ShadowLine.CELLS), self.shift))
        kept, other = self._records(number)
        bits, fine = ir.IntType(8), None
        for place in (kept, other):
            known = t.load(b, place, 0, _PAIR, align=4)
            old = b.bitcast(b.icmp_unsigned("<", known, t.splat(b, self.floor, 8)), bits)
            same = b.bitcast(b.icmp_unsigned("==", known, new), bits)
            one = b.or_(b.lshr(old, ir.Constant(bits, 1)), b.and_(same, b.lshr(same, ir.Constant(bits, 2))))
            fine = one if fine is None else b.and_(fine, one)
        every = ir.Constant(bits, 0x11)
        return b.icmp_unsigned("==", b.and_(fine, every), every), (new, kept)

    def note_pair(self, new: tuple[Value, Value]) -> None:
        """Note what :meth:`pair` returned."""
        t.store(self.b, *new, 0, align=4)

    def single(self, number: Value, cell: Value, own: Value, refused: ir.Block) -> None:
        """Go on if a line, of which the row has the cells ``own``, was last accessed by the same threads, or never."""
        b = self.b
        kept, other = self._records(number)
        who = b.add(self.first, b.select(self._narrow(), cell, b.lshr(cell, self.shift)))
        lanes = load_field(b, kept, ShadowLine.LANES)
        when = load_field(b, kept, ShadowLine.EPOCH)
        stale, same = self._state(kept, who)
        others = b.and_(b.and_(lanes, i32(_LOW)), b.not_(own))
        # Cells that others of these threads accessed may only share a record that is true of them, too.
        alike = b.and_(
            b.icmp_unsigned("==", when, self.now),
            b.icmp_unsigned("==", load_field(b, kept, ShadowLine.SITE), self.site),
        )
        joins = b.and_(same, b.or_(alike, b.icmp_unsigned("==", others, i32(0))))
        fine = b.and_(b.or_(stale, joins), b.or_(*self._state(other, who)))
        go_on = b.append_basic_block("fine")
        b.cbranch(fine, go_on, refused)
        b.position_at_end(go_on)
        noted = b.or_(b.or_(own, b.select(stale, i32(0), others)), self.high)
        for field, value in (
            (ShadowLine.FIRST_THREAD, who),
            (ShadowLine.EPOCH, self.now),
            (ShadowLine.LANES, noted),
            (ShadowLine.SITE, self.site),
        ):
            store_field(b, value, kept, field)

    def _state(self, record: Value, who: Value) -> tuple[Value, Value]:
        """Return whether a record is of an earlier launch, and whether it is of the same threads as the row."""
        b = self.b
        stale = b.icmp_unsigned("<", load_field(b, record, ShadowLine.EPOCH), self.floor)
        shift = b.lshr(load_field(b, record, ShadowLine.LANES), i32(16))
        first = b.icmp_unsigned("==", load_field(b, record, ShadowLine.FIRST_THREAD), who)
        return stale, b.and_(first, b.icmp_unsigned("==", shift, self.shift))

    def _narrow(self) -> Value:
        return self.b.icmp_unsigned("==", self.shift, i32(0))

    def _noted(self, who: Value, lanes: Value, step: Value) -> Value:
        """Return the records of two lines; the second one's first thread is ``step`` on."""
        b = self.b
        record = ir.Constant(_RECORD, ir.Undefined)
        for index, value in enumerate((who, self.now, lanes, self.site)):
            record = b.insert_element(record, value, i32(index))
        pair = b.shuffle_vector(record, record, ir.Constant(_PAIR, [i % 4 for i in range(8)]))
        second = ir.Constant(_PAIR, [-1 if i == 4 else 0 for i in range(8)])
        return b.add(pair, b.and_(t.splat(b, step, 8), second))


def cell_number(b: ir.IRBuilder, launch: Value, address: Value) -> Value:
    """Return the number of the cell of an address."""
    offset = b.sub(address, load_field(b, launch, LaunchRecord.ARENA))
    return b.ashr(offset, load_field(b, launch, LaunchRecord.RACE_CELL_SHIFT))


def _line(b: ir.IRBuilder, launch: Value, number: Value) -> Value:
    """Return the records of a line."""
    return t.at(b, load_field(b, launch, LaunchRecord.RACE_LINES), b.mul(number, i64(ShadowLine.SIZE)))


class _each:  # noqa: N801 - used as a context manager function
    """Build a loop over the numbers from ``first`` (at least once) up to ``end``."""

    def __init__(self, builder: ir.IRBuilder, first: Value, end: Value) -> None:
        self._b, self._first, self._end = builder, first, end

    def __enter__(self) -> Value:
        b = self._b
        before = b.block
        self._loop = b.append_basic_block("line")
        b.branch(self._loop)
        b.position_at_end(self._loop)
        self._index = b.phi(I64)
        self._index.add_incoming(self._first, before)
        return self._index

    def __exit__(self, *unused: object) -> None:
        b = self._b
        following = b.add(self._index, i64(1))
        self._index.add_incoming(following, b.block)
        end = b.append_basic_block("line.end")
        b.cbranch(b.icmp_signed("<", following, self._end), self._loop, end)
        b.position_at_end(end)
