"""What is known to be wrong, by who said it: kept until the same speaker says something newer."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import Literal, TypeAlias

from gpuemu_lsp.engine.findings import Finding

Layer: TypeAlias = Literal["config", "compile", "run"]
"""``config`` and ``compile`` follow the text as it is typed, ``run`` the last save."""

_TYPED = ("config/", "compile/", "artifact/")


@dataclass(frozen=True, slots=True, order=True)
class Speaker:
    """A layer of one kernel of one file; ``kernel`` is empty for gpuemu.toml."""

    layer: Layer
    path: str
    kernel: str = ""


@dataclass(frozen=True, slots=True)
class Saying:
    """What a speaker found in the text of a revision of the session."""

    findings: tuple[Finding, ...]
    revision: int


@dataclass(slots=True)
class Diagnostics:
    """All sayings. Methods that change them return the paths whose diagnostics may have changed."""

    _sayings: dict[Speaker, Saying] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self._sayings)

    def say(self, speaker: Speaker, findings: Iterable[Finding], revision: int) -> set[str]:
        """Replace what a speaker said before."""
        saying = Saying(tuple(findings), revision)
        old = self._sayings.get(speaker)
        self._sayings[speaker] = saying
        return _paths(saying) | (_paths(old) if old is not None else set())

    def said(self, speaker: Speaker) -> tuple[Finding, ...]:
        """Return what a speaker last found."""
        saying = self._sayings.get(speaker)
        return saying.findings if saying is not None else ()

    def drop(self, layer: Layer, path: str, keep: frozenset[str] = frozenset()) -> set[str]:
        """Forget a layer of a file, but for the kernels named: the others are no longer in it."""
        gone = [
            speaker
            for speaker in self._sayings
            if speaker.layer == layer and speaker.path == path and speaker.kernel not in keep
        ]
        paths: set[str] = set()
        for speaker in gone:
            paths |= _paths(self._sayings.pop(speaker))
        return paths

    def confirm(self, path: str, revision: int) -> set[str]:
        """Note that what was said of a file holds for the text of a newer revision, which is the same."""
        paths: set[str] = set()
        for speaker, saying in self._sayings.items():
            if speaker.path == path:
                self._sayings[speaker] = replace(saying, revision=revision)
                paths |= _paths(saying)
        return paths

    def paths_of(self, path: str) -> set[str]:
        """Return the files in which something found in checking ``path`` stands."""
        return {place for speaker, said in self._sayings.items() if speaker.path == path for place in _paths(said)}

    def at(self, path: str) -> Iterator[tuple[Speaker, int, Finding]]:
        """Yield what stands in a file: speaker, revision and finding, each thing once."""
        seen = set()
        for speaker, saying in sorted(self._sayings.items(), key=lambda item: item[0]):
            for finding in saying.findings:
                if finding.place.path != path or finding.data.get("ignored") is True:
                    continue
                if (key := _identity(finding)) not in seen:
                    seen.add(key)
                    yield speaker, saying.revision, finding

    def findings_of(self, path: str) -> Iterator[Finding]:
        """Yield everything found in checking a file, wherever it stands."""
        for speaker, saying in self._sayings.items():
            if speaker.path == path:
                yield from saying.findings

    def owners(self) -> set[str]:
        """Return the files that something was found in checking, or nothing."""
        return {speaker.path for speaker in self._sayings}

    def sources(self) -> set[str]:
        """Return the files that have been looked at."""
        return {speaker.path for speaker in self._sayings if speaker.layer != "config"}


def split(findings: Iterable[Finding]) -> tuple[tuple[Finding, ...], tuple[Finding, ...]]:
    """Part a check's findings into those that the next compilation replaces and those that only a run can."""
    found = tuple(findings)
    typed = tuple(finding for finding in found if finding.rule.startswith(_TYPED))
    return typed, tuple(finding for finding in found if not finding.rule.startswith(_TYPED))


def _identity(finding: Finding) -> tuple[object, ...]:
    """Several kernels of one file report the same compile error."""
    shared = finding.rule.startswith(("config/", "compile/"))
    return (
        finding.rule,
        finding.place,
        finding.message,
        None if shared else (finding.kernel, finding.dtype, finding.arch),
    )


def _paths(saying: Saying) -> set[str]:
    return {finding.place.path for finding in saying.findings}
