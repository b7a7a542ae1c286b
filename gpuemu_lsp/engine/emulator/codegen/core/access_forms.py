"""Access forms: ways to execute a load or store of a warp, from one scalar access to a gather.

The shape of the address selects the form: uniform addresses need one scalar access (:class:`UniformAccess`), affine
ones with the stride of the element one vector access (:mod:`.contiguous`), all others gathers and scatters
(:mod:`.gather_scatter`). The check of a form is as wide as the access: it tests the shadow bytes of all active lanes at
once. If it fails, the device library executes the access lane by lane and reports and contains faults
(:mod:`.library_access`), so that a form itself handles none.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence

from llvmlite import ir

from gpuemu_lsp.engine.emulator.abi.memory import READABLE, SHADOW_OFFSET, STORE_MASK, STORED, Shadow
from gpuemu_lsp.engine.emulator.abi.structs import Warp
from gpuemu_lsp.engine.emulator.codegen.core.addresses import (
    LoadStore,
    host_address,
    lies_in_buffer,
    part_mask,
    readable_buffer,
    shadowed_address,
)
from gpuemu_lsp.engine.emulator.codegen.core.emitter import Emitter
from gpuemu_lsp.engine.emulator.llvm import ir_tools as t
from gpuemu_lsp.engine.emulator.llvm.ir_tools import I1, I32, I64, Value, i32, i64
from gpuemu_lsp.engine.ptx.model import Operand


class AccessForm(ABC):
    """One way to execute an access, with the check that must precede it."""

    def __init__(self, e: Emitter, access: LoadStore, parts: Sequence[int]) -> None:
        self.e, self.access, self.parts = e, access, parts

    def in_readable_buffer(self) -> Value | None:
        """Return whether the access lies in a buffer that is readable as a whole; None if there is no such guess.

        It costs no load of shadow bytes, and decides most loads of most kernels. False does not mean a fault.
        """
        return None

    @abstractmethod
    def allowed(self) -> Value:
        """Return whether the shadow bytes allow the access for all active lanes, as an i1."""

    @abstractmethod
    def execute(self) -> list[list[Value]]:
        """Write the access; return, for a load, a list of values (one per part) for each element.

        The value of an element is a scalar if one address serves the whole warp.
        """

    def right_for_any_mask(self) -> bool:
        """Return whether :meth:`execute` is right for every active mask, so that unchecked code needs no branch."""
        return True

    @property
    def updates_shadow(self) -> bool:
        """Whether a store must mark the bytes as initialised and written."""
        return self.e.unit.checked

    @property
    def element_type(self) -> ir.IntType:
        """The type of one element: its bits."""
        return ir.IntType(self.access.size * 8)

    def repeated(self, byte: int, size: int) -> int:
        """Return an integer of ``size`` equal bytes."""
        return int.from_bytes(bytes([byte]) * size, "little")

    def refused(self, shadow: Value) -> Value:
        """Return whether shadow bytes, loaded as an integer or as a vector of them, forbid the access."""
        b = self.e.builder
        vector = isinstance(shadow.type, ir.VectorType)
        scalar = shadow.type.element if vector else shadow.type

        def constant(value: Value) -> Value:
            return t.splat(b, value, self.e.lanes) if vector else value

        # All bytes of a lane in one integer comparison, whatever the size of its access.
        size = scalar.width // 8
        if self.access.store:
            mask, wanted = self.repeated(STORE_MASK, size), self.repeated(Shadow.ADDRESSABLE, size)
        else:
            mask = wanted = self.repeated(READABLE, size)
        seen = b.and_(shadow, constant(ir.Constant(scalar, mask)))
        return b.icmp_unsigned("!=", seen, constant(ir.Constant(scalar, wanted)))


class BaseAddressForm(AccessForm):
    """A form whose addresses are given by one base for the warp, or by one per part."""

    def __init__(self, e: Emitter, access: LoadStore) -> None:
        super().__init__(e, access, range(e.parts))
        # Computed in front of the check although only needed behind it: here the value dominates later accesses through
        # the same register, which use it again.
        self.base_parts = range(e.parts if access.shape.per_part else 1)
        self.addresses = [host_address(e, access, part) for part in self.base_parts]

    @property
    def shadowed(self) -> list[tuple[Value, int]]:
        """(pointer, byte offset) per base, replaced by unmapped memory where there are no shadow bytes."""
        return [shadowed_address(self.e, self.access, part) for part in self.base_parts]

    def unreplaced(self, shadowed: list[tuple[Value, int]]) -> Value:
        """Return whether no address was replaced by unmapped memory.

        Unmapped shadow refuses active lanes only. A part without active lanes passes although its base may point
        anywhere, outside the process's memory too, and must not be accessed: a vector load reads all lanes.
        """
        e, b = self.e, self.e.builder
        result = ir.Constant(I1, 1)
        for part, ((base, offset), (other, rest)) in enumerate(zip(self.addresses, shadowed, strict=True)):
            # With all lanes active a replaced address has been refused already.
            if e.active(part) is not None:
                address, checked = b.ptrtoint(base, I64), b.ptrtoint(other, I64)
                same = b.icmp_unsigned("==", b.add(address, i64(offset - rest)), checked)
                result = b.and_(result, same)
        return result

    @staticmethod
    @abstractmethod
    def extent(e: Emitter, access: LoadStore) -> int:
        """Return the number of bytes accessed from one base."""

    def in_readable_buffer(self) -> Value | None:
        """See :class:`AccessForm`."""
        buffer = readable_buffer(self.e, self.access)
        if buffer is None:
            return None
        b = self.e.builder
        result = None
        for base, offset in self.addresses:
            address = b.add(b.ptrtoint(base, I64), i64(offset))
            one = lies_in_buffer(self.e, address, buffer, self.access.total, self.extent(self.e, self.access))
            result = one if result is None else b.and_(result, one)
        return result


class UniformAccess(BaseAddressForm):
    """All lanes, or all lanes of each part, access one address: a scalar access, and a broadcast of what it loads."""

    @staticmethod
    def extent(e: Emitter, access: LoadStore) -> int:
        """See :class:`BaseAddressForm`."""
        return access.total

    @property
    def _needs_active_lane(self) -> bool:
        """Whether a base may have no active lane, so that a scalar store would write what no lane stores."""
        return self.access.store and (len(self.addresses) > 1 or self.e.is_guarded)

    def allowed(self) -> Value:
        """See :class:`AccessForm`."""
        b = self.e.builder
        type_ = ir.IntType(self.access.total * 8)
        result = None
        for part, (pointer, offset) in enumerate(self.shadowed):
            bad = self.refused(t.load(b, pointer, offset + SHADOW_OFFSET, type_, align=1))
            if self._needs_active_lane:
                # Rare, so that the lane-by-lane fallback, which does nothing without lanes, serves as the branch.
                bad = b.or_(bad, b.icmp_unsigned("==", self.lanes(part), i32(0)))
            result = bad if result is None else b.or_(result, bad)
        return b.not_(result)

    def right_for_any_mask(self) -> bool:
        """See :class:`AccessForm`."""
        return not self._needs_active_lane

    def lanes(self, part: int) -> Value:
        """Return the active lanes that access the address of ``part`` as bits."""
        lanes = self.e.active_mask()
        return self.e.builder.and_(lanes, i32(part_mask(self.e, [part]))) if len(self.addresses) > 1 else lanes

    def execute(self) -> list[list[Value]]:
        """See :class:`AccessForm`."""
        b, access = self.e.builder, self.access
        columns: list[list[Value]] = [[] for _ in access.items]
        for part, (pointer, offset) in enumerate(self.addresses):
            # align=1: addresses in unchecked code may be misaligned, and LLVM must not rely on natural alignment.
            for index, item in enumerate(access.items):
                position = offset + index * access.size
                if access.store:
                    t.store(b, self._stored_value(item, part), pointer, position, align=1)
                else:
                    columns[index].append(t.load(b, pointer, position, self.element_type, align=1))
            if access.store and self.updates_shadow:
                # Always stored: a test whether the bytes are marked already would cost more.
                mark = ir.Constant(ir.IntType(access.total * 8), self.repeated(STORED, access.total))
                t.store(b, mark, pointer, offset + SHADOW_OFFSET, align=1)
        return [] if access.store else columns

    def stores_one_value(self, item: Operand) -> bool:
        """Return whether all lanes that access one address store the same value."""
        shape = self.e.shape(item)
        return shape.part_uniform and (not shape.per_part or len(self.addresses) > 1)

    def _stored_value(self, item: Operand, part: int) -> Value:
        """Return the value of the highest active lane.

        If lanes of a warp store to one address, which of them writes last is undefined (CUDA C++ Programming Guide,
        "SIMT architecture"). A fixed choice keeps results reproducible.
        """
        e, b = self.e, self.e.builder
        bits = f"b{self.access.size * 8}"
        if self.stores_one_value(item):
            return e.scalar_operand(item, bits, part)
        # Through memory: a vector element selected by a variable index would be spilled just the same.
        for other in [part] if len(self.addresses) > 1 else self.parts:
            value = e.vector_operand(item, bits, other)
            t.store(b, value, e.context, Warp.VALUES + other * e.lanes * self.access.size, align=1)
        highest = b.sub(i32(31), t.intrinsic(b, "llvm.ctlz.i32", I32, [self.lanes(part), ir.Constant(I1, 0)]))
        offset = b.add(b.mul(b.zext(highest, I64), i64(self.access.size)), i64(Warp.VALUES))
        return t.load(b, e.context, offset, self.element_type, align=1)
