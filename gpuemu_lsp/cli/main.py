"""``gpuemu-lsp``: the language server, and ``--check`` for terminals and CI.

Standard output carries the chosen format and nothing else; progress goes to standard error, and only to a terminal.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from pathlib import Path

from gpuemu_lsp import __version__

FORMATS = ("text", "json", "jsonl", "github")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; return its exit code (the help text says which means what)."""
    parser = _parser()
    try:
        options = parser.parse_args(arguments)
    except SystemExit as exit_:  # argparse: 0 after --help and --version, 2 on bad usage
        return int(exit_.code or 0)
    if options.explain is not None:
        return _explain(options.explain)
    if options.check is None and not options.watch:
        return _no_server()
    from gpuemu_lsp.cli.checking import check, watch

    try:
        return watch(options) if options.watch else check(options)
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="gpuemu-lsp",
        description="Catch silently wrong CUDA kernels. No GPU needed.",
        epilog="Exit codes: 0 all checked and clean; 1 error findings; 2 bad usage or config, or nothing was checked; "
        "3 internal error.",
    )
    parser.add_argument("--version", "-V", action="version", version=f"gpuemu-lsp {__version__}")
    parser.add_argument(
        "--check",
        nargs="*",
        metavar="PATH",
        help="check a project, a folder, a .cu file, or kernels by name (default: .)",
    )
    parser.add_argument("--watch", action="store_true", help="with --check: check again whenever a file changes")
    parser.add_argument("--format", choices=FORMATS, default="text", help="output format (default: text)")
    parser.add_argument("--output", metavar="FILE", type=Path, help="write there instead of standard output")
    parser.add_argument("--cases", type=_positive, metavar="N", help="cases per kernel and dtype (default: 8)")
    parser.add_argument("--seed", type=_seed, metavar="S", help="master seed (default: [validation].seed, else 42)")
    parser.add_argument("--jobs", type=_positive, metavar="N", help="worker processes (default: one per core)")
    parser.add_argument("--arch", metavar="SM", help="compile for this architecture instead, e.g. sm_90")
    parser.add_argument("--executor", choices=("auto", "emulator", "gpu"), default="auto", help="where kernels run")
    parser.add_argument(
        "--hints", action="store_true", help="show hints too: inferred launches, what was not run and why"
    )
    parser.add_argument("--color", choices=("auto", "always", "never"), default="auto", help="colours (default: auto)")
    parser.add_argument("--explain", metavar="RULE", help="explain a rule, or 'all' of them")
    return parser


def _positive(text: str) -> int:
    try:
        value = int(text)
    except ValueError:
        value = 0
    if value < 1:
        raise argparse.ArgumentTypeError(f"'{text}' is not a positive whole number")
    return value


def _seed(text: str) -> int:
    try:
        value = int(text, 0)
    except ValueError:
        value = -1
    if not 0 <= value < 1 << 64:
        raise argparse.ArgumentTypeError(f"'{text}' is not a whole number from 0 to 2^64 - 1")
    return value


def _explain(name: str) -> int:
    from gpuemu_lsp.engine.rules import RULES

    if name == "all":
        chosen = list(RULES.values())
    elif name in RULES:
        chosen = [RULES[name]]
    else:
        import difflib

        close = difflib.get_close_matches(name, list(RULES), n=1)
        hint = f"did you mean '{close[0]}'?" if close else "--explain all lists them."
        print(f"gpuemu-lsp: there is no rule '{name}'; {hint}", file=sys.stderr)
        return 2
    blocks = [f"{rule.name} ({rule.severity.value}): {rule.summary}\n\n{rule.doc}\n" for rule in chosen]
    sys.stdout.write("\n".join(blocks))
    return 0


def _no_server() -> int:
    print("gpuemu-lsp: this build checks from the command line; the language server is not in it yet.", file=sys.stderr)
    print("Try: gpuemu-lsp --check PATH", file=sys.stderr)
    return 2


if __name__ == "__main__":
    sys.exit(main())
