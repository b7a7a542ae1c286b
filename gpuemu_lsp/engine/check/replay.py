"""Run one stored case again, along the same path as a check: compile, lint, probe, reference, launch, comparison."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from gpuemu_lsp.engine.check.executor import choose_executor
from gpuemu_lsp.engine.check.infer import settle_shapes
from gpuemu_lsp.engine.check.model import CaseCount, CheckRequest, InputPreview, Replay, Stage
from gpuemu_lsp.engine.check.plan_run import PlanRun
from gpuemu_lsp.engine.check.plan_setup import lowered, open_plan
from gpuemu_lsp.engine.check.prepare import PreparedKernel, prepare, without_optimization
from gpuemu_lsp.engine.check.stored import reopened
from gpuemu_lsp.engine.execution import Buffer
from gpuemu_lsp.engine.findings import Finding, Severity
from gpuemu_lsp.engine.fuzz import pack_arguments
from gpuemu_lsp.engine.fuzz.model import Case
from gpuemu_lsp.engine.oracle import ReferenceOutput
from gpuemu_lsp.engine.plan.model import Plan
from gpuemu_lsp.engine.rules import make
from gpuemu_lsp.engine.store import Failure

_NOT_RUN = frozenset({"engine/unsupported-instruction", "engine/not-executed"})
_SHOWN = 24
"""Elements of an input that are written out."""


@dataclass(slots=True)
class ReopenedCase:
    """A stored case, ready to run; or, with ``run`` None, the findings that say why it is not."""

    findings: tuple[Finding, ...]
    run: PlanRun | None = None
    case: Case | None = None

    def examine(self, case: Case, case_id: str) -> list[Finding]:
        """Run ``case`` once and return what is wrong; trouble with the reference is among it."""
        assert self.run is not None
        # Neither counted nor stored: the same case may be examined any number of times.
        expected = self.run.expect(case)
        self.run.count = CaseCount(run=1)  # the reference has shown that it is deterministic
        trouble = list(self.run.trouble())
        if self.run.finished:
            self.run.finished = False
            return trouble
        return trouble + self.look(case, case_id, expected)

    def look(self, case: Case, case_id: str, expected: ReferenceOutput | None) -> list[Finding]:
        """Run ``case`` and compare it with what is expected."""
        assert self.run is not None
        return list(self.run.look(case, case_id, self.run.execute(case), expected))


def replay(request: CheckRequest, failure: Failure, case_id: str) -> Iterator[Stage | Replay]:
    """Run the stored case ``case_id`` of one kernel again; yields stages, and last its :class:`Replay`."""
    name = request.spec.name
    yield Stage(name, "compile")
    opened = reopen(request, failure)
    findings = list(opened.findings)
    if opened.run is None or opened.case is None:
        yield replayed(failure, case_id, None, findings)
        return
    yield Stage(name, "reference")
    expected = opened.run.expect(opened.case)
    findings += opened.run.trouble()
    if not opened.run.finished:
        yield Stage(name, "execute")
        findings += opened.look(opened.case, case_id, expected)
    yield replace(replayed(failure, case_id, opened.case, findings), digest=digest(opened.run.plan, opened.case))


def digest(plan: Plan, case: Case) -> str:
    """Return an identity of everything a launch is given, bit for bit."""
    found = hashlib.blake2b(repr((sorted(case.dims.items()), case.grid, case.block)).encode(), digest_size=16)
    for argument in pack_arguments(plan, case):
        placed = (argument.offset, argument.alias_of) if isinstance(argument, Buffer) else ()
        found.update(repr((argument.name, len(argument.data), placed)).encode())
        found.update(bytes(argument.data))
    return found.hexdigest()


def reopen(request: CheckRequest, failure: Failure) -> ReopenedCase:
    """Prepare one kernel and rebuild a stored case of it."""
    options = replace(request.options, store_root=None)  # what is stored changes only when the verdict is known
    request = replace(request, options=options)
    prepared = prepare(request)
    trouble = tuple(finding for finding in prepared.findings if not finding.rule.startswith("artifact/"))
    if prepared.artifact is None:
        return ReopenedCase(trouble)
    plan = next((plan for plan in prepared.plans if plan.dtype == failure.dtype), None)
    if plan is None:
        why = f"'{failure.kernel}' is not checked as {failure.dtype} any more"
        return ReopenedCase((*trouble, _gone(request, prepared, failure, why)))
    executor, hint = choose_executor(request, prepared.place)
    assert executor is not None
    hints: tuple[Finding, ...] = () if hint is None else (hint,)
    settled: Plan | None = plan
    if plan.inferred:
        settled, found = settle_shapes(request, prepared, plan, executor)
        hints += found
    if settled is None:
        return ReopenedCase((*trouble, *hints))
    run = open_plan(request, prepared, settled, executor)
    if run.finished:  # the reference cannot even be loaded
        return ReopenedCase((*hints, *run.opening))
    case = reopened(settled, failure, run.hints)
    if not failure.optimized:
        compiled = without_optimization(request, prepared)
        if compiled.artifact is None:
            return ReopenedCase((*trouble, *hints, *compiled.findings))
        run = lowered(run, prepared, compiled.artifact)
    if case is None:
        why = f"the sizes or arguments of '{failure.kernel}' have changed, and the case is none of them any more"
        return ReopenedCase((*trouble, *hints, _gone(request, prepared, failure, why)))
    return ReopenedCase((*hints, *run.opening), run, case)


def replayed(failure: Failure, case_id: str, case: Case | None, findings: list[Finding]) -> Replay:
    """Say what the findings of a run mean for a stored failure; ``case`` None: it could not be run."""
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
    """Tell each kind of finding once per line: an unrolled loop shows the same thing many times."""
    told = {
        (finding.rule, finding.place.path, finding.place.range.start.line): finding for finding in reversed(findings)
    }
    return tuple(finding for finding in findings if any(finding is kept for kept in told.values()))


def previews(case: Case) -> tuple[InputPreview, ...]:
    """Return every input as a person can read it."""
    return tuple(
        InputPreview(
            name=name,
            dtype=tensor.dtype.name,
            shape=tuple(tensor.shape),
            nonzero=int(np.count_nonzero(tensor)),
            text=np.array2string(tensor, threshold=_SHOWN, edgeitems=4, max_line_width=100, separator=", "),
        )
        for name, tensor in case.tensors.items()
    )


def _verdict(failure: Failure, findings: list[Finding]) -> str:
    errors = [finding for finding in findings if finding.severity is Severity.ERROR]
    if any(finding.rule.startswith("reference/") for finding in errors):
        return "not executed"
    if any(finding.rule == failure.rule for finding in errors):
        return "still fails"
    if errors:
        return "changed"
    return "not executed" if any(finding.rule in _NOT_RUN for finding in findings) else "fixed"


def _gone(request: CheckRequest, prepared: PreparedKernel, failure: Failure, why: str) -> Finding:
    message = f"The stored case cannot be run again: {why}."
    return make("engine/not-executed", message, prepared.place, kernel=request.spec.name, dtype=failure.dtype)
