"""``gpuemu baseline`` and ``gpuemu diff``: store measurements under a tag, and compare with them."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence

from gpuemu_lsp.cli.commands.check import find_targets
from gpuemu_lsp.cli.commands.failures import project_root
from gpuemu_lsp.cli.output import OutputOptions, print_out
from gpuemu_lsp.cli.progress import ProgressBar
from gpuemu_lsp.engine.baseline.findings import regressions
from gpuemu_lsp.engine.baseline.model import REGRESSION
from gpuemu_lsp.engine.findings import Json, Severity
from gpuemu_lsp.engine.jobs.measurement import (
    Measurement,
    all_of_them,
    as_measured,
    compared,
    is_tag,
    keep,
    measured_in,
)
from gpuemu_lsp.engine.jobs.pools import open_pool
from gpuemu_lsp.engine.jobs.run import fingerprinted
from gpuemu_lsp.engine.report.comparison import comparison_record, render_comparison
from gpuemu_lsp.engine.report.exit_codes import EXIT_CLEAN, EXIT_FINDINGS, EXIT_INTERNAL, EXIT_USAGE
from gpuemu_lsp.engine.report.json_format import finding_record
from gpuemu_lsp.engine.report.text import count, render_finding, render_verdict
from gpuemu_lsp.engine.store import BaselineRecord, Store, StoreError
from gpuemu_lsp.engine.subjects.request import CheckOptions


def measure(options: CheckOptions, jobs: int | None, names: Sequence[str] = ()) -> Measurement | None:
    """Check the registered kernels, all or those named; print the reason and return None if there are none."""
    targets = find_targets(list(names), options)
    if targets is None:
        return None
    with (
        open_pool(jobs, options.executor) as pool,
        ProgressBar(len(targets.requests), sys.stderr) as progress,
    ):
        return measured_in(targets, pool, progress.update)


def store_baseline(tag: str, options: CheckOptions, jobs: int | None) -> int:
    """Measure and store; return 0 if all passed, 1 if kernels fail, 2 if something was not measured."""
    root = project_root()
    if root is None:
        return EXIT_USAGE
    if not is_tag(tag):
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
    if not measured.usable or measured.run.exit_code == EXIT_INTERNAL:
        print(f"gpuemu: nothing was measured, so '{tag}' was not stored.", file=sys.stderr)
        return max(measured.run.exit_code, EXIT_USAGE)
    try:
        stored = keep(root, tag, measured)
    except StoreError as error:
        print(f"gpuemu: {error}", file=sys.stderr)
        return EXIT_USAGE
    print_out(f"\nStored the baseline '{tag}' of {count(len(stored), 'kernel')}.\n")
    return measured.run.exit_code


def diff(tag: str, options: CheckOptions, jobs: int | None, fail: bool, form: str, threshold: float | None) -> int:
    """Compare with a baseline; return 1 for a regression if ``fail``, 2 without one, or if something did not run."""
    stored = read_baseline(tag)
    if stored is None:
        return EXIT_USAGE
    measured = measure(as_measured(options, stored), jobs)
    if measured is None:
        return EXIT_USAGE
    comparison = compared(tag, stored, measured, threshold)
    root = measured.targets.root
    if form == "json":
        specs = {item.spec.name: item.spec for item in measured.targets.requests}
        regressed = fingerprinted(regressions(comparison, specs), root)
        document: dict[str, Json] = {"version": 1, **comparison_record(comparison, root)}
        document["findings"] = [finding_record(item, root) for item in (*regressed, *measured.run.findings)]
        print_out(json.dumps(document, indent=2, ensure_ascii=False) + "\n")
    else:
        style = OutputOptions().style()
        # Without them, an op that has run neither before nor now would only be counted as unchanged.
        not_run = [item for item in measured.run.findings if item.rule == "engine/not-executed"]
        blocks = [render_finding(item, str(root), style) for item in not_run if item.severity is not Severity.HINT]
        print_out("\n".join([*blocks, render_comparison(comparison, root, style)]))
    if measured.run.exit_code == EXIT_INTERNAL:
        return EXIT_INTERNAL
    if fail and comparison.having(REGRESSION):
        return EXIT_FINDINGS
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
            stored = store.baseline(tag) if is_tag(tag) else None
            tags = [name for name, _ in store.baseline_tags()]
    except StoreError as error:
        print(f"gpuemu: {error}", file=sys.stderr)
        return None
    if stored is None:
        remedy = f"Known baselines: {', '.join(tags)}." if tags else f"Store one with: gpuemu baseline {tag}"
        print(f"gpuemu: no baseline '{tag}'. {remedy}", file=sys.stderr)
    return stored
