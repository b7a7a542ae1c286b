"""Reports of ops that a client has run, in place of their check."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from gpuemu_lsp.engine.check.model import CaseCount, DtypeMeasurements, KernelReport, unfinished_report
from gpuemu_lsp.engine.findings import Finding, Json
from gpuemu_lsp.engine.project.load import op_not_executed
from gpuemu_lsp.engine.rules import make
from gpuemu_lsp.engine.subjects.languages import OPS
from gpuemu_lsp.engine.subjects.ops.client_verdicts import ClientDtype, ClientVerdict, age_text, received, unverified_op
from gpuemu_lsp.engine.subjects.request import CheckRequest

if TYPE_CHECKING:
    from gpuemu_lsp.engine.store import BaselineRecord


@dataclass(frozen=True, slots=True)
class ClientResult:
    """What a check of an op yields that a client has run."""

    findings: tuple[Finding, ...]
    report: KernelReport
    records: tuple[BaselineRecord, ...] = ()


def client_result(request: CheckRequest) -> ClientResult | None:
    """Return the result of an op that cannot be run here; None if it can, or if no client has run it."""
    spec = request.spec
    verdict = received(spec)
    if verdict is None:
        return None
    if isinstance(verdict, str):
        verified = unverified_op(spec)
        assert verified is not None
        return ClientResult((verified,), unfinished_report(request, "not-executed"))
    seconds = max(0.0, time.time() - verdict.sent)
    findings = []
    if verdict.failure is not None:
        failure, entry = verdict.failure, op_not_executed(spec)
        assert entry is not None
        message = f"{failure.message} (the result of a client, {age_text(seconds)})"
        findings.append(
            make(failure.rule, message, entry.place, kernel=spec.name, dtype=failure.dtype, case=failure.case)
        )
    return ClientResult(tuple(findings), _report(request, verdict, seconds), _records(request, verdict))


def _report(request: CheckRequest, verdict: ClientVerdict, seconds: float) -> KernelReport:
    measured = tuple(
        DtypeMeasurements(result.dtype, CaseCount(result.run, result.passed), result.max_diff, errors=result.errors)
        for result in verdict.dtypes
    )
    return KernelReport(
        request.spec.name,
        request.spec.source,
        "passed" if verdict.failure is None else "failed",
        compiled=True,
        executor="client",
        cases=CaseCount(verdict.cases, sum(result.passed for result in verdict.dtypes)),
        timing_ms={"age": seconds * 1e3},
        registered=request.registered,
        measured=measured,
        language=OPS.name,
    )


def _records(request: CheckRequest, verdict: ClientVerdict) -> tuple[BaselineRecord, ...]:
    from gpuemu_lsp.engine.store import BaselineRecord

    origin: dict[str, Json] = {
        "source": request.spec.source,
        "seed": verdict.seed,
        "cases": verdict.cases,
        "executor": "client",
    }
    if verdict.version:
        origin |= {"library": verdict.library, "library_version": verdict.version}
    return tuple(
        BaselineRecord(request.spec.name, result.dtype, "", _numbers(result), origin=origin)
        for result in verdict.dtypes
    )


def _numbers(result: ClientDtype) -> dict[str, Json]:
    return {
        "status": "passed" if result.run == result.passed else "failed",
        "cases_run": result.run,
        "cases_passed": result.passed,
        "max_diff": result.max_diff,
        "max_rel_diff": max(result.errors, default=0.0),
        "errors": list(result.errors),
    }
