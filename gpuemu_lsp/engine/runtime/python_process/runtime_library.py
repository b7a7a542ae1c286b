"""Our runtime in a process of Python, by the name of CUDA's driver."""

from __future__ import annotations

import ctypes
import os
from functools import lru_cache
from pathlib import Path

from gpuemu_lsp.engine.runtime.python_process import DRIVER, TOOLKIT_VARIABLE


@lru_cache(maxsize=1)
def runtime_library() -> ctypes.CDLL:
    """Return our library, loaded by the name of CUDA's driver, which programs load when they run.

    It has the functions of the driver and of the runtime.

    Raises
    ------
    OSError
        If it cannot be loaded.
    """
    return ctypes.CDLL(str(Path(os.environ[TOOLKIT_VARIABLE], "lib64", DRIVER)), ctypes.RTLD_GLOBAL)


def ignore_lines(*folders: Path) -> None:
    """Let reports have the lines of Python, but for those in these folders, of earlier calls, and Python's own."""
    for folder in (*folders, Path(__file__).parent.parent, Path(os.__file__).parent):
        # With the interpreter's lock, under which lines are looked for.
        ctypes.PyDLL(runtime_library()._name).gpuemuIgnoreLines(f"{folder}/".encode())
