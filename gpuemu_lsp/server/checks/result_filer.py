"""What a batch says becomes sayings and verdicts; each method returns the files whose diagnostics may have changed."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from gpuemu_lsp.engine.check.model import CheckRequest, Replay
from gpuemu_lsp.engine.findings import Finding, Place, Related, Severity
from gpuemu_lsp.engine.jobs.run import fingerprinted
from gpuemu_lsp.server.checks.requests import kernel_id
from gpuemu_lsp.server.checks.scheduler import Batch, Part
from gpuemu_lsp.server.diagnostics.kernel_results import Verdict, Verdicts
from gpuemu_lsp.server.diagnostics.sources import Diagnostics, Speaker, split
from gpuemu_lsp.server.documents.parsed_files import Readings

_PASSING = frozenset({"engine/worker-crashed", "engine/timeout", "engine/internal-error"})
"""Another try of the same content may end otherwise."""


class Outcome:
    """Files results under the layers they belong to."""

    def __init__(self, diagnostics: Diagnostics, verdicts: Verdicts, readings: Readings) -> None:
        self._diagnostics = diagnostics
        self._verdicts = verdicts
        self._readings = readings

    def compiled(self, batch: Batch, part: Part) -> set[str]:
        """Say what compilation and lint found, while the kernel still runs."""
        return self._say_compiled(batch, part, split(part.findings)[0])

    def found(self, batch: Batch, part: Part) -> set[str]:
        """Say the first error of a run at once. Errors of the last run stay, all of them, until there is a verdict."""
        speaker = Speaker("run", batch.key.path, kernel_id(part.request.spec))
        ran = split(part.findings)[1]
        if batch.key.kind != "check" or not _has_error(ran) or _has_error(self._diagnostics.said(speaker)):
            return set()
        return self._diagnostics.say(speaker, self._identified(part, ran), batch.revision)

    def verdict(self, batch: Batch, part: Part) -> set[str]:
        """Say all that was found of a kernel."""
        report = part.report
        assert report is not None
        executed = batch.key.kind == "check"
        self._verdicts.put(Verdict(part.request, report, tuple(part.findings), batch.revision), executed)
        if not executed:
            # That typing does not run kernels needs no saying.
            found = [item for item in part.findings if item.rule != "engine/not-executed" or not report.compiled]
            return self._say_compiled(batch, part, found)
        typed, ran = split(part.findings)
        speaker = Speaker("run", batch.key.path, kernel_id(part.request.spec))
        paths = self._diagnostics.say(speaker, self._identified(part, ran), batch.revision)
        return paths | self._say_compiled(batch, part, typed)

    def ended(self, batch: Batch) -> set[str]:
        """Forget the kernels that the file no longer has."""
        if not batch.whole:
            return set()
        here = frozenset(kernel_id(part.request.spec) for part in batch.parts)
        paths = self._diagnostics.drop("compile", batch.key.path, here)
        if batch.key.kind == "check":
            paths |= self._diagnostics.drop("run", batch.key.path, here)
            self._verdicts.forget(batch.key.path, here)
        return paths

    def smaller(self, request: CheckRequest, replay: Replay, revision: int) -> set[str]:
        """Put a minimised case in the place of the one it was made of."""
        error = replay.error
        if error is None:
            return set()
        (shown,) = fingerprinted([error], request.root)
        speaker = Speaker("run", request.spec.source, kernel_id(request.spec))
        said = self._diagnostics.said(speaker)
        kept = [item for item in said if (item.rule, item.dtype, item.place) != (shown.rule, shown.dtype, shown.place)]
        return self._diagnostics.say(speaker, [*kept, shown], revision)

    def _say_compiled(self, batch: Batch, part: Part, findings: Iterable[Finding]) -> set[str]:
        speaker = Speaker("compile", batch.key.path, kernel_id(part.request.spec))
        return self._diagnostics.say(speaker, self._identified(part, findings), batch.revision)

    def _identified(self, part: Part, findings: Iterable[Finding]) -> list[Finding]:
        return [self._in_sight(part, finding) for finding in fingerprinted(list(findings), part.request.root)]

    def _in_sight(self, part: Part, finding: Finding) -> Finding:
        """Show on the kernel itself that it did not run: whoever edits it may never open gpuemu.toml."""
        request, place = part.request, finding.place
        if not finding.rule.startswith("engine/") or place.path == request.spec.source:
            return finding
        reading = self._readings.last(request.spec.source)
        decl = reading.decl_of(request.spec) if reading is not None and reading.text == request.text else None
        if decl is None:
            return finding
        related = (*finding.related, Related(place, "registered here"))
        return replace(finding, place=Place(request.spec.source, decl.name_range), related=related)


def _has_error(findings: Iterable[Finding]) -> bool:
    return any(finding.severity is Severity.ERROR for finding in findings)


def repeatable(batch: Batch) -> bool:
    """Say whether the same content would end the same way, so that it need not be checked again."""
    return not any(finding.rule in _PASSING for part in batch.parts for finding in part.findings)
