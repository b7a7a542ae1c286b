"""Check of one kernel, from its source to its report.

The stages are: compile, lint, and for each dtype the stored failing cases followed by fuzzed ones. Each case runs under
the checkers and is compared with the fp64 reference. A kernel that did not run never counts as passed.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from functools import partial

from gpuemu_lsp.engine.check.case_runner import choose_executor
from gpuemu_lsp.engine.check.clean_sizes import clean_at
from gpuemu_lsp.engine.check.counters import count, larger
from gpuemu_lsp.engine.check.coverage import merged
from gpuemu_lsp.engine.check.fitted_extents import settle_shapes
from gpuemu_lsp.engine.check.model import (
    CaseCount,
    CheckEvent,
    DtypeMeasurements,
    KernelCounters,
    KernelReport,
    LineCoverage,
    Stage,
)
from gpuemu_lsp.engine.check.plan_run import PlanRun
from gpuemu_lsp.engine.check.plan_setup import open_plan
from gpuemu_lsp.engine.check.policies.grid_limits import grids_too_large
from gpuemu_lsp.engine.check.policies.index_overflow import index_overflows
from gpuemu_lsp.engine.check.policies.unregistered_time import (
    after_hang,
    did_not_finish,
    least_seconds,
    left_for_instance,
    left_out,
    left_to_other_instances,
    limited,
)
from gpuemu_lsp.engine.check.prepare import prepare
from gpuemu_lsp.engine.check.tried_values import with_tried_values
from gpuemu_lsp.engine.check.verdicts.python_verdicts import find_python_verdict, store_python_verdict
from gpuemu_lsp.engine.check.verdicts.reuse import ReusedVerdict, begin_recording, find_verdict, store_verdict
from gpuemu_lsp.engine.execution import Executor
from gpuemu_lsp.engine.findings import Finding, Severity, collect
from gpuemu_lsp.engine.fuzz.model import Case
from gpuemu_lsp.engine.fuzz.strategies import DTYPE_OF
from gpuemu_lsp.engine.plan.model import Plan
from gpuemu_lsp.engine.rules import make
from gpuemu_lsp.engine.subjects.language import PreparedKernel
from gpuemu_lsp.engine.subjects.model import Subject
from gpuemu_lsp.engine.subjects.request import CheckRequest
from gpuemu_lsp.engine.subjects.unregistered import of_kernel, softened
from gpuemu_lsp.engine.time_limit import SharedDeadline, TimeLimit, run_delay, scheduled_clock

_UNVERIFIED = frozenset({"reference/error", "reference/wrong-shape", "reference/not-deterministic", "engine/timeout"})
"""Rules after which the kernel has the status ``error`` and not ``failed``."""
_NOT_RUN = frozenset({"engine/unsupported-instruction", "engine/not-executed", "config/ambiguous-signature"})


@dataclass(slots=True)
class _Totals:
    """Totals from which the report of a kernel is computed."""

    errors: int = 0
    unverified: bool = False
    not_run: int = 0
    runs: list[PlanRun] = field(default_factory=list)
    counters: list[KernelCounters] = field(default_factory=list)
    found: list[Finding] = field(default_factory=list)
    cut_short: bool = False
    """A time limit ended the check before all cases had run."""
    registered: bool = True
    deadline: SharedDeadline = field(default_factory=SharedDeadline)
    timing: dict[str, float] = field(default_factory=dict)
    """Milliseconds by stage that no run has."""
    delay: float = field(default_factory=run_delay)
    """The run delay of this thread when the check began."""
    unlaunched: bool = False
    """The current plan is of an instance that the program does not launch, and another one is one that it does."""

    @property
    def ran(self) -> bool:
        """Whether some instance of the kernel has run."""
        return any(run.progress.count.run for run in self.runs)

    def add_time(self, stage: str, milliseconds: float) -> None:
        """Add time of a stage."""
        self.timing[stage] = self.timing.get(stage, 0.0) + milliseconds

    def add(self, finding: Finding) -> Finding:
        """Count a finding and return it, as a hint if it is about a configuration that the kernel does not have."""
        if not self.registered and finding.rule == "config/bad-value":
            finding = softened(finding)
        if not self.registered and self.ran:
            finding = left_to_other_instances(finding)
        if self.unlaunched and finding.rule == "engine/not-executed":
            finding = replace(finding, rule="config/launch-inferred", severity=Severity.HINT)
        finding = collect(self.found, finding)
        if finding.severity is Severity.ERROR:
            self.errors += 1
        if finding.rule in _UNVERIFIED:
            self.unverified = True
        if finding.rule in _NOT_RUN:
            self.not_run += 1
        return finding


def check_kernel(
    request: CheckRequest,
    on_verdict: Callable[[PreparedKernel, KernelReport], None] | None = None,
) -> Iterator[CheckEvent]:
    """Check one kernel; yield stages and findings as soon as they are known, and its report last.

    ``on_verdict`` is called with the prepared kernel and the report, before the report is yielded.
    """
    started = time.perf_counter()
    name, totals = request.spec.name, _Totals(registered=request.registered)
    if not request.registered:
        request, totals.deadline = limited(request)
    stored = find_python_verdict(request)
    if stored is not None:
        yield from stored.findings
        yield replace(stored.report, timing_ms={"total": (time.perf_counter() - started) * 1e3})
        return
    yield Stage(name, "compile")
    begin_recording()
    prepared = prepare(request, partial(_translate, request))
    try:
        yield from _check_prepared(request, prepared, totals, started, on_verdict)
    finally:
        for process in prepared.processes:
            process.close()


def _check_prepared(
    request: CheckRequest,
    prepared: PreparedKernel,
    totals: _Totals,
    started: float,
    on_verdict: Callable[[PreparedKernel, KernelReport], None] | None,
) -> Iterator[CheckEvent]:
    """Run what was prepared, or take its stored verdict; ``started`` is the time at which the check began."""
    yield from (totals.add(of_kernel(finding, request.spec)) for finding in prepared.findings)
    executor: Executor | None = None
    if prepared.artifact is not None and prepared.plans and request.options.execute:
        with totals.deadline.stopped():
            executor, finding = choose_executor(request, prepared)
        if finding is not None:
            yield totals.add(finding)
    reused: ReusedVerdict | None = None
    static = len(totals.found)
    if executor is not None:
        reused = find_verdict(request, prepared)
        if reused is not None:
            yield from map(totals.add, reused.findings)
        elif request.options.verdicts in ("find", "stop"):
            return
        else:
            yield from _check_plans(request, prepared, executor, totals)
    elif prepared.artifact is not None and prepared.launches is None and not totals.errors and not totals.not_run:
        yield totals.add(_not_executed(request, prepared))
    executed = totals.found[static:]
    prepared, found = prepared.finished()
    yield from map(totals.add, found)
    total = (time.perf_counter() - started) * 1e3
    if reused is not None:
        report = _reused_report(request, prepared, totals, reused.report, total)
    else:
        report = _report(request, prepared, totals, executor, total)
        totals.cut_short = totals.cut_short or totals.deadline.missed
        store_verdict(request, prepared, totals.runs, executed, report, totals.cut_short)
        if prepared.subject is not None and not prepared.subject.single:
            store_python_verdict(request, totals.runs, totals.found, report, totals.cut_short)
    if on_verdict is not None:
        on_verdict(prepared, report)
    yield report


def _translate(
    request: CheckRequest,
    subject: Subject,
    plan: Plan,
    wanted: Callable[[Case], bool],
    finished: Callable[[Case], None],
) -> None:
    """Launch one case of each code that the ``wanted`` cases have, in a process of which only the caches count."""
    prepared = PreparedKernel((), plan.place, plans=(plan,), subject=subject)
    executor, _ = choose_executor(request, prepared)
    # Neither the reference nor the store is used: results of this process are dropped.
    spec, options = replace(request.spec, reference=None), replace(request.options, store_root=None)
    run, launched = open_plan(replace(request, spec=spec, options=options), prepared, plan, executor), set[int]()
    for case, _ in run.cases():
        if not wanted(case):
            continue
        code = run.runner.code(case)
        if id(code) not in launched:
            launched.add(id(code))
            run.runner.run(case)
            finished(case)


def _check_plans(
    request: CheckRequest, prepared: PreparedKernel, executor: Executor, totals: _Totals
) -> Iterator[CheckEvent]:
    """Run the cases of every dtype."""
    # Strategies such as single_dtype_f16 fix the dtype.
    dtype = DTYPE_OF.get(request.options.strategy)
    plans = [plan for plan in prepared.plans if dtype in (None, plan.dtype)]
    if not plans:
        yield totals.add(_not_executed(request, prepared, f"it is not checked as {dtype}"))
    for number, plan in enumerate([plan for plan in plans if plan.dtype in request.options.dtypes] or plans):
        hung = not request.registered and any(run.runner.hung for run in totals.runs)
        if number and (hung or totals.deadline.has_passed(left_for_instance(totals.deadline))):
            yield totals.add(after_hang(plan) if hung else did_not_finish(plan, totals.deadline, ran=totals.ran))
            continue
        totals.unlaunched = plan.guessed and any(other.launched for other in plans)
        yield from _check_plan(request, prepared, plan, executor, totals)
    totals.unlaunched = False
    optimized_only = not request.options.unoptimized or executor.name != "emulator" or not totals.runs
    if not optimized_only and not totals.deadline.has_passed():
        yield from _check_unoptimized(request, prepared, totals)


def _check_plan(
    request: CheckRequest, prepared: PreparedKernel, plan: Plan, executor: Executor, totals: _Totals
) -> Iterator[CheckEvent]:
    """Run the cases of one dtype."""
    seconds = request.options.seconds
    # Probing and translation count.
    limit = None if seconds is None else TimeLimit(totals.deadline.shortened(seconds / len(prepared.plans)))
    least = 0.0 if request.registered else least_seconds(request.options, len(prepared.plans))
    searched, search_ms = (0, 0), 0.0
    if plan.inferred:
        yield Stage(plan.kernel, "probe")
        settled = settle_shapes(request, prepared, plan, executor, totals.deadline)
        totals.add_time("search", settled.milliseconds)
        if not request.registered:
            # The cases have as much time as the search for their sizes took.
            searched, search_ms = settled.searched, settled.milliseconds
            least = max(least, search_ms / 1e3)
        yield from map(totals.add, settled.findings)
        if settled.plan is None:
            return
        plan = settled.plan
    if prepared.artifact is not None and request.spec.reference is None:
        plan = with_tried_values(plan, prepared.artifact)
    yield Stage(plan.kernel, "reference")
    if prepared.ahead is not None:
        prepared.ahead.wait_translated(plan)
    run = open_plan(request, prepared, plan, executor, totals.deadline)
    totals.runs.append(run)
    yield from map(totals.add, run.opening)
    too_large = grids_too_large(plan, run.context.hints, run.context.findings)
    yield from map(totals.add, map(prepared.ignores.apply, too_large))
    subject = run.runner.subject
    if plan.triton is not None or subject is None:
        code = None if subject is None else subject.first(plan, run.context.seed)
        overflows = index_overflows(plan, run.context.hints, run.runner.launch, run.context.findings, code)
        yield from map(totals.add, map(prepared.ignores.apply, overflows))
    largest, began = None, scheduled_clock()
    run.source.searched = searched
    run.source.search_is_longer = lambda: _seconds(run, began) * 1e3 < search_ms
    for case, case_id in run.cases():
        # A time limit is set by the user; the first case always runs.
        late = limit is not None and run.progress.count.run and limit.left() <= 0
        if limit is not None and late and (_seconds(run, began) >= least or totals.deadline.has_passed()):
            totals.cut_short = True
            if not request.registered:
                yield totals.add(left_out(plan, run.progress.count.run, limit.seconds))
            break
        passed = run.progress.count.passed
        yield Stage(plan.kernel, "reference", run.progress.count.run, request.options.most)
        expected = run.expect(case)
        started = run.started(case, case_id) if prepared.calls_function else None
        yield Stage(plan.kernel, "execute", run.progress.count.run, request.options.most, started)
        yield from map(totals.add, run.check(case, case_id, expected))
        if run.progress.count.passed > passed and request.options.counters:
            largest = larger(largest, case)
        if run.finished:
            break
    yield from map(totals.add, run.closing())
    if not totals.deadline.has_passed():
        yield from map(totals.add, map(prepared.ignores.apply, run.repeated()))
    totals.add_time("cases", _seconds(run, began) * 1e3)
    if largest is not None and not totals.deadline.has_passed():
        yield Stage(plan.kernel, "count")
        counted = count(run, largest)
        if counted is not None:
            totals.counters.append(counted.counters)
            yield from map(totals.add, counted.hints)


def _seconds(run: PlanRun, began: float) -> float:
    """Return the seconds of the cases of a run, without translation and waits for a processor."""
    return scheduled_clock() - began - run.timing.get("translate", 0.0) / 1e3


def _check_unoptimized(request: CheckRequest, prepared: PreparedKernel, totals: _Totals) -> Iterator[CheckEvent]:
    from gpuemu_lsp.engine.check.unoptimized import check_unoptimized

    # Hints that the second pass was incomplete leave the status as it is: the kernel did run.
    for event in check_unoptimized(request, prepared, totals.runs):
        yield event if isinstance(event, Stage) or event.severity is Severity.HINT else totals.add(event)


def _not_executed(request: CheckRequest, prepared: PreparedKernel, why: str = "there is no launch to run") -> Finding:
    if not request.options.execute:
        why = "this workspace is not trusted to execute code"
    message = f"'{request.spec.name}' was compiled but not run: {why}."
    return make("engine/not-executed", message, prepared.place, kernel=request.spec.name)


def _measurements(run: PlanRun) -> DtypeMeasurements:
    errors, count = run.judge.statistics, run.progress.count
    return DtypeMeasurements(
        run.plan.dtype, count, errors.max_diff, errors.worst, tuple(errors.errors), dict(errors.needed)
    )


def _report(
    request: CheckRequest, prepared: PreparedKernel, totals: _Totals, executor: Executor | None, total: float
) -> KernelReport:
    counts = [run.progress.count for run in totals.runs]
    cases = CaseCount(
        sum(count.run for count in counts),
        sum(count.passed for count in counts),
        sum(count.assumed for count in counts),
    )
    if prepared.launches is not None:
        cases = CaseCount(prepared.launches.checked, prepared.launches.checked - prepared.launches.failed)
    failures = [run.progress.first_failure for run in totals.runs if run.progress.first_failure is not None]
    worst = [run.judge.statistics.worst for run in totals.runs if run.judge.statistics.worst is not None]
    waited = (run_delay() - totals.delay) * 1e3
    timing = {"compile": prepared.compile_ms, "total": total, "wait": waited, **totals.timing}
    for run in totals.runs:
        for stage, milliseconds in run.timing.items():
            timing[stage] = timing.get(stage, 0.0) + milliseconds
    return KernelReport(
        name=request.spec.name,
        source=request.spec.source,
        status=_status(request, prepared, totals, cases),
        compiled=prepared.artifact is not None,
        executor="emulator" if executor is None else executor.name,
        cases=cases,
        clean_at=clean_at(
            [sizes for run in totals.runs for sizes in run.progress.clean],
            [sizes for run in totals.runs for sizes in run.progress.assumed],
        ),
        resources=prepared.resources,
        specialisation=prepared.specialisation,
        timing_ms=timing,
        first_failure=min(failures, default=None),
        worst=max(worst, default=None),
        approximate=tuple(sorted({name for run in totals.runs for name in run.runner.approximate})),
        registered=request.registered,
        toolchain=prepared.artifact.toolchain if prepared.artifact is not None else "",
        measured=tuple(map(_measurements, totals.runs)),
        coverage=merged(line for run in totals.runs for line in _covered_lines(run)),
        counters=tuple(totals.counters),
        language=prepared.language.name if prepared.language is not None else "",
    )


def _covered_lines(run: PlanRun) -> Iterator[LineCoverage]:
    runner = run.runner
    if runner.guidance is not None:
        yield from runner.guidance.totals.lines(run.context.findings.source_map)
    for totals, source_map in (runner.covered or {}).values():
        yield from totals.lines(source_map)


def _reused_report(
    request: CheckRequest, prepared: PreparedKernel, totals: _Totals, stored: KernelReport, total: float
) -> KernelReport:
    """Return the report of a stored verdict with what this check found out itself."""
    assert prepared.artifact is not None
    return replace(
        stored,
        source=request.spec.source,
        status=_status(request, prepared, totals, stored.cases),
        resources=prepared.resources,
        specialisation=prepared.specialisation,
        timing_ms={"compile": prepared.compile_ms, "total": total},
        toolchain=prepared.artifact.toolchain,
    )


def _status(request: CheckRequest, prepared: PreparedKernel, totals: _Totals, cases: CaseCount) -> str:
    # A compilation that failed for lack of a header or a feature is not an error of the kernel.
    if prepared.artifact is None:
        return "error" if totals.errors or not totals.not_run else "not-executed"
    if totals.errors:
        return "error" if totals.unverified or not cases.run else "failed"
    if prepared.launches is not None and prepared.launches.failed:
        return "failed"
    if totals.not_run or not cases.run:
        return "not-executed"
    return "passed" if request.spec.reference is not None else "unreferenced"
