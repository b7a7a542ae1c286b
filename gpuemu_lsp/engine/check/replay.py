"""Replay of a stored failing case, by the steps of a check: compile, lint, probe, reference, launch, comparison."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from gpuemu_lsp.engine.check.case_runner import choose_executor
from gpuemu_lsp.engine.check.fitted_extents import settle_shapes
from gpuemu_lsp.engine.check.model import InputPreview, Replay, Stage
from gpuemu_lsp.engine.check.plan_run import PlanRun
from gpuemu_lsp.engine.check.plan_setup import open_plan, unoptimized_run
from gpuemu_lsp.engine.check.prepare import prepare
from gpuemu_lsp.engine.check.replay_store import is_of_plan, restored_case
from gpuemu_lsp.engine.check.tried_values import with_tried_values
from gpuemu_lsp.engine.execution import Buffer
from gpuemu_lsp.engine.findings import Finding, Severity
from gpuemu_lsp.engine.fuzz import pack_arguments
from gpuemu_lsp.engine.fuzz.model import Array, Case
from gpuemu_lsp.engine.oracle import ReferenceOutput
from gpuemu_lsp.engine.plan.model import Plan
from gpuemu_lsp.engine.rules import make
from gpuemu_lsp.engine.store import Failure
from gpuemu_lsp.engine.subjects.language import PreparedKernel
from gpuemu_lsp.engine.subjects.model import CodeError
from gpuemu_lsp.engine.subjects.request import CheckRequest

_NOT_RUN = frozenset({"engine/unsupported-instruction", "engine/not-executed"})
HANG_STEPS = 200_000
"""Steps of a warp after which a stored case that hangs is taken to hang again."""
_PREVIEW_ELEMENTS = 24
"""Elements up to which an input is shown in full."""
_LISTED_ELEMENTS = 8
"""Nonzero elements up to which these alone are listed."""


@dataclass(slots=True)
class ReopenedCase:
    """A stored case, ready to run; with ``run`` None, ``findings`` say why it cannot run.

    ``prepared`` is its kernel.
    """

    findings: tuple[Finding, ...]
    run: PlanRun | None = None
    case: Case | None = None
    prepared: PreparedKernel | None = None

    def examine(self, case: Case, case_id: str, attribute: bool = True) -> list[Finding]:
        """Run ``case`` once and return its findings, including problems of the reference.

        Nothing is counted or stored, so that any number of cases can be examined. Without ``attribute`` consequences
        are findings of their own.
        """
        assert self.run is not None
        expected = self.run.expect(case)
        # Verified on the first case; the shrinker examines hundreds.
        self.run.reference.verified = True
        problems = list(self.run.problems())
        if self.run.finished:
            self.run.finished = False
            return problems
        return problems + self.launch(case, case_id, expected, attribute)

    def launch(
        self, case: Case, case_id: str, expected: ReferenceOutput | None, attribute: bool = True
    ) -> list[Finding]:
        """Launch ``case`` and compare it with the expected outputs."""
        assert self.run is not None
        try:
            outcome = self.run.runner.run(case)
        except CodeError as error:
            return list(error.findings)
        return list(self.run.examine(case, case_id, outcome, expected, attribute))


def replay(request: CheckRequest, failure: Failure, case_id: str) -> Iterator[Stage | Replay]:
    """Run the stored case ``case_id`` of one kernel; yield stages, and its :class:`Replay` last."""
    name = request.spec.name
    yield Stage(name, "compile")
    opened = reopen(request, failure)
    findings = list(opened.findings)
    if opened.run is None or opened.case is None:
        yield replayed(failure, case_id, None, findings)
        return
    yield Stage(name, "reference")
    expected = opened.run.expect(opened.case)
    findings += opened.run.problems()
    if not opened.run.finished:
        yield Stage(name, "execute")
        launched = opened.launch(opened.case, case_id, expected)
        findings += [opened.run.with_values(finding, opened.case) for finding in launched]
    yield replace(replayed(failure, case_id, opened.case, findings), digest=digest(opened.run.plan, opened.case))


def digest(plan: Plan, case: Case) -> str:
    """Return a digest of the inputs of a launch, bit for bit: sizes, grid, block and every argument."""
    found = hashlib.blake2b(repr((sorted(case.dims.items()), case.grid, case.block)).encode(), digest_size=16)
    for argument in pack_arguments(plan, case):
        for part in (argument, *(buffer for _, buffer in getattr(argument, "pointers", ()))):
            placed = (
                (part.offset, part.alias_of, *([part.pointer_offset] if part.pointer_offset else []))
                if isinstance(part, Buffer)
                else ()
            )
            found.update(repr((part.name, len(part.data), placed)).encode())
            found.update(bytes(part.data))
    return found.hexdigest()


def reopen(request: CheckRequest, failure: Failure) -> ReopenedCase:
    """Prepare one kernel and rebuild a stored case of it."""
    # The caller updates the store once it knows the result of the replay.
    options = replace(request.options, store_root=None)
    request = replace(request, options=options)
    prepared = prepare(request)
    problems = tuple(finding for finding in prepared.findings if not finding.rule.startswith("artifact/"))
    if prepared.artifact is None:
        return ReopenedCase(problems)
    plan = next((plan for plan in prepared.plans if is_of_plan(failure, plan)), None)
    if plan is None:
        why = f"'{failure.kernel}' is no longer checked as {failure.dtype}"
        return ReopenedCase((*problems, _not_replayable(request, prepared, failure, why)))
    executor, hint = choose_executor(request, prepared)
    hints: tuple[Finding, ...] = () if hint is None else (hint,)
    settled: Plan | None = plan
    if plan.inferred:
        shapes = settle_shapes(request, prepared, plan, executor)
        settled = shapes.plan
        hints += shapes.findings
    if settled is None:
        return ReopenedCase((*problems, *hints))
    if request.spec.reference is None:
        settled = with_tried_values(settled, prepared.artifact)
    run = open_plan(request, prepared, settled, executor)
    # The reference could not be loaded.
    if run.finished:
        return ReopenedCase((*hints, *run.opening))
    case = restored_case(settled, failure, run.context.hints)
    if not failure.optimized:
        compiled = prepared.without_optimization()
        if compiled.artifact is None:
            return ReopenedCase((*problems, *hints, *compiled.findings))
        run = unoptimized_run(run, prepared, compiled.artifact)
    if case is None:
        why = f"the sizes or arguments of '{failure.kernel}' have changed and exclude it"
        return ReopenedCase((*problems, *hints, _not_replayable(request, prepared, failure, why)))
    return ReopenedCase((*hints, *run.opening), run, case, prepared)


def replayed(failure: Failure, case_id: str, case: Case | None, findings: list[Finding]) -> Replay:
    """Return the result of replaying a stored failure with the findings of its run; ``case`` None: it did not run."""
    return Replay(
        kernel=failure.kernel,
        dtype=failure.dtype,
        case=case_id,
        verdict="not executed" if case is None else _verdict(failure, findings),
        rule=failure.rule,
        message=failure.message,
        dims=dict(failure.dims if case is None else case.dims),
        findings=_once(findings),
        inputs=() if case is None else previews(case),
    )


def _once(findings: list[Finding]) -> tuple[Finding, ...]:
    """Return one finding per rule and line: an unrolled loop has many instructions with the same mistake."""
    first = {
        (finding.rule, finding.place.path, finding.place.range.start.line): finding for finding in reversed(findings)
    }
    return tuple(finding for finding in findings if any(finding is kept for kept in first.values()))


def previews(case: Case) -> tuple[InputPreview, ...]:
    """Return a readable preview of every input."""
    return tuple(
        InputPreview(
            name=name,
            dtype=tensor.dtype.name,
            shape=tuple(tensor.shape),
            nonzero=int(np.count_nonzero(tensor)),
            text=_excerpt(name, tensor),
        )
        for name, tensor in case.tensors.items()
    )


def _excerpt(name: str, tensor: Array) -> str:
    """Return the values of an input, shortened: only the nonzero ones of a large one that has few; "" if all are 0."""
    nonzero = np.argwhere(tensor != 0)
    if not len(nonzero):
        return ""
    if tensor.size > _PREVIEW_ELEMENTS and len(nonzero) <= _LISTED_ELEMENTS:
        places = [tuple(int(number) for number in place) for place in nonzero]
        listed = (f"{name}[{', '.join(map(str, place))}] = {tensor[place]}" for place in places)
        return f"{', '.join(listed)}; all others are 0"
    shown = tensor if tensor.ndim <= 1 or tensor.size <= _PREVIEW_ELEMENTS else tensor.reshape(-1)
    return np.array2string(shown, threshold=_PREVIEW_ELEMENTS, edgeitems=4, max_line_width=100, separator=", ")


def _verdict(failure: Failure, findings: list[Finding]) -> str:
    if any(finding.rule == "engine/timeout" for finding in findings):
        return "not executed"
    errors = [finding for finding in findings if finding.severity is Severity.ERROR]
    if any(finding.rule.startswith("reference/") for finding in errors):
        return "not executed"
    # The stored error may be a consequence of another one now.
    if any(one.rule == failure.rule for finding in errors for one in (finding, *finding.consequences)):
        return "still fails"
    if errors:
        return "changed"
    return "not executed" if any(finding.rule in _NOT_RUN for finding in findings) else "fixed"


def _not_replayable(request: CheckRequest, prepared: PreparedKernel, failure: Failure, why: str) -> Finding:
    message = f"The stored case cannot be replayed: {why}."
    return make("engine/not-executed", message, prepared.place, kernel=request.spec.name, dtype=failure.dtype)
