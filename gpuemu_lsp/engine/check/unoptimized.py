"""The deep check's second look: some of the cases once more, on PTX that was compiled without optimisation.

An optimiser removes dead stores and folds loads, and with them races and overruns that the source has all the same.
"""

from __future__ import annotations

import time
from collections.abc import Iterator

from gpuemu_lsp.engine.check.model import FIRST_CASES, CheckRequest, Stage
from gpuemu_lsp.engine.check.plan_run import PlanRun
from gpuemu_lsp.engine.check.plan_setup import lowered
from gpuemu_lsp.engine.check.prepare import PreparedKernel, without_optimization
from gpuemu_lsp.engine.compile import ToolchainError
from gpuemu_lsp.engine.compile.model import Artifact
from gpuemu_lsp.engine.findings import Finding, Severity
from gpuemu_lsp.engine.rules import make

_SHARE = 4
"""One case in so many is run again, but no fewer than a quick check has."""
_SECONDS = 30.0
"""Unoptimised code may be slow: after so long no more cases are begun, so that the verdict never waits for them."""


def look_again(request: CheckRequest, prepared: PreparedKernel, runs: list[PlanRun]) -> Iterator[Stage | Finding]:
    """Run cases of every plan on unoptimised code; yields what the optimised code did not show."""
    name = request.spec.name
    if all(run.finished for run in runs):
        return
    yield Stage(name, "compile-unoptimized")
    try:
        compiled = without_optimization(request, prepared)
    except ToolchainError as error:
        yield _not_run(request, prepared, str(error))
        return
    artifact = compiled.artifact
    if artifact is None:
        first = next(finding.message for finding in compiled.findings if finding.severity is Severity.ERROR)
        yield _not_run(request, prepared, f"it does not compile: {first}")
        return
    for run in (run for run in runs if not run.finished):  # what fails or hangs already needs no second look
        yield from _plan(request, prepared, run, artifact, len(runs))


def _plan(
    request: CheckRequest, prepared: PreparedKernel, optimized: PlanRun, artifact: Artifact, plans: int
) -> Iterator[Stage | Finding]:
    options = request.options
    known, run = optimized.told, lowered(optimized, prepared, artifact)
    wanted = max(FIRST_CASES, options.most // _SHARE)
    seconds = _SECONDS if options.seconds is None else min(_SECONDS, options.seconds / _SHARE)
    until = time.monotonic() + seconds / plans
    for done, (case, case_id) in enumerate(run.cases()):
        if done == wanted:
            return
        if done and time.monotonic() >= until:
            if options.seconds is None:  # who sets a time knows that not every case is run
                yield _not_run(request, prepared, f"only {done} of {wanted} cases were run: they take long")
            return
        yield Stage(request.spec.name, "unoptimized", done, wanted)
        for finding in run.judge(case, case_id, None):
            if finding.rule not in known:
                yield finding
        if run.finished:
            break
    if not run.count.run and optimized.count.run:
        yield _not_run(request, prepared, "the emulator does not run it")


def _not_run(request: CheckRequest, prepared: PreparedKernel, why: str) -> Finding:
    message = f"'{request.spec.name}' was checked as optimised code only. Unoptimised, {why}"
    return make("engine/not-executed", message, prepared.place, kernel=request.spec.name, severity=Severity.HINT)
