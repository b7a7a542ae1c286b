"""Verdicts of Triton and pyptx kernels: each case may have code of its own; the module's tokens identify the kernel.

The identity is known without importing the module: tokens of its text (:mod:`.python_tokens`), registration, options,
stored cases, and the versions of all installed packages, Triton among them; then the content of every file that the
module and the reference read, such as modules of the project. A comment or a blank line changes none of them: then the
check imports and compiles nothing, and takes the stored findings and report, at the new places of their tokens.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from gpuemu_lsp.engine.check.model import KernelReport
from gpuemu_lsp.engine.check.plan_run import PlanRun
from gpuemu_lsp.engine.check.verdicts import cache
from gpuemu_lsp.engine.check.verdicts.key import KEY_VERSION, engine_digest, installed, plain, scripts
from gpuemu_lsp.engine.check.verdicts.python_tokens import TokenizedText, TokenPosition
from gpuemu_lsp.engine.check.verdicts.record import is_repeatable
from gpuemu_lsp.engine.findings import Finding, Json, Place, Range
from gpuemu_lsp.engine.oracle.opened_files import file_digest, file_digests
from gpuemu_lsp.engine.regular_file import file_bytes
from gpuemu_lsp.engine.store import Store, StoreError
from gpuemu_lsp.engine.subjects.languages import language_of_text
from gpuemu_lsp.engine.subjects.request import CheckOptions, CheckRequest


@dataclass(frozen=True, slots=True)
class TokenPlace:
    """What a place refers to: tokens of the module from ``start`` to ``end``, a key of gpuemu.toml, or ``file`` itself.

    ``file`` is a place in another file, whose content belongs to the verdict's identity.
    """

    start: TokenPosition | None = None
    end: TokenPosition | None = None
    key: str | None = None
    file: Place | None = None


@dataclass(frozen=True, slots=True)
class TokenFinding:
    """A finding with what its place and its related places refer to. It has no ``consequences``; they are here."""

    finding: Finding
    places: tuple[TokenPlace, ...]
    consequences: tuple[TokenFinding, ...] = ()


@dataclass(frozen=True, slots=True)
class PythonVerdict:
    """The whole result of a check; ``files`` are digests of the files that were read, by path."""

    findings: tuple[TokenFinding, ...]
    report: KernelReport
    files: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class ReusedPythonVerdict:
    """Findings and report of an earlier check, placed in the current text."""

    findings: tuple[Finding, ...]
    report: KernelReport


@dataclass(frozen=True, slots=True)
class _Placing:
    """The places of one text."""

    request: CheckRequest
    tokens: TokenizedText
    files: Mapping[str, str]

    def stored(self, finding: Finding) -> TokenFinding | None:
        """Return a finding with what its places refer to, None if one of them refers to nothing that is known."""
        places = [self._reference(place) for place in (finding.place, *(one.place for one in finding.related))]
        known = tuple(place for place in places if place is not None)
        following = tuple(one for one in map(self.stored, finding.consequences) if one is not None)
        if len(known) < len(places) or len(following) < len(finding.consequences):
            return None
        return TokenFinding(replace(finding, consequences=()), known, following)

    def restored(self, stored: TokenFinding) -> Finding | None:
        """Return a stored finding at its places in this text, None if one of them is gone."""
        places = [place for place in map(self._place, stored.places) if place is not None]
        following = tuple(one for one in map(self.restored, stored.consequences) if one is not None)
        if len(places) < len(stored.places) or len(following) < len(stored.consequences):
            return None
        pairs = zip(places[1:], stored.finding.related, strict=True)
        related = tuple(replace(one, place=place) for place, one in pairs)
        return replace(stored.finding, place=places[0], related=related, consequences=following)

    def _reference(self, place: Place) -> TokenPlace | None:
        if place.path == self.request.spec.source:
            start, end = self.tokens.anchor(place.range.start), self.tokens.anchor(place.range.end)
            return None if start is None or end is None else TokenPlace(start, end)
        key = next((key for key, at in self.request.spec.places.items() if at == place), None)
        if key is not None:
            return TokenPlace(key=key)
        return TokenPlace(file=place) if place.path in self.files else None

    def _place(self, stored: TokenPlace) -> Place | None:
        if stored.start is not None and stored.end is not None:
            span = Range(self.tokens.position(stored.start), self.tokens.position(stored.end))
            return Place(self.request.spec.source, span)
        return self.request.spec.places.get(stored.key) if stored.key is not None else stored.file


def find_python_verdict(request: CheckRequest) -> ReusedPythonVerdict | None:
    """Return the stored verdict of a Triton kernel; None for any other kernel, and where there is none.

    Neither imports nor compiles anything.
    """
    if request.options.verdicts not in ("reuse", "find"):
        return None
    tokens = _tokens(request)
    if tokens is None:
        return None
    # A command checks more than a save does.
    identity = _identity(request, tokens)
    if identity is None:
        return None
    keys = (_key(identity, replace(request.options, specialisations="all")), _key(identity, request.options))
    found_verdicts = (cache.load(key, PythonVerdict) for key in keys)
    verdict = next((one for one in found_verdicts if one is not None), None)
    if verdict is None:
        return None
    if any(file_digest(path) != digest for path, digest in verdict.files.items()):
        return None
    placing = _Placing(request, tokens, verdict.files)
    found = [finding for finding in map(placing.restored, verdict.findings) if finding is not None]
    if len(found) < len(verdict.findings):
        return None
    _move_failures(request, verdict, found)
    report = replace(verdict.report, source=request.spec.source, reused=True)
    return ReusedPythonVerdict(tuple(found), report)


def store_python_verdict(
    request: CheckRequest,
    runs: Sequence[PlanRun],
    findings: Sequence[Finding],
    report: KernelReport,
    cut_short: bool,
) -> None:
    """Store the result of a finished check of a Triton kernel under the key that a check has from now on."""
    if request.options.verdicts not in ("record", "reuse") or not is_repeatable(runs, findings, cut_short):
        return
    # Both are by lines, which only sites of a single code could move; and a note may quote a line.
    if report.counters or report.coverage or any(run.plan.notes for run in runs):
        return
    tokens, files = _tokens(request), file_digests()
    if tokens is None or files is None:
        return
    reference = request.spec.reference
    if reference not in (None, request.spec.source) and reference not in files:
        return
    # The text of the module itself is that of the editor, and its tokens are in the key.
    files = {path: digest for path, digest in files.items() if path != request.spec.source}
    identity = _identity(request, tokens)
    placing = _Placing(request, tokens, files)
    stored = [finding for finding in map(placing.stored, findings) if finding is not None]
    if identity is not None and len(stored) == len(findings):
        key = _key(identity, request.options)
        cache.store(key, PythonVerdict(tuple(stored), replace(report, timing_ms={}), files))


def _tokens(request: CheckRequest) -> TokenizedText | None:
    """Return the tokens of a Triton kernel's module; None for another kernel, or a check that stores no verdict."""
    options, spec = request.options, request.spec
    if not options.execute or options.unoptimized or options.coverage or options.counters or not request.registered:
        return None
    text = request.text
    if text is None:
        try:
            text = file_bytes(spec.source).decode("utf-8-sig")
        except (OSError, UnicodeDecodeError):
            return None
    return TokenizedText.of(text) if language_of_text(spec, text).identified_by_tokens else None


def _key(identity: list[Json], options: CheckOptions) -> str:
    """Return the key of a check with some options."""
    parts = [identity, plain(replace(options, store_root=None, verdicts="run"))]
    text = json.dumps(parts, sort_keys=True).encode("utf-8", "surrogatepass")
    return hashlib.blake2b(text, digest_size=20).hexdigest()


def _identity(request: CheckRequest, tokens: TokenizedText) -> list[Json] | None:
    """Return everything but the options that decides a verdict; None if that is not known."""
    engine, spec = engine_digest(), request.spec
    cases = _stored_cases(request)
    if engine is None or cases is None:
        return None
    return [
        [KEY_VERSION, "python", engine, sys.version, *installed()],
        tokens.digest,
        [plain(replace(spec, places={})), *sorted(spec.places)],
        plain(request.validation),
        request.root,
        cases,
        [scripts(spec.source), scripts(spec.reference)],
    ]


def _stored_cases(request: CheckRequest) -> list[Json] | None:
    """Return the cases that a check replays, those of all dtypes; None if the store cannot be read."""
    if request.options.store_root is None:
        return []
    try:
        with Store(request.options.store_root) as store:
            stored = store.failures_of(request.spec.name)
    except StoreError:
        return None
    cases: list[Json] = [
        [one.failure.dtype, one.case, one.fixed, one.failure.rule, one.failure.optimized, one.failure.source_hash]
        for one in stored
    ]
    return sorted(cases, key=repr)


def _move_failures(request: CheckRequest, verdict: PythonVerdict, findings: Sequence[Finding]) -> None:
    """Move the stored failing cases to the new lines of their findings."""
    lines = {
        (new.dtype, new.rule, old.finding.place.range.start.line): new.place.range.start.line
        for old, new in zip(verdict.findings, findings, strict=True)
        if new.dtype is not None and new.case is not None and old.finding.place != new.place
    }
    if request.options.store_root is None or not lines:
        return
    with contextlib.suppress(StoreError), Store(request.options.store_root) as store:
        store.move(request.spec.name, lines)
