"""What hovers say, as Markdown."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from gpuemu_lsp.engine.check.model import KernelReport, LineCounters
from gpuemu_lsp.engine.compile.model import ResourceUsage
from gpuemu_lsp.engine.findings import Finding, Json, Position
from gpuemu_lsp.engine.project import place_of
from gpuemu_lsp.engine.project.schema import describe_key, lookup
from gpuemu_lsp.engine.project.tree import read_tree
from gpuemu_lsp.engine.report.counters import counters_text, traffic_text
from gpuemu_lsp.server.diagnostics.kernel_results import Verdicts
from gpuemu_lsp.server.kernel_info.occupancy import occupancy
from gpuemu_lsp.server.kernel_info.summaries import Kernel, Summary
from gpuemu_lsp.server.session import Session

_ROWS = 5
_MEASURED: Mapping[str, Callable[[ResourceUsage], int]] = {
    "max_registers": lambda usage: usage.registers,
    "max_spills": lambda usage: usage.spill_stores + usage.spill_loads,
    "max_local_memory": lambda usage: usage.stack_bytes,
}


def kernel_text(session: Session, kernel: Kernel) -> str:
    """Describe a kernel: verdicts, resources per architecture, and what changed since the save before."""
    lines = [f"**{kernel.decl.qualified_name}**"]
    lines += [_verdict(summary) for summary in kernel.summaries()] or ["not checked yet"]
    lines += [f"{item.dtype}: {counters_text(item)}" for verdict in kernel.verdicts for item in verdict.report.counters]
    lines += [text for verdict in kernel.verdicts if (text := _reached(verdict.report)) is not None]
    for verdict in kernel.verdicts:
        changes = session.history.of(verdict.request.root, verdict.report.name)
        if changes.save:
            lines.append(f"since the save before: {', '.join(changes.save)}")
        if changes.baseline:
            lines.append(f"since the baseline {changes.tag}: {', '.join(changes.baseline)}")
    if kernel.resources:
        lines.append(_table(kernel.resources, kernel.launch))
    return "\n\n".join(lines)


def line_text(kernels: Iterable[Kernel], path: str, line: int) -> str | None:
    """Describe what a line did in the cases that were counted; None where nothing is known of its present text."""
    lines = [
        f"{counters.dtype}: {_activity(found)}" + "".join(f"; {traffic_text(one)}" for one in found.traffic)
        for kernel in kernels
        for verdict in kernel.verdicts
        if verdict.report.name not in kernel.edited
        for counters in verdict.report.counters
        for found in counters.lines
        if (found.path, found.line) == (path, line)
    ]
    return "\n\n".join(lines) or None


def _activity(line: LineCounters) -> str:
    lanes = f"{line.lanes / line.instructions:.1f} lanes each" if line.instructions else "no lanes"
    return f"{line.instructions} instructions of warps, {lanes}"


def finding_text(finding: Finding) -> str:
    """Describe a failing case: its values, and where in the output the wrong elements lie."""
    data = finding.data
    lines = [f"**{finding.rule}** {finding.message}"]
    facts = [finding.dtype or "", *(f"{name} = {size}" for name, size in finding.dims.items()), f"case {finding.case}"]
    if isinstance(data.get("thread"), list) and isinstance(data.get("block"), list):
        facts.append(f"thread {_tuple(data['thread'])} of block {_tuple(data['block'])}")
    lines.append(", ".join(fact for fact in facts if fact))
    rows = data.get("elements")
    if not isinstance(rows, list) and data.get("index") and data.get("actual") is not None:
        rows = [{"index": data["index"], "expected": data.get("expected"), "actual": data["actual"]}]
    if isinstance(rows, list) and rows:
        name = data.get("output", "")
        table = ["| element | expected | actual |", "|---|---|---|"]
        for row in rows[:_ROWS]:
            if isinstance(row, dict):
                index = row.get("index")
                where = ", ".join(map(str, index)) if isinstance(index, list) else ""
                table.append(f"| {name}[{where}] | {_number(row.get('expected'))} | {_number(row.get('actual'))} |")
        lines.append("\n".join(table))
    where_ = data.get("where")
    if isinstance(where_, list) and where_:
        width = max(len(str(line)) for line in where_)
        frame = "+" + "-" * width + "+"
        lines.append("```text\n" + "\n".join([frame, *(f"|{line!s:{width}}|" for line in where_), frame]) + "\n```")
        lines.append(f"{data.get('count')} of {data.get('total')} elements are wrong; `#` all, `+` half, `.` some")
    return "\n\n".join(lines)


def key_text(verdicts: Verdicts, text: str, position: Position) -> str | None:
    """Describe a key of gpuemu.toml, and the value that was measured beside a limit."""
    spot = place_of(text, position.line, position.column)
    if spot is None or not spot.range.start <= position <= spot.range.end:
        return None
    key = lookup(spot.path)
    if key is None:
        return None
    measured = _measured(verdicts, text, spot.path)
    return describe_key(key) + (f"\n\nMeasured: {measured}" if measured else "")


def _measured(verdicts: Verdicts, text: str, path: tuple[str | int, ...]) -> str | None:
    if len(path) < 4 or path[0] != "kernels":
        return None
    tree = read_tree(text)
    span = tree.values.get((*path[:2], "name"))
    if span is None:
        return None
    name = tree.lines[span.start.line][span.start.column + 1 : span.end.column - 1].decode(errors="replace")
    verdict = verdicts.named(None, name)
    if verdict is None:
        return None
    if path[2] == "artifact_checks" and path[3] in _MEASURED:
        measure = _MEASURED[str(path[3])]
        return ", ".join(f"{measure(usage)} on {arch}" for arch, usage in verdict.report.resources.items()) or None
    if path[2] == "tolerances" and verdict.report.worst is not None:
        return f"the largest error was {100 * verdict.report.worst:.3g} % of what is allowed"
    return None


def _verdict(summary: Summary) -> str:
    report = summary.verdict.report
    parts = [summary.words]
    if report.worst is not None:
        parts.append(f"worst error {100 * report.worst:.3g} % of what is allowed")
    if "total" in report.timing_ms:
        parts.append(f"{report.timing_ms['total']:.0f} ms on the {'GPU' if report.executor == 'gpu' else 'emulator'}")
    if report.approximate:
        parts.append(f"approximate instructions: {', '.join(report.approximate)}")
    rules = dict.fromkeys(finding.rule for finding in summary.verdict.findings)
    if rules:
        parts.append(f"found: {', '.join(rules)}")
    return "; ".join(parts)


def _reached(report: KernelReport) -> str | None:
    """Say which lines of its file the cases of a deep check came to."""
    lines = [line for line in report.coverage if line.path == report.source]
    if not lines:
        return None
    ways = [way for line in lines for way in line.ways]
    text = f"the cases reached {sum(line.reached for line in lines)} of {len(lines)} lines"
    if ways:
        text += f" and {sum(way.reached for way in ways)} of {len(ways)} ways out of branches"
    missed = [str(line.line + 1) for line in lines if not line.reached]
    more = ", ..." if len(missed) > _ROWS else ""
    return f"{text}; not line {', '.join(missed[:_ROWS])}{more}" if missed else text


def _table(resources: Mapping[str, ResourceUsage], launch: tuple[int, int] | None) -> str:
    rows = [
        "| | registers | spill stores | spill loads | stack | static shared | barriers | occupancy |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for arch, usage in resources.items():
        cells = (
            f"{usage.registers}",
            f"{usage.spill_stores} B",
            f"{usage.spill_loads} B",
            f"{usage.stack_bytes} B",
            f"{usage.static_shared_bytes} B",
            f"{usage.barriers}",
            _occupancy(arch, usage, launch),
        )
        rows.append(f"| {arch} | {' | '.join(cells)} |")
    return "\n".join(rows)


def _occupancy(arch: str, usage: ResourceUsage, launch: tuple[int, int] | None) -> str:
    found = occupancy(arch, usage, *launch) if launch is not None else None
    if found is None or launch is None:
        return "unknown"
    limit = "" if found.limit == "nothing" else f", limited by {found.limit}"
    return f"{100 * found.share:.0f} % at {launch[0]} threads{limit}"


def _tuple(value: Json) -> str:
    return f"({', '.join(map(str, value))})" if isinstance(value, list) else str(value)


def _number(value: Json) -> str:
    return f"{value:.7g}" if isinstance(value, float) else "?" if value is None else str(value)
