"""Findings as the client's diagnostics: one list per file, with its version, and only when it has changed."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Iterable
from pathlib import Path

from lsprotocol import types

from gpuemu_lsp.engine.findings import Finding, Place, Position, Range, Severity
from gpuemu_lsp.server.diagnostics.rules_page import RulesPage
from gpuemu_lsp.server.diagnostics.sources import Diagnostics, Speaker
from gpuemu_lsp.server.documents.document import Document
from gpuemu_lsp.server.documents.positions import Encoding, client_position
from gpuemu_lsp.server.documents.uris import plain_uri

SOURCE = "gpuemu"
_SEVERITIES = {
    Severity.ERROR: types.DiagnosticSeverity.Error,
    Severity.WARNING: types.DiagnosticSeverity.Warning,
    Severity.INFORMATION: types.DiagnosticSeverity.Information,
    Severity.HINT: types.DiagnosticSeverity.Hint,
}
_STALE = "\n(found in the last save; the text has changed since)"


class Publisher:
    """Sends each file's diagnostics; remembers what was sent so that nothing is sent twice."""

    def __init__(
        self,
        diagnostics: Diagnostics,
        documents: dict[str, Document],
        send: Callable[[types.PublishDiagnosticsParams], None],
    ) -> None:
        self.encoding: Encoding = "utf-16"
        self._diagnostics = diagnostics
        self.documents = documents
        self._send = send
        self._rules = RulesPage()
        self.refresh: Callable[[], None] | None = None
        """Set where the client asks for the diagnostics of open documents: then it is only told that there are news."""
        self._sent: dict[str, types.PublishDiagnosticsParams] = {}

    def publish(self, paths: Iterable[str]) -> None:
        """Send what now stands in these files."""
        for path in sorted(set(paths)):
            params = self._params(path)
            before = self._sent.get(path)
            if params == before or (before is None and not params.diagnostics and path not in self.documents):
                continue
            if params.diagnostics or path in self.documents:
                self._sent[path] = params
            else:
                del self._sent[path]  # the client shows nothing of it any more
            if self.refresh is not None and path in self.documents:
                self.refresh()
            else:
                self._send(params)

    @property
    def kept(self) -> int:
        """How many files' last publications are remembered."""
        return len(self._sent)

    def shown(self, path: str) -> list[tuple[Finding, types.Range]]:
        """Return what stands in a file, and where in the text as it is now."""
        return [
            (finding, self._location(finding.place, speaker, revision).range)
            for speaker, revision, finding in self._diagnostics.at(path)
        ]

    def pulled(self, path: str) -> tuple[list[types.Diagnostic], str]:
        """Return a document's diagnostics and an identity of them."""
        params = self._params(path)
        identity = hashlib.blake2b(repr(params.diagnostics).encode(), digest_size=8).hexdigest()
        return list(params.diagnostics), identity

    def _params(self, path: str) -> types.PublishDiagnosticsParams:
        document = self.documents.get(path)
        return types.PublishDiagnosticsParams(
            uri=self.uri_of(path),
            version=document.version if document is not None else None,
            diagnostics=[self._diagnostic(*found) for found in self._diagnostics.at(path)],
        )

    def _diagnostic(self, speaker: Speaker, revision: int, finding: Finding) -> types.Diagnostic:
        document = self.documents.get(speaker.path)
        stale = speaker.layer == "run" and document is not None and document.edited_since(revision)
        related = [
            types.DiagnosticRelatedInformation(self._location(other.place, speaker, revision), other.message)
            for other in finding.related
        ]
        return types.Diagnostic(
            range=self._location(finding.place, speaker, revision).range,
            message=finding.message + (_STALE if stale else ""),
            severity=_SEVERITIES[finding.severity],
            code=finding.rule,
            source=SOURCE,
            related_information=related or None,
            code_description=self._page(finding.rule),
            data={**_data(finding, stale), "file": self.uri_of(speaker.path), "stored": _is_stored(finding)},
        )

    def _location(self, place: Place, speaker: Speaker, revision: int) -> types.Location:
        document = self.documents.get(place.path)
        span = place.range
        if document is not None:
            # Other files than the speaker's own were read from disk.
            since = revision if place.path == speaker.path else min(revision, document.saved)
            span = document.migrate(span, since)
        lines = (document.text if document is not None else _read(place.path)).split("\n")
        return types.Location(self.uri_of(place.path), client_range(lines, span, self.encoding))

    def _page(self, rule: str) -> types.CodeDescription | None:
        href = self._rules.href(rule)
        return types.CodeDescription(href=href) if href is not None else None

    def uri_of(self, path: str) -> str:
        """Return a file's URI as the client spells it, where it has said so."""
        document = self.documents.get(path)
        return document.uri if document is not None else plain_uri(path)


def client_range(lines: list[str], span: Range, encoding: Encoding) -> types.Range:
    """Return a range of bytes in the client's units."""
    start, end = (_position(client_position(lines, position, encoding)) for position in (span.start, span.end))
    return types.Range(start, end)


def _position(position: Position) -> types.Position:
    return types.Position(position.line, position.column)


def _is_stored(finding: Finding) -> bool:
    """Say whether the case was kept: only then can it be reproduced and minimised."""
    return finding.case is not None and finding.severity is Severity.ERROR


def _data(finding: Finding, stale: bool) -> dict[str, object]:
    return {
        "kernel": finding.kernel,
        "arch": finding.arch,
        "dtype": finding.dtype,
        "case": finding.case,
        "dims": dict(finding.dims),
        "fingerprint": finding.fingerprint,
        "stale": stale,
        **{key: value for key, value in finding.data.items() if _is_small(value)},
    }


def _is_small(value: object) -> bool:
    if isinstance(value, float):
        return math.isfinite(value)  # JSON has no others
    return isinstance(value, bool | int | str)


def _read(path: str) -> str:
    try:
        return Path(path).read_bytes().decode("utf-8", "replace")
    except OSError:
        return ""
