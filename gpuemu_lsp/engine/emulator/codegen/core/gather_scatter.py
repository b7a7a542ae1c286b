"""The access form in which every lane has its own address: gathers and scatters."""

from __future__ import annotations

from llvmlite import ir

from gpuemu_lsp.engine.emulator.abi.memory import MAX_DISPLACEMENT, SHADOW_OFFSET, STORED
from gpuemu_lsp.engine.emulator.abi.structs import Warp
from gpuemu_lsp.engine.emulator.codegen.core.access_forms import AccessForm
from gpuemu_lsp.engine.emulator.codegen.core.addresses import (
    LoadStore,
    address_scalar,
    address_vector,
    lies_in_buffer,
    readable_buffer,
    window_bounds,
    window_name,
)
from gpuemu_lsp.engine.emulator.codegen.core.emitter import Emitter
from gpuemu_lsp.engine.emulator.llvm import gathers
from gpuemu_lsp.engine.emulator.llvm import ir_tools as t
from gpuemu_lsp.engine.emulator.llvm.ir_tools import I32, I64, Value, i64
from gpuemu_lsp.engine.ptx.model import Address


class GatherScatter(AccessForm):
    """Lane-wise addresses as indices from a scalar base, of 32 bits if these suffice: the operands of x86 gathers."""

    def __init__(self, e: Emitter, access: LoadStore) -> None:
        super().__init__(e, access, range(e.parts))
        b = e.builder
        self.reachable: list[Value] = []
        self.index: list[Value] = []
        space = "shared" if access.space == "shared" else "local" if access.space == "local" else "global"
        for part in self.parts:
            inside, offset = self._local(part) if space == "local" else self._near_window(part, space)
            mask = e.active(part)
            if not e.unit.checked:
                # Without checks all active lanes are trusted; inactive ones may hold any address even then.
                inside = gathers.all_lanes(b, e.lanes) if mask is None else mask
            self.reachable.append(inside if mask is None else b.and_(inside, mask))
            if e.unit.wide and space == "global":
                self.index.append(offset)
                continue
            # This arena is smaller than 2 GiB.
            self.index.append(gathers.index_vector(b, b.trunc(offset, ir.VectorType(I32, e.lanes))))

    def _near_window(self, part: int, space: str) -> tuple[Value, Value]:
        """Return whether lanes are near their window and aligned, and offsets from ``MAX_DISPLACEMENT`` below it.

        The test is that of :func:`.addresses.shadowed_address`. All constants fold into one vector per function.
        """
        e, b, access = self.e, self.e.builder, self.access
        low = i64(0) if space == "shared" else window_bounds(e, space)[0]
        shift = access.address.offset + MAX_DISPLACEMENT

        def origin(pre: ir.IRBuilder) -> Value:
            return t.splat(pre, pre.sub(i64(shift), low), e.lanes)

        bits = access.total.bit_length() - 1
        size = window_bounds(e, space)[1]

        def limit(pre: ir.IRBuilder) -> Value:
            return t.splat(pre, pre.lshr(pre.add(size, i64(2 * MAX_DISPLACEMENT)), i64(bits)), e.lanes)

        # The constant offset is part of the hoisted vector: loads at many offsets share the address vector.
        plain = address_vector(e, Address(access.address.base, 0), part)
        window = window_name(e, space)
        near = b.add(plain, e.hoisted(f"origin/{window}/{shift}", origin))
        self.base = e.hoisted(f"base/{window}", lambda pre: pre.sub(window_bounds(e, space)[0], i64(MAX_DISPLACEMENT)))
        rotated = t.unary_intrinsic(b, "fshr", near, near, t.splat(b, i64(bits), e.lanes)) if bits else near
        return b.icmp_unsigned("<", rotated, e.hoisted(f"limits/{window}/{bits}", limit)), near

    def _local(self, part: int) -> tuple[Value, Value]:
        """Return whether lanes are in their frame and aligned, and offsets from the frame of lane 0."""
        e, b = self.e, self.e.builder
        self.base = e.record_field("local", "context", Warp.LOCAL)
        window = address_vector(e, self.access.address, part)
        frame = max(e.unit.program.local_bytes, 1)
        starts = [frame * (part * e.lanes + lane) for lane in range(e.lanes)]
        # Frames are adjacent, without unaddressable bytes between them: the limit must be exact.
        inside = _in_local_frame(e, window, self.access.total)
        return inside, b.add(window, ir.Constant(ir.VectorType(I64, e.lanes), starts))

    def in_readable_buffer(self) -> Value | None:
        """See :class:`.AccessForm`."""
        e, b = self.e, self.e.builder
        buffer = readable_buffer(e, self.access)
        if buffer is None:
            return None
        if self._is_affine:
            return self._first_to_last_in_buffer(buffer)
        # Inactive lanes may hold any address.
        out = []
        for part in self.parts:
            address, mask = address_vector(e, self.access.address, part), e.active(part)
            bad = b.not_(lies_in_buffer(e, address, buffer, self.access.total, self.access.total))
            out.append(bad if mask is None else b.and_(bad, mask))
        return b.not_(e.any_lane(out))

    @property
    def _is_affine(self) -> bool:
        """Whether the stride is a multiple of the access's size, so that the lanes are aligned alike."""
        shape = self.access.shape
        return not shape.varying and shape.step % self.access.total == 0

    def _first_to_last_in_buffer(self, buffer: tuple[Value, Value]) -> Value:
        """Return whether the range from the first to the last lane's address is inside a buffer: a scalar test."""
        e, b, access = self.e, self.e.builder, self.access
        base_parts = self.parts if access.shape.per_part else range(1)
        span = access.shape.step * (e.lanes * (e.parts // len(base_parts)) - 1)
        result = None
        for part in base_parts:
            # With a negative stride the last lane has the lowest address.
            first = b.add(address_scalar(e, access.address, part), i64(min(span, 0)))
            one = lies_in_buffer(e, first, buffer, access.total, abs(span) + access.total)
            result = one if result is None else b.and_(result, one)
        return result

    def _gather(self, part: int, displacement: int, type_: ir.IntType) -> Value:
        """Gather one integer per reachable lane; the others hold zero."""
        e, b = self.e, self.e.builder
        vector = ir.VectorType(type_, e.lanes)
        mask = self.reachable[part]
        if type_.width >= 32:
            return gathers.gather(b, vector, t.at(b, self.base, displacement), self.index[part], mask)
        # x86 gathers 32 or 64 bits: load the aligned word around the element, which lies in the arena too, and shift.
        words = ir.VectorType(I32, e.lanes)
        wide = ir.VectorType(I64, e.lanes)
        index, unaligned = gathers.wide_index(b, self.index[part]), displacement % 4
        position = b.add(index, t.splat(b, i64(displacement), e.lanes)) if unaligned else index
        aligned = b.and_(position, t.splat(b, i64(-4), e.lanes))
        word = gathers.gather(b, words, t.at(b, self.base, 0 if unaligned else displacement), aligned, mask)
        shift = b.shl(b.and_(position, t.splat(b, i64(3), e.lanes)), t.splat(b, i64(3), e.lanes))
        return b.trunc(b.lshr(b.zext(word, wide), shift), vector)

    def _pieces(self) -> list[tuple[int, ir.IntType]]:
        """Return (byte offset, type) of the integers that cover the bytes of one lane."""
        total = self.access.total
        size = min(total, 8)
        return [(offset, ir.IntType(size * 8)) for offset in range(0, total, size)]

    def allowed(self) -> Value:
        """See :class:`.AccessForm`."""
        e, b = self.e, self.e.builder
        refused = []
        for part in self.parts:
            mask = e.active(part)
            for offset, type_ in self._pieces():
                # The shadow of an unreachable lane is not gathered but zero, which refuses every access.
                bad = self.refused(self._gather(part, SHADOW_OFFSET + offset, type_))
                refused.append(bad if mask is None else b.and_(bad, mask))
        return b.not_(e.any_lane(refused))

    def execute(self) -> list[list[Value]]:
        """See :class:`.AccessForm`."""
        access = self.access
        if access.store:
            for part in self.parts:
                self._scatter(part)
            return []
        if access.size < 4 and len(access.items) > 1:
            return self._load_and_split()
        return [
            [self._gather(part, index * access.size, self.element_type) for part in self.parts]
            for index in range(len(access.items))
        ]

    def _load_and_split(self) -> list[list[Value]]:
        """Gather several narrow elements as wider integers, and extract the elements by shifts."""
        e, b, access = self.e, self.e.builder, self.access
        narrow = ir.VectorType(self.element_type, e.lanes)
        columns: list[list[Value]] = [[] for _ in access.items]
        for part in self.parts:
            for offset, type_ in self._pieces():
                word = self._gather(part, offset, type_)
                for k in range(type_.width // (access.size * 8)):
                    amount = t.splat(b, ir.Constant(type_, k * access.size * 8), e.lanes)
                    value = b.trunc(b.lshr(word, amount), narrow) if type_.width > access.size * 8 else word
                    columns[offset // access.size + k].append(value)
        return columns

    def _scatter(self, part: int) -> None:
        e, b, access = self.e, self.e.builder, self.access
        # By the active mask: a lane that is not reachable has failed the check, and this code does not run.
        mask = e.active(part)
        if mask is None:
            mask = gathers.all_lanes(b, e.lanes)
        mark = t.splat(b, ir.Constant(self.element_type, self.repeated(STORED, access.size)), e.lanes)
        for index, item in enumerate(access.items):
            value = e.vector_operand(item, f"b{access.size * 8}", part)
            # In lane order: of lanes with equal addresses the highest wins, as in a uniform store.
            offset = index * access.size
            gathers.scatter(b, value, t.at(b, self.base, offset), self.index[part], mask)
            if self.updates_shadow:
                gathers.scatter(b, mark, t.at(b, self.base, offset + SHADOW_OFFSET), self.index[part], mask)


def _in_local_frame(e: Emitter, window: Value, size: int) -> Value:
    b = e.builder
    frame = max(e.unit.program.local_bytes, 1)
    bits = size.bit_length() - 1
    rotated = t.unary_intrinsic(b, "fshr", window, window, t.splat(b, i64(bits), e.lanes)) if bits else window
    return b.icmp_unsigned("<", rotated, t.splat(b, i64(frame >> bits), e.lanes))
