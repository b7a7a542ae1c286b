"""Launches of one plan's cases, and the choice of the executor."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cache

from gpuemu_lsp.engine.check.coverage_guidance import CoverageGuidance
from gpuemu_lsp.engine.check.model import CheckRequest
from gpuemu_lsp.engine.execution import Argument, Executor, Outcome, Request, Watch
from gpuemu_lsp.engine.findings import Finding, Place
from gpuemu_lsp.engine.fuzz import pack_arguments
from gpuemu_lsp.engine.fuzz.model import Case
from gpuemu_lsp.engine.plan.model import Plan
from gpuemu_lsp.engine.rules import make

_LOOKUP_SECONDS = 1.0


def choose_executor(request: CheckRequest, place: Place) -> tuple[Executor | None, Finding | None]:
    """Return the executor, and a finding if a GPU was requested and none is available.

    ``auto`` selects the emulator: only it has the memory and synchronisation checkers, and its results are the same on
    every machine.
    """
    if request.options.executor != "gpu":
        return _emulator(), None
    from gpuemu_lsp.engine.device import available

    found, reason = available()
    if found:
        return _device(), None
    message = f"'{request.spec.name}' could not run on a GPU: {reason}. The emulator ran it instead."
    return _emulator(), make("engine/no-gpu", message, place, kernel=request.spec.name)


# Both executors keep compiled kernels between launches, so a process has one of each. The imports are delayed because
# llvmlite and CuPy take most of a worker's start-up time.
@cache
def _emulator() -> Executor:
    from gpuemu_lsp.engine.emulator import Emulator

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
    translation is that of all launches together. ``timing`` has milliseconds by stage, ``approximate`` the executed
    instructions with a documented error. ``work`` counts executed steps and input elements: a measure of cost that is
    the same on every machine.
    """

    plan: Plan
    executor: Executor
    launch: Request
    guidance: CoverageGuidance | None = None
    timing: dict[str, float] = field(default_factory=dict)
    approximate: set[str] = field(default_factory=set)
    work: int = 0

    def run(self, case: Case, watch: Watch | None = None) -> Outcome:
        """Launch one case, recording the last writer of ``watch`` if given."""
        launch = replace(
            self.launch,
            grid=case.grid,
            block=case.block,
            shared_bytes=case.shared_bytes,
            arguments=pack_arguments(self.plan, case),
            watch=watch,
            translate_seconds=self._translate_seconds(),
            # A launch with a watch repeats one whose coverage is known.
            coverage=self.guidance is not None and watch is None,
        )
        outcome = self.executor.run(launch)
        if self.guidance is not None and outcome.coverage is not None:
            self.guidance.observe(case, outcome.coverage)
        self.work += outcome.steps + sum(array.size for array in case.tensors.values())
        self._add_time("translate", outcome.translate_ms)
        self._add_time("execute", outcome.execute_ms)
        self.approximate.update(outcome.approximate)
        return outcome

    def repeat(self, case: Case, launch: Request, arguments: tuple[Argument, ...] | None = None) -> Outcome:
        """Launch a case with a variation of ``self.launch``; its coverage and work are not counted."""
        arguments = pack_arguments(self.plan, case) if arguments is None else arguments
        outcome = self.executor.run(
            replace(
                launch,
                grid=case.grid,
                block=case.block,
                shared_bytes=case.shared_bytes,
                arguments=arguments,
                translate_seconds=self._translate_seconds(),
            )
        )
        self._add_time("translate", outcome.translate_ms)
        self._add_time("execute", outcome.execute_ms)
        return outcome

    def _translate_seconds(self) -> float:
        """Return what is left for translation; enough to find code that is in a cache."""
        spent = self.timing.get("translate", 0.0) / 1e3
        return max(min(_LOOKUP_SECONDS, self.launch.translate_seconds), self.launch.translate_seconds - spent)

    def _add_time(self, stage: str, milliseconds: float) -> None:
        self.timing[stage] = self.timing.get(stage, 0.0) + milliseconds
