"""Launches of one plan's cases, and the choice of the executor."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cache

from gpuemu_lsp.engine.check.coverage import CoverageTotals
from gpuemu_lsp.engine.check.coverage_guidance import CoverageGuidance
from gpuemu_lsp.engine.execution import Argument, Executor, Outcome, Request, Watch
from gpuemu_lsp.engine.findings import Finding
from gpuemu_lsp.engine.fuzz import pack_arguments
from gpuemu_lsp.engine.fuzz.model import Case
from gpuemu_lsp.engine.fuzz.recorded import reachable_buffers
from gpuemu_lsp.engine.plan.model import Plan
from gpuemu_lsp.engine.rules import make
from gpuemu_lsp.engine.subjects.language import PreparedKernel
from gpuemu_lsp.engine.subjects.model import CaseCode, Subject
from gpuemu_lsp.engine.subjects.request import CheckRequest
from gpuemu_lsp.engine.subjects.source_map import SourceMap
from gpuemu_lsp.engine.time_limit import SharedDeadline

_LOOKUP_SECONDS = 1.0


def choose_executor(request: CheckRequest, prepared: PreparedKernel) -> tuple[Executor, Finding | None]:
    """Return the executor, and a finding if a GPU was requested and none is available.

    That of the language if it has one. Else ``auto`` selects the emulator: only it has the memory and synchronisation
    checkers, and its results are the same on every machine.
    """
    own = prepared.language.executor() if prepared.language is not None else None
    if own is not None:
        return own, None
    if request.options.executor != "gpu":
        return _emulator(), None
    from gpuemu_lsp.engine.device import available

    found, reason = available()
    if found:
        return _device(), None
    message = f"'{request.spec.name}' could not run on a GPU: {reason}. The emulator ran it instead."
    return _emulator(), make("engine/no-gpu", message, prepared.place, kernel=request.spec.name)


# Both executors keep compiled kernels between launches, so a process has one of each. The imports are delayed because
# llvmlite and CuPy take most of a worker's start-up time.
@cache
def _emulator() -> Executor:
    from gpuemu_lsp.engine.emulator import Emulator
    from gpuemu_lsp.engine.emulator.devicelib.library import DEVICE_LIBRARY

    # Compiled once per machine: neither the import nor this is the time of a kernel.
    DEVICE_LIBRARY.link()
    executor: Executor = Emulator()
    return executor


@cache
def _device() -> Executor:
    from gpuemu_lsp.engine.device import Device

    executor: Executor = Device()
    return executor


@dataclass(slots=True)
class CaseRunner:
    """Launches cases of one plan and accumulates what all launches have in common.

    ``launch`` is the request with everything but the case's own grid, block and arguments; its limit of
    translation is that of all launches together. ``subject`` gives each case its own code; None if that of ``launch``
    is the code of all cases. ``timing`` has milliseconds by stage, ``approximate`` the executed
    instructions with a documented error. ``steps`` counts executed steps, and ``work`` input elements too: measures of
    cost that are the same on every machine. ``deadline`` is that of the check.
    """

    plan: Plan
    executor: Executor
    launch: Request
    guidance: CoverageGuidance | None = None
    subject: Subject | None = None
    covered: dict[int, tuple[CoverageTotals, SourceMap]] | None = None
    """Coverage of each code of a subject, by its identity; None if it is not measured."""
    timing: dict[str, float] = field(default_factory=dict)
    approximate: set[str] = field(default_factory=set)
    work: int = 0
    steps: int = 0
    hung: bool = False
    """Some launch did not end."""
    deadline: SharedDeadline = field(default_factory=SharedDeadline)

    def code(self, case: Case) -> CaseCode | None:
        """Return the code of a case, None if all have that of :attr:`launch`.

        Raises
        ------
        CodeError
            If the case has none, because it does not compile.
        """
        return None if self.subject is None else self.subject.code(self.plan, case)

    def run_exactly(self, case: Case) -> None:
        """Give a case the code that a launch of it has, where the subject lets cases share code."""
        if self.subject is not None:
            self.subject.exact.add(case.key.id)

    def launch_of(self, case: Case) -> Request:
        """Return :attr:`launch` with the code of a case."""
        code = self.code(case)
        if code is None:
            return self.launch
        checks = replace(code.checks, strict_fences=self.launch.checks.strict_fences)
        return replace(self.launch, artifact=code.artifact, entry=code.entry, checks=checks)

    def source_map(self, case: Case, default: SourceMap) -> SourceMap:
        """Return the source map of the code of a case; ``default`` is that of :attr:`launch`."""
        code = self.code(case)
        return default if code is None else code.source_map

    def arguments(self, case: Case, packed: tuple[Argument, ...] | None = None) -> tuple[Argument, ...]:
        """Return the arguments of the compiled kernel, from those of the plan if they are given."""
        packed = pack_arguments(self.plan, case) if packed is None else packed
        code = self.code(case)
        return packed if code is None else code.arguments(packed, code.grid or case.grid)

    def complete(self, case: Case) -> Request:
        """Return the whole launch of a case."""
        return self._request(case, self.launch_of(case))

    def _request(self, case: Case, launch: Request, packed: tuple[Argument, ...] | None = None) -> Request:
        """Return a launch of a case with everything that ``launch`` leaves open."""
        code = self.code(case)
        return replace(
            launch,
            grid=case.grid if code is None or code.grid is None else code.grid,
            cluster=launch.cluster if code is None else code.cluster,
            block=case.block if code is None or code.block is None else code.block,
            shared_bytes=case.shared_bytes if code is None or code.shared_bytes is None else code.shared_bytes,
            arguments=self.arguments(case, packed),
            reachable=reachable_buffers(self.plan, case),
            translate_seconds=self._translate_seconds(),
        )

    def run(self, case: Case, watch: Watch | None = None) -> Outcome:
        """Launch one case, recording the last writer of ``watch`` if given.

        Raises
        ------
        CodeError
            If the case does not compile.
        """
        code = self.code(case)
        if code is not None and code.run is not None:
            return self._run_in_python(case, code.run)
        launch = replace(
            self.complete(case),
            watch=watch,
            # A launch with a watch repeats one whose coverage is known.
            coverage=watch is None and (self.guidance is not None or self.covered is not None),
        )
        outcome = self.executor.run(launch)
        if self.guidance is not None and outcome.coverage is not None:
            self.guidance.observe(case, outcome.coverage)
        if self.covered is not None and code is not None and outcome.coverage is not None:
            self.covered.setdefault(id(code), (CoverageTotals(), code.source_map))[0].add(outcome.coverage)
        self.steps += outcome.steps
        self.hung = self.hung or outcome.status == "hung"
        self.work += outcome.steps + sum(array.size for array in case.tensors.values())
        self._add_time("translate", outcome.translate_ms)
        self._add_time("execute", outcome.execute_ms)
        self.approximate.update(outcome.approximate)
        return outcome

    def repeat(self, case: Case, launch: Request, arguments: tuple[Argument, ...] | None = None) -> Outcome:
        """Launch a case with a variation of :meth:`launch_of`; its coverage and work are not counted.

        ``arguments`` replace those of the plan.
        """
        code = self.code(case)
        if code is not None and code.run is not None:
            return code.run(case)
        shortened = replace(launch, max_seconds=self.deadline.shortened(launch.max_seconds))
        outcome = self.executor.run(self._request(case, shortened, arguments))
        self._add_time("translate", outcome.translate_ms)
        self._add_time("execute", outcome.execute_ms)
        return outcome

    def _run_in_python(self, case: Case, call: Callable[[Case], Outcome]) -> Outcome:
        outcome = call(case)
        self.work += sum(array.size for array in case.tensors.values())
        self._add_time("execute", outcome.execute_ms)
        return outcome

    def _translate_seconds(self) -> float:
        """Return what is left for translation; enough to find code that is in a cache."""
        most = self.launch.translate_seconds
        left = self.deadline.shortened(most - self.timing.get("translate", 0.0) / 1e3)
        return max(min(_LOOKUP_SECONDS, most), left)

    def _add_time(self, stage: str, milliseconds: float) -> None:
        self.timing[stage] = self.timing.get(stage, 0.0) + milliseconds
