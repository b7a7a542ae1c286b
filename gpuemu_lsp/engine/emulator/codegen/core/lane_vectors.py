"""The access form in which each lane moves a vector of 16 bytes at an address of its own (``.v4.b32``, ``.v2.b64``).

Tiled products move their tiles in such vectors, at addresses that follow no stride: swizzled shared memory, rows of
``ldmatrix``. A gather or scatter moves elements one by one, four times as many as there are lanes, and their shadow
bytes again. Here each lane's vector is moved as a whole, by scalar addresses; blocks of lanes and elements are
transposed between them and the rows of the registers. Only optimised code uses this form: it is long.
"""

from __future__ import annotations

from typing import Final

from llvmlite import ir

from gpuemu_lsp.engine.emulator.abi.field_access import load_field, store_lanes
from gpuemu_lsp.engine.emulator.abi.memory import READABLE, SHADOW_OFFSET, STORE_MASK, STORED, Shadow
from gpuemu_lsp.engine.emulator.abi.structs import Warp
from gpuemu_lsp.engine.emulator.codegen.core.addresses import LoadStore
from gpuemu_lsp.engine.emulator.codegen.core.emitter import Emitter
from gpuemu_lsp.engine.emulator.codegen.core.gather_scatter import GatherScatter
from gpuemu_lsp.engine.emulator.llvm import gathers
from gpuemu_lsp.engine.emulator.llvm import ir_tools as t
from gpuemu_lsp.engine.emulator.llvm.ir_tools import I8, I32, I64, Value, i64

_VECTOR_BYTES: Final = 16
_BYTES: Final = ir.VectorType(I8, _VECTOR_BYTES)


class LaneVectors(GatherScatter):
    """Vectors of 16 bytes at lane-wise addresses."""

    def __init__(self, e: Emitter, access: LoadStore) -> None:
        super().__init__(e, access)
        self.count = len(access.items)
        self.lane_vector = ir.VectorType(self.element_type, self.count)

    @staticmethod
    def supports(e: Emitter, access: LoadStore) -> bool:
        """Return whether an access can and should have this form."""
        varying = access.shape.varying and access.space != "local"
        whole = access.total == _VECTOR_BYTES and access.size >= 4 and len(access.items) > 1
        return varying and whole and e.unit.checked and not e.unit.baseline

    def in_readable_buffer(self) -> None:
        """See :class:`.AccessForm`: the check always runs, since it also passes the addresses to the access."""

    def allowed(self) -> Value:
        """See :class:`.AccessForm`."""
        e, b = self.e, self.e.builder
        refused, seen = [], None
        for part in self.parts:
            mask, inside = e.active(part), self.reachable[part]
            outside = b.not_(inside)
            refused.append(outside if mask is None else b.and_(outside, mask))
            # Lanes that access nothing take part with shadow bytes that refuse no access.
            spare = b.sub(self._spare("shadow", READABLE), i64(SHADOW_OFFSET))
            self._pass(part, b.select(inside, self._host(part), t.splat(b, spare, e.lanes)))
            for address in self._passed(part):
                shadow = t.load(b, b.add(address, i64(SHADOW_OFFSET)), 0, _BYTES, align=1)
                if self.access.store:
                    # A bit that must be clear is inverted: what one lane lacks is then missing in the conjunction.
                    shadow = b.xor(shadow, t.splat(b, ir.Constant(I8, STORE_MASK & ~Shadow.ADDRESSABLE), _VECTOR_BYTES))
                seen = shadow if seen is None else b.and_(seen, shadow)
        wanted = t.splat(b, ir.Constant(I8, STORE_MASK if self.access.store else READABLE), _VECTOR_BYTES)
        bits = b.bitcast(b.icmp_unsigned("!=", b.and_(seen, wanted), wanted), ir.IntType(_VECTOR_BYTES))
        lacking = b.icmp_unsigned("!=", bits, ir.Constant(bits.type, 0))
        return b.not_(b.or_(e.any_lane(refused), lacking))

    def execute(self) -> list[list[Value]]:
        """See :class:`.AccessForm`."""
        columns: list[list[Value]] = [[] for _ in self.access.items]
        for part in self.parts:
            if self.access.store:
                self._store_part(part)
                continue
            vectors = [t.load(self.e.builder, one, 0, self.lane_vector, align=1) for one in self._data(part)]
            # Register j has the vectors of the lanes j, count + j, ..., so that transposed blocks are in lane order.
            registers = [self._concatenated(vectors[j :: self.count]) for j in range(self.count)]
            for column, row in zip(columns, self._transposed(registers), strict=True):
                column.append(row)
        return [] if self.access.store else columns

    def _store_part(self, part: int) -> None:
        """Store the vectors of a part in lane order: of lanes with equal addresses the highest wins."""
        e, b = self.e, self.e.builder
        bits = f"b{self.access.size * 8}"
        registers = self._transposed([e.vector_operand(item, bits, part) for item in self.access.items])
        for lane, address in enumerate(self._data(part)):
            block, j = divmod(lane, self.count)
            order = list(range(block * self.count, (block + 1) * self.count))
            vector = b.shuffle_vector(registers[j], registers[j], _order(order))
            t.store(b, vector, address, 0, align=1)
        mark = t.splat(b, ir.Constant(I8, STORED), _VECTOR_BYTES)
        for address in self._shadow(part):
            t.store(b, mark, address, 0, align=1)

    def _host(self, part: int) -> Value:
        b = self.e.builder
        return b.add(t.splat(b, self.base, self.e.lanes), gathers.wide_index(b, self.index[part]))

    def _data(self, part: int) -> list[Value]:
        """Return the address of each lane; inactive lanes have that of spare bytes."""
        e, b = self.e, self.e.builder
        mask = e.active(part)
        if mask is not None:
            self._pass(part, b.select(mask, self._host(part), t.splat(b, self._spare("data", 0), e.lanes)))
        # With all lanes active the addresses of the check are still there.
        return self._passed(part)

    def _shadow(self, part: int) -> list[Value]:
        """Return the address of each lane's shadow bytes, behind :meth:`_data`; inactive lanes have spare bytes."""
        e, b = self.e, self.e.builder
        mask = e.active(part)
        if mask is None:
            return [b.add(address, i64(SHADOW_OFFSET)) for address in self._passed(part)]
        shadow = b.add(self._host(part), t.splat(b, i64(SHADOW_OFFSET), e.lanes))
        self._pass(part, b.select(mask, shadow, t.splat(b, self._spare("shadow", READABLE), e.lanes)))
        return self._passed(part)

    def _pass(self, part: int, addresses: Value) -> None:
        """Write the addresses of a part to the scratch space: extracting each would take several instructions."""
        store_lanes(self.e.builder, addresses, self.e.context, Warp.ADDRESSES.element(part * self.e.lanes))

    def _passed(self, part: int) -> list[Value]:
        """Return the addresses of a part as scalars."""
        place = Warp.ADDRESSES.element(part * self.e.lanes)
        return [load_field(self.e.builder, self.e.context, place.element(lane)) for lane in range(self.e.lanes)]

    def _spare(self, name: str, byte: int) -> Value:
        """Return the address of 16 bytes of the function's own, each ``byte`` at first."""

        def make(pre: ir.IRBuilder) -> Value:
            space = t.aligned_alloca(pre, ir.ArrayType(I8, _VECTOR_BYTES))
            t.store(pre, t.splat(pre, ir.Constant(I8, byte), _VECTOR_BYTES), space, 0, align=16)
            return pre.ptrtoint(space, I64)

        return self.e.hoisted(f"spare/{name}", make)

    def _concatenated(self, vectors: list[Value]) -> Value:
        """Join vectors, neighbours first: LLVM selects insertions of 128 and 256 bits."""
        while len(vectors) > 1:
            order = _order(list(range(2 * vectors[0].type.count)))
            pairs = zip(vectors[::2], vectors[1::2], strict=True)
            vectors = [self.e.builder.shuffle_vector(left, right, order) for left, right in pairs]
        return vectors[0]

    def _transposed(self, registers: list[Value]) -> list[Value]:
        """Transpose blocks of ``count`` x ``count`` elements: element j of a block in register i becomes i in j.

        A butterfly for each bit of the indices exchanges the elements of two registers for which the bit differs.
        """
        b, lanes, step = self.e.builder, self.e.lanes, 1
        registers = list(registers)
        while step < self.count:
            kept = _order([lane if not lane & step else lanes + lane - step for lane in range(lanes)])
            moved = _order([lane + step if not lane & step else lanes + lane for lane in range(lanes)])
            for i in (i for i in range(self.count) if not i & step):
                low, high = registers[i], registers[i + step]
                registers[i] = b.shuffle_vector(low, high, kept)
                registers[i + step] = b.shuffle_vector(low, high, moved)
            step *= 2
        return registers


def _order(lanes: list[int]) -> Value:
    return ir.Constant(ir.VectorType(I32, len(lanes)), lanes)
