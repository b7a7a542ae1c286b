"""``coverage`` and ``counters``: which lines the cases reach, and what the largest clean case costs."""

from __future__ import annotations

from dataclasses import asdict, fields

from gpuemu_lsp.engine.compile.model import ResourceUsage
from gpuemu_lsp.engine.findings import Json
from gpuemu_lsp.engine.report.counters import counters_record
from gpuemu_lsp.engine.report.coverage import files_of, percent, unknown
from gpuemu_lsp.engine.report.model import Run, relative
from gpuemu_lsp.engine.report.verdict import VERDICTS, verdict_of
from gpuemu_lsp.engine.subjects.request import CheckOptions
from gpuemu_lsp.mcp.call import Tool, ToolCall, ToolError
from gpuemu_lsp.mcp.records import SIZES, Lines
from gpuemu_lsp.mcp.schemas import Schema, array, boolean, integer, mapping, nullable, number, record, text
from gpuemu_lsp.mcp.targets import MOST_CASES, WHAT, given, targets_of
from gpuemu_lsp.mcp.tools.check import BUDGET, MOST_SECONDS, run_checks

_CASES = 32
_ARGUMENTS: dict[str, Schema] = {
    **WHAT,
    "budget": number(f"seconds until the answer (default: {BUDGET})", minimum=1, maximum=MOST_SECONDS),
}
_VERDICT: Schema = text("of the check that measured", choices=VERDICTS)
_NOT_MEASURED: Schema = array(record({"kernel": text(), "reason": text()}), "kernels of which nothing is known")
_COUNT: Schema = integer(minimum=0)


def _measured(call: ToolCall, options: CheckOptions) -> Run:
    budget = call.arguments.get("budget", BUDGET)
    assert isinstance(budget, int | float)
    with call.budget(budget):
        what = given(call.session, call.arguments)
        kernel = call.arguments.get("kernel")
        run = run_checks(call, call.read(lambda: targets_of(call.session, what, options, kernel)))
    if not run.kernels:
        raise ToolError(" ".join(finding.message for finding in run.findings) or "There is no kernel.")
    return run


def _reason(run: Run, kernel: str) -> str:
    messages = (finding.message for finding in run.findings if finding.kernel == kernel)
    return next(messages, "no case of it ran clean")


# ---- coverage --------------------------------------------------------------------------------------------------------


def _coverage(call: ToolCall) -> dict[str, Json]:
    cases = call.arguments.get("cases", _CASES)
    assert isinstance(cases, int)
    # A failing kernel goes on, as its coverage is asked for.
    run = _measured(call, CheckOptions(cases=cases, executor="emulator", coverage=True, max_failures=cases))
    lines, files = Lines(), files_of(run)
    missed: list[Json] = []
    for file in files:
        name = relative(file.path, run.root)
        for line in file.lines:
            never = [way.to for way in line.ways if not way.reached]
            if line.reached and not never:
                continue
            missed.append(
                {
                    "file": name,
                    "line": line.line + 1,
                    "text": lines.text(file.path, line.line),
                    "reached": line.reached,
                    "never_goes_to": [None if to is None else to + 1 for to in never] if line.reached else [],
                }
            )
    share = percent(files)
    return {
        "verdict": verdict_of(run.kernels, run.findings),
        "percent": None if share is None else round(share, 2),
        "cases": sum(kernel.cases.run for kernel in run.kernels),
        "missed": missed,
        "not_measured": [{"kernel": name, "reason": _reason(run, name)} for name in unknown(run)],
    }


COVERAGE = Tool(
    name="coverage",
    title="Coverage of a kernel's cases",
    description=(
        "List the lines that no case of a check reaches, and the branches that never go one way: what a verdict does "
        "not cover."
    ),
    arguments=record(
        {**_ARGUMENTS, "cases": integer(f"per kernel and dtype (default: {_CASES})", minimum=1, maximum=MOST_CASES)}, ()
    ),
    result=record(
        {
            "verdict": _VERDICT,
            "percent": nullable(number("of the lines with code", minimum=0, maximum=100)),
            "cases": _COUNT,
            "missed": array(
                record(
                    {
                        "file": text(),
                        "line": integer("from 1", minimum=1),
                        "text": text(),
                        "reached": boolean(),
                        "never_goes_to": array(nullable(integer()), "lines; null: the exit of the kernel"),
                    }
                )
            ),
            "not_measured": _NOT_MEASURED,
        }
    ),
    run=_coverage,
)


# ---- counters --------------------------------------------------------------------------------------------------------

_COUNTED: Schema = record(
    {
        "case": text(),
        "dims": SIZES,
        "instructions": _COUNT,
        "lanes": _COUNT,
        "operations": _COUNT,
        "bytes": _COUNT,
        "touched_bytes": _COUNT,
        "intensity": nullable(number()),
        "lines": array(
            record(
                {
                    "path": text(),
                    "line": integer("from 1", minimum=1),
                    "text": text(),
                    "instructions": _COUNT,
                    "lanes": _COUNT,
                    "traffic": array(
                        record(
                            {
                                "space": text(choices=("global", "shared")),
                                "kind": text(),
                                "requests": _COUNT,
                                "bytes": _COUNT,
                                "sectors": _COUNT,
                                "passes": _COUNT,
                                "least": integer("what the same bytes need at least", minimum=0),
                            },
                            ("space", "kind", "requests", "bytes", "least"),
                        ),
                        "sectors of 32 bytes in global memory; passes over the banks of shared memory",
                    ),
                }
            )
        ),
    },
    description="of the largest clean case; sums over all warps, no times",
)
_RESOURCES: Schema = record(
    {field.name: _COUNT for field in fields(ResourceUsage)}, description="of ptxas: counts by thread, sizes in bytes"
)


def _counters(call: ToolCall) -> dict[str, Json]:
    run = _measured(call, CheckOptions(executor="emulator", counters=True))
    texts = Lines()
    kernels: list[Json] = []
    for kernel in run.kernels:
        counted: dict[str, Json] = {}
        for counters in kernel.counters:
            item = counters_record(counters, run.root)
            assert isinstance(item, dict)
            shown = zip(counters.lines, item["lines"] if isinstance(item["lines"], list) else (), strict=True)
            lines: list[Json] = [
                {**row, "line": line.line + 1, "text": texts.text(line.path, line.line)}
                for line, row in shown
                if isinstance(row, dict)
            ]
            counted[counters.dtype] = {**item, "lines": lines}
        resources: dict[str, Json] = {arch: asdict(usage) for arch, usage in kernel.resources.items()}
        kernels.append({"kernel": kernel.name, "resources": resources, "counters": counted})
    return {
        "verdict": verdict_of(run.kernels, run.findings),
        "kernels": kernels,
        "not_measured": [
            {"kernel": kernel.name, "reason": _reason(run, kernel.name)}
            for kernel in run.kernels
            if not kernel.counters
        ],
    }


COUNTERS = Tool(
    name="counters",
    title="Cost of a kernel",
    description=(
        "Count what the largest clean case of each kernel does, by line: memory sectors and bank passes next to the "
        "least that the same bytes need, idle lanes, operations; and registers and spills. No times are measured."
    ),
    arguments=record(_ARGUMENTS, ()),
    result=record(
        {
            "verdict": _VERDICT,
            "kernels": array(
                record(
                    {
                        "kernel": text(),
                        "resources": mapping(_RESOURCES, "by architecture"),
                        "counters": mapping(_COUNTED, "by dtype"),
                    }
                )
            ),
            "not_measured": _NOT_MEASURED,
        }
    ),
    run=_counters,
)
