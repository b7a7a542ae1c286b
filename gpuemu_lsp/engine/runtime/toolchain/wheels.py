"""The compiler among this environment's packages."""

from __future__ import annotations

import sys
from pathlib import Path


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


def has_nvcc() -> bool:
    """Return whether the wheels of the extra ``run`` are installed."""
    try:
        nvcc_folder()
    except ProgramBuildError:
        return False
    return True


def nvrtc_headers() -> Path:
    """Return the folder of NVRTC's header in this environment's packages.

    Raises
    ------
    ProgramBuildError
        If no wheel of NVRTC is installed.
    """
    for entry in sys.path:
        for header in Path(entry).glob("nvidia/*/include/nvrtc.h"):
            return header.parent
    raise ProgramBuildError("NVRTC is not installed: pip install nvidia-cuda-nvrtc-cu12")
