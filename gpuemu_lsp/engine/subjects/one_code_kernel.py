"""Kernels with one code for all cases of a plan, in languages whose code is compiled ahead."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from gpuemu_lsp.engine.compile.model import Artifact
from gpuemu_lsp.engine.fuzz.model import Case
from gpuemu_lsp.engine.plan.model import Plan
from gpuemu_lsp.engine.ptx import parse
from gpuemu_lsp.engine.ptx.model import Module
from gpuemu_lsp.engine.subjects.code_numerics import numerics_of_code
from gpuemu_lsp.engine.subjects.model import CaseCode
from gpuemu_lsp.engine.subjects.source_map import SourceMap

if TYPE_CHECKING:
    from gpuemu_lsp.engine.emulator.analysis.kernel_facts import KernelFacts


@dataclass(slots=True)
class OneCodeKernel:
    """A compiled kernel. ``source_map`` makes the source map of a module."""

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
            numerics = numerics_of_code(module, entry)
            self._codes[plan.entry] = CaseCode(self.artifact, entry, module, numerics, self.source_map(module, plan))
        return self._codes[plan.entry]


def facts_of(ptx: str, mangled: str) -> KernelFacts | None:
    """Return what the code of an entry shows, None for code that cannot be analysed."""
    # Delayed, as all of the emulator: see `case_runner`.
    from gpuemu_lsp.engine.emulator.analysis.kernel_facts import kernel_facts
    from gpuemu_lsp.engine.emulator.analysis.kernel_graph import MalformedKernelError

    try:
        return kernel_facts(ptx, mangled)
    except MalformedKernelError:
        return None
