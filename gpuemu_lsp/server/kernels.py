"""The kernels of an open document with what is known of each."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from gpuemu_lsp.engine.campaign.targets import SUFFIXES
from gpuemu_lsp.engine.compile.model import ResourceUsage
from gpuemu_lsp.engine.source.model import KernelDecl
from gpuemu_lsp.server.declarations import declarations
from gpuemu_lsp.server.session import Session
from gpuemu_lsp.server.verdicts import Verdict


@dataclass(frozen=True, slots=True)
class Summary:
    """A verdict in a few words."""

    verdict: Verdict
    words: str


@dataclass(frozen=True, slots=True)
class Kernel:
    """A kernel function, its verdicts, its resources per architecture, and whether the text has changed since."""

    decl: KernelDecl
    verdicts: tuple[Verdict, ...]
    resources: Mapping[str, ResourceUsage]
    edited: frozenset[str]
    """Names of the entries whose verdict is about an older text."""

    def summaries(self) -> Iterator[Summary]:
        """Yield each verdict in words; more than one entry may mean the same function."""
        for verdict in self.verdicts:
            words = _words(verdict)
            if len(self.verdicts) > 1:
                words = f"{verdict.report.name}: {words}"
            if verdict.report.name in self.edited:
                words += " (before your edits)"
            yield Summary(verdict, words)


def kernels(session: Session, path: str) -> list[Kernel]:
    """Return the kernels of an open document; none when it is not open or no CUDA."""
    document = session.documents.get(path)
    if document is None or Path(path).suffix not in SUFFIXES:
        return []
    decls = declarations(path, document.text)
    found = []
    for decl in decls:
        alone = len(decls) == 1
        verdicts = tuple(session.verdicts.checks_of(path, decl, alone))
        resources = session.verdicts.resources_of(path, decl, alone)
        edited = frozenset(item.report.name for item in verdicts if document.edited_since(item.revision))
        found.append(Kernel(decl, verdicts, resources, edited))
    return found


_STATUS = {
    "passed": "passed",
    "failed": "FAILED",
    "error": "could not be judged",
    "unreferenced": "clean, no reference",
    "not-executed": "not run",
}


def _words(verdict: Verdict) -> str:
    report = verdict.report
    words = _STATUS.get(report.status, report.status)
    if report.cases.run:
        words += f", {report.cases.passed} of {report.cases.run} cases"
    return words
