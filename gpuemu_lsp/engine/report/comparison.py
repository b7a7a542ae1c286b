"""A comparison with a baseline as text, as Markdown and as JSON."""

from __future__ import annotations

from collections.abc import Iterator

from gpuemu_lsp.engine.baseline.findings import changed_lines, shown
from gpuemu_lsp.engine.baseline.model import CHANGE, IMPROVEMENT, REGRESSION, SAME, Comparison, Delta, KernelChange
from gpuemu_lsp.engine.findings import Json
from gpuemu_lsp.engine.ptx.diff import CodeLine, Hunk
from gpuemu_lsp.engine.report.model import relative
from gpuemu_lsp.engine.report.source_lines import line_text
from gpuemu_lsp.engine.report.text import TextStyle

_RED, _GREEN, _DIM, _BOLD = "\x1b[31m", "\x1b[32m", "\x1b[2m", "\x1b[1m"
_COLOURS = {REGRESSION: _RED, IMPROVEMENT: _GREEN, "vanished": _RED, "appeared": _GREEN}
_HUNKS, _LINES = 8, 12
"""Largest number of hunks shown for a kernel, and of lines for each side of a hunk; the rest is counted."""


def render_comparison(comparison: Comparison, root: str, style: TextStyle) -> str:
    """Render the changed kernels, and the number of unchanged ones."""
    blocks = ["\n".join(_kernel(change, root, style)) + "\n" for change in comparison.changes if change.verdict != SAME]
    upgrades = dict.fromkeys(change.upgrade for change in comparison.changes if change.upgrade)
    blocks += [style.paint(f"{upgrade}: {_counts(comparison, upgrade)}", _BOLD) + "\n" for upgrade in upgrades]
    return "\n".join([*blocks, style.paint(closing(comparison), _BOLD) + "\n"])


def closing(comparison: Comparison) -> str:
    """Return the number of kernels of each verdict in a sentence."""
    return f"Against the baseline '{comparison.tag}': {_counts(comparison) or 'nothing was compared'}."


def _counts(comparison: Comparison, upgrade: str | None = None) -> str:
    """Return the number of kernels of each verdict, of those of one upgrade of a library if it is given."""
    words = {
        REGRESSION: "regressed",
        IMPROVEMENT: "improved",
        CHANGE: "changed otherwise",
        "appeared": "appeared",
        "vanished": "vanished",
        SAME: "unchanged",
    }
    verdicts = [change.verdict for change in comparison.changes if upgrade in (None, change.upgrade)]
    return ", ".join(f"{verdicts.count(verdict)} {word}" for verdict, word in words.items() if verdict in verdicts)


def comparison_record(comparison: Comparison, root: str) -> dict[str, Json]:
    """Return the comparison as JSON."""
    return {
        "baseline": comparison.tag,
        "regressions": len(comparison.having(REGRESSION)),
        "kernels": [_record(change, root) for change in comparison.changes],
    }


def comparison_rows(comparison: Comparison) -> Iterator[tuple[str, str, str, str, str]]:
    """Yield kernel, figure, before, after and verdict of every difference, for tables."""
    for change in comparison.changes:
        name = _name(change)
        if change.presence != "both":
            before, after = ("-", "present") if change.presence == "appeared" else ("present", "-")
            yield name, "kernel", before, after, change.presence
        for delta in change.deltas:
            if delta.verdict != SAME:
                yield name, delta.name, shown(delta.before), shown(delta.after), delta.verdict


def difference(delta: Delta) -> str:
    """Return the signed difference of a figure, such as ``+4`` or ``-2e-07``; empty for words."""
    if isinstance(delta.before, str) or isinstance(delta.after, str):
        return ""
    moved = delta.after - delta.before
    return f"{moved:+d}" if isinstance(moved, int) else f"{moved:+.3g}"


def _kernel(change: KernelChange, root: str, style: TextStyle) -> Iterator[str]:
    colour = _COLOURS.get(change.verdict, "")
    yield f"{style.paint(_name(change), _BOLD)}: {style.paint(change.verdict, colour) if colour else change.verdict}"
    if change.presence != "both":
        return
    width = max((len(delta.name) for delta in change.deltas), default=0)
    for delta in change.deltas:
        if delta.verdict == SAME and delta.name not in ("max_rel_diff", "registers", "spills", "local_memory"):
            continue
        figures = f"{shown(delta.before)} -> {shown(delta.after)}"
        moved = difference(delta) if delta.verdict != SAME else ""
        verdict = "" if delta.verdict == CHANGE else delta.verdict
        tail = f"  {moved}" * bool(moved) + f"  ({verdict})" * bool(verdict)
        yield style.paint(f"  {delta.name:<{width}}  {figures}{tail}", _COLOURS.get(delta.verdict, ""))
    for note in change.notes:
        yield f"  note: {note}"
    for path, line in changed_lines(change)[:_HUNKS]:
        yield f"  {relative(path, root)}:{line + 1}: {line_text(path, line).strip()}"
    yield from (f"  {line}" for hunk in change.code[:_HUNKS] for line in _hunk(hunk, style))
    if len(change.code) > _HUNKS:
        yield f"  ... and {len(change.code) - _HUNKS} more hunks of PTX; --format json lists all"


def _hunk(hunk: Hunk, style: TextStyle) -> Iterator[str]:
    yield style.paint(f"@@ {hunk.function} @@", _DIM)
    for sign, lines, colour in (("-", hunk.before, _RED), ("+", hunk.after, _GREEN)):
        yield from (style.paint(f"{sign} {line.text}", colour) for line in lines[:_LINES])
        if len(lines) > _LINES:
            yield style.paint(f"{sign} ... {len(lines) - _LINES} more", colour)


def _record(change: KernelChange, root: str) -> dict[str, Json]:
    return {
        "kernel": change.kernel,
        "dtype": change.dtype,
        "arch": change.arch,
        **({"upgrade": change.upgrade} if change.upgrade else {}),
        "verdict": change.verdict,
        "numbers": [_delta(delta) for delta in change.numbers],
        "resources": [_delta(delta) for delta in change.resources],
        "changed_lines": [{"path": relative(path, root), "line": line} for path, line in changed_lines(change)],
        "code": [
            {
                "function": hunk.function,
                "before": [_code(line, root) for line in hunk.before],
                "after": [_code(line, root) for line in hunk.after],
            }
            for hunk in change.code
        ],
        "notes": list(change.notes),
    }


def _delta(delta: Delta) -> Json:
    return {"name": delta.name, "before": delta.before, "after": delta.after, "verdict": delta.verdict}


def _code(line: CodeLine, root: str) -> Json:
    places: list[Json] = [{"path": relative(path, root), "line": number} for path, number in line.places]
    return {"text": line.text, "places": places}


def _name(change: KernelChange) -> str:
    return f"{change.kernel} ({', '.join(part for part in (change.dtype, change.arch) if part)})"
