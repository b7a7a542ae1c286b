"""Rows as text, JSON, Markdown and CSV."""

from __future__ import annotations

import csv
import io
import json
import shlex
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from gpuemu.judge.model import Answer, CaseResult, Comparison, Row, Verdict

FORMATS = ("text", "json", "markdown", "csv")


def render(rows: Sequence[Mapping[str, Any]], form: str) -> str:
    """Return the report of rows, which are records, in a format of :data:`FORMATS`."""
    return {"text": _text, "json": _json, "markdown": _markdown, "csv": _csv}[form](rows)


def line(row: Mapping[str, Any]) -> str:
    """Return a row as one line of text."""
    return f"{row['name']}: {row['verdict']}: {row['reason']}"


def record(row: Row) -> dict[str, Any]:
    """Return a row as JSON."""
    return {
        "name": row.answer.name,
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
        "reproduce": shlex.join(_command(row.answer)),
    }


def _command(answer: Answer) -> list[str]:
    """Return the command that judges an answer again."""
    words = ["gpuemu", "judge", str(answer.path)]
    if answer.task != answer.path:
        words += ["--reference", str(answer.task)]
    # A file of JSON lines has many.
    return [*words, "--only", answer.name] if answer.task == answer.path and answer.texts is not None else words


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


def _text(rows: Sequence[Mapping[str, Any]]) -> str:
    blocks = []
    for row in rows:
        blocks.append("\n".join([line(row), *(f"  note: {note}" for note in row["notes"])]))
    return "\n".join([*blocks, _summary(rows), ""])


def _counts(rows: Sequence[Mapping[str, Any]]) -> dict[str, int]:
    counts = Counter(row["verdict"] for row in rows)
    return {verdict.value: counts[verdict] for verdict in Verdict if counts[verdict]}


def _summary(rows: Sequence[Mapping[str, Any]]) -> str:
    parts = [f"{count} {verdict}" for verdict, count in _counts(rows).items()]
    return f"gpuemu: {len(rows)} {'answer' if len(rows) == 1 else 'answers'}: {', '.join(parts)}"


def _json(rows: Sequence[Mapping[str, Any]]) -> str:
    return json.dumps({"version": 1, "rows": list(rows), "summary": _counts(rows)}, indent=2) + "\n"


def _markdown(rows: Sequence[Mapping[str, Any]]) -> str:
    lines = ["| answer | verdict | reason | launches | worst error |", "| --- | --- | --- | --- | --- |"]
    for row in rows:
        worst = row["worst_error"]
        cells = (row["name"], row["verdict"], row["reason"], row["launches"], "" if worst is None else f"{worst:.2g}")
        lines.append(f"| {' | '.join(str(cell).replace('|', chr(92) + '|') for cell in cells)} |")
    return "\n".join([*lines, "", _summary(rows), ""])


def _csv(rows: Sequence[Mapping[str, Any]]) -> str:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    columns = ["answer", "task", "verdict", "reason", "launches", "worst_error", "notes", "seconds", "reproduce"]
    writer.writerow(columns)
    for row in rows:
        worst, notes = row["worst_error"], "; ".join(row["notes"])
        cells = {**row, "worst_error": "" if worst is None else f"{worst:.6g}", "notes": notes}
        writer.writerow([cells[column] for column in columns])
    return text.getvalue()
