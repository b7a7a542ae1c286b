"""``--format json`` and ``jsonl``: the machine-readable record, version 1. Columns are UTF-16 code units."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from gpuemu_lsp.engine.check.model import KernelReport
from gpuemu_lsp.engine.findings import Finding, Json, Place, Position, Range, Related, Severity
from gpuemu_lsp.engine.report.counters import counters_record
from gpuemu_lsp.engine.report.model import Run, relative
from gpuemu_lsp.engine.report.source_lines import utf16

VERSION = 1


def render_json(run: Run) -> str:
    """Render the whole run as one JSON document."""
    document: dict[str, Json] = {
        "version": VERSION,
        "toolchain": run.toolchain,
        "kernels": [kernel_record(kernel, run.root) for kernel in run.kernels],
        "findings": [finding_record(finding, run.root) for finding in run.findings],
        "summary": asdict(run.summary),
    }
    return json.dumps(document, indent=2, ensure_ascii=False, allow_nan=False) + "\n"


def render_jsonl(run: Run) -> str:
    """Render a JSON object on each line: findings, kernels, then the summary."""
    return "".join(json.dumps(record, ensure_ascii=False, allow_nan=False) + "\n" for record in _records(run))


def kernel_record(kernel: KernelReport, root: str) -> dict[str, Json]:
    """Return one kernel's verdict as JSON, with counters if they were requested."""
    counters = {item.dtype: counters_record(item, root) for item in kernel.counters}
    return {
        "name": kernel.name,
        "source": relative(kernel.source, root),
        "status": kernel.status,
        "compiled": kernel.compiled,
        "executor": kernel.executor,
        "cases": {"run": kernel.cases.run, "passed": kernel.cases.passed, "assumed": kernel.cases.assumed},
        "clean_at": str(kernel.clean_at or ""),
        "compared": kernel.compared,
        "resources": {arch: asdict(usage) for arch, usage in kernel.resources.items()},
        "timing_ms": {stage: round(value, 3) for stage, value in kernel.timing_ms.items()},
        "worst_error": _number(kernel.worst),
        "approximate": list(kernel.approximate),
        "numbers": {
            item.dtype: {
                "cases": {"run": item.cases.run, "passed": item.cases.passed},
                "max_diff": _number(item.max_diff) if item.errors else None,
                "max_rel_diff": _number(item.relative) if item.errors else None,
                "worst_error": _number(item.worst),
            }
            for item in kernel.measured
        },
        **({"counters": counters} if counters else {}),
    }


def finding_record(finding: Finding, root: str) -> dict[str, Json]:
    """Return one finding as JSON, with ``consequences`` if it has any."""
    consequences: list[Json] = [finding_record(one, root) for one in finding.consequences]
    return {
        "rule": finding.rule,
        "severity": finding.severity.value,
        "message": finding.message,
        "path": relative(finding.place.path, root),
        "range": _range(finding.place),
        "kernel": finding.kernel,
        "arch": finding.arch,
        "dtype": finding.dtype,
        "case": finding.case,
        "dims": dict(finding.dims),
        "data": without_nonfinite(dict(finding.data)),
        "related": [
            {"path": relative(item.place.path, root), "range": _range(item.place), "message": item.message}
            for item in finding.related
        ],
        "fingerprint": finding.fingerprint,
        **({"consequences": consequences} if consequences else {}),
    }


def _records(run: Run) -> Iterator[Json]:
    for finding in run.findings:
        yield {"type": "finding", **finding_record(finding, run.root)}
    for kernel in run.kernels:
        yield {"type": "kernel", **kernel_record(kernel, run.root)}
    yield {"type": "summary", "version": VERSION, **asdict(run.summary)}


def _range(place: Place) -> dict[str, Json]:
    return {"start": _position(place.path, place.range.start), "end": _position(place.path, place.range.end)}


def _position(path: str, position: Position) -> dict[str, Json]:
    return {"line": position.line, "character": utf16(path, position)}


def without_nonfinite(value: Json) -> Json:
    """Replace NaN and infinities, which JSON lacks, by strings."""
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    if isinstance(value, dict):
        return {key: without_nonfinite(item) for key, item in value.items()}
    if isinstance(value, list):
        return [without_nonfinite(item) for item in value]
    return value


def _number(value: float | None) -> Json:
    return without_nonfinite(value)


def findings_of_document(document: Mapping[str, Any], root: str) -> list[Finding]:
    """Return the findings; their paths are relative to ``root``, the working directory of the run.

    Columns are those of the document: calls and accesses of a run are whole lines or begin in ASCII text.
    """
    return [_read_finding(one, root) for one in document["findings"]]


def _read_finding(record: Mapping[str, Any], root: str) -> Finding:
    return Finding(
        rule=record["rule"],
        severity=Severity(record["severity"]),
        message=record["message"],
        place=_read_place(record, root),
        kernel=record["kernel"],
        data=record["data"],
        related=tuple(Related(_read_place(one, root), one["message"]) for one in record["related"]),
        fingerprint=record["fingerprint"],
    )


def _read_place(record: Mapping[str, Any], root: str) -> Place:
    start, end = record["range"]["start"], record["range"]["end"]
    path = (Path(root) / record["path"]).as_posix()
    return Place(path, Range.of(start["line"], start["character"], end["line"], end["character"]))
