"""Charts: error histogram, map of wrong elements and registers over time.

The HTML report has them as inline SVG; the map of wrong elements is also available as text and as a PNG.
"""

from __future__ import annotations

import math
import struct
import zlib
from collections.abc import Sequence
from datetime import UTC, datetime
from html import escape

from gpuemu_lsp.engine.findings import Finding
from gpuemu_lsp.engine.report.model import HistoryEntry

_WIDTH, _HEIGHT = 320, 120
_LEFT, _RIGHT, _TOP, _BOTTOM = 30, 18, 8, 22
_DECADES = range(-17, 2)
_SHADES = {".": 0.3, "+": 0.65, "#": 1.0}
_CELL = 9
_PIXELS = 12
_MAP_COLOURS = {"#": b"\xc0\x39\x2b", "+": b"\xe6\x7e\x22", ".": b"\xf5\xc5\x90", " ": b"\xe4\xe8\xec"}


def histogram(errors: Sequence[float], label: str) -> str:
    """Return the histogram of the cases' errors, four bins per decade; exact cases are a separate bar at the left."""
    exact = sum(error == 0 for error in errors)
    logs = [math.log10(error) for error in errors if error > 0 and math.isfinite(error)]
    low = math.floor(min(logs, default=-8))
    high = max(math.floor(max(logs, default=-6)) + 1, low + 1)
    low, high = max(low, _DECADES[0]), min(high, _DECADES[-1])
    bins = (high - low) * 4
    counts = [0] * bins
    for value in logs:
        counts[min(max(int((value - low) * 4), 0), bins - 1)] += 1
    most = max([exact, *counts, 1])
    step = (_WIDTH - _LEFT - _RIGHT) / (bins + 2)
    parts = [_bar(_LEFT, step * 1.2, exact, most, "exact", f"{exact} exact")] if exact else []
    for index, count in enumerate(counts):
        if count:
            left = _LEFT + (index + 2) * step
            cases = f"{count} case{'' if count == 1 else 's'}"
            tooltip = f"{cases} from {10 ** (low + index / 4):.1e} to {10 ** (low + (index + 1) / 4):.1e}"
            parts.append(_bar(left, step - 1, count, most, "bar", tooltip))
    every = max(1, math.ceil((high - low) / 6))
    for decade in range(low, high + 1, every):
        parts.append(_text(_LEFT + ((decade - low) * 4 + 2) * step, _HEIGHT - 6, f"1e{decade}", "middle"))
    if exact:
        parts.append(_text(_LEFT + step * 0.6, _HEIGHT - 6, "0", "middle"))
    parts.append(_text(_LEFT - 4, _TOP + 8, str(most), "end"))
    parts.append(_line(_LEFT, _HEIGHT - _BOTTOM, _WIDTH - _RIGHT, _HEIGHT - _BOTTOM))
    return _svg(_WIDTH, _HEIGHT, label, parts)


def heat_map(rows: Sequence[str], label: str) -> str:
    """Return the map of the wrong elements of an output.

    ``rows`` has a character for each part of the output: blank for no wrong element, ``.`` some, ``+`` half, ``#`` all.
    """
    columns = max(map(len, rows), default=0)
    parts = []
    for y, row in enumerate(rows):
        for x, sign in enumerate(row.ljust(columns)):
            shade = _SHADES.get(sign)
            style = "cell" if shade is None else "wrong"
            opacity = "" if shade is None else f' fill-opacity="{shade}"'
            position = f'x="{x * _CELL}" y="{y * _CELL}" width="{_CELL - 1}" height="{_CELL - 1}"'
            parts.append(f'<rect class="{style}" {position}{opacity}/>')
    return _svg(columns * _CELL, len(rows) * _CELL, label, parts)


def timeline(history: Sequence[HistoryEntry], label: str) -> str:
    """Return registers over time, a point for each check, coloured by its verdict; empty for fewer than two checks."""
    measured = [(item, item.registers) for item in history if item.registers is not None]
    if len(measured) < 2:
        return ""
    figures = [figure for _, figure in measured]
    low, high = min(figures), max(figures)
    low, high = (low, high) if high > low else (low - 1, high + 1)
    across = (_WIDTH - _LEFT - _RIGHT) / (len(measured) - 1)
    down = (_HEIGHT - _TOP - _BOTTOM) / (high - low)

    def place(index: int, figure: int) -> tuple[float, float]:
        return _LEFT + index * across, _HEIGHT - _BOTTOM - (figure - low) * down

    points = [place(index, figure) for index, figure in enumerate(figures)]
    path = "M" + " L".join(f"{x:.1f},{y:.1f}" for x, y in points)
    parts = [_line(_LEFT, _HEIGHT - _BOTTOM, _WIDTH - _RIGHT, _HEIGHT - _BOTTOM), f'<path class="line" d="{path}"/>']
    for (item, figure), (x, y) in zip(measured, points, strict=True):
        style = "good" if item.status in ("passed", "unreferenced") else "bad"
        tooltip = f"{_day(item.time)}: {figure} registers, {item.spills or 0} B spilled, {item.status}"
        parts.append(
            f'<circle class="{style}" cx="{x:.1f}" cy="{y:.1f}" r="3"><title>{escape(tooltip)}</title></circle>'
        )
    for figure in sorted({min(figures), max(figures)}):
        parts.append(_text(_LEFT - 4, place(0, figure)[1] + 4, str(figure), "end"))
    parts.append(_text(_LEFT, _HEIGHT - 6, _day(measured[0][0].time), "start"))
    parts.append(_text(_WIDTH - _RIGHT, _HEIGHT - 6, _day(measured[-1][0].time), "end"))
    return _svg(_WIDTH, _HEIGHT, label, parts)


def error_map_text(finding: Finding) -> str:
    """Render the map of a numeric finding; empty for an output of one element."""
    rows = _map_rows(finding)
    if len("".join(rows)) < 2:
        return ""
    head = f"wrong elements of {finding.data.get('output')} (# all, + half, . some):"
    return "".join(f"    {line}\n" for line in (head, *(f"|{row}|" for row in rows)))


def error_map_png(finding: Finding) -> bytes | None:
    """Return the map as a PNG (W3C PNG specification, third edition), or None if the finding has none."""
    rows = _map_rows(finding)
    if not rows:
        return None
    lines = [b"".join(_MAP_COLOURS[sign] * _PIXELS for sign in row) for row in rows]
    pixels = b"".join((b"\0" + line) * _PIXELS for line in lines)
    header = struct.pack(">IIBBBBB", len(rows[0]) * _PIXELS, len(rows) * _PIXELS, 8, 2, 0, 0, 0)
    chunks = ((b"IHDR", header), (b"IDAT", zlib.compress(pixels, 9)), (b"IEND", b""))
    return b"\x89PNG\r\n\x1a\n" + b"".join(_chunk(kind, data) for kind, data in chunks)


def _bar(left: float, width: float, count: int, most: int, style: str, tooltip: str) -> str:
    height = max(count / most * (_HEIGHT - _TOP - _BOTTOM), 1.5)
    top = _HEIGHT - _BOTTOM - height
    box = f'x="{left:.1f}" y="{top:.1f}" width="{max(width, 1):.1f}" height="{height:.1f}"'
    return f'<rect class="{style}" {box}><title>{escape(tooltip)}</title></rect>'


def _line(left: float, top: float, right: float, bottom: float) -> str:
    return f'<line class="axis" x1="{left:.1f}" y1="{top:.1f}" x2="{right:.1f}" y2="{bottom:.1f}"/>'


def _text(x: float, y: float, text: str, anchor: str) -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{escape(text)}</text>'


def _svg(width: float, height: float, label: str, parts: Sequence[str]) -> str:
    box = f'viewBox="0 0 {width:g} {height:g}" width="{width:g}" height="{height:g}"'
    return f'<svg {box} role="img" aria-label="{escape(label, quote=True)}">{"".join(parts)}</svg>'


def _day(time: float) -> str:
    return datetime.fromtimestamp(time, UTC).strftime("%Y-%m-%d %H:%M")


def _map_rows(finding: Finding) -> list[str]:
    rows = finding.data.get("where")
    return [str(row) for row in rows] if isinstance(rows, list) else []


def _chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
