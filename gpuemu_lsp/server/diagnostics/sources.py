"""Findings by diagnostic source: a newer result of a source replaces its older one and leaves all others."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal, TypeAlias

from gpuemu_lsp.engine.findings import Finding

Layer: TypeAlias = Literal["config", "compile", "run", "program", "judge"]
"""``config`` and ``compile`` follow the text as it is typed, ``run`` the last save, ``program`` and ``judge`` the last
run and judgement of it."""

_STATIC_RULES = ("config/", "compile/", "artifact/")


@dataclass(frozen=True, slots=True, order=True)
class DiagnosticSource:
    """A layer of one kernel of one file; ``kernel`` is empty for gpuemu.toml."""

    layer: Layer
    path: str
    kernel: str = ""


@dataclass(frozen=True, slots=True)
class SourceResult:
    """Findings of a source in a text of its file, which was that of a revision of the session.

    ``text`` is None for gpuemu.toml, whose findings are never older than its text. ``stored``: failing cases of the run
    are in the project's store.
    """

    findings: tuple[Finding, ...]
    revision: int
    text: str | None = None
    stored: bool = False


@dataclass(slots=True)
class DiagnosticStore:
    """The last result of every source. Methods that change it return the paths whose diagnostics may have changed."""

    _results: dict[DiagnosticSource, SourceResult] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self._results)

    def replace(
        self,
        source: DiagnosticSource,
        findings: Iterable[Finding],
        revision: int,
        text: str | None = None,
        stored: bool = False,
    ) -> set[str]:
        """Replace the result of a source."""
        result = SourceResult(tuple(findings), revision, text, stored)
        old = self._results.get(source)
        self._results[source] = result
        return _paths(result) | (_paths(old) if old is not None else set())

    def findings_from(self, source: DiagnosticSource) -> tuple[Finding, ...]:
        """Return the findings of a source."""
        result = self._results.get(source)
        return result.findings if result is not None else ()

    def revision_of(self, source: DiagnosticSource) -> int | None:
        """Return the revision of the result of a source, None if it has none."""
        result = self._results.get(source)
        return result.revision if result is not None else None

    def drop(self, layer: Layer, path: str, keep: frozenset[str] = frozenset()) -> set[str]:
        """Drop the results of a layer of a file, except those of the kernels in ``keep``."""
        dropped = [
            source
            for source in self._results
            if source.layer == layer and source.path == path and source.kernel not in keep
        ]
        paths: set[str] = set()
        for source in dropped:
            paths |= _paths(self._results.pop(source))
        return paths

    def revalidate(self, path: str, revision: int) -> set[str]:
        """Record that the results of a file hold for a newer revision, whose text and dependencies are the same."""
        paths: set[str] = set()
        for source, result in self._results.items():
            if source.path == path:
                self._results[source] = replace(result, revision=revision)
                paths |= _paths(result)
        return paths

    def paths_of(self, path: str) -> set[str]:
        """Return the files that findings of checking ``path`` point to, such as its headers."""
        return {place for source, result in self._results.items() if source.path == path for place in _paths(result)}

    def in_file(self, path: str) -> Iterator[tuple[DiagnosticSource, SourceResult, Finding]]:
        """Yield source, result and finding for each finding that points to a file, without duplicates."""
        seen = set()
        for source, result in sorted(self._results.items(), key=lambda item: item[0]):
            for finding in result.findings:
                if finding.place.path != path or finding.data.get("ignored") is True:
                    continue
                if (key := _identity(finding)) not in seen:
                    seen.add(key)
                    yield source, result, finding

    def findings_of(self, path: str, layers: Sequence[Layer] | None = None) -> Iterator[Finding]:
        """Yield all findings of checking a file, whichever file they point to; by default of all layers."""
        for source, result in self._results.items():
            if source.path == path and (layers is None or source.layer in layers):
                yield from (item for item in result.findings if item.data.get("ignored") is not True)

    def files(self) -> set[str]:
        """Return the files with a result, gpuemu.toml included."""
        return {source.path for source in self._results}

    def checked_files(self) -> set[str]:
        """Return the sources with a result of a compilation or run."""
        return {source.path for source in self._results if source.layer != "config"}


def split_by_layer(findings: Iterable[Finding]) -> tuple[tuple[Finding, ...], tuple[Finding, ...]]:
    """Split a check's findings into those the next compilation replaces, and those only a run replaces."""
    new = tuple(findings)
    static = tuple(finding for finding in new if finding.rule.startswith(_STATIC_RULES))
    return static, tuple(finding for finding in new if not finding.rule.startswith(_STATIC_RULES))


def _identity(finding: Finding) -> tuple[object, ...]:
    # Every kernel of a file reports the same compile errors, which belong to none of them.
    shared = finding.rule.startswith(("config/", "compile/"))
    return (
        finding.rule,
        finding.place,
        finding.message,
        None if shared else (finding.kernel, finding.dtype, finding.arch),
    )


def _paths(result: SourceResult) -> set[str]:
    return {finding.place.path for finding in result.findings}
