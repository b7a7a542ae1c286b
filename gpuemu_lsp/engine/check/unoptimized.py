"""Second pass of the deep check: some of the cases on PTX that was compiled without optimisation.

The optimiser removes dead stores and merges loads, and with them races and overruns that the source contains.
"""

from __future__ import annotations

from collections.abc import Iterator

from gpuemu_lsp.engine.check.model import Stage
from gpuemu_lsp.engine.check.plan_run import PlanRun
from gpuemu_lsp.engine.check.plan_setup import unoptimized_run
from gpuemu_lsp.engine.compile.model import Artifact
from gpuemu_lsp.engine.compile.toolchain import ToolchainError
from gpuemu_lsp.engine.findings import Finding, Severity
from gpuemu_lsp.engine.rules import make
from gpuemu_lsp.engine.subjects.language import PreparedKernel
from gpuemu_lsp.engine.subjects.request import FIRST_CASES, CheckRequest
from gpuemu_lsp.engine.time_limit import TimeLimit

_SHARE = 4
"""One case in four runs again, but no fewer than a check on save has."""
_SECONDS = 30.0
"""Time after which no further case starts: unoptimised code may be slow, and the report waits for it."""


def check_unoptimized(
    request: CheckRequest, prepared: PreparedKernel, runs: list[PlanRun]
) -> Iterator[Stage | Finding]:
    """Run cases of every plan on unoptimised code; yield findings that the optimised code did not show."""
    name = request.spec.name
    if all(run.finished for run in runs):
        return
    if prepared.subject is None or not prepared.subject.single:
        yield _not_run(request, prepared, "Triton compiles no code that can be compared.")
        return
    if prepared.unoptimized is None:
        return  # what runs is the text itself
    yield Stage(name, "compile-unoptimized")
    try:
        compiled = prepared.without_optimization()
    except ToolchainError as error:
        yield _not_run(request, prepared, str(error))
        return
    artifact = compiled.artifact
    if artifact is None:
        first = next(finding.message for finding in compiled.findings if finding.severity is Severity.ERROR)
        yield _not_run(request, prepared, f"it does not compile: {first}")
        return
    # A kernel that fails or hangs already needs no second pass.
    for run in (run for run in runs if not run.finished):
        yield from _plan(request, prepared, run, artifact, len(runs))


def _plan(
    request: CheckRequest, prepared: PreparedKernel, optimized: PlanRun, artifact: Artifact, plans: int
) -> Iterator[Stage | Finding]:
    options = request.options
    known, run = optimized.reported.rules, unoptimized_run(optimized, prepared, artifact)
    planned = max(FIRST_CASES, options.most // _SHARE)
    seconds = _SECONDS if options.seconds is None else min(_SECONDS, options.seconds / _SHARE)
    limit = TimeLimit(seconds / plans)
    for done, (case, case_id) in enumerate(run.cases()):
        if done == planned:
            return
        if done and limit.left() <= 0:
            # A user who sets a time limit expects that cases are left out.
            if options.seconds is None:
                yield _not_run(request, prepared, f"only {done} of {planned} cases ran within the time limit")
            return
        yield Stage(request.spec.name, "unoptimized", done, planned)
        for finding in run.check(case, case_id, None):
            # A warning does not stand for an error of the same rule, which has another cause.
            if not known & {(finding.rule, finding.severity), (finding.rule, Severity.ERROR)}:
                yield finding
        if run.finished:
            break
    if not run.progress.count.run and optimized.progress.count.run:
        yield _not_run(request, prepared, run.not_run or "the emulator cannot run it")


def _not_run(request: CheckRequest, prepared: PreparedKernel, why: str) -> Finding:
    message = f"'{request.spec.name}' was checked as optimised code only. Without optimisation, {why}"
    return make("engine/not-executed", message, prepared.place, kernel=request.spec.name, severity=Severity.HINT)
