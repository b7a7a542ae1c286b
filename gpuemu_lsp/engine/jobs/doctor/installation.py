"""Installed components that a verdict depends on, with their versions. Runs in a worker."""

from __future__ import annotations

import importlib.metadata
import platform

from gpuemu_lsp import __version__
from gpuemu_lsp.engine.compile.toolchain import ToolchainError, toolchain


def installed() -> dict[str, str]:
    """Return the version of each component, or the reason why it is not usable."""
    return {
        "gpuemu-lsp": __version__,
        "Python": platform.python_version(),
        "NVRTC": _nvrtc(),
        "LLVM": _llvm(),
        "CuPy": _version("cupy-cuda12x", "cupy-cuda13x"),
        "NumPy": _version("numpy"),
        "GPU": _gpu(),
    }


def _nvrtc() -> str:
    try:
        return toolchain().removeprefix("NVRTC ")
    except ToolchainError as error:
        return f"not usable: {error}"


def _llvm() -> str:
    try:
        from llvmlite import binding
    except (ImportError, OSError) as error:
        return f"not usable: {error}"
    return f"{'.'.join(map(str, binding.llvm_version_info))} for {binding.get_host_cpu_name()}"


def _gpu() -> str:
    try:
        from gpuemu_lsp.engine.compile.cupy_cuda import CUDA
    except ImportError as error:
        return f"none: CuPy cannot be imported ({error})"
    runtime = CUDA.runtime
    try:
        count = runtime.getDeviceCount()
        names = [runtime.getDeviceProperties(index)["name"].decode() for index in range(count)]
    except runtime.CUDARuntimeError as error:
        return f"none: {error}"
    return ", ".join(names) or "none"


def _version(*packages: str) -> str:
    for package in packages:
        try:
            return importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            continue
    return "not installed"
