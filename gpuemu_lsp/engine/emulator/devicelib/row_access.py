"""An access of many lanes at once, as LLVM IR of the shared runtime: what need not be done lane by lane.

Addresses that vary for all that is known are often those of neighbours when the code runs: a strided loop that lanes
may leave in different rounds. That is seen here, once per warp; other addresses are gathered and scattered.
"""

from __future__ import annotations

from collections.abc import Callable

from llvmlite import ir

from gpuemu_lsp.engine.emulator.abi.access_flags import RACE_SHIFT, SPACE_SHIFT, SPACES, RaceFlag
from gpuemu_lsp.engine.emulator.abi.field_access import load_field, load_lanes, load_pointer
from gpuemu_lsp.engine.emulator.abi.memory import READABLE, SHADOW_OFFSET, STORE_MASK, STORED, Shadow
from gpuemu_lsp.engine.emulator.abi.structs import BlockRecord, LaunchRecord, Warp
from gpuemu_lsp.engine.emulator.ir.lattice import WARP_SIZE
from gpuemu_lsp.engine.emulator.llvm import ir_tools as t
from gpuemu_lsp.engine.emulator.llvm.ir_tools import I1, I32, I64, POINTER, VOID, Value, i32, i64

_WIDE = ir.VectorType(I64, WARP_SIZE)
_BITS = ir.VectorType(I1, WARP_SIZE)


def add_together(module: ir.Module, race: tuple[Value, Value], *, is_store: bool) -> Value:
    """Add ``load_together`` or ``store_together``: ``(ctx, site, mask, size, shared, races) -> i1``.

    Does an access of one element of ``size`` bytes per lane, addresses and values in the context's scratch space, if
    nothing is wrong with it; else does nothing and returns 0. ``races`` are the flags of a plain access that can race,
    or 0; ``race`` are the functions that look at neighbours and at single lanes.
    """
    name = "store_together" if is_store else "load_together"
    function, b = t.new_function(module, name, I1, [POINTER, I32, I32, I32, I1, I32])
    _each_size(b, function, lambda one: one.write(race), is_store=is_store)
    return function


def add_row_access(module: ir.Module, access: Value, race: Value, *, is_store: bool) -> None:
    """Add ``load_row`` or ``store_row``: ``(ctx, site, mask, size, unused, flags, base, offset, bits, buffer)``.

    As ``load`` and ``store`` of one element, where lane i is at ``((base + i * size) & bits) + offset`` in its window.
    ``buffer`` is the parameter the address comes from, negative for none; ``access`` is the function for what is no
    plain row, or is not allowed.
    """
    in_row = _add_row(module, race, is_store=is_store)
    name = "store_row" if is_store else "load_row"
    function, b = t.new_function(module, name, VOID, [POINTER, I32, I32, I32, I32, I32, I64, I64, I64, I32])
    ctx, site, mask, size, unused, flags, base, offset, bits, buffer = function.args
    with b.if_then(b.icmp_unsigned("==", mask, i32(0))):
        b.ret_void()
    races = b.lshr(flags, i32(RACE_SHIFT))
    space = b.and_(b.lshr(flags, i32(SPACE_SHIFT)), i32(3))
    shared = b.icmp_unsigned("==", space, i32(SPACES["shared"]))
    plain = b.icmp_unsigned("==", b.and_(races, i32(~PLAIN)), i32(0))
    arguments = [ctx, site, mask, size, shared, races, b.add(base, offset), buffer]
    with b.if_then(plain), b.if_then(b.call(in_row, arguments)):
        b.ret_void()
    window = b.select(shared, load_field(b, load_pointer(b, ctx, Warp.BLOCK), BlockRecord.SHARED), i64(0))
    addresses = module.get_global("affine_addresses")
    b.call(addresses, [ctx, i32(0), i32(WARP_SIZE), base, b.zext(size, I64), window, offset, bits])
    b.call(access, [ctx, site, mask, size, i32(1), unused, flags])
    b.ret_void()


def _add_row(module: ir.Module, race: Value, *, is_store: bool) -> Value:
    """Add ``load_in_row`` or ``store_in_row``: ``(ctx, site, mask, size, shared, races, start, buffer) -> i1``.

    As ``load_together``, for neighbours: lane 0 is at ``start``, which counts from the start of shared memory there.
    ``buffer`` is the parameter that a load's address comes from, negative for none.
    """
    name = "store_in_row" if is_store else "load_in_row"
    function, b = t.new_function(module, name, I1, [POINTER, I32, I32, I32, I1, I32, I64, I32])
    _each_size(b, function, lambda one: one.write_row(function.args[6], function.args[7], race), is_store=is_store)
    return function


def _each_size(b: ir.IRBuilder, function: Value, write: Callable[[_Together], None], *, is_store: bool) -> None:
    """Write the body of a function for each size of element; for others it returns 0."""
    refused = b.append_basic_block("refused")
    widths = {width: b.append_basic_block(f"bytes{width}") for width in (4, 2, 8, 1)}
    switch = b.switch(function.args[3], refused)
    for width, block in widths.items():
        switch.add_case(i32(width), block)
        b.position_at_end(block)
        write(_Together(b, function.args[:6], width, refused, is_store=is_store))
    b.position_at_end(refused)
    b.ret(ir.Constant(I1, 0))


class _Together:
    """Writes the access for one size of element."""

    def __init__(
        self, b: ir.IRBuilder, arguments: tuple[Value, ...], size: int, refused: ir.Block, *, is_store: bool
    ) -> None:
        self.b, self.size, self.refused, self.is_store = b, size, refused, is_store
        self.ctx, self.site, self.mask, _, self.shared, self.races = arguments
        self.element = ir.IntType(8 * size)
        self.vector = ir.VectorType(self.element, WARP_SIZE)
        self.active = b.bitcast(self.mask, _BITS)

    def write(self, race: tuple[Value, Value]) -> None:
        b = self.b
        addresses = load_lanes(b, self.ctx, Warp.ADDRESSES, WARP_SIZE)
        self._require(self._none(b.and_(b.not_(self._inside(addresses)), self.active)))
        lowest = t.intrinsic(b, "llvm.cttz.i32", I32, [b.or_(self.mask, i32(1 << 31)), ir.Constant(I1, 1)])
        first = b.zext(lowest, I64)
        place = t.load(b, self.ctx, b.add(i64(Warp.ADDRESSES), b.shl(first, i64(3))), I64)
        base = b.sub(place, b.mul(first, i64(self.size)))
        row = b.add(t.splat(b, base, WARP_SIZE), t.iota(I64, WARP_SIZE, self.size))
        neighbours = self._none(b.and_(b.icmp_unsigned("!=", addresses, row), self.active))
        together, scattered = b.append_basic_block("row"), b.append_basic_block("scattered")
        b.cbranch(neighbours, together, scattered)

        b.position_at_end(together)
        self._row(base, place, lowest, race[0])

        b.position_at_end(scattered)
        if self.size < 4:  # which has no gathers
            b.branch(self.refused)
            return
        shadows = b.add(addresses, t.splat(b, i64(SHADOW_OFFSET), WARP_SIZE))
        self._require_allowed(self._gather(shadows))
        self._require_order(race[1], [self.ctx, self.site, self.mask, self._cells()])
        if self.is_store:
            self._scatter(self._values(), addresses)
            self._scatter(self._marks(), shadows)
        else:
            t.store(b, self._gather(addresses), self.ctx, Warp.VALUES, align=8)
        b.ret(ir.Constant(I1, 1))

    def write_row(self, start: Value, buffer: Value, race: Value) -> None:
        """Write the access for a row whose lane 0, active or not, is at ``start``; some lane is active."""
        b = self.b
        lowest = t.intrinsic(b, "llvm.cttz.i32", I32, [self.mask, ir.Constant(I1, 0)])
        behind = b.sub(i32(WARP_SIZE), t.intrinsic(b, "llvm.ctlz.i32", I32, [self.mask, ir.Constant(I1, 0)]))
        low, extent = self._window()
        base = b.add(start, b.select(self.shared, low, i64(0)))
        first = b.add(base, b.mul(b.zext(lowest, I64), i64(self.size)))
        offset = b.sub(first, low)
        length = b.mul(b.zext(b.sub(behind, lowest), I64), i64(self.size))
        end = b.add(offset, length)
        inside = b.and_(b.icmp_unsigned("<", offset, extent), b.icmp_unsigned("<=", end, extent))
        aligned = b.icmp_unsigned("==", b.and_(first, i64(self.size - 1)), i64(0))
        self._require(b.and_(inside, aligned))
        if self.is_store:
            self._row(base, first, lowest, race)
            return
        self._require_readable(base, first, length, buffer)
        self._require_row_order(first, lowest, race)
        # All lanes are loaded, as by code that loads rows itself: both must give the same where a lane takes no part.
        t.store(b, t.load(b, base, 0, self.vector, align=1), self.ctx, Warp.VALUES, align=8)
        b.ret(ir.Constant(I1, 1))

    def _require_readable(self, base: Value, first: Value, length: Value, buffer: Value) -> None:
        """Require that a row may be read: its buffer may as a whole, or its shadow says so."""
        b = self.b
        table, look, whole = (b.append_basic_block(name) for name in ("table", "look", "whole"))
        b.cbranch(b.icmp_signed("<", buffer, i32(0)), look, table)
        b.position_at_end(table)
        launch = load_pointer(b, self.ctx, Warp.LAUNCH)
        entry = t.at(b, load_pointer(b, launch, LaunchRecord.READABLE_BUFFERS), b.mul(b.zext(buffer, I64), i64(16)))
        room = b.sub(t.load(b, entry, 8, I64), length)
        b.cbranch(b.icmp_unsigned("<=", b.sub(first, t.load(b, entry, 0, I64)), room), whole, look)
        b.position_at_end(look)
        self._require_allowed(self._fetch(b.add(base, i64(SHADOW_OFFSET))))
        b.branch(whole)
        b.position_at_end(whole)

    def _row(self, base: Value, place: Value, lowest: Value, race: Value) -> None:
        """Do the access for a row from ``base`` on, of which the ``lowest`` active lane is at ``place``; return 1."""
        b = self.b
        shadow = b.add(base, i64(SHADOW_OFFSET))
        self._require_allowed(self._fetch(shadow))
        self._require_row_order(place, lowest, race)
        if self.is_store:
            self._put(self._values(), base)
            self._put(self._marks(), shadow)
        else:
            t.store(b, self._fetch(base), self.ctx, Warp.VALUES, align=8)
        b.ret(ir.Constant(I1, 1))

    # ---- checks ------------------------------------------------------------------------------------------------------

    def _inside(self, addresses: Value) -> Value:
        """Return which lanes lie in their window and are aligned."""
        b = self.b
        low, extent = self._window()
        # A window is never smaller than an element: both are multiples of 16 bytes.
        limit = b.sub(extent, i64(self.size - 1))
        inside = b.icmp_unsigned("<", b.sub(addresses, t.splat(b, low, WARP_SIZE)), t.splat(b, limit, WARP_SIZE))
        low_bits = b.and_(addresses, t.splat(b, i64(self.size - 1), WARP_SIZE))
        return b.and_(inside, b.icmp_unsigned("==", low_bits, ir.Constant(_WIDE, None)))

    def _window(self) -> tuple[Value, Value]:
        """Return the lowest address and the size of what the access may touch."""
        b = self.b
        launch, block = load_pointer(b, self.ctx, Warp.LAUNCH), load_pointer(b, self.ctx, Warp.BLOCK)
        low = b.select(self.shared, load_field(b, block, BlockRecord.SHARED), load_field(b, launch, LaunchRecord.ARENA))
        return low, b.select(
            self.shared, load_field(b, launch, LaunchRecord.SHARED_SIZE), load_field(b, launch, LaunchRecord.ARENA_SIZE)
        )

    def _require_allowed(self, shadow: Value) -> None:
        b = self.b
        mask, wanted = (STORE_MASK, Shadow.ADDRESSABLE) if self.is_store else (READABLE, READABLE)
        bad = b.icmp_unsigned("!=", b.and_(shadow, self._bytes(mask)), self._bytes(wanted))
        self._require(self._none(b.and_(bad, self.active)))

    def _require_row_order(self, place: Value, lowest: Value, race: Value) -> None:
        """Require that a row races with nothing."""
        b = self.b
        cells = self._cells()
        shift = t.intrinsic(b, "llvm.cttz.i32", I32, [cells, ir.Constant(I1, 0)])
        # From the first lane that takes part: the place of an earlier one may lie in memory of another kind.
        row_cells = b.mul(cells, b.sub(i32(WARP_SIZE), lowest))
        self._require_order(race, [self.ctx, self.site, self.mask, place, lowest, row_cells, shift])

    def _require_order(self, race: Value, arguments: list[Value]) -> None:
        b = self.b
        ask, go_on = b.append_basic_block("race"), b.append_basic_block("ordered")
        b.cbranch(b.icmp_unsigned("==", self.races, i32(0)), go_on, ask)
        b.position_at_end(ask)
        b.cbranch(b.call(race, arguments), go_on, self.refused)
        b.position_at_end(go_on)

    def _cells(self) -> Value:
        """Return the number of the race checker's cells that an element takes."""
        b = self.b
        launch = load_pointer(b, self.ctx, Warp.LAUNCH)
        return b.trunc(b.lshr(i64(self.size), load_field(b, launch, LaunchRecord.RACE_CELL_SHIFT)), I32)

    def _none(self, bits: Value) -> Value:
        return self.b.icmp_unsigned("==", self.b.bitcast(bits, I32), i32(0))

    def _require(self, condition: Value) -> None:
        go_on = self.b.append_basic_block("good")
        self.b.cbranch(condition, go_on, self.refused)
        self.b.position_at_end(go_on)

    # ---- data --------------------------------------------------------------------------------------------------------

    def _bytes(self, byte: int) -> Value:
        pattern = int.from_bytes(bytes([byte]) * self.size, "little")
        return t.splat(self.b, ir.Constant(self.element, pattern), WARP_SIZE)

    def _marks(self) -> Value:
        return self._bytes(STORED)

    def _values(self) -> Value:
        return t.load(self.b, self.ctx, Warp.VALUES, self.vector, align=8)

    def _fetch(self, address: Value) -> Value:
        name = f"llvm.masked.load.{t.mangled(self.vector)}.p0"
        arguments = [t.at(self.b, address, 0), i32(1), self.active, ir.Constant(self.vector, None)]
        return t.intrinsic(self.b, name, self.vector, arguments)

    def _put(self, value: Value, address: Value) -> None:
        name = f"llvm.masked.store.{t.mangled(self.vector)}.p0"
        t.intrinsic(self.b, name, VOID, [value, t.at(self.b, address, 0), i32(1), self.active])

    def _pointers(self, addresses: Value) -> Value:
        return self.b.inttoptr(addresses, ir.VectorType(POINTER, WARP_SIZE))

    def _gather(self, addresses: Value) -> Value:
        name = f"llvm.masked.gather.{t.mangled(self.vector)}.v{WARP_SIZE}p0"
        arguments = [self._pointers(addresses), i32(1), self.active, ir.Constant(self.vector, None)]
        return t.intrinsic(self.b, name, self.vector, arguments)

    def _scatter(self, value: Value, addresses: Value) -> None:
        name = f"llvm.masked.scatter.{t.mangled(self.vector)}.v{WARP_SIZE}p0"
        t.intrinsic(self.b, name, VOID, [value, self._pointers(addresses), i32(1), self.active])


PLAIN = RaceFlag.WATCHED | RaceFlag.STORE
"""Flags of accesses that may be done together: others order threads."""
