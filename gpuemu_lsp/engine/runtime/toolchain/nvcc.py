"""Commands of nvcc, with the options that whole programs need."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from gpuemu_lsp.engine.runtime.processes.supervised import run_supervised, temporary_folder
from gpuemu_lsp.engine.runtime.shim import LIBRARY, SOURCES
from gpuemu_lsp.engine.runtime.toolchain.architectures import requested_architecture
from gpuemu_lsp.engine.runtime.toolchain.extension_objects import compile_device_source
from gpuemu_lsp.engine.runtime.toolchain.library import runtime_library, toolkit_folder
from gpuemu_lsp.engine.runtime.toolchain.separate_compilation import (
    compile_options,
    expanded,
    is_hip_source,
    is_relocatable,
    output_of,
    registration,
    sources_in,
)
from gpuemu_lsp.engine.runtime.toolchain.wheels import nvcc_folder
from gpuemu_lsp.engine.source.headers.hip import FOLDER as HIP_FOLDER

_VALUE_OPTIONS = frozenset(
    (
        *("-arch", "--gpu-architecture", "-code", "--gpu-code", "-gencode", "--generate-code", "-cudart", "--cudart"),
        *("-maxrregcount", "--maxrregcount", "-Xptxas", "--ptxas-options", "-Xnvlink", "--nvlink-options"),
    )
)
"""Options of nvcc, each with a value, that choose what we choose (one architecture, as PTX, and the runtime), or that
are for tools that do not run. The architecture is one of those that they name."""

_DROPPED = frozenset(
    (
        *("-G", "--device-debug", "-lineinfo", "--generate-line-info", "-dlto", "--dlink-time-opt"),
        *("-lcuda", "-lcudart", "-lcudart_static", "-lcudadevrt", "-lculibos"),
    )
)
"""Code for a debugger is not optimised, and excludes ``-lineinfo``, which is given anyway; the runtime is ours."""

_NO_LINK = frozenset(
    (
        *("-c", "--compile", "-dc", "--device-c", "-ptx", "--ptx", "-E", "--preprocess", "-M", "-MM", "--version"),
        *("-V", "-lib", "--lib", "-cubin", "--cubin", "-fatbin", "--fatbin", "-cuda", "--cuda", "-h", "--help"),
    )
)
"""Options with which nvcc does not link."""

_DEVICE_LINK = frozenset(("-dlink", "--device-link"))
_VERBOSE = frozenset(("-v", "--verbose", "-dryrun", "--dryrun"))


def run_nvcc(arguments: Sequence[str]) -> int:
    """Do what nvcc does with ``arguments``; return the exit code.

    Raises
    ------
    ProgramBuildError
        If nvcc or a C++ compiler is missing.
    OSError
        If a file of options cannot be read.
    """
    words = expanded(arguments)
    if _VERBOSE.intersection(words):
        return _verbose(nvcc_command(words))
    with temporary_folder("gpuemu-nvcc-") as folder:
        return _run_nvcc(words, folder)


def _run_nvcc(words: list[str], folder: str) -> int:
    if _DEVICE_LINK.intersection(words):
        # Device code is linked when the program runs: what is needed here is the registration of each object.
        return _compiled(registration(words), output_of(words) or "a_dlink.o", folder)
    if _NO_LINK.intersection(words):
        if is_relocatable(words):
            return _run(nvcc_command(words), folder)
        return compile_device_source(words, nvcc_command, lambda: _run(nvcc_command(words), folder), folder)
    hip = [place for place in sources_in(words) if is_hip_source(words[place])]
    apart = sources_in(words) if is_relocatable(words) else hip
    if apart:
        options, kind = compile_options(words), "-dc" if is_relocatable(words) else "-c"
        for place in apart:
            compiled = str(Path(folder, f"{place}.o"))
            status = _run(nvcc_command([*options, kind, words[place], "-o", compiled]), folder)
            if status:
                return status
            words[place] = compiled
    functions = registration(words)
    if functions:
        words.append(str(Path(folder, "registration.o")))
        status = _compiled(functions, words[-1], folder)
        if status:
            return status
    return _run(nvcc_command(words), folder)


def nvcc_command(arguments: Sequence[str]) -> list[str]:
    """Return the command that compiles as nvcc does with ``arguments``, to PTX and for our runtime.

    Raises
    ------
    ProgramBuildError
        If nvcc or a C++ compiler is missing.
    """
    kept: list[str] = []
    remaining = iter(arguments)
    for argument in remaining:
        if argument in _VALUE_OPTIONS:
            next(remaining, None)
        elif argument.partition("=")[0] not in _VALUE_OPTIONS and argument not in _DROPPED:
            kept.append(argument)
    architecture = requested_architecture(arguments)
    target = f"arch=compute_{architecture},code=compute_{architecture}"
    # -g is for the lines of launches and allocations, --no-compress because the PTX is read from the program.
    own = ["-gencode", target, "-lineinfo", "--no-compress", "-g", "--cudart", "none", "-Wno-deprecated-gpu-targets"]
    # A function that ends with a launch or another call would not be on the stack any more during that (a tail call).
    own += ["-Xcompiler", "-fno-optimize-sibling-calls"]
    own += ["-include", str(SOURCES / "removed_functions.h")]
    if any(is_hip_source(word) for word in kept):
        # nvcc knows neither the suffix nor that a .cpp has kernels.
        own += ["-x", "cu"]
    folders = (str(word) for folder in (SOURCES / "include", HIP_FOLDER) for word in ("-isystem", folder))
    command = [str(nvcc_folder() / "bin" / "nvcc"), *own, *kept, *folders]
    if not _NO_LINK.intersection(kept):
        libraries = runtime_library().parent
        command += [f"-L{libraries}", f"-l{LIBRARY}", "-Xlinker", f"-rpath={libraries}"]
    return command


def _run(command: Sequence[str], folder: str) -> int:
    """Run nvcc, whose temporary files are in ``folder``: nothing removes them if it is killed."""
    return run_supervised(command, environment={"TMPDIR": folder}).returncode


def _verbose(command: Sequence[str]) -> int:
    """Run a command that shows nvcc's steps: build systems read the place of the toolkit from them."""
    done = subprocess.run(command, check=False, stderr=subprocess.PIPE, text=True)
    for line in done.stderr.splitlines():
        sys.stderr.write((f"#$ TOP={toolkit_folder()}" if line.startswith("#$ TOP=") else line) + "\n")
    return done.returncode


def _compiled(source: str, target: str, folder: str) -> int:
    """Compile a C source with the compiler that nvcc uses for the host."""
    command = ["gcc", "-x", "c", "-fPIC", "-c", "-o", target, "-"]
    return run_supervised(command, source=source, environment={"TMPDIR": folder}).returncode
