"""The forms an access can take: all lanes at one address, or at neighbouring ones.

Each has a short check of its own: do the shadow bytes allow the access for every active lane?
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence

from llvmlite import ir

from gpuemu_lsp.engine.emulator.abi.memory import READABLE, SHADOW_OFFSET, STORE_MASK, STORED, Shadow
from gpuemu_lsp.engine.emulator.abi.structs import Warp
from gpuemu_lsp.engine.emulator.codegen.core.addresses import Access, lane_bits, lies_in, raw_host, readable, safe_host
from gpuemu_lsp.engine.emulator.codegen.core.emitter import Emitter
from gpuemu_lsp.engine.emulator.codegen.core.interleave import columns, rows
from gpuemu_lsp.engine.emulator.llvm import ir_tools as t
from gpuemu_lsp.engine.emulator.llvm.ir_tools import I1, I32, I64, Value, i32, i64
from gpuemu_lsp.engine.ptx.model import Operand


class Form(ABC):
    """How one access is done when its checks pass.

    ``allowed`` looks at the shadow and gives an i1 that is true when all is well; ``run`` does the access and returns,
    for a load, one value per (item, part).
    """

    def __init__(self, e: Emitter, access: Access, parts: Sequence[int]) -> None:
        self.e, self.access, self.parts = e, access, parts

    def known(self) -> Value | None:
        """Return whether the access is allowed as far as can be told without its shadow; None if nothing can."""
        return None

    @abstractmethod
    def allowed(self) -> Value:
        """Return whether the shadow allows the access, as an i1."""

    @abstractmethod
    def run(self) -> list[list[Value]]:
        """Do the access; return what a load gives, one value per (element, part)."""

    def unconditional(self) -> bool:
        """Return whether ``run`` is right whichever lanes are active, if only addresses are."""
        return True

    def mark(self) -> bool:
        """Return whether ``run`` notes what it has written."""
        return self.e.unit.checked

    def integer(self) -> ir.IntType:
        """Return the type of one element as bits."""
        return ir.IntType(self.access.size * 8)

    def pattern(self, byte: int, size: int) -> int:
        """Return ``size`` equal bytes as a number."""
        return int.from_bytes(bytes([byte]) * size, "little")

    def refused(self, shadow: Value) -> Value:
        """Return i1 (or a vector of them): whether shadow bits, loaded as integers, forbid the access."""
        b = self.e.builder
        vector = isinstance(shadow.type, ir.VectorType)
        scalar = shadow.type.element if vector else shadow.type

        def make(value: Value) -> Value:
            return t.splat(b, value, self.e.lanes) if vector else value

        size = scalar.width // 8
        if self.access.store:
            mask, wanted = self.pattern(STORE_MASK, size), self.pattern(Shadow.ADDRESSABLE, size)
        else:
            mask = wanted = self.pattern(READABLE, size)
        seen = b.and_(shadow, make(ir.Constant(scalar, mask)))
        return b.icmp_unsigned("!=", seen, make(ir.Constant(scalar, wanted)))


class Based(Form):
    """One address, or one per part, says where all lanes are."""

    def __init__(self, e: Emitter, access: Access) -> None:
        super().__init__(e, access, range(e.parts))
        self.pieces = range(e.parts if access.shape.per_part else 1)
        self.hosts = [raw_host(e, access, part) for part in self.pieces]

    @property
    def safe(self) -> list[tuple[Value, int]]:
        """Return (base, byte offset) per piece: where nothing may be looked at, of a place where nothing is allowed."""
        return [safe_host(self.e, self.access, part) for part in self.pieces]

    def within_reach(self, safe: list[tuple[Value, int]]) -> Value:
        """Return whether the place may be looked at: lanes that are not active may have led a whole part anywhere."""
        e, b = self.e, self.e.builder
        result = ir.Constant(I1, 1)
        for piece, ((base, offset), (other, rest)) in enumerate(zip(self.hosts, safe, strict=True)):
            if e.active(piece) is not None:
                address, known = b.ptrtoint(base, I64), b.ptrtoint(other, I64)
                same = b.icmp_unsigned("==", b.add(address, i64(offset - rest)), known)
                result = b.and_(result, same)
        return result

    @staticmethod
    @abstractmethod
    def reach(e: Emitter, access: Access) -> int:
        """Return the bytes from one address on that are moved."""

    def known(self) -> Value | None:
        """See :class:`Form`."""
        buffer = readable(self.e, self.access)
        if buffer is None:
            return None
        b = self.e.builder
        result = None
        for base, offset in self.hosts:
            address = b.add(b.ptrtoint(base, I64), i64(offset))
            one = lies_in(self.e, address, buffer, self.access.total, self.reach(self.e, self.access))
            result = one if result is None else b.and_(result, one)
        return result


class Single(Based):
    """All lanes (or all lanes of each part) use one address."""

    @staticmethod
    def reach(e: Emitter, access: Access) -> int:
        """See :class:`Based`."""
        return access.total

    def allowed(self) -> Value:
        """See :class:`Form`."""
        b = self.e.builder
        type_ = ir.IntType(self.access.total * 8)
        result = None
        for part, (host, offset) in enumerate(self.safe):
            bad = self.refused(t.load(b, host, offset + SHADOW_OFFSET, type_, align=1))
            if self.access.store and (len(self.hosts) > 1 or self.e.is_guarded):
                # Where no lane is active nothing must be stored: such a part, rare, goes the slow way.
                bad = b.or_(bad, b.icmp_unsigned("==", self.lanes(part), i32(0)))
            result = bad if result is None else b.or_(result, bad)
        return b.not_(result)

    def unconditional(self) -> bool:
        """See :class:`Form`."""
        return not self.access.store or not (len(self.hosts) > 1 or self.e.is_guarded)

    def lanes(self, part: int) -> Value:
        """Return the active lanes that use one of the addresses."""
        lanes = self.e.active_mask()
        return self.e.builder.and_(lanes, i32(lane_bits(self.e, [part]))) if len(self.hosts) > 1 else lanes

    def run(self) -> list[list[Value]]:
        """See :class:`Form`."""
        b, access = self.e.builder, self.access
        columns: list[list[Value]] = [[] for _ in access.items]
        for part, (host, offset) in enumerate(self.hosts):
            for index, item in enumerate(access.items):
                place = offset + index * access.size
                if access.store:
                    t.store(b, self._last(item, part), host, place, align=1)
                else:
                    columns[index].append(t.load(b, host, place, self.integer(), align=1))
            if access.store and self.mark():
                mark = ir.Constant(ir.IntType(access.total * 8), self.pattern(STORED, access.total))
                t.store(b, mark, host, offset + SHADOW_OFFSET, align=1)
        return [] if access.store else columns

    def agree(self, item: Operand) -> bool:
        """Return whether all lanes that use one of the addresses store the same value."""
        shape = self.e.shape(item)
        return shape.part_uniform and (not shape.per_part or len(self.hosts) > 1)

    def _last(self, item: Operand, part: int) -> Value:
        """Return the value of the highest active lane: of lanes that store to one place, any may win."""
        e, b = self.e, self.e.builder
        bits = f"b{self.access.size * 8}"
        if self.agree(item):
            return e.scalar_operand(item, bits, part)
        for other in [part] if len(self.hosts) > 1 else self.parts:
            value = e.vector_operand(item, bits, other)
            t.store(b, value, e.context, Warp.VALUES + other * e.lanes * self.access.size, align=1)
        highest = b.sub(i32(31), t.intrinsic(b, "llvm.ctlz.i32", I32, [self.lanes(part), ir.Constant(I1, 0)]))
        offset = b.add(b.mul(b.zext(highest, I64), i64(self.access.size)), i64(Warp.VALUES))
        return t.load(b, e.context, offset, self.integer(), align=1)


class Row(Based):
    """Neighbouring lanes use neighbouring addresses."""

    @property
    def whole(self) -> bool:
        """Return whether a store must be done by all lanes: there is no cheap masked one of such elements."""
        return len(self.access.items) > 1 or self.access.size < 4

    @staticmethod
    def reach(e: Emitter, access: Access) -> int:
        """See :class:`Based`."""
        return access.total * e.lanes * (1 if access.shape.per_part else e.parts)

    def place(self, part: int) -> tuple[Value, int]:
        """Return base and byte offset of a part."""
        return self.in_part(self.hosts, part)

    def in_part(self, hosts: list[tuple[Value, int]], part: int) -> tuple[Value, int]:
        """Return base and byte offset of a part, by those of the pieces."""
        if self.access.shape.per_part:
            return hosts[part]
        base, offset = hosts[0]
        return base, offset + part * self.e.lanes * self.access.total

    def allowed(self) -> Value:
        """See :class:`Form`."""
        e, b = self.e, self.e.builder
        refused = []
        safe = self.safe
        for part in self.parts:
            base, offset = self.in_part(safe, part)
            shadow = t.load(
                b, base, offset + SHADOW_OFFSET, ir.VectorType(ir.IntType(self.access.total * 8), e.lanes), 1
            )
            bad = self.refused(shadow)
            mask = e.active(part)
            refused.append(bad if mask is None else b.and_(bad, mask))
        result = b.and_(b.not_(e.any_lane(refused)), self.within_reach(safe))
        if self.access.store and self.whole and e.active(0) is not None:
            # Elements narrower than a lane of the vector unit, or several per lane, have no cheap masked store.
            result = b.and_(result, b.icmp_unsigned("==", e.active_mask(), i32(-1)))
        return result

    def unconditional(self) -> bool:
        """See :class:`Form`."""
        return not (self.access.store and self.whole and self.e.active(0) is not None)

    def run(self) -> list[list[Value]]:
        """See :class:`Form`."""
        if self.access.store:
            for part in self.parts:
                self._store(part)
            return []
        rows = [self._load(part) for part in self.parts]
        return [list(column) for column in zip(*rows, strict=True)]

    def _load(self, part: int) -> list[Value]:
        e = self.e
        base, offset = self.place(part)
        count = len(self.access.items)
        row = ir.VectorType(self.integer(), e.lanes)
        width = e.lanes * self.access.size
        pieces = [t.load(e.builder, base, offset + i * width, row, align=1) for i in range(count)]
        return columns(e, pieces)

    def _store(self, part: int) -> None:
        e, b, access = self.e, self.e.builder, self.access
        base, offset = self.place(part)
        bits = f"b{access.size * 8}"
        values = [e.vector_operand(item, bits, part) for item in access.items]
        mask = None if self.whole else e.active(part)
        width = e.lanes * access.size
        byte = ir.VectorType(self.integer(), e.lanes)
        mark = t.splat(b, ir.Constant(self.integer(), self.pattern(STORED, access.size)), e.lanes)
        for i, value in enumerate(rows(e, values)):
            place = t.at(b, base, offset + i * width)
            shadow = t.at(b, base, offset + i * width + SHADOW_OFFSET)
            for what, where in ((value, place), (mark, shadow)) if self.mark() else ((value, place),):
                if mask is None:
                    b.store(what, where, align=1)
                else:
                    name = f"llvm.masked.store.{t.mangled(byte)}.p0"
                    t.intrinsic(b, name, t.VOID, [what, where, i32(1), mask])
