"""``--format text``: what a person reads. One block per finding with its code frame, then a line per kernel.

Colours are ANSI and only there when asked for; the caller knows whether a terminal reads this.
"""

from __future__ import annotations

from dataclasses import dataclass

from gpuemu_lsp.engine.check.model import KernelReport
from gpuemu_lsp.engine.findings import Finding, Place, Severity
from gpuemu_lsp.engine.report.lines import characters, line_text
from gpuemu_lsp.engine.report.model import Run, relative

_RED, _YELLOW, _BLUE, _GREEN, _BOLD, _DIM, _RESET = (f"\x1b[{code}m" for code in (31, 33, 34, 32, 1, 2, 0))
_SEVERITY_COLOUR = {
    Severity.ERROR: _RED,
    Severity.WARNING: _YELLOW,
    Severity.INFORMATION: _BLUE,
    Severity.HINT: _DIM,
}
_VERDICT = {
    "passed": ("✓", _GREEN),
    "failed": ("✗", _RED),
    "error": ("✗", _RED),
    "unreferenced": ("•", _BLUE),
    "not-executed": ("?", _YELLOW),
}


@dataclass(frozen=True, slots=True)
class Style:
    """How to show it: with colours or not, hints or not."""

    colour: bool = False
    hints: bool = False

    def paint(self, text: str, *codes: str) -> str:
        """Wrap ``text`` in ANSI codes, if colours are on."""
        return "".join(codes) + text + _RESET if self.colour else text


def render_text(run: Run, style: Style = Style()) -> str:
    """Render the whole run."""
    blocks = [
        render_finding(finding, run.root, style)
        for finding in run.findings
        if style.hints or finding.severity is not Severity.HINT
    ]
    width = max((len(kernel.name) for kernel in run.kernels), default=0)
    lines = [render_verdict(kernel, width, style) for kernel in run.kernels]
    parts = blocks + (["\n".join(lines) + "\n"] if lines else []) + [_closing(run, style)]
    return "\n".join(parts)


def render_finding(finding: Finding, root: str, style: Style) -> str:
    """Render one finding: where, what, the line underlined, with which input, and related places."""
    colour = _SEVERITY_COLOUR[finding.severity]
    place = finding.place
    start = place.range.start
    where = f"{relative(place.path, root)}:{start.line + 1}:{characters(place.path, start) + 1}"
    head = f"{style.paint(where, _BOLD)}: {style.paint(finding.severity.value, colour, _BOLD)}[{finding.rule}]"
    lines = [head, *(f"  {line}" for line in finding.message.split("\n"))]
    lines += _frame(place, style, colour)
    context = _context(finding)
    if context:
        lines.append(style.paint(f"  {context}", _DIM))
    for item in finding.related:
        there = item.place.range.start
        lines.append(f"  {relative(item.place.path, root)}:{there.line + 1}: {item.message}")
    return "\n".join(lines) + "\n"


def render_verdict(kernel: KernelReport, width: int, style: Style) -> str:
    """Render one line per kernel: verdict, cases, registers, time."""
    sign, colour = _VERDICT[kernel.status]
    parts = [f"{sign} {kernel.name:<{width}}  {kernel.status:<12}"]
    if kernel.cases.run:
        parts.append(f"{kernel.cases.passed}/{kernel.cases.run} cases")
    for arch, usage in kernel.resources.items():
        spills = usage.spill_stores + usage.spill_loads
        parts.append(f"{arch}: {usage.registers} registers" + (f", {spills} B spilled" if spills else ""))
    if "total" in kernel.timing_ms:
        parts.append(f"{kernel.timing_ms['total']:.0f} ms")
    return style.paint("  ".join(parts).rstrip(), colour)


def _frame(place: Place, style: Style, colour: str) -> list[str]:
    """Return the line and its underline; tabs become spaces so that the underline stays under its text."""
    start, end = place.range.start, place.range.end
    text = line_text(place.path, start.line)
    if not text.strip():
        return []
    first = characters(place.path, start)
    last = characters(place.path, end) if end.line == start.line else len(text)
    indent = len(text) - len(text.lstrip())
    if first >= indent:
        text, first, last = text[indent:], first - indent, last - indent
    number = str(start.line + 1)
    shown = text.replace("\t", " ").rstrip()
    underline = " " * first + "^" * max(1, min(last, len(shown)) - first)
    gutter = " " * len(number)
    return [f"  {number} | {shown}", f"  {gutter} | {style.paint(underline, colour)}"]


def _context(finding: Finding) -> str:
    parts = []
    if finding.kernel:
        parts.append(finding.kernel)
    if finding.dtype:
        parts.append(finding.dtype)
    parts += [f"{name} = {size}" for name, size in finding.dims.items()]
    if finding.case:
        parts.append(f"case {finding.case}")
    return ", ".join(parts)


def _closing(run: Run, style: Style) -> str:
    summary = run.summary
    parts = [f"{summary.checked} checked", f"{summary.passed} passed", f"{summary.failed} failed"]
    unreferenced = sum(kernel.status == "unreferenced" for kernel in run.kernels)
    if unreferenced:
        parts.append(f"{unreferenced} without a reference")
    if summary.not_executed:
        parts.append(f"{summary.not_executed} not executed")
    parts.append(f"{summary.errors} errors, {summary.warnings} warnings")
    colour = _RED if run.exit_code else _GREEN
    return style.paint(", ".join(parts), colour, _BOLD) + f" ({run.seconds:.1f} s)\n"
