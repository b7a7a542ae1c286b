"""Arguments and argument types shared by both commands."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from gpuemu_lsp.engine.subjects.request import CheckOptions

Verbs: TypeAlias = "argparse._SubParsersAction[argparse.ArgumentParser]"

STANDARD_CASES = 32
FORMATS = ("text", "json", "jsonl", "github", "gitlab", "junit", "sarif", "markdown", "html")

EXIT_CODES = (
    "Exit codes: 0 all checked and clean; 1 error findings; 2 bad usage or config, or nothing was checked; "
    "3 internal error."
)


def add_output(parser: argparse.ArgumentParser) -> None:
    """Add the arguments for the output of a check."""
    parser.add_argument("--format", type=_format, choices=FORMATS, default="text", help="output format (default: text)")
    parser.add_argument("--output", metavar="FILE", type=Path, help="write to FILE instead of standard output")
    parser.add_argument("--also-json", metavar="FILE", type=Path, help="write the same result as JSON to FILE, too")
    parser.add_argument(
        "--hints", action="store_true", help="show hints too: inferred launches, kernels not run and the reason"
    )
    parser.add_argument(
        "--require-reference", action="store_true", help="exit code 2 if the numbers of a kernel were not compared"
    )
    add_colour(parser)


def add_colour(parser: argparse.ArgumentParser) -> None:
    """Add ``--color``."""
    parser.add_argument("--color", choices=("auto", "always", "never"), default="auto", help="colours (default: auto)")


def add_running(parser: argparse.ArgumentParser) -> None:
    """Add the arguments for running kernels."""
    parser.add_argument("--seed", type=seed, metavar="S", help="master seed (default: [validation].seed, else 42)")
    parser.add_argument("--jobs", type=positive, metavar="N", help="worker processes (default: one per core)")
    add_threads(parser)
    parser.add_argument(
        "--arch", type=architecture, metavar="SM", help="compile for this architecture instead, e.g. sm_90"
    )
    parser.add_argument("--executor", choices=("auto", "emulator", "gpu"), default="auto", help="where kernels run")


def add_threads(parser: argparse.ArgumentParser) -> None:
    """Add ``--threads``."""
    parser.add_argument("--threads", type=_threads, metavar="N", help="threads of each launch (default: 1)")


def add_counters(parser: argparse.ArgumentParser) -> None:
    """Add ``--counters``."""
    parser.add_argument(
        "--counters",
        action="store_true",
        help="count the memory traffic, bank conflicts, idle lanes and operations of the largest passing case",
    )


def options_of(options: argparse.Namespace, cases: int | None) -> CheckOptions:
    """Return the check options of the arguments of :func:`add_running`."""
    from gpuemu_lsp.engine.subjects.request import DEFAULT_SEED, CheckOptions

    return CheckOptions(
        cases=cases,
        seed=DEFAULT_SEED if options.seed is None else options.seed,
        seed_given=options.seed is not None,
        arch=options.arch,
        executor=options.executor,
        counters=getattr(options, "counters", False),
    )


def positive(text: str) -> int:
    """Parse a positive whole number."""
    try:
        value = int(text)
    except ValueError:
        value = 0
    if value < 1:
        raise argparse.ArgumentTypeError(f"'{text}' is not a positive whole number")
    return value


def _threads(text: str) -> int:
    """Parse a number of threads, and let launches of this process and its workers have as many."""
    from gpuemu_lsp.engine import host_threads

    threads = positive(text)
    host_threads.choose(threads)
    return threads


def _format(text: str) -> str:
    """Parse a format name, including the original gpuemu's names."""
    return {"pr-comment": "markdown", "xml": "junit"}.get(text, text)


def natural(text: str) -> int:
    """Parse a whole number of at least 0."""
    return 0 if text.strip() == "0" else positive(text)


def fraction(text: str) -> float:
    """Parse a number of at least 0."""
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not 0.0 <= value < float("inf"):
        raise argparse.ArgumentTypeError(f"'{text}' is not a number of at least 0")
    return value


def percentage(text: str) -> float:
    """Parse a number from 0 to 100, with or without ``%``."""
    try:
        value = float(text.removesuffix("%"))
    except ValueError:
        value = -1.0
    if not 0.0 <= value <= 100.0:
        raise argparse.ArgumentTypeError(f"'{text}' is not a number from 0 to 100")
    return value


def shard(text: str) -> tuple[int, int]:
    """Parse ``I/N``: the I-th of N parts, counted from 1."""
    part, _, count = text.partition("/")
    if not (part.isdecimal() and count.isdecimal() and 1 <= int(part) <= int(count)):
        raise argparse.ArgumentTypeError(f"'{text}' is not I/N with I from 1 to N, such as 2/4")
    return int(part), int(count)


def loopback(text: str) -> tuple[str, int]:
    """Parse HOST:PORT of a loopback address; the protocol has no authentication."""
    host, _, port = text.rpartition(":")
    host = host.strip("[]") or "127.0.0.1"
    if not port.isdecimal() or int(port) > 65535:
        raise argparse.ArgumentTypeError(f"'{text}' is not HOST:PORT")
    if host not in ("127.0.0.1", "localhost", "::1"):
        raise argparse.ArgumentTypeError(f"'{host}' is not a loopback address: use 127.0.0.1, ::1 or localhost")
    return host, int(port)


def seed(text: str) -> int:
    """Parse a 64-bit seed, decimal or hexadecimal."""
    try:
        value = int(text, 0)
    except ValueError:
        value = -1
    if not 0 <= value < 1 << 64:
        raise argparse.ArgumentTypeError(f"'{text}' is not a whole number from 0 to 2^64 - 1")
    return value


def architecture(text: str) -> str:
    """Parse an architecture name; NVRTC reports those that it does not support."""
    if not text.startswith("sm_") or not text[3:].rstrip("af").isdigit():
        raise argparse.ArgumentTypeError(f"'{text}' is not an architecture such as sm_80")
    return text


def duration(text: str) -> float:
    """Parse a duration in seconds, or with the unit s, m or h."""
    factor = {"s": 1.0, "m": 60.0, "h": 3600.0}.get(text[-1:], 0.0)
    try:
        seconds = float(text[:-1]) * factor if factor else float(text)
    except ValueError:
        seconds = 0.0
    if not 0 < seconds < 1e6:
        raise argparse.ArgumentTypeError(f"'{text}' is not a duration such as 90, 90s, 10m or 2h")
    return seconds
