"""The host's C++ compiler, which builds our libraries."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor

from gpuemu_lsp.engine.runtime.processes.supervised import end_all, run_supervised
from gpuemu_lsp.engine.runtime.toolchain.wheels import ProgramBuildError


def host_compiler() -> str:
    """Return the path of the compiler.

    Raises
    ------
    ProgramBuildError
        If there is none.
    """
    compiler = shutil.which("g++") or shutil.which("c++")
    if compiler is None:
        raise ProgramBuildError("there is no C++ compiler: install g++, which nvcc needs too")
    return compiler


def run_compiler(command: Sequence[str], folder: str, what: str) -> None:
    """Run a command of the compiler in a folder, where its temporary files are as well; ``what`` is built.

    Raises
    ------
    ProgramBuildError
        If it fails.
    """
    done = run_supervised(command, capture=True, folder=folder, environment={"TMPDIR": folder})
    if done.returncode:
        raise ProgramBuildError(f"{what} does not compile with {command[0]}:\n{done.stderr.strip()}")


def run_compilers(commands: Iterable[Sequence[str]], folder: str, what: str) -> None:
    """Run commands of the compiler, as many at a time as there are processors.

    Raises
    ------
    ProgramBuildError
        If one fails.
    """
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        try:
            list(pool.map(lambda command: run_compiler(command, folder, what), commands))
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            end_all()
            raise
