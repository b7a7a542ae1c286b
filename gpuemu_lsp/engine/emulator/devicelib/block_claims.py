"""Claims: cells of memory that the blocks of one host thread have for themselves.

A *line* of 32 cells has one word of 64 bits: the owner in the upper half, and a bit for each cell that it has claimed
in the lower one. A full warp's row is one line, so that one comparison shows that all of it is claimed already. An
owner is a number of a host thread in one launch; lower ones than the launch's first are those of earlier launches, and
own nothing. A line in which a second thread claims other cells is *split*: each of its cells then has a word of its
own, with the owner.

A word is changed by compare-and-exchange only, once for each line and thread in most kernels. The essay is in
:mod:`~gpuemu_lsp.engine.emulator.launch.threads`.
"""

from __future__ import annotations

from typing import Final

from llvmlite import ir

from gpuemu_lsp.engine.emulator.abi.field_access import load_element, load_field, load_lanes, load_pointer, store_field
from gpuemu_lsp.engine.emulator.abi.structs import LaunchRecord, Warp
from gpuemu_lsp.engine.emulator.ir.lattice import WARP_SIZE
from gpuemu_lsp.engine.emulator.llvm import ir_tools as t
from gpuemu_lsp.engine.emulator.llvm.ir_tools import I1, I32, I64, POINTER, VOID, Value, i32, i64

NAMES: Final = ("claim_row", "claim_lanes")

LINE_CELLS: Final = 32
OWNERS_OF_LAUNCH: Final = 1 << 10
"""Numbers of a launch, from ``CLAIM_FIRST`` on: host threads, and the two below."""
SPLIT: Final = OWNERS_OF_LAUNCH - 1
LOCKED: Final = OWNERS_OF_LAUNCH - 2
"""In place of an owner, less the launch's first: a line that is split, and one that is being split."""


def add_block_claims(module: ir.Module) -> None:
    """Add the functions of :data:`NAMES`, which generated code calls before an access."""
    line = _add_claim_line(module)
    cells = _add_claim_bytes(module, line)
    row = _add_claim_row(module, cells)
    _add_claim_lanes(module, row, cells)


def _add_claim_line(module: ir.Module) -> Value:
    """Add ``claim_line(launch, number, mask)``: claim the cells of a mask, not 0, in a line."""
    function, b = t.new_function(module, "claim_line", VOID, [POINTER, I64, I32])
    launch, number, mask = function.args
    word = t.at(b, load_field(b, launch, LaunchRecord.CLAIM_LINES), b.shl(number, i64(3)))
    me, first = load_field(b, launch, LaunchRecord.CLAIM_OWNER), load_field(b, launch, LaunchRecord.CLAIM_FIRST)
    own_word = b.shl(b.zext(me, I64), i64(32))
    again, own, other, split, locked = (b.append_basic_block(n) for n in ("again", "own", "other", "split", "locked"))
    claimed, held = b.append_basic_block("claimed"), b.append_basic_block("held")
    b.branch(again)

    b.position_at_end(again)
    now = b.load_atomic(word, "acquire", 8, typ=I64)
    owner, has = b.trunc(b.lshr(now, i64(32)), I32), b.trunc(now, I32)
    is_own = b.icmp_unsigned("==", owner, me)
    stale = b.icmp_unsigned("<", owner, first)
    b.cbranch(b.or_(is_own, stale), own, other)

    b.position_at_end(own)
    cells = b.or_(mask, b.select(stale, i32(0), has))
    wanted = b.or_(own_word, b.zext(cells, I64))
    done = b.append_basic_block("done")
    exchange = b.append_basic_block("exchange")
    b.cbranch(b.icmp_unsigned("==", wanted, now), done, exchange)
    b.position_at_end(exchange)
    b.cbranch(_exchange(b, word, now, wanted), done, again)
    b.position_at_end(done)
    b.ret_void()

    b.position_at_end(other)
    kind = b.sub(owner, first)
    switch = b.switch(kind, held)
    switch.add_case(i32(SPLIT), split)
    switch.add_case(i32(LOCKED), again)

    # Another thread's line: two may share it as long as they claim different cells.
    b.position_at_end(held)
    shares = b.append_basic_block("shares")
    conflict = b.append_basic_block("conflict")
    b.cbranch(b.icmp_unsigned("==", b.and_(has, mask), i32(0)), shares, conflict)
    b.position_at_end(shares)
    lock = b.shl(b.zext(b.add(first, i32(LOCKED)), I64), i64(32))
    b.cbranch(_exchange(b, word, now, lock), locked, again)
    b.position_at_end(locked)
    table = t.at(
        b, load_field(b, launch, LaunchRecord.CLAIM_CELLS), b.shl(number, i64(2 + LINE_CELLS.bit_length() - 1))
    )
    with t.for_lanes(b, has) as cell:
        t.store(b, owner, table, b.zext(b.shl(cell, i32(2)), I64))
    b.atomic_rmw("xchg", word, b.shl(b.zext(b.add(first, i32(SPLIT)), I64), i64(32)), "release")
    b.branch(split)

    b.position_at_end(split)
    table = t.at(
        b, load_field(b, launch, LaunchRecord.CLAIM_CELLS), b.shl(number, i64(2 + LINE_CELLS.bit_length() - 1))
    )
    with t.for_lanes(b, mask) as cell:
        place = t.at(b, table, b.zext(b.shl(cell, i32(2)), I64))
        cell_owner = b.load_atomic(place, "monotonic", 4, typ=I32)
        free = b.icmp_unsigned("<", cell_owner, first)
        with b.if_then(b.icmp_unsigned("!=", cell_owner, me)):
            take, taken = b.append_basic_block("take"), b.append_basic_block("taken")
            b.cbranch(free, take, conflict)
            b.position_at_end(take)
            b.cbranch(_exchange(b, place, cell_owner, me), taken, conflict)
            b.position_at_end(taken)
    b.branch(claimed)
    b.position_at_end(claimed)
    b.ret_void()

    b.position_at_end(conflict)
    store_field(b, i32(1), launch, LaunchRecord.CLAIM_CONFLICT)
    # Whatever follows is dropped: the block scheduler returns soon, and begins no further block.
    store_field(b, i64(0), launch, LaunchRecord.BLOCK_END)
    store_field(b, i32(0), launch, LaunchRecord.YIELDS_LEFT)
    store_field(b, i32(0), launch, LaunchRecord.BARRIERS_LEFT)
    b.ret_void()
    return function


def _exchange(b: ir.IRBuilder, place: Value, old: Value, new: Value) -> Value:
    """Return whether a word had a value, which is replaced then."""
    return b.extract_value(b.cmpxchg(place, old, new, "acq_rel", "acquire"), 1)


def _add_claim_bytes(module: ir.Module, line: Value) -> Value:
    """Add ``claim_bytes(launch, address, size)``; ``size`` is not 0. Memory outside of the arena is ignored."""
    function, b = t.new_function(module, "claim_bytes", VOID, [POINTER, I64, I64])
    launch, address, size = function.args
    offset = b.sub(address, load_field(b, launch, LaunchRecord.ARENA))
    with b.if_then(b.icmp_unsigned(">=", offset, load_field(b, launch, LaunchRecord.ARENA_SIZE))):
        b.ret_void()
        b.position_at_end(b.append_basic_block("dead"))
    shift = load_field(b, launch, LaunchRecord.CLAIM_SHIFT)
    first, last = b.lshr(offset, shift), b.lshr(b.add(offset, b.sub(size, i64(1))), shift)
    bits = i64(LINE_CELLS.bit_length() - 1)
    begin, end = b.lshr(first, bits), b.lshr(last, bits)
    before = b.block
    loop, over = b.append_basic_block("line"), b.append_basic_block("over")
    b.branch(loop)
    b.position_at_end(loop)
    number = b.phi(I64)
    number.add_incoming(begin, before)
    start = b.shl(number, bits)
    low = b.sub(_larger(b, first, start), start)
    high = b.sub(_smaller(b, last, b.add(start, i64(LINE_CELLS - 1))), start)
    above = b.lshr(i64(0xFFFFFFFF), b.sub(i64(LINE_CELLS - 1), high))
    mask = b.trunc(b.and_(above, b.shl(i64(-1), low)), I32)
    b.call(line, [launch, number, mask])
    following = b.add(number, i64(1))
    number.add_incoming(following, b.block)
    b.cbranch(b.icmp_unsigned("<=", following, end), loop, over)
    b.position_at_end(over)
    b.ret_void()
    return function


def _larger(b: ir.IRBuilder, left: Value, right: Value) -> Value:
    return b.select(b.icmp_signed(">", left, right), left, right)


def _smaller(b: ir.IRBuilder, left: Value, right: Value) -> Value:
    return b.select(b.icmp_signed("<", left, right), left, right)


def _add_claim_row(module: ir.Module, claim: Value) -> Value:
    """Add ``claim_row(ctx, mask, start, size)``: lane i claims ``size`` bytes at ``start + i * size``."""
    function, b = t.new_function(module, "claim_row", VOID, [POINTER, I32, I64, I32])
    ctx, mask, start, size = function.args
    with b.if_then(b.icmp_unsigned("==", mask, i32(0))):
        b.ret_void()
        b.position_at_end(b.append_basic_block("dead"))
    launch, wide = load_pointer(b, ctx, Warp.LAUNCH), b.zext(size, I64)
    _claim_whole_line(b, launch, mask, start, size)
    lowest = t.intrinsic(b, "llvm.cttz.i32", I32, [mask, ir.Constant(I1, 0)])
    count = t.unary_intrinsic(b, "ctpop", mask)
    # Lanes without a gap between them: the usual guard ``i < n``.
    every = b.shl(b.lshr(i32(-1), b.sub(i32(WARP_SIZE), count)), lowest)
    whole, single = b.append_basic_block("whole"), b.append_basic_block("single")
    b.cbranch(b.icmp_unsigned("==", mask, every), whole, single)
    b.position_at_end(whole)
    b.call(claim, [launch, b.add(start, b.mul(b.zext(lowest, I64), wide)), b.mul(b.zext(count, I64), wide)])
    b.ret_void()
    b.position_at_end(single)
    with t.for_lanes(b, mask) as lane:
        b.call(claim, [launch, b.add(start, b.mul(b.zext(lane, I64), wide)), wide])
    b.ret_void()
    return function


def _claim_whole_line(b: ir.IRBuilder, launch: Value, mask: Value, start: Value, size: Value) -> None:
    """Return from the function if the row of a full warp is a line that it owns, or that has no owner."""
    offset = b.sub(start, load_field(b, launch, LaunchRecord.ARENA))
    shift = load_field(b, launch, LaunchRecord.CLAIM_SHIFT)
    bits = b.add(shift, i64(LINE_CELLS.bit_length() - 1))
    line_bytes = b.shl(i64(1), bits)
    aligned = b.icmp_unsigned("==", b.and_(offset, b.sub(line_bytes, i64(1))), i64(0))
    one_line = b.icmp_unsigned("==", b.shl(b.zext(size, I64), i64(WARP_SIZE.bit_length() - 1)), line_bytes)
    inside = b.icmp_unsigned("<", offset, load_field(b, launch, LaunchRecord.ARENA_SIZE))
    full = b.icmp_unsigned("==", mask, i32(-1))
    with b.if_then(b.and_(b.and_(aligned, one_line), b.and_(inside, full))):
        word = t.at(b, load_field(b, launch, LaunchRecord.CLAIM_LINES), b.shl(b.lshr(offset, bits), i64(3)))
        whole = load_field(b, launch, LaunchRecord.CLAIM_WHOLE)
        now = b.load_atomic(word, "acquire", 8, typ=I64)
        with b.if_then(b.icmp_unsigned("==", now, whole)):
            b.ret_void()
            b.position_at_end(b.append_basic_block("dead"))
        first = b.shl(b.zext(load_field(b, launch, LaunchRecord.CLAIM_FIRST), I64), i64(32))
        with b.if_then(b.icmp_unsigned("<", now, first)), b.if_then(_exchange(b, word, now, whole)):
            b.ret_void()
            b.position_at_end(b.append_basic_block("dead"))


def _add_claim_lanes(module: ir.Module, row: Value, claim: Value) -> None:
    """Add ``claim_lanes(ctx, mask, size)``: each lane claims ``size`` bytes at its address in the scratch space."""
    function, b = t.new_function(module, "claim_lanes", VOID, [POINTER, I32, I32])
    ctx, mask, size = function.args
    with b.if_then(b.icmp_unsigned("==", mask, i32(0))):
        b.ret_void()
        b.position_at_end(b.append_basic_block("dead"))
    launch, wide = load_pointer(b, ctx, Warp.LAUNCH), b.zext(size, I64)
    # Lanes of a loop that they leave one by one often have consecutive addresses all the same.
    addresses = load_lanes(b, ctx, Warp.ADDRESSES, WARP_SIZE)
    lowest = t.intrinsic(b, "llvm.cttz.i32", I32, [mask, ir.Constant(I1, 1)])
    start = b.sub(load_element(b, ctx, Warp.ADDRESSES, lowest), b.mul(b.zext(lowest, I64), wide))
    steps = b.mul(t.splat(b, wide, WARP_SIZE), t.iota(I64, WARP_SIZE))
    apart = b.bitcast(b.icmp_unsigned("!=", addresses, b.add(t.splat(b, start, WARP_SIZE), steps)), I32)
    with b.if_then(b.icmp_unsigned("==", b.and_(apart, mask), i32(0))):
        b.call(row, [ctx, mask, start, size])
        b.ret_void()
        b.position_at_end(b.append_basic_block("dead"))
    arena, shift = load_field(b, launch, LaunchRecord.ARENA), load_field(b, launch, LaunchRecord.CLAIM_SHIFT)
    extent, lines = load_field(b, launch, LaunchRecord.ARENA_SIZE), load_field(b, launch, LaunchRecord.CLAIM_LINES)
    own = load_field(b, launch, LaunchRecord.CLAIM_OWNER)
    one_cell = b.icmp_unsigned("<=", wide, b.shl(i64(1), shift))
    with t.for_lanes(b, mask) as lane:
        address = load_element(b, ctx, Warp.ADDRESSES, lane)
        offset = b.sub(address, arena)
        cell = b.lshr(offset, shift)
        claimed, look, ask = (b.append_basic_block(name) for name in ("claimed", "look", "ask"))
        b.cbranch(b.and_(one_cell, b.icmp_unsigned("<", offset, extent)), look, ask)
        b.position_at_end(look)
        place = b.shl(b.lshr(cell, i64(LINE_CELLS.bit_length() - 1)), i64(3))
        now = b.load_atomic(t.at(b, lines, place), "monotonic", 8, typ=I64)
        is_own = b.icmp_unsigned("==", b.trunc(b.lshr(now, i64(32)), I32), own)
        bit = b.trunc(b.lshr(now, b.and_(cell, i64(LINE_CELLS - 1))), I1)
        b.cbranch(b.and_(is_own, bit), claimed, ask)
        b.position_at_end(ask)
        b.call(claim, [launch, address, wide])
        b.branch(claimed)
        b.position_at_end(claimed)
    b.ret_void()
