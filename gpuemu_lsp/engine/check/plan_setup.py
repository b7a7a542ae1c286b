"""Set-up of one plan before its cases run: reference, hints for the fuzzer, launch."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from functools import partial

from gpuemu_lsp.engine.check.case_judge import CaseJudge
from gpuemu_lsp.engine.check.case_runner import CaseRunner
from gpuemu_lsp.engine.check.case_source import CaseSource
from gpuemu_lsp.engine.check.coverage import CoverageTotals
from gpuemu_lsp.engine.check.coverage_guidance import CoverageGuidance
from gpuemu_lsp.engine.check.finding_placer import FindingFactory, FindingPlacer
from gpuemu_lsp.engine.check.plan_run import PlanContext, PlanRun, RunProgress
from gpuemu_lsp.engine.check.policies.confirm_unoptimized import Run, UnoptimizedConfirmation
from gpuemu_lsp.engine.check.reference_calls import ReferenceCaller, load_reference, op_places
from gpuemu_lsp.engine.check.replay_store import ReplayStore
from gpuemu_lsp.engine.compile.model import Artifact
from gpuemu_lsp.engine.compile.toolchain import ToolchainError
from gpuemu_lsp.engine.execution import Checks, Executor, Request
from gpuemu_lsp.engine.fuzz.model import LaunchHints
from gpuemu_lsp.engine.oracle import JudgingPolicy
from gpuemu_lsp.engine.plan.model import Plan, ScalarArg
from gpuemu_lsp.engine.ptx import parse
from gpuemu_lsp.engine.store import Store
from gpuemu_lsp.engine.subjects.language import PreparedKernel
from gpuemu_lsp.engine.subjects.request import CheckRequest
from gpuemu_lsp.engine.time_limit import SharedDeadline

_NUMBER = re.compile(r"\d+")
_MAX_DIGITS = 6
"""Longer integer constants are not sizes of tiles or arrays."""


def open_plan(
    request: CheckRequest,
    prepared: PreparedKernel,
    plan: Plan,
    executor: Executor,
    deadline: SharedDeadline | None = None,
) -> PlanRun:
    """Load the reference and build everything that the cases of one plan share."""
    subject = prepared.subject
    assert subject is not None
    first = subject.first(plan, request.options.seed)
    constants = _constexprs(plan) if plan.triton is not None or prepared.source is None else prepared.source.constants
    tiles, numerics = _tile_sizes(constants, plan.entry), first.numerics
    hints = LaunchHints(tiles, numerics.linear, "f16" in numerics.precisions)
    spec, options = request.spec, request.options
    findings = FindingFactory(plan, first.artifact.arch, first.source_map, spec.places)
    reference, problem = load_reference(request, findings)
    if prepared.calls_function:
        findings = replace(findings, related=op_places(findings, reference))
    context = PlanContext(request, plan, hints, prepared.ignores, findings)
    launch = Request(
        first.artifact,
        first.entry,
        (1, 1, 1),
        (1, 1, 1),
        0,
        (),
        max_seconds=options.case_seconds,
        translate_seconds=options.translate_seconds,
        checks=Checks(strict_fences=request.validation.strict_fences),
    )
    # The goals that guide cases are those of one artifact.
    guided = options.coverage and subject.single
    guidance = CoverageGuidance(plan, context.seed, hints, CoverageTotals()) if guided else None
    runner = CaseRunner(plan, executor, launch, guidance, None if subject.single else subject)
    runner.covered = {} if options.coverage and not subject.single else None
    runner.deadline = deadline or runner.deadline
    store = ReplayStore(plan, hints, Store(options.store_root) if options.store_root is not None else None)
    policy = JudgingPolicy(spec.tolerances, request.validation, spec.invariants)
    run = PlanRun(
        context=context,
        source=CaseSource(plan, options, context.seed, hints, store, runner),
        runner=runner,
        reference=ReferenceCaller(reference, findings, options.case_seconds),
        judge=CaseJudge(plan, reference, lambda case: (runner.code(case) or first).numerics, policy),
        placer=FindingPlacer(findings, runner),
        store=store,
        opening=() if problem is None else (problem,),
        finished=problem is not None,
    )
    if subject.single:
        unoptimized = partial(_unoptimized_launches, request, prepared, run)
        run.judge.confirmation = UnoptimizedConfirmation(first.module, unoptimized)
    return run


def unoptimized_run(run: PlanRun, prepared: PreparedKernel, artifact: Artifact) -> PlanRun:
    """Return a run of the same cases on ``artifact``, the kernel compiled without optimisation.

    It has its own progress and stored cases. Statistics, times and reported findings are shared with ``run``: together
    they are one check of the kernel.
    """
    context, options = run.context, run.context.request.options
    findings = replace(context.findings, source_map=prepared.source_map(parse(artifact.ptx), run.plan))
    context = replace(context, findings=findings)
    launch = replace(run.runner.launch, artifact=artifact, entry=artifact.entries[run.plan.entry])
    runner = replace(run.runner, launch=launch, guidance=None)
    store = ReplayStore(run.plan, context.hints, run.store.store, optimized=False)
    return replace(
        run,
        context=context,
        source=CaseSource(run.plan, options, context.seed, context.hints, store, runner),
        runner=runner,
        judge=replace(run.judge, confirmation=None),
        placer=FindingPlacer(findings, runner),
        store=store,
        progress=RunProgress(first_failure=run.progress.first_failure),
        finished=False,
    )


def _unoptimized_launches(request: CheckRequest, prepared: PreparedKernel, run: PlanRun) -> Run | None:
    """Return a function that launches cases on unoptimised code, None if that does not compile, or not in time."""
    if run.runner.deadline.has_passed(run.runner.launch.max_seconds):
        return None
    try:
        artifact = prepared.without_optimization().artifact
    except ToolchainError:
        return None
    return unoptimized_run(run, prepared, artifact).runner.run if artifact is not None else None


def _constexprs(plan: Plan) -> dict[str, str]:
    """Return the values of integer constexprs that do not depend on a size, and those of lists."""
    known = {arg.param: str(arg.value) for arg in plan.args if isinstance(arg, ScalarArg) and arg.constexpr}
    listed = {dim.name: " ".join(map(str, dim.choices)) for dim in plan.dims if dim.choices}
    return {**known, **listed}


def _tile_sizes(constants: Mapping[str, str], entry: str) -> tuple[int, ...]:
    """Return the integers in a file's constants and in the template arguments: sizes next to them are worth a case."""
    texts = [*constants.values(), entry.partition("<")[2]]
    numbers = (number for text in texts for number in _NUMBER.findall(text))
    return tuple(sorted({int(number) for number in numbers if len(number) <= _MAX_DIGITS}))
