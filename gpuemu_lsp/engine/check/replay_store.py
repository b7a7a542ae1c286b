"""The failing cases of one plan that were kept: tried first, kept up to date, and given up when the disk will not."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from gpuemu_lsp.engine.check.failure_snapshot import MismatchSnapshot, shown
from gpuemu_lsp.engine.check.stored import reopened
from gpuemu_lsp.engine.findings import Finding, Place, Range
from gpuemu_lsp.engine.fuzz.model import Case, LaunchHints
from gpuemu_lsp.engine.plan.model import Plan
from gpuemu_lsp.engine.rules import make
from gpuemu_lsp.engine.store import Failure, Store, StoreError

_TRIED = 8
"""How many stored cases of a kernel and dtype are tried."""


@dataclass(slots=True)
class ReplayStore:
    """What is remembered of one kernel and dtype. Without a ``store`` nothing is.

    ``optimized`` is the level of the code that runs: a case belongs to the one that it failed at.
    """

    plan: Plan
    hints: LaunchHints
    store: Store | None
    optimized: bool = True
    lost: Finding | None = None
    """That the store could not be read or written, told once."""
    _restored: dict[str, Failure] = field(default_factory=dict)

    def restored(self, case_id: str) -> bool:
        """Say whether a case came from the store."""
        return case_id in self._restored

    def cases(self) -> list[tuple[Case, str]]:
        """Return the cases that failed last time, each with its id."""
        if self.store is None:
            return []
        try:
            stored = self.store.failures_for(self.plan.kernel, self.plan.dtype, limit=_TRIED)
        except StoreError as error:
            self._give_up(self.store, error)
            return []
        cases = []
        for item in stored:
            case = reopened(self.plan, item.failure, self.hints)
            if case is not None and item.failure.optimized == self.optimized:
                self._restored[item.case] = item.failure
                cases.append((case, item.case))
        return cases

    def keep(
        self, case: Case, case_id: str, finding: Finding, sight: MismatchSnapshot | None, drawn: Failure | None
    ) -> None:
        """Keep a case that failed with ``finding``; ``drawn`` says how it was made, where its key does not."""
        if self.store is None:
            return
        line = finding.place.range.start.line
        known = self._restored.get(case_id)
        fresh = Failure(self.plan.kernel, self.plan.dtype, "", "", case.key, optimized=self.optimized)
        failure = known or drawn or fresh
        try:
            if known is not None and known.rule != finding.rule:
                # It does not fail as it did.
                self.store.mark_fixed(known.kernel, known.dtype, case_id, optimized=self.optimized)
            self.store.record(
                replace(failure, rule=finding.rule, message=finding.message, dims=dict(case.dims), line=line),
                shown(finding, sight),
            )
        except StoreError as error:
            self._give_up(self.store, error)

    def forgive(self, case_id: str) -> None:
        """Note that a case does not fail (any more)."""
        if self.store is None:
            return
        try:
            self.store.mark_fixed(self.plan.kernel, self.plan.dtype, case_id, optimized=self.optimized)
        except StoreError as error:
            self._give_up(self.store, error)

    def _give_up(self, store: Store, error: StoreError) -> None:
        """Go on without the store, and say so: the same for all kernels, so that it is told once."""
        self.store = None
        place = Place((store.root / "gpuemu.toml").as_posix(), Range.of(0, 0, 0, 1))
        self.lost = make("engine/not-stored", f"Failing cases are not kept: {error}", place)
