"""Launches of CuTe DSL in the program's process: its own compiler and launcher, on our runtime.

CuTe DSL compiles the host code of a ``@cute.jit`` function to machine code that calls the CUDA runtime, in a library
that it loads: ours. What is replaced is the machine code of its kernels, by their PTX.

- :mod:`.on_device`: what is replaced in its compiler when the program imports it
- :mod:`.ptx_text`: its PTX, as the emulator takes it
"""

import importlib.util
import os
import re
from pathlib import Path
from typing import Final

TRIED: Final = "4.8"
"""The version of CuTe DSL that this is tried with."""

ARCHITECTURE: Final = "sm_90a"
"""The architecture of the device unless the user says another: many functions of CuTe DSL need it."""

_PACKAGE = "nvidia_cutlass_dsl"
"""The package by which it is installed; it is imported as ``cutlass``."""

_IMPORT = re.compile(r"^\s*(?:import|from)\s+cutlass\b", re.MULTILINE)


def names_cute(text: str) -> bool:
    """Return whether a source in Python imports CuTe DSL."""
    return _IMPORT.search(text) is not None


def is_installed() -> bool:
    """Return whether this environment has CuTe DSL, which is not imported."""
    return importlib.util.find_spec(_PACKAGE) is not None


def environment(library: Path) -> dict[str, str]:
    """Return the variables by which CuTe DSL calls our runtime, a file, and knows the lines of its kernels.

    Its own library is searched after ours: for what is about packages of Python, and not about CUDA.
    """
    spec = importlib.util.find_spec(_PACKAGE)
    folders = spec.submodule_search_locations if spec is not None else None
    own = sorted(path for folder in folders or () for path in Path(folder).glob("cu*/lib/libcute_dsl_runtime.so"))
    return {"CUTE_DSL_LIBS": os.pathsep.join(map(str, (library, *own[-1:]))), "CUTE_DSL_LINEINFO": "1"}
