"""Arguments of ``gpuemu failures``, ``reproduce``, ``why`` and ``minimize``."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from gpuemu_lsp.cli.arguments import Verbs, add_colour, architecture, positive

if TYPE_CHECKING:
    from gpuemu_lsp.cli.commands.replay import ReplayOptions

STRATEGIES = ("all", "binary-search-dims", "binary-search-values")


def add(verbs: Verbs) -> None:
    """Add the parsers."""
    failures = verbs.add_parser("failures", help="list stored failing cases, latest first")
    failures.add_argument("-l", "--limit", type=positive, default=20, metavar="N")
    failures.add_argument("--format", choices=("text", "json"), default="text")
    failures.set_defaults(run=_failures)

    shared = argparse.ArgumentParser(add_help=False)
    shared.add_argument("case", metavar="ID", help="a case id, as findings and `gpuemu failures` show it")
    shared.add_argument("-k", "--kernel", metavar="KERNEL", help="only this kernel's: kernels may share an id")
    shared.add_argument("--format", choices=("text", "json"), default="text")
    shared.add_argument(
        "--arch", type=architecture, metavar="SM", help="compile for this architecture instead, e.g. sm_90"
    )
    shared.add_argument("--executor", choices=("auto", "emulator", "gpu"), default="auto", help="where kernels run")
    add_colour(shared)
    reproduce = verbs.add_parser(
        "reproduce",
        parents=[shared],
        help="run a stored case again",
        epilog="Exit codes: 0 fixed; 1 it still fails, or fails differently; 2 it could not be run; 3 internal error.",
    )
    reproduce.add_argument(
        "--script", type=Path, metavar="FILE.py", help="also write a standalone script, and its data as FILE.npz"
    )
    reproduce.add_argument(
        "--picture", type=Path, metavar="FILE.png", help="also write a picture of the wrong elements of the output"
    )
    reproduce.add_argument("--ptx", type=Path, metavar="FILE", help="also write the PTX of the kernel")
    reproduce.set_defaults(run=_reproduce)
    why = verbs.add_parser(
        "why",
        parents=[shared],
        help="explain a stored case: statement by statement, what the wrong value or access comes from",
        epilog="Exit codes: 0 it no longer fails; 1 it fails; 2 it could not be run; 3 internal error.",
    )
    why.set_defaults(run=_why)
    minimize = verbs.add_parser(
        "minimize",
        parents=[shared],
        help="find the smallest case that fails in the same way, and store it",
        epilog="Exit codes: 0 it no longer fails; 1 it fails; 2 it could not be run; 3 internal error.",
    )
    minimize.add_argument("--strategy", choices=STRATEGIES, default="all")
    minimize.add_argument("--max-iters", type=positive, default=300, metavar="N", help="launches (default: 300)")
    minimize.set_defaults(run=_minimize)


def _failures(options: argparse.Namespace) -> int:
    from gpuemu_lsp.cli.commands.failures import list_failures

    return list_failures(options.limit, options.format)


def _replay_options(options: argparse.Namespace) -> ReplayOptions:
    from gpuemu_lsp.cli.commands.replay import ReplayOptions

    return ReplayOptions(options.case, options.kernel, options.executor, options.format, options.color, options.arch)


def _reproduce(options: argparse.Namespace) -> int:
    from gpuemu_lsp.cli.commands.replay import ExportPaths, reproduce

    return reproduce(_replay_options(options), ExportPaths(options.script, options.ptx, options.picture))


def _why(options: argparse.Namespace) -> int:
    from gpuemu_lsp.cli.commands.replay import why

    return why(_replay_options(options))


def _minimize(options: argparse.Namespace) -> int:
    from gpuemu_lsp.cli.commands.replay import minimize

    return minimize(_replay_options(options), options.strategy, options.max_iters)
