"""Headers of HIP: our own, in place of those of an installation, which only AMD's compiler understands.

They map HIP's names to CUDA's, for the readers of sources, NVRTC and nvcc alike.
"""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path
from typing import Final

FOLDER: Final = Path(__file__).parent / "hip_include"
"""A folder to search for headers."""
SUFFIX: Final = ".hip"
WAVEFRONT: Final = 64
"""Lanes of a wavefront."""
MARK: Final = "gpuemu_wavefronts_of_64"
"""A variable of each module that is compiled with our headers."""
_INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*[<"]hip/hip_(?:runtime|runtime_api|ext)\.h[>"]', re.MULTILINE)

_OF_AMD = re.compile(r"__(?:builtin_amdgcn|builtin_r600|amdgcn|llvm|hip|ockl|ocml|oclc|opencl)_\w+|__gfx\w+__")


@cache
def hip_header(target: str) -> str | None:
    """Return the path of our header for the target of an include, None if we have none."""
    if not target.startswith("hip/"):
        return None
    header = FOLDER / target
    return header.as_posix() if header.is_file() else None


def is_own_header(path: str) -> bool:
    """Return whether a file is one of our headers, in which no finding is placed."""
    return Path(path).is_relative_to(FOLDER)


def is_hip(path: str, text: str) -> bool:
    """Return whether a file is of HIP: by its suffix, or as it includes HIP's runtime."""
    return path.endswith(SUFFIX) or _INCLUDE.search(text) is not None


def is_of_amd(name: str) -> bool:
    """Return whether a name is one of AMD's compiler, for what its GPUs have."""
    return _OF_AMD.fullmatch(name) is not None
