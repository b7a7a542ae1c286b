"""The checked access of a whole warp at once.

Addresses that the divergence analysis has to call varying are often consecutive when the code runs, for example in a
strided loop that lanes may leave in different iterations. One comparison per warp shows that; other addresses are
gathered and scattered. Baseline code calls the functions for rows instead of checking itself.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from llvmlite import ir

from gpuemu_lsp.engine.emulator.abi.access_flags import RACE_SHIFT, SPACE_SHIFT, SPACES, WINDOW_SHIFT, RaceFlag
from gpuemu_lsp.engine.emulator.abi.field_access import load_field, load_lanes, load_pointer
from gpuemu_lsp.engine.emulator.abi.memory import READABLE, SHADOW_OFFSET, STORE_MASK, STORED, Shadow
from gpuemu_lsp.engine.emulator.abi.structs import BlockRecord, LaunchRecord, ReadableBuffer, Warp
from gpuemu_lsp.engine.emulator.devicelib.claim_windows import global_window
from gpuemu_lsp.engine.emulator.ir.lattice import WARP_SIZE
from gpuemu_lsp.engine.emulator.llvm import ir_tools as t
from gpuemu_lsp.engine.emulator.llvm.ir_tools import I1, I32, I64, POINTER, VOID, Value, i32, i64

PLAIN_RACE_FLAGS: Final = RaceFlag.WATCHED | RaceFlag.STORE
"""Race flags of accesses that a whole warp may make at once; all others order threads, lane by lane."""

MEMORY_BITS: Final = (1 << RACE_SHIFT - SPACE_SHIFT) - 1
"""Access flags from ``SPACE_SHIFT`` on that say which memory it is."""

_ADDRESSES: Final = ir.VectorType(I64, WARP_SIZE)
_MASK: Final = ir.VectorType(I1, WARP_SIZE)


def add_warp_access(module: ir.Module, race: tuple[Value, Value], *, is_store: bool) -> Value:
    """Add ``load_warp`` or ``store_warp``: ``(ctx, site, mask, size, memory, races) -> i1``.

    Accesses one element of ``size`` bytes per lane, addresses and values in the context's scratch space, if no check
    fails; else accesses nothing and returns 0. ``memory`` are the access flags from ``SPACE_SHIFT`` on. ``races`` are
    the race flags of a plain access, or 0; ``race`` are the race detector's functions for rows and for scattered lanes.
    """
    name = "store_warp" if is_store else "load_warp"
    function, b = t.new_function(module, name, I1, [POINTER, I32, I32, I32, I32, I32])
    _for_each_size(b, function, lambda access: access.emit(race), is_store=is_store)
    return function


def add_row_access(module: ir.Module, access: Value, race: Value, *, is_store: bool) -> None:
    """Add ``load_row`` or ``store_row``: ``(ctx, site, mask, size, unused, flags, base, offset, spare, buffer)``.

    As ``load`` and ``store`` of one element, where lane i is at ``base + i * size``, without its ``spare`` upper bits,
    plus ``offset`` in its window. ``buffer`` is the number of the parameter that the address comes from, negative for
    none; ``access`` is called for what is not a plain row, and where a check fails.
    """
    in_row = _add_row(module, race, is_store=is_store)
    name = "store_row" if is_store else "load_row"
    function, b = t.new_function(module, name, VOID, [POINTER, I32, I32, I32, I32, I32, I64, I64, I64, I32])
    ctx, site, mask, size, unused, flags, base, offset, spare, buffer = function.args
    # An empty mask has no lowest lane, from which the functions below count.
    with b.if_then(b.icmp_unsigned("==", mask, i32(0))):
        b.ret_void()
    races = b.lshr(flags, i32(RACE_SHIFT))
    space = b.and_(b.lshr(flags, i32(SPACE_SHIFT)), i32(3))
    shared = b.icmp_unsigned("==", space, i32(SPACES["shared"]))
    plain = b.icmp_unsigned("==", b.and_(races, i32(~PLAIN_RACE_FLAGS)), i32(0))
    memory = b.and_(b.lshr(flags, i32(SPACE_SHIFT)), i32(MEMORY_BITS))
    arguments = [ctx, site, mask, size, memory, races, b.add(base, offset), buffer]
    with b.if_then(plain), b.if_then(b.call(in_row, arguments)):
        b.ret_void()
    # Refused: repeat lane by lane, which finds the lane at fault and reports it.
    window = b.select(shared, load_field(b, load_pointer(b, ctx, Warp.BLOCK), BlockRecord.SHARED), i64(0))
    addresses = module.get_global("affine_addresses")
    b.call(addresses, [ctx, i32(0), i32(WARP_SIZE), base, b.zext(size, I64), window, offset, spare])
    b.call(access, [ctx, site, mask, size, i32(1), unused, flags])
    b.ret_void()


def _add_row(module: ir.Module, race: Value, *, is_store: bool) -> Value:
    """Add ``load_in_row`` or ``store_in_row``: ``(ctx, site, mask, size, memory, races, start, buffer) -> i1``.

    As ``load_warp`` for a row: lane 0 is at ``start``, an offset into the window for shared memory. ``buffer`` is
    the number of the parameter that a load's address comes from, negative for none.
    """
    name = "store_in_row" if is_store else "load_in_row"
    function, b = t.new_function(module, name, I1, [POINTER, I32, I32, I32, I32, I32, I64, I32])
    start, buffer = function.args[6:]
    _for_each_size(b, function, lambda access: access.emit_row(start, buffer, race), is_store=is_store)
    return function


def _for_each_size(b: ir.IRBuilder, function: Value, emit: Callable[[_WarpAccess], None], *, is_store: bool) -> None:
    """Emit the body of a function once for each element size; for other sizes it returns 0."""
    refused = b.append_basic_block("refused")
    widths = {width: b.append_basic_block(f"bytes{width}") for width in (4, 2, 8, 1)}
    switch = b.switch(function.args[3], refused)
    for width, block in widths.items():
        switch.add_case(i32(width), block)
        b.position_at_end(block)
        emit(_WarpAccess(b, function.args[:6], width, refused, is_store=is_store))
    b.position_at_end(refused)
    b.ret(ir.Constant(I1, 0))


class _WarpAccess:
    """Emits the access for one element size."""

    def __init__(
        self, b: ir.IRBuilder, arguments: tuple[Value, ...], size: int, refused: ir.Block, *, is_store: bool
    ) -> None:
        self.b, self.size, self.refused, self.is_store = b, size, refused, is_store
        self.ctx, self.site, self.mask, _, self.memory, self.races = arguments
        self.shared = b.icmp_unsigned("==", b.and_(self.memory, i32(3)), i32(SPACES["shared"]))
        self.element = ir.IntType(8 * size)
        self.vector = ir.VectorType(self.element, WARP_SIZE)
        self.active = b.bitcast(self.mask, _MASK)

    def emit(self, race: tuple[Value, Value]) -> None:
        """Emit the access at the addresses in the scratch space: as a row if they are consecutive, else scattered."""
        b = self.b
        addresses = load_lanes(b, self.ctx, Warp.ADDRESSES, WARP_SIZE)
        self._require(self._none(b.and_(b.not_(self._inside(addresses)), self.active)))
        # The row that the lowest active lane would be part of. Addresses of inactive lanes are undefined.
        lowest = t.intrinsic(b, "llvm.cttz.i32", I32, [b.or_(self.mask, i32(1 << 31)), ir.Constant(I1, 1)])
        first = b.zext(lowest, I64)
        place = t.load(b, self.ctx, b.add(i64(Warp.ADDRESSES), b.shl(first, i64(3))), I64)
        base = b.sub(place, b.mul(first, i64(self.size)))
        row = b.add(t.splat(b, base, WARP_SIZE), t.iota(I64, WARP_SIZE, self.size))
        consecutive = self._none(b.and_(b.icmp_unsigned("!=", addresses, row), self.active))
        in_row, scattered = b.append_basic_block("row"), b.append_basic_block("scattered")
        b.cbranch(consecutive, in_row, scattered)

        b.position_at_end(in_row)
        self._row(base, place, lowest, race[0])

        b.position_at_end(scattered)
        # AVX gathers and scatters elements of 4 and 8 bytes; LLVM would expand smaller ones lane by lane.
        if self.size < 4:
            b.branch(self.refused)
            return
        shadows = b.add(addresses, t.splat(b, i64(SHADOW_OFFSET), WARP_SIZE))
        self._require_allowed(self._gather(shadows))
        self._require_order(race[1], [self.ctx, self.site, self.mask, self._cells()])
        if self.is_store:
            self._scatter(self._values(), addresses)
            self._scatter(self._bytes(STORED), shadows)
        else:
            t.store(b, self._gather(addresses), self.ctx, Warp.VALUES, align=8)
        b.ret(ir.Constant(I1, 1))

    def emit_row(self, start: Value, buffer: Value, race: Value) -> None:
        """Emit the access of a row whose lane 0, active or not, is at ``start``; some lane is active."""
        b = self.b
        lowest = t.intrinsic(b, "llvm.cttz.i32", I32, [self.mask, ir.Constant(I1, 0)])
        behind = b.sub(i32(WARP_SIZE), t.intrinsic(b, "llvm.ctlz.i32", I32, [self.mask, ir.Constant(I1, 0)]))
        # Bounds are tested for the lanes from the lowest to the highest active one: the guard ``i < n`` of a kernel
        # makes lanes beyond the end of a buffer inactive.
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
        # Inactive lanes are loaded, too, as in code that loads rows itself: both tiers must leave the same bits in a
        # register. The guard zones round every window make that safe.
        t.store(b, t.load(b, base, 0, self.vector, align=1), self.ctx, Warp.VALUES, align=8)
        b.ret(ir.Constant(I1, 1))

    def _require_readable(self, base: Value, first: Value, length: Value, buffer: Value) -> None:
        """Require that a row may be read: all of its buffer may, or its shadow bytes allow it."""
        b = self.b
        table, look, whole = (b.append_basic_block(name) for name in ("table", "look", "whole"))
        b.cbranch(b.icmp_signed("<", buffer, i32(0)), look, table)
        b.position_at_end(table)
        launch = load_pointer(b, self.ctx, Warp.LAUNCH)
        buffers = load_pointer(b, launch, LaunchRecord.READABLE_BUFFERS)
        entry = t.at(b, buffers, b.mul(b.zext(buffer, I64), i64(ReadableBuffer.SIZE)))
        highest = b.sub(load_field(b, entry, ReadableBuffer.BYTES), length)
        offset = b.sub(first, load_field(b, entry, ReadableBuffer.ADDRESS))
        b.cbranch(b.icmp_unsigned("<=", offset, highest), whole, look)
        b.position_at_end(look)
        self._require_allowed(self._fetch(b.add(base, i64(SHADOW_OFFSET))))
        b.branch(whole)
        b.position_at_end(whole)

    def _row(self, base: Value, place: Value, lowest: Value, race: Value) -> None:
        """Emit the access of a row from ``base`` on, of which the ``lowest`` active lane is at ``place``."""
        b = self.b
        shadow = b.add(base, i64(SHADOW_OFFSET))
        self._require_allowed(self._fetch(shadow))
        self._require_row_order(place, lowest, race)
        if self.is_store:
            self._put(self._values(), base)
            self._put(self._bytes(STORED), shadow)
        else:
            t.store(b, self._fetch(base), self.ctx, Warp.VALUES, align=8)
        b.ret(ir.Constant(I1, 1))

    # ---- checks ------------------------------------------------------------------------------------------------------

    def _inside(self, addresses: Value) -> Value:
        """Return the lanes whose addresses lie in the window and are aligned."""
        b = self.b
        low, extent = self._window()
        # One unsigned comparison per lane. The limit does not wrap: windows are multiples of 16 bytes, so never smaller
        # than an element.
        limit = b.sub(extent, i64(self.size - 1))
        inside = b.icmp_unsigned("<", b.sub(addresses, t.splat(b, low, WARP_SIZE)), t.splat(b, limit, WARP_SIZE))
        low_bits = b.and_(addresses, t.splat(b, i64(self.size - 1), WARP_SIZE))
        return b.and_(inside, b.icmp_unsigned("==", low_bits, ir.Constant(_ADDRESSES, None)))

    def _window(self) -> tuple[Value, Value]:
        """Return the lowest address and the size of the memory that the access may touch."""
        b = self.b
        launch, block = load_pointer(b, self.ctx, Warp.LAUNCH), load_pointer(b, self.ctx, Warp.BLOCK)
        # Local memory never comes here: its windows differ from lane to lane.
        start, size = global_window(b, launch, b.lshr(self.memory, i32(WINDOW_SHIFT - SPACE_SHIFT)))
        low = b.select(self.shared, load_field(b, block, BlockRecord.SHARED), start)
        return low, b.select(self.shared, load_field(b, launch, LaunchRecord.SHARED_SIZE), size)

    def _require_allowed(self, shadow: Value) -> None:
        b = self.b
        mask, wanted = (STORE_MASK, Shadow.ADDRESSABLE) if self.is_store else (READABLE, READABLE)
        bad = b.icmp_unsigned("!=", b.and_(shadow, self._bytes(mask)), self._bytes(wanted))
        self._require(self._none(b.and_(bad, self.active)))

    def _require_row_order(self, place: Value, lowest: Value, race: Value) -> None:
        """Require that the race detector finds a row ordered."""
        b = self.b
        cells = self._cells()
        # Elements and cells are powers of two, so that the number of cells is one, too.
        shift = t.intrinsic(b, "llvm.cttz.i32", I32, [cells, ir.Constant(I1, 0)])
        # From the lowest active lane on: the address of an earlier one may lie in memory of another kind.
        row_cells = b.mul(cells, b.sub(i32(WARP_SIZE), lowest))
        self._require_order(race, [self.ctx, self.site, self.mask, place, lowest, row_cells, shift])

    def _require_order(self, race: Value, arguments: list[Value]) -> None:
        b = self.b
        # Accesses that the analysis has excluded have no flags: one function serves both kinds.
        ask, go_on = b.append_basic_block("race"), b.append_basic_block("ordered")
        b.cbranch(b.icmp_unsigned("==", self.races, i32(0)), go_on, ask)
        b.position_at_end(ask)
        b.cbranch(b.call(race, arguments), go_on, self.refused)
        b.position_at_end(go_on)

    def _cells(self) -> Value:
        """Return the number of shadow cells that an element covers."""
        b = self.b
        launch = load_pointer(b, self.ctx, Warp.LAUNCH)
        return b.trunc(b.lshr(i64(self.size), load_field(b, launch, LaunchRecord.RACE_CELL_SHIFT)), I32)

    def _none(self, bits: Value) -> Value:
        return self.b.icmp_unsigned("==", self.b.bitcast(bits, I32), i32(0))

    def _require(self, condition: Value) -> None:
        # A refusal may come after part of the work: nothing is written before the last requirement holds.
        go_on = self.b.append_basic_block("good")
        self.b.cbranch(condition, go_on, self.refused)
        self.b.position_at_end(go_on)

    # ---- data --------------------------------------------------------------------------------------------------------

    def _bytes(self, byte: int) -> Value:
        pattern = int.from_bytes(bytes([byte]) * self.size, "little")
        return t.splat(self.b, ir.Constant(self.element, pattern), WARP_SIZE)

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
