"""``gpuemu``: the original's verbs, each doing what it promises. Thin: every verb is a module or a check."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from gpuemu_lsp import __version__
from gpuemu_lsp.cli import measuring
from gpuemu_lsp.cli.arguments import (
    EXIT_CODES,
    add_colour,
    add_counters,
    add_output,
    add_running,
    architecture,
    duration,
    fraction,
    natural,
    positive,
    shard,
)

if TYPE_CHECKING:
    from gpuemu_lsp.cli.checking import Order
    from gpuemu_lsp.cli.replaying import Again
    from gpuemu_lsp.engine.check.model import CheckOptions
    from gpuemu_lsp.engine.project.model import Policies

QUICK_CASES, STANDARD_CASES, THOROUGH_CASES = 8, 32, 100
MANY_CASES = 1_000_000
FUZZ_STRATEGIES = (
    *("quick", "default", "boundary", "regular", "single_dtype_f32", "single_dtype_f16", "nan_injected"),
    "adversarial",
)
STRATEGIES = ("all", "binary-search-dims", "binary-search-values")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a verb; return its exit code."""
    try:
        options = _parser().parse_args(arguments)
    except SystemExit as exit_:
        return int(exit_.code or 0)
    from gpuemu_lsp.cli.edge import guarded

    run: Callable[[argparse.Namespace], int] = options.run
    return guarded(lambda: run(options))


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="gpuemu", description="Validate CUDA kernels with no GPU.", epilog=EXIT_CODES, allow_abbrev=False
    )
    parser.add_argument("--version", "-V", action="version", version=f"gpuemu {__version__}")
    verbs = parser.add_subparsers(title="verbs", metavar="VERB", required=True)
    _add_checks(verbs)
    _add_failures(verbs)
    _add_baselines(verbs)
    measuring.add(verbs)

    lint = verbs.add_parser("lint", help="report registers, spills and patterns of compiled kernels")
    lint.add_argument("-k", "--kernel", metavar="KERNEL", help="a registered kernel (default: all)")
    lint.add_argument("-p", "--ptx", type=Path, metavar="FILE", help="inspect this PTX instead of compiling the source")
    lint.add_argument(
        "--arch", type=architecture, metavar="SM", help="compile for this architecture instead, e.g. sm_90"
    )
    lint.add_argument("--format", choices=("text", "json"), default="text")
    lint.set_defaults(run=_lint)

    status = verbs.add_parser("status", help="say what is installed and what is stored")
    status.set_defaults(run=_status)

    daemon = verbs.add_parser("daemon", help="accepted for scripts of the original: there is no daemon")
    daemon.add_argument("action", choices=("start", "stop"))
    daemon.add_argument("--background", action="store_true", help=argparse.SUPPRESS)
    daemon.set_defaults(run=_daemon)

    doctor = verbs.add_parser("doctor", help="try every part of a check, and say how to get what is missing")
    doctor.add_argument("--format", choices=("text", "json"), default="text")
    doctor.set_defaults(run=_doctor)

    init = verbs.add_parser("init", help="write a gpuemu.toml and an example kernel that passes")
    init.add_argument("-n", "--name", default=None, help="the project's name (default: the folder's)")
    init.add_argument("-t", "--target-dir", type=Path, default=Path(), metavar="DIR", help="where (default: here)")
    init.set_defaults(run=_init)
    return parser


def _add_checks(verbs: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    targets = argparse.ArgumentParser(add_help=False)
    targets.add_argument("targets", nargs="*", metavar="PATH", help="a project, a folder, a .cu file or kernel names")
    shared = argparse.ArgumentParser(add_help=False)
    add_running(shared)
    shared.add_argument(
        "--dask", metavar="ADDRESS", help="run on the workers of this Dask scheduler, HOST:PORT, or of a 'local' one"
    )
    shared.add_argument(
        "--shard", type=shard, metavar="I/N", help="only the I-th of N parts of the kernels, for jobs side by side"
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
    report.add_argument("--include-artifacts", metavar="TAG", help="tell what is different from this baseline too")
    report.add_argument("--signed", action="store_true", help="sign it: writes an attestation beside --output")
    report.add_argument("--key", type=Path, metavar="FILE", help="private key to sign with (default: your own)")
    report.set_defaults(run=_report)
    verify = verbs.add_parser(
        "verify",
        help="verify a signed report",
        epilog="Exit codes: 0 genuine; 1 not genuine, or of other files than those here; 2 it cannot be verified.",
    )
    verify.add_argument("report", type=Path, metavar="FILE", help="the report")
    verify.add_argument("--attestation", type=Path, metavar="FILE", help="(default: FILE.intoto.json beside it)")
    verify.add_argument("--key", type=Path, metavar="FILE", help="public key to trust (default: your own)")
    verify.set_defaults(run=_verify)

    fuzz = verbs.add_parser("fuzz", help="run fresh random cases", parents=[shared], epilog=EXIT_CODES)
    fuzz.add_argument("-o", "--op", action="append", metavar="KERNEL", help="a kernel (default: all); may be repeated")
    fuzz.add_argument("-i", "--iterations", type=positive, default=100, metavar="N", help="cases (default: 100)")
    fuzz.add_argument(
        "--time", type=duration, metavar="T", help="run cases for about this long (90, 90s, 10m, 2h) in place of N"
    )
    fuzz.add_argument("--strategy", choices=FUZZ_STRATEGIES, default="quick", help="how cases are drawn")
    fuzz.add_argument("--fail-fast", action="store_true", help="stop a kernel at its first failing case")
    fuzz.set_defaults(run=_fuzz)


def _add_failures(verbs: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    failures = verbs.add_parser("failures", help="list stored failing cases, latest first")
    failures.add_argument("-l", "--limit", type=positive, default=20, metavar="N")
    failures.add_argument("--format", choices=("text", "json"), default="text")
    failures.set_defaults(run=_failures)

    again = argparse.ArgumentParser(add_help=False)
    again.add_argument("case", metavar="ID", help="a case id, as findings and `gpuemu failures` show it")
    again.add_argument("-k", "--kernel", metavar="KERNEL", help="only of this kernel: kernels may share an id")
    again.add_argument("--format", choices=("text", "json"), default="text")
    again.add_argument(
        "--arch", type=architecture, metavar="SM", help="compile for this architecture instead, e.g. sm_90"
    )
    again.add_argument("--executor", choices=("auto", "emulator", "gpu"), default="auto", help="where kernels run")
    add_colour(again)
    reproduce = verbs.add_parser(
        "reproduce",
        parents=[again],
        help="run a stored case again",
        epilog="Exit codes: 0 fixed; 1 still fails, or fails otherwise; 2 it could not be run; 3 internal error.",
    )
    reproduce.add_argument(
        "--script", type=Path, metavar="FILE.py", help="also write a script (and FILE.npz) that shows it alone"
    )
    reproduce.add_argument(
        "--picture", type=Path, metavar="FILE.png", help="also draw where the wrong elements of the output lie"
    )
    reproduce.add_argument("--ptx", type=Path, metavar="FILE", help="also write the PTX that was run")
    reproduce.set_defaults(run=_reproduce)
    minimize = verbs.add_parser(
        "minimize",
        parents=[again],
        help="find the smallest case that fails in the same way, and store it",
        epilog="Exit codes: 1 it fails; 0 it does not fail any more; 2 it could not be run; 3 internal error.",
    )
    minimize.add_argument("--strategy", choices=STRATEGIES, default="all")
    minimize.add_argument("--max-iters", type=positive, default=300, metavar="N", help="launches (default: 300)")
    minimize.set_defaults(run=_minimize)


def _add_baselines(verbs: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    running = argparse.ArgumentParser(add_help=False)
    add_running(running)
    baseline = verbs.add_parser(
        "baseline",
        parents=[running],
        help="measure the registered kernels and keep it under a tag",
        epilog="Exit codes: 0 stored; 1 stored, and kernels fail; 2 something was not measured; 3 internal error.",
    )
    baseline.add_argument("tag", metavar="TAG", help="its name; a baseline of that name is replaced")
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
        "--threshold", type=fraction, metavar="R", help="relative growth that is noise (default: the project's)"
    )
    diff.add_argument("--format", choices=("text", "json"), default="text")
    diff.set_defaults(run=_diff)


def _baseline(options: argparse.Namespace) -> int:
    from gpuemu_lsp.cli.baselines import store_baseline

    return store_baseline(options.tag, _options(options, options.cases), options.jobs)


def _diff(options: argparse.Namespace) -> int:
    from gpuemu_lsp.cli.baselines import diff

    chosen = _options(options, STANDARD_CASES)
    return diff(options.baseline, chosen, options.jobs, options.fail_on_regression, options.format, options.threshold)


def _test(options: argparse.Namespace) -> int:
    from gpuemu_lsp.cli.checking import check

    return check(_order(options, options.jobs))


def _ci(options: argparse.Namespace) -> int:
    from gpuemu_lsp.cli.reporting import Extras, report

    policies = _policies()
    jobs = options.jobs if options.parallel is None else options.parallel or policies.parallel_jobs
    order = _order(options, jobs)
    if options.quick:
        order = replace(order, options=replace(order.options, dtypes=policies.quick_dtypes))
    elif options.thorough:
        order = replace(order, options=replace(order.options, seconds=float(policies.thorough_timeout)))
    return report(order, Extras(baseline=options.baseline))


def _report(options: argparse.Namespace) -> int:
    from gpuemu_lsp.cli.reporting import Extras, report

    extras = Extras(options.include_artifacts, fail=False, signed=options.signed, key=options.key)
    return report(_order(options, options.jobs), extras)


def _verify(options: argparse.Namespace) -> int:
    from gpuemu_lsp.cli.verifying import verify

    return verify(options.report, options.attestation, options.key)


def _order(options: argparse.Namespace, jobs: int | None) -> Order:
    from gpuemu_lsp.cli.checking import Order
    from gpuemu_lsp.cli.output import output_of

    cases = QUICK_CASES if options.quick else THOROUGH_CASES if options.thorough else options.cases or STANDARD_CASES
    chosen = replace(_options(options, cases), coverage=options.thorough)
    return Order(options.targets, chosen, output_of(options), jobs, options.dask, options.shard)


def _policies() -> Policies:
    """Return the settings of the configuration here, or what holds without one."""
    from gpuemu_lsp.engine.project import discover, load
    from gpuemu_lsp.engine.project.model import Policies

    config = discover(Path.cwd())
    return load(config).policies if config is not None else Policies()


def _fuzz(options: argparse.Namespace) -> int:
    import secrets

    from gpuemu_lsp.cli.checking import Order, check
    from gpuemu_lsp.cli.output import output_of

    chosen = _options(options, options.iterations)
    if not chosen.seed_given:  # fuzzing means new cases; the seed is told so that they can be had again
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
    return check(Order(options.op or [], chosen, output_of(options), options.jobs, options.dask, options.shard))


def _options(options: argparse.Namespace, cases: int) -> CheckOptions:
    from gpuemu_lsp.engine.check.model import DEFAULT_SEED, CheckOptions

    return CheckOptions(
        cases=cases,
        seed=DEFAULT_SEED if options.seed is None else options.seed,
        seed_given=options.seed is not None,
        arch=options.arch,
        executor=options.executor,
        counters=getattr(options, "counters", False),
    )


def _failures(options: argparse.Namespace) -> int:
    from gpuemu_lsp.cli.failures import list_failures

    return list_failures(options.limit, options.format)


def _again(options: argparse.Namespace) -> Again:
    from gpuemu_lsp.cli.replaying import Again

    return Again(options.case, options.kernel, options.executor, options.format, options.color, options.arch)


def _reproduce(options: argparse.Namespace) -> int:
    from gpuemu_lsp.cli.replaying import Files, reproduce

    return reproduce(_again(options), Files(options.script, options.ptx, options.picture))


def _minimize(options: argparse.Namespace) -> int:
    from gpuemu_lsp.cli.replaying import minimize

    return minimize(_again(options), options.strategy, options.max_iters)


def _lint(options: argparse.Namespace) -> int:
    from gpuemu_lsp.cli.linting import lint

    return lint(options.kernel, options.ptx, options.arch, options.format)


def _status(options: argparse.Namespace) -> int:
    from gpuemu_lsp.cli.status import status

    return status()


def _daemon(options: argparse.Namespace) -> int:
    print(f"gpuemu: there is no daemon to {options.action}; every command does its work itself.", file=sys.stderr)
    return 0


def _doctor(options: argparse.Namespace) -> int:
    from gpuemu_lsp.cli.doctor import doctor

    return doctor(options.format)


def _init(options: argparse.Namespace) -> int:
    from gpuemu_lsp.cli.init import init

    return init(options.target_dir, options.name)


if __name__ == "__main__":
    sys.exit(main())
