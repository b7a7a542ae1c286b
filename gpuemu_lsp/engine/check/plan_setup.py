"""Set-up of one plan before its cases run: guessed shapes, reference, hints for the fuzzer, launch."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial

from gpuemu_lsp.engine.check.case_judge import CaseJudge
from gpuemu_lsp.engine.check.case_runner import CaseRunner
from gpuemu_lsp.engine.check.case_source import CaseSource
from gpuemu_lsp.engine.check.coverage import CoverageTotals
from gpuemu_lsp.engine.check.coverage_guidance import CoverageGuidance
from gpuemu_lsp.engine.check.finding_placer import FindingFactory, FindingPlacer
from gpuemu_lsp.engine.check.plan_run import PlanContext, PlanRun, RunProgress
from gpuemu_lsp.engine.check.policies.confirm_unoptimized import Run, UnoptimizedConfirmation
from gpuemu_lsp.engine.check.prepare import PreparedKernel, without_optimization
from gpuemu_lsp.engine.check.reference_calls import ReferenceCaller, load_reference, op_places
from gpuemu_lsp.engine.check.replay_store import ReplayStore
from gpuemu_lsp.engine.compile.model import Artifact
from gpuemu_lsp.engine.compile.toolchain import ToolchainError
from gpuemu_lsp.engine.execution import Checks, Executor, Outcome, Request
from gpuemu_lsp.engine.findings import Finding, Severity
from gpuemu_lsp.engine.fuzz import pack_arguments, rebuild
from gpuemu_lsp.engine.fuzz.model import CaseKey, LaunchHints, PlanError
from gpuemu_lsp.engine.oracle import JudgingPolicy
from gpuemu_lsp.engine.plan.candidates import regular_sizes
from gpuemu_lsp.engine.plan.model import Plan, ReadLaunch, ScalarArg, TensorArg
from gpuemu_lsp.engine.plan.probe import ProbeResult, probe
from gpuemu_lsp.engine.project.expressions import Expression, ExpressionError, constant, evaluate
from gpuemu_lsp.engine.project.expressions import parse as parse_expression
from gpuemu_lsp.engine.ptx import parse
from gpuemu_lsp.engine.rules import make
from gpuemu_lsp.engine.store import Store
from gpuemu_lsp.engine.subjects.request import CheckRequest
from gpuemu_lsp.engine.subjects.source_map import SourceMap
from gpuemu_lsp.engine.time_limit import SharedDeadline, scheduled_clock

_NUMBER = re.compile(r"\d+")
_SHARED = re.compile(r"\b__shared__\b[^;={}()]*;")
_EXTENT = re.compile(r"\[\s*(\d+)\s*\]")
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
    if spec.op is not None:
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
        artifact = without_optimization(request, prepared).artifact
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


# ---- guessed shapes --------------------------------------------------------------------------------------------------
_GUARD_BYTES = 1 << 23
"""Wide enough that an overrun with any candidate shape stays in the guard zone of its own buffer."""
_PROBE_STEPS = 2_000_000
"""Basic blocks of one warp in a probing launch; its sizes are small."""
_PROBE_SECONDS = 5.0
"""Time limit of a probing launch. The steps end it first except on a very busy machine."""
_PROBE_TOTAL_SECONDS = 10.0
"""Limit of all probing launches of a plan but the first, without waits for a processor: a busy machine makes the same
plan."""
_PROBE_SHARE = 0.45
"""Share of the seconds of an unregistered kernel that they may take; its cases have the rest."""
_PROBE_EVENTS = 1000
"""Other mistakes of a kernel must not end a probing launch before it has accessed all of its buffers."""


_NOT_IN_TIME = "the lengths of its buffers were not found in time"


class _ProbeTimeoutError(Exception):
    """The kernel's translation exceeded its limit; the arguments are the message and the cause of the event."""


@dataclass(frozen=True, slots=True)
class SettledShapes:
    """The plan with the shapes of its buffers, None where they are not found, and what is to be said about them.

    ``milliseconds`` are those of the launches that found them, without translation, which the cases need too;
    ``searched`` are their number and their steps.
    """

    plan: Plan | None
    findings: tuple[Finding, ...]
    milliseconds: float
    searched: tuple[int, int]


@dataclass(slots=True)
class _ProbingLaunches:
    """Launches that find the shapes of a plan's buffers, within ``seconds`` from the second one on.

    The first one translates the kernel. The deadline leaves time for a case, whose block may need another translation.
    """

    executor: Executor
    launch: Request
    seconds: float
    deadline: SharedDeadline
    case_seconds: float
    ends: float = math.inf
    translate_ms: float = 0.0
    number: int = 0
    steps: int = 0

    def run(self, candidate: Plan, dims: Mapping[str, int]) -> Outcome:
        """Launch the kernel with the shapes of ``candidate``."""
        left, limit = self.ends - scheduled_clock(), self.deadline.limit
        if left <= 0:
            raise PlanError(_NOT_IN_TIME)
        began, case = scheduled_clock(), rebuild(candidate, CaseKey(0, "default", dict(dims)))
        outcome = self.executor.run(
            replace(
                self.launch,
                grid=case.grid,
                block=case.block,
                shared_bytes=case.shared_bytes,
                arguments=pack_arguments(candidate, case),
                max_seconds=min(left, self.seconds, self.launch.max_seconds),
                translate_seconds=min(self.launch.translate_seconds, math.inf if limit is None else left),
            )
        )
        self.translate_ms += outcome.translate_ms
        self.number += 1
        if self.number == 1:
            needed = outcome.translate_ms / 1e3 + self.case_seconds
            left = self.seconds + began + outcome.translate_ms / 1e3 - scheduled_clock()
            self.ends = scheduled_clock() + min(left, math.inf if limit is None else limit.left() - needed)
        self.steps += outcome.steps
        timeout = next((event for event in outcome.events if event.rule == "engine/timeout"), None)
        if timeout is not None and self.number > 1 and limit is not None:
            raise PlanError(_NOT_IN_TIME)
        if timeout is not None:
            raise _ProbeTimeoutError(timeout.message, timeout.cause)
        return outcome


def settle_shapes(
    request: CheckRequest,
    prepared: PreparedKernel,
    plan: Plan,
    executor: Executor,
    deadline: SharedDeadline | None = None,
) -> SettledShapes:
    """Determine the shapes of an unconfigured kernel's buffers by probing launches.

    Returns the plan with a hint that lists its assumptions, or None with a finding that says what to configure.
    """
    assert prepared.artifact is not None
    artifact = prepared.artifact
    seconds = _PROBE_TOTAL_SECONDS
    if request.options.seconds is not None and not request.registered:
        seconds = min(seconds, _PROBE_SHARE * request.options.seconds / len(prepared.plans))
    translate_seconds = request.options.translate_seconds
    if deadline is not None:
        # A third, so that the cases have as much time, and translation too.
        seconds, translate_seconds = deadline.shortened(3 * seconds) / 3, deadline.shortened(translate_seconds)
    launch = Request(
        artifact=artifact,
        entry=artifact.entries[plan.entry],
        grid=(1, 1, 1),
        block=(1, 1, 1),
        shared_bytes=0,
        arguments=(),
        max_steps=_PROBE_STEPS,
        max_seconds=_PROBE_SECONDS,
        translate_seconds=translate_seconds,
        max_events=_PROBE_EVENTS,
        max_printed=0,
        guard_bytes=_GUARD_BYTES,
    )
    started = scheduled_clock()
    case_seconds = request.options.case_seconds
    launches = _ProbingLaunches(executor, launch, seconds, deadline or SharedDeadline(), case_seconds)
    settled, findings = _settled(request, prepared, plan, launches)
    milliseconds = (scheduled_clock() - started) * 1e3 - launches.translate_ms
    return SettledShapes(settled, findings, milliseconds, (launches.number, launches.steps))


def _settled(
    request: CheckRequest, prepared: PreparedKernel, plan: Plan, launches: _ProbingLaunches
) -> tuple[Plan | None, tuple[Finding, ...]]:
    try:
        probed = probe(plan, launches.run, _array_lengths(prepared))
    except PlanError as error:
        other = plan if plan.read_launch is not None else plan.alternative
        if other is not None and other.read_launch is not None:
            return _of_read_launch(other, other.read_launch, ProbeResult(None, str(error)))
        return None, (_unsettled(request, plan, str(error)),)
    except _ProbeTimeoutError as error:
        nowhere = SourceMap({}, lambda _: None, plan.place)
        found = FindingFactory(plan, launches.launch.artifact.arch, nowhere).timed_out(*error.args)
        hint = replace(found, rule="engine/not-executed", severity=Severity.HINT)
        return None, (found if request.registered else hint,)
    # For a registered kernel the shapes that its signature states hold even if the probing launches contradict them.
    stated = plan if request.registered and _has_shapes(plan) else None
    settled = probed.plan or stated or probed.partial
    if plan.read_launch is not None:
        return _of_read_launch(plan, plan.read_launch, probed)
    other = plan.alternative
    if settled is not None and other is not None and other.read_launch is not None and _contradicts(settled, other):
        return _of_read_launch(other, other.read_launch, ProbeResult(None, "the program has other lengths"))
    if settled is None and plan.alternative is not None and plan.alternative.read_launch is not None:
        return _of_read_launch(plan.alternative, plan.alternative.read_launch, ProbeResult(None, probed.reason))
    if settled is None:
        return None, (_unsettled(request, plan, probed.reason),)
    shapes = [
        f"{arg.param}: {arg.direction} [{', '.join(map(str, arg.shape))}]"
        for arg in settled.args
        if isinstance(arg, TensorArg)
    ]
    # The plan's own notes on shapes were a first guess.
    params = tuple(f"{arg.param}: " for arg in plan.args if isinstance(arg, TensorArg))
    notes = (*shapes, *(note for note in plan.notes if not note.startswith(params)))
    message = f"The launch of '{plan.kernel}' is not configured; assumed: {'; '.join(notes)}."
    hint = make("config/launch-inferred", message, plan.place, kernel=plan.kernel, dtype=plan.dtype)
    return replace(settled, notes=notes), (hint,)


def _contradicts(settled: Plan, launched: Plan) -> bool:
    """Return whether the program allocates a number of elements of a buffer that differs from the inferred one.

    They are compared on sizes of the program: scalar arguments of its launch are the sizes of the inferred plan.
    """
    known = {arg.param: arg.shape[0] for arg in launched.args if isinstance(arg, TensorArg) and arg.shape}
    inferred = [arg for arg in settled.args if isinstance(arg, TensorArg) and arg.shape and arg.param in known]
    for sizes in regular_sizes(launched):
        passed = {arg.param: _evaluated(arg.value, sizes) for arg in launched.args if isinstance(arg, ScalarArg)}
        env = {name: value for name, value in passed.items() if value is not None}
        for arg in inferred:
            own, other = _evaluated(known[arg.param], sizes), _evaluated(arg.shape[0], env)
            if own is not None and own != other and (other is not None or constant(known[arg.param]) is not None):
                return True
    return False


def _evaluated(value: Expression | float | bool, env: Mapping[str, int]) -> int | None:
    if not isinstance(value, Expression):
        return value if isinstance(value, int) else None
    try:
        return evaluate(value, env)
    except ExpressionError:
        return None


_OVERSIZED = 1 << 16
"""Elements of a buffer whose length is not found."""


def _of_read_launch(plan: Plan, launch: ReadLaunch, probed: ProbeResult) -> tuple[Plan, tuple[Finding, ...]]:
    """Return the plan of a launch in the program, whose buffers without a known length are large ones if need be.

    Accesses to them are then not judged.
    """
    missing = {arg.param for arg in plan.args if isinstance(arg, TensorArg) and not arg.shape}
    settled, uncertain = probed.plan, missing
    ranks = launch.ranks if settled is None else {}
    if settled is None:
        large = parse_expression(_OVERSIZED)
        args = (
            replace(arg, shape=(ranks.get(arg.param, large),)) if isinstance(arg, TensorArg) and not arg.shape else arg
            for arg in plan.args
        )
        settled = replace(plan, args=tuple(args))
        uncertain = missing - ranks.keys()
    else:
        uncertain = set(settled.uncertain_lengths)
    read = replace(launch, uncertain=launch.uncertain | uncertain, unjudged=launch.unjudged | missing, ranks=ranks)
    tensors = (arg for arg in settled.args if isinstance(arg, TensorArg))
    known = [f"{arg.param}: {arg.direction} [{arg.shape[0]}]" for arg in tensors if arg.param not in uncertain]
    where = [note for note in plan.notes if note.startswith("launch of ")]
    message = f"'{plan.kernel}' is checked as the program launches it: {'; '.join((*known, *where))}."
    if uncertain:
        names = ", ".join(f"'{name}'" for name in sorted(uncertain))
        message = f"{message} The extents of {names} are not known, and accesses outside of them are not reported."
    hint = make("config/launch-inferred", message, plan.place, kernel=plan.kernel, dtype=plan.dtype)
    return replace(settled, inferred=False, read_launch=read, notes=(*known, *where)), (hint,)


def _array_lengths(prepared: PreparedKernel) -> tuple[int, ...]:
    """Return the file's plain integer constants, and the lengths of its shared arrays: those of a histogram's bins."""
    if prepared.source is None:
        return ()
    shared = (_EXTENT.findall(declaration) for declaration in _SHARED.findall(prepared.source.text))
    constants = (text.strip(" ()") for text in prepared.source.constants.values())
    texts = [*constants, *(extents[0] for extents in shared if len(extents) == 1)]
    return tuple(sorted({int(text) for text in texts if text.isdecimal() and len(text) <= _MAX_DIGITS}))


def _has_shapes(plan: Plan) -> bool:
    """Return whether the signature alone gives every tensor a shape: one size for all of them."""
    return all(arg.shape for arg in plan.args if isinstance(arg, TensorArg))


def _unsettled(request: CheckRequest, plan: Plan, reason: str) -> Finding:
    message = f"'{plan.kernel}' was compiled but not run: {reason}. Set its dims, args and launch in gpuemu.toml."
    severity = Severity.WARNING if request.registered else Severity.HINT
    return make("engine/not-executed", message, plan.place, kernel=plan.kernel, severity=severity)
