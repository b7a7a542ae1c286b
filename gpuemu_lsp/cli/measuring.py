"""``gpuemu coverage``: what the cases reach. The parser and the little that stands between it and the engine."""

from __future__ import annotations

import argparse
import sys
from dataclasses import replace
from pathlib import Path

from gpuemu_lsp.cli.arguments import EXIT_CODES, add_running, percentage, positive

COVERAGE_CASES = 32
_COVERAGE_FORMATS = ("text", "json", "lcov", "codecov")


def add(verbs: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the verb."""
    coverage = verbs.add_parser(
        "coverage",
        help="say which lines and branches of the kernels the cases reach",
        epilog=f"{EXIT_CODES} 1 also: fewer lines are reached than --fail-under asks for.",
    )
    coverage.add_argument("targets", nargs="*", metavar="PATH", help="a project, a folder, a .cu file or kernel names")
    coverage.add_argument(
        "--cases", type=positive, default=COVERAGE_CASES, metavar="N", help=f"cases (default: {COVERAGE_CASES})"
    )
    add_running(coverage)
    coverage.add_argument("--format", choices=_COVERAGE_FORMATS, default="text", help="output format (default: text)")
    coverage.add_argument("-o", "--output", type=Path, metavar="FILE", help="write there instead of standard output")
    coverage.add_argument(
        "--fail-under", type=percentage, metavar="P", help="exit with 1 when fewer percent of the lines are reached"
    )
    coverage.set_defaults(run=_coverage)


def _coverage(options: argparse.Namespace) -> int:
    from gpuemu_lsp.cli.checking import find_targets, open_pool
    from gpuemu_lsp.cli.output import write
    from gpuemu_lsp.cli.progress import Progress
    from gpuemu_lsp.engine.campaign.run import run_requests
    from gpuemu_lsp.engine.check.model import DEFAULT_SEED, CheckOptions
    from gpuemu_lsp.engine.report.coverage import files_of, percent, render_coverage
    from gpuemu_lsp.engine.report.exits import EXIT_CLEAN, EXIT_FINDINGS, EXIT_USAGE

    chosen = CheckOptions(
        cases=options.cases,
        seed=DEFAULT_SEED if options.seed is None else options.seed,
        seed_given=options.seed is not None,
        arch=options.arch,
        executor=options.executor,
        coverage=True,
        max_failures=options.cases,
    )
    if options.executor == "gpu":
        print("gpuemu: a GPU does not tell which lines it ran; leave --executor out.", file=sys.stderr)
        return EXIT_USAGE
    targets = find_targets(options.targets, replace(chosen, executor="emulator"))
    if targets is None:
        return EXIT_USAGE
    with open_pool(options.jobs) as pool, Progress(len(targets.requests), sys.stderr) as progress:
        run = run_requests(targets.requests, targets.findings, targets.root, pool, progress.see)
    if not write(render_coverage(run, options.format), options.output):
        return EXIT_USAGE
    if run.exit_code != EXIT_CLEAN:
        summary = run.summary
        print(f"gpuemu: {summary.failed} failed, {summary.not_executed} not run: see gpuemu test.", file=sys.stderr)
        return run.exit_code
    share = percent(files_of(run)) or 0.0
    if options.fail_under is not None and share < options.fail_under:
        print(f"gpuemu: {share:.1f} % is less than {options.fail_under:g} %.", file=sys.stderr)
        return EXIT_FINDINGS
    return EXIT_CLEAN
