"""Rows as text, JSON, Markdown and CSV."""

from __future__ import annotations

import csv
import io
import json
from collections import Counter
from collections.abc import Sequence
from typing import Any

from gpuemu.judge.model import CaseResult, Comparison, Row, Verdict

FORMATS = ("text", "json", "markdown", "csv")


def render(rows: Sequence[Row], form: str) -> str:
    """Return the report in a format of :data:`FORMATS`."""
    return {"text": _text, "json": _json, "markdown": _markdown, "csv": _csv}[form](rows)


def line(row: Row) -> str:
    """Return a row as one line of text."""
    return f"{row.answer.name}: {row.verdict}: {row.reason}"


def record(row: Row) -> dict[str, Any]:
    """Return a row as JSON."""
    return {
        "answer": str(row.answer.path),
        "task": str(row.answer.task),
        "verdict": row.verdict.value,
        "reason": row.reason,
        "notes": list(row.notes),
        "launches": row.launches,
        "own_work": row.own_work,
        "worst_error": _worst(row),
        "accepted": _accepted(row),
        "cases": [_case(result) for result in row.results],
        "findings": [dict(finding) for finding in row.findings],
        "seconds": round(row.seconds, 2),
    }


def _case(result: CaseResult) -> dict[str, Any]:
    case, comparison = result.case, result.comparison
    return {
        "shapes": [list(shape) for shape in case.shapes],
        "values": case.values,
        "own": case.own,
        "regular": case.regular,
        "status": result.status.value,
        "message": result.sentence,
        "worst_error": comparison.worst if comparison is not None else None,
    }


def _worst(row: Row) -> float | None:
    return max((one.worst for one in _deciding(row) if one.worst is not None), default=None)


def _accepted(row: Row) -> dict[str, bool]:
    """Return which of the benchmarks' tolerances accept the results of all cases that decide."""
    accepted = [one.accepted for one in _deciding(row) if one.accepted]
    return {name: all(one[name] for one in accepted) for name in accepted[0]} if accepted else {}


def _deciding(row: Row) -> list[Comparison]:
    return [one.comparison for one in row.results if one.case.decides and one.comparison is not None]


def _text(rows: Sequence[Row]) -> str:
    blocks = []
    for row in rows:
        blocks.append("\n".join([line(row), *(f"  note: {note}" for note in row.notes)]))
    return "\n".join([*blocks, _summary(rows), ""])


def _summary(rows: Sequence[Row]) -> str:
    counts = Counter(row.verdict for row in rows)
    parts = [f"{counts[verdict]} {verdict}" for verdict in Verdict if counts[verdict]]
    return f"gpuemu: {len(rows)} {'answer' if len(rows) == 1 else 'answers'}: {', '.join(parts)}"


def _json(rows: Sequence[Row]) -> str:
    counts = Counter(row.verdict.value for row in rows)
    return json.dumps({"version": 1, "rows": [record(row) for row in rows], "summary": counts}, indent=2) + "\n"


def _markdown(rows: Sequence[Row]) -> str:
    lines = ["| answer | verdict | reason | launches | worst error |", "| --- | --- | --- | --- | --- |"]
    for row in rows:
        worst = _worst(row)
        cells = (row.answer.name, row.verdict, row.reason, row.launches, "" if worst is None else f"{worst:.2g}")
        lines.append(f"| {' | '.join(str(cell).replace('|', chr(92) + '|') for cell in cells)} |")
    return "\n".join([*lines, "", _summary(rows), ""])


def _csv(rows: Sequence[Row]) -> str:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(["answer", "task", "verdict", "reason", "launches", "worst_error", "notes", "seconds"])
    for row in rows:
        worst = _worst(row)
        writer.writerow(
            [
                row.answer.path,
                row.answer.task,
                row.verdict.value,
                row.reason,
                row.launches,
                "" if worst is None else f"{worst:.6g}",
                "; ".join(row.notes),
                f"{row.seconds:.1f}",
            ]
        )
    return text.getvalue()
