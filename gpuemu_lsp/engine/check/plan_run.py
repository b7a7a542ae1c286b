"""One dtype of one kernel while its cases run.

A :class:`~.case_source.CaseSource` draws cases, a :class:`~.case_runner.CaseRunner` launches them, a
:class:`~.case_judge.CaseJudge` compares results, a :class:`~.finding_placer.FindingPlacer` places what is wrong.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from gpuemu_lsp.engine.check.case_judge import CaseJudge
from gpuemu_lsp.engine.check.case_runner import CaseRunner
from gpuemu_lsp.engine.check.case_source import CaseSource
from gpuemu_lsp.engine.check.causes.attribution import attributed, folded
from gpuemu_lsp.engine.check.causes.consequences import CauseAnalysis
from gpuemu_lsp.engine.check.claims import claim, in_part, is_judged, is_refusal
from gpuemu_lsp.engine.check.clean_sizes import Sizes
from gpuemu_lsp.engine.check.dependences import Dependences
from gpuemu_lsp.engine.check.failing_thread.line_values import line_values
from gpuemu_lsp.engine.check.failure_snapshot import MismatchSnapshot
from gpuemu_lsp.engine.check.finding_placer import FindingFactory, FindingPlacer
from gpuemu_lsp.engine.check.model import CaseCount, StartedCase
from gpuemu_lsp.engine.check.policies.autotuned_launches import autotuned_launches
from gpuemu_lsp.engine.check.policies.confirm_unoptimized import claims_of_unoptimized
from gpuemu_lsp.engine.check.policies.declared_sizes import sizes_not_run
from gpuemu_lsp.engine.check.recordings.outputs import changed_outputs
from gpuemu_lsp.engine.check.reference_calls import ReferenceCaller
from gpuemu_lsp.engine.check.replay_store import ReplayStore
from gpuemu_lsp.engine.check.reported_findings import ReportedFindings
from gpuemu_lsp.engine.execution import Event, Outcome
from gpuemu_lsp.engine.findings import Finding, Severity
from gpuemu_lsp.engine.fuzz import cases as draw_cases
from gpuemu_lsp.engine.fuzz.model import Case, LaunchHints, PlanError
from gpuemu_lsp.engine.oracle import Mismatch, ReferenceOutput
from gpuemu_lsp.engine.plan.model import Plan
from gpuemu_lsp.engine.source.ignore_comments import IgnoreComments
from gpuemu_lsp.engine.subjects.model import CodeError
from gpuemu_lsp.engine.subjects.request import DEFAULT_STRATEGY, CheckRequest

_MOST_RECORDED = 8
"""Findings of a dtype whose values are recorded: each takes a translation and a launch."""
_CONTROL_CASES = 4
"""Drawn cases that are tried to find one in which the outputs are right."""


@dataclass(frozen=True, slots=True)
class PlanContext:
    """Inputs that all cases of one plan share and no case changes."""

    request: CheckRequest
    plan: Plan
    hints: LaunchHints
    ignores: IgnoreComments
    findings: FindingFactory

    @property
    def seed(self) -> int:
        """The master seed of drawn cases: the user's if given, else that of gpuemu.toml, else the default."""
        options, configured = self.request.options, self.request.validation.seed
        return options.seed if options.seed_given or configured is None else configured


@dataclass(slots=True)
class RunProgress:
    """Counts of a plan's cases. ``first_failure`` is the 1-based number of the first failing case.

    ``refused`` counts those whose sizes the kernel refuses. ``clean`` has the sizes of those without findings, and
    ``assumed`` of those whose findings rest on assumed sizes.
    """

    count: CaseCount = CaseCount()
    failing: int = 0
    first_failure: int | None = None
    refused: int = 0
    clean: list[Sizes] = field(default_factory=list)
    assumed: list[Sizes] = field(default_factory=list)

    def add(
        self, sizes: Sizes, *, judged: bool, failed: bool, refused: bool = False, informations: bool = False
    ) -> None:
        """Add a case. One that reached an unsupported instruction is not judged, and may have failed before."""
        self.refused += refused
        passed = judged and not failed and not refused
        if passed:
            (self.assumed if informations else self.clean).append(sizes)
        if judged:
            self.count = CaseCount(self.count.run + 1, len(self.clean) + len(self.assumed), len(self.assumed))
        if failed:
            self.failing += 1
            self.first_failure = self.first_failure or self.count.run


@dataclass(slots=True)
class PlanRun:
    """Runs the cases of one plan. Made by :func:`~gpuemu_lsp.engine.check.plan_setup.open_plan`.

    ``finished`` is True once no further case is to run. ``snapshots`` has, by rule, the mismatches of the launch that
    was examined last. ``opening`` are findings that precede all cases. ``not_run`` is the reason why the last case did
    not run, if it did not.
    """

    context: PlanContext
    source: CaseSource
    runner: CaseRunner
    reference: ReferenceCaller
    judge: CaseJudge
    placer: FindingPlacer
    store: ReplayStore
    opening: tuple[Finding, ...] = ()
    progress: RunProgress = field(default_factory=RunProgress)
    finished: bool = False
    not_run: str = ""
    snapshots: dict[str, MismatchSnapshot] = field(default_factory=dict)
    reported: ReportedFindings = field(default_factory=ReportedFindings)
    _pending: list[Finding] = field(default_factory=list)
    _controls: Iterator[Case] | None = None
    _refused: dict[tuple[str, int], Finding] = field(default_factory=dict)
    """Hints about sizes that the kernel refuses, by place; what they say depends on the other cases."""
    _recorded: int = 0
    _dependences: Dependences | None = None

    @property
    def plan(self) -> Plan:
        """The plan whose cases run."""
        return self.context.plan

    @property
    def timing(self) -> dict[str, float]:
        """Milliseconds by stage."""
        return {**self.reference.timing, **self.runner.timing}

    def cases(self) -> Iterator[tuple[Case, str]]:
        """Yield the cases to run, each with its id."""
        if self.finished:
            return
        try:
            for drawn in self.source.cases():
                if drawn.repeated:
                    self.judge.count_repeated(drawn.id)
                else:
                    yield drawn.case, drawn.id
        except PlanError as error:
            place = self.context.findings.config_place("launch.block", "launch")
            self._pending.append(self.context.findings.finding("config/bad-value", str(error), place))

    def started(self, case: Case, case_id: str) -> StartedCase:
        """Return what the main process stores of a case that ends this one."""
        key, dims = case.key, dict(case.dims)
        kept = self.store.replayed(case_id)
        return StartedCase(case_id, self.plan.dtype, key.strategy, dims, key.dims and dict(key.dims), kept)

    def expect(self, case: Case) -> ReferenceOutput | None:
        """Call the reference; its findings are reported by :meth:`check` or :meth:`problems`."""
        called = self.reference.expect(case)
        self._pending += called.findings
        self.finished = self.finished or called.failed
        return called.output

    def check(self, case: Case, case_id: str, expected: ReferenceOutput | None) -> Iterator[Finding]:
        """Run one case, yield what is wrong with it, and update the store.

        A finding is reported once per rule, severity and line, and again when more is known: a simpler case,
        consequences, recorded values.
        """
        yield from self.problems()
        if self.finished:
            return
        try:
            outcome = self.runner.run(case)
        except CodeError as error:
            yield from error.findings
            # Other cases would fail alike. An autotuner's configuration that does not fit has no finding.
            self.finished = bool(error.findings)
            return
        found = list(self.examine(case, case_id, outcome, expected))
        # An ignore comment silences a finding, but it cannot make a case pass that did not run to completion.
        if self.plan.recorded is not None and self.store.optimized and not any(map(_is_error, found)):
            found += changed_outputs(self.plan, case, case_id, outcome, self.placer)
        if outcome.status == "completed":
            found = [self.context.ignores.apply(finding) for finding in found]
        judged = outcome.status not in ("unsupported", "failed")
        if outcome.status == "failed":
            self.not_run = next((event.message for event in outcome.events), "")
        # A case is not to blame for the time that translation takes, and is not stored.
        failed = any(_is_error(finding) and finding.rule != "engine/timeout" for finding in found)
        refused = [finding for finding in found if is_refusal(finding)]
        found = [finding for finding in found if finding not in refused]
        for finding in refused:
            self._refused.setdefault((finding.place.path, finding.place.range.start.line), finding)
        informations = any(map(_is_information, found))
        self.progress.add(case.dims, judged=judged, failed=failed, refused=bool(refused), informations=informations)
        self.reference.verified = self.reference.verified or judged
        if failed:
            self._record(case, case_id, found)
        elif judged:
            self._mark_passed(case_id, refused=bool(refused))
        most = self.context.request.options.max_failures
        enough = self.progress.failing >= most and not self.source.search_is_longer()
        # All stored cases run, so that an error of the last check is not missing; after a hang none that may hang too.
        hung = outcome.status == "hung" and not (refused and self.source.goes_on_smaller(case))
        self.finished = not judged or hung or (enough and self.store.all_replayed(case_id))
        for finding in found:
            shown = self.reported.add(finding, self._order)
            if shown is not None:
                yield shown
                # After the finding itself: recording takes as long as the check of a small kernel.
                recorded = self.with_values(shown, case) if shown.case == case_id else shown
                if recorded is not shown:
                    self.reported.update(recorded)
                    yield recorded

    def with_values(self, finding: Finding, case: Case) -> Finding:
        """Return an error of ``case`` with the values of its thread at its line, if they can be recorded in time."""
        # Two launches.
        seconds = 2 * self.runner.launch.max_seconds
        if not _is_error(finding) or self._recorded == _MOST_RECORDED or self.runner.deadline.has_passed(seconds):
            return finding
        self._recorded += 1
        source_map = self.runner.source_map(case, self.context.findings.source_map)
        values = line_values(self.runner, case, finding, source_map)
        return replace(finding, data={**finding.data, "values": values}) if values else finding

    def _order(self, finding: Finding) -> tuple[bool, int]:
        """Return the key of the order in which the store replays cases: the next check shows the same case."""
        return not self.store.minimised(finding.case), math.prod(finding.dims.values())

    def examine(
        self, case: Case, case_id: str, outcome: Outcome, expected: ReferenceOutput | None, attribute: bool = True
    ) -> Iterator[Finding]:
        """Return everything a launch shows, including what was reported before; nothing is counted or stored.

        Without ``attribute`` consequences are findings of their own, which takes fewer launches.
        """
        self.snapshots = {}
        guessed = self.plan.inferred and self.judge.reference is None
        found = list(self._events(case, case_id, outcome))
        if not self.store.optimized:
            yield from claims_of_unoptimized(finding for _, finding in found)
            return
        if attribute:
            # What a comment suppresses hides nothing that follows from it.
            standing = [event for event, finding in found if _is_error(self.context.ignores.apply(finding))]
            analysis = CauseAnalysis(self.runner, self.judge, case, outcome, expected, standing, self._right_outputs)
            if outcome.status == "completed":
                # Which tensors are outputs, and how large they are, may be guessed.
                mismatches = () if guessed else self._mismatches(case, case_id, outcome, expected)
                yield from attributed(
                    analysis, found, mismatches, lambda one: self._placed(case, case_id, outcome, expected, one)
                )
                return
            yield from folded(analysis, found)
        else:
            yield from (finding for _, finding in found)
        if outcome.status != "completed":
            if not outcome.events:
                yield from self._claimed(self.placer.status(outcome, case, case_id), case)
            return
        # Which tensors are outputs, and how large they are, was guessed too.
        if guessed:
            return
        for mismatch in self._mismatches(case, case_id, outcome, expected):
            yield from self._placed(case, case_id, outcome, expected, mismatch)

    def _mismatches(
        self, case: Case, case_id: str, outcome: Outcome, expected: ReferenceOutput | None
    ) -> tuple[Mismatch, ...]:
        stored_id = case_id if self.store.replayed(case_id) else None
        found = self.judge.compare(case, outcome, expected, stored_id).mismatches
        return tuple(one for one in found if is_judged(one, self.plan.facts))

    def _right_outputs(self) -> set[str]:
        """Return the outputs that are right in some case, of which the first drawn ones are tried if none is known.

        They are tried whatever has run before: else a stored case would be explained differently from a drawn one.
        """
        if self._controls is None:
            context, options = self.context, self.context.request.options
            self._controls = draw_cases(self.plan, context.seed, _CONTROL_CASES, context.hints, options.strategy)
        for case in () if self.judge.right_outputs else self._controls:
            expected = self.reference.expect(case).output
            try:
                outcome = self.runner.repeat(case, self.runner.launch_of(case))
            except CodeError:
                continue
            if expected is not None and outcome.status == "completed":
                self.judge.recompare(case, outcome, expected)
            if self.judge.right_outputs:
                break
        return self.judge.right_outputs

    def _placed(
        self, case: Case, case_id: str, outcome: Outcome, expected: ReferenceOutput | None, mismatch: Mismatch
    ) -> Iterator[Finding]:
        snapshot = MismatchSnapshot.of(self.plan, case, outcome, expected, mismatch)
        self.snapshots.setdefault(mismatch.rule, snapshot)
        unwritten = mismatch.param if mismatch.rule == "numeric/unwritten-output" else None
        return self._claimed(self.placer.mismatch(snapshot, case_id), case, unwritten)

    def _claimed(self, finding: Finding, case: Case, unwritten: str | None = None) -> Iterator[Finding]:
        """Yield a finding that is not about one access, as far as it may be claimed."""
        claimed = claim(finding, None, case, self._dependences_of(case), unwritten)
        if claimed is not None:
            yield claimed

    def _events(self, case: Case, case_id: str, outcome: Outcome) -> Iterator[tuple[Event, Finding]]:
        for event in self.judge.events(case, outcome):
            claimed = claim(self.placer.event(event, case, case_id), event, case, self._dependences_of(case))
            if claimed is not None:
                yield event, claimed

    def _dependences_of(self, case: Case) -> Dependences:
        if self._dependences is None:
            # A program whose host code launches a kernel has one code for all cases.
            names = tuple(argument.name for argument in self.runner.arguments(case))
            self._dependences = Dependences(self.plan, self.runner.launch_of(case), names)
        return self._dependences

    def _mark_passed(self, case_id: str, *, refused: bool) -> None:
        if not refused:
            self.store.mark_passed(case_id)

    def _record(self, case: Case, case_id: str, found: list[Finding]) -> None:
        finding = next(filter(_is_error, found))
        guidance = self.runner.guidance
        planted = None if guidance is None else guidance.failures.get(case_id)
        self.store.record(case, case_id, finding, self.snapshots.get(finding.rule), planted)

    def repeated(self) -> Iterator[Finding]:
        """Yield what a second launch shows of a kernel that an autotuner launches repeatedly, if it has no error."""
        context = self.context
        if self.progress.count.run and not self.progress.failing:
            options = context.request.options
            drawn = draw_cases(self.plan, context.seed, options.most, context.hints, options.strategy)
            yield from autotuned_launches(self.runner, context.findings, drawn)

    def closing(self) -> Iterator[Finding]:
        """Yield what is known only after the last case: pending problems, and that nothing could be verified."""
        yield from self.problems()
        cases = self.progress.count.run
        for finding in self._refused.values():
            yield in_part(finding, cases - self.progress.refused, cases)
        if self.reference.changes is not None:
            # References that compute in place on their copies are right: then a changed input makes no difference.
            severity = Severity.WARNING if self.progress.failing else Severity.HINT
            yield replace(self.reference.changes, severity=severity)
        # Other strategies may draw nothing but NaN on purpose.
        if self.context.request.options.strategy != DEFAULT_STRATEGY or self.progress.failing:
            return
        findings = self.context.findings
        if self.judge.verified_nothing:
            message = (
                f"'{self.plan.kernel}' ran, but the error budget exceeds the value range of every output element, so "
                "the result could not be verified."
            )
            yield findings.finding("engine/not-executed", message, self.plan.place)
        yield from sizes_not_run(self.plan, [*self.progress.clean, *self.progress.assumed], findings)
        vacuous = self.judge.reference_values.vacuous(self.plan)
        if vacuous is not None:
            yield findings.finding("reference/constant", vacuous, findings.config_place("reference"))

    def problems(self) -> Iterator[Finding]:
        """Yield what went wrong outside the kernel since the last call: with the reference, the plan or the store."""
        pending, self._pending = self._pending, []
        yield from pending
        if self.store.problem is not None:
            problem, self.store.problem = self.store.problem, None
            yield problem


def _is_information(finding: Finding) -> bool:
    return finding.severity is Severity.INFORMATION


def _is_error(finding: Finding) -> bool:
    return finding.severity is Severity.ERROR
