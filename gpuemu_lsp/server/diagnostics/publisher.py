"""Publication of findings as LSP diagnostics: one list per file, with its version, sent only when it has changed."""

from __future__ import annotations

import asyncio
import hashlib
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import lru_cache
from pathlib import Path

from lsprotocol import types

from gpuemu_lsp.engine.findings import Finding, Place, Severity
from gpuemu_lsp.engine.regular_file import file_bytes
from gpuemu_lsp.engine.report.text import values_text
from gpuemu_lsp.server.diagnostics.rules_page import RulesPage
from gpuemu_lsp.server.diagnostics.sources import DiagnosticSource, DiagnosticStore, SourceResult
from gpuemu_lsp.server.documents.document import Document
from gpuemu_lsp.server.documents.locations import Encoding, client_range, uri_from_path

SOURCE = "gpuemu"
"""``Diagnostic.source`` of everything the server publishes."""
_SEVERITIES = {
    Severity.ERROR: types.DiagnosticSeverity.Error,
    Severity.WARNING: types.DiagnosticSeverity.Warning,
    Severity.INFORMATION: types.DiagnosticSeverity.Information,
    Severity.HINT: types.DiagnosticSeverity.Hint,
}
_STALE = "\n(found by the last check; the text has changed since)"


class DiagnosticPublisher:
    """Publishes each file's diagnostics and remembers them, so that an unchanged list is not sent again."""

    def __init__(
        self,
        diagnostics: DiagnosticStore,
        documents: Mapping[str, Document],
        send: Callable[[types.PublishDiagnosticsParams], None],
    ) -> None:
        self.encoding: Encoding = "utf-16"
        self.state_of: Callable[[str], types.Diagnostic | None] = lambda _: None
        """What is known of a document's text as a diagnostic, which comes first."""
        self.request_pull: Callable[[], None] | None = None
        """Set for a client that pulls the diagnostics of open documents: requests a refresh instead of publishing."""
        self._diagnostics = diagnostics
        self._documents = documents
        self._send = send
        self._rules = RulesPage()
        self._sent: dict[str, types.PublishDiagnosticsParams] = {}
        self._published = asyncio.Event()

    def publish(self, paths: Iterable[str]) -> None:
        """Send the current diagnostics of these files, where they differ from those last sent."""
        self._published.set()
        self._published = asyncio.Event()
        for path in sorted(set(paths)):
            params = self._params(path)
            before = self._sent.get(path)
            if params == before or (before is None and not params.diagnostics and not self._starts_empty(path)):
                continue
            if params.diagnostics or path in self._documents:
                self._sent[path] = params
            else:
                del self._sent[path]  # a closed file without diagnostics: nothing to compare with later
            if self.request_pull is not None and path in self._documents:
                self.request_pull()
            else:
                self._send(params)

    async def next_publication(self) -> None:
        """Wait until :meth:`publish` is called, whether it sends something or not."""
        await self._published.wait()

    def _starts_empty(self, path: str) -> bool:
        """Return whether a first, empty list is sent: for a document that is not left to a Python server."""
        return path in self._documents and not path.endswith(".py")

    @property
    def published_count(self) -> int:
        """Number of files whose last publication is kept."""
        return len(self._sent)

    def located(self, path: str) -> list[tuple[Finding, types.Range]]:
        """Return the findings in a file with their ranges in its current text."""
        return [
            (finding, self._location(finding.place, source, result.revision).range)
            for source, result, finding in self._diagnostics.in_file(path)
        ]

    def values_at_lines(self, path: str) -> dict[int, str]:
        """Return the values of failing threads by line of a document, of lines that are as they were checked."""
        document, by_line = self._documents.get(path), dict[int, str]()
        current = document.text.split("\n") if document is not None else []
        for source, result, finding in self._diagnostics.in_file(path):
            text = values_text(finding.data)
            if not text or result.text is None or source.path != path:
                continue
            line = self._location(finding.place, source, result.revision).range.start.line
            checked = result.text.split("\n")[finding.place.range.start.line :][:1]
            if current[line : line + 1] == checked:
                by_line.setdefault(line, text)
        return by_line

    def pull(self, path: str) -> tuple[list[types.Diagnostic], str]:
        """Return a document's diagnostics and their result id (LSP 3.17, textDocument/diagnostic)."""
        params = self._params(path)
        result_id = hashlib.blake2b(repr(params.diagnostics).encode(), digest_size=8).hexdigest()
        return list(params.diagnostics), result_id

    def _params(self, path: str) -> types.PublishDiagnosticsParams:
        document = self._documents.get(path)
        state = self.state_of(path)
        shown = [self._diagnostic(*item) for item in self._diagnostics.in_file(path)]
        return types.PublishDiagnosticsParams(
            uri=self.uri_of(path),
            version=document.version if document is not None else None,
            diagnostics=[state, *shown] if state is not None else shown,
        )

    def _diagnostic(self, source: DiagnosticSource, result: SourceResult, finding: Finding) -> types.Diagnostic:
        stale = self._is_stale(source, result, finding)
        related = [
            types.DiagnosticRelatedInformation(self._location(other.place, source, result.revision), other.message)
            for other in finding.locations
        ]
        return types.Diagnostic(
            range=self._location(finding.place, source, result.revision).range,
            # A compilation of the new text follows at once: in its findings the remark would only flicker.
            message=_with_case(finding) + (_STALE if stale and source.layer in ("run", "program", "judge") else ""),
            severity=_SEVERITIES[finding.severity],
            code=finding.rule,
            source=SOURCE,
            tags=[types.DiagnosticTag.Unnecessary] if finding.rule == "config/unused-suppression" else None,
            related_information=related or None,
            code_description=self._page(finding.rule),
            data={
                **_data(finding, stale),
                "file": self.uri_of(source.path),
                "stored": result.stored and has_failing_case(finding),
            },
        )

    def _is_stale(self, source: DiagnosticSource, result: SourceResult, finding: Finding) -> bool:
        """Return whether the text that was checked, or that of the header a finding lies in, differs from the editor's.

        The source is compared by its text: a document that was opened after the check, or whose edits were undone, has
        the text that was checked. The text of a header is not kept, so its edits count.
        """
        document = self._documents.get(source.path)
        if document is not None and result.text is not None and document.text != result.text:
            return True
        header = self._documents.get(finding.place.path) if finding.place.path != source.path else None
        return source.layer != "config" and header is not None and header.edited_since(result.revision)

    def _location(self, place: Place, source: DiagnosticSource, revision: int) -> types.Location:
        document = self._documents.get(place.path)
        span = place.range
        if document is not None:
            # The check read the source's own file from the editor, every other file from disk.
            since = revision if place.path == source.path else min(revision, document.saved)
            span = document.migrate(span, since)
        lines = document.lines if document is not None else _lines_on_disk(place.path)
        return types.Location(self.uri_of(place.path), client_range(lines, span, self.encoding))

    def _page(self, rule: str) -> types.CodeDescription | None:
        href = self._rules.href(rule)
        return types.CodeDescription(href=href) if href is not None else None

    def uri_of(self, path: str) -> str:
        """Return a file's URI, in the client's own spelling while the file is open."""
        document = self._documents.get(path)
        return document.uri if document is not None else uri_from_path(path)


def has_failing_case(finding: Finding) -> bool:
    """Return whether a finding has a failing case, which can be reproduced and minimised once it is stored."""
    return finding.case is not None and finding.severity is Severity.ERROR


def _with_case(finding: Finding) -> str:
    """Return the message with what reproduces it: dtype and seed, and the id of a case that is not drawn from it."""
    if finding.case is None:
        return finding.message
    seed = finding.data.get("seed", finding.case)
    parts = [finding.dtype or "", f"seed {seed}", "" if seed == finding.case else f"minimized case {finding.case}"]
    return f"{finding.message} [{', '.join(part for part in parts if part)}]"


def _data(finding: Finding, stale: bool) -> dict[str, object]:
    return {
        "kernel": finding.kernel,
        "arch": finding.arch,
        "dtype": finding.dtype,
        "case": finding.case,
        "dims": dict(finding.dims),
        "fingerprint": finding.fingerprint,
        "stale": stale,
        **{key: value for key, value in finding.data.items() if _is_scalar(value)},
        # Values that JSON lacks are strings in it.
        **({"values": finding.data["values"]} if "values" in finding.data else {}),
    }


def _is_scalar(value: object) -> bool:
    if isinstance(value, float):
        return math.isfinite(value)  # JSON has neither NaN nor infinity
    return isinstance(value, bool | int | str)


def _lines_on_disk(path: str) -> Sequence[str]:
    try:
        status = Path(path).stat()
        return _read_lines(path, status.st_mtime_ns, status.st_size)
    except OSError:
        return ("",)


# One publication asks for the lines of a file once per finding.
@lru_cache(maxsize=8)
def _read_lines(path: str, modified: int, size: int) -> Sequence[str]:
    return tuple(file_bytes(path).decode("utf-8-sig", "replace").split("\n"))
