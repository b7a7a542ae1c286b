"""``gpuemu coverage``: line and branch coverage of the kernels by their cases."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from gpuemu_lsp.cli.commands.check import find_targets, print_config_errors
from gpuemu_lsp.cli.output import write
from gpuemu_lsp.cli.progress import ProgressBar
from gpuemu_lsp.engine.jobs.pools import open_pool
from gpuemu_lsp.engine.jobs.run import run_requests
from gpuemu_lsp.engine.report.coverage import files_of, percent, render_coverage
from gpuemu_lsp.engine.report.exit_codes import EXIT_CLEAN, EXIT_FINDINGS, EXIT_USAGE
from gpuemu_lsp.engine.report.text import count
from gpuemu_lsp.engine.subjects.request import CheckOptions


def coverage(
    names: Sequence[str], options: CheckOptions, jobs: int | None, form: str, output: Path | None, least: float | None
) -> int:
    """Check and write the coverage; return the check's exit code, or 1 for less than ``least`` percent of the lines."""
    if options.executor == "gpu":
        print("gpuemu: coverage is measured on the emulator only; remove --executor gpu.", file=sys.stderr)
        return EXIT_USAGE
    chosen = replace(options, executor="emulator", coverage=True, max_failures=options.most)
    targets = find_targets(names, chosen)
    if targets is None:
        return EXIT_USAGE
    with open_pool(jobs) as pool, ProgressBar(len(targets.requests), sys.stderr) as progress:
        run = run_requests(targets.requests, targets.findings, targets.root, pool, progress.update)
    print_config_errors(run.findings, run.root)
    if not write(render_coverage(run, form), output):
        return EXIT_USAGE
    if run.exit_code != EXIT_CLEAN:
        summary = run.summary
        print(
            f"gpuemu: {count(summary.failed, 'kernel')} failed, {summary.not_executed} not executed; "
            "run gpuemu test for details.",
            file=sys.stderr,
        )
        return run.exit_code
    share = percent(files_of(run)) or 0.0
    if least is not None and share < least:
        print(f"gpuemu: coverage of {share:.1f} % is less than {least:g} %.", file=sys.stderr)
        return EXIT_FINDINGS
    return EXIT_CLEAN
