"""Check many kernels and collect their findings. Every kernel gets a verdict, however its worker ends."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Protocol

from gpuemu_lsp.engine.check.model import CheckEvent, KernelReport, Stage, StartedCase, unfinished_report
from gpuemu_lsp.engine.findings import Finding, Json, Severity, collect
from gpuemu_lsp.engine.jobs.crash_findings import ending_finding, with_case
from gpuemu_lsp.engine.jobs.files.checks import file_payload, shares_program
from gpuemu_lsp.engine.jobs.functions import decode
from gpuemu_lsp.engine.report.model import Run, relative
from gpuemu_lsp.engine.report.source_lines import line_text
from gpuemu_lsp.engine.subjects.request import CheckRequest
from gpuemu_lsp.engine.workers.model import Done, Ending, Event, Job, Progress, Restarted, TimedOut
from gpuemu_lsp.engine.workers.wire import from_json, to_json

if TYPE_CHECKING:
    from gpuemu_lsp.engine.store import BaselineRecord  # imports NumPy, which the main process of a check does not need

_SECONDS_PER_KERNEL = 60.0
_COMPILE_SECONDS = 16.5
"""Limit of the compiler for a kernel that is not registered, which nothing else can interrupt. What follows begins no
step after this time."""
RESTARTS = 1
"""How often a check begins again whose worker was killed from outside."""


class Runner(Protocol):
    """A pool or a cluster."""

    def submit(self, job: Job, on_event: Callable[[Event], None]) -> object:
        """Queue a job. Its events arrive from one thread at a time; the last one is its ending."""


@dataclass(slots=True)
class _PendingKernel:
    """The events received so far for one kernel."""

    request: CheckRequest
    findings: list[Finding] = field(default_factory=list)
    report: KernelReport | None = None
    started: StartedCase | None = None
    """The case that an op runs now."""
    records: list[BaselineRecord] = field(default_factory=list)
    shown: list[Finding] = field(default_factory=list)
    """Findings of a worker that was killed, whose job has begun again."""
    ended: threading.Event = field(default_factory=threading.Event)


def run_requests(
    requests: Sequence[CheckRequest],
    config_findings: Sequence[Finding],
    root: str,
    pool: Runner,
    on_event: Callable[[CheckEvent], None] | None = None,
    on_record: Callable[[BaselineRecord], None] | None = None,
) -> Run:
    """Check every kernel and return the run, with kernels in the order of ``requests``.

    ``on_event`` is called with each finding, stage and verdict as soon as it is known, from one thread at a time.
    ``on_record`` is called at the end with the baseline records of each kernel.
    """
    started = time.perf_counter()
    all_pending = [_PendingKernel(request) for request in requests]
    for group in _by_file(all_pending):
        _submit_file(group, pool, on_event, "check" if on_record is None else "measure")
    for pending in all_pending:
        pending.ended.wait()
    findings = [*config_findings]
    for pending in all_pending:
        findings += pending.findings
        for record in pending.records:
            assert on_record is not None
            on_record(record)
    kernels = tuple(pending.report for pending in all_pending if pending.report is not None)
    finished = tuple(fingerprinted(_unique(findings), root))
    writable = not any(finding.rule == "engine/not-stored" for finding in finished)
    stored = frozenset(one.spec.name for one in requests if writable and one.options.store_root is not None)
    toolchain = next((kernel.toolchain for kernel in kernels if kernel.toolchain), "")
    return Run(root, kernels, finished, toolchain, seconds=time.perf_counter() - started, stored=stored)


def seconds_for(request: CheckRequest) -> float:
    """Return the wall-clock limit of one kernel's check; it grows with the number of cases."""
    return _SECONDS_PER_KERNEL + 2.0 * request.options.case_seconds + 2.0 * request.options.most


def compile_limit(request: CheckRequest) -> tuple[str, float] | None:
    """Return the limit of the first stage of a kernel's check; None if it is registered or imports code of the user."""
    return None if request.registered or request.user_code is not None else ("compile", _COMPILE_SECONDS)


def fingerprinted(findings: Sequence[Finding], root: str) -> list[Finding]:
    """Set the fingerprint of every finding, from its content and the text of its line."""
    return [
        replace(
            finding.with_fingerprint(
                relative(finding.place.path, root), line_text(finding.place.path, finding.place.range.start.line)
            ),
            consequences=tuple(fingerprinted(finding.consequences, root)),
        )
        for finding in findings
    ]


def _by_file(all_pending: Sequence[_PendingKernel]) -> list[list[_PendingKernel]]:
    groups: dict[tuple[str, str | None], list[_PendingKernel]] = {}
    for pending in all_pending:
        groups.setdefault((pending.request.spec.source, pending.request.text), []).append(pending)
    return list(groups.values())


def _submit_file(
    group: Sequence[_PendingKernel], pool: Runner, on_event: Callable[[CheckEvent], None] | None, function: str
) -> None:
    """Submit the checks of a file's kernels; those of several kernels once their common program is known."""

    def receive(event: Event) -> None:
        if isinstance(event, Progress):
            assert isinstance(event.value, dict)
            number, program = event.value["kernel"], event.value["program"]
            assert isinstance(number, int) and isinstance(program, list)
            group[number].request = replace(group[number].request, program=tuple(map(str, program)))
            return
        # If the job failed, each kernel is compiled alone, and its own check reports why.
        for pending in group:
            _submit(pending, pool, on_event, function)

    requests = [pending.request for pending in group]
    if shares_program(requests):
        pool.submit(Job("programs", file_payload(requests)), receive)
        return
    for pending in group:
        _submit(pending, pool, on_event, function)


def _submit(
    pending: _PendingKernel, pool: Runner, on_event: Callable[[CheckEvent], None] | None, function: str
) -> None:
    request = pending.request
    seconds = seconds_for(request)

    def receive(event: Event) -> None:
        if isinstance(event, Restarted):
            pending.shown += pending.findings
            pending.findings, pending.records = [], []
            pending.report = pending.started = None
            return
        if isinstance(event, Progress):
            if isinstance(event.value, dict) and "record" in event.value:
                pending.records.append(_record(event.value["record"]))
                return
            decoded = decode(event.value)
            if isinstance(decoded, Finding):
                collect(pending.findings, decoded)
            elif isinstance(decoded, KernelReport):
                pending.report = decoded
            elif isinstance(decoded, Stage):
                pending.started = decoded.started
            if on_event is not None and decoded not in pending.shown:
                on_event(decoded)
            return
        for extra in _conclude(pending, event):
            if on_event is not None:
                on_event(extra)
        pending.ended.set()

    first = compile_limit(request)
    job = Job(
        function, to_json(request), wall_seconds=seconds, taint=request.user_code, first_stage=first, restarts=RESTARTS
    )
    pool.submit(job, receive)


def _record(value: Json) -> BaselineRecord:
    from gpuemu_lsp.engine.store import BaselineRecord

    return from_json(BaselineRecord, value)


def _conclude(pending: _PendingKernel, ending: Ending) -> list[CheckEvent]:
    """Return a finding and a verdict for a kernel whose job did not finish; earlier findings are kept."""
    if isinstance(ending, Done) and pending.report is not None:
        return []
    finding = with_case(pending.request, ending_finding(pending.request, ending), pending.started)
    pending.findings.append(finding)
    status = "not-executed" if finding.rule == "engine/not-executed" else "error"
    seconds, stage = (ending.seconds, ending.stage) if isinstance(ending, TimedOut) else (None, None)
    timing = {} if seconds is None else _timing(pending.request, seconds, stage)
    pending.report = unfinished_report(pending.request, status, stage not in (None, "compile"), timing)
    return [finding, pending.report]


def _timing(request: CheckRequest, seconds: float, stage: str | None) -> dict[str, float]:
    """Return the times of a job that its limit has ended, in which waits for a processor do not count."""
    first = compile_limit(request)
    limit = first[1] if first is not None and stage in (None, first[0]) else seconds_for(request)
    return {"total": seconds * 1e3, "wait": max(0.0, seconds - (limit or seconds)) * 1e3}


def _unique(findings: Sequence[Finding]) -> list[Finding]:
    """Drop duplicates, such as a compile error reported for each kernel of a file, and sort by file and severity."""
    seen: set[tuple[object, ...]] = set()
    unique = []
    for finding in findings:
        shared = finding.rule.startswith(("compile/", "config/"))
        key = (
            finding.rule,
            finding.place,
            finding.message,
            None if shared else (finding.kernel, finding.dtype, finding.arch),
        )
        if key not in seen:
            seen.add(key)
            unique.append(finding)
    order = {severity: index for index, severity in enumerate(Severity)}
    # Wrong numbers come last: they may follow from what precedes them.
    return sorted(
        unique,
        key=lambda item: (
            item.place.path,
            order[item.severity],
            item.rule.startswith("numeric/"),
            item.place.range,
            item.rule,
        ),
    )
