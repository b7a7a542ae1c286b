"""Stored failing cases of one plan: replayed first, updated by each check, marked as fixed when they pass."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from gpuemu_lsp.engine.check.failure_snapshot import MismatchSnapshot, stored_snapshot
from gpuemu_lsp.engine.findings import Finding, Place, Range
from gpuemu_lsp.engine.fuzz import rebuild
from gpuemu_lsp.engine.fuzz.model import Case, LaunchHints, PlanError
from gpuemu_lsp.engine.fuzz.size_classes import allows
from gpuemu_lsp.engine.plan.model import Plan
from gpuemu_lsp.engine.project.model import DimSpec
from gpuemu_lsp.engine.recordings.cases import strategy_parts
from gpuemu_lsp.engine.rules import make
from gpuemu_lsp.engine.store import Failure, Store, StoreError, restored

_REPLAYED = 8
"""Stored cases of a kernel and dtype that a check replays."""


@dataclass(slots=True)
class ReplayStore:
    """Failing cases of one kernel and dtype in the project's store; does nothing without a ``store``.

    ``optimized`` is the optimisation level of the code that runs: a case is replayed only at the level it failed at.
    ``problem`` is a finding that the store cannot be read or written, None until then and once it is reported.
    """

    plan: Plan
    hints: LaunchHints
    store: Store | None
    optimized: bool = True
    problem: Finding | None = None
    _replayed: dict[str, Failure] = field(default_factory=dict)

    def replayed(self, case_id: str) -> bool:
        """Return whether a case was taken from the store."""
        return case_id in self._replayed

    def minimised(self, case_id: str | None) -> bool:
        """Return whether a replayed case is the result of minimising another one."""
        failure = self._replayed.get(case_id or "")
        return failure is not None and failure.minimised_from is not None

    def all_replayed(self, case_id: str) -> bool:
        """Return whether the last stored case has run, if ``case_id`` runs now."""
        return case_id not in self._replayed or case_id == next(reversed(self._replayed))

    def cases(self) -> list[tuple[Case, str]]:
        """Return the stored cases, each with its id: failing ones first, then those that passed when last run."""
        if self.store is None:
            return []
        try:
            stored = self.store.failures_for(self.plan.kernel, self.plan.dtype, limit=_REPLAYED)
        except StoreError as error:
            self._disable(self.store, error)
            return []
        cases = []
        for item in stored:
            if self.plan.recorded is not None and item.failure.minimised_from is not None:
                continue  # its sizes and values are none of the program's, whose launch is among the cases
            case = restored_case(self.plan, item.failure, self.hints)
            if case is not None and item.failure.optimized == self.optimized:
                self._replayed[item.case] = item.failure
                cases.append((case, item.case))
        return cases

    def record(
        self,
        case: Case,
        case_id: str,
        finding: Finding,
        snapshot: MismatchSnapshot | None,
        planted: Failure | None = None,
    ) -> None:
        """Store a failing case. ``planted`` is its record if its values are not those that its seed draws."""
        if self.store is None:
            return
        line = finding.place.range.start.line
        known = self._replayed.get(case_id)
        fresh = Failure(self.plan.kernel, self.plan.dtype, "", "", case.key, optimized=self.optimized)
        failure = known or planted or fresh
        try:
            # The rule is part of a record's identity: a case that now breaks another rule is another failure.
            if known is not None and known.rule != finding.rule:
                self.store.mark_fixed(known.kernel, known.dtype, case_id, optimized=self.optimized)
            self.store.record(
                replace(failure, rule=finding.rule, message=finding.message, dims=dict(case.dims), line=line),
                stored_snapshot(finding, snapshot),
            )
        except StoreError as error:
            self._disable(self.store, error)

    def mark_passed(self, case_id: str) -> None:
        """Mark a case as fixed if it is stored."""
        if self.store is None:
            return
        try:
            self.store.mark_fixed(self.plan.kernel, self.plan.dtype, case_id, optimized=self.optimized)
            if self.plan.recorded is not None:
                for item in self.store.failures_for(self.plan.kernel, self.plan.dtype):
                    if item.failure.minimised_from == case_id:
                        self.store.mark_fixed(self.plan.kernel, self.plan.dtype, item.case, optimized=self.optimized)
        except StoreError as error:
            self._disable(self.store, error)

    def _disable(self, store: Store, error: StoreError) -> None:
        """Continue without the store. The finding is the same for all kernels, so that it is shown once."""
        self.store = None
        place = Place((store.root / "gpuemu.toml").as_posix(), Range.of(0, 0, 0, 1))
        self.problem = make("engine/not-stored", f"Failing cases are not stored: {error}", place)


# ---- records and cases -----------------------------------------------------------------------------------------------


def restored_case(plan: Plan, failure: Failure, hints: LaunchHints) -> Case | None:
    """Return the case of a stored failure, None if the plan's current dims and arguments exclude it.

    A case that the user has ruled out since, by narrower dims or another range of values, would give a false positive.
    """
    if not is_of_plan(failure, plan) or not _allowed(plan.dims, failure.dims):
        return None
    # Stored values may lie outside the ranges that the arguments declare now.
    if failure.tensors and failure.source_hash != plan_digest(plan):
        return None
    try:
        # JSON objects of the store are sorted; messages list sizes in the order of gpuemu.toml.
        key, order = failure.key, [spec.name for spec in plan.dims]
        if key.dims is not None:
            key = replace(key, dims={name: key.dims[name] for name in order if name in key.dims})
        return restored(failure, rebuild(plan, key, hints))
    except PlanError:
        return None


def is_of_plan(failure: Failure, plan: Plan) -> bool:
    """Return whether a stored case is one of a plan: of its dtype, and recorded if its launches are."""
    parts = strategy_parts(failure.key.strategy)
    if plan.recorded is None or parts is None:
        return plan.dtype == failure.dtype and plan.recorded is None and parts is None
    return plan.dtype == failure.dtype and plan.recorded.case(parts[0]) is not None


def plan_digest(plan: Plan) -> str:
    """Return a digest of what determines the values of a case: arguments and dims, but not the code."""
    return hashlib.blake2b(repr((plan.args, plan.dims)).encode(), digest_size=8).hexdigest()


def _allowed(specs: tuple[DimSpec, ...], dims: Mapping[str, int]) -> bool:
    return {spec.name for spec in specs} == dims.keys() and all(allows(spec, dims[spec.name]) for spec in specs)
