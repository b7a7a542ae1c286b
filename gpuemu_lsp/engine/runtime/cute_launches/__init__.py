"""Launches of CuTe DSL in the program's process: its own compiler and launcher, on our runtime.

CuTe DSL compiles the host code of a ``@cute.jit`` function to machine code that calls the CUDA runtime, in a library
that it loads: ours. What is replaced is the machine code of its kernels, by their PTX.

- :mod:`.on_device`: what is replaced in its compiler when the program imports it
- :mod:`.ptx_text`: its PTX, as the emulator takes it
"""

import re
from pathlib import Path
from typing import Final

TRIED: Final = "4.8"
"""The version of CuTe DSL that this is tried with."""

_IMPORT = re.compile(r"^\s*(?:import|from)\s+cutlass\b", re.MULTILINE)
_HOPPER = re.compile(r"\bsm_?90|hopper|warpgroup|wgmma", re.IGNORECASE)


def names_cute(text: str) -> bool:
    """Return whether a source in Python imports CuTe DSL."""
    return _IMPORT.search(text) is not None


def names_hopper(text: str) -> bool:
    """Return whether a source is about instructions that are new in ``sm_90a``."""
    return _HOPPER.search(text) is not None


def environment(library: Path) -> dict[str, str]:
    """Return the variables by which CuTe DSL calls our runtime, a file, and knows the lines of its kernels."""
    return {"CUTE_DSL_LIBS": str(library), "CUTE_DSL_LINEINFO": "1"}
