"""``compare``: two versions of a kernel on the same cases."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from gpuemu_lsp.engine.check.model import ComparedVersions
from gpuemu_lsp.engine.findings import Json
from gpuemu_lsp.engine.jobs.crash_findings import ending_finding
from gpuemu_lsp.engine.jobs.run import seconds_for
from gpuemu_lsp.engine.jobs.run_one import run_job
from gpuemu_lsp.engine.report.json_format import without_nonfinite
from gpuemu_lsp.engine.subjects.request import FIRST_CASES, CheckOptions, CheckRequest
from gpuemu_lsp.engine.workers.model import Job
from gpuemu_lsp.engine.workers.wire import from_json, to_json
from gpuemu_lsp.mcp.call import Tool, ToolCall, ToolError
from gpuemu_lsp.mcp.records import INDEX, PLACE, SIZES, Lines, place_record
from gpuemu_lsp.mcp.schemas import array, integer, mapping, nullable, number, record, text, value
from gpuemu_lsp.mcp.targets import WHAT, given, one_request
from gpuemu_lsp.mcp.tools.check import BUDGET, MOST_SECONDS

SAME, DIFFERS, NOT_COMPARED = "same", "differs", "not compared"


def _compare(call: ToolCall) -> dict[str, Json]:
    budget, cases = call.arguments.get("budget", BUDGET), call.arguments.get("cases", FIRST_CASES)
    assert isinstance(budget, int | float) and isinstance(cases, int)
    with call.budget(budget):
        before, after = (_request(call, name, CheckOptions(cases=cases)) for name in ("before", "after"))
        payload: dict[str, Json] = {"before": to_json(before), "after": to_json(after)}
        # Both modules run in one process, which serves no other file.
        taint = None if before.user_code is None else f"{before.user_code}\n{after.user_code}"
        job = Job("compare", payload, wall_seconds=2 * seconds_for(before), taint=taint)
        call.report(0, None, f"{before.spec.name}: compares versions")
        result = run_job(call, job)
    if not result.done:
        reason = call.reason or ending_finding(before, result.ending).message
        raise ToolError(f"Not compared: {reason.rstrip('.')}.")
    rows = [from_json(ComparedVersions, item) for item in result.named("compared")]
    root = str(Path(after.spec.source).parent)
    return {"verdict": _verdict(rows), "versions": [_row(row, root) for row in rows]}


def _request(call: ToolCall, name: str, options: CheckOptions) -> CheckRequest:
    arguments = call.arguments[name]
    assert isinstance(arguments, dict)
    try:
        return one_request(call.session, given(call.session, arguments), options, arguments.get("kernel"))
    except ToolError as error:
        raise ToolError(f"{name}: {error}") from error


def _verdict(rows: list[ComparedVersions]) -> str:
    """Return the verdict: a difference decides, then what was not compared."""
    if any(row.differing for row in rows):
        return DIFFERS
    return SAME if rows and all(row.cases and not row.left_out for row in rows) else NOT_COMPARED


def _row(row: ComparedVersions, root: str) -> Json:
    first, lines = row.difference, Lines()
    difference: Mapping[str, Json] | None = None
    if first is not None:
        difference = {
            "case": first.case,
            "sizes": dict(first.dims),
            "output": first.output,
            "index": list(first.index),
            "before": first.before,
            "after": first.after,
            "count": first.count,
            "total": first.total,
            "largest": first.largest,
            "store": None if first.place is None else place_record(first.place, root, lines),
            "thread": list(first.thread),
            "block": list(first.block),
        }
    facts: Mapping[str, Json] = {
        "kernel": row.kernel,
        "dtype": row.dtype,
        "cases": row.cases,
        "differing": row.differing,
        "difference": None if difference is None else dict(difference),
        "left_out": dict(row.left_out),
        "problem": row.problem or None,
    }
    return without_nonfinite(dict(facts))


_VERSION = record(WHAT, (), "one kernel: a path, a source or files, and if there are several its name as kernel")

COMPARE = Tool(
    name="compare",
    title="Compare two versions of a kernel",
    description=(
        "Run two versions of a kernel on the same cases and compare all outputs bit for bit: same, differs or not "
        "compared. Names the first element that differs and the store of the second version that wrote it. Rounding "
        "may explain a small difference: whether a version is right, check decides."
    ),
    arguments=record(
        {
            "before": _VERSION,
            "after": _VERSION,
            "cases": integer(f"by dtype (default: {FIRST_CASES})", minimum=1, maximum=1000),
            "budget": number(f"seconds until the answer (default: {BUDGET})", minimum=1, maximum=MOST_SECONDS),
        },
        ("before", "after"),
    ),
    result=record(
        {
            "verdict": text(choices=(SAME, DIFFERS, NOT_COMPARED)),
            "versions": array(
                record(
                    {
                        "kernel": text(),
                        "dtype": text(),
                        "cases": integer("that ran on both", minimum=0),
                        "differing": integer(minimum=0),
                        "difference": nullable(
                            record(
                                {
                                    "case": text(),
                                    "sizes": SIZES,
                                    "output": text(),
                                    "index": INDEX,
                                    "before": value(),
                                    "after": value(),
                                    "count": integer("elements that differ", minimum=0),
                                    "total": integer(minimum=0),
                                    "largest": value("absolute difference"),
                                    "store": nullable(PLACE),
                                    "thread": INDEX,
                                    "block": INDEX,
                                },
                                description="of the first case that differs: its first element that does",
                            )
                        ),
                        "left_out": mapping(integer(minimum=1), "cases that were not compared, by reason"),
                        "problem": nullable(text("why nothing was compared")),
                    }
                ),
                "by dtype",
            ),
        }
    ),
    run=_compare,
)
