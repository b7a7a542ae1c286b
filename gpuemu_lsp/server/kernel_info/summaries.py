"""The kernels of an open document with their last results, as hovers, lenses and hints summarise them."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from gpuemu_lsp.engine.compile.model import ResourceUsage
from gpuemu_lsp.engine.findings import Range
from gpuemu_lsp.engine.project.expressions import Expression, ExpressionError, evaluate
from gpuemu_lsp.engine.report.text import cases_text
from gpuemu_lsp.engine.source.model import KernelDecl
from gpuemu_lsp.server.diagnostics.kernel_results import KernelResult
from gpuemu_lsp.server.documents.parsed_files import KernelEntry, ParsedFile, is_python, kernel_id
from gpuemu_lsp.server.session import Session

_WARP_SIZE = 32
_STATUS = {
    "passed": "passed",
    "failed": "FAILED",
    "error": "could not be checked",
    "unreferenced": "clean, no reference",
    "not-executed": "not run",
}


@dataclass(frozen=True, slots=True)
class ResultSummary:
    """A result and its summary: status and number of cases."""

    result: KernelResult
    text: str


@dataclass(frozen=True, slots=True)
class KernelSummary:
    """A kernel function, its results, and its resource usage by architecture.

    ``name`` is that of the first result, which no other kernel of the file has; None without results.
    """

    decl: KernelDecl
    results: tuple[KernelResult, ...]
    resources: Mapping[str, ResourceUsage]
    edited: frozenset[str]
    """Names of the entries whose result is of an older text."""
    unregistered: str | None
    """Name by which the kernel can be registered; None if it is, or if gpuemu.toml has errors."""
    entries: tuple[KernelEntry, ...] = ()
    name: str | None = None

    @property
    def is_function(self) -> bool:
        """Whether it is a function of Python."""
        return any(entry.runs_python for entry in self.entries)

    @property
    def launch(self) -> tuple[int, int] | None:
        """Threads per block and bytes of dynamic shared memory, where they are constants."""
        for result in self.results:
            if (variant := result.report.specialisation) is not None:
                return _WARP_SIZE * variant.warps, variant.shared_bytes
        for plan in (plan for entry in self.entries for plan in entry.plans):
            sizes = [_constant(size) for size in plan.block]
            if all(size is not None for size in sizes):
                return math.prod(size for size in sizes if size is not None), _constant(plan.shared) or 0
        return None

    def summaries(self) -> Iterator[ResultSummary]:
        """Yield a summary of each result; several entries may refer to the same function."""
        for result in self.results:
            text = _summary(result)
            if len(self.results) > 1:
                text = f"{result.report.name}: {text}"
            if result.report.name in self.edited:
                text += " (before your edits)"
            yield ResultSummary(result, text)


async def kernels_of(session: Session, path: str) -> list[KernelSummary]:
    """Return the kernels of an open document; none if it is not open or not CUDA."""
    document = session.documents.get(path)
    parsed = await session.parse(path) if document is not None else None
    if document is None or parsed is None:
        return []
    entries: dict[Range, list[KernelEntry]] = {}
    for entry in parsed.entries:
        if entry.decl is not None:
            entries.setdefault(entry.decl.range, []).append(entry)
    own_entries = [tuple(one for one in entries.get(decl.range, ()) if one.decl == decl) for decl in parsed.kernels]
    if is_python(path):  # several strings may have kernels of one name
        results = [session.results.of_entries(path, [entry.id for entry in own]) for own in own_entries]
    else:
        results = session.results.of_kernels(path, parsed.kernels)
    summaries = []
    for decl, own, (checks, resources) in zip(parsed.kernels, own_entries, results, strict=True):
        edited = frozenset(item.report.name for item in checks if item.request.text != document.text)
        name = _name(parsed, checks[0]) if checks else None
        unregistered = _unregistered(parsed, own) if session.has_file(path) else None
        summaries.append(KernelSummary(decl, checks, resources, edited, unregistered, own, name))
    return summaries


def _name(parsed: ParsedFile, result: KernelResult) -> str:
    identity = kernel_id(result.request.spec)
    return next((parsed.name_of(entry) for entry in parsed.entries if entry.id == identity), result.report.name)


def _unregistered(parsed: ParsedFile, entries: Sequence[KernelEntry]) -> str | None:
    if not entries or any(entry.registered or entry.language.only_launched for entry in entries):
        return None
    if parsed.project is None or parsed.project.broken:
        return None
    return parsed.name_of(entries[0])


def _constant(expression: Expression) -> int | None:
    try:
        return evaluate(expression, {})
    except ExpressionError:
        return None


def _summary(result: KernelResult) -> str:
    report = result.report
    text = _STATUS.get(report.status, report.status)
    if report.status == "unreferenced" and report.cases.assumed:
        text = "no reference"
    if report.cases.run:
        text += f", {cases_text(report)}"
    return text
