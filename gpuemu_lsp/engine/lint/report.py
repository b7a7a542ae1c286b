"""Artifact report of an inspection, as lines of text."""

from __future__ import annotations

from collections.abc import Iterator

from gpuemu_lsp.engine.compile.model import Artifact
from gpuemu_lsp.engine.lint.inspection import Inspection, LimitCheck, PatternCheck
from gpuemu_lsp.engine.lint.measure import inspect
from gpuemu_lsp.engine.project.model import KernelSpec
from gpuemu_lsp.engine.source.model import SourceFile


def report_lines(artifact: Artifact, entry: str, spec: KernelSpec, source: SourceFile) -> tuple[str, ...]:
    """Return the lines of a kernel's artifact report: values with their limits, patterns, and the result."""
    return tuple(_lines(inspect(artifact, entry, spec, source)))


def _lines(inspection: Inspection) -> Iterator[str]:
    shown = inspection.kernel if inspection.name == inspection.kernel else f"{inspection.kernel} ({inspection.name})"
    yield f"Kernel: {shown}"
    yield from map(_limit, inspection.limits)
    yield from map(_pattern, inspection.patterns)
    yield from (f"Not checked: {reason}" for reason in inspection.unchecked)
    yield f"Result: {_result(inspection)}"


def _limit(check: LimitCheck) -> str:
    if check.limit is None:
        return f"{check.title}: {check.value} (no limit)"
    return f"{check.title}: {check.value} / {check.limit} (max) {'OK' if check.ok else 'EXCEEDED'}"


def _pattern(check: PatternCheck) -> str:
    title = f"{'Required' if check.required else 'Forbidden'}: {check.pattern}"
    if not check.decided:
        return f"{title} NOT CHECKED (not a PTX instruction)"
    if check.required:
        where = f" (in {', '.join(check.elsewhere)})" if check.elsewhere and not check.matches else ""
        return f"{title} {'FOUND' if check.ok else 'NOT FOUND'}{where}"
    if not check.matches:
        return f"{title} NOT FOUND (good)"
    lines = sorted({match.place.range.start.line + 1 for match in check.matches if match.place is not None})
    where = f" (line {', '.join(map(str, lines))})" if lines else ""
    return f"{title} FOUND{where}"


def _result(inspection: Inspection) -> str:
    if not inspection.configured:
        return "NO CHECKS CONFIGURED"
    undecided = bool(inspection.unchecked) or any(not pattern.decided for pattern in inspection.patterns)
    failed = any(not limit.ok for limit in inspection.limits) or any(
        pattern.decided and not pattern.ok for pattern in inspection.patterns
    )
    return "FAIL" if failed else "INCOMPLETE" if undecided else "PASS"
