"""Extents of buffers that nothing shows: the lengths that fit probing launches of the kernel."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace

from gpuemu_lsp.engine.check.finding_placer import FindingFactory
from gpuemu_lsp.engine.check.tried_values import indexed_tensors
from gpuemu_lsp.engine.execution import Executor, Outcome, Request
from gpuemu_lsp.engine.findings import Finding, Severity
from gpuemu_lsp.engine.fuzz import pack_arguments, rebuild
from gpuemu_lsp.engine.fuzz.model import CaseKey, PlanError
from gpuemu_lsp.engine.plan.array_lengths import array_lengths
from gpuemu_lsp.engine.plan.candidates import regular_sizes
from gpuemu_lsp.engine.plan.facts import FITTED, Claim, PlanOrigin, assumed, with_extents
from gpuemu_lsp.engine.plan.length_search import with_shapes
from gpuemu_lsp.engine.plan.model import Plan, ScalarArg, TensorArg
from gpuemu_lsp.engine.plan.probe import OVERSIZED, ProbeResult, probe
from gpuemu_lsp.engine.project.expressions import Expression, ExpressionError, constant, evaluate
from gpuemu_lsp.engine.project.expressions import parse as parse_expression
from gpuemu_lsp.engine.rules import make
from gpuemu_lsp.engine.subjects.language import PreparedKernel
from gpuemu_lsp.engine.subjects.request import CheckRequest
from gpuemu_lsp.engine.subjects.source_map import SourceMap
from gpuemu_lsp.engine.time_limit import SharedDeadline, scheduled_clock

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


_UNKNOWN_EXTENT = assumed("assumes the extent of the buffer", Claim.NOTHING)
_UNUSED = assumed("assumes that the program reads every element")
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
        indexed = indexed_tensors(plan, launches.launch.artifact)
        probed = probe(plan, launches.run, array_lengths(prepared.source), indexed)
    except PlanError as error:
        other = plan if plan.facts.origin is PlanOrigin.HOST_CODE else plan.alternative
        if other is not None:
            return _of_launch(other, ProbeResult(None, str(error)))
        return None, (_unsettled(request, plan, str(error)),)
    except _ProbeTimeoutError as error:
        nowhere = SourceMap({}, lambda _: None, plan.place)
        found = FindingFactory(plan, launches.launch.artifact.arch, nowhere).timed_out(*error.args)
        hint = replace(found, rule="engine/not-executed", severity=Severity.HINT)
        return None, (found if request.registered else hint,)
    # For a registered kernel the shapes that its signature states hold even if the probing launches contradict them.
    stated = plan if request.registered and _has_shapes(plan) else None
    settled = probed.plan or stated or probed.partial
    if plan.facts.origin is PlanOrigin.HOST_CODE:
        return _of_launch(plan, probed)
    other = plan.alternative
    if settled is not None and other is not None and _contradicts(settled, other):
        return _of_launch(other, ProbeResult(None, "the program has other lengths"))
    if settled is None and other is not None:
        return _of_launch(other, ProbeResult(None, probed.reason))
    if settled is None:
        return None, (_unsettled(request, plan, probed.reason),)
    shapes = [
        f"{arg.param}: {arg.direction} [{', '.join(map(str, arg.shape))}]"
        for arg in settled.args
        if isinstance(arg, TensorArg) and arg.param not in probed.chosen
    ]
    # The plan's own notes on shapes were a first guess.
    params = tuple(f"{arg.param}: " for arg in plan.args if isinstance(arg, TensorArg))
    notes = (*shapes, *(note for note in plan.notes if not note.startswith(params)))
    message = f"The launch of '{plan.kernel}' is not configured; assumed: {'; '.join(notes)}."
    if probed.chosen:
        message = f"{message} {_not_judged(probed.chosen)}"
    guessed = {"guessed": True} if plan.guessed else {}
    hint = make("config/launch-inferred", message, plan.place, kernel=plan.kernel, dtype=plan.dtype, data=guessed)
    unfitted = assumed("no product of its sizes is the length of the buffer", Claim.NOT_CHECKED)
    facts = settled.facts
    if facts.origin is PlanOrigin.SIGNATURE:
        facts = with_extents(facts, probed.unfitted, unfitted)
    if probed.chosen:
        facts = with_extents(facts, probed.chosen, _UNKNOWN_EXTENT, _UNUSED)
    return replace(settled, notes=notes, facts=facts), (hint,)


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


def _of_launch(plan: Plan, probed: ProbeResult) -> tuple[Plan, tuple[Finding, ...]]:
    """Return the plan of a launch in the program, whose buffers without a known length are large ones if need be.

    Accesses to them are then not judged.
    """
    missing = {arg.param for arg in plan.args if isinstance(arg, TensorArg) and not arg.shape}
    settled, uncertain = probed.plan, missing
    facts = plan.facts
    ranks = {name: buffer.length for name, buffer in facts.buffers.items() if buffer.length is not None}
    large = parse_expression(OVERSIZED)
    if settled is None:
        args = (
            replace(arg, shape=(ranks.get(arg.param, large),)) if isinstance(arg, TensorArg) and not arg.shape else arg
            for arg in plan.args
        )
        settled = replace(plan, args=tuple(args))
        uncertain = missing - ranks.keys()
    else:
        uncertain = set(probed.unfitted)
        # An access outside would end the launch before it shows other mistakes.
        settled = with_shapes(settled, dict.fromkeys(uncertain, large))
        facts = with_extents(facts, missing, FITTED)
    facts = with_extents(facts, missing, use=_UNUSED)
    facts = with_extents(facts, uncertain, _UNKNOWN_EXTENT)
    tensors = (arg for arg in settled.args if isinstance(arg, TensorArg))
    known = [f"{arg.param}: {arg.direction} [{arg.shape[0]}]" for arg in tensors if arg.param not in uncertain]
    where = [note for note in plan.notes if note.startswith("launch of ")]
    message = f"'{plan.kernel}' is checked as the program launches it: {'; '.join((*known, *where))}."
    if uncertain:
        message = f"{message} {_not_judged(uncertain)}"
    hint = make("config/launch-inferred", message, plan.place, kernel=plan.kernel, dtype=plan.dtype)
    return replace(settled, inferred=False, facts=facts, notes=(*known, *where)), (hint,)


def _not_judged(params: Collection[str]) -> str:
    """Return the sentence about buffers whose extents are not known."""
    names = ", ".join(f"'{name}'" for name in sorted(params))
    return f"The extents of {names} are not known, and accesses outside of them are not reported."


def _has_shapes(plan: Plan) -> bool:
    """Return whether the signature alone gives every tensor a shape: one size for all of them."""
    return all(arg.shape for arg in plan.args if isinstance(arg, TensorArg))


def _unsettled(request: CheckRequest, plan: Plan, reason: str) -> Finding:
    message = f"'{plan.kernel}' was compiled but not run: {reason}. Set its dims, args and launch in gpuemu.toml."
    severity = Severity.WARNING if request.registered else Severity.HINT
    data = {"reason": reason}
    return make("engine/not-executed", message, plan.place, kernel=plan.kernel, severity=severity, data=data)
