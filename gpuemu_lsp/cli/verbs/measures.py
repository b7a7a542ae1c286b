"""Arguments of ``gpuemu coverage``, ``calibrate``, ``baseline`` and ``diff``."""

from __future__ import annotations

import argparse
from pathlib import Path

from gpuemu_lsp.cli.arguments import (
    EXIT_CODES,
    STANDARD_CASES,
    Verbs,
    add_running,
    fraction,
    options_of,
    percentage,
    positive,
)

CALIBRATION_CASES = 50
_PROFILES = ("default", "strict", "relaxed", "production")
_COVERAGE_FORMATS = ("text", "json", "lcov", "codecov")


def add(verbs: Verbs) -> None:
    """Add the parsers."""
    _add_baselines(verbs)
    _add_coverage(verbs)
    _add_calibrate(verbs)


def _add_baselines(verbs: Verbs) -> None:
    running = argparse.ArgumentParser(add_help=False)
    add_running(running)
    baseline = verbs.add_parser(
        "baseline",
        parents=[running],
        help="measure the registered kernels and store the results under a tag",
        epilog="Exit codes: 0 stored; 1 stored, and kernels fail; 2 something was not measured; 3 internal error.",
    )
    baseline.add_argument("tag", metavar="TAG", help="name of the baseline; an existing one is replaced")
    baseline.add_argument(
        "--cases", type=positive, default=STANDARD_CASES, metavar="N", help=f"cases (default: {STANDARD_CASES})"
    )
    baseline.set_defaults(run=_baseline)
    diff = verbs.add_parser(
        "diff",
        parents=[running],
        help="compare numbers, resources and PTX with a baseline",
        epilog="Exit codes: 0 compared; 1 something regressed and --fail-on-regression is given; "
        "2 no such baseline, or something was not measured; 3 internal error.",
    )
    diff.add_argument("--baseline", required=True, metavar="TAG", help="the baseline to compare with")
    diff.add_argument("--fail-on-regression", action="store_true", help="exit with 1 when something regressed")
    diff.add_argument(
        "--threshold", type=fraction, metavar="R", help="relative growth regarded as noise (default: the project's)"
    )
    diff.add_argument("--format", choices=("text", "json"), default="text")
    diff.set_defaults(run=_diff)


def _add_coverage(verbs: Verbs) -> None:
    coverage = verbs.add_parser(
        "coverage",
        help="measure which lines and branches of the kernels the cases reach",
        epilog=f"{EXIT_CODES} 1 also if the coverage is too low.",
    )
    coverage.add_argument("targets", nargs="*", metavar="PATH", help="a project, a folder, a .cu file or kernel names")
    coverage.add_argument(
        "--cases", type=positive, default=STANDARD_CASES, metavar="N", help=f"cases (default: {STANDARD_CASES})"
    )
    add_running(coverage)
    coverage.add_argument("--format", choices=_COVERAGE_FORMATS, default="text", help="output format (default: text)")
    coverage.add_argument("-o", "--output", type=Path, metavar="FILE", help="write to FILE instead of standard output")
    coverage.add_argument(
        "--fail-under", type=percentage, metavar="P", help="exit with 1 if less than P percent of the lines are reached"
    )
    coverage.set_defaults(run=_coverage)


def _add_calibrate(verbs: Verbs) -> None:
    calibrate = verbs.add_parser(
        "calibrate",
        help="measure the tolerance each kernel needs and write it to gpuemu.toml",
        epilog="Exit codes: 0 written (or shown); 1 held-out cases exceed a tolerance, which is then not written, or a "
        "kernel fails; 2 nothing was measured; 3 internal error.",
    )
    calibrate.add_argument("-k", "--kernel", action="append", metavar="KERNEL", help="(default: all); may be repeated")
    calibrate.add_argument(
        "--cases",
        type=positive,
        default=CALIBRATION_CASES,
        metavar="N",
        help=f"cases to fit to, and as many to validate on (default: {CALIBRATION_CASES})",
    )
    calibrate.add_argument("--percentile", type=percentage, default=95.0, metavar="P", help="(default: 95)")
    calibrate.add_argument(
        "--margin", type=fraction, default=1.5, metavar="M", help="factor on the percentile (default: 1.5)"
    )
    calibrate.add_argument(
        "--profile", choices=_PROFILES, help="use a fixed table of the original gpuemu instead of fitting"
    )
    calibrate.add_argument("--dry-run", action="store_true", help="show the tolerances and write nothing")
    add_running(calibrate)
    calibrate.set_defaults(run=_calibrate)


def _baseline(options: argparse.Namespace) -> int:
    from gpuemu_lsp.cli.commands.baseline import store_baseline

    return store_baseline(options.tag, options_of(options, options.cases), options.jobs)


def _diff(options: argparse.Namespace) -> int:
    from gpuemu_lsp.cli.commands.baseline import diff

    chosen = options_of(options, STANDARD_CASES)
    return diff(options.baseline, chosen, options.jobs, options.fail_on_regression, options.format, options.threshold)


def _calibrate(options: argparse.Namespace) -> int:
    from gpuemu_lsp.cli.commands.calibrate import calibrate
    from gpuemu_lsp.engine.jobs.calibration import CalibrationOptions

    chosen = options_of(options, options.cases)
    how = CalibrationOptions(options.percentile, options.margin, options.profile)
    return calibrate(options.kernel or [], chosen, options.jobs, how, write=not options.dry_run)


def _coverage(options: argparse.Namespace) -> int:
    from gpuemu_lsp.cli.commands.coverage import coverage

    chosen = options_of(options, options.cases)
    return coverage(options.targets, chosen, options.jobs, options.format, options.output, options.fail_under)
