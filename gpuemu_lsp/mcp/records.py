"""Results as JSON for agents: lines count from 1, an element and both parties of a race are fields of their own."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from gpuemu_lsp.engine.findings import Finding, Json, Place, Role
from gpuemu_lsp.engine.report.json_format import without_nonfinite
from gpuemu_lsp.engine.report.model import relative
from gpuemu_lsp.mcp.schemas import Schema, array, integer, mapping, nullable, record, text, value

INDEX: Schema = array(integer())
SIZES: Schema = mapping(integer(), "size by name")

PLACE: Schema = record({"file": text(), "line": integer("from 1", minimum=1), "text": text("the line")})
PARTY: Schema = record(
    {
        "file": text(),
        "line": integer("from 1", minimum=1),
        "text": text("the line"),
        "thread": nullable(INDEX),
        "block": nullable(INDEX),
        "access": nullable(text("reads, writes, ...")),
        "instruction": nullable(text("of PTX")),
    },
    description="a thread and the line that it executes",
)
ELEMENT: Schema = record(
    {
        "buffer": nullable(text()),
        "index": nullable(INDEX),
        "byte": nullable(integer("offset in the buffer")),
        "bytes": nullable(integer("size of the access")),
        "expected": value(),
        "actual": value(),
        "count": nullable(integer("elements or accesses with the same error in this case")),
    },
    description="the element that is wrong, or that the access is about",
)
FINDING: Schema = record(
    {
        "id": text("what explain, minimize and reproduce take"),
        "rule": text("its documentation is the resource gpuemu://rules/RULE"),
        "severity": text(choices=("error", "warning", "information", "hint")),
        "message": text(),
        "file": text(),
        "line": integer("from 1", minimum=1),
        "column": integer("from 1, in bytes of UTF-8", minimum=1),
        "text": text("the line"),
        "kernel": nullable(text()),
        "dtype": nullable(text()),
        "arch": nullable(text()),
        "case": nullable(text("id of the case, which gpuemu reproduce takes")),
        "sizes": SIZES,
        "element": nullable(ELEMENT),
        "parties": array(PARTY, "the failing thread, and of a race the other one"),
        "values": array(
            record({"name": text(), "value": value("null: uninitialised or out of bounds"), "expected": value()}),
            "what the failing thread loads and stores at the line",
        ),
        "related": array(
            record({"file": text(), "line": integer(minimum=1), "text": text(), "message": text()}),
            "other places that belong to it",
        ),
        "consequences": array(text(), "errors that exist only because of this one"),
    }
)


def place_record(place: Place, root: str, lines: Lines) -> dict[str, Json]:
    """Return a place with the text of its line."""
    line = place.range.start.line
    return {"file": relative(place.path, root), "line": line + 1, "text": lines.text(place.path, line)}


class Lines:
    """Lines of files that are read once for one result."""

    def __init__(self) -> None:
        self._files: dict[str, list[str]] = {}

    def text(self, path: str, line: int) -> str:
        """Return a 0-based line without its indentation, empty if there is none."""
        if path not in self._files:
            try:
                self._files[path] = Path(path).read_text("utf-8", errors="replace").splitlines()
            except OSError:
                self._files[path] = []
        lines = self._files[path]
        return lines[line].strip() if line < len(lines) else ""


def finding_facts(finding: Finding, root: str, lines: Lines) -> dict[str, Json]:
    """Return a finding; paths below ``root`` are relative to it."""
    values = finding.data.get("values")
    related: list[Json] = [
        {**place_record(item.place, root, lines), "message": item.message}
        for item in finding.related
        if item.role is not Role.OTHER_ACCESS
    ]
    facts: dict[str, Json] = {
        "id": finding.fingerprint,
        "rule": finding.rule,
        "severity": finding.severity.value,
        "message": finding.message,
        **place_record(finding.place, root, lines),
        "column": finding.place.range.start.column + 1,
        "kernel": finding.kernel,
        "dtype": finding.dtype,
        "arch": finding.arch,
        "case": finding.case,
        "sizes": dict(finding.dims),
        "element": _element(finding.data),
        "parties": _parties(finding, root, lines),
        "values": [_value(item) for item in values if isinstance(item, dict)] if isinstance(values, list) else [],
        "related": related,
        "consequences": [one.message for one in finding.consequences],
    }
    cleaned = without_nonfinite(facts)
    assert isinstance(cleaned, dict)
    return cleaned


def _element(data: Mapping[str, Json]) -> Json:
    buffer = data.get("output", data.get("buffer"))
    if buffer is None:
        return None
    return {
        "buffer": buffer,
        "index": data.get("index"),
        "byte": data.get("offset"),
        "bytes": data.get("size"),
        "expected": data.get("expected"),
        "actual": data.get("actual"),
        "count": data.get("count"),
    }


def _value(item: Mapping[str, Json]) -> Json:
    return {"name": item.get("name", ""), "value": item.get("value"), "expected": item.get("expected")}


def _parties(finding: Finding, root: str, lines: Lines) -> list[Json]:
    data = finding.data
    if data.get("thread") is None and data.get("block") is None:
        return []
    parties: list[Json] = [_party(finding.place, data, "", root, lines)]
    other = next((item.place for item in finding.related if item.role is Role.OTHER_ACCESS), finding.place)
    if data.get("other_thread") is not None or data.get("other_block") is not None:
        parties.append(_party(other, data, "other_", root, lines))
    return parties


def _party(place: Place, data: Mapping[str, Json], prefix: str, root: str, lines: Lines) -> Json:
    names = ("thread", "block", "access", "instruction")
    return {**place_record(place, root, lines), **{name: data.get(f"{prefix}{name}") for name in names}}
