"""Launches of a session, what was found in them, and how findings are reported: the same for every front end."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Literal, TypeAlias

from gpuemu_lsp.engine.compile.model import Artifact
from gpuemu_lsp.engine.event_findings import finding_of, slow_launch
from gpuemu_lsp.engine.execution import Event, Request
from gpuemu_lsp.engine.findings import Finding, Json, Place, Range, Severity
from gpuemu_lsp.engine.ptx.parser import parse
from gpuemu_lsp.engine.subjects.source_map import SourceMap

OnFinding: TypeAlias = Literal["raise", "warn", "collect"]
DEFAULT_ARCH = "sm_80"
DEFAULT_SECONDS = 60.0


class KernelError(RuntimeError):
    """A launch in which a checker found an error, or that did not run to its end; ``findings`` has what was found."""

    def __init__(self, findings: tuple[Finding, ...], message: str = "") -> None:
        super().__init__("\n".join(filter(None, [message, *map(sentence, findings)])))
        self.findings = findings


@dataclass(frozen=True, slots=True)
class LaunchRecord:
    """One launch: the kernel, its grid, its result and the milliseconds of translation and execution.

    ``artifact`` has the PTX, ``approximate`` the executed instructions with a documented maximum error: the error
    budget of the results follows from both.
    """

    kernel: str
    grid: tuple[int, int, int]
    threads: int
    status: str
    translate_ms: float
    execute_ms: float
    findings: tuple[Finding, ...]
    artifact: Artifact
    approximate: tuple[str, ...] = ()


def distinct_findings(launches: Iterable[LaunchRecord]) -> tuple[Finding, ...]:
    """Return the findings of all launches, in the order in which they were made; each rule once per line."""
    found: dict[tuple[str, object], Finding] = {}
    for record in launches:
        for finding in record.findings:
            found.setdefault((finding.rule, finding.place), finding)
    return tuple(found.values())


def report(record: LaunchRecord, on_finding: OnFinding) -> None:
    """Raise or warn, as ``on_finding`` says.

    Findings of a lower severity than error raise only if the launch did not run to its end: its results are not those
    of the kernel.

    Raises
    ------
    KernelError
        If there is an error, or the launch did not complete, and ``on_finding`` is ``raise``.
    """
    if on_finding == "raise":
        raise_errors([record])
    if on_finding != "collect":
        for finding in record.findings:
            warnings.warn(sentence(finding), stacklevel=4)


def raise_errors(launches: Iterable[LaunchRecord]) -> None:
    """Raise if a launch has an error or did not run to its end.

    Raises
    ------
    KernelError
        With the errors of the first such launch.
    """
    for record in launches:
        errors = tuple(finding for finding in record.findings if finding.severity is Severity.ERROR)
        if errors:
            raise KernelError(errors)
        if record.status != "completed":
            message = f"the launch of `{record.kernel}` did not run to its end: {record.status}"
            raise KernelError(record.findings, message)


def sentence(finding: Finding) -> str:
    """Return a finding as one line: place, message and rule."""
    start = finding.place.range.start
    return f"{finding.place.path}:{start.line + 1}:{start.column + 1}: {finding.message} [{finding.rule}]"


def findings_of(
    request: Request,
    events: Iterable[Event],
    text_of: Callable[[str], str | None],
    fallback: Place | None = None,
    *,
    threads: bool = True,
    kernel: str = "",
) -> tuple[Finding, ...]:
    """Return events of a launch as findings on lines of the user's files, each rule once per line and buffer.

    ``text_of`` returns the text of a file, None if it is not the user's. Events without a line of the user's are placed
    at ``fallback``, by default the head of the first file of the user's. ``threads`` False is for languages whose
    kernels are programs without threads: data names the program in place of block and thread. ``kernel`` is its name in
    the source, by default that of the entry.
    """
    events = tuple(slow_launch(event, math.prod(request.grid), request.max_seconds) for event in events)
    if not events:
        return ()
    files = parse(request.artifact.ptx).files
    if fallback is None:
        fallback = Place(next(iter(filter(text_of, files.values())), ""), Range.of(0, 0, 0, 1))
    source_map = SourceMap(files, text_of, fallback)
    launch = {"grid": list(request.grid)}
    return tuple(
        _merged(
            finding_of(
                event,
                source_map.place,
                threads=threads,
                kernel=kernel or request.entry,
                arch=request.artifact.arch,
                data=launch,
            )
            for event in events
        )
    )


def _merged(findings: Iterable[Finding]) -> Iterable[Finding]:
    """Return the findings, each rule once per line and buffer: one line is many instructions."""
    kept: dict[tuple[str, str, int, Json], Finding] = {}
    for finding in findings:
        key = finding.rule, finding.place.path, finding.place.range.start.line, finding.data.get("buffer")
        known = kept.get(key)
        if known is None:
            kept[key] = finding
        else:
            counts = (known.data.get("count"), finding.data.get("count"))
            total = sum(count for count in counts if isinstance(count, int))
            # A pair of accesses may be a warning on a line on which another pair is an error.
            worse = finding if finding.severity is Severity.ERROR is not known.severity else known
            kept[key] = replace(worse, data={**worse.data, "count": total})
    return kept.values()
