"""``--format text``: the findings of each kernel, a line for each kernel, and a summary.

Colours are ANSI escape sequences; the caller decides whether the output is a terminal.
"""

from __future__ import annotations

import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from gpuemu_lsp.engine.check.model import KernelReport
from gpuemu_lsp.engine.findings import Finding, Json, Place, Severity
from gpuemu_lsp.engine.report.counters import counters_text
from gpuemu_lsp.engine.report.model import Run, relative
from gpuemu_lsp.engine.report.source_lines import characters, line_text
from gpuemu_lsp.engine.report.terminal_text import frame
from gpuemu_lsp.engine.subjects.languages import remark_of
from gpuemu_lsp.engine.subjects.ops.client_verdicts import age_text

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
_REPLAY_COLOUR = {"still fails": _RED, "changed": _RED, "fixed": _GREEN}
_SEVERITIES = tuple(Severity)
_PER_KERNEL = 12
"""Largest number of findings shown for one kernel; the rest is counted."""
_RELATED = 4
_ELEMENT_ROWS = 6


@dataclass(frozen=True, slots=True)
class TextStyle:
    """Text options: colours, hints, line width in cells, characters beyond ASCII."""

    colour: bool = False
    hints: bool = False
    width: int = 120
    unicode: bool = True

    def paint(self, text: str, *codes: str) -> str:
        """Return ``text`` in ANSI codes if colours are enabled."""
        return "".join(codes) + text + _RESET if self.colour else text

    def verdict(self, verdict: str) -> str:
        """Return the verdict of a replayed case: red if it fails, green if it is fixed."""
        return self.paint(verdict, _REPLAY_COLOUR.get(verdict, _YELLOW), _BOLD)


def render_text(run: Run, style: TextStyle = TextStyle()) -> str:
    """Render the whole run."""
    # Where no kernel was found, a hint is all that says why.
    hints = style.hints or not run.kernels
    shown = [finding for finding in run.findings if hints or _shown_by_default(finding)]
    names = {kernel.name for kernel in run.kernels}
    groups = {name: [finding for finding in shown if finding.kernel == name] for name in names}
    blocks = [render_finding(finding, run.root, style) for finding in shown if finding.kernel not in names]
    first = {name: _first_failing(found) for name, found in groups.items() if name in run.stored}
    for name in dict.fromkeys(kernel.name for kernel in run.kernels):
        blocks += _kernel_blocks(groups[name], run.root, style)
        case = first.get(name)
        if case is not None:
            shared = list(first.values()).count(case) > 1
            blocks.append(f"  Reproduce: gpuemu reproduce {case}{f' -k {name}' if shared else ''}\n")
    width = max((len(kernel.name) for kernel in run.kernels), default=0)
    lines = [
        line
        for kernel in run.kernels
        for line in (render_verdict(kernel, width, style), *_reason(kernel, run, shown), *_counters(kernel))
    ]
    parts = blocks + (["\n".join(lines) + "\n"] if lines else []) + [_closing(run, style)]
    return "\n".join(parts)


def render_finding(finding: Finding, root: str, style: TextStyle) -> str:
    """Render one finding: location, message, source line with underline, case and related locations."""
    colour = _SEVERITY_COLOUR[finding.severity]
    where = _where(finding.place, root)
    head = f"{style.paint(where, _BOLD)}: {style.paint(finding.severity.value, colour, _BOLD)}[{finding.rule}]"
    lines = [head, *_message(finding.message, style), *_frame(finding.place, style, colour)]
    lines += (f"    {row}" for row in element_table(finding.data))
    values = values_text(finding.data)
    if values:
        lines.append(f"  values: {values}")
    context = _context(finding)
    if context:
        lines.append(style.paint(f"  {context}", _DIM))
    for item in finding.locations[:_RELATED]:
        lines.append(f"  {_where(item.place, root)}: {item.message}")
    if len(finding.locations) > _RELATED:
        lines.append(f"  ... and {len(finding.locations) - _RELATED} more locations")
    return "\n".join(lines) + "\n"


def render_verdict(kernel: KernelReport, width: int, style: TextStyle) -> str:
    """Render the line of a kernel: verdict, cases, registers, time."""
    sign, colour = _VERDICT[kernel.status]
    parts = [f"{sign} {kernel.name:<{width}}" if style.unicode else f"{kernel.name:<{width}}", f"{kernel.status:<12}"]
    if kernel.cases.run:
        parts.append(cases_text(kernel))
    if remark := remark_of(kernel.language):
        parts.append(remark)
    for arch, usage in kernel.resources.items():
        spills = usage.spill_stores + usage.spill_loads
        parts.append(f"{arch}: {usage.registers} registers" + (f", {spills} B spilled" if spills else ""))
    if "total" in kernel.timing_ms:
        parts.append(f"{kernel.timing_ms['total']:.0f} ms")
    if kernel.executor == "client":
        parts.append(f"by a client, {age_text(kernel.timing_ms['age'] / 1e3)}")
    return style.paint("  ".join(parts).rstrip(), colour)


def element_table(data: Mapping[str, Json]) -> list[str]:
    """Return the first wrong elements of a finding as the lines of a table; none for fewer than two elements.

    ``data["elements"]`` is a list of objects with ``index``, ``expected`` and ``actual``; ``data["count"]`` is the
    number of wrong elements.
    """
    elements = data.get("elements")
    if not isinstance(elements, list) or len(elements) < 2:
        return []
    rows = [("element", "expected", "actual")]
    for element in elements[:_ELEMENT_ROWS]:
        if isinstance(element, dict):
            rows.append(
                (
                    _element_index(element.get("index")),
                    _element_value(element.get("expected")),
                    _element_value(element.get("actual")),
                )
            )
    widths = [max(len(row[column]) for row in rows) for column in range(3)]
    lines = [f"{row[0]:<{widths[0]}}  {row[1]:>{widths[1]}}  {row[2]:>{widths[2]}}".rstrip() for row in rows]
    count = data.get("count")
    if isinstance(count, int) and count > len(rows) - 1:
        lines.append(f"... and {count - len(rows) + 1} more")
    return lines


def values_text(data: Mapping[str, Json]) -> str:
    """Return the values of the failing thread at the finding's line: ``x[17] = 0.5, y[17] = 3.2 (expected 4.1)``."""
    values = data.get("values")
    parts = []
    for one in values if isinstance(values, list) else []:
        if isinstance(one, dict):
            value = "undefined" if one.get("value") is None else _element_value(one["value"])
            expected = f" (expected {_element_value(one['expected'])})" if one.get("expected") is not None else ""
            parts.append(f"{one.get('name')} = {value}{expected}")
    return ", ".join(parts)


def _element_index(value: Json) -> str:
    return f"[{', '.join(map(str, value))}]" if isinstance(value, list) else "-"


def _element_value(value: Json) -> str:
    if isinstance(value, float):
        return f"{value:.7g}"
    return "-" if value is None else str(value)


def _shown_by_default(finding: Finding) -> bool:
    """Return whether a finding is shown without ``--hints``. Hints of counters exist only if counters are requested."""
    return finding.severity is not Severity.HINT or finding.rule.startswith("perf/")


def _reason(kernel: KernelReport, run: Run, shown: Sequence[Finding]) -> list[str]:
    """Return why a kernel did not run, on one line, unless a finding that is shown says so."""
    if kernel.status != "not-executed":
        return []
    reasons = [finding for finding in run.findings if _explains(finding, kernel)]
    if not reasons or any(finding in shown for finding in reasons):
        return []
    return [f"    {reasons[0].message.partition(chr(10))[0]}"]


def _explains(finding: Finding, kernel: KernelReport) -> bool:
    """Return whether a finding says why a kernel did not run; one about its whole file names no kernel."""
    if not finding.rule.startswith("engine/") and finding.rule != "config/ambiguous-signature":
        return False
    return finding.kernel == kernel.name or (finding.kernel is None and finding.place.path == kernel.source)


def _counters(kernel: KernelReport) -> list[str]:
    return [f"    {item.dtype}: {counters_text(item)}" for item in kernel.counters]


def _kernel_blocks(findings: Sequence[Finding], root: str, style: TextStyle) -> list[str]:
    """Return the findings of one kernel, errors first, at most ``_PER_KERNEL``."""
    ordered = sorted(findings, key=lambda finding: _SEVERITIES.index(finding.severity))
    blocks = [render_finding(finding, root, style) for finding in ordered[:_PER_KERNEL]]
    if len(ordered) > _PER_KERNEL:
        name = ordered[0].kernel
        blocks.append(f"  ... and {len(ordered) - _PER_KERNEL} more findings in {name}; --format json lists all.\n")
    return blocks


def _first_failing(findings: Sequence[Finding]) -> str | None:
    return next((item.case for item in findings if item.severity is Severity.ERROR and item.case), None)


def _where(place: Place, root: str) -> str:
    start = place.range.start
    return f"{relative(place.path, root)}:{start.line + 1}:{characters(place.path, start) + 1}"


def _message(message: str, style: TextStyle) -> list[str]:
    lines: list[str] = []
    for line in message.split("\n"):
        # Lines of TOML or code are not wrapped, so that they can be copied.
        wrapped = textwrap.wrap(line, style.width - 2, break_long_words=False) if " = " not in line else [line]
        lines += (f"  {part}" for part in wrapped or [""])
    return lines


def _frame(place: Place, style: TextStyle, colour: str) -> list[str]:
    """Return the source line and its underline."""
    start, end = place.range.start, place.range.end
    text = line_text(place.path, start.line)
    if not text.strip():
        return []
    last = characters(place.path, end) if end.line == start.line else len(text)
    number = str(start.line + 1)
    shown, carets = frame(text, characters(place.path, start), last, max(style.width - len(number) - 5, 20))
    return [f"  {number} | {shown}", f"  {' ' * len(number)} | {style.paint(carets, colour)}"]


def _context(finding: Finding) -> str:
    parts = [part for part in (finding.kernel, finding.dtype) if part]
    if not finding.states_sizes:
        parts += [f"{name} = {size}" for name, size in finding.dims.items()]
    if "cell" in finding.data:
        parts.append(f"cell {finding.data['cell']}, line {finding.data['cell_line']}")
    if finding.case:
        parts.append(f"case {finding.case}")
    return ", ".join(parts)


def _closing(run: Run, style: TextStyle) -> str:
    statuses = [kernel.status for kernel in run.kernels]
    counts = [(statuses.count("passed"), "passed"), (statuses.count("failed"), "failed")]
    counts += [
        (number, words)
        for number, words in (
            (statuses.count("error"), "could not be checked"),
            (statuses.count("unreferenced"), "without a reference (no numbers compared)"),
            (statuses.count("not-executed"), "not executed"),
        )
        if number
    ]
    ops = sum(kernel.op for kernel in run.kernels)
    numbers = ((len(statuses) - ops, "kernel"), (ops, "op"))
    subjects = [count(number, noun) for number, noun in numbers if number] or [count(0, "kernel")]
    kernels = f"{' and '.join(subjects)}: {', '.join(f'{number} {words}' for number, words in counts)}"
    findings = f"{count(run.summary.errors, 'error')}, {count(run.summary.warnings, 'warning')}"
    colour = _RED if run.exit_code else _GREEN
    return style.paint(f"{kernels}; {findings}", colour, _BOLD) + f" ({run.seconds:.1f} s)\n"


def cases_text(kernel: KernelReport) -> str:
    """Return the cases of a kernel: ``8 of 8 cases``, or ``3 of 8 cases fail`` for a failing kernel.

    ``5 of 8 cases clean (n a multiple of 4)`` if the others have findings that rest on assumed sizes.
    """
    cases = kernel.cases
    if kernel.status in ("passed", "unreferenced") and cases.assumed:
        where = f" ({kernel.clean_at})" if kernel.clean_at else ""
        return f"{cases.passed - cases.assumed} of {count(cases.run, 'case')} clean{where}"
    if kernel.status == "failed" and cases.passed < cases.run:
        return f"{cases.run - cases.passed} of {count(cases.run, 'case')} fail{'s' if cases.run == 1 else ''}"
    return f"{cases.passed} of {count(cases.run, 'case')}"


def count(number: int, noun: str) -> str:
    """Return a number with its noun: ``1 case``, ``2 cases``."""
    return f"{number} {noun}{'' if number == 1 else 's'}"
