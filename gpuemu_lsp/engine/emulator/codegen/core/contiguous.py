"""Access forms with a constant stride: contiguous vectors, and strided loads that a wider vector covers."""

from __future__ import annotations

from collections.abc import Sequence

from llvmlite import ir

from gpuemu_lsp.engine.emulator.abi.memory import SHADOW_OFFSET, STORED
from gpuemu_lsp.engine.emulator.codegen.core.access_forms import BaseAddressForm
from gpuemu_lsp.engine.emulator.codegen.core.addresses import LoadStore
from gpuemu_lsp.engine.emulator.codegen.core.emitter import Emitter
from gpuemu_lsp.engine.emulator.llvm import ir_tools as t
from gpuemu_lsp.engine.emulator.llvm.ir_tools import I32, Value, i32

_WORD_STRIDES = (2, 4, 8)
"""Strides in bytes that are the size of an integer vector element."""


class ContiguousAccess(BaseAddressForm):
    """Consecutive lanes access consecutive elements, or groups of them (``.v2``, ``.v4``): one vector per row."""

    @property
    def needs_all_lanes(self) -> bool:
        """Whether a store must be executed by all lanes.

        Masked stores of 8- and 16-bit elements need AVX512BW; without it LLVM expands them to a branch per element.
        Rows of several elements per lane would need an interleaved mask. Both are rare: they take the slow path.
        """
        return len(self.access.items) > 1 or self.access.size < 4

    @staticmethod
    def extent(e: Emitter, access: LoadStore) -> int:
        """See :class:`.BaseAddressForm`."""
        return access.total * e.lanes * (1 if access.shape.per_part else e.parts)

    def address_of_part(self, part: int) -> tuple[Value, int]:
        """Return (pointer, byte offset) of the first lane of a part."""
        return self.of_part(self.addresses, part)

    def of_part(self, addresses: list[tuple[Value, int]], part: int) -> tuple[Value, int]:
        """Return the address of a part, given the addresses of the bases."""
        if self.access.shape.per_part:
            return addresses[part]
        base, offset = addresses[0]
        return base, offset + part * self.e.lanes * self.access.total

    def allowed(self) -> Value:
        """See :class:`.AccessForm`."""
        e, b = self.e, self.e.builder
        refused = []
        shadowed = self.shadowed
        row = ir.VectorType(ir.IntType(self.access.total * 8), e.lanes)
        for part in self.parts:
            # One integer per lane, as wide as its whole access: four shadow bytes of a float, sixteen of a float4.
            base, offset = self.of_part(shadowed, part)
            bad = self.refused(t.load(b, base, offset + SHADOW_OFFSET, row, 1))
            mask = e.active(part)
            refused.append(bad if mask is None else b.and_(bad, mask))
        result = b.and_(b.not_(e.any_lane(refused)), self.unreplaced(shadowed))
        if self.access.store and self.needs_all_lanes and e.active(0) is not None:
            result = b.and_(result, b.icmp_unsigned("==", e.active_mask(), i32(-1)))
        return result

    def right_for_any_mask(self) -> bool:
        """See :class:`.AccessForm`."""
        return not (self.access.store and self.needs_all_lanes and self.e.active(0) is not None)

    def execute(self) -> list[list[Value]]:
        """See :class:`.AccessForm`."""
        if self.access.store:
            for part in self.parts:
                self._store(part)
            return []
        # Loads are not masked: the bytes of inactive lanes lie in mapped memory, and their values are not used.
        loaded = [self._load(part) for part in self.parts]
        return [list(column) for column in zip(*loaded, strict=True)]

    def _load(self, part: int) -> list[Value]:
        e = self.e
        base, offset = self.address_of_part(part)
        # All elements of a part are consecutive in memory: whole rows and shuffles, instead of a gather per element.
        count = len(self.access.items)
        row = ir.VectorType(self.element_type, e.lanes)
        width = e.lanes * self.access.size
        return deinterleave(e, [t.load(e.builder, base, offset + i * width, row, align=1) for i in range(count)])

    def _store(self, part: int) -> None:
        e, b, access = self.e, self.e.builder, self.access
        base, offset = self.address_of_part(part)
        bits = f"b{access.size * 8}"
        values = [e.vector_operand(item, bits, part) for item in access.items]
        # If all lanes are needed, the check has ensured that they are active.
        mask = None if self.needs_all_lanes else e.active(part)
        width = e.lanes * access.size
        row = ir.VectorType(self.element_type, e.lanes)
        mark = t.splat(b, ir.Constant(self.element_type, self.repeated(STORED, access.size)), e.lanes)
        for i, value in enumerate(interleave(e, values)):
            target = t.at(b, base, offset + i * width)
            # The shadow has the layout of the data, so that it is marked by the same rows under the same mask.
            shadow = t.at(b, base, offset + i * width + SHADOW_OFFSET)
            for stored, pointer in ((value, target), (mark, shadow)) if self.updates_shadow else ((value, target),):
                if mask is None:
                    b.store(stored, pointer, align=1)
                else:
                    name = f"llvm.masked.store.{t.mangled(row)}.p0"
                    t.intrinsic(b, name, t.VOID, [stored, pointer, i32(1), mask])


class StridedLoad(BaseAddressForm):
    """A load with a stride of 2, 4 or 8 bytes and narrower elements: one vector of wider integers, truncated.

    The bytes between the elements are loaded and dropped; their shadow bytes are not tested. A contiguous vector load
    and a truncation are cheaper than a gather.
    """

    @staticmethod
    def supports(access: LoadStore) -> bool:
        """Return whether an access has this form."""
        shape = access.shape
        return not access.store and len(access.items) == 1 and shape.step in _WORD_STRIDES and access.size < shape.step

    @staticmethod
    def extent(e: Emitter, access: LoadStore) -> int:
        """See :class:`.BaseAddressForm`."""
        lanes = e.lanes * (1 if access.shape.per_part else e.parts)
        return access.shape.step * (lanes - 1) + access.size

    def allowed(self) -> Value:
        """See :class:`.AccessForm`."""
        e, b = self.e, self.e.builder
        refused = []
        shadowed = self.shadowed
        for part in self.parts:
            # Truncated like the data: what is left are the shadow bytes of the elements.
            bad = self.refused(self._load(shadowed, part, SHADOW_OFFSET))
            mask = e.active(part)
            refused.append(bad if mask is None else b.and_(bad, mask))
        return b.and_(b.not_(e.any_lane(refused)), self.unreplaced(shadowed))

    def execute(self) -> list[list[Value]]:
        """See :class:`.AccessForm`."""
        return [[self._load(self.addresses, part, 0) for part in self.parts]]

    def _load(self, addresses: list[tuple[Value, int]], part: int, displacement: int) -> Value:
        e, step = self.e, self.access.shape.step
        base, offset = addresses[part if self.access.shape.per_part else 0]
        if not self.access.shape.per_part:
            offset += part * e.lanes * step
        row = ir.VectorType(ir.IntType(8 * step), e.lanes)
        wide = t.load(e.builder, base, offset + displacement, row, align=1)
        return e.builder.trunc(wide, ir.VectorType(self.element_type, e.lanes))


# ---- rows of interleaved elements ------------------------------------------------------------------------------------


def deinterleave(e: Emitter, rows: list[Value]) -> list[Value]:
    """Split rows of interleaved elements (x0 y0 x1 y1 ...) into one vector per element."""
    if len(rows) == 1:
        return rows
    halves = [_deinterleave_pair(e, rows[i], rows[i + 1], len(rows)) for i in range(0, len(rows), 2)]
    if len(rows) == 2:
        return list(halves[0])
    # Four rows: each pair of them has given (elements 0 and 1) and (elements 2 and 3) of one half of the lanes.
    lanes = e.lanes
    low, high = range(lanes // 2), range(lanes // 2, lanes)
    result = []
    for pair in range(2):
        for half in (low, high):
            index = [*half, *(lane + lanes for lane in half)]
            result.append(_shuffle(e, halves[0][pair], halves[1][pair], index))
    return result


def _deinterleave_pair(e: Emitter, first: Value, second: Value, count: int) -> tuple[Value, Value]:
    lanes = e.lanes
    if count == 2:
        even = range(0, 2 * lanes, 2)
        return _shuffle(e, first, second, even), _shuffle(e, first, second, [i + 1 for i in even])
    # Two of four rows hold lanes / 2 quadruples: collect their elements 0 and 1, and 2 and 3.
    quads = range(0, 2 * lanes, 4)
    index = [[i + k for i in quads] for k in range(4)]
    return _shuffle(e, first, second, index[0] + index[1]), _shuffle(e, first, second, index[2] + index[3])


def interleave(e: Emitter, values: list[Value]) -> list[Value]:
    """Interleave one vector per element into rows, the inverse of :func:`deinterleave`."""
    count, lanes = len(values), e.lanes
    if count == 1:
        return values
    if count == 2:
        order = [k for lane in range(lanes) for k in (lane, lane + lanes)]
        return [_shuffle(e, values[0], values[1], order[:lanes]), _shuffle(e, values[0], values[1], order[lanes:])]
    pairs = [interleave(e, values[:2]), interleave(e, values[2:])]
    result = []
    for row in range(2):
        first, second = pairs[0][row], pairs[1][row]
        order = [k for lane in range(0, lanes, 2) for k in (lane, lane + 1, lane + lanes, lane + lanes + 1)]
        result += [_shuffle(e, first, second, order[:lanes]), _shuffle(e, first, second, order[lanes:])]
    return result


def _shuffle(e: Emitter, first: Value, second: Value, index: Sequence[int]) -> Value:
    return e.builder.shuffle_vector(first, second, ir.Constant(ir.VectorType(I32, len(index)), list(index)))
