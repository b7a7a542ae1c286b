"""Two versions of a kernel on the same cases: which elements differ, and which store wrote the first of them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from gpuemu_lsp.engine.check.case_runner import choose_executor
from gpuemu_lsp.engine.check.fitted_extents import settle_shapes
from gpuemu_lsp.engine.check.model import ComparedVersions, ElementDifference, Stage
from gpuemu_lsp.engine.check.plan_run import PlanRun
from gpuemu_lsp.engine.check.plan_setup import open_plan
from gpuemu_lsp.engine.check.prepare import prepare
from gpuemu_lsp.engine.execution import Outcome, Watch
from gpuemu_lsp.engine.findings import Json, Place, Severity
from gpuemu_lsp.engine.fuzz import cases as draw_cases
from gpuemu_lsp.engine.fuzz import rebuild
from gpuemu_lsp.engine.fuzz.dtypes import numpy_dtype
from gpuemu_lsp.engine.fuzz.model import Array, Case, PlanError
from gpuemu_lsp.engine.fuzz.pack import byte_offset, unpack
from gpuemu_lsp.engine.plan.model import Plan, TensorArg
from gpuemu_lsp.engine.subjects.language import PreparedKernel
from gpuemu_lsp.engine.subjects.model import CodeError
from gpuemu_lsp.engine.subjects.request import CheckRequest


class _NotComparableError(Exception):
    """Two versions, or one case of them, cannot be compared; the message says why."""


def compare_versions(before: CheckRequest, after: CheckRequest) -> Iterator[Stage | ComparedVersions]:
    """Run ``options.most`` cases of ``before`` on both kernels; yield stages, and a result for each dtype.

    No reference runs: the outputs of the first version are what the second is compared with, bit for bit.
    """
    before, after = (_without_reference(request) for request in (before, after))
    yield Stage(before.spec.name, "compile")
    try:
        first, second = _prepared(before, "the first version"), _prepared(after, "the second version")
    except _NotComparableError as error:
        yield ComparedVersions(before.spec.name, "", problem=str(error))
        return
    others = {plan.dtype: plan for plan in second.plans}
    for plan in first.plans:
        yield Stage(before.spec.name, "execute")
        try:
            other = others.get(plan.dtype)
            if other is None:
                raise _NotComparableError(f"the second version is not checked as {plan.dtype}")
            runs = _opened(before, first, plan), _opened(after, second, other)
            _require_same_arguments(*(run.plan for run in runs))
            yield _compared(*runs, before.options.most)
        except _NotComparableError as error:
            yield ComparedVersions(before.spec.name, plan.dtype, problem=str(error))


def _without_reference(request: CheckRequest) -> CheckRequest:
    options = replace(request.options, store_root=None, executor="emulator")
    return replace(request, spec=replace(request.spec, reference=None), options=options)


def _prepared(request: CheckRequest, name: str) -> PreparedKernel:
    prepared = prepare(request)
    if prepared.artifact is None or not prepared.plans:
        errors = [finding for finding in prepared.findings if finding.severity is Severity.ERROR]
        reason = next((finding.message for finding in (*errors, *prepared.findings)), "its launch is not known")
        raise _NotComparableError(f"{name} cannot run: {reason}")
    return prepared


def _opened(request: CheckRequest, prepared: PreparedKernel, plan: Plan) -> PlanRun:
    executor, _ = choose_executor(request, prepared)
    if plan.inferred:
        settled = settle_shapes(request, prepared, plan, executor)
        if settled.plan is None:
            raise _NotComparableError(settled.findings[0].message)
        plan = settled.plan
    return open_plan(request, prepared, plan, executor)


def _require_same_arguments(before: Plan, after: Plan) -> None:
    signatures = [[(type(arg), arg.param, arg.dtype) for arg in plan.args] for plan in (before, after)]
    if signatures[0] != signatures[1]:
        raise _NotComparableError("the two versions have other arguments")


def _compared(before: PlanRun, after: PlanRun, most: int) -> ComparedVersions:
    """Run the cases on both versions; the first case that differs is described."""
    plan, hints = before.plan, before.context.hints
    cases = differing = 0
    left_out: dict[str, int] = {}
    difference: ElementDifference | None = None
    try:
        for case in draw_cases(plan, before.context.seed, most, hints):
            try:
                first = _of_case(before, after, case)
            except _NotComparableError as error:
                left_out[str(error)] = left_out.get(str(error), 0) + 1
                continue
            cases += 1
            differing += first is not None
            difference = difference or first
    except PlanError as error:
        left_out[str(error)] = 1
    return ComparedVersions(plan.kernel, plan.dtype, cases, differing, difference, left_out)


def _of_case(before: PlanRun, after: PlanRun, case: Case) -> ElementDifference | None:
    """Return the first element in which the versions differ, None if they agree bit for bit."""
    other = _same_case(after, case)
    outcomes = _outcome(before, case, "the first version"), _outcome(after, other, "the second version")
    for arg in before.plan.args:
        if not isinstance(arg, TensorArg) or arg.direction == "in" or arg.compare == "none":
            continue
        values = [unpack(arg, case, outcome.buffers[arg.param]) for outcome in outcomes]
        if values[0] is None or values[1] is None:
            continue
        differs = (_bytes_of(values[0]) != _bytes_of(values[1])).any(axis=-1)
        if differs.any():
            index = tuple(int(place) for place in np.argwhere(differs)[0])
            place, thread, block = _last_writer(after, other, arg, index)
            return ElementDifference(
                case=case.key.id,
                dims=dict(case.dims),
                output=arg.param,
                index=index,
                before=_number(values[0][index]),
                after=_number(values[1][index]),
                count=int(differs.sum()),
                total=int(differs.size),
                largest=_largest(values[0], values[1]),
                place=place,
                thread=thread,
                block=block,
            )
    return None


def _same_case(run: PlanRun, case: Case) -> Case:
    """Return a case with the launch of another version, and the same sizes and values."""
    try:
        other = rebuild(run.plan, case.key, run.context.hints)
    except PlanError as error:
        raise _NotComparableError(f"the second version has no such sizes: {error}") from error
    if other.dims != case.dims:
        raise _NotComparableError("the second version has other sizes")
    return replace(case, grid=other.grid, block=other.block, shared_bytes=other.shared_bytes)


def _outcome(run: PlanRun, case: Case, name: str) -> Outcome:
    try:
        outcome = run.runner.run(case)
    except CodeError as error:
        raise _NotComparableError(f"{name} does not compile: {error}") from error
    errors = sorted({event.rule for event in outcome.events})
    if errors:
        raise _NotComparableError(f"{name} is not safe ({', '.join(errors)}): check it first")
    if outcome.status != "completed":
        raise _NotComparableError(f"the launch of {name} ended as {outcome.status}: check it first")
    return outcome


def _last_writer(
    run: PlanRun, case: Case, arg: TensorArg, index: tuple[int, ...]
) -> tuple[Place | None, tuple[int, ...], tuple[int, ...]]:
    """Return the store that wrote an element last, with its thread and block."""
    watch = Watch(arg.param, byte_offset(arg, case, index), numpy_dtype(arg.dtype).itemsize)
    writer = run.runner.run(case, watch).watched
    if writer is None:
        return None, (), ()
    source_map = run.runner.source_map(case, run.context.findings.source_map)
    return source_map.place(writer.location)[0], tuple(writer.thread), tuple(writer.block)


def _bytes_of(values: Array) -> Array:
    """Return the bytes of each element, (..., bytes): NaN equals itself, and -0 differs from 0."""
    whole = np.ascontiguousarray(values)
    return whole.view(np.uint8).reshape(*values.shape, values.dtype.itemsize)


def _number(element: np.generic) -> Json:
    kind = element.dtype.kind
    return int(element) if kind in "iub" else str(element) if kind == "c" else float(element)


def _largest(before: Array, after: Array) -> float:
    """Return the largest absolute difference of the elements that are finite in both."""
    left, right = before.astype(np.float64), after.astype(np.float64)
    finite = np.isfinite(left) & np.isfinite(right)
    return float(np.abs(left[finite] - right[finite]).max(initial=0.0))
