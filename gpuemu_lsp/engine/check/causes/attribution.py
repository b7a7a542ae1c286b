"""Findings of one launch, each with its consequences."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace

from gpuemu_lsp.engine.check.causes.consequences import MAY_BE_LATE, RACE, CauseAnalysis, is_race
from gpuemu_lsp.engine.check.causes.discarded_reads import as_discarded, discarded_reads
from gpuemu_lsp.engine.execution import Event
from gpuemu_lsp.engine.findings import Finding, Json, Role, Severity
from gpuemu_lsp.engine.oracle import Mismatch
from gpuemu_lsp.engine.oracle.mismatch import undefined_message
from gpuemu_lsp.engine.same_mistake import each_once, earlier_of_same_mistake


def attributed(
    analysis: CauseAnalysis,
    found: Sequence[tuple[Event, Finding]],
    mismatches: Sequence[Mismatch],
    place: Callable[[Mismatch], Iterable[Finding]],
) -> Iterator[Finding]:
    """Yield the findings of a completed launch in the order of their events, then independent mismatches.

    ``found`` has the events and their findings, ``mismatches`` what the comparison of the outputs shows; ``place``
    returns the finding of a mismatch, or none.
    """
    race = _first(found, analysis.races)
    late = [] if race is None else _late(found, analysis)
    read = _first(found, [event for event in analysis.reads if event not in late])
    following: dict[int, list[Finding]] = {number: [] for number in range(len(found))}
    if race is not None:
        following[race] += (finding for event, finding in found if event in late)
    same = _of_same_mistake(found, analysis, late)
    for number, cause_number in same.items():
        following[cause_number].append(found[number][1])
    attribution = analysis.attribute(mismatches)
    independent = [finding for one in attribution.independent for finding in place(one)]
    for group, ones in attribution.by_cause.items():
        cause = race if group == RACE else read
        placed = [
            _undefined(finding, one) if analysis.is_undefined(one) else finding
            for one in ones
            for finding in place(one)
        ]
        (independent if cause is None else following[cause]).extend(placed)
    alone: list[Finding] = []
    for finding in independent:
        store = _racing_store(analysis, finding, found)
        (alone if store is None else following[store]).append(finding)
    discarded = [] if mismatches else discarded_reads(analysis)
    for number, (event, finding) in enumerate(found):
        if event in discarded:
            yield as_discarded(finding)
        elif event not in late and number not in same:
            yield replace(finding, consequences=each_once(following[number]))
    yield from alone


def folded(analysis: CauseAnalysis, found: Sequence[tuple[Event, Finding]]) -> Iterator[Finding]:
    """Yield the findings of a launch that did not run to completion, each with those that show its mistake."""
    same = _of_same_mistake(found, analysis)
    for number, (_, finding) in enumerate(found):
        if number not in same:
            consequences = each_once(found[other][1] for other, cause in same.items() if cause == number)
            yield replace(finding, consequences=consequences) if consequences else finding


def _late(found: Sequence[tuple[Event, Finding]], analysis: CauseAnalysis) -> list[Event]:
    """Return the events that occur only because of a race."""
    return [event for event, _ in found if event.rule in MAY_BE_LATE and analysis.is_late(event)]


def _of_same_mistake(
    found: Sequence[tuple[Event, Finding]], analysis: CauseAnalysis, late: Sequence[Event] = ()
) -> dict[int, int]:
    """Return the number of the error whose mistake each other one shows, of those that are not ``late``."""
    standing = [number for number, (event, _) in enumerate(found) if event in analysis.causes and event not in late]
    if len(standing) < 2:
        return {}
    same = earlier_of_same_mistake([found[number][0] for number in standing])
    return {standing[number]: standing[earlier] for number, earlier in same.items()}


def _first(found: Sequence[tuple[Event, Finding]], events: Sequence[Event]) -> int | None:
    return next((number for number, (event, _) in enumerate(found) if event in events), None)


def _undefined(finding: Finding, mismatch: Mismatch) -> Finding:
    """Return the finding of an element without a defined value: the emulator's filler is not a result."""
    elements = finding.data.get("elements")
    data: dict[str, Json] = {**finding.data, "actual": None, "max_error": None, "ulps": None}
    if isinstance(elements, list):
        data["elements"] = [{**one, "actual": None} if isinstance(one, dict) else one for one in elements]
    return replace(finding, message=undefined_message(mismatch, finding.dims), data=data)


def _racing_store(analysis: CauseAnalysis, mismatch: Finding, found: Sequence[tuple[Event, Finding]]) -> int | None:
    """Return the race of the store that wrote the worst element, if the output has been right in another case."""
    output = mismatch.data.get("output")
    if not analysis.races or mismatch.severity is not Severity.ERROR or output not in analysis.right_outputs():
        return None
    for number, (event, finding) in enumerate(found):
        places = (finding.place, *(one.place for one in finding.related if one.role is Role.OTHER_ACCESS))
        if event in analysis.causes and is_race(event) and event.buffer == output and mismatch.place in places:
            return number
    return None
