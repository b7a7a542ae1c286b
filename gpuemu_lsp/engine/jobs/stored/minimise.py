"""Minimisation of a stored failing case; the result is stored as a separate case."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import replace

from gpuemu_lsp.engine.check.failure_snapshot import stored_snapshot
from gpuemu_lsp.engine.check.model import MinimisedFailure, Stage
from gpuemu_lsp.engine.check.replay import HANG_STEPS, ReopenedCase, reopen, replayed
from gpuemu_lsp.engine.check.replay_store import plan_digest
from gpuemu_lsp.engine.execution import Request
from gpuemu_lsp.engine.findings import Finding, Severity
from gpuemu_lsp.engine.fuzz import rebuild
from gpuemu_lsp.engine.fuzz.model import Array, Case
from gpuemu_lsp.engine.shrink import Improvement, ShrinkBudget, ShrinkResult, improvements, space_of
from gpuemu_lsp.engine.store import Failure, Store
from gpuemu_lsp.engine.subjects.request import CheckRequest

MAX_SECONDS = 60.0
_SLOWDOWN = 4.0
"""Time limit of a smaller case, as a multiple of the original's time; exceeding it is another failure."""
_HANG_SECONDS = 0.5
_ALL = "all"
_DTYPES = ("float32", "float64", "bfloat16", "float16", "float8_e5m2", "float8_e4m3fn")
"""Dtypes from simplest to most special."""


def minimise_case(
    request: CheckRequest, failure: Failure, case_id: str, strategy: str, budget: ShrinkBudget, store: Store
) -> Iterator[Stage | MinimisedFailure]:
    """Minimise one stored case; yield stages, and last the result.

    A smaller case must break the same rule on the same line. If the kernel also fails with the same seed and sizes in a
    simpler dtype, the case of that dtype is minimised instead.

    Raises
    ------
    KeyError
        If ``strategy`` is unknown.
    StoreError
        If the result cannot be stored.
    """
    name = request.spec.name
    yield Stage(name, "compile")
    opened = reopen(request, failure)
    if opened.run is None or opened.case is None:
        replay = replayed(failure, case_id, None, list(opened.findings))
        yield MinimisedFailure(case_id, failure.dims, None, replay)
        return
    yield Stage(name, "reproduce")
    started = time.perf_counter()
    findings = opened.examine(opened.case, case_id, attribute=False)
    seconds = time.perf_counter() - started
    target = next((finding for finding in findings if _is_error(finding) and finding.rule == failure.rule), None)
    if target is None:
        yield MinimisedFailure(case_id, failure.dims, None, replayed(failure, case_id, opened.case, findings), runs=1)
        return
    dtype = failure.dtype
    if strategy == _ALL:
        opened, failure, target = _simpler_dtype(request, opened, failure, target, store)
    result: ShrinkResult | None = None
    for step in shrinking(opened, target, seconds, budget, strategy):
        if isinstance(step, ShrinkResult):
            result = step
        else:
            yield Stage(name, "minimise", step.runs, budget.max_runs)
    assert result is not None
    yield _finish(opened, failure, case_id, result, store, moved=failure.dtype != dtype)


def _simpler_dtype(
    request: CheckRequest, opened: ReopenedCase, failure: Failure, target: Finding, store: Store
) -> tuple[ReopenedCase, Failure, Finding]:
    """Return the case in the simplest dtype in which it fails in the same way, or the arguments if there is none.

    The dtype does not change for a case with stored values, which belong to its dtype, nor to a dtype for which the
    case is stored already and will be minimised separately.
    """
    simpler = _DTYPES[: _DTYPES.index(failure.dtype)] if failure.dtype in _DTYPES and not failure.tensors else ()
    for dtype in [dtype for dtype in simpler if dtype in (request.spec.dtypes or ())]:
        other = replace(failure, dtype=dtype)
        if any(stored.case == other.case for stored in store.failures_for(failure.kernel, dtype)):
            break
        candidate = reopen(request, other)
        if candidate.run is None or candidate.case is None:
            continue
        for finding in candidate.examine(candidate.case, candidate.case.key.id, attribute=False):
            if _is_error(finding) and (finding.rule, _line(finding)) == (target.rule, _line(target)):
                return candidate, other, finding
    return opened, failure, target


def shrinking(
    opened: ReopenedCase, target: Finding, seconds: float, budget: ShrinkBudget, strategy: str = "all"
) -> Iterator[Improvement | ShrinkResult]:
    """Yield successively smaller cases with ``target``'s rule on ``target``'s line, and last the result.

    ``seconds`` is the duration of the original case.
    """
    run, case = opened.run, opened.case
    assert run is not None and case is not None
    space, launch = space_of(run.plan, case, run.context.hints), run.runner.launch

    def fails(other: Case) -> bool:
        examined = opened.examine(other, case.key.id, attribute=False)
        return any(_is_error(one) and one.rule == target.rule and _line(one) == _line(target) for one in examined)

    run.runner.launch = _limited(launch, target, seconds)
    try:
        yield from improvements(case, space, fails, budget=budget, strategy=strategy)
    finally:
        run.runner.launch = launch


def _finish(
    opened: ReopenedCase, failure: Failure, case_id: str, result: ShrinkResult, store: Store, moved: bool
) -> MinimisedFailure:
    """Store the smallest case and replay it. ``moved`` says that its dtype differs from the original's."""
    assert opened.run is not None and opened.case is not None
    run, case = opened.run, result.case
    drawn = rebuild(run.plan, case.key, run.context.hints)
    smaller = replace(
        failure,
        key=case.key,
        dims=dict(case.dims),
        tensors={name: tensor for name, tensor in case.tensors.items() if not _same(tensor, drawn.tensors[name])},
        source_hash=plan_digest(run.plan),
        minimised_from=case_id,
    )
    before = opened.case.tensors
    same = case.dims == opened.case.dims and all(_same(case.tensors[name], before[name]) for name in before)
    changed = moved or not same
    new_id = smaller.case if changed else None
    findings = [run.with_values(one, result.case) for one in opened.examine(result.case, new_id or case_id)]
    shown = next((finding for finding in findings if finding.rule == failure.rule and _is_error(finding)), None)
    if changed and shown is not None:
        snapshot = run.snapshots.get(shown.rule)
        record = replace(smaller, message=shown.message, line=shown.place.range.start.line)
        store.record(record, stored_snapshot(shown, snapshot))
    replay = replayed(failure, new_id or case_id, result.case, findings)
    return MinimisedFailure(
        original=case_id,
        original_dims=dict(opened.case.dims),
        case=new_id,
        replay=replay,
        runs=result.runs,
        seconds=result.seconds,
        complete=result.complete and result.reproduced,
    )


def _limited(launch: Request, target: Finding, seconds: float) -> Request:
    """Return the settings of a launch with the limits of a smaller case.

    A case that takes much longer than the original fails in another way. For hangs the limits are low, because every
    failing candidate runs into them; the result runs once more with the full ones. Steps are counted alike on every
    machine, and a loop that a time limit ends may have an end.
    """
    if target.rule == "sync/hang":
        steps = min(HANG_STEPS, launch.max_steps)
        return replace(launch, max_steps=steps, max_seconds=min(_HANG_SECONDS, launch.max_seconds))
    return replace(launch, max_seconds=min(max(1.0, _SLOWDOWN * seconds), launch.max_seconds))


def _same(array: Array, other: Array) -> bool:
    """Compare bitwise: NaN equals itself, and -0 differs from 0."""
    return array.shape == other.shape and array.tobytes() == other.tobytes()


def _is_error(finding: Finding) -> bool:
    return finding.severity is Severity.ERROR


def _line(finding: Finding) -> tuple[str, int]:
    return finding.place.path, finding.place.range.start.line
