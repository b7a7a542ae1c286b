"""An access of many lanes at once, as LLVM IR of the shared runtime: what need not be done lane by lane.

Addresses that vary for all that is known are often those of neighbours when the code runs: a strided loop that lanes
may leave in different rounds. That is seen here, once per warp; other addresses are gathered and scattered.
"""

from __future__ import annotations

from llvmlite import ir

from gpuemu_lsp.engine.emulator.codegen import ir_tools as t
from gpuemu_lsp.engine.emulator.codegen import race_view
from gpuemu_lsp.engine.emulator.codegen.forms import MARK, READABLE, STORE_MASK
from gpuemu_lsp.engine.emulator.codegen.ir_tools import I1, I32, I64, POINTER, VOID, Value, i32, i64
from gpuemu_lsp.engine.emulator.layout import SHADOW_DISTANCE, Block, Launch, Shadow, Warp
from gpuemu_lsp.engine.emulator.shapes import WARP

_WIDE = ir.VectorType(I64, WARP)
_BITS = ir.VectorType(I1, WARP)


def add_together(module: ir.Module, race: tuple[Value, Value], *, is_store: bool) -> Value:
    """Add ``load_together`` or ``store_together``: ``(ctx, site, mask, size, shared, races) -> i1``.

    Does an access of one element of ``size`` bytes per lane, addresses and values in the context's scratch space, if
    nothing is wrong with it; else does nothing and returns 0. ``races`` are the flags of a plain access that can race,
    or 0; ``race`` are the functions that look at neighbours and at single lanes.
    """
    name = "store_together" if is_store else "load_together"
    function, b = t.new_function(module, name, I1, [POINTER, I32, I32, I32, I1, I32])
    size = function.args[3]
    refused = b.append_basic_block("refused")
    widths = {width: b.append_basic_block(f"bytes{width}") for width in (4, 2, 8, 1)}
    switch = b.switch(size, refused)
    for width, block in widths.items():
        switch.add_case(i32(width), block)
        b.position_at_end(block)
        one = _Together(b, function.args, width, refused, is_store=is_store)
        one.write(race)
    b.position_at_end(refused)
    b.ret(ir.Constant(I1, 0))
    return function


class _Together:
    """Writes the access for one size of element."""

    def __init__(
        self, b: ir.IRBuilder, arguments: tuple[Value, ...], size: int, refused: ir.Block, *, is_store: bool
    ) -> None:
        self.b, self.size, self.refused, self.is_store = b, size, refused, is_store
        self.ctx, self.site, self.mask, _, self.shared, self.races = arguments
        self.element = ir.IntType(8 * size)
        self.vector = ir.VectorType(self.element, WARP)
        self.active = b.bitcast(self.mask, _BITS)

    def write(self, race: tuple[Value, Value]) -> None:
        b = self.b
        addresses = t.load(b, self.ctx, Warp.ADDRESS, _WIDE, align=8)
        self._require(self._none(b.and_(b.not_(self._inside(addresses)), self.active)))
        lowest = t.intrinsic(b, "llvm.cttz.i32", I32, [b.or_(self.mask, i32(1 << 31)), ir.Constant(I1, 1)])
        first = b.zext(lowest, I64)
        place = t.load(b, self.ctx, b.add(i64(Warp.ADDRESS), b.shl(first, i64(3))), I64)
        base = b.sub(place, b.mul(first, i64(self.size)))
        row = b.add(t.splat(b, base, WARP), t.iota(I64, WARP, self.size))
        neighbours = self._none(b.and_(b.icmp_unsigned("!=", addresses, row), self.active))
        together, scattered = b.append_basic_block("row"), b.append_basic_block("scattered")
        b.cbranch(neighbours, together, scattered)

        b.position_at_end(together)
        shadow = b.add(base, i64(SHADOW_DISTANCE))
        self._require_allowed(self._fetch(shadow))
        cells = self._cells()
        shift = t.intrinsic(b, "llvm.cttz.i32", I32, [cells, ir.Constant(I1, 0)])
        # From the first lane that takes part: the place of an earlier one may lie in memory of another kind.
        row_cells = b.mul(cells, b.sub(i32(WARP), lowest))
        self._require_order(race[0], [self.ctx, self.site, self.mask, place, lowest, row_cells, shift])
        if self.is_store:
            self._put(self._values(), base)
            self._put(self._marks(), shadow)
        else:
            t.store(b, self._fetch(base), self.ctx, Warp.VALUE, align=8)
        b.ret(ir.Constant(I1, 1))

        b.position_at_end(scattered)
        if self.size < 4:  # which has no gathers
            b.branch(self.refused)
            return
        shadows = b.add(addresses, t.splat(b, i64(SHADOW_DISTANCE), WARP))
        self._require_allowed(self._gather(shadows))
        self._require_order(race[1], [self.ctx, self.site, self.mask, self._cells()])
        if self.is_store:
            self._scatter(self._values(), addresses)
            self._scatter(self._marks(), shadows)
        else:
            t.store(b, self._gather(addresses), self.ctx, Warp.VALUE, align=8)
        b.ret(ir.Constant(I1, 1))

    # ---- checks ------------------------------------------------------------------------------------------------------

    def _inside(self, addresses: Value) -> Value:
        """Return which lanes lie in their window and are aligned."""
        b = self.b
        launch, block = t.load(b, self.ctx, Warp.LAUNCH, POINTER), t.load(b, self.ctx, Warp.BLOCK, POINTER)
        low = b.select(self.shared, t.load(b, block, Block.SHARED, I64), t.load(b, launch, Launch.ARENA, I64))
        extent = b.select(
            self.shared, t.load(b, launch, Launch.SHARED_SIZE, I64), t.load(b, launch, Launch.ARENA_SIZE, I64)
        )
        # A window is never smaller than an element: both are multiples of 16 bytes.
        limit = b.sub(extent, i64(self.size - 1))
        inside = b.icmp_unsigned("<", b.sub(addresses, t.splat(b, low, WARP)), t.splat(b, limit, WARP))
        low_bits = b.and_(addresses, t.splat(b, i64(self.size - 1), WARP))
        return b.and_(inside, b.icmp_unsigned("==", low_bits, ir.Constant(_WIDE, None)))

    def _require_allowed(self, shadow: Value) -> None:
        b = self.b
        mask, wanted = (STORE_MASK, Shadow.ADDRESSABLE) if self.is_store else (READABLE, READABLE)
        bad = b.icmp_unsigned("!=", b.and_(shadow, self._bytes(mask)), self._bytes(wanted))
        self._require(self._none(b.and_(bad, self.active)))

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
        launch = t.load(b, self.ctx, Warp.LAUNCH, POINTER)
        return b.trunc(b.lshr(i64(self.size), t.load(b, launch, Launch.RACE_SHIFT, I64)), I32)

    def _none(self, bits: Value) -> Value:
        return self.b.icmp_unsigned("==", self.b.bitcast(bits, I32), i32(0))

    def _require(self, condition: Value) -> None:
        go_on = self.b.append_basic_block("good")
        self.b.cbranch(condition, go_on, self.refused)
        self.b.position_at_end(go_on)

    # ---- data --------------------------------------------------------------------------------------------------------

    def _bytes(self, byte: int) -> Value:
        pattern = int.from_bytes(bytes([byte]) * self.size, "little")
        return t.splat(self.b, ir.Constant(self.element, pattern), WARP)

    def _marks(self) -> Value:
        return self._bytes(MARK)

    def _values(self) -> Value:
        return t.load(self.b, self.ctx, Warp.VALUE, self.vector, align=8)

    def _fetch(self, address: Value) -> Value:
        name = f"llvm.masked.load.{t.mangled(self.vector)}.p0"
        arguments = [t.at(self.b, address, 0), i32(1), self.active, ir.Constant(self.vector, None)]
        return t.intrinsic(self.b, name, self.vector, arguments)

    def _put(self, value: Value, address: Value) -> None:
        name = f"llvm.masked.store.{t.mangled(self.vector)}.p0"
        t.intrinsic(self.b, name, VOID, [value, t.at(self.b, address, 0), i32(1), self.active])

    def _pointers(self, addresses: Value) -> Value:
        return self.b.inttoptr(addresses, ir.VectorType(POINTER, WARP))

    def _gather(self, addresses: Value) -> Value:
        name = f"llvm.masked.gather.{t.mangled(self.vector)}.v{WARP}p0"
        arguments = [self._pointers(addresses), i32(1), self.active, ir.Constant(self.vector, None)]
        return t.intrinsic(self.b, name, self.vector, arguments)

    def _scatter(self, value: Value, addresses: Value) -> None:
        name = f"llvm.masked.scatter.{t.mangled(self.vector)}.v{WARP}p0"
        t.intrinsic(self.b, name, VOID, [value, self._pointers(addresses), i32(1), self.active])


PLAIN = race_view.WATCHED | race_view.STORE
"""Flags of accesses that may be done together: others order threads."""
