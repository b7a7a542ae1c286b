"""Arguments of ``gpuemu test``, ``ci``, ``report``, ``verify`` and ``fuzz``, with the number of cases of each."""

from __future__ import annotations

import argparse
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from gpuemu_lsp.cli.arguments import (
    EXIT_CODES,
    STANDARD_CASES,
    Verbs,
    add_counters,
    add_output,
    add_running,
    duration,
    natural,
    options_of,
    positive,
    shard,
)

if TYPE_CHECKING:
    from gpuemu_lsp.cli.commands.check import CheckCommand
    from gpuemu_lsp.engine.project.model import Policies

QUICK_CASES, THOROUGH_CASES = 8, 100
MANY_CASES = 1_000_000
FUZZ_STRATEGIES = (
    *("quick", "default", "boundary", "regular", "single_dtype_f32", "single_dtype_f16", "nan_injected"),
    "adversarial",
)


def add(verbs: Verbs) -> None:
    """Add the parsers."""
    targets = argparse.ArgumentParser(add_help=False)
    targets.add_argument("targets", nargs="*", metavar="PATH", help="a project, a folder, a .cu file or kernel names")
    shared = argparse.ArgumentParser(add_help=False)
    add_running(shared)
    shared.add_argument(
        "--dask", metavar="ADDRESS", help="run on the workers of the Dask scheduler at HOST:PORT, or of a 'local' one"
    )
    shared.add_argument(
        "--shard", type=shard, metavar="I/N", help="only the I-th of N parts of the kernels, for parallel CI jobs"
    )
    add_output(shared)
    amount = argparse.ArgumentParser(add_help=False)
    chosen = amount.add_mutually_exclusive_group()
    chosen.add_argument("--quick", action="store_true", help=f"{QUICK_CASES} cases per kernel and dtype")
    chosen.add_argument("--thorough", action="store_true", help=f"{THOROUGH_CASES} cases per kernel and dtype")
    chosen.add_argument("--cases", type=positive, metavar="N", help="this many cases per kernel and dtype")
    add_counters(amount)

    common = [targets, amount, shared]
    test = verbs.add_parser(
        "test", help=f"check kernels on {STANDARD_CASES} cases each", parents=common, epilog=EXIT_CODES
    )
    test.set_defaults(run=_test)
    ci = verbs.add_parser("ci", help="check kernels as in continuous integration", parents=common, epilog=EXIT_CODES)
    ci.add_argument("--baseline", metavar="TAG", help="compare with this baseline; a regression is an error")
    ci.add_argument(
        "--parallel", type=natural, metavar="N", help="as --jobs; 0 means [ci].parallel_jobs of the configuration"
    )
    ci.set_defaults(run=_ci)
    report = verbs.add_parser("report", help="check kernels and write a report", parents=common, epilog=EXIT_CODES)
    report.add_argument("--include-artifacts", metavar="TAG", help="include the differences from this baseline")
    report.add_argument(
        "--signed", action="store_true", help="sign the report: write an attestation next to --output (extra [sign])"
    )
    report.add_argument("--key", type=Path, metavar="FILE", help="private key to sign with (default: your own)")
    report.set_defaults(run=_report)
    verify = verbs.add_parser(
        "verify",
        help="verify a signed report",
        epilog="Exit codes: 0 genuine; 1 not genuine, or files have changed since; 2 it cannot be verified.",
    )
    verify.add_argument("report", type=Path, metavar="FILE", help="the report")
    verify.add_argument("--attestation", type=Path, metavar="FILE", help="(default: FILE.intoto.json)")
    verify.add_argument("--key", type=Path, metavar="FILE", help="public key to trust (default: your own)")
    verify.set_defaults(run=_verify)

    fuzz = verbs.add_parser("fuzz", help="run new random cases", parents=[shared], epilog=EXIT_CODES)
    fuzz.add_argument("-o", "--op", action="append", metavar="KERNEL", help="a kernel (default: all); may be repeated")
    fuzz.add_argument("-i", "--iterations", type=positive, default=100, metavar="N", help="cases (default: 100)")
    fuzz.add_argument(
        "--time", type=duration, metavar="T", help="run cases for about this long (90, 90s, 10m, 2h) instead of N"
    )
    fuzz.add_argument("--strategy", choices=FUZZ_STRATEGIES, default="quick", help="strategy for drawing cases")
    fuzz.add_argument("--fail-fast", action="store_true", help="stop a kernel at its first failing case")
    fuzz.set_defaults(run=_fuzz)


def _test(options: argparse.Namespace) -> int:
    from gpuemu_lsp.cli.commands.check import check

    return check(_command(options, options.jobs))


def _ci(options: argparse.Namespace) -> int:
    from gpuemu_lsp.cli.commands.report import ReportOptions, report

    policies = _policies()
    jobs = options.jobs if options.parallel is None else options.parallel or policies.parallel_jobs
    command = _command(options, jobs)
    if options.quick:
        command = replace(command, options=replace(command.options, dtypes=policies.quick_dtypes))
    elif options.thorough:
        command = replace(command, options=replace(command.options, seconds=float(policies.thorough_timeout)))
    return report(command, ReportOptions(baseline=options.baseline))


def _report(options: argparse.Namespace) -> int:
    from gpuemu_lsp.cli.commands.report import ReportOptions, report

    report_options = ReportOptions(options.include_artifacts, fail=False, signed=options.signed, key=options.key)
    return report(_command(options, options.jobs), report_options)


def _verify(options: argparse.Namespace) -> int:
    from gpuemu_lsp.cli.commands.verify import verify

    return verify(options.report, options.attestation, options.key)


def _command(options: argparse.Namespace, jobs: int | None) -> CheckCommand:
    from gpuemu_lsp.cli.commands.check import CheckCommand
    from gpuemu_lsp.cli.output import output_of

    cases = QUICK_CASES if options.quick else THOROUGH_CASES if options.thorough else options.cases or STANDARD_CASES
    chosen = replace(options_of(options, cases), coverage=options.thorough)
    return CheckCommand(options.targets, chosen, output_of(options), jobs, options.dask, options.shard)


def _policies() -> Policies:
    """Return the policies of the current gpuemu.toml, or the defaults."""
    from gpuemu_lsp.engine.project import discover, load
    from gpuemu_lsp.engine.project.model import Policies

    config = discover(Path.cwd())
    return load(config).policies if config is not None else Policies()


def _fuzz(options: argparse.Namespace) -> int:
    import secrets

    from gpuemu_lsp.cli.commands.check import CheckCommand, check
    from gpuemu_lsp.cli.output import output_of

    chosen = options_of(options, options.iterations)
    if not chosen.seed_given:  # fuzzing draws new cases; the seed is printed so that they can be repeated
        chosen = replace(chosen, seed=secrets.randbits(64), seed_given=True)
        print(f"seed {chosen.seed}", file=sys.stderr, flush=True)
    chosen = replace(
        chosen,
        strategy=options.strategy,
        max_failures=1 if options.fail_fast else options.iterations,
        coverage=True,
        unoptimized=True,
    )
    if options.time is not None:
        chosen = replace(chosen, seconds=options.time, cases=MANY_CASES)
    return check(CheckCommand(options.op or [], chosen, output_of(options), options.jobs, options.dask, options.shard))
