"""Performance counters: one passing case runs again, its operations and memory traffic are counted by source line.

Lines that cost much more than they need to become hints, but only if their waste matters for the kernel as a whole: a
strided access next to a long loop does not.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

from gpuemu_lsp.engine.check.model import KernelCounters, LineCounters, LineTraffic
from gpuemu_lsp.engine.check.plan_run import PlanRun
from gpuemu_lsp.engine.execution import Checks, Counters
from gpuemu_lsp.engine.findings import Finding, Json, Place
from gpuemu_lsp.engine.fuzz.model import Case
from gpuemu_lsp.engine.subjects.source_map import SourceMap, statement_range

_T = TypeVar("_T")

_KINDS = {"ld": "load", "ldu": "load", "st": "store", "cp": "copy", "atom": "atomic", "red": "atomic"}
_WASTEFUL = 2.0
"""Ratio of actual to necessary cost from which on a line is wasteful."""
_SHARE = 0.05
"""Minimum share of all units of the kernel's memory traffic that a line must waste."""
_OF_INSTRUCTIONS = 0.01
"""Minimum number of units that a line must waste per instruction of the kernel."""
_IDLE = 0.1
"""Minimum share of all lanes of the kernel that must be idle in a line."""
_MAX_HINTS = 3
"""Lines reported per rule."""


def larger(one: Case | None, other: Case) -> Case:
    """Return the case with more threads, then more input elements: it is closest to real sizes."""
    return other if one is None or _size(other) > _size(one) else one


def _size(case: Case) -> tuple[int, int]:
    threads = 1
    for extent in (*case.grid, *case.block):
        threads *= extent
    return threads, sum(tensor.size for tensor in case.tensors.values())


@dataclass(frozen=True, slots=True)
class CountedCase:
    """Counters of a case and the hints derived from them."""

    counters: KernelCounters
    hints: tuple[Finding, ...]


def count(run: PlanRun, case: Case) -> CountedCase | None:
    """Run a case again with counters; None if the executor has none or the launch does not complete."""
    # Race checking would only take time: the case has passed.
    launch = replace(run.runner.launch_of(case), counting=True, checks=Checks(races=False))
    outcome = run.runner.repeat(case, launch)
    if outcome.counted is None or outcome.status != "completed":
        return None
    source_map = run.runner.source_map(case, run.context.findings.source_map)
    lines = tuple(_lines(source_map, outcome.counted))
    counters = KernelCounters(
        dtype=run.plan.dtype,
        case=case.key.id,
        dims=dict(case.dims),
        instructions=sum(one.executions for one in outcome.counted.activity),
        lanes=sum(one.lanes for one in outcome.counted.activity),
        operations=outcome.counted.operations,
        bytes=32 * sum(one.units for one in outcome.counted.traffic if one.space == "global"),
        touched=outcome.counted.touched,
        lines=lines,
    )
    full = max((one.lanes / one.executions for one in outcome.counted.activity), default=0.0)
    hints = (hint for hint in _hints(run, case, counters, full) if run.context.ignores.apply(hint) is hint)
    return CountedCase(counters, tuple(hints))


def _lines(source_map: SourceMap, counters: Counters) -> Iterator[LineCounters]:
    """Sum the counters of each line of the user's own files; instructions without a location there are left out."""
    activity: dict[tuple[str, int], list[int]] = defaultdict(lambda: [0, 0])
    traffic: dict[tuple[str, int], dict[tuple[str, str], list[int]]] = defaultdict(dict)
    for executed in counters.activity:
        place = source_map.known(executed.location)
        if place is not None:
            total = activity[place.path, place.range.start.line]
            total[0] += executed.executions
            total[1] += executed.lanes
    for requested in counters.traffic:
        place = source_map.known(requested.location)
        if place is None:
            continue
        kind = requested.space, _KINDS[requested.instruction.split(".")[0]]
        sums = traffic[place.path, place.range.start.line].setdefault(kind, [0, 0, 0, 0])
        for index, number in enumerate((requested.requests, requested.bytes, requested.units, requested.least)):
            sums[index] += number
    for key in sorted({*activity, *traffic}):
        by_kind = sorted(traffic[key].items()) if key in traffic else []
        instructions, lanes = activity[key]
        yield LineCounters(*key, instructions, lanes, tuple(LineTraffic(*kind, *sums) for kind, sums in by_kind))


# ---- hints -----------------------------------------------------------------------------------------------------------


def _hints(run: PlanRun, case: Case, counters: KernelCounters, full: float) -> Iterator[Finding]:
    sizes = f" ({', '.join(f'{name} = {size}' for name, size in case.dims.items())})" if case.dims else ""
    for rule, space, words in (
        ("perf/uncoalesced", "global", "moves {:.1f} sectors of 32 bytes, where {:.1f} could hold the requested bytes"),
        (
            "perf/bank-conflict",
            "shared",
            "takes {:.1f} passes over the banks of shared memory, where {:.1f} would suffice",
        ),
    ):
        for line, traffic in _worst(_wasteful(counters, space), lambda one: one[1].units - one[1].least):
            units, least = traffic.units / traffic.requests, traffic.least / traffic.requests
            message = f"Each {traffic.kind} of a warp {words.format(units, least)}{sizes}."
            data: dict[str, Json] = {"requests": traffic.requests, "bytes": traffic.bytes}
            data |= {"sectors" if space == "global" else "passes": traffic.units, "least": traffic.least}
            found = run.context.findings.finding(rule, message, _place(run, line), case, case.key.id, data)
            yield replace(found, states_sizes=True)
    for line in _worst(list(_idle(counters, full)), lambda one: one.instructions * full - one.lanes):
        share = 100 * line.instructions / counters.instructions
        message = (
            f"{line.lanes / line.instructions:.1f} of {full:.0f} lanes are active on average in this line, which has "
            f"{share:.0f} % of the kernel's instructions{sizes}."
        )
        data = {"instructions": line.instructions, "lanes": line.lanes}
        found = run.context.findings.finding("perf/divergence", message, _place(run, line), case, case.key.id, data)
        yield replace(found, states_sizes=True)


def _wasteful(counters: KernelCounters, space: str) -> list[tuple[LineCounters, LineTraffic]]:
    found = [(line, one) for line in counters.lines for one in line.traffic if one.space == space]
    enough = max(_SHARE * sum(one.units for _, one in found), _OF_INSTRUCTIONS * counters.instructions)
    return [
        (line, one) for line, one in found if one.units >= _WASTEFUL * one.least and one.units - one.least >= enough
    ]


def _idle(counters: KernelCounters, full: float) -> Iterator[LineCounters]:
    for line in counters.lines:
        idle = line.instructions * full - line.lanes
        if line.lanes * _WASTEFUL <= line.instructions * full and idle >= _IDLE * counters.instructions * full:
            yield line


def _worst(found: Sequence[_T], waste: Callable[[_T], float]) -> list[_T]:
    return sorted(found, key=waste, reverse=True)[:_MAX_HINTS]


def _place(run: PlanRun, line: LineCounters) -> Place:
    text = run.context.findings.source_map.text_of(line.path)
    return Place(line.path, statement_range(text or "", line.line, 0))
