"""``--format html``: one self-contained page without scripts or external resources; all text is escaped."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime
from functools import cache
from html import escape
from importlib.resources import files
from pathlib import PurePosixPath

from gpuemu_lsp import __version__
from gpuemu_lsp.engine.check.model import KernelReport
from gpuemu_lsp.engine.findings import Finding, Json, Severity
from gpuemu_lsp.engine.report.charts import heat_map, histogram, timeline
from gpuemu_lsp.engine.report.comparison import closing, comparison_rows
from gpuemu_lsp.engine.report.markdown import verdict
from gpuemu_lsp.engine.report.model import Run, relative
from gpuemu_lsp.engine.report.source_lines import characters, line_text

_TONES = {
    "passed": "good",
    "failed": "bad",
    "error": "bad",
    "unreferenced": "soft",
    "not-executed": "warn",
    "regression": "bad",
    "vanished": "bad",
    "improvement": "good",
    "appeared": "good",
}
_ELEMENTS = 8
_CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\ufdd0-\ufdef\ufffe\uffff]")
"""Characters that HTML cannot contain, not even escaped (HTML standard, 13.2.3.5)."""


def render_html(run: Run) -> str:
    """Render the page."""
    title = f"{run.context.project or PurePosixPath(run.root).name}: {verdict(run)}"
    sections = [_head(run), _kernels(run), _comparison(run), _findings(run), _histograms(run), _timelines(run)]
    body = "\n".join(section for section in sections if section)
    page = f"""<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{escape(title)}</title>
<style>
{_stylesheet()}</style>
</head>
<body>
{body}
<footer>gpuemu-lsp {escape(__version__)}{_toolchain(run)}.
Relative error: the largest error over the largest magnitude of the output, in the worst case.</footer>
</body>
</html>
"""
    return _CONTROL.sub("\N{REPLACEMENT CHARACTER}", page)


@cache
def _stylesheet() -> str:
    return files("gpuemu_lsp.engine.report").joinpath("page.css").read_text("utf-8")


def _toolchain(run: Run) -> str:
    return f" with {escape(run.toolchain)}" if run.toolchain else ""


def _head(run: Run) -> str:
    tone = "good" if run.exit_code == 0 else "bad" if run.summary.failed or run.summary.errors else "warn"
    context = run.context
    details = [f"{run.seconds:.1f} s"]
    if context.created:
        details.insert(0, datetime.fromtimestamp(context.created, UTC).strftime("%Y-%m-%d %H:%M UTC"))
    if context.commit:
        details.append(f"commit {context.commit[:12]}" + (" with uncommitted changes" if context.dirty else ""))
    return (
        f"<header><h1>{escape(context.project or PurePosixPath(run.root).name)}</h1>\n"
        f'<div class="verdict {tone}">{escape(verdict(run))}</div>\n'
        f'<div class="soft">{escape(" · ".join(details))}</div></header>'
    )


def _kernels(run: Run) -> str:
    if not run.kernels:
        return "<p>No kernel was checked.</p>"
    heads = (
        "Kernel",
        "Verdict",
        "Cases passed#",
        "Error#",
        "Arch",
        "Registers#",
        "Spills#",
        "Stack#",
        "Shared#",
        "Time#",
    )
    return f"<h2>Kernels</h2>\n{_table(heads, [_kernel(kernel) for kernel in run.kernels])}"


def _kernel(kernel: KernelReport) -> list[str]:
    errors = [f"{item.dtype} {item.relative:.2g}" for item in kernel.measured if item.errors]
    usages = list(kernel.resources.values())
    columns = [
        [str(usage.registers) for usage in usages],
        [f"{usage.spill_stores + usage.spill_loads} B" for usage in usages],
        [f"{usage.stack_bytes} B" for usage in usages],
        [f"{usage.static_shared_bytes} B" for usage in usages],
    ]
    total = kernel.timing_ms.get("total")
    return [
        f"<code>{escape(kernel.name)}</code>",
        _toned(kernel.status),
        f"{kernel.cases.passed}/{kernel.cases.run}",
        _stacked(errors),
        _stacked(kernel.resources),
        *map(_stacked, columns),
        "" if total is None else f"{total:.0f} ms",
    ]


def _comparison(run: Run) -> str:
    comparison = run.context.comparison
    if comparison is None:
        return ""
    rows = [
        [f"<code>{escape(kernel)}</code>", escape(figure), escape(before), escape(after), _toned(outcome)]
        for kernel, figure, before, after, outcome in comparison_rows(comparison)
    ]
    table = _table(("Kernel", "Figure", "Before#", "Now#", "Verdict"), rows) if rows else ""
    return f"<h2>Baseline</h2>\n<p>{escape(closing(comparison))}</p>\n{table}"


def _findings(run: Run) -> str:
    shown = [item for item in run.findings if item.severity is not Severity.HINT]
    if not shown:
        return ""
    return "<h2>Findings</h2>\n" + "\n".join(_finding(item, run) for item in shown)


def _finding(finding: Finding, run: Run) -> str:
    where = f"{relative(finding.place.path, run.root)}:{finding.place.range.start.line + 1}"
    context = [part for part in (finding.kernel, finding.dtype, finding.arch) if part]
    context += [f"{name} = {size}" for name, size in finding.dims.items()]
    if finding.case and finding.kernel in run.stored:
        context.append(f"gpuemu reproduce {finding.case}")
    extras = _elements(finding) + _where(finding)
    return (
        f'<article class="{finding.severity.value}"><h3><code>{escape(where)}</code> '
        f'<span class="soft">{escape(finding.rule)}</span></h3>\n'
        f'<p class="message">{escape(finding.message)}</p>{_source(finding)}{_consequences(finding, run)}'
        + (f'<div class="side">{extras}</div>' if extras else "")
        + f'<div class="soft">{escape(" · ".join(context))}</div></article>'
    )


def _consequences(finding: Finding, run: Run) -> str:
    items = []
    for consequence, text in zip(finding.consequences, finding.consequence_messages, strict=True):
        where = f"{relative(consequence.place.path, run.root)}:{consequence.place.range.start.line + 1}"
        items.append(f"<li><code>{escape(where)}</code> {escape(text)}</li>")
    return f"<ul>{''.join(items)}</ul>" if items else ""


def _source(finding: Finding) -> str:
    """Return the source line with the finding's range marked."""
    path, start, end = finding.place.path, finding.place.range.start, finding.place.range.end
    text = line_text(path, start.line)
    if not text.strip():
        return ""
    first = min(characters(path, start), len(text))
    last = min(characters(path, end), len(text)) if end.line == start.line else len(text)
    before, part, after = text[:first].lstrip() if first else "", text[first:last], text[last:]
    return f"<pre>{escape(before)}<mark>{escape(part)}</mark>{escape(after.rstrip())}</pre>"


def _elements(finding: Finding) -> str:
    elements = finding.data.get("elements")
    if not isinstance(elements, list):
        return ""
    rows = [
        [escape(_index(item.get("index"))), _figure(item.get("expected")), _figure(item.get("actual"))]
        for item in elements[:_ELEMENTS]
        if isinstance(item, dict)
    ]
    return _table(("Element", "Expected#", "Actual#"), rows) if rows else ""


def _where(finding: Finding) -> str:
    rows = finding.data.get("where")
    if not isinstance(rows, list) or not all(isinstance(row, str) for row in rows):
        return ""
    label = f"Where {finding.data.get('output') or 'the output'} is wrong"
    picture = heat_map([str(row) for row in rows], label)
    return f"<figure><figcaption>{escape(label)}</figcaption>{picture}</figure>"


def _histograms(run: Run) -> str:
    figures = [
        _figure_of(f"{kernel.name} ({item.dtype}), {len(item.errors)} cases", histogram(item.errors, "errors per case"))
        for kernel in run.kernels
        for item in kernel.measured
        if item.errors
    ]
    return f'<h2>Errors</h2>\n<div class="charts">{"".join(figures)}</div>' if figures else ""


def _timelines(run: Run) -> str:
    """Draw the histories with changes; the others are counted."""
    histories = sorted(run.context.history.items())
    changed = [(names, past) for names, past in histories if len({item.registers for item in past} - {None}) > 1]
    figures = [
        _figure_of(f"{kernel} ({dtype})", timeline(past, "registers over time")) for (kernel, dtype), past in changed
    ]
    still = len(histories) - len(changed)
    unchanged = f'<p class="soft">{still} unchanged in the recorded checks.</p>' if still else ""
    charts = f'<div class="charts">{"".join(figures)}</div>' if figures else ""
    return f"<h2>Registers over time</h2>\n{charts}{unchanged}" if histories else ""


def _figure_of(caption: str, picture: str) -> str:
    return f"<figure><figcaption>{escape(caption)}</figcaption>{picture}</figure>"


def _table(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a table; cells are HTML, and a head that ends in # marks a column of numbers."""
    styles = [' class="number"' if head.endswith("#") else "" for head in heads]
    first = "".join(f"<th{style}>{head.rstrip('#')}</th>" for style, head in zip(styles, heads, strict=True))
    body = "\n".join(
        "<tr>" + "".join(f"<td{style}>{cell}</td>" for style, cell in zip(styles, row, strict=True)) + "</tr>"
        for row in rows
    )
    return f'<div class="scroll"><table><thead><tr>{first}</tr></thead>\n<tbody>{body}</tbody></table></div>'


def _stacked(texts: Iterable[str]) -> str:
    return "<br>".join(_escaped(texts))


def _escaped(texts: Iterable[str]) -> Iterator[str]:
    return (escape(text) for text in texts)


def _toned(word: str) -> str:
    return f'<span class="{_TONES.get(word, "soft")}">{escape(word)}</span>'


def _index(value: Json) -> str:
    return f"[{', '.join(map(str, value))}]" if isinstance(value, list) else "-"


def _figure(value: Json) -> str:
    return f"{value:.7g}" if isinstance(value, float) else escape("-" if value is None else str(value))
