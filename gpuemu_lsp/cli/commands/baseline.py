"""``gpuemu baseline`` and ``gpuemu diff``: store measurements under a tag, and compare with them."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace

from gpuemu_lsp.cli.commands.check import find_targets, open_pool
from gpuemu_lsp.cli.commands.failures import project_root
from gpuemu_lsp.cli.output import OutputOptions, print_out
from gpuemu_lsp.cli.progress import ProgressBar
from gpuemu_lsp.engine.baseline.compare import compare
from gpuemu_lsp.engine.baseline.findings import regressions
from gpuemu_lsp.engine.baseline.model import REGRESSION, Comparison
from gpuemu_lsp.engine.check.model import CheckOptions
from gpuemu_lsp.engine.findings import Json, Severity
from gpuemu_lsp.engine.jobs.requests.targets import Targets
from gpuemu_lsp.engine.jobs.run import fingerprinted, run_requests
from gpuemu_lsp.engine.project.revision import revision
from gpuemu_lsp.engine.report.comparison import comparison_record, render_comparison
from gpuemu_lsp.engine.report.exit_codes import EXIT_CLEAN, EXIT_FINDINGS, EXIT_INTERNAL, EXIT_USAGE
from gpuemu_lsp.engine.report.json_format import finding_record
from gpuemu_lsp.engine.report.model import Run
from gpuemu_lsp.engine.report.text import count, render_finding, render_verdict
from gpuemu_lsp.engine.store import BaselineRecord, Store, StoreError

_UNLIMITED = 1_000_000
"""Exceeds the number of cases of any check."""


@dataclass(frozen=True, slots=True)
class Measurement:
    """A run of the registered kernels, its baseline records and its targets."""

    run: Run
    records: tuple[BaselineRecord, ...]
    targets: Targets


def measure(options: CheckOptions, jobs: int | None, names: Sequence[str] = ()) -> Measurement | None:
    """Check the registered kernels, all or those named; print the reason and return None if there are none."""
    targets = find_targets(list(names), options)
    if targets is None:
        return None
    targets = replace(targets, requests=tuple(item for item in targets.requests if item.registered))
    records: list[BaselineRecord] = []
    with (
        open_pool(jobs, options.executor) as pool,
        ProgressBar(len(targets.requests), sys.stderr) as progress,
    ):
        run = run_requests(targets.requests, targets.findings, targets.root, pool, progress.update, records.append)
    return Measurement(run, tuple(records), targets)


def store_baseline(tag: str, options: CheckOptions, jobs: int | None) -> int:
    """Measure and store; return 0 if all passed, 1 if kernels fail, 2 if something was not measured."""
    root = project_root()
    if root is None:
        return EXIT_USAGE
    if tag.startswith("@") or not tag.strip():
        print("gpuemu: the tag of a baseline must not be empty or start with @.", file=sys.stderr)
        return EXIT_USAGE
    measured = measure(all_of_them(options), jobs)
    if measured is None:
        return EXIT_USAGE
    style = OutputOptions().style()
    blocks = [
        render_finding(item, str(root), style)
        for item in measured.run.findings
        if item.severity in (Severity.ERROR, Severity.WARNING)
    ]
    width = max((len(kernel.name) for kernel in measured.run.kernels), default=0)
    blocks += ["".join(render_verdict(kernel, width, style) + "\n" for kernel in measured.run.kernels)]
    print_out("\n".join(blocks))
    usable = [record for record in measured.records if record.numbers or record.resources]
    if not usable or measured.run.exit_code == EXIT_INTERNAL:
        print(f"gpuemu: nothing was measured, so '{tag}' was not stored.", file=sys.stderr)
        return max(measured.run.exit_code, EXIT_USAGE)
    commit = revision(str(root))
    origin: dict[str, Json] = {} if commit is None else {"commit": commit.commit, "dirty": commit.dirty}
    try:
        with Store(root) as store:
            store.store_baseline(tag, [replace(item, origin={**item.origin, **origin}) for item in usable])
    except StoreError as error:
        print(f"gpuemu: {error}", file=sys.stderr)
        return EXIT_USAGE
    kernels = len({record.kernel for record in usable})
    print_out(f"\nStored the baseline '{tag}' of {count(kernels, 'kernel')}.\n")
    return measured.run.exit_code


def diff(tag: str, options: CheckOptions, jobs: int | None, fail: bool, form: str, threshold: float | None) -> int:
    """Compare with a baseline; return 1 for a regression if ``fail``, 2 without a baseline or measurements."""
    found = read_baseline(tag)
    if found is None:
        return EXIT_USAGE
    measured = measure(as_measured(options, found), jobs)
    if measured is None:
        return EXIT_USAGE
    comparison = compared(tag, found, measured, threshold)
    root = measured.targets.root
    if form == "json":
        specs = {item.spec.name: item.spec for item in measured.targets.requests}
        regressed = fingerprinted(regressions(comparison, specs), root)
        document: dict[str, Json] = {"version": 1, **comparison_record(comparison, root)}
        document["findings"] = [finding_record(item, root) for item in (*regressed, *measured.run.findings)]
        print_out(json.dumps(document, indent=2, ensure_ascii=False) + "\n")
    else:
        print_out(render_comparison(comparison, root, OutputOptions().style()))
    if measured.run.exit_code == EXIT_INTERNAL:
        return EXIT_INTERNAL
    if comparison.having(REGRESSION):
        return EXIT_FINDINGS if fail else EXIT_CLEAN
    both = any(change.presence == "both" for change in comparison.changes)
    incomplete = any(kernel.status in ("not-executed", "error") for kernel in measured.run.kernels)
    return EXIT_CLEAN if both and not incomplete else EXIT_USAGE


def read_baseline(tag: str) -> tuple[BaselineRecord, ...] | None:
    """Return a stored baseline; print the reason and the known tags and return None if there is none."""
    root = project_root()
    if root is None:
        return None
    try:
        with Store(root) as store:
            found = None if tag.startswith("@") else store.baseline(tag)
            tags = [name for name, _ in store.baseline_tags()]
    except StoreError as error:
        print(f"gpuemu: {error}", file=sys.stderr)
        return None
    if found is None:
        known = f"Known baselines: {', '.join(tags)}." if tags else f"Store one with: gpuemu baseline {tag}"
        print(f"gpuemu: no baseline '{tag}'. {known}", file=sys.stderr)
    return found


def as_measured(options: CheckOptions, baseline: Sequence[BaselineRecord]) -> CheckOptions:
    """Return the options with the baseline's seed and number of cases, so that the same cases are compared."""
    origin = baseline[0].origin
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
