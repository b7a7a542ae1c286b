"""Arguments of ``gpuemu run``, ``gpuemu nvcc`` and ``gpuemu ptx``."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

from gpuemu_lsp.cli.arguments import Verbs, positive
from gpuemu_lsp.engine.recordings.project_files import SUFFIX

_RUN_SECONDS, _BUILD_SECONDS = 600, 3600
_BUILDERS = frozenset({"setup.py", "pip", "pip3", "uv", "make", "ninja", "cmake"})
"""Programs that build others: a file of an extension that goes to nvcc as it is takes minutes."""

RUN_EXIT_CODES = (
    "Exit codes: the program's own if every launch was checked and nothing was found; 1 error findings; 2 it could "
    "not be built or run, or a launch was not checked; 3 internal error."
)


def add(verbs: Verbs) -> None:
    """Add the parsers."""
    run = verbs.add_parser(
        "run",
        help="run a CUDA program without a GPU and check every launch",
        epilog=RUN_EXIT_CODES,
    )
    run.add_argument(
        "program",
        nargs="*",
        metavar="PROGRAM",
        help="a program built by `gpuemu nvcc`, .cu files, or a Python script, and after -- its arguments",
    )
    run.add_argument(
        "-m",
        dest="module",
        action="store_true",
        help="PROGRAM is a Python module, such as pytest; its arguments follow",
    )
    run.add_argument(
        "--torch-device",
        choices=("auto", "on", "off"),
        default="auto",
        help="give PyTorch a CUDA device; off: only launches of Triton and numba-cuda run (default: on for programs "
        "of PyTorch without numba-cuda, where the device can be built)",
    )
    run.add_argument(
        "--timeout",
        type=positive,
        metavar="SECONDS",
        help=f"wall time of the run (default: {_RUN_SECONDS}, of setup.py, pip and make {_BUILD_SECONDS})",
    )
    run.add_argument(
        "--memory",
        type=positive,
        metavar="MIB",
        help="memory that gpuemu may use, in MiB (default: what the machine has)",
    )
    run.add_argument(
        "--record",
        nargs="?",
        const="",
        metavar="FILE",
        help="record the launches, for checks of the kernels that gpuemu.toml does not mention; FILE ends in "
        f"{SUFFIX} (default: .gpuemu/recordings/PROGRAM{SUFFIX} in the project)",
    )
    run.add_argument(
        "--arch",
        metavar="SM",
        help="architecture to compile .cu files for, and of the device of a Python program, such as sm_90a (default: "
        "sm_80, with CuTe DSL sm_90a)",
    )
    run.add_argument("--leaks", action="store_true", help="report memory that the program does not free")
    run.add_argument("--format", choices=("text", "json"), default="text", help="format of the result")
    run.add_argument("--output", type=Path, metavar="FILE", help="write the result to FILE instead of standard error")
    run.set_defaults(run=_run, parser=run)

    nvcc = verbs.add_parser(
        "nvcc", help="compile like nvcc, for `gpuemu run`: make NVCC='gpuemu nvcc'", add_help=False, prefix_chars="\0"
    )
    nvcc.add_argument("arguments", nargs="*", metavar="ARG", help="arguments of nvcc")
    nvcc.set_defaults(run=_nvcc)

    cxx = verbs.add_parser(
        "cxx", help="compile C++ like g++; objects of PyTorch's extensions are kept", add_help=False, prefix_chars="\0"
    )
    cxx.add_argument("arguments", nargs="*", metavar="ARG", help="arguments of g++")
    cxx.set_defaults(run=_cxx)

    ptx = verbs.add_parser(
        "ptx",
        help="ptxas' errors, registers and the instruction mix of a PTX file, or the difference of two",
        epilog="Exit codes: 0 assembled, or no difference; 1 errors of ptxas, or a difference; 2 nothing to read or "
        "no ptxas.",
    )
    ptx.add_argument(
        "files", nargs="+", type=Path, metavar="FILE", help="a PTX file; with a second one they are compared"
    )
    ptx.add_argument("--arch", metavar="SM", help="architecture to assemble for (default: the target of the file)")
    ptx.add_argument("--format", choices=("text", "json"), default="text", help="format of the result")
    ptx.set_defaults(run=_ptx, parser=ptx)


def split_arguments(words: Sequence[str]) -> tuple[list[str], list[str]]:
    """Return the arguments of ``gpuemu``, and those of the program that it runs.

    They are after ``--``, or without one after ``-m MODULE``, as Python has it.
    """
    own = list(words)
    if own[:1] != ["run"]:
        return own, []
    if "--" in own:
        end = own.index("--")
        own, program = own[:end], own[end + 1 :]
        named = 2 if program[:1] == ["-m"] else 0  # `gpuemu run -- -m pytest`
        return own + program[:named], program[named:]
    end = own.index("-m") + 2 if "-m" in own else len(own)
    return own[:end], own[end:]


def _run(options: argparse.Namespace) -> int:
    from gpuemu_lsp.cli.commands.python_programs import PythonProgram
    from gpuemu_lsp.cli.commands.run import run, run_python_program
    from gpuemu_lsp.engine.runtime.program import RunLimits

    words, record = options.program, options.record
    if record and not record.endswith(SUFFIX):
        # `--record prog.cu`: the option has no value, and the program follows.
        words, record = [record, *words], ""
    if not words:
        options.parser.error("PROGRAM is missing")
    default = _BUILD_SECONDS if Path(words[0]).name in _BUILDERS else _RUN_SECONDS
    memory = None if options.memory is None else options.memory << 20
    limits = RunLimits(options.timeout or default, memory_bytes=memory)
    if options.module or words[0].endswith(".py"):
        program = PythonProgram(tuple(words), options.module, options.torch_device, options.arch)
        return run_python_program(program, limits, options.format, options.output, leaks=options.leaks, record=record)
    return run(
        words,
        limits,
        options.format,
        options.output,
        leaks=options.leaks,
        record=record,
        arch=options.arch,
    )


def _ptx(options: argparse.Namespace) -> int:
    from gpuemu_lsp.cli.commands.ptx import ptx

    if len(options.files) > 2:
        options.parser.error("one file is inspected, two are compared")
    return ptx(options.files, options.arch, options.format)


def _cxx(options: argparse.Namespace) -> int:
    from gpuemu_lsp.cli.commands.nvcc import cxx

    return cxx(options.arguments)


def _nvcc(options: argparse.Namespace) -> int:
    from gpuemu_lsp.cli.commands.nvcc import nvcc

    return nvcc(options.arguments)
