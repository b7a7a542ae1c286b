"""The kernels of an open document with what is known of each."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from gpuemu_lsp.engine.compile.model import ResourceUsage
from gpuemu_lsp.engine.project.expressions import Expression, ExpressionError, evaluate
from gpuemu_lsp.engine.source.model import KernelDecl
from gpuemu_lsp.server.diagnostics.kernel_results import Verdict
from gpuemu_lsp.server.documents.parsed_files import Reading
from gpuemu_lsp.server.session import Session


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
    launch: tuple[int, int] | None
    """Threads per block and bytes of dynamic shared memory, where they are plain numbers."""

    def summaries(self) -> Iterator[Summary]:
        """Yield each verdict in words; more than one entry may mean the same function."""
        for verdict in self.verdicts:
            words = _words(verdict)
            if len(self.verdicts) > 1:
                words = f"{verdict.report.name}: {words}"
            if verdict.report.name in self.edited:
                words += " (before your edits)"
            yield Summary(verdict, words)


async def kernels(session: Session, path: str) -> list[Kernel]:
    """Return the kernels of an open document; none when it is not open or no CUDA."""
    document = session.documents.get(path)
    reading = await session.reading(path) if document is not None else None
    if document is None or reading is None:
        return []
    found = []
    for decl in reading.kernels:
        alone = len(reading.kernels) == 1
        verdicts = tuple(session.verdicts.checks_of(path, decl, alone))
        resources = session.verdicts.resources_of(path, decl, alone)
        edited = frozenset(item.report.name for item in verdicts if document.edited_since(item.revision))
        found.append(Kernel(decl, verdicts, resources, edited, _launch(reading, decl)))
    return found


def _launch(reading: Reading, decl: KernelDecl) -> tuple[int, int] | None:
    for plan in (plan for entry in reading.entries if entry.decl == decl for plan in entry.plans):
        sizes = [_number(size) for size in plan.block]
        if all(size is not None for size in sizes):
            return math.prod(size for size in sizes if size is not None), _number(plan.shared) or 0
    return None


def _number(expression: Expression) -> int | None:
    try:
        return evaluate(expression, {})
    except ExpressionError:
        return None


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
