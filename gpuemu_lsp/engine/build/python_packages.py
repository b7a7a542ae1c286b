"""Headers in the packages of a project's Python, found by looking at its files; nothing is imported or run."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from functools import lru_cache
from pathlib import Path

from gpuemu_lsp.engine.build.files import folders_above, names_in

_ENVIRONMENTS = (".venv", "venv", "env")
_VARIABLES = ("VIRTUAL_ENV", "CONDA_PREFIX")
_PATTERNS = (
    "torch/include",
    "torch/include/torch/csrc/api/include",
    "cutlass_library/source/include",
    "cutlass_library/source/tools/util/include",
    "nvidia/[!c]*/include",
    "nvidia/c[!u]*/include",
    "nvidia/cu[!0-9]*/include",
    # All of CUDA 13 is in one folder, whose headers CUDA 12 does not compile: after those of single packages.
    "nvidia/cu[0-9]*/include",
    "nvidia/*/include/cccl",
    "cuda/cccl/headers/include",
    "*/data/cutlass/include",
    "*/data/include",
    "*/include",
)
_PACKAGES: Mapping[str, str] = {
    r"(?:torch|ATen|c10|caffe2)/": "torch",
    r"(?:cutlass|cute)/": "nvidia-cutlass",
    r"(?:cub|thrust|nv)/|cuda/(?:std|__|atomic|barrier|pipeline|functional|ptx)": "nvidia-cuda-cccl-cu12",
    r"curand": "nvidia-curand-cu12",
    r"cublas": "nvidia-cublas-cu12",
    r"cufft": "nvidia-cufft-cu12",
    r"cusparse": "nvidia-cusparse-cu12",
    r"cusolver": "nvidia-cusolver-cu12",
    r"cudnn_frontend": "nvidia-cudnn-frontend",
    r"cudnn": "nvidia-cudnn-cu12",
    r"nccl\.h": "nvidia-nccl-cu12",
    r"nvshmem": "nvidia-nvshmem-cu12",
    r"nvtx3/|nvToolsExt": "nvidia-nvtx-cu12",
    r"cuda_profiler_api|cuda_gl_interop": "nvidia-cuda-runtime-cu12",
    r"cuda_(?:fp16|bf16|fp8|fp6|fp4|runtime)|cooperative_groups": "nvidia-cuda-runtime-cu12",
    r"crt/|mma\.h": "nvidia-cuda-nvcc-cu12",
    r"pybind11/": "pybind11",
    r"flashinfer/": "flashinfer-python",
    r"raft/": "libraft-cu12",
    r"rmm/": "librmm-cu12",
    r"numpy/": "numpy",
}


def package_of(target: str) -> str | None:
    """Return the PyPI package that contains a header, by its name; None if it is not known."""
    return next((package for pattern, package in _PACKAGES.items() if re.match(pattern, target)), None)


def site_packages(path: str, python: str | None = None) -> tuple[str, ...]:
    """Return the package folders of a file's project.

    ``python`` is the interpreter or environment that gpuemu.toml names. Otherwise it is the nearest virtual environment
    in a folder above the file, else the active one.
    """
    if python is not None:
        return tuple(_packages(_prefix(python)))
    for folder in folders_above(path):
        names = names_in(folder)
        for name in _ENVIRONMENTS:
            if name in names and (found := tuple(_packages(f"{folder}/{name}"))):
                return found
    active = (os.environ.get(name) for name in _VARIABLES)
    return tuple(found for prefix in active if prefix for found in _packages(prefix))


def header_folders(packages: str) -> tuple[str, ...]:
    """Return the include directories in a package folder."""
    try:
        changed = os.stat(packages).st_mtime_ns  # noqa: PTH116
    except OSError:
        return ()
    return _header_folders(packages, changed)


@lru_cache(maxsize=8)
def _header_folders(packages: str, changed: int) -> tuple[str, ...]:
    del changed  # a part of the cache's key: installing a package changes the folder
    found = (folder for pattern in _PATTERNS for folder in sorted(Path(packages).glob(pattern)) if folder.is_dir())
    return tuple(dict.fromkeys(folder.as_posix() for folder in found))


def _prefix(python: str) -> str:
    """Return the environment of an interpreter's path, which may be the environment itself."""
    path = Path(python)
    return path.parent.parent.as_posix() if not path.is_dir() else path.as_posix()


def _packages(prefix: str) -> Iterator[str]:
    for folder in sorted(Path(prefix).glob("lib/python3*/site-packages")):
        yield folder.as_posix()
    windows = Path(prefix) / "Lib" / "site-packages"
    if windows.is_dir():
        yield windows.as_posix()
