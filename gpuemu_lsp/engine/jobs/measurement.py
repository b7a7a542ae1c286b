"""Measurement of the registered kernels and ops of a project, for baselines and comparisons with them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from gpuemu_lsp.engine.baseline.compare import compare
from gpuemu_lsp.engine.baseline.model import Comparison
from gpuemu_lsp.engine.check.model import CheckEvent
from gpuemu_lsp.engine.findings import Json
from gpuemu_lsp.engine.jobs.requests.targets import Targets
from gpuemu_lsp.engine.jobs.run import Runner, run_requests
from gpuemu_lsp.engine.project.revision import revision
from gpuemu_lsp.engine.report.model import Run
from gpuemu_lsp.engine.store import BaselineRecord, Store
from gpuemu_lsp.engine.subjects.request import CheckOptions

_UNLIMITED = 1_000_000
"""Exceeds the number of cases of any check."""


@dataclass(frozen=True, slots=True)
class Measurement:
    """A run of the registered kernels, its baseline records and its targets."""

    run: Run
    records: tuple[BaselineRecord, ...]
    targets: Targets

    @property
    def usable(self) -> tuple[BaselineRecord, ...]:
        """The records with figures."""
        return tuple(record for record in self.records if record.numbers or record.resources)


def measured_in(targets: Targets, pool: Runner, on_event: Callable[[CheckEvent], None] | None = None) -> Measurement:
    """Check the registered kernels of some targets."""
    targets = replace(targets, requests=tuple(item for item in targets.requests if item.registered))
    records: list[BaselineRecord] = []
    run = run_requests(targets.requests, targets.findings, targets.root, pool, on_event, records.append)
    return Measurement(run, tuple(records), targets)


def is_tag(tag: str) -> bool:
    """Return whether a text may be the tag of a baseline: not empty, and none of the internal ones."""
    return bool(tag.strip()) and not tag.startswith("@")


def keep(root: str | Path, tag: str, measured: Measurement) -> tuple[str, ...]:
    """Store the records of a measurement under a tag, and return the names of its kernels.

    Raises
    ------
    StoreError
        If they cannot be stored.
    """
    commit = revision(str(root))
    origin: dict[str, Json] = {} if commit is None else {"commit": commit.commit, "dirty": commit.dirty}
    with Store(root) as store:
        store.store_baseline(tag, [replace(item, origin={**item.origin, **origin}) for item in measured.usable])
    return tuple(dict.fromkeys(record.kernel for record in measured.usable))


def as_measured(options: CheckOptions, baseline: Sequence[BaselineRecord]) -> CheckOptions:
    """Return the options with the baseline's seed and number of cases, so that the same cases are compared."""
    # Cases of a client are its own.
    origin = next((one.origin for one in baseline if one.origin.get("executor") != "client"), {})
    seed, cases = origin.get("seed"), origin.get("cases")
    if isinstance(seed, str) and seed.isdecimal() and isinstance(cases, int):
        options = replace(options, seed=int(seed), seed_given=True, cases=cases)
    return all_of_them(options)


def all_of_them(options: CheckOptions) -> CheckOptions:
    """Return the options without a limit of failures, so that failing kernels run all cases too."""
    return replace(options, max_failures=_UNLIMITED)


def compared(
    tag: str, baseline: Sequence[BaselineRecord], measured: Measurement, threshold: float | None = None
) -> Comparison:
    """Compare a measurement with a baseline, by default with the project's threshold."""
    if threshold is None:
        threshold = measured.targets.projects[0].policies.warn_threshold
    return compare(tag, baseline, measured.records, threshold)
