"""Preparation of a check: the text of the source, and what its language makes of it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path

from gpuemu_lsp.engine.check.policies.unknown_suppressions import unknown_suppressions
from gpuemu_lsp.engine.compile.model import Artifact
from gpuemu_lsp.engine.findings import Finding, Place, Range
from gpuemu_lsp.engine.regular_file import file_bytes
from gpuemu_lsp.engine.rules import make
from gpuemu_lsp.engine.source.ignore_comments import IgnoreComments
from gpuemu_lsp.engine.subjects.ahead import TranslatePlan
from gpuemu_lsp.engine.subjects.language import Language, PendingLint, PreparedKernel, SourceRequest
from gpuemu_lsp.engine.subjects.languages import language_of_text
from gpuemu_lsp.engine.subjects.request import CheckRequest


@dataclass(frozen=True, slots=True)
class _Claims:
    """What findings on a kernel that has not run are in its check: with their claims, and the comments applied."""

    request: CheckRequest
    text: str
    language: Language
    ignores: IgnoreComments

    def of(self, findings: Iterable[Finding]) -> tuple[Finding, ...]:
        if not self.request.registered:
            findings = (self.language.claim_before_run(finding, self.text) for finding in findings)
        return tuple(map(self.ignores.apply, findings))


@dataclass(frozen=True, slots=True)
class _PendingFindings:
    """Lint whose findings are made those of the check."""

    lint: PendingLint
    claims: _Claims

    def finish(self) -> tuple[tuple[Artifact, ...], tuple[Finding, ...]]:
        artifacts, findings = self.lint.finish()
        return artifacts, self.claims.of(findings)


def prepare(request: CheckRequest, ahead: TranslatePlan | None = None) -> PreparedKernel:
    """Read, resolve, compile and lint one kernel.

    ``ahead`` translates the code of a plan in another process. With it, findings may be pending, and processes must be
    closed.
    """
    spec = request.spec
    place = spec.places.get("source") or spec.places.get("") or Place(spec.source, Range.of(0, 0, 0, 1))
    text = request.text
    if text is None:
        try:
            text = file_bytes(spec.source).decode("utf-8-sig")
        except (OSError, UnicodeDecodeError) as error:
            message = f"{Path(spec.source).name} cannot be read as UTF-8 text: {error}"
            return PreparedKernel((make("config/missing-file", message, place, kernel=spec.name),), place)
    language, source = language_of_text(spec, text), SourceRequest(request, text, place, ahead)
    prepared = language.prepare(source)
    claims = _Claims(request, text, language, IgnoreComments(source.text_of))
    prepared = replace(
        prepared,
        findings=(*unknown_suppressions(spec.source, text), *claims.of(prepared.findings)),
        language=language,
        ignores=claims.ignores,
        overlay=request.overlay,
        pending=None if prepared.pending is None else _PendingFindings(prepared.pending, claims),
    )
    if ahead is not None:
        return prepared
    prepared, findings = prepared.finished()
    return replace(prepared, findings=(*prepared.findings, *findings))
