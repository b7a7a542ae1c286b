"""Messages to the client that follow from events: refresh requests, ``gpuemu/failuresChanged``, ``$/logTrace``."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any

from lsprotocol import types

from gpuemu_lsp.engine.check.model import KernelReport
from gpuemu_lsp.engine.findings import Finding, Severity
from gpuemu_lsp.server.client.protocol import GpuemuServer
from gpuemu_lsp.server.events import (
    AnswerJudged,
    BatchEnded,
    BatchStarted,
    KernelFinished,
    MeasurementsCompared,
    PauseChanged,
    ServerEvent,
    SettingsChanged,
    StoredFailuresChanged,
)

FAILURES_CHANGED = "gpuemu/failuresChanged"


def notify_failures_changed(notify: Callable[[str, Any], None], event: ServerEvent) -> None:
    """Notify the client that the list of stored failures has changed."""
    if isinstance(event, StoredFailuresChanged):
        notify(FAILURES_CHANGED, {})


def trace_batches(server: GpuemuServer, event: ServerEvent) -> None:
    """Trace the end of every batch, if the client has enabled traces."""
    if isinstance(event, BatchEnded) and server.protocol.trace != types.TraceValue.Off:
        key = event.batch.key
        ended = "ended" if event.completed else "cancelled"
        server.log_trace(types.LogTraceParams(f"{key.kind} of {key.path} {ended}"))


def log_checks(server: GpuemuServer, event: ServerEvent) -> None:
    """Write start and result of every check to the client's log; compilations while typing are left out."""
    match event:
        case BatchStarted(batch) if batch.key.kind == "check" and batch.checks:
            names = ", ".join(check.request.spec.name for check in batch.checks)
            log_message(server, f"{'Deep check' if batch.deep else 'Check'} of {batch.key.path}: {names}.")
        case KernelFinished(batch, check) if batch.key.kind == "check" and check.report is not None:
            log_message(server, _result_line(check.report, check.findings))
        case BatchEnded(batch, completed=False) if batch.key.kind == "check":
            log_message(server, f"Check of {batch.key.path} cancelled, or superseded by a newer one.")
        case PauseChanged(paused):
            log_message(server, "Checks are paused." if paused else "Checks are resumed.")


def _result_line(report: KernelReport, findings: Sequence[Finding]) -> str:
    """Return one line: status, cases and seconds of a kernel, and its errors and warnings."""
    cases = f", {report.cases.passed} of {report.cases.run} cases passed" if report.cases.run else ""
    total = report.timing_ms.get("total")
    seconds = f", {total / 1000:.2f} s" if total is not None else ""
    counts = Counter(item.rule for item in findings if item.severity in (Severity.ERROR, Severity.WARNING))
    rules = "".join(f", {rule}{f' ({count})' if count > 1 else ''}" for rule, count in sorted(counts.items()))
    reused = ", code unchanged since an earlier check" if report.reused else ""
    return f"{report.name}: {report.status}{cases}{seconds}{rules}{reused}"


def log_message(server: GpuemuServer, text: str) -> None:
    """Write a line to the client's log of the server."""
    server.window_log_message(types.LogMessageParams(types.MessageType.Info, text))


def show_message(server: GpuemuServer, text: str) -> None:
    """Show an information message to the user."""
    server.window_show_message(types.ShowMessageParams(types.MessageType.Info, text))


class RefreshRequester:
    """Sends a refresh request, and one more after its response if another was wanted meanwhile.

    A client that never responds is sent a single request.
    """

    def __init__(self, send: Callable[[None], Future[Any]]) -> None:
        self.supported = False
        self._send = send
        self._in_flight = False
        self._again = False

    def refresh(self) -> None:
        """Send the request, if the client supports it; does not wait for the response."""
        if not self.supported:
            return
        if self._in_flight:
            self._again = True
            return
        self._in_flight = True
        self._send(None).add_done_callback(self._on_response)

    def _on_response(self, _: Future[Any]) -> None:
        self._in_flight = False
        if self._again:
            self._again = False
            self.refresh()


class ResultRefresher(RefreshRequester):
    """Requests a refresh of lenses, or of inlay hints, when an event may have changed them."""

    def on_event(self, event: ServerEvent) -> None:
        """Refresh after a batch, a comparison of measurements, a judgement, or a change of settings."""
        if isinstance(event, BatchEnded | MeasurementsCompared | AnswerJudged | SettingsChanged):
            self.refresh()


@dataclass(frozen=True, slots=True)
class Refreshers:
    """The requests by which a client asks again for what results change."""

    code_lenses: ResultRefresher
    inlay_hints: ResultRefresher
