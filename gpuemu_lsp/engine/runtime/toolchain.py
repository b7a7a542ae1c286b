"""nvcc of NVIDIA's wheels, and our runtime library, which is built once by the host's C++ compiler."""

from __future__ import annotations

import hashlib
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from gpuemu_lsp.engine.cache_folder import cache_root

LIBRARY = "gpuemu_runtime"
_SOURCE = Path(__file__).with_name("shim") / "gpuemu_runtime.cpp"

_VALUE_OPTIONS = frozenset(
    ("-arch", "--gpu-architecture", "-code", "--gpu-code", "-gencode", "--generate-code", "-cudart", "--cudart")
)
"""Options of nvcc, each with a value, that choose what we choose: one architecture, as PTX, and the runtime."""

_DROPPED = frozenset(("-G", "--device-debug", "-lcudart", "-lcudart_static"))
"""Code for a debugger is not optimised, and excludes ``-lineinfo``; the runtime is ours."""

_NO_LINK = frozenset(
    ("-c", "--compile", "-dc", "--device-c", "-ptx", "--ptx", "-E", "--preprocess", "-M", "-MM", "--version", "-V")
)
"""Options with which nvcc does not link."""


class ProgramBuildError(Exception):
    """Programs cannot be built here; the message has the reason and the next step."""


def nvcc_folder() -> Path:
    """Return the folder of CUDA 13 in this environment's packages.

    Raises
    ------
    ProgramBuildError
        If the wheels of the extra ``run`` are not installed.
    """
    for entry in sys.path:
        folder = Path(entry) / "nvidia" / "cu13"
        if (folder / "bin" / "nvcc").is_file():
            return folder
    raise ProgramBuildError('nvcc is not installed: pip install "gpuemu-lsp[run]"')


def nvcc_command(arguments: Sequence[str], architecture: str = "80") -> list[str]:
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
    target = f"arch=compute_{architecture},code=compute_{architecture}"
    # -g is for the lines of launches and allocations, --no-compress because the PTX is read from the program.
    own = ["-gencode", target, "-lineinfo", "--no-compress", "-g", "--cudart", "none", "-Wno-deprecated-gpu-targets"]
    command = [str(nvcc_folder() / "bin" / "nvcc"), *own, *kept]
    if not _NO_LINK.intersection(kept):
        library = runtime_library().parent
        command += [f"-L{library}", f"-l{LIBRARY}", "-Xlinker", f"-rpath={library}"]
    return command


def runtime_library() -> Path:
    """Return our runtime library, which is compiled if the cache does not have this version of it.

    Raises
    ------
    ProgramBuildError
        If there is no C++ compiler, or it fails.
    """
    source = _SOURCE.read_bytes()
    folder = cache_root() / "runtime" / hashlib.blake2b(source, digest_size=12).hexdigest()
    library = folder / f"lib{LIBRARY}.so"
    if library.exists():
        return library
    compiler = shutil.which("g++") or shutil.which("c++")
    if compiler is None:
        raise ProgramBuildError("there is no C++ compiler: install g++, which nvcc needs too")
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    with tempfile.TemporaryDirectory(dir=folder) as temporary:
        built = Path(temporary) / library.name
        options = ["-std=c++17", "-O1", "-shared", "-fPIC", "-fvisibility=hidden", f"-I{nvcc_folder() / 'include'}"]
        command = [compiler, *options, str(_SOURCE), "-o", str(built), "-ldl"]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            raise ProgramBuildError(f"the runtime library does not compile with {compiler}:\n{done.stderr.strip()}")
        built.replace(library)
    return library
