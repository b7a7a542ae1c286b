"""``gpuemu``: the command with the verbs of the original gpuemu."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from gpuemu_lsp import __version__
from gpuemu_lsp.cli.arguments import EXIT_CODES, architecture
from gpuemu_lsp.cli.verbs import agents, answers, cases, checks, measures, programs


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a verb and return its exit code."""
    words, own = programs.split_arguments(sys.argv[1:] if arguments is None else arguments)
    parser = _parser()
    try:
        options, unknown = parser.parse_known_args(words)
        if unknown:
            # Of `gpuemu run ./program -n 5`, these are the program's.
            hint = ": those of the program go after --" if words[0] == "run" else ""
            parser.error(f"unrecognized arguments: {' '.join(unknown)}{hint}")
    except SystemExit as exit_:
        return int(exit_.code or 0)
    if own:
        options.program += own
    from gpuemu_lsp.cli.process_boundary import guarded

    run: Callable[[argparse.Namespace], int] = options.run
    return guarded(lambda: run(options))


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="gpuemu", description="Validate CUDA kernels with no GPU.", epilog=EXIT_CODES, allow_abbrev=False
    )
    parser.add_argument("--version", "-V", action="version", version=f"gpuemu {__version__}")
    verbs = parser.add_subparsers(title="verbs", metavar="VERB", required=True)
    checks.add(verbs)
    cases.add(verbs)
    measures.add(verbs)
    programs.add(verbs)
    answers.add(verbs)
    agents.add(verbs)

    lint = verbs.add_parser("lint", help="report registers, spills and patterns of compiled kernels")
    lint.add_argument("-k", "--kernel", metavar="KERNEL", help="a registered kernel (default: all)")
    lint.add_argument("-p", "--ptx", type=Path, metavar="FILE", help="inspect this PTX instead of compiling the source")
    lint.add_argument(
        "--emit-ptx", type=Path, metavar="FILE", help="write the kernel's PTX to FILE, or to standard output for '-'"
    )
    lint.add_argument(
        "--arch", type=architecture, metavar="SM", help="compile for this architecture instead, e.g. sm_90"
    )
    lint.add_argument("--format", choices=("text", "json"), default="text")
    lint.set_defaults(run=_lint)

    status = verbs.add_parser("status", help="show installed versions, the project and its store")
    status.set_defaults(run=_status)

    daemon = verbs.add_parser("daemon", help="list or end the warm processes of gpuemu-lsp --check --daemon")
    daemon.add_argument("action", choices=("status", "stop", "start"))
    daemon.add_argument("--background", action="store_true", help=argparse.SUPPRESS)
    daemon.set_defaults(run=_daemon)

    doctor = verbs.add_parser(
        "doctor",
        help="test every component of a check; for a file or project, show what would let more kernels run",
        epilog="Exit codes: 0 kernels can be checked, or all kernels of PATH ran; 2 they cannot, or some did not run.",
    )
    doctor.add_argument("path", nargs="?", type=Path, metavar="PATH", help="a .cu or .cuh file, or a folder")
    doctor.add_argument("--format", choices=("text", "json"), default="text")
    doctor.set_defaults(run=_doctor)

    register = verbs.add_parser("register", help="write a kernel's entry of gpuemu.toml, with what was found filled in")
    register.add_argument("target", nargs="?", metavar="FILE:KERNEL", help="an unregistered kernel of a file")
    register.add_argument(
        "--from-recording",
        nargs="?",
        type=Path,
        const=None,
        default=False,
        metavar="FILE",
        help="register with recorded launches; without FILE:KERNEL all unregistered kernels that have any",
    )
    register.set_defaults(run=_register)

    init = verbs.add_parser("init", help="write a gpuemu.toml and an example kernel that passes")
    init.add_argument("-n", "--name", default=None, help="the project's name (default: the folder's)")
    init.add_argument("-t", "--target-dir", type=Path, default=Path(), metavar="DIR", help="target folder (default: .)")
    frameworks = ("pytorch", "torch", "jax", "tensorflow", "tf")
    init.add_argument("-f", "--framework", choices=frameworks, help="write an example op of this framework instead")
    init.set_defaults(run=_init)
    return parser


def _lint(options: argparse.Namespace) -> int:
    from gpuemu_lsp.cli.commands.lint import lint

    return lint(options.kernel, options.ptx, options.arch, options.format, options.emit_ptx)


def _status(options: argparse.Namespace) -> int:
    from gpuemu_lsp.cli.commands.status import status

    return status()


def _daemon(options: argparse.Namespace) -> int:
    from gpuemu_lsp.cli.commands.daemon import status, stop

    if options.action == "start":
        print("gpuemu: nothing to start: gpuemu-lsp --check --daemon does it, every other command runs on its own.")
        return 0
    return status() if options.action == "status" else stop()


def _doctor(options: argparse.Namespace) -> int:
    if options.path is not None:
        from gpuemu_lsp.cli.commands.doctor_targets import doctor_target

        return doctor_target(options.path, options.format)
    from gpuemu_lsp.cli.commands.doctor import doctor

    return doctor(options.format)


def _register(options: argparse.Namespace) -> int:
    from gpuemu_lsp.cli.commands.register import register, register_recorded
    from gpuemu_lsp.engine.report.exit_codes import EXIT_USAGE

    if options.from_recording is not False:
        return register_recorded(options.from_recording, options.target)
    if options.target is None:
        print("gpuemu: name the kernel as FILE:KERNEL, or use --from-recording.", file=sys.stderr)
        return EXIT_USAGE
    return register(options.target)


def _init(options: argparse.Namespace) -> int:
    from gpuemu_lsp.cli.commands.init import init

    return init(options.target_dir, options.name, options.framework)


if __name__ == "__main__":
    sys.exit(main())
