"""Triton's driver while kernels are only compiled: it knows the architecture, and launches nothing.

A module with Triton kernels may ask for the active device when it is imported, and may launch kernels at its top level.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import triton
from triton.backends.compiler import GPUTarget
from triton.backends.driver import DriverBase
from triton.backends.nvidia.driver import ty_to_cpp

from gpuemu_lsp.engine.compile.triton_backend import WARP_SIZE, PtxBackend, restore_backend, target_of

SHARED_BYTES = {70: 98_304, 75: 65_536, 80: 166_912, 86: 101_376, 87: 166_912, 89: 101_376}
"""Shared memory of a block by compute capability (CUDA C++ Programming Guide, technical specifications)."""
_MOST_SHARED_BYTES = 232_448
_MAX_THREADS = 1024


def shared_limit(arch: str) -> int:
    """Return the bytes of shared memory that a block of an architecture can have."""
    return SHARED_BYTES.get(int(target_of(arch).arch), _MOST_SHARED_BYTES)


class TargetDriver(DriverBase):  # type: ignore[misc]  # Triton has no type information
    """Driver of a device that exists for the compiler only."""

    def __init__(self, arch: str) -> None:
        self._target = target_of(arch)
        self.utils = _TargetUtils(shared_limit(arch))
        self.launcher_cls = lambda source, metadata: _launch_nothing

    @staticmethod
    def is_active() -> bool:
        """Return True: there is always a compiler."""
        return True

    def get_current_target(self) -> GPUTarget:
        """Return the architecture to compile for."""
        return self._target

    def get_current_device(self) -> int:
        """Return a number for each architecture: Triton keeps compiled kernels by it."""
        return int(self._target.arch)

    def set_current_device(self, device: int) -> None:
        """Accept any number."""

    def get_current_stream(self, device: int) -> int:
        """Return the default stream."""
        return 0

    def get_device_capability(self, device: int = 0) -> tuple[int, int]:
        """Return the compute capability of the target."""
        major, minor = divmod(int(self._target.arch), 10)
        return major, minor

    def get_active_torch_device(self) -> Any:
        """Return PyTorch's device for tensors."""
        import torch

        return torch.device("cpu")

    def get_device_interface(self) -> Any:
        """Return PyTorch's module for the device."""
        import torch

        return torch.cpu

    def map_python_to_cpp_type(self, ty: str) -> str:
        """Return the C++ type of one of Triton's types."""
        return str(ty_to_cpp(ty))

    def get_benchmarker(self) -> Callable[..., Any]:
        """Return a function that times nothing."""

        def benchmark(call: Callable[[], object], *, quantiles: Any = None, **_: Any) -> Any:
            return [1.0] * len(quantiles) if quantiles is not None else 1.0

        return benchmark

    def get_empty_cache_for_benchmark(self) -> None:
        """Return nothing: nothing is timed."""

    def clear_cache(self, cache: object) -> None:
        """Flush nothing."""


class _TargetUtils:
    """The part of the driver that Triton calls ``utils``."""

    def __init__(self, shared_bytes: int) -> None:
        self._shared_bytes = shared_bytes

    def load_binary(self, name: str, kernel: object, shared: int, device: int) -> tuple[object, object, int, int, int]:
        """Return module, function, registers, spills and the largest number of threads of a block."""
        return name, name, 0, 0, _MAX_THREADS

    def unload_module(self, module: object) -> None:
        """Release nothing."""

    def get_device_properties(self, device: int) -> dict[str, int]:
        """Return the properties that Triton and autotuners read: those of an A100."""
        return {
            "max_shared_mem": self._shared_bytes,
            "max_num_regs": 65_536,
            "multiprocessor_count": 108,
            "warpSize": WARP_SIZE,
            "sm_clock_rate": 1_410_000,
            "mem_clock_rate": 1_215_000,
            "mem_bus_width": 5_120,
        }

    def set_printf_fifo_size(self, size: int) -> None:
        """Accept any size."""


def _launch_nothing(*_: object) -> None:
    """Launch nothing: the module is imported for its kernels."""


def use_target(arch: str) -> None:
    """Let Triton compile to PTX for an architecture, without a GPU, for the rest of the process."""
    restore_backend(PtxBackend)
    triton.runtime.driver._active = TargetDriver(arch)
