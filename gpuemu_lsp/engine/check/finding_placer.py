"""Findings of one plan: their common fields, and the source lines they are placed on."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from gpuemu_lsp.engine.cause import Cause
from gpuemu_lsp.engine.check.case_runner import CaseRunner
from gpuemu_lsp.engine.check.error_map import sketch
from gpuemu_lsp.engine.check.failure_snapshot import MismatchSnapshot
from gpuemu_lsp.engine.event_findings import finding_of
from gpuemu_lsp.engine.execution import Event, Outcome, Watch
from gpuemu_lsp.engine.findings import Finding, Json, Place, Range, Related
from gpuemu_lsp.engine.fuzz.model import Case
from gpuemu_lsp.engine.oracle import ReferenceFailure
from gpuemu_lsp.engine.plan.model import Plan
from gpuemu_lsp.engine.regular_file import file_bytes
from gpuemu_lsp.engine.rules import make
from gpuemu_lsp.engine.subjects.source_map import SourceMap

_STATUS_RULES = {"hung": "sync/hang", "trapped": "sync/trap", "failed": "engine/not-executed"}
_STATUS_TEXTS = {
    "hung": "The launch did not terminate",
    "trapped": "The launch ended with a trap",
    "failed": "The launch failed",
    "unsupported": "The launch reached an unsupported instruction",
}


@dataclass(frozen=True, slots=True)
class FindingFactory:
    """Builds findings with the fields that all findings of one plan share.

    ``config_places`` has the places of the kernel's keys in gpuemu.toml; ``""`` is that of its entry.
    """

    plan: Plan
    arch: str
    source_map: SourceMap
    config_places: Mapping[str, Place] = field(default_factory=dict)
    related: tuple[Related, ...] = ()
    """Further places of every finding of a case."""

    def finding(
        self,
        rule: str,
        message: str,
        place: Place,
        case: Case | None = None,
        case_id: str | None = None,
        data: Mapping[str, Json] | None = None,
    ) -> Finding:
        """Build a finding, of one case if given, with the rule's severity."""
        return self.completed(make(rule, message, place, data=dict(data or {})), case, case_id)

    def completed(self, finding: Finding, case: Case | None = None, case_id: str | None = None) -> Finding:
        """Return a finding with the fields that all findings of the plan, and of a case if given, share."""
        # The id of a drawn case is its seed; that of a minimised one identifies its values.
        minimised = case is not None and case_id not in (None, case.key.id)
        return replace(
            finding,
            kernel=self.plan.kernel,
            arch=self.arch,
            dtype=self.plan.dtype,
            case=case_id,
            dims=dict(case.dims) if case is not None else {},
            data={**finding.data, "seed": case.key.id} if case is not None and minimised else finding.data,
            related=(*finding.related, *self.related) if case_id is not None else finding.related,
        )

    def timed_out(self, reason: str, cause: Cause | None) -> Finding:
        """Build the finding of a kernel whose translation, or launch in an op, took too long, on its name."""
        message = f"'{self.plan.kernel}' was not judged: {reason}."
        return replace(self.finding("engine/timeout", message, self.plan.place), cause=cause)

    def config_place(self, *keys: str) -> Place:
        """Return the place of the first of ``keys`` that gpuemu.toml sets, else the kernel's entry, else the kernel."""
        return next((self.config_places[key] for key in (*keys, "") if key in self.config_places), self.plan.place)

    def reference_failure(self, failure: ReferenceFailure, case: Case | None) -> Finding:
        """Build the finding of a reference that could not be loaded, or that failed on ``case``.

        It is on the line of the script that failed: that is the file to edit, whichever kernels use it.
        """
        registered = self.config_place("reference")
        place = line_place(failure.path, failure.line or 1)
        if place is None:
            return self.finding(failure.rule, failure.message, registered, case)
        found = self.finding(failure.rule, failure.message, place, case)
        return replace(found, related=(Related(registered, f"the reference of '{self.plan.kernel}'"),))


@dataclass(frozen=True, slots=True)
class FindingPlacer:
    """Places what a launch shows on the user's source lines."""

    findings: FindingFactory
    runner: CaseRunner

    def event(self, event: Event, case: Case, case_id: str) -> Finding:
        """Return the finding of a checker's event, on the line of its instruction."""
        if event.rule == "engine/timeout":
            return self.findings.timed_out(event.message, event.cause)
        at = self.runner.source_map(case, self.findings.source_map).place
        sizes = [", ".join(f"{name} = {size}" for name, size in case.dims.items())] if case.dims else []
        strides = case.extra.get(f"stride:{event.buffer}", "")
        sizes += [f"{event.buffer} has the strides {strides.replace(',', ', ')}"] if strides else []
        launch: dict[str, Json] = {"grid": list(case.grid), "launch_block": list(case.block)}
        found = finding_of(event, at, note=f" ({'; '.join(sizes)})" if sizes else "", data=launch, states_sizes=True)
        return self.findings.completed(found, case, case_id)

    def mismatch(self, snapshot: MismatchSnapshot, case_id: str) -> Finding:
        """Return the finding of wrong numbers, on the store that wrote the worst element.

        Nothing in the outputs says who wrote them: the case runs a second time with the element's address watched.
        Launches are deterministic, so the second run writes the same value.
        """
        mismatch, case = snapshot.mismatch, snapshot.case
        place = self.findings.plan.place
        related: tuple[Related, ...] = ()
        data = _mismatch_data(snapshot)
        # An unwritten element has no writer.
        if mismatch.size and mismatch.rule != "numeric/unwritten-output":
            writer = self.runner.run(case, Watch(mismatch.param, mismatch.offset, mismatch.size)).watched
            if writer is not None:
                source_map = self.runner.source_map(case, self.findings.source_map)
                place, inlined_at = source_map.place(writer.location)
                related = (*inlined_at, Related(self.findings.plan.place, f"in '{self.findings.plan.kernel}'"))
                data |= {"thread": list(writer.thread), "block": list(writer.block), "instruction": writer.instruction}
        message = mismatch.message + self._layout_note(snapshot)
        found = self.findings.finding(mismatch.rule, message, place, case, case_id, data)
        severity = mismatch.severity or found.severity
        return replace(found, related=(*related, *found.related), severity=severity, states_sizes=True)

    def _layout_note(self, snapshot: MismatchSnapshot) -> str:
        """Return that the wrong element depends on the strides of the inputs, "" if it does not."""
        mismatch, case = snapshot.mismatch, snapshot.case
        steps = {name.removeprefix("stride:"): text for name, text in case.extra.items() if name.startswith("stride:")}
        code = self.runner.code(case)
        if not steps or mismatch.param in case.tensors or code is None or code.run is None:
            return ""
        element = slice(mismatch.offset, mismatch.offset + mismatch.size)
        outcomes = (code.run(one).buffers.get(mismatch.param) for one in (case, replace(case, extra={})))
        values = [None if data is None else bytes(data[element]) for data in outcomes]
        if values[0] == values[1]:
            return ""
        named = ", ".join(f"{name} [{text.replace(',', ', ')}]" for name, text in steps.items())
        return f". The value depends on the strides of the inputs, here {named}: contiguous inputs give another"

    def status(self, outcome: Outcome, case: Case, case_id: str) -> Finding:
        """Return the finding of a launch that did not complete and has no event, on the kernel."""
        rule = _STATUS_RULES.get(outcome.status, "engine/unsupported-instruction")
        text = _STATUS_TEXTS.get(outcome.status, f"The launch ended with status '{outcome.status}'")
        message = f"{text}: {outcome.printed[-200:]}" if outcome.printed else f"{text}."
        return self.findings.finding(rule, message, self.findings.plan.place, case, case_id)


def line_place(path: str, line: int) -> Place | None:
    """Return the place of the text of a 1-based line of a file; None if the file cannot be read."""
    try:
        lines = file_bytes(path).split(b"\n")
    except OSError:
        return None
    text = lines[line - 1].rstrip() if line <= len(lines) else b""
    start = len(text) - len(text.lstrip())
    return Place(path, Range.of(line - 1, start, line - 1, max(len(text), start + 1)))


def _mismatch_data(snapshot: MismatchSnapshot) -> dict[str, Json]:
    mismatch = snapshot.mismatch
    data: dict[str, Json] = {
        "output": mismatch.param,
        "count": mismatch.count,
        "total": mismatch.total,
        "index": list(mismatch.index),
        "expected": mismatch.expected,
        "actual": mismatch.actual,
        "max_error": mismatch.error,
        "allowed": mismatch.allowed,
        "ulps": mismatch.ulps,
    }
    if len(snapshot.elements) > 1:
        data["elements"] = snapshot.elements
    if mismatch.wrong is not None and mismatch.total > 1:
        data["where"] = sketch(mismatch.wrong)
    return data
