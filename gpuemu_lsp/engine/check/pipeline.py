"""One kernel from source to verdict, readable top to bottom. Runs in a worker and streams what it finds.

compile -> lint -> for each dtype: stored failures first, then fuzzed cases; each case runs under the checkers and is
compared with the fp64 reference -> verdict. A kernel that did not run is never clean.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace

from gpuemu_lsp.engine.check.counters import count, larger
from gpuemu_lsp.engine.check.coverage import merged
from gpuemu_lsp.engine.check.executor import choose_executor
from gpuemu_lsp.engine.check.infer import settle_shapes
from gpuemu_lsp.engine.check.model import (
    CaseCount,
    CheckEvent,
    CheckOptions,
    CheckRequest,
    DtypeMeasurements,
    KernelCounters,
    KernelReport,
    Stage,
)
from gpuemu_lsp.engine.check.plan_run import PlanRun
from gpuemu_lsp.engine.check.plan_setup import open_plan
from gpuemu_lsp.engine.check.policies.index_overflow import overflows
from gpuemu_lsp.engine.check.prepare import PreparedKernel, prepare
from gpuemu_lsp.engine.execution import Executor
from gpuemu_lsp.engine.findings import Finding, Severity
from gpuemu_lsp.engine.fuzz.strategies import DTYPE_OF
from gpuemu_lsp.engine.plan.model import Plan
from gpuemu_lsp.engine.rules import make


@dataclass(slots=True)
class _Tally:
    """What the verdict is made of."""

    errors: int = 0
    unjudged: bool = False
    missing: int = 0
    executed: int = 0
    runs: list[PlanRun] = field(default_factory=list)
    counters: list[KernelCounters] = field(default_factory=list)

    def see(self, finding: Finding) -> Finding:
        if finding.severity is Severity.ERROR:
            self.errors += 1
        if finding.rule in _UNJUDGED:
            self.unjudged = True
        if finding.rule in _NOT_RUN:
            self.missing += 1
        return finding


_GUESSED_SECONDS = 10.0
_GUESSED_CASE_SECONDS = 3.0
_UNJUDGED = frozenset({"reference/error", "reference/wrong-shape", "reference/not-deterministic"})
_NOT_RUN = frozenset({"engine/unsupported-instruction", "engine/not-executed", "config/ambiguous-signature"})


def check_kernel(
    request: CheckRequest, on_verdict: Callable[[PreparedKernel, KernelReport], None] | None = None
) -> Iterator[CheckEvent]:
    """Check one kernel; yields stages and findings as they are known, and last its report.

    ``on_verdict`` sees what the verdict is about, for whoever keeps records.
    """
    started = time.perf_counter()
    if not request.registered:
        request = replace(request, options=_brief(request.options))
    name, tally = request.spec.name, _Tally()
    yield Stage(name, "compile")
    prepared = prepare(request)
    yield from map(tally.see, prepared.findings)
    executor: Executor | None = None
    if prepared.artifact is not None and prepared.plans and request.options.execute:
        executor, finding = choose_executor(request, prepared.place)
        if finding is not None:
            yield tally.see(finding)
    if executor is not None:
        wanted = DTYPE_OF.get(request.options.strategy)
        plans = [plan for plan in prepared.plans if wanted in (None, plan.dtype)]
        if not plans:
            yield tally.see(_not_executed(request, prepared, f"it is not checked as {wanted}"))
        for plan in [plan for plan in plans if plan.dtype in request.options.dtypes] or plans:
            yield from _check_plan(request, prepared, plan, executor, tally)
        if request.options.unoptimized and executor.name == "emulator" and tally.runs:
            yield from _look_again(request, prepared, tally)
    elif prepared.artifact is not None and not tally.errors and not tally.missing:
        yield tally.see(_not_executed(request, prepared))
    total = (time.perf_counter() - started) * 1e3
    report = _report(request, prepared, tally, executor, total)
    if on_verdict is not None:
        on_verdict(prepared, report)
    yield report


def _brief(options: CheckOptions) -> CheckOptions:
    """Nobody asked for this kernel, and its sizes are guesses: it must not keep a worker from those that matter."""
    seconds = _GUESSED_SECONDS if options.seconds is None else min(options.seconds, _GUESSED_SECONDS)
    return replace(options, seconds=seconds, case_seconds=min(options.case_seconds, _GUESSED_CASE_SECONDS))


def _check_plan(
    request: CheckRequest, prepared: PreparedKernel, plan: Plan, executor: Executor, tally: _Tally
) -> Iterator[CheckEvent]:
    """Run one dtype's cases."""
    if plan.inferred:
        yield Stage(plan.kernel, "probe")
        settled, findings = settle_shapes(request, prepared, plan, executor)
        yield from map(tally.see, findings)
        if settled is None:
            return
        plan = settled
    yield Stage(plan.kernel, "reference")
    run = open_plan(request, prepared, plan, executor)
    tally.runs.append(run)
    yield from map(tally.see, run.opening)
    overflowing = overflows(plan, run.hints, run.launch, run.scene)
    yield from map(tally.see, map(prepared.ignores.apply, overflowing))
    seconds = request.options.seconds
    until = None if seconds is None else time.monotonic() + seconds / len(prepared.plans)
    largest = None
    for case, case_id in run.cases():
        if until is not None and run.count.run and time.monotonic() >= until:
            break
        passed = run.count.passed
        yield Stage(plan.kernel, "reference", run.count.run, request.options.most)
        expected = run.expect(case)
        yield Stage(plan.kernel, "execute", run.count.run, request.options.most)
        yield from map(tally.see, run.judge(case, case_id, expected))
        if run.count.passed > passed and request.options.counters:
            largest = larger(largest, case)
        if run.finished:
            break
    yield from map(tally.see, run.closing())
    if largest is not None:
        yield Stage(plan.kernel, "count")
        counted = count(run, largest)
        if counted is not None:
            tally.counters.append(counted.counters)
            yield from counted.hints


def _look_again(request: CheckRequest, prepared: PreparedKernel, tally: _Tally) -> Iterator[CheckEvent]:
    from gpuemu_lsp.engine.check.unoptimized import look_again

    for event in look_again(request, prepared, tally.runs):
        yield event if isinstance(event, Stage) or event.severity is Severity.HINT else tally.see(event)


def _not_executed(request: CheckRequest, prepared: PreparedKernel, why: str = "there is no launch to run") -> Finding:
    if not request.options.execute:
        why = "nothing may be executed in this workspace"
    message = f"'{request.spec.name}' was compiled but not run: {why}."
    return make("engine/not-executed", message, prepared.place, kernel=request.spec.name)


def _measured(run: PlanRun) -> DtypeMeasurements:
    figures = run.figures
    return DtypeMeasurements(
        run.plan.dtype, run.count, figures.max_diff, figures.worst, tuple(figures.errors), dict(figures.needed)
    )


def _report(
    request: CheckRequest, prepared: PreparedKernel, tally: _Tally, executor: Executor | None, total: float
) -> KernelReport:
    counts = [run.count for run in tally.runs]
    cases = CaseCount(sum(count.run for count in counts), sum(count.passed for count in counts))
    failures = [run.first_failure for run in tally.runs if run.first_failure is not None]
    worst = [run.figures.worst for run in tally.runs if run.figures.worst is not None]
    timing = {"compile": prepared.compile_ms, "total": total}
    for run in tally.runs:
        for stage, milliseconds in run.timing.items():
            timing[stage] = timing.get(stage, 0.0) + milliseconds
    return KernelReport(
        name=request.spec.name,
        source=request.spec.source,
        status=_status(request, prepared, tally, cases),
        compiled=prepared.artifact is not None,
        executor="gpu" if executor is not None and executor.name == "gpu" else "emulator",
        cases=cases,
        resources=prepared.resources,
        timing_ms=timing,
        first_failure=min(failures, default=None),
        worst=max(worst, default=None),
        approximate=tuple(sorted({name for run in tally.runs for name in run.approximate})),
        registered=request.registered,
        toolchain=prepared.artifact.toolchain if prepared.artifact is not None else "",
        measured=tuple(map(_measured, tally.runs)),
        coverage=merged(
            line
            for run in tally.runs
            if run.steering is not None
            for line in run.steering.ledger.lines(run.scene.atlas)
        ),
        counters=tuple(tally.counters),
    )


def _status(request: CheckRequest, prepared: PreparedKernel, tally: _Tally, cases: CaseCount) -> str:
    if prepared.artifact is None:
        return "error" if tally.errors or not tally.missing else "not-executed"
    if tally.errors:
        return "error" if tally.unjudged or not cases.run else "failed"
    if tally.missing or not cases.run:
        return "not-executed"
    return "passed" if request.spec.reference is not None else "unreferenced"
