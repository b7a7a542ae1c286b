"""``gpuemu coverage`` and ``gpuemu calibrate``: what the cases reach, and what tolerance the kernels need."""

from __future__ import annotations

import argparse
import sys
from dataclasses import replace
from pathlib import Path

from gpuemu_lsp.cli.arguments import EXIT_CODES, add_running, fraction, percentage, positive

COVERAGE_CASES = 32
CALIBRATION_CASES = 50
_PROFILES = ("default", "strict", "relaxed", "production")
_COVERAGE_FORMATS = ("text", "json", "lcov", "codecov")


def add(verbs: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the verbs."""
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

    calibrate = verbs.add_parser(
        "calibrate",
        help="measure the tolerance each kernel needs and write it to gpuemu.toml",
        epilog="Exit codes: 0 written (or shown); 1 other cases than those measured exceed a tolerance, which is then "
        "not written, or a kernel fails; 2 nothing was measured; 3 internal error.",
    )
    calibrate.add_argument("-k", "--kernel", action="append", metavar="KERNEL", help="(default: all); may be repeated")
    calibrate.add_argument(
        "--cases",
        type=positive,
        default=CALIBRATION_CASES,
        metavar="N",
        help=f"cases to measure, and as many others to try the result on (default: {CALIBRATION_CASES})",
    )
    calibrate.add_argument("--percentile", type=percentage, default=95.0, metavar="P", help="(default: 95)")
    calibrate.add_argument("--margin", type=fraction, default=1.5, metavar="M", help="times that (default: 1.5)")
    calibrate.add_argument("--profile", choices=_PROFILES, help="take the original's table instead of measuring")
    calibrate.add_argument("--dry-run", action="store_true", help="show the tolerances and write nothing")
    add_running(calibrate)
    calibrate.set_defaults(run=_calibrate)


def _calibrate(options: argparse.Namespace) -> int:
    from gpuemu_lsp.cli.calibrating import calibrate
    from gpuemu_lsp.engine.campaign.calibration import Wanted
    from gpuemu_lsp.engine.check.model import DEFAULT_SEED, CheckOptions

    chosen = CheckOptions(
        cases=options.cases,
        seed=DEFAULT_SEED if options.seed is None else options.seed,
        seed_given=options.seed is not None,
        arch=options.arch,
        executor=options.executor,
    )
    wanted = Wanted(options.percentile, options.margin, options.profile)
    return calibrate(options.kernel or [], chosen, options.jobs, wanted, write=not options.dry_run)


def _coverage(options: argparse.Namespace) -> int:
    from gpuemu_lsp.cli.calibrating import told_errors
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
    told_errors(run.findings, run.root)
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
