"""The form of a load in which lanes are a few bytes further apart than they load: one wider vector, cut down."""

from __future__ import annotations

from llvmlite import ir

from gpuemu_lsp.engine.emulator.abi.memory import SHADOW_OFFSET
from gpuemu_lsp.engine.emulator.codegen.core.access_forms import Based
from gpuemu_lsp.engine.emulator.codegen.core.addresses import Access
from gpuemu_lsp.engine.emulator.codegen.core.emitter import Emitter
from gpuemu_lsp.engine.emulator.llvm import ir_tools as t
from gpuemu_lsp.engine.emulator.llvm.ir_tools import Value

_STEPS = (2, 4, 8)
"""Bytes from lane to lane that are the size of an integer."""


def supports(access: Access) -> bool:
    """Return whether an access has this form."""
    shape = access.shape
    return not access.store and len(access.items) == 1 and shape.step in _STEPS and access.size < shape.step


class Strided(Based):
    """What lies between the lanes' bytes is loaded, too, and thrown away; its shadow does not count."""

    @staticmethod
    def reach(e: Emitter, access: Access) -> int:
        """See :class:`Based`."""
        lanes = e.lanes * (1 if access.shape.per_part else e.parts)
        return access.shape.step * (lanes - 1) + access.size

    def allowed(self) -> Value:
        """See :class:`Form`."""
        e, b = self.e, self.e.builder
        refused = []
        safe = self.safe
        for part in self.parts:
            bad = self.refused(self._load(safe, part, SHADOW_OFFSET))
            mask = e.active(part)
            refused.append(bad if mask is None else b.and_(bad, mask))
        return b.and_(b.not_(e.any_lane(refused)), self.within_reach(safe))

    def run(self) -> list[list[Value]]:
        """See :class:`Form`."""
        return [[self._load(self.hosts, part, 0) for part in self.parts]]

    def _load(self, hosts: list[tuple[Value, int]], part: int, extra: int) -> Value:
        e, step = self.e, self.access.shape.step
        base, offset = hosts[part if self.access.shape.per_part else 0]
        if not self.access.shape.per_part:
            offset += part * e.lanes * step
        wide = t.load(e.builder, base, offset + extra, ir.VectorType(ir.IntType(8 * step), e.lanes), align=1)
        return e.builder.trunc(wide, ir.VectorType(self.integer(), e.lanes))
