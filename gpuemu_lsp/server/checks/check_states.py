"""What is known of the text of each open document, as a diagnostic that is always there: for coding agents.

Editors show progress, lenses and a status. An agent is shown diagnostics only, asks once, and takes an empty list for
success: while the check runs, after a clean check, and where nothing was checked. So it gets one more diagnostic of
severity information on the first line: ``checking`` at once for each version of the text, and after the check
``verdict``, with the verdict or the reason why there is none.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

from lsprotocol import types

from gpuemu_lsp.engine.findings import Finding
from gpuemu_lsp.engine.report.verdict import CLEAN, NOT_CHECKED, verdict_of, verdict_sentence
from gpuemu_lsp.server.checks.check_queue import CheckQueue
from gpuemu_lsp.server.checks.scheduler import BatchScheduler
from gpuemu_lsp.server.diagnostics.publisher import SOURCE
from gpuemu_lsp.server.documents.document import Document
from gpuemu_lsp.server.events import BatchEnded, BatchStarted, CheckSkipped, PauseChanged, ServerEvent
from gpuemu_lsp.server.session import Session
from gpuemu_lsp.server.work import BatchKey

CHECKING, VERDICT = "checking", "verdict"
_FIRST_LINE = types.Range(types.Position(0, 0), types.Position(0, 0))


@dataclass(frozen=True, slots=True)
class CheckState:
    """State of a document's text. ``verdict`` is None while its check is pending or running."""

    verdict: str | None
    message: str


class CheckStates:
    """Finds the state of a document, and publishes it when it may have changed, if the client is an agent."""

    def __init__(self, session: Session, scheduler: BatchScheduler, queue: CheckQueue) -> None:
        self._session = session
        self._scheduler = scheduler
        self._queue = queue
        self._cancelled: set[str] = set()
        """Files whose last check was cancelled."""

    def on_event(self, event: ServerEvent) -> None:
        """Publish the documents whose state an event may change."""
        match event:
            case BatchStarted(batch) | BatchEnded(batch) if batch.key.kind != "config":
                if isinstance(event, BatchEnded) and batch.key.kind == "check":
                    (self._cancelled.discard if event.completed else self._cancelled.add)(batch.key.path)
                self.publish(batch.key.path)
            case CheckSkipped(path):
                self.publish(path)
            case PauseChanged():
                self.publish(*self._session.documents)

    def publish(self, *paths: str) -> None:
        """Publish documents for their state alone."""
        if self._session.settings.agent:
            self._session.publisher.publish(path for path in paths if path in self._session.documents)

    def is_pending(self, path: str) -> bool:
        """Return whether a check or compilation of a file is pending or running."""
        return bool(self._scheduler.active & {BatchKey("check", path), BatchKey("compile", path)})

    async def wait(self, path: str, seconds: float) -> None:
        """Wait until the check of a file has ended, at most for some seconds."""
        try:
            async with asyncio.timeout(seconds):
                while self.is_pending(path):
                    await self._session.publisher.next_publication()
        except TimeoutError:
            return

    def diagnostic(self, path: str) -> types.Diagnostic | None:
        """Return the state as a diagnostic; None for other clients, and for files without kernels."""
        document = self._session.documents.get(path)
        if not self._session.settings.agent or document is None or not self._session.is_kernel_file(path):
            return None
        state = self._state(document)
        return types.Diagnostic(
            range=_FIRST_LINE,
            message=state.message,
            severity=types.DiagnosticSeverity.Information,
            code=CHECKING if state.verdict is None else VERDICT,
            source=SOURCE,
            data={"verdict": state.verdict, "version": document.version},
        )

    def _state(self, document: Document) -> CheckState:
        path = document.path
        if self.is_pending(path):
            return CheckState(None, "checking: there is no verdict on this text yet.")
        results = self._session.results.of_file(path)
        reason = self._why_not_checked(document, [result.request.text for result in results])
        if reason is not None:
            return CheckState(NOT_CHECKED, f"{NOT_CHECKED}: {reason}.")
        reports = [result.report for result in results]
        findings = list(self._session.diagnostics.findings_of(path, ("config", "compile", "run")))
        verdict = verdict_of(reports, findings)
        open_points = [item.message for item in findings if item.rule.startswith("engine/") and _is_open(item, verdict)]
        if open_points and verdict == CLEAN:
            verdict = NOT_CHECKED
        return CheckState(verdict, verdict_sentence(verdict, reports, findings, next(iter(open_points), None)))

    def _why_not_checked(self, document: Document, checked: list[str | None]) -> str | None:
        """Return why nothing is known of a text; None if it was checked."""
        if document.differs_from_disk and not document.edited_since(document.saved):
            return "the file on disk has another text than the one that the client has sent"
        if self._queue.paused:
            return "checks are paused"
        if document.path in self._cancelled:
            return "its check was cancelled"
        if any(text is not None and text != document.text for text in checked):
            return "this text was compiled, but it runs only once it is saved"
        if not checked and self._session.settings.check_on == "manual":
            return 'it was only compiled, as the setting checkOn is "manual"'
        if not checked and not any(self._session.diagnostics.findings_of(document.path)):
            return "it has no kernel whose launch is known"
        return None


def _is_open(finding: Finding, verdict: str) -> bool:
    """Return whether a finding says that something did not run that the status of no kernel shows."""
    return verdict == NOT_CHECKED or (finding.rule == "engine/not-executed" and finding.kernel is None)
