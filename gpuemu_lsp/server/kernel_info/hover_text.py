"""Contents of hovers, as Markdown."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from gpuemu_lsp.engine.check.model import KernelReport, LineCounters
from gpuemu_lsp.engine.compile.model import ResourceUsage
from gpuemu_lsp.engine.findings import Finding, Json, Position
from gpuemu_lsp.engine.project import place_of
from gpuemu_lsp.engine.project.schema import describe_key, lookup
from gpuemu_lsp.engine.project.tree import read_tree
from gpuemu_lsp.engine.report.counters import counters_text, traffic_text
from gpuemu_lsp.server.diagnostics.kernel_results import KernelResults, number_text
from gpuemu_lsp.server.kernel_info.occupancy import occupancy
from gpuemu_lsp.server.kernel_info.summaries import KernelSummary, ResultSummary
from gpuemu_lsp.server.session import Session

_MAX_ROWS = 5
_MEASURED: Mapping[str, Callable[[ResourceUsage], int]] = {
    "max_registers": lambda usage: usage.registers,
    "max_spills": lambda usage: usage.spill_stores + usage.spill_loads,
    "max_local_memory": lambda usage: usage.stack_bytes,
}


def kernel_text(session: Session, kernel: KernelSummary) -> str:
    """Describe a kernel: results, resources by architecture, changes since the previous save and the baseline."""
    lines = [f"**{kernel.decl.qualified_name}**"]
    lines += [_result_text(summary) for summary in kernel.summaries()] or ["not checked yet"]
    lines += [f"{item.dtype}: {counters_text(item)}" for result in kernel.results for item in result.report.counters]
    lines += [text for result in kernel.results if (text := _coverage_text(result.report)) is not None]
    for result in kernel.results:
        changes = session.history.of(result.request.root, result.report.name)
        if changes.since_save:
            lines.append(f"since the previous save: {', '.join(changes.since_save)}")
        if changes.since_baseline:
            lines.append(f"since the baseline {changes.tag}: {', '.join(changes.since_baseline)}")
    variants = dict.fromkeys(str(one.report.specialisation) for one in kernel.results if one.report.specialisation)
    lines += [f"specialisation: {variant}" for variant in variants]
    if kernel.resources:
        lines.append(_resource_table(kernel.resources, kernel.launch))
    return "\n\n".join(lines)


def line_text(kernels: Iterable[KernelSummary], path: str, line: int) -> str | None:
    """Describe the performance counters of a line; None where none were counted for its current text."""
    lines = [
        f"{counters.dtype}: {_activity(found)}" + "".join(f"; {traffic_text(one)}" for one in found.traffic)
        for kernel in kernels
        for result in kernel.results
        if result.report.name not in kernel.edited
        for counters in result.report.counters
        for found in counters.lines
        if (found.path, found.line) == (path, line)
    ]
    return "\n\n".join(lines) or None


def _activity(line: LineCounters) -> str:
    lanes = f"{line.lanes / line.instructions:.1f} lanes each" if line.instructions else "no lanes"
    return f"{line.instructions} warp instructions, {lanes}"


def finding_text(finding: Finding) -> str:
    """Describe a finding of a case: sizes, wrong elements, and their distribution over the output.

    Its message is left out: clients show the diagnostic in the same hover.
    """
    data = finding.data
    lines = [f"**{finding.rule}**"]
    facts = [finding.dtype or "", *(f"{name} = {size}" for name, size in finding.dims.items()), f"case {finding.case}"]
    if isinstance(data.get("thread"), list) and isinstance(data.get("block"), list):
        facts.append(f"thread {_tuple(data['thread'])} of block {_tuple(data['block'])}")
    lines.append(", ".join(fact for fact in facts if fact))
    lines += _wrong_elements(data)
    for message, consequence in zip(finding.consequence_messages, finding.consequences, strict=True):
        lines += [message, *_wrong_elements(consequence.data)]
    return "\n\n".join(lines)


def _wrong_elements(data: Mapping[str, Json]) -> list[str]:
    """Return a table of the first wrong elements and a sketch of where they are, as paragraphs."""
    lines: list[str] = []
    rows = data.get("elements")
    if not isinstance(rows, list) and data.get("index") and data.get("actual") is not None:
        rows = [{"index": data["index"], "expected": data.get("expected"), "actual": data["actual"]}]
    if isinstance(rows, list) and rows:
        name = data.get("output", "")
        table = ["| element | expected | actual |", "|---|---|---|"]
        for row in rows[:_MAX_ROWS]:
            if isinstance(row, dict):
                index = row.get("index")
                subscript = ", ".join(map(str, index)) if isinstance(index, list) else ""
                table.append(
                    f"| `{name}[{subscript}]` | {number_text(row.get('expected'))} | {number_text(row.get('actual'))} |"
                )
        lines.append("\n".join(table))
    picture = data.get("where")
    if isinstance(picture, list) and picture:
        width = max(len(str(line)) for line in picture)
        frame = "+" + "-" * width + "+"
        lines.append("```text\n" + "\n".join([frame, *(f"|{line!s:{width}}|" for line in picture), frame]) + "\n```")
        lines.append(f"{data.get('count')} of {data.get('total')} elements are wrong; `#` all, `+` half, `.` some")
    return lines


def key_text(results: KernelResults, text: str, position: Position) -> str | None:
    """Describe a key of gpuemu.toml; for a limit also the measured value."""
    location = place_of(text, position.line, position.column)
    if location is None or not location.range.start <= position <= location.range.end:
        return None
    key = lookup(location.path)
    if key is None:
        return None
    measured = _measured(results, text, location.path)
    return describe_key(key) + (f"\n\nMeasured: {measured}" if measured else "")


def _measured(results: KernelResults, text: str, path: tuple[str | int, ...]) -> str | None:
    if len(path) < 4 or path[0] != "kernels":
        return None
    tree = read_tree(text)
    span = tree.values.get((*path[:2], "name"))
    if span is None:
        return None
    name = tree.lines[span.start.line][span.start.column + 1 : span.end.column - 1].decode(errors="replace")
    result = results.named(None, name)
    if result is None:
        return None
    if path[2] == "artifact_checks" and path[3] in _MEASURED:
        measure = _MEASURED[str(path[3])]
        return ", ".join(f"{measure(usage)} on {arch}" for arch, usage in result.report.resources.items()) or None
    if path[2] == "tolerances" and result.report.worst is not None:
        return f"the largest error was {100 * result.report.worst:.3g} % of the tolerance"
    return None


def _result_text(summary: ResultSummary) -> str:
    report, findings = summary.result.report, summary.result.findings
    parts = [summary.text]
    if any("numeric/nan" in (finding.rule, *(one.rule for one in finding.consequences)) for finding in findings):
        parts.append("result NaN")
    elif report.worst is not None and any(one.errors for one in report.measured):
        cases = " of the cases that passed" if report.status == "failed" else ""
        parts.append(f"largest error{cases} {100 * report.worst:.3g} % of the tolerance")
    if report.reused:
        parts.append("not run again: the code is the same")
    elif "total" in report.timing_ms:
        parts.append(f"{report.timing_ms['total']:.0f} ms on the {'GPU' if report.executor == 'gpu' else 'emulator'}")
    if report.approximate:
        parts.append(f"approximate instructions: {', '.join(report.approximate)}")
    rules = dict.fromkeys(finding.rule for finding in findings)
    if rules:
        parts.append(f"found: {', '.join(rules)}")
    return "; ".join(parts)


def _coverage_text(report: KernelReport) -> str | None:
    """Describe the line and branch coverage of a deep check, within the kernel's own file."""
    lines = [line for line in report.coverage if line.path == report.source]
    if not lines:
        return None
    ways = [way for line in lines for way in line.ways]
    text = f"the cases reached {sum(line.reached for line in lines)} of {len(lines)} lines"
    if ways:
        text += f" and {sum(way.reached for way in ways)} of {len(ways)} branch outcomes"
    missed = [str(line.line + 1) for line in lines if not line.reached]
    more = ", ..." if len(missed) > _MAX_ROWS else ""
    return f"{text}; missed lines: {', '.join(missed[:_MAX_ROWS])}{more}" if missed else text


def _resource_table(resources: Mapping[str, ResourceUsage], launch: tuple[int, int] | None) -> str:
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
    resident = occupancy(arch, usage, *launch) if launch is not None else None
    if resident is None or launch is None:
        return "unknown"
    limit = "" if resident.limit == "nothing" else f", limited by {resident.limit}"
    return f"{100 * resident.share:.0f} % at {launch[0]} threads{limit}"


def _tuple(value: Json) -> str:
    return f"({', '.join(map(str, value))})" if isinstance(value, list) else str(value)
