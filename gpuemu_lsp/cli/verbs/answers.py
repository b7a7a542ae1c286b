"""Arguments of ``gpuemu judge``."""

from __future__ import annotations

import argparse
from pathlib import Path

from gpuemu_lsp.cli.arguments import Verbs, positive

_SECONDS = 300


def add(verbs: Verbs) -> None:
    """Add the parser."""
    judge = verbs.add_parser(
        "judge",
        help="judge answers to benchmarks of PyTorch kernels: ModelNew against Model",
        epilog="Exit codes: 0 all answers are the same as their tasks; 1 one differs, is unsafe, a hack or does not "
        "build; 2 one was not judged, or there is none; 3 internal error.",
    )
    judge.add_argument("answers", nargs="+", type=Path, metavar="ANSWERS", help="files and folders with ModelNew")
    judge.add_argument(
        "--reference",
        action="append",
        default=[],
        type=Path,
        metavar="PATH",
        help="a file with Model, or the folder of a benchmark's tasks; may be repeated",
    )
    judge.add_argument("--jobs", type=positive, default=1, metavar="N", help="answers at once (default: 1)")
    judge.add_argument(
        "--timeout", type=positive, default=_SECONDS, metavar="S", help=f"seconds for an answer (default: {_SECONDS})"
    )
    judge.add_argument(
        "--format", choices=("text", "json", "markdown", "csv"), default="text", help="format of the report"
    )
    judge.add_argument(
        "--only", action="append", default=[], metavar="NAME", help="judge the answer of this name; may be repeated"
    )
    judge.add_argument(
        "--resume",
        type=Path,
        metavar="FILE",
        help="add each row to FILE, and do not judge again what it has: of a run that was ended, go on with the rest",
    )
    judge.add_argument(
        "--dask",
        metavar="ADDRESS",
        help="judge on the workers of the Dask scheduler at HOST:PORT, or of a 'local' one; they read the same files",
    )
    judge.add_argument("-o", "--output", type=Path, metavar="FILE", help="write to FILE instead of standard output")
    judge.set_defaults(run=_judge)


def _judge(options: argparse.Namespace) -> int:
    from gpuemu_lsp.cli.commands.judge import judge

    return judge(
        options.answers,
        options.reference,
        options.format,
        options.output,
        jobs=options.jobs,
        seconds=float(options.timeout),
        only=options.only,
        resume=options.resume,
        dask=options.dask,
    )
