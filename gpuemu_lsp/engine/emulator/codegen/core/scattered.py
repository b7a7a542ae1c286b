"""The form of an access in which every lane has an address of its own: gathers and scatters."""

from __future__ import annotations

from llvmlite import ir

from gpuemu_lsp.engine.emulator.abi.memory import MAX_DISPLACEMENT, SHADOW_OFFSET, STORED
from gpuemu_lsp.engine.emulator.abi.structs import Warp
from gpuemu_lsp.engine.emulator.codegen.core.access_forms import Form
from gpuemu_lsp.engine.emulator.codegen.core.addresses import (
    Access,
    address_scalar,
    address_vector,
    bounds,
    lies_in,
    readable,
)
from gpuemu_lsp.engine.emulator.codegen.core.emitter import Emitter
from gpuemu_lsp.engine.emulator.llvm import ir_tools as t
from gpuemu_lsp.engine.emulator.llvm.ir_tools import I1, I32, I64, Value, i32, i64
from gpuemu_lsp.engine.ptx.model import Address


class Scattered(Form):
    """Every lane has its own address: gathers and scatters relative to the start of the arena."""

    def __init__(self, e: Emitter, access: Access) -> None:
        super().__init__(e, access, range(e.parts))
        b = e.builder
        self.reachable: list[Value] = []
        self.index: list[Value] = []
        space = "shared" if access.space == "shared" else "local" if access.space == "local" else "global"
        for part in self.parts:
            inside, near = self._local(part) if space == "local" else self._near(part, space)
            mask = e.active(part)
            if not e.unit.checked:  # inactive lanes may point anywhere, and still are not looked at
                inside = t.splat(b, ir.Constant(I1, 1), e.lanes) if mask is None else mask
            self.reachable.append(inside if mask is None else b.and_(inside, mask))
            index = b.trunc(near, ir.VectorType(I32, e.lanes))
            self.index.append(b.sext(index, ir.VectorType(I64, e.lanes)))

    def _near(self, part: int, space: str) -> tuple[Value, Value]:
        """Return whether lanes are in (or near) their window and aligned, and offsets from ``NEAR`` below the window.

        As in ``_inside``; all constants are folded into one, which is spread once per function.
        """
        e, b, access = self.e, self.e.builder, self.access
        low = i64(0) if space == "shared" else bounds(e, space)[0]
        shift = access.address.offset + MAX_DISPLACEMENT

        def origin(pre: ir.IRBuilder) -> Value:
            return t.splat(pre, pre.sub(i64(shift), low), e.lanes)

        bits = access.total.bit_length() - 1
        size = bounds(e, space)[1]

        def limit(pre: ir.IRBuilder) -> Value:
            return t.splat(pre, pre.lshr(pre.add(size, i64(2 * MAX_DISPLACEMENT)), i64(bits)), e.lanes)

        plain = address_vector(e, Address(access.address.base, 0), part)
        near = b.add(plain, e.hoisted(f"origin/{space}/{shift}", origin))
        self.base = e.hoisted(f"base/{space}", lambda pre: pre.sub(bounds(e, space)[0], i64(MAX_DISPLACEMENT)))
        turned = t.unary_intrinsic(b, "fshr", near, near, t.splat(b, i64(bits), e.lanes)) if bits else near
        return b.icmp_unsigned("<", turned, e.hoisted(f"limits/{space}/{bits}", limit)), near

    def _local(self, part: int) -> tuple[Value, Value]:
        """Return whether lanes are in their frame and aligned, and offsets from the frame of lane 0."""
        e, b = self.e, self.e.builder
        self.base = e.record_field("local", "context", Warp.LOCAL)
        window = address_vector(e, self.access.address, part)
        frame = max(e.unit.program.local_bytes, 1)
        starts = [frame * (part * e.lanes + lane) for lane in range(e.lanes)]
        # Frames lie side by side: nothing unaddressable is between them, so the limit is exact.
        inside = _local_inside(e, window, self.access.total)
        return inside, b.add(window, ir.Constant(ir.VectorType(I64, e.lanes), starts))

    def known(self) -> Value | None:
        """See :class:`Form`."""
        e, b = self.e, self.e.builder
        buffer = readable(e, self.access)
        if buffer is None:
            return None
        if self._stepping:
            return self._from_first_to_last(buffer)
        out = []
        for part in self.parts:
            address, mask = address_vector(e, self.access.address, part), e.active(part)
            bad = b.not_(lies_in(e, address, buffer, self.access.total, self.access.total))
            out.append(bad if mask is None else b.and_(bad, mask))
        return b.not_(e.any_lane(out))

    @property
    def _stepping(self) -> bool:
        """Return whether lanes are a constant number of elements apart."""
        shape = self.access.shape
        return not shape.varying and shape.step % self.access.total == 0

    def _from_first_to_last(self, buffer: tuple[Value, Value]) -> Value:
        """Return whether the places of all lanes, and what lies between them, are in a buffer."""
        e, b, access = self.e, self.e.builder, self.access
        pieces = self.parts if access.shape.per_part else range(1)
        span = access.shape.step * (e.lanes * (e.parts // len(pieces)) - 1)
        result = None
        for part in pieces:
            first = b.add(address_scalar(e, access.address, part, first_lane=False), i64(min(span, 0)))
            one = lies_in(e, first, buffer, access.total, abs(span) + access.total)
            result = one if result is None else b.and_(result, one)
        return result

    def _pointers(self, part: int, extra: int) -> Value:
        return t.pointers(self.e.builder, t.at(self.e.builder, self.base, extra), self.index[part])

    def _gather(self, part: int, extra: int, type_: ir.IntType) -> Value:
        e, b = self.e, self.e.builder
        vector = ir.VectorType(type_, e.lanes)
        mask = self.reachable[part]
        if type_.width >= 32:
            pointers = self._pointers(part, extra)
            name = f"llvm.masked.gather.{t.mangled(vector)}.v{e.lanes}p0"
            return t.intrinsic(b, name, vector, [pointers, i32(1), mask, ir.Constant(vector, None)])
        # There is no gather of less than 32 bits: take the aligned word around it, which lies in the arena too.
        words = ir.VectorType(I32, e.lanes)
        wide = ir.VectorType(I64, e.lanes)
        place = b.add(self.index[part], t.splat(b, i64(extra), e.lanes)) if extra % 4 else self.index[part]
        aligned = b.and_(place, t.splat(b, i64(-4), e.lanes))
        pointers = t.pointers(b, t.at(b, self.base, 0 if extra % 4 else extra), aligned)
        name = f"llvm.masked.gather.{t.mangled(words)}.v{e.lanes}p0"
        word = t.intrinsic(b, name, words, [pointers, i32(1), mask, ir.Constant(words, None)])
        shift = b.shl(b.and_(place, t.splat(b, i64(3), e.lanes)), t.splat(b, i64(3), e.lanes))
        return b.trunc(b.lshr(b.zext(word, wide), shift), vector)

    def _elements(self) -> list[tuple[int, ir.IntType]]:
        """Return (byte offset, type) of the pieces one lane's bytes are looked at in."""
        total = self.access.total
        size = min(total, 8)
        return [(offset, ir.IntType(size * 8)) for offset in range(0, total, size)]

    def allowed(self) -> Value:
        """See :class:`Form`."""
        e, b = self.e, self.e.builder
        refused = []
        for part in self.parts:
            mask = e.active(part)
            for offset, type_ in self._elements():
                # A lane that cannot be reached is not gathered: its shadow is zero, and that is refused.
                bad = self.refused(self._gather(part, SHADOW_OFFSET + offset, type_))
                refused.append(bad if mask is None else b.and_(bad, mask))
        return b.not_(e.any_lane(refused))

    def run(self) -> list[list[Value]]:
        """See :class:`Form`."""
        access = self.access
        if access.store:
            for part in self.parts:
                self._scatter(part)
            return []
        if access.size < 4 and len(access.items) > 1:
            return self._split()
        return [
            [self._gather(part, index * access.size, self.integer()) for part in self.parts]
            for index in range(len(access.items))
        ]

    def _split(self) -> list[list[Value]]:
        """Load several narrow elements as wider words, and take these apart."""
        e, b, access = self.e, self.e.builder, self.access
        narrow = ir.VectorType(self.integer(), e.lanes)
        columns: list[list[Value]] = [[] for _ in access.items]
        for part in self.parts:
            for offset, type_ in self._elements():
                word = self._gather(part, offset, type_)
                for k in range(type_.width // (access.size * 8)):
                    amount = t.splat(b, ir.Constant(type_, k * access.size * 8), e.lanes)
                    value = b.trunc(b.lshr(word, amount), narrow) if type_.width > access.size * 8 else word
                    columns[offset // access.size + k].append(value)
        return columns

    def _scatter(self, part: int) -> None:
        e, b, access = self.e, self.e.builder, self.access
        mask = e.active(part)
        if mask is None:
            mask = t.splat(b, ir.Constant(I1, 1), e.lanes)
        mark = t.splat(b, ir.Constant(self.integer(), self.pattern(STORED, access.size)), e.lanes)
        for index, item in enumerate(access.items):
            value = e.vector_operand(item, f"b{access.size * 8}", part)
            name = f"llvm.masked.scatter.{t.mangled(value.type)}.v{e.lanes}p0"
            offset = index * access.size
            t.intrinsic(b, name, t.VOID, [value, self._pointers(part, offset), i32(1), mask])
            if self.mark():
                t.intrinsic(b, name, t.VOID, [mark, self._pointers(part, offset + SHADOW_OFFSET), i32(1), mask])


def _local_inside(e: Emitter, window: Value, total: int) -> Value:
    b = e.builder
    frame = max(e.unit.program.local_bytes, 1)
    bits = total.bit_length() - 1
    value = window
    if bits:
        value = t.unary_intrinsic(b, "fshr", window, window, t.splat(b, i64(bits), e.lanes))
    return b.icmp_unsigned("<", value, t.splat(b, i64(frame >> bits), e.lanes))
