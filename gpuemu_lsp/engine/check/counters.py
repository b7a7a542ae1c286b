"""What a kernel does, in numbers: one clean case is run once more, counted, and told by line.

What costs much more than it needs to becomes a hint. Only waste that counts for the kernel as a whole is told: a
strided access beside a long loop is nobody's problem.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

from gpuemu_lsp.engine.check.model import KernelCounters, LineCounters, LineTraffic
from gpuemu_lsp.engine.check.plan_run import PlanRun
from gpuemu_lsp.engine.check.source_map import statement_range
from gpuemu_lsp.engine.execution import Checks, Counters
from gpuemu_lsp.engine.findings import Finding, Json, Place
from gpuemu_lsp.engine.fuzz.model import Case

_T = TypeVar("_T")

_KINDS = {"ld": "load", "ldu": "load", "st": "store", "cp": "copy", "atom": "atomic", "red": "atomic"}
_WASTEFUL = 2.0
"""How many times what would do is worth a hint."""
_SHARE = 0.05
"""Of all units of the kernel's memory traffic, at least so many must be wasted."""
_OF_INSTRUCTIONS = 0.01
"""And so many per instruction."""
_IDLE = 0.1
"""Of all lanes that could have worked, at least so many must have idled in a line."""
_TOLD = 3
"""Lines of a kernel that are told, per rule."""


def larger(one: Case | None, other: Case) -> Case:
    """Return the larger case: that tells most about real sizes."""
    return other if one is None or _size(other) > _size(one) else one


def _size(case: Case) -> tuple[int, int]:
    threads = 1
    for extent in (*case.grid, *case.block):
        threads *= extent
    return threads, sum(tensor.size for tensor in case.tensors.values())


@dataclass(frozen=True, slots=True)
class CountedCase:
    """The counters of a case and the hints they are worth."""

    counters: KernelCounters
    hints: tuple[Finding, ...]


def count(run: PlanRun, case: Case) -> CountedCase | None:
    """Run a case once more and count; None where the executor cannot, or it does not run to its end."""
    launch = replace(run.launch, counting=True, checks=Checks(races=False))
    outcome = replace(run, launch=launch, steering=None).execute(case)
    if outcome.counted is None or outcome.status != "completed":
        return None
    lines = tuple(_lines(run, outcome.counted))
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
    hints = (hint for hint in _hints(run, case, counters, full) if run.ignores.apply(hint) is hint)
    return CountedCase(counters, tuple(hints))


def _lines(run: PlanRun, counters: Counters) -> Iterator[LineCounters]:
    """Add up by line what is known to be on one of the user's own files."""
    activity: dict[tuple[str, int], list[int]] = defaultdict(lambda: [0, 0])
    traffic: dict[tuple[str, int], dict[tuple[str, str], list[int]]] = defaultdict(dict)
    for done in counters.activity:
        place = run.scene.atlas.known(done.location)
        if place is not None:
            total = activity[place.path, place.range.start.line]
            total[0] += done.executions
            total[1] += done.lanes
    for asked in counters.traffic:
        place = run.scene.atlas.known(asked.location)
        if place is None:
            continue
        kind = asked.space, _KINDS[asked.instruction.split(".")[0]]
        sums = traffic[place.path, place.range.start.line].setdefault(kind, [0, 0, 0, 0])
        for index, number in enumerate((asked.requests, asked.bytes, asked.units, asked.least)):
            sums[index] += number
    for key in sorted({*activity, *traffic}):
        asked_here = sorted(traffic[key].items()) if key in traffic else []
        instructions, lanes = activity[key]
        told = tuple(LineTraffic(*kind, *sums) for kind, sums in asked_here)
        yield LineCounters(*key, instructions, lanes, told)


# ---- hints -----------------------------------------------------------------------------------------------------------


def _hints(run: PlanRun, case: Case, counters: KernelCounters, full: float) -> Iterator[Finding]:
    sizes = f" ({', '.join(f'{name} = {size}' for name, size in case.dims.items())})" if case.dims else ""
    for rule, space, words in (
        ("perf/uncoalesced", "global", "moves {:.1f} sectors of 32 bytes where {:.1f} could hold what it asks for"),
        ("perf/bank-conflict", "shared", "takes {:.1f} passes over the banks of shared memory where {:.1f} would do"),
    ):
        for line, traffic in _worst(_wasteful(counters, space), lambda one: one[1].units - one[1].least):
            units, least = traffic.units / traffic.requests, traffic.least / traffic.requests
            message = f"Each {traffic.kind} of a warp {words.format(units, least)}{sizes}."
            data: dict[str, Json] = {"requests": traffic.requests, "bytes": traffic.bytes}
            data |= {"sectors" if space == "global" else "passes": traffic.units, "least": traffic.least}
            yield run.scene.finding(rule, message, _place(run, line), case, case.key.id, data)
    for line in _worst(list(_idle(counters, full)), lambda one: one.instructions * full - one.lanes):
        share = 100 * line.instructions / counters.instructions
        message = (
            f"{line.lanes / line.instructions:.1f} of {full:.0f} lanes work here on average, in {share:.0f} % of the "
            f"kernel's instructions{sizes}."
        )
        data = {"instructions": line.instructions, "lanes": line.lanes}
        yield run.scene.finding("perf/divergence", message, _place(run, line), case, case.key.id, data)


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
    return sorted(found, key=waste, reverse=True)[:_TOLD]


def _place(run: PlanRun, line: LineCounters) -> Place:
    text = run.scene.atlas.text_of(line.path)
    return Place(line.path, statement_range(text or "", line.line, 0))
