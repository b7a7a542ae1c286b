"""Stored verdicts: what of a check is stored, and its form for a later text with the same code."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from gpuemu_lsp.engine.check.model import KernelReport
from gpuemu_lsp.engine.check.plan_run import PlanRun
from gpuemu_lsp.engine.check.verdicts.anchors import AnchoredFinding, Anchoring
from gpuemu_lsp.engine.check.verdicts.sites import CodeSites
from gpuemu_lsp.engine.compile.toolchain import ToolchainError
from gpuemu_lsp.engine.findings import Finding
from gpuemu_lsp.engine.ptx import parse
from gpuemu_lsp.engine.ptx.slicing import code_identity
from gpuemu_lsp.engine.subjects.language import PreparedKernel
from gpuemu_lsp.engine.subjects.request import CheckRequest

_UNREPEATABLE = (
    *("engine/timeout", "engine/worker-crashed", "engine/internal-error", "engine/no-gpu", "engine/not-stored"),
    *("reference/error", "reference/not-deterministic", "numeric/nondeterministic", "sync/hang"),
)
"""Rules of checks that may end differently when repeated: by a time limit, an environment, a random number."""


@dataclass(frozen=True, slots=True)
class StoredVerdict:
    """The result of a kernel's launches, without what is computed at every check.

    ``files`` are digests of the files that the reference read, by path. ``notes`` are those of the plans, which
    messages quote. ``line_structure`` says which instructions share a line, ``lines`` are the lines of all source
    locations in the order of sites. ``by_line``: the result depends on them. ``unoptimized`` is the identity of the
    unoptimised code that confirmed findings, None if none was needed.
    """

    findings: tuple[AnchoredFinding, ...]
    report: KernelReport
    files: Mapping[str, str]
    notes: tuple[tuple[str, ...], ...]
    line_structure: str
    by_line: bool
    lines: tuple[tuple[str, int], ...] = ()
    unoptimized: str | None = None

    def moved_to(self, findings: Sequence[Finding]) -> StoredVerdict:
        """Return the verdict with its findings on the places of ``findings``, which were restored from it."""
        pairs = zip(self.findings, findings, strict=True)
        moved = (replace(old, finding=replace(old.finding, place=new.place)) for old, new in pairs)
        return replace(self, findings=tuple(moved))


@dataclass(frozen=True)
class VerdictContext:
    """A prepared kernel that compiled and has a plan, with the sites of its code."""

    request: CheckRequest
    prepared: PreparedKernel

    @cached_property
    def sites(self) -> CodeSites:
        """The sites of the kernel's code. Most verdicts need none, and parsing the PTX takes longest."""
        assert self.prepared.artifact is not None
        module = parse(self.prepared.artifact.ptx)
        return CodeSites.of(module, self.prepared.source_map(module, self.prepared.plans[0]))

    def stored(
        self, runs: Sequence[PlanRun], findings: Sequence[Finding], report: KernelReport, files: Mapping[str, str]
    ) -> StoredVerdict | None:
        """Return the verdict of a finished check, None if it cannot be stored."""
        anchoring = Anchoring(self.request, self.prepared, lambda: self.sites, files)
        anchored = [anchoring.anchored(finding) for finding in findings]
        kept = tuple(one for one in anchored if one is not None)
        confirmed = any(run.judge.confirmation is not None and run.judge.confirmation.used for run in runs)
        unoptimized = self._unoptimized_identity() if confirmed else None
        if len(kept) < len(anchored) or (confirmed and unoptimized is None):
            return None
        return StoredVerdict(
            findings=kept,
            report=replace(report, resources={}, timing_ms={}, coverage=()),
            files=files,
            notes=self._notes,
            line_structure=self.sites.line_structure,
            by_line=confirmed or bool(report.counters) or any(run.reported.merged for run in runs),
            lines=tuple(self.sites.lines()) if report.counters else (),
            unoptimized=unoptimized,
        )

    def restored(self, verdict: StoredVerdict) -> tuple[tuple[Finding, ...], KernelReport] | None:
        """Return a stored verdict's findings and report for this text, None if it does not determine them."""
        if verdict.by_line and verdict.line_structure != self.sites.line_structure:
            return None
        if verdict.unoptimized is not None and verdict.unoptimized != self._unoptimized_identity():
            return None
        anchoring = Anchoring(self.request, self.prepared, lambda: self.sites)
        findings = [anchoring.placed(one) for one in verdict.findings]
        placed = tuple(finding for finding in findings if finding is not None)
        if len(placed) < len(findings):
            return None
        return tuple(self._quoting(verdict, placed)), self._moved(verdict)

    def _quoting(self, verdict: StoredVerdict, findings: Sequence[Finding]) -> Iterator[Finding]:
        """Yield findings whose messages quote this plan's notes, such as the line of a launch, not the stored one's."""
        pairs = zip(verdict.notes, self._notes, strict=False)
        changed = [(old, new) for before, after in pairs for old, new in zip(before, after, strict=False) if old != new]
        for finding in findings:
            message = finding.message
            for old, new in changed:
                message = message.replace(old, new)
            yield replace(finding, message=message)

    def _moved(self, verdict: StoredVerdict) -> KernelReport:
        """Return the report with its counters on the lines of this text."""
        moved = dict(zip(verdict.lines, self.sites.lines(), strict=False)) if verdict.lines else {}
        counters = []
        for one in verdict.report.counters:
            places = [moved.get((line.path, line.line), (line.path, line.line)) for line in one.lines]
            lines = [replace(line, path=path, line=row) for line, (path, row) in zip(one.lines, places, strict=True)]
            counters.append(replace(one, lines=tuple(lines)))
        return replace(verdict.report, counters=tuple(counters), reused=True)

    @property
    def _notes(self) -> tuple[tuple[str, ...], ...]:
        plans = ((plan, plan.alternative) for plan in self.prepared.plans)
        return tuple(tuple(note for one in pair if one is not None for note in one.notes) for pair in plans)

    def _unoptimized_identity(self) -> str | None:
        try:
            artifact = self.prepared.without_optimization().artifact
        except ToolchainError:
            return None
        return None if artifact is None else code_identity(artifact.ptx, sorted(artifact.entries.values()))


def is_repeatable(runs: Sequence[PlanRun], findings: Sequence[Finding], cut_short: bool) -> bool:
    """Return whether the same check would have the same result; ``cut_short`` is True if a time limit ended it."""
    ran = bool(runs) and all(run.progress.count.run for run in runs)
    on_emulator = all(run.runner.executor.name == "emulator" for run in runs)
    return ran and on_emulator and not cut_short and not any(finding.rule in _UNREPEATABLE for finding in findings)
