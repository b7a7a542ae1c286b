"""The cases of one plan: run, judge, and place what is wrong on the line that did it."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace

from gpuemu_lsp.engine.check.coverage_guidance import FIRST, CoverageGuidance
from gpuemu_lsp.engine.check.elements import first_elements
from gpuemu_lsp.engine.check.error_map import sketch
from gpuemu_lsp.engine.check.failure_snapshot import MismatchSnapshot
from gpuemu_lsp.engine.check.figures import ErrorStatistics
from gpuemu_lsp.engine.check.finding_placer import FindingFactory, event_finding
from gpuemu_lsp.engine.check.hidden import hidden
from gpuemu_lsp.engine.check.model import CHEAP, DEFAULT_STRATEGY, FIRST_CASES, CaseCount, CheckRequest
from gpuemu_lsp.engine.check.policies.confirm_unoptimized import UnoptimizedConfirmation
from gpuemu_lsp.engine.check.policies.guessed_launch import allowed_for, stopped
from gpuemu_lsp.engine.check.policies.vacuous_reference import ReferenceValues
from gpuemu_lsp.engine.check.replay_store import ReplayStore
from gpuemu_lsp.engine.check.watchdog import deadline
from gpuemu_lsp.engine.execution import Executor, Outcome, Request, Watch
from gpuemu_lsp.engine.findings import Finding, Json, Place, Range, Related, Severity
from gpuemu_lsp.engine.fuzz import cases as draw_cases
from gpuemu_lsp.engine.fuzz import pack_arguments
from gpuemu_lsp.engine.fuzz.model import Case, LaunchHints, PlanError
from gpuemu_lsp.engine.oracle import (
    ComparisonResult,
    JudgingPolicy,
    Mismatch,
    Numerics,
    Reference,
    ReferenceEvaluation,
    ReferenceFailure,
    ReferenceOutput,
    call,
    judge,
)
from gpuemu_lsp.engine.oracle.reference import same_outputs
from gpuemu_lsp.engine.plan.model import Plan
from gpuemu_lsp.engine.source.ignore_comments import IgnoreComments

_STATUS_RULE = {"hung": "sync/hang", "trapped": "sync/trap", "failed": "engine/not-executed"}


@dataclass(slots=True)
class PlanRun:
    """One dtype of one kernel while its cases run. Made by :func:`~gpuemu_lsp.engine.check.plan_setup.open_plan`."""

    request: CheckRequest
    plan: Plan
    scene: FindingFactory
    executor: Executor
    launch: Request
    hints: LaunchHints
    numerics: Numerics
    ignores: IgnoreComments
    memory: ReplayStore
    reference: Reference | None = None
    steering: CoverageGuidance | None = None
    doubt: UnoptimizedConfirmation | None = None
    opening: tuple[Finding, ...] = ()
    count: CaseCount = CaseCount()
    failing: int = 0
    first_failure: int | None = None
    figures: ErrorStatistics = field(default_factory=ErrorStatistics)
    finished: bool = False
    approximate: set[str] = field(default_factory=set)
    timing: dict[str, float] = field(default_factory=dict)
    expectations: ReferenceValues = field(default_factory=ReferenceValues)
    sights: dict[str, MismatchSnapshot] = field(default_factory=dict)
    """What the last look saw, by rule."""
    _seen: set[tuple[str, Severity, str, int]] = field(default_factory=set)
    _work: int = 0
    _replayed: dict[str, ComparisonResult] = field(default_factory=dict)
    _trouble: list[Finding] = field(default_factory=list)

    def cases(self) -> Iterator[tuple[Case, str]]:
        """Yield stored failing cases first, then fresh ones, each with its id."""
        if self.finished:
            return
        replayed = []
        for case, case_id in self.memory.cases():
            replayed.append((case_id, case.dims))
            yield case, case_id
        options = self.request.options
        ordinary = options.strategy == DEFAULT_STRATEGY  # the others are promises about how every case is drawn
        try:
            for index, case in enumerate(draw_cases(self.plan, self.seed, options.most, self.hints, options.strategy)):
                if options.cases is None and index >= FIRST_CASES and self._work > CHEAP:
                    return
                if self.steering is not None and ordinary and index >= FIRST and index % 2:
                    steered = self.steering.draw()
                    if steered is not None:
                        yield steered
                        continue
                if (case.key.id, case.dims) not in replayed:
                    yield case, case.key.id
                elif case.key.id in self._replayed:
                    self.figures.drawn(self._replayed[case.key.id])
        except PlanError as error:
            place = self._toml_place("launch.block", "launch")
            self._trouble.append(self.scene.finding("config/bad-value", str(error), place))

    def expect(self, case: Case) -> ReferenceOutput | None:
        """Ask the reference. What goes wrong there is kept for :meth:`judge` to tell."""
        if self.reference is None:
            return None
        started = time.perf_counter()
        try:
            with deadline(self.request.options.case_seconds):
                expected = call(self.reference, self.plan, case)
                if self.count.run == 0 and not same_outputs(expected, call(self.reference, self.plan, case)):
                    message = (
                        "Two calls with the same inputs gave different results: nothing can be compared with that."
                    )
                    place = self._toml_place("reference")
                    self._trouble.append(self.scene.finding("reference/not-deterministic", message, place, case))
                    self.finished = True
                    return None
        except ReferenceFailure as failure:
            self._trouble.append(self.reference_finding(failure, case))
            self.finished = True
            return None
        finally:
            self._spend("reference", time.perf_counter() - started)
        if expected.low_precision and self.count.run == 0:
            names = ", ".join(expected.low_precision)
            message = f"The reference returns {names} in less than fp64: its own rounding counts against the kernel."
            self._trouble.append(self.scene.finding("reference/low-precision", message, self._toml_place("reference")))
        return expected

    def judge(self, case: Case, case_id: str, expected: ReferenceOutput | None) -> Iterator[Finding]:
        """Run one case and yield what is wrong with it. Each kind of finding is told once per line and dtype."""
        yield from self.trouble()
        if self.finished:
            return
        outcome = self.execute(case)
        found = list(self.look(case, case_id, outcome, expected))
        if outcome.status == "completed":  # a case that did not run to its end is no case that passed
            found = [self.ignores.apply(finding) for finding in found]
        bad = any(finding.severity == "error" for finding in found)
        judged = outcome.status not in ("unsupported", "failed")
        if judged:
            self.count = CaseCount(self.count.run + 1, self.count.passed + (not bad))
        if bad:
            self.failing += 1
            self.first_failure = self.first_failure or self.count.run
            self._keep(case, case_id, found)
        elif judged:
            self.memory.forgive(case_id)
        enough = self.failing >= self.request.options.max_failures
        self.finished = enough or not judged or outcome.status == "hung"  # each further one takes as long
        for finding in found:
            # Where sizes were guessed, one case may only hint at what another shows for certain.
            key = (finding.rule, finding.severity, finding.place.path, finding.place.range.start.line)
            if key not in self._seen:
                self._seen.add(key)
                yield finding

    def closing(self) -> Iterator[Finding]:
        """Yield what can only be said at the end: trouble, and that not one element could be judged."""
        yield from self.trouble()
        ordinary = self.request.options.strategy == DEFAULT_STRATEGY  # others may well draw nothing but NaN
        if ordinary and self.figures.compared and not self.figures.decided and not self.failing:
            message = f"'{self.plan.kernel}' ran, but rounding explains any value of every element: nothing was judged."
            yield self.scene.finding("engine/not-executed", message, self.plan.place)
        why = self.expectations.blind(self.plan) if ordinary and not self.failing else None
        if why is not None:
            yield self.scene.finding("reference/constant", why, self._toml_place("reference"))

    def trouble(self) -> Iterator[Finding]:
        """Yield what went wrong outside the kernel since the last time."""
        pending, self._trouble = self._trouble, []
        yield from pending
        if self.memory.lost is not None:
            lost, self.memory.lost = self.memory.lost, None
            yield lost

    @property
    def told(self) -> frozenset[str]:
        """The rules of everything found so far."""
        return frozenset(rule for rule, *_ in self._seen)

    def execute(self, case: Case, watch: Watch | None = None) -> Outcome:
        """Launch one case."""
        launch = replace(
            self.launch,
            grid=case.grid,
            block=case.block,
            shared_bytes=case.shared_bytes,
            arguments=pack_arguments(self.plan, case),
            watch=watch,
            coverage=self.steering is not None and watch is None,
        )
        outcome = self.executor.run(launch)
        if self.steering is not None and outcome.coverage is not None and self.steering.ledger.add(outcome.coverage):
            self.steering.learn(case)
        self._work += outcome.steps + sum(array.size for array in case.tensors.values())
        self._spend("translate", outcome.translate_ms / 1e3)
        self._spend("execute", outcome.execute_ms / 1e3)
        self.approximate.update(outcome.approximate)
        return outcome

    # ---- what a run shows ---------------------------------------------------------------------------------------

    def look(self, case: Case, case_id: str, outcome: Outcome, expected: ReferenceOutput | None) -> Iterator[Finding]:
        """Yield what a run shows, also what was told before. The case is not counted, and nothing noted as told."""
        self.sights = {}
        guessed = self.plan.inferred and self.reference is None
        found = self._events(case, case_id, outcome, guessed)
        if not self.memory.optimized:
            yield from hidden(found)
            return
        yield from found
        if outcome.status != "completed":
            if not outcome.events:
                finding = self._status_finding(case, case_id, outcome)
                yield stopped(finding) if guessed and outcome.status in ("hung", "trapped") else finding
            return
        if guessed:
            return  # nobody said what its outputs are, nor how large
        numerics = replace(self.numerics, approximate=outcome.approximate)
        spec = self.request.spec
        evaluation = None
        if self.reference is not None and expected is not None:
            evaluation = ReferenceEvaluation(self.reference, self.plan, case, expected, numerics)
        policy = JudgingPolicy(spec.tolerances, self.request.validation, spec.invariants)
        verdict = judge(self.plan, case, outcome, evaluation, policy)
        if expected is not None:
            self.expectations.see(expected)
        self.figures.judged(verdict)
        if expected is not None and self.memory.restored(case_id):
            self._replayed[case_id] = verdict
        elif expected is not None:
            self.figures.drawn(verdict)
        for mismatch in verdict.mismatches:
            elements = first_elements(self.plan, case, outcome, expected, mismatch)
            self.sights.setdefault(
                mismatch.rule, MismatchSnapshot(self.plan, case, outcome, expected, mismatch, elements)
            )
            yield self._numeric_finding(case, case_id, mismatch, elements)

    def _events(self, case: Case, case_id: str, outcome: Outcome, guessed: bool) -> Iterator[Finding]:
        for event in outcome.events:
            if self.doubt is not None and not self.doubt.stands(event, case):
                continue
            finding = event_finding(event, self.scene, case, case_id)
            yield allowed_for(finding, event, self.plan, case) if guessed else finding

    def _numeric_finding(self, case: Case, case_id: str, mismatch: Mismatch, elements: list[Json]) -> Finding:
        """Place a wrong element on the store that wrote it: run the case again with its address watched."""
        place = self.plan.place
        related: tuple[Related, ...] = ()
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
        if len(elements) > 1:
            data["elements"] = elements
        if mismatch.wrong is not None and mismatch.total > 1:
            data["where"] = sketch(mismatch.wrong)
        if mismatch.size and mismatch.rule != "numeric/unwritten-output":
            writer = self.execute(case, Watch(mismatch.param, mismatch.offset, mismatch.size)).watched
            if writer is not None:
                place, chain = self.scene.atlas.place(writer.location)
                related = (*chain, Related(self.plan.place, f"in '{self.plan.kernel}'"))
                data |= {"thread": list(writer.thread), "block": list(writer.block), "instruction": writer.instruction}
        return self.scene.finding(
            mismatch.rule, mismatch.message, place, case, case_id, data, related, mismatch.severity
        )

    def _status_finding(self, case: Case, case_id: str, outcome: Outcome) -> Finding:
        rule = _STATUS_RULE.get(outcome.status, "engine/unsupported-instruction")
        message = f"The launch ended as '{outcome.status}'" + (
            f": {outcome.printed[-200:]}" if outcome.printed else "."
        )
        return self.scene.finding(rule, message, self.plan.place, case, case_id)

    def reference_finding(self, failure: ReferenceFailure, case: Case | None) -> Finding:
        """Return what a reference that could not be loaded, or failed on ``case``, is told as."""
        place = self._toml_place("reference")
        related: tuple[Related, ...] = ()
        if failure.line is not None:
            there = Place(failure.path, Range.of(failure.line - 1, 0, failure.line - 1, 1))
            related = (Related(there, "raised here"),)
        return self.scene.finding(failure.rule, failure.message, place, case, related=related)

    # ---- small things -------------------------------------------------------------------------------------------

    @property
    def seed(self) -> int:
        """The master seed of the fresh cases: the user's, else the configured one."""
        options, configured = self.request.options, self.request.validation.seed
        return options.seed if options.seed_given or configured is None else configured

    def _keep(self, case: Case, case_id: str, found: list[Finding]) -> None:
        finding = next(finding for finding in found if finding.severity == "error")
        steered = None if self.steering is None else self.steering.told.get(case_id)
        self.memory.keep(case, case_id, finding, self.sights.get(finding.rule), steered)

    def _toml_place(self, *keys: str) -> Place:
        places: Mapping[str, Place] = self.request.spec.places
        return next((places[key] for key in (*keys, "") if key in places), self.plan.place)

    def _spend(self, stage: str, seconds: float) -> None:
        self.timing[stage] = self.timing.get(stage, 0.0) + seconds * 1e3
