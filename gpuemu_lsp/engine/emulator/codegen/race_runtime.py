"""The race checker as LLVM IR: what happens-before can be told from epochs is decided here, the rest by Python.

Epochs as in FastTrack (Flanagan and Freund, PLDI 2009), with the orders of a GPU in place of locks: a thread's own
program, its warp's ``.sync`` instructions, its block's barriers. Each order is a floor: what a thread of the same warp
(block) did before the floor's epoch is behind us. See :class:`~gpuemu_lsp.engine.emulator.layout.Cell`.
"""

from __future__ import annotations

from dataclasses import dataclass

from llvmlite import ir

from gpuemu_lsp.engine.emulator.codegen import ir_tools as t
from gpuemu_lsp.engine.emulator.codegen.ir_tools import I1, I8, I32, I64, POINTER, VOID, Value, i32, i64
from gpuemu_lsp.engine.emulator.layout import (
    EVENT_SIZE,
    THREADS_MASK,
    Block,
    Cell,
    Kind,
    Launch,
    RaceCall,
    Warp,
)

STORE = 1
STRONG = 2
ACQUIRES = 4
RELEASES = 8
ATOMIC = 16
WATCHED = 32
"""Flags of :func:`add_lane`: what an access is."""

_ROW = 16
"""Cells looked at together."""


@dataclass(frozen=True, slots=True)
class _View:
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

    def plane(self, number: int, index: Value | int = 0) -> Value:
        """Return a pointer into a plane, ``index`` bytes on."""
        b = self.b
        base = b.add(self.cell, b.mul(self.distance, i64(number))) if number else self.cell
        return t.at(b, base, index)

    def unordered(self, who: Value, when: Value, me: Value) -> tuple[Value, Value]:
        """Return whether an access noted in a cell is not known to be behind us, and how far its thread is from us."""
        b = self.b

        def c(value: Value) -> Value:
            return t.splat(b, value, _ROW) if isinstance(who.type, ir.VectorType) else value

        spread = b.and_(when, c(i32(Cell.SPREAD)))
        power = b.add(spread, b.shl(spread, c(i32(2))))  # one bit per level: 0, 1, 32, 1024
        x = b.or_(b.xor(who, me), b.lshr(b.shl(c(i32(1)), power), c(i32(5))))
        far = b.select(b.icmp_unsigned("<", x, c(i32(1024))), c(self.block_floor), c(self.launch_floor))
        floor = b.select(b.icmp_unsigned("<", x, c(i32(32))), c(self.warp_floor), far)
        late = b.icmp_unsigned(">=", when, floor)
        return b.and_(late, b.icmp_unsigned("!=", x, c(i32(0)))), x

    def merged(self, when: Value, x: Value, concurrent: Value, strong: Value) -> Value:
        """Return the epoch to note for an access that may be concurrent with those noted."""
        b = self.b

        def c(value: Value) -> Value:
            return t.splat(b, value, _ROW) if isinstance(when.type, ir.VectorType) else value

        wide = [b.zext(b.icmp_unsigned(">=", x, c(i32(limit))), when.type) for limit in (1, 32, 1024)]
        level = b.add(b.add(wide[0], wide[1]), wide[2])
        clock = b.and_(when, c(i32(-Cell.TICK)))
        later = b.select(b.icmp_unsigned(">", clock, c(self.now)), clock, c(self.now))
        both = b.and_(when, strong)
        return b.select(concurrent, b.or_(b.or_(later, level), both), b.or_(c(self.now), strong))


def _view(b: ir.IRBuilder, ctx: Value, address: Value) -> _View:
    launch, block = t.load(b, ctx, Warp.LAUNCH, POINTER), t.load(b, ctx, Warp.BLOCK, POINTER)
    offset = b.sub(address, t.load(b, launch, Launch.ARENA, I64))
    index = b.shl(b.ashr(offset, t.load(b, launch, Launch.RACE_SHIFT, I64)), i64(2))
    cell = b.add(t.load(b, launch, Launch.RACE_PLANES, I64), index)
    place = b.sub(address, t.load(b, block, Block.SHARED, I64))
    shared = b.icmp_unsigned("<", place, t.load(b, launch, Launch.SHARED_SIZE, I64))
    private = b.icmp_unsigned(">=", address, t.load(b, launch, Launch.RACE_PRIVATE, I64))
    number = t.load(b, ctx, Warp.ME, I32)
    me = b.select(shared, b.and_(number, i32(THREADS_MASK)), number)
    return _View(
        b,
        cell,
        t.load(b, launch, Launch.RACE_DISTANCE, I64),
        me,
        b.and_(private, b.not_(shared)),
        t.load(b, ctx, Warp.NOW, I32),
        t.load(b, ctx, Warp.WARP_FLOOR, I32),
        t.load(b, ctx, Warp.BLOCK_FLOOR, I32),
        t.load(b, launch, Launch.RACE_FLOOR, I32),
    )


def _return_if(b: ir.IRBuilder, condition: Value, result: int | None) -> None:
    with b.if_then(condition):
        if result is None:
            b.ret_void()
        else:
            b.ret(ir.Constant(I1, result))
        b.position_at_end(b.append_basic_block("dead"))


def add_row(module: ir.Module, *, is_store: bool) -> Value:
    """Add ``race_row_load`` or ``race_row_store``: ``(ctx, site, mask, address, first, cells, shift) -> i1``.

    Lanes from ``first`` on access neighbouring places, ``1 << shift`` cells each, ``cells`` in all. Returns whether all
    is in order, and notes the access if so.
    """
    name = "race_row_store" if is_store else "race_row_load"
    function, b = t.new_function(module, name, I1, [POINTER, I32, I32, I64, I32, I32, I32])
    ctx, site, mask, address, first, cells, shift = function.args
    view = _view(b, ctx, address)
    _return_if(b, view.foreign, 1)
    vector = ir.VectorType(I32, _ROW)

    def c(value: Value) -> Value:
        return t.splat(b, value, _ROW)

    before = b.block
    loop, end = b.append_basic_block("chunk"), b.append_basic_block("chunk.end")
    b.branch(loop)
    b.position_at_end(loop)
    start = b.phi(I32)
    start.add_incoming(i32(0), before)
    index = b.add(c(start), t.iota(I32, _ROW))
    lane = b.add(c(first), b.lshr(index, c(shift)))
    bits = b.trunc(b.lshr(c(mask), b.and_(lane, c(i32(31)))), ir.VectorType(I1, _ROW))
    active = b.and_(bits, b.icmp_unsigned("<", index, c(cells)))
    me = b.add(c(view.me), lane)
    byte = b.zext(b.shl(start, i32(2)), I64)

    def fetch(plane: int) -> Value:
        return b.load(view.plane(plane, byte), typ=vector, align=4)

    def note(plane: int, value: Value) -> None:
        call = f"llvm.masked.store.{t.mangled(vector)}.p0"
        t.intrinsic(b, call, VOID, [value, view.plane(plane, byte), i32(4), active])

    bad, _ = view.unordered(fetch(Cell.WRITER), fetch(Cell.WRITTEN), me)
    when = fetch(Cell.READ)
    behind, x = view.unordered(fetch(Cell.READER), when, me)
    if is_store:
        bad = b.or_(bad, behind)
    narrow = ir.IntType(_ROW)
    wrong = b.icmp_unsigned("!=", b.bitcast(b.and_(bad, active), narrow), ir.Constant(narrow, 0))
    _return_if(b, wrong, 0)
    if is_store:
        planes = (Cell.WRITER, me), (Cell.WRITTEN, c(view.now)), (Cell.WRITE_SITE, c(site))
    else:
        noted = view.merged(when, x, behind, c(i32(0)))
        planes = (Cell.READER, me), (Cell.READ, noted), (Cell.READ_SITE, c(site))
    for plane, value in planes:
        note(plane, value)
    following = b.add(start, i32(_ROW))
    start.add_incoming(following, b.block)
    b.cbranch(b.icmp_unsigned("<", following, cells), loop, end)
    b.position_at_end(end)
    b.ret(ir.Constant(I1, 1))
    return function


def add_one(module: ir.Module, *, is_store: bool) -> Value:
    """Add ``race_one_load`` or ``race_one_store``: ``(ctx, site, lanes, address, cells) -> i1``.

    All ``lanes`` access one place; stores only with one value. Otherwise as :func:`add_row`.
    """
    name = "race_one_store" if is_store else "race_one_load"
    function, b = t.new_function(module, name, I1, [POINTER, I32, I32, I64, I32])
    ctx, site, lanes, address, cells = function.args
    view = _view(b, ctx, address)
    _return_if(b, b.or_(view.foreign, b.icmp_unsigned("==", lanes, i32(0))), 1)
    lane = t.intrinsic(b, "llvm.cttz.i32", I32, [lanes, ir.Constant(I1, 1)])
    me = b.add(view.me, lane)
    several = b.zext(b.icmp_unsigned("!=", b.and_(lanes, b.sub(lanes, i32(1))), i32(0)), I32)
    with _cells(b, b.zext(cells, I64)) as index:
        _one_cell(b, view, site, me, index, several, is_store=is_store)
    b.ret(ir.Constant(I1, 1))
    return function


def _one_cell(
    b: ir.IRBuilder, view: _View, site: Value, me: Value, index: Value, several: Value | None, *, is_store: bool
) -> None:
    """Check and note one cell of an access; ``several`` is 1 where other lanes of the warp make the same access."""

    def fetch(plane: int) -> Value:
        return b.load(view.plane(plane, index), typ=I32)

    # An access by several lanes is only behind all of them if it is behind the warp.
    def among(when: Value) -> Value:
        if several is None:
            return when
        alone = b.icmp_unsigned("==", b.and_(when, i32(Cell.SPREAD)), i32(0))
        return b.or_(when, b.and_(several, b.zext(alone, I32)))

    bad, _ = view.unordered(fetch(Cell.WRITER), among(fetch(Cell.WRITTEN)), me)
    when = among(fetch(Cell.READ))
    behind, x = view.unordered(fetch(Cell.READER), when, me)
    if is_store:
        bad = b.or_(bad, behind)
    _return_if(b, bad, 0)
    if is_store:
        planes = (Cell.WRITER, me), (Cell.WRITTEN, view.now), (Cell.WRITE_SITE, site)
    else:
        noted = view.merged(when, x, behind, i32(0))
        if several is not None:
            alone = b.icmp_unsigned("==", b.and_(noted, i32(Cell.SPREAD)), i32(0))
            noted = b.or_(noted, b.and_(several, b.zext(alone, I32)))
        planes = (Cell.READER, me), (Cell.READ, noted), (Cell.READ_SITE, site)
    for plane, value in planes:
        b.store(value, view.plane(plane, index))


def add_lanes(module: ir.Module, *, is_store: bool) -> Value:
    """Add ``race_lanes_load`` or ``race_lanes_store``: ``(ctx, site, mask, cells) -> i1``.

    Each lane has an address of its own, in the context's scratch space. Otherwise as :func:`add_row`.
    """
    name = "race_lanes_store" if is_store else "race_lanes_load"
    function, b = t.new_function(module, name, I1, [POINTER, I32, I32, I32])
    ctx, site, mask, cells = function.args
    count = b.zext(cells, I64)
    with t.for_lanes(b, mask) as lane:
        place = b.add(i64(Warp.ADDRESS), b.shl(b.zext(lane, I64), i64(3)))
        view = _view(b, ctx, t.load(b, ctx, place, I64))
        with b.if_then(b.not_(view.foreign)):
            me = b.add(view.me, lane)
            with _cells(b, count) as index:
                _one_cell(b, view, site, me, index, None, is_store=is_store)
    b.ret(ir.Constant(I1, 1))
    return function


class _cells:  # noqa: N801 - used as a context manager function
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


def add_lane(module: ir.Module) -> Value:
    """Add ``race_lane(ctx, site, lane, address, size, flags, value)``: check, report and note one lane's access.

    ``value`` is where a plain store's new bytes lie in the context: writing what is there already is no race.
    """
    conflict = _add_conflict(module)
    function, b = t.new_function(module, "race_lane", VOID, [POINTER, I32, I32, I64, I32, I32, I64])
    ctx, site, lane, address, size, flags, value = function.args
    view = _view(b, ctx, address)
    _return_if(b, view.foreign, None)
    me = b.add(view.me, lane)

    def flagged(bit: int) -> Value:
        return b.icmp_unsigned("!=", b.and_(flags, i32(bit)), i32(0))

    is_store = flagged(STORE)
    strong = b.select(flagged(STRONG), i32(Cell.STRONG), i32(0))
    with b.if_then(flagged(ACQUIRES)):
        _acquire(b, view, ctx, lane, address)
    launch = t.load(b, ctx, Warp.LAUNCH, POINTER)
    cells = b.lshr(b.zext(size, I64), t.load(b, launch, Launch.RACE_SHIFT, I64))
    with _cells(b, cells) as index:

        def fetch(plane: int) -> Value:
            return b.load(view.plane(plane, index), typ=I32)

        def check(planes: tuple[int, int, int], wrote: int) -> tuple[Value, Value, Value]:
            who, when = fetch(planes[0]), fetch(planes[1])
            late, x = view.unordered(who, when, me)
            weak = b.icmp_unsigned("==", b.and_(when, strong), i32(0))
            with b.if_then(b.and_(late, weak)):
                other = [fetch(planes[2]), who, when, i32(wrote)]
                b.call(conflict, [ctx, site, lane, address, size, flags, value, *other])
            return when, x, late

        def still_plain(when: Value, x: Value) -> tuple[Value, Value]:
            """Return whether a plain access of our own must not be forgotten for this one, and how strong both are."""
            own = b.and_(b.icmp_unsigned("==", x, i32(0)), b.icmp_unsigned(">=", when, view.block_floor))
            plain = b.icmp_unsigned("==", b.and_(when, i32(Cell.STRONG)), i32(0))
            keep = b.and_(b.and_(own, plain), b.icmp_unsigned("!=", strong, i32(0)))
            return keep, b.select(keep, i32(0), strong)

        written, x, late = check((Cell.WRITER, Cell.WRITTEN, Cell.WRITE_SITE), 1)
        with b.if_else(is_store) as (then, otherwise):
            with then:
                check((Cell.READER, Cell.READ, Cell.READ_SITE), 0)
                both = b.icmp_unsigned("!=", b.and_(written, strong), i32(0))
                own, kept = still_plain(written, x)
                noted = view.merged(written, x, b.and_(late, both), kept)
                where = b.select(own, fetch(Cell.WRITE_SITE), site)
                for plane, what in ((Cell.WRITER, me), (Cell.WRITTEN, noted), (Cell.WRITE_SITE, where)):
                    b.store(what, view.plane(plane, index))
            with otherwise:
                when = fetch(Cell.READ)
                late, x = view.unordered(fetch(Cell.READER), when, me)
                own, kept = still_plain(when, x)
                noted = view.merged(when, x, late, kept)
                where = b.select(own, fetch(Cell.READ_SITE), site)
                for plane, what in ((Cell.READER, me), (Cell.READ, noted), (Cell.READ_SITE, where)):
                    b.store(what, view.plane(plane, index))
    # Nothing is released by a thread that had no fence.
    fenced = t.load(b, ctx, b.add(i64(Warp.FENCED), b.shl(b.zext(lane, I64), i64(2))), I32)
    useful = b.icmp_unsigned(">", fenced, t.load(b, ctx, Warp.BEGAN, I32))
    with b.if_then(b.and_(flagged(RELEASES), useful)):
        _call_python(b, ctx, RaceCall.RELEASE, lane, address, i32(0), i32(0))
    b.ret_void()
    return function


def _acquire(b: ir.IRBuilder, view: _View, ctx: Value, lane: Value, address: Value) -> None:
    """Learn what was released through this place, if anything was."""
    released = b.load(view.plane(Cell.RELEASED), typ=I32)
    place = b.add(i64(Warp.LEARNT), b.shl(b.zext(lane, I64), i64(2)))
    news = b.icmp_unsigned("!=", released, t.load(b, ctx, place, I32))
    with b.if_then(b.and_(news, b.icmp_unsigned("!=", released, i32(0)))):
        t.store(b, released, ctx, place)
        _call_python(b, ctx, RaceCall.ACQUIRE, lane, address, released, i32(0))


def _call_python(b: ir.IRBuilder, ctx: Value, what: int, lane: Value, address: Value, who: Value, when: Value) -> Value:
    pointer = t.load(b, t.load(b, ctx, Warp.LAUNCH, POINTER), Launch.RACE_CALL, POINTER)
    return t.call_pointer(b, I32, pointer, [ctx, i32(what), lane, address, who, when])


def _add_conflict(module: ir.Module) -> Value:
    """Add ``race_conflict``: report two accesses that no floor orders, unless something else does."""
    parameters = [POINTER, I32, I32, I64, I32, I32, I64, I32, I32, I32, I32]
    function, b = t.new_function(module, "race_conflict", VOID, parameters)
    ctx, _, lane, address, size, flags, value, other_site, who, when, wrote = function.args
    launch = t.load(b, ctx, Warp.LAUNCH, POINTER)
    number = t.load(b, ctx, Warp.ME, I32)
    block = t.load(b, ctx, Warp.BLOCK, POINTER)
    place = b.sub(address, t.load(b, block, Block.SHARED, I64))
    shared = b.icmp_unsigned("<", place, t.load(b, launch, Launch.SHARED_SIZE, I64))
    full = b.select(shared, b.or_(who, b.and_(number, i32(~THREADS_MASK))), who)
    # Lanes of one warp may have met with a partial mask.
    near = b.icmp_unsigned("<", b.xor(full, number), i32(32))
    alone = b.icmp_unsigned("==", b.and_(when, i32(Cell.SPREAD)), i32(0))
    with b.if_then(b.and_(near, alone)):
        index = b.or_(b.shl(lane, i32(5)), b.and_(full, i32(31)))
        known = t.load(b, ctx, b.add(i64(Warp.KNOWN), b.shl(b.zext(index, I64), i64(2))), I32)
        _return_if(b, b.icmp_unsigned("<", when, known), None)
    plain = b.icmp_unsigned("==", b.and_(flags, i32(STORE | ATOMIC)), i32(STORE))
    with b.if_then(plain):
        _return_if(b, _same(b, t.at(b, address, 0), t.at(b, ctx, value), b.zext(size, I64)), None)
    python = t.load(b, launch, Launch.RACE_CALL, I64)
    with b.if_then(b.icmp_unsigned("!=", python, i64(0))):
        answer = _call_python(b, ctx, RaceCall.ORDERED, lane, address, full, when)
        _return_if(b, b.icmp_unsigned("!=", answer, i32(0)), None)
    _note_event(b, launch, ctx, function.args[1:6], (other_site, full, when, wrote))
    b.ret_void()
    return function


def _note_event(
    b: ir.IRBuilder, launch: Value, ctx: Value, access: tuple[Value, ...], other: tuple[Value, ...]
) -> None:
    """Count a race; keep the first of each site."""
    site, lane, address, size, flags = access
    index = b.add(b.mul(b.zext(site, I64), i64(Kind.COUNT)), i64(Kind.RACE))
    counter = b.gep(t.load(b, launch, Launch.COUNTS, POINTER), [index], source_etype=I64)
    seen = b.load(counter, typ=I64)
    b.store(b.add(seen, i64(1)), counter)
    number = t.load(b, launch, Launch.EVENT_COUNT, I64)
    room = b.icmp_unsigned("<", number, t.load(b, launch, Launch.EVENT_LIMIT, I64))
    with b.if_then(b.and_(b.icmp_unsigned("==", seen, i64(0)), room)):
        t.store(b, b.add(number, i64(1)), launch, Launch.EVENT_COUNT)
        record = t.at(b, t.load(b, launch, Launch.EVENTS, POINTER), b.mul(number, i64(EVENT_SIZE)))
        block = t.load(b, ctx, Warp.BLOCK, POINTER)
        fields = (
            (0, site),
            (4, i32(Kind.RACE)),
            (8, lane),
            (12, size),
            (16, address),
            (24, t.load(b, block, Block.LINEAR, I64)),
            (32, t.load(b, ctx, Warp.WARP_ID, I32)),
            (36, flags),
        )
        for offset, what in (*fields, *zip((40, 44, 48, 52), other, strict=True)):
            t.store(b, what, record, offset)


def _same(b: ir.IRBuilder, one: Value, other: Value, size: Value) -> Value:
    """Return whether two stretches of bytes are equal."""
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


def add_meet(module: ir.Module) -> Value:
    """Add ``race_meet(ctx, active, alive)``: lanes meet whose masks, in the scratch space, name each other.

    When all living lanes meet the warp's floor rises; else only what the members know of each other.
    """
    function, b = t.new_function(module, "race_meet", VOID, [POINTER, I32, I32])
    ctx, active, alive = function.args
    vector = ir.VectorType(I32, 32)
    zero = ir.Constant(vector, None)
    slot, known = b.alloca(I32), b.alloca(vector)
    b.store(active, slot)
    with t.for_lanes(b, active) as lane:
        place = b.add(i64(Warp.VALUE), b.shl(b.zext(lane, I64), i64(2)))
        own = b.shl(i32(1), lane)
        members = b.or_(b.and_(t.load(b, ctx, place, I32), active), own)
        fresh = b.icmp_unsigned("!=", b.and_(b.load(slot), own), i32(0))
        with b.if_then(fresh):
            b.store(b.and_(b.load(slot), b.not_(members)), slot)
            now = b.add(t.load(b, ctx, Warp.NOW, I32), i32(Cell.TICK))
            t.store(b, now, ctx, Warp.NOW)
            with b.if_else(b.icmp_unsigned("==", members, alive)) as (everybody, some):
                with everybody:
                    t.store(b, now, ctx, Warp.WARP_FLOOR)
                with some:
                    b.store(zero, known)

                    def row(one: Value) -> Value:
                        return b.add(i64(Warp.KNOWN), b.shl(b.zext(one, I64), i64(7)))

                    with t.for_lanes(b, members) as one:
                        more = t.load(b, ctx, row(one), vector, align=4)
                        b.store(t.intrinsic(b, "llvm.umax.v32i32", vector, [b.load(known), more]), known)
                    bits = b.trunc(b.lshr(t.splat(b, members, 32), t.iota(I32, 32)), ir.VectorType(I1, 32))
                    b.store(b.select(bits, t.splat(b, now, 32), b.load(known)), known)
                    with t.for_lanes(b, members) as one:
                        t.store(b, b.load(known), ctx, row(one), align=4)
    b.ret_void()
    return function


def add_synchronise(module: ir.Module) -> None:
    """Add ``race_synchronise(ctx, lanes, what)``: acquire or release through the addresses in the scratch space."""
    function, b = t.new_function(module, "race_synchronise", VOID, [POINTER, I32, I32])
    ctx, lanes, what = function.args
    with t.for_lanes(b, lanes) as lane:
        place = b.add(i64(Warp.ADDRESS), b.shl(b.zext(lane, I64), i64(3)))
        address = t.load(b, ctx, place, I64)
        with b.if_else(b.icmp_unsigned("==", what, i32(RaceCall.ACQUIRE))) as (acquire, release):
            with acquire:
                _acquire(b, _view(b, ctx, address), ctx, lane, address)
            with release:
                _call_python(b, ctx, RaceCall.RELEASE, lane, address, i32(0), i32(0))
    b.ret_void()


def add_races(module: ir.Module) -> Value:
    """Add all of the above; return ``race_lane``."""
    for is_store in (False, True):
        add_row(module, is_store=is_store)
        add_one(module, is_store=is_store)
        add_lanes(module, is_store=is_store)
    add_meet(module)
    add_synchronise(module)
    return add_lane(module)


NAMES = (
    "race_row_load", "race_row_store", "race_one_load", "race_one_store", "race_lanes_load", "race_lanes_store",
    "race_meet", "race_lane", "race_synchronise",
)  # fmt: skip
