"""The installed NVRTC and the directories of CUDA's headers.

Both come from Python wheels among the project's dependencies, so no CUDA toolkit is needed; an installed one
(``CUDA_HOME``, ``/usr/local/cuda``) is a fallback for headers that no wheel has. CuPy is the binding: it loads
``libnvrtc`` from the wheel.
"""

from __future__ import annotations

import importlib.metadata
import importlib.util
import os
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from types import ModuleType

_NVRTC_WHEELS = ("nvidia-cuda-nvrtc-cu12", "nvidia-cuda-nvrtc", "nvidia-cuda-nvrtc-cu13")
_HEADER_PACKAGES = ("cuda_runtime", "cuda_cccl", "cuda_nvcc", "curand", "cu13")
_USUAL_TOOLKIT = "/usr/local/cuda"
_INSTALL_HINT = (
    'pip install "cupy-cuda12x>=14" nvidia-cuda-nvrtc-cu12 nvidia-cuda-runtime-cu12 '
    "nvidia-cuda-cccl-cu12 nvidia-cuda-nvcc-cu12"
)


class ToolchainError(RuntimeError):
    """NVRTC, CuPy or CUDA's headers are missing or unusable; the message has the install command."""


@cache
def nvrtc() -> ModuleType:
    """Return CuPy's low-level NVRTC binding, with the library loaded.

    Raises
    ------
    ToolchainError
        If CuPy is not installed or cannot open ``libnvrtc``.
    """
    try:
        from gpuemu_lsp.engine.compile.cupy_cuda import CUDA

        binding: ModuleType = CUDA.nvrtc
    except ImportError as error:
        raise ToolchainError(f"CuPy is not installed ({error}). Install it with: {_INSTALL_HINT}") from error
    try:
        binding.getVersion()
    except (RuntimeError, OSError) as error:  # NVRTCError is a RuntimeError
        raise ToolchainError(f"CuPy cannot load NVRTC ({error}). Install it with: {_INSTALL_HINT}") from error
    return binding


@cache
def toolchain() -> str:
    """Return the compiler's name and version, ``"NVRTC 12.9.86"``.

    Raises
    ------
    ToolchainError
        As :func:`nvrtc`.
    """
    major, minor = nvrtc().getVersion()
    return f"NVRTC {_wheel_version(f'{major}.{minor}.') or f'{major}.{minor}'}"


def toolchain_major() -> int:
    """Return the major version of CUDA: 12 or 13."""
    return int(nvrtc().getVersion()[0])


@cache
def architectures() -> tuple[int, ...]:
    """Return the compute capabilities NVRTC can compile for, ascending: ``(50, ..., 80, ..., 120)``."""
    return tuple(sorted(nvrtc().getSupportedArchs()))


@cache
def cuda_include_dirs() -> tuple[str, ...]:
    """Return the directories of CUDA's headers (runtime, libcu++ and CUB, ``crt/mma.h``), wheels first.

    Raises
    ------
    ToolchainError
        If none of them has ``cuda_fp16.h``.
    """
    found = tuple(dict.fromkeys(str(folder) for folder in _include_candidates() if folder.is_dir()))
    if not any((Path(folder) / "cuda_fp16.h").is_file() for folder in found):
        raise ToolchainError(f"CUDA's headers were not found. Install them with: {_INSTALL_HINT}")
    return found


def _include_candidates() -> Iterator[Path]:
    for root in _nvidia_roots():
        for package in _HEADER_PACKAGES:
            include = root / package / "include"
            yield include
            # libcu++ and CUB are one directory deeper since CUDA 13.
            yield include / "cccl"
    for home in (*map(os.environ.get, ("CUDA_HOME", "CUDA_PATH")), _USUAL_TOOLKIT):
        if home:
            yield Path(home) / "include"
            yield Path(home) / "include" / "cccl"


def _nvidia_roots() -> tuple[Path, ...]:
    spec = importlib.util.find_spec("nvidia")
    locations = spec.submodule_search_locations if spec is not None else None
    return tuple(Path(location) for location in locations or ())


def _wheel_version(prefix: str) -> str | None:
    """Return the version of the NVRTC wheel if it begins with ``prefix``, the version of the loaded library."""
    for wheel in _NVRTC_WHEELS:
        try:
            version = importlib.metadata.version(wheel)
        except importlib.metadata.PackageNotFoundError:
            continue
        if version.startswith(prefix):
            return version
    return None
