"""``gpuemu judge`` from the editor: the row of one answer as diagnostics, until the next judgement of the file."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from gpuemu_lsp.engine.findings import Finding, Place, Severity
from gpuemu_lsp.engine.jobs.child_command import ChildCommand
from gpuemu_lsp.engine.report.json_format import findings_of_document
from gpuemu_lsp.engine.rules import make
from gpuemu_lsp.engine.source.python.model_pair import answer_name
from gpuemu_lsp.server.checks.child_command import run_child
from gpuemu_lsp.server.diagnostics.sources import DiagnosticSource
from gpuemu_lsp.server.documents.parsed_files import text_on_disk
from gpuemu_lsp.server.events import AnswerJudged, EventBus
from gpuemu_lsp.server.session import Session

_SECONDS = 300
"""Time limit of the answer's process for each group of sizes."""
_ELSEWHERE = "at sizes or values that the task does not have"

SAME, NOT_JUDGED, CANCELLED = "same", "not judged", "cancelled"


@dataclass(frozen=True, slots=True)
class Judgement:
    """What a judgement has said: the verdict of ``gpuemu judge``, or :data:`CANCELLED`, and its reason.

    ``text`` is the file's when it was judged.
    """

    verdict: str
    reason: str
    text: str | None


class Judgements:
    """Judges answers, one at a time for each file; ``show_message`` receives what the user is to know."""

    def __init__(self, session: Session, events: EventBus, show_message: Callable[[str], None]) -> None:
        self._session = session
        self._events = events
        self._show_message = show_message
        self._running: dict[str, ChildCommand] = {}
        self._last: dict[str, Judgement] = {}

    def start(self, path: str) -> int:
        """Judge a file in the background, unless that runs already; return 0 if the folder is not trusted.

        :class:`AnswerJudged` follows.
        """
        if not self._session.settings.trusted:
            self._show_message("Answers in an untrusted folder are not judged.")
            return 0
        if path not in self._running:
            self._running[path] = ChildCommand()
            self._session.jobs.background(self._judge(path, self._running[path]))
        return 1

    def cancel(self, path: str) -> None:
        """End the judgement of a file."""
        if path in self._running:
            self._running[path].cancel()

    def last(self, path: str) -> Judgement | None:
        """Return the last judgement of a file, None if there is none or the text is another one now."""
        judgement = self._last.get(path)
        return judgement if judgement is not None and judgement.text == self._session.text(path) else None

    async def _judge(self, path: str, command: ChildCommand) -> None:
        document = self._session.documents.get(path)
        # The file on disk is judged.
        revision = document.saved if document is not None else self._session.revision
        text = text_on_disk(path)
        judgement = Judgement(CANCELLED, "The judgement was cancelled.", text)
        try:
            async with self._session.jobs.tracked(f"Judging {Path(path).name}", command):
                with tempfile.TemporaryDirectory(prefix="gpuemu-judge-") as folder:
                    output = Path(folder) / "result.json"
                    options = ["--format", "json", "--output", str(output), "--timeout", str(_SECONDS)]
                    said = await run_child(command, ["judge", *options, path], Path(path).parent)
                    report = json.loads(output.read_text(encoding="utf-8")) if output.exists() else None
            if report is not None:
                judgement = self._file(path, revision, text, report["rows"][0])
            elif not command.cancelled:
                judgement = Judgement(NOT_JUDGED, _reason(said), text)
        finally:
            self._running.pop(path, None)
            self._events.publish(AnswerJudged(path, judgement.verdict, judgement.reason))
        if judgement.verdict != CANCELLED:
            self._show_message(f"{Path(path).name}: {judgement.verdict}: {judgement.reason}")

    def _file(self, path: str, revision: int, text: str | None, row: Mapping[str, Any]) -> Judgement:
        """Publish a row in place of the file's last one."""
        judgement = Judgement(row["verdict"], row["reason"], text)
        self._last[path] = judgement
        findings = [*_verdict(path, text or "", row), *_findings(row, str(Path(path).parent))]
        source = DiagnosticSource("judge", path)
        self._session.publisher.publish(self._session.diagnostics.replace(source, findings, revision, text))
        return judgement


def _verdict(path: str, text: str, row: Mapping[str, Any]) -> list[Finding]:
    """Return the finding on the class of an answer that is not ``same``, or that has notes."""
    name, same = answer_name(text), row["verdict"] == SAME
    if name is None or (same and not row["notes"]):
        return []
    message = "\n".join([f"{row['verdict']}: {row['reason']}", *(f"note: {note}" for note in row["notes"])])
    decided = not same and row["verdict"] != NOT_JUDGED
    return [
        make("judge/verdict", message, Place(path, name), severity=Severity.ERROR if decided else Severity.INFORMATION)
    ]


def _findings(row: Mapping[str, Any], root: str) -> list[Finding]:
    """Return what the launches of an answer did wrong: of one that is ``same`` that was not at sizes of the task."""
    findings = findings_of_document(row, root)
    if row["verdict"] != SAME:
        return findings
    return [
        replace(finding, severity=Severity.INFORMATION, message=f"{finding.message} ({_ELSEWHERE})")
        if finding.severity is Severity.ERROR
        else finding
        for finding in findings
    ]


def _reason(said: str) -> str:
    """Return why there is no report, from what the command has written to standard error."""
    lines = said.splitlines()
    return lines[-1].removeprefix("gpuemu: ") if lines else "gpuemu judge ended without a result"
