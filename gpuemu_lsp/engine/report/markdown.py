"""``--format markdown``: a comment on a pull request, or the summary of a CI job."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from gpuemu_lsp.engine.findings import Finding, Severity
from gpuemu_lsp.engine.report.comparison import closing, comparison_rows
from gpuemu_lsp.engine.report.model import Run, relative

MARK = "<!-- gpuemu -->"
"""The first line, by which a bot recognises the comment that it may replace."""

_ROWS = 50
"""Largest number of rows of a table: GitHub limits a comment to 65,536 characters."""
_SPECIAL = re.compile(r"([\\`*_{}\[\]<>#|~])")
SIGNS = {"passed": "✅", "failed": "❌", "error": "❌", "unreferenced": "◻️", "not-executed": "⚠️"}


def render_markdown(run: Run) -> str:
    """Render the verdict, the findings, the comparison with the baseline, and every kernel in a collapsed section."""
    findings = [item for item in run.findings if item.severity in (Severity.ERROR, Severity.WARNING)]
    lines = [MARK, f"## gpuemu: {verdict(run)}", ""]
    if findings:
        lines += table(("Location", "Kernel", "Finding", "Reproduce"), [_finding(item, run) for item in findings])
    comparison = run.context.comparison
    if comparison is not None:
        lines += [f"### {escape(closing(comparison))}", ""]
        rows = [[escape(cell) for cell in row] for row in comparison_rows(comparison)]
        if rows:
            lines += table(("Kernel", "Figure", "Before", "Now", "Verdict"), rows)
    if run.kernels:
        lines += ["<details><summary>Every kernel</summary>", "", *_kernels(run), "</details>", ""]
    lines.append(f"<sub>{escape(' · '.join(_footer(run)))}</sub>")
    return "\n".join(lines) + "\n"


def verdict(run: Run) -> str:
    """Return the outcome in a few words."""
    summary = run.summary
    parts = [f"{summary.failed} failed"] if summary.failed else []
    if summary.not_executed:
        parts.append(f"{summary.not_executed} not executed")
    if summary.errors and not summary.failed:
        parts.append(f"{summary.errors} error{'' if summary.errors == 1 else 's'}")
    parts.append(f"{summary.passed} passed")
    if not run.kernels:
        return "nothing was checked"
    unreferenced = sum(kernel.status == "unreferenced" for kernel in run.kernels)
    return ", ".join(parts + ([f"{unreferenced} without a reference (no numbers compared)"] if unreferenced else []))


def escape(text: str) -> str:
    """Escape text for Markdown, on one line, also inside a table."""
    return _SPECIAL.sub(r"\\\1", " ".join(text.split()))


def _finding(finding: Finding, run: Run) -> Sequence[str]:
    place = finding.place
    where = f"{relative(place.path, run.root)}:{place.range.start.line + 1}"
    what = f"{finding.severity.value} **{escape(finding.rule)}**<br>{escape(finding.message.partition(chr(10))[0])}"
    what += "".join(f"<br>{escape(consequence)}" for consequence in finding.consequence_messages)
    kept = finding.case and finding.kernel in run.stored
    return (
        code_span(where),
        escape(finding.kernel or ""),
        what,
        code_span(f"gpuemu reproduce {finding.case}") if kept else "",
    )


def _kernels(run: Run) -> Iterator[str]:
    rows = []
    for kernel in run.kernels:
        resources = [f"{arch}: {usage.registers}" for arch, usage in kernel.resources.items()]
        errors = [f"{item.dtype}: {item.relative:.2g}" for item in kernel.measured if item.errors]
        rows.append(
            (
                escape(kernel.name),
                f"{SIGNS[kernel.status]} {kernel.status}",
                f"{kernel.cases.passed}/{kernel.cases.run}",
                escape(", ".join(errors)),
                escape(", ".join(resources)),
            )
        )
    yield from table(("Kernel", "Verdict", "Cases passed", "Relative error", "Registers"), rows)


def _footer(run: Run) -> Iterator[str]:
    if run.toolchain:
        yield run.toolchain
    if run.context.commit:
        yield f"commit {run.context.commit[:12]}" + (" with uncommitted changes" if run.context.dirty else "")
    yield f"{run.seconds:.1f} s"


def table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    """Return the lines of a table, of at most 50 rows; cells are Markdown."""
    lines = [f"| {' | '.join(heads)} |", f"|{'---|' * len(heads)}"]
    lines += (f"| {' | '.join(row)} |" for row in rows[:_ROWS])
    if len(rows) > _ROWS:
        lines += ["", f"... and {len(rows) - _ROWS} more."]
    return [*lines, ""]


def code_span(text: str) -> str:
    """Return a code span; ``text`` may contain bars and backticks."""
    fence = "``" if "`" in text else "`"
    padding = " " if "`" in text else ""
    return f"{fence}{padding}{text.replace('|', chr(92) + '|')}{padding}{fence}"
