"""``gpuemu-lsp``: the language server, and ``--check`` for terminals and CI.

Standard output contains only the chosen format; progress goes to standard error, and only if that is a terminal.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

from gpuemu_lsp import __version__
from gpuemu_lsp.cli.arguments import EXIT_CODES, add_counters, add_output, add_running, loopback, options_of, positive

if TYPE_CHECKING:
    from gpuemu_lsp.cli.commands.check import SharedPool


def main(arguments: Sequence[str] | None = None, pool: SharedPool | None = None) -> int:
    """Run the command and return its exit code (see :mod:`~gpuemu_lsp.engine.report.exit_codes`).

    Parameters
    ----------
    arguments
        Those of the command, by default those of this process.
    pool
        Runs the jobs of ``--check``, by default a pool of its own.
    """
    parser = _parser()
    try:
        options = parser.parse_args(arguments)
    except SystemExit as exit_:  # argparse: 0 after --help and --version, 2 on bad usage
        return int(exit_.code or 0)
    from gpuemu_lsp.cli.process_boundary import guarded

    return guarded(lambda: _run(options, pool))


def _run(options: argparse.Namespace, pool: SharedPool | None) -> int:
    if options.explain is not None:
        return _explain(options.explain)
    if options.debug_adapter:
        from gpuemu_lsp.debug_adapter.start import serve as serve_debugger

        return serve_debugger()
    if options.check is None and not options.watch:
        from gpuemu_lsp.server.start import serve

        return serve(options.tcp, options.ws)
    from gpuemu_lsp.cli.commands.check import CheckCommand, check, watch
    from gpuemu_lsp.cli.output import output_of

    chosen = options_of(options, options.cases)
    command = CheckCommand(options.check or [], chosen, output_of(options), options.jobs, expect=options.expect)
    return watch(command) if options.watch else check(command, pool)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="gpuemu-lsp", description="Catch silently wrong CUDA kernels. No GPU needed.", epilog=EXIT_CODES
    )
    parser.add_argument("--version", "-V", action="version", version=f"gpuemu-lsp {__version__}")
    parser.add_argument("--stdio", action="store_true", help="speak LSP over stdin and stdout (the default)")
    socket = parser.add_mutually_exclusive_group()
    socket.add_argument(
        "--tcp", type=loopback, metavar="HOST:PORT", help="speak LSP over TCP, to one client on this machine"
    )
    socket.add_argument("--ws", type=loopback, metavar="HOST:PORT", help="the same over a WebSocket (needs websockets)")
    parser.add_argument(
        "--debug-adapter",
        action="store_true",
        help="speak the Debug Adapter Protocol over stdin and stdout: a failing case, forwards and backwards",
    )
    parser.add_argument("--clientProcessId", help=argparse.SUPPRESS)  # passed by some LSP clients
    parser.add_argument(
        "--check",
        nargs="*",
        metavar="PATH",
        help="check a project, a folder, a .cu file, or kernels by name (default: .)",
    )
    parser.add_argument(
        "--daemon",
        action="store_true",
        help="with --check: let the warm process of the project check, which is started if there is none",
    )
    parser.add_argument("--watch", action="store_true", help="with --check: check again whenever a file changes")
    parser.add_argument(
        "--cases",
        type=positive,
        metavar="N",
        help="cases per kernel and dtype (default: 8, and up to 16 while they are cheap)",
    )
    add_running(parser)
    add_counters(parser)
    add_output(parser)
    parser.add_argument(
        "--expect",
        action="store_true",
        help="end with 0 when the errors are those that '// expect: RULE' comments announce",
    )
    parser.add_argument("--explain", metavar="RULE", help="explain a rule, or 'all' of them")
    return parser


def _explain(name: str) -> int:
    from gpuemu_lsp.cli.process_boundary import print_out
    from gpuemu_lsp.engine.report.catalogue import explanation
    from gpuemu_lsp.engine.rules import RULES

    if name == "all":
        chosen = list(RULES.values())
    elif name in RULES:
        chosen = [RULES[name]]
    else:
        import difflib

        close = difflib.get_close_matches(name, list(RULES), n=1)
        hint = f"did you mean '{close[0]}'?" if close else "--explain all lists them."
        print(f"gpuemu: there is no rule '{name}'; {hint}", file=sys.stderr)
        return 2
    print_out("\n".join(map(explanation, chosen)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
