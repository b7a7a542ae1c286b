"""The first wrong elements of a finding, as a small table."""

from __future__ import annotations

from collections.abc import Mapping

from gpuemu_lsp.engine.findings import Json

_ROWS = 6
_MISSING = "-"


def element_table(data: Mapping[str, Json]) -> list[str]:
    """Return the lines of the table; none where ``data`` tells of no elements or of just one.

    ``data["elements"]`` is a list of objects with ``index``, ``expected`` and ``actual``; ``data["count"]`` says how
    many there are in all.
    """
    elements = data.get("elements")
    if not isinstance(elements, list) or len(elements) < 2:
        return []
    rows = [("element", "expected", "actual")]
    for element in elements[:_ROWS]:
        if isinstance(element, dict):
            rows.append((_index(element.get("index")), _value(element.get("expected")), _value(element.get("actual"))))
    widths = [max(len(row[column]) for row in rows) for column in range(3)]
    lines = [f"{row[0]:<{widths[0]}}  {row[1]:>{widths[1]}}  {row[2]:>{widths[2]}}".rstrip() for row in rows]
    count = data.get("count")
    if isinstance(count, int) and count > len(rows) - 1:
        lines.append(f"... and {count - len(rows) + 1} more")
    return lines


def _index(value: Json) -> str:
    return f"[{', '.join(map(str, value))}]" if isinstance(value, list) else _MISSING


def _value(value: Json) -> str:
    if isinstance(value, float):
        return f"{value:.7g}"
    return _MISSING if value is None else str(value)
