"""Test runs: the items requested, the state of each, and a guarantee that every run ends exactly once."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

from gpuemu_lsp.engine.findings import Finding, Severity
from gpuemu_lsp.engine.report.text import cases_text
from gpuemu_lsp.server.checks.check_queue import CheckQueue
from gpuemu_lsp.server.checks.judgements import CANCELLED, NOT_JUDGED, SAME, Judgements
from gpuemu_lsp.server.checks.requests import CheckRunOptions
from gpuemu_lsp.server.diagnostics.kernel_results import number_text
from gpuemu_lsp.server.documents.locations import path_from_uri
from gpuemu_lsp.server.documents.parsed_files import kernel_id
from gpuemu_lsp.server.events import (
    AnswerJudged,
    BatchEnded,
    BatchStarted,
    CheckSkipped,
    KernelFinished,
    KernelStarted,
    ServerEvent,
    TextEdited,
)
from gpuemu_lsp.server.session import Session
from gpuemu_lsp.server.test_explorer.explorer import TestExplorer
from gpuemu_lsp.server.test_explorer.items import ANSWER, TestItem, parse_id
from gpuemu_lsp.server.work import Batch, KernelCheck

_STATES = {
    "passed": "passed",
    "unreferenced": "passed",
    "failed": "failed",
    "error": "errored",
    "not-executed": "skipped",
}
_VERDICTS = {SAME: "passed", "does not build": "errored", NOT_JUDGED: "skipped", CANCELLED: "skipped"}
"""States of answers; other verdicts are failures."""


@dataclass(slots=True)
class _Run:
    """One run.

    ``waiting``: by file, the ids of the kernels without a final state. ``batches``: by file, the batch that checks
    them, once it has started. Batches that were running when the run was requested are not among them: they may check
    an older text, other kernels or fewer cases. ``answers``: by file, the id of the answer that is being judged.
    """

    id: str
    waiting: dict[str, set[str]] = field(default_factory=dict)
    batches: dict[str, Batch] = field(default_factory=dict)
    answers: dict[str, str] = field(default_factory=dict)
    cancelled: bool = False


class TestRuns:
    """Translates the progress of checks to states of test items."""

    __test__ = False

    def __init__(
        self,
        session: Session,
        queue: CheckQueue,
        judgements: Judgements,
        explorer: TestExplorer,
        notify: Callable[[str, Any], None],
    ) -> None:
        self._session = session
        self._queue = queue
        self._judgements = judgements
        self._explorer = explorer
        self._notify = notify
        self._runs: dict[str, _Run] = {}
        self._with_states: set[str] = set()

    def start(self, run_id: str, include: Iterable[str], deep: bool) -> list[str]:
        """Start a run; return the ids of all items that will receive a state."""
        run = self._runs[run_id] = _Run(run_id)
        requested: dict[str, set[str] | None] = {}
        for identity in include:
            wanted = parse_id(identity)
            path = path_from_uri(wanted.uri)
            if path is None:
                continue
            if wanted.kernel == ANSWER:
                run.answers[path] = identity
                continue
            kernels = {item.id for item in self._explorer.items(path) if item.kind == "kernel"}
            matching = {item for item in kernels if wanted.kernel is None or parse_id(item).kernel == wanted.kernel}
            if matching:
                run.waiting[path] = run.waiting.get(path, set()) | matching
                requested[path] = None if run.waiting[path] == kernels else set(run.waiting[path])
        queued = []
        for path, chosen in requested.items():
            names = None if chosen is None else frozenset(parse_id(one).kernel or "" for one in chosen)
            for item in self._below(path, run.waiting[path]):
                queued.append(item.id)
                self._send_state(item.id, "enqueued", run)
            self._queue.check([path], CheckRunOptions(force=True, deep=deep, kernels=names))
        for path, identity in list(run.answers.items()):
            queued.append(identity)
            self._send_state(identity, "started", run)
            if not self._judgements.start(path):
                self._judged(run, path, CANCELLED, "Answers in an untrusted folder are not judged.")
        self._end_if_complete(run)
        return queued

    def abort(self, run_id: str) -> bool:
        """Cancel a run and the checks of its files; return whether there is such a run."""
        run = self._runs.get(run_id)
        if run is None:
            return False
        run.cancelled = True
        paths = list(run.waiting)
        self._queue.cancel_checks(paths)
        for path in paths:
            self._skip([run], path, "The run was cancelled.")
        for path in list(run.answers):
            self._judgements.cancel(path)
            self._judged(run, path, CANCELLED, "The run was cancelled.")
        self._end_if_complete(run)
        return True

    def close(self) -> None:
        """Abort every run."""
        for run_id in list(self._runs):
            self.abort(run_id)

    def on_event(self, event: ServerEvent) -> None:
        """Send the states that follow from an event of a check; compilations have none."""
        match event:
            case BatchStarted(batch) if batch.key.kind == "check":
                for run in self._waiting_for(batch.key.path, None):
                    run.batches[batch.key.path] = batch
            case KernelStarted(batch, check) if batch.key.kind == "check":
                self._send_kernel_states(batch, check, lambda _: {"state": "started"}, final=False)
            case KernelFinished(batch, check) if batch.key.kind == "check":
                self._with_states.add(batch.key.path)
                self._send_kernel_states(batch, check, lambda item: _final_state(check, item), final=True)
            case BatchEnded(batch, completed) if batch.key.kind == "check":
                reason = "The file no longer contains this kernel." if completed else "Superseded by a newer check."
                self._skip(self._waiting_for(batch.key.path, batch), batch.key.path, reason)
            case CheckSkipped(path, cancelled):
                reason = "The check was cancelled." if cancelled else "Nothing to check: see the file's diagnostics."
                self._skip(self._waiting_for(path, None), path, reason)
            case AnswerJudged(path, verdict, reason):
                for run in [one for one in self._runs.values() if path in one.answers]:
                    self._judged(run, path, verdict, reason)
            case TextEdited(path):
                self._mark_stale(path)

    # ---- states --------------------------------------------------------------------------------------------------

    def _waiting_for(self, path: str, batch: Batch | None) -> list[_Run]:
        """Return the runs that wait for a batch of a file; None is one that has not started."""
        return [run for run in self._runs.values() if path in run.waiting and run.batches.get(path) is batch]

    def _skip(self, runs: Iterable[_Run], path: str, reason: str) -> None:
        """Skip the items of a file that some runs wait for."""
        for run in runs:
            for item in self._below(path, run.waiting.pop(path, set())):
                self._send_state(item.id, "skipped", run, message=reason)
            self._end_if_complete(run)

    def _judged(self, run: _Run, path: str, verdict: str, reason: str) -> None:
        """Send the state of an answer that a run waits for."""
        identity = run.answers.pop(path)
        self._with_states.add(path)
        state = _VERDICTS.get(verdict, "failed")
        message = reason if verdict == CANCELLED else f"{verdict}: {reason}"
        self._send_state(identity, state, run, message=None if state == "passed" else message)
        self._end_if_complete(run)

    def _mark_stale(self, path: str) -> None:
        """Mark the states of a file's items as those of an older text."""
        if path not in self._with_states:
            return
        self._with_states.discard(path)
        for item in self._explorer.items(path):
            if item.kind != "file":
                self._send_state(item.id, "stale", None)

    def _send_kernel_states(
        self, batch: Batch, check: KernelCheck, state: Callable[[TestItem], dict[str, Any]], final: bool
    ) -> None:
        """Send the states of a kernel's items to each run that waits for it, or outside any run if none does."""
        path = batch.key.path
        waiting = self._waiting_for(path, batch)
        if not waiting and not self._explorer.active:
            return  # the client has no test explorer
        kernel = kernel_id(check.request.spec)
        ids = {item.id for item in self._explorer.items(path) if item.kind == "kernel"}
        ids = {item for item in ids if parse_id(item).kernel == kernel}
        runs: list[_Run | None] = [run for run in waiting if ids & run.waiting[path]]
        for run in runs or [None]:
            for item in self._below(path, ids):
                self._send_state(item.id, run=run, **state(item))
            if run is not None and final:
                if check.report is not None:
                    self._send_output(run, check, next(iter(ids)))
                run.waiting[path] -= ids
                if not run.waiting[path]:
                    del run.waiting[path]
                self._end_if_complete(run)

    def _send_output(self, run: _Run, check: KernelCheck, identity: str) -> None:
        report = check.report
        assert report is not None
        lines = [f"{report.name}: {report.status}, {cases_text(report)}"]
        for item in check.findings:
            lines += f"{item.severity.value}: {item.rule}: {item.whole_message}".split("\n")
        self._notify("gpuemu/testOutput", {"runId": run.id, "id": identity, "text": "\r\n".join(lines) + "\r\n"})

    def _send_state(self, identity: str, state: str, run: _Run | None, **more: Any) -> None:
        if run is None and not self._explorer.active:
            return  # the client has no test explorer
        params = {key: value for key, value in more.items() if value is not None}
        if "path" in params:
            path, line = params.pop("path"), params.pop("line")
            params["uri"] = self._session.uri_of(path)
            params["range"] = {"start": {"line": line, "character": 0}, "end": {"line": line + 1, "character": 0}}
        self._notify(
            "gpuemu/testState", {"runId": run.id if run is not None else None, "id": identity, "state": state, **params}
        )

    def _end_if_complete(self, run: _Run) -> None:
        if not run.waiting and not run.answers and self._runs.pop(run.id, None) is not None:
            self._notify("gpuemu/testsEnded", {"runId": run.id, "cancelled": run.cancelled})

    def _below(self, path: str, kernels: set[str]) -> list[TestItem]:
        """Return the items of kernels and everything below them."""
        return [
            item
            for item in self._explorer.items(path)
            if item.kind != "file" and (item.id in kernels or _kernel_of(item.id) in kernels)
        ]


def _kernel_of(identity: str) -> str:
    """Return the id of the kernel that an item belongs to."""
    uri, _, rest = identity.partition("#")
    return f"{uri}#{rest.partition('/')[0]}"


def _final_state(check: KernelCheck, item: TestItem) -> dict[str, Any]:
    """Return state, message, place and values of an item whose check has finished."""
    report = check.report
    assert report is not None
    wanted = parse_id(item.id)
    errors = [found for found in check.findings if found.severity is Severity.ERROR]
    if wanted.dtype is not None:
        errors = [found for found in errors if found.dtype in (None, wanted.dtype)]
    if wanted.case is not None:
        errors = [found for found in errors if found.case in (None, wanted.case)]
    state = _STATES.get(report.status, "errored")
    if state == "skipped" and report.op:  # its entry asks for a result
        state = "errored"
    if state == "failed" and not errors:
        if wanted.case is not None:  # the stored case was possibly not run: it has not passed
            return {"state": "skipped", "message": "This run shows the failure with another case."}
        state = "passed"
    params: dict[str, Any] = {"state": state, "duration": report.timing_ms.get("total")}
    if state == "passed":
        return params
    shown = errors or [found for found in check.findings if found.rule.startswith("engine/")]
    if shown:
        params["message"] = shown[0].message
        params["expected"], params["actual"] = _values(shown[0])
        params["path"], params["line"] = shown[0].place.path, shown[0].place.range.start.line
    return params


def _values(finding: Finding) -> tuple[str | None, str | None]:
    """Return expected and actual value of the first wrong element.

    Both are one line of 7 significant digits: clients show them in one line and cut off what is longer.
    """
    rows = finding.data.get("elements")
    name = finding.data.get("output", "")
    if not isinstance(rows, list):
        rows = [{key: finding.data.get(key) for key in ("index", "expected", "actual")}]
    for row in rows:
        if isinstance(row, dict) and isinstance(row.get("index"), list):
            element = f"{name}[{', '.join(map(str, row['index']))}]"  # type: ignore[arg-type]
            expected, actual = (number_text(row.get(key)) for key in ("expected", "actual"))
            return f"{element} = {expected}", f"{element} = {actual}"
    return None, None
