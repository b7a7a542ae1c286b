"""Opening a plan: the reference, the hints and the launch that all its cases share."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from gpuemu_lsp.engine.check.coverage import CoverageTotals
from gpuemu_lsp.engine.check.coverage_guidance import CoverageGuidance
from gpuemu_lsp.engine.check.finding_placer import FindingFactory
from gpuemu_lsp.engine.check.model import CaseCount, CheckRequest
from gpuemu_lsp.engine.check.plan_run import PlanRun
from gpuemu_lsp.engine.check.policies.confirm_unoptimized import Run, UnoptimizedConfirmation
from gpuemu_lsp.engine.check.prepare import PreparedKernel, without_optimization
from gpuemu_lsp.engine.check.replay_store import ReplayStore
from gpuemu_lsp.engine.check.source_map import SourceMap
from gpuemu_lsp.engine.check.watchdog import deadline
from gpuemu_lsp.engine.compile import ToolchainError
from gpuemu_lsp.engine.compile.model import Artifact
from gpuemu_lsp.engine.execution import Executor, Request
from gpuemu_lsp.engine.fuzz.model import LaunchHints
from gpuemu_lsp.engine.lint import arithmetic_precisions, linear_only
from gpuemu_lsp.engine.oracle import Numerics, ReferenceFailure, load
from gpuemu_lsp.engine.plan.model import Plan
from gpuemu_lsp.engine.ptx import parse
from gpuemu_lsp.engine.ptx.model import Module
from gpuemu_lsp.engine.store import Store

_NUMBER = re.compile(r"\d+")


def open_plan(request: CheckRequest, prepared: PreparedKernel, plan: Plan, executor: Executor) -> PlanRun:
    """Load the reference and everything else the cases of one plan share."""
    artifact, source = prepared.artifact, prepared.source
    assert artifact is not None and source is not None
    module = parse(artifact.ptx)
    entry = artifact.entries[plan.entry]
    linear = linear_only(module, entry)
    hints = LaunchHints(_constants(source.constants, plan.entry), linear)
    root = request.options.store_root
    run = PlanRun(
        request=request,
        plan=plan,
        scene=FindingFactory(plan, artifact.arch, _atlas(prepared, module, plan)),
        executor=executor,
        launch=Request(artifact, entry, (1, 1, 1), (1, 1, 1), 0, (), max_seconds=request.options.case_seconds),
        hints=hints,
        numerics=Numerics(arithmetic_precisions(module, entry), (), linear),
        ignores=prepared.ignores,
        memory=ReplayStore(plan, hints, Store(root) if root is not None else None),
    )
    run.doubt = UnoptimizedConfirmation(module, lambda: _unoptimized(request, prepared, run))
    if request.options.coverage:
        run.steering = CoverageGuidance(plan, run.seed, hints, CoverageTotals())
    if request.spec.reference is not None:
        try:
            with deadline(request.options.case_seconds):
                run.reference = load(request.spec.reference, request.spec.reference_function)
        except ReferenceFailure as failure:
            run.opening = (run.reference_finding(failure, None),)
            run.finished = True
    return run


def _unoptimized(request: CheckRequest, prepared: PreparedKernel, run: PlanRun) -> Run | None:
    """Return what runs cases on unoptimised code, None where it does not compile."""
    try:
        artifact = without_optimization(request, prepared).artifact
    except ToolchainError:
        return None
    return lowered(run, prepared, artifact).execute if artifact is not None else None


def lowered(run: PlanRun, prepared: PreparedKernel, artifact: Artifact) -> PlanRun:
    """Return a run of the same cases on ``artifact``, the same kernel compiled without optimisation."""
    scene = replace(run.scene, atlas=_atlas(prepared, parse(artifact.ptx), run.plan))
    launch = replace(run.launch, artifact=artifact, entry=artifact.entries[run.plan.entry])
    memory = ReplayStore(run.plan, run.hints, run.memory.store, optimized=False)
    return replace(
        run,
        scene=scene,
        launch=launch,
        steering=None,
        doubt=None,
        memory=memory,
        count=CaseCount(),
        failing=0,
        finished=False,
    )


def _atlas(prepared: PreparedKernel, module: Module, plan: Plan) -> SourceMap:
    source = prepared.source
    assert source is not None

    def text_of(path: str) -> str | None:
        if path == source.path:
            return source.text
        if path in prepared.headers:
            return Path(path).read_text(encoding="utf-8", errors="replace")
        return None

    return SourceMap(module.files, text_of, plan.place)


def _constants(constants: Mapping[str, str], entry: str) -> tuple[int, ...]:
    """Integers that may be tile sizes: of the file, and of the instance's template arguments."""
    texts = [*constants.values(), entry.partition("<")[2]]
    return tuple(sorted({int(number) for text in texts for number in _NUMBER.findall(text) if len(number) < 7}))
