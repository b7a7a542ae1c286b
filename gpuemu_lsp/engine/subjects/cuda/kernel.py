"""CUDA kernels: one artifact for all cases of a plan."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from gpuemu_lsp.engine.compile.model import Artifact
from gpuemu_lsp.engine.fuzz.model import Case
from gpuemu_lsp.engine.lint import arithmetic_precisions, linear_only, narrow_sums
from gpuemu_lsp.engine.oracle import Numerics
from gpuemu_lsp.engine.plan.model import Plan
from gpuemu_lsp.engine.ptx import parse
from gpuemu_lsp.engine.ptx.model import Module
from gpuemu_lsp.engine.subjects.model import CaseCode
from gpuemu_lsp.engine.subjects.source_map import SourceMap


@dataclass(slots=True)
class CudaKernel:
    """A compiled CUDA kernel. ``source_map`` makes the source map of a module."""

    artifact: Artifact
    source_map: Callable[[Module, Plan], SourceMap]
    single: bool = True
    exact: set[str] = field(default_factory=set)
    _codes: dict[str, CaseCode] = field(default_factory=dict)

    def code(self, plan: Plan, case: Case) -> CaseCode:
        """Return the code of the plan's instance."""
        return self.first(plan, 0)

    def first(self, plan: Plan, seed: int) -> CaseCode:
        """Return the code of the plan's instance."""
        if plan.entry not in self._codes:
            module, entry = parse(self.artifact.ptx), self.artifact.entries[plan.entry]
            numerics = Numerics(
                arithmetic_precisions(module, entry), (), linear_only(module, entry), narrow_sums(module, entry)
            )
            self._codes[plan.entry] = CaseCode(self.artifact, entry, module, numerics, self.source_map(module, plan))
        return self._codes[plan.entry]
