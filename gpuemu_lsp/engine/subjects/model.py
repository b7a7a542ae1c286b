"""The protocol of subjects."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Protocol

from gpuemu_lsp.engine.compile.model import Artifact
from gpuemu_lsp.engine.execution import Argument, Checks, Dim3, Outcome, Request
from gpuemu_lsp.engine.findings import Finding
from gpuemu_lsp.engine.fuzz.model import Case
from gpuemu_lsp.engine.oracle import Numerics
from gpuemu_lsp.engine.plan.model import Plan
from gpuemu_lsp.engine.ptx.model import Module
from gpuemu_lsp.engine.subjects.source_map import SourceMap

Arguments = Callable[[tuple[Argument, ...], Dim3], tuple[Argument, ...]]
"""Arguments of the compiled kernel, from those of the plan and the grid."""


def unchanged(arguments: tuple[Argument, ...], grid: Dim3) -> tuple[Argument, ...]:
    """Return the arguments of the plan: the compiled kernel has the same."""
    return arguments


@dataclass(frozen=True, slots=True)
class CaseCode:
    """The code of one case.

    ``entry`` is the PTX name of the kernel. ``block`` and ``shared_bytes`` are those of the case if None. ``checks``
    are the checkers that apply to this code. ``representations`` are texts of Triton's compiler, ``ttir``, ``ttgir``
    and ``ptx``, which the emulator executes with more barriers; none for a CUDA kernel.
    """

    artifact: Artifact
    entry: str
    module: Module = field(repr=False)
    numerics: Numerics
    source_map: SourceMap
    block: Dim3 | None = None
    shared_bytes: int | None = None
    arguments: Arguments = unchanged
    checks: Checks = Checks()
    representations: Mapping[str, str] = field(default_factory=dict, repr=False)
    grid: Dim3 | None = None
    """The grid of the launch; that of the case if None."""
    cluster: Dim3 | None = None
    """Blocks of a cluster, where an attribute of the launch says it."""
    parameters: tuple[str, ...] | None = None
    """The arguments of the plan that the code has, by parameter; None where it has all, in their order."""
    restored: frozenset[str] | None = None
    """The buffers that an autotuner restores between its launches of this code, None where no autotuner runs it."""
    run: Callable[[Case], Outcome] | None = None
    """Runs the case, for a subject without PTX; None where an executor runs the artifact."""


class CodeError(Exception):
    """A case has no code; ``findings`` say why."""

    def __init__(self, findings: tuple[Finding, ...]) -> None:
        super().__init__("; ".join(finding.message for finding in findings))
        self.findings = findings


class PythonExecutor:
    """The executor of subjects without PTX, whose code runs itself (:attr:`CaseCode.run`)."""

    name = "python"

    def run(self, request: Request) -> Outcome:
        """Return that there is nothing to launch."""
        return Outcome("unsupported", self.name, {})


class Subject(Protocol):
    """What is checked.

    ``single`` is True if all cases of a plan have the same code. ``exact`` are the ids of cases that must have the code
    of their launch, where others share one.
    """

    single: bool
    exact: set[str]

    def first(self, plan: Plan, seed: int) -> CaseCode:
        """Return the code of the first case of a seed, which has compiled before.

        Raises
        ------
        CodeError, PlanError
            If it is another seed, whose first case has no code.
        """
        ...

    def code(self, plan: Plan, case: Case) -> CaseCode:
        """Return the code of a case.

        Raises
        ------
        CodeError
            If the case cannot be compiled.
        """
        ...
