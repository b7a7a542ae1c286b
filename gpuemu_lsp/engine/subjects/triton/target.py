"""Triton drivers without a GPU: what Triton, autotuners and modules with kernels ask a device for.

Triton reaches a GPU through one driver object: it asks for the target to compile for, loads the binary of a compiled
kernel, and launches it. :class:`PtxDriver` answers as an A100 with PTX for binaries; what a launch does, and where
tensors are, is its subclasses'.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import triton
from triton.backends.compiler import GPUTarget
from triton.backends.driver import DriverBase
from triton.backends.nvidia.driver import ty_to_cpp

from gpuemu_lsp.engine.compile.triton_backend import WARP_SIZE, PtxBackend, restore_backend, target_of
from gpuemu_lsp.engine.runtime.python_process import MULTIPROCESSORS_VARIABLE
from gpuemu_lsp.engine.runtime.triton_launches.autotuners import EqualTimes

SHARED_BYTES = {70: 98_304, 75: 65_536, 80: 166_912, 86: 101_376, 87: 166_912, 89: 101_376}
"""Shared memory of a block by compute capability (CUDA C++ Programming Guide, technical specifications)."""
_MOST_SHARED_BYTES = 232_448
_MAX_THREADS = 1024
_MULTIPROCESSORS = 108
_REGISTERS = 64
"""Registers of a thread, which only ptxas knows: programs divide by the number to choose how many blocks to launch."""


def shared_limit(arch: str) -> int:
    """Return the bytes of shared memory that a block of an architecture can have."""
    return SHARED_BYTES.get(int(target_of(arch).arch), _MOST_SHARED_BYTES)


class PtxDriver(DriverBase):  # type: ignore[misc]  # Triton has no type information
    """Driver of a device that runs PTX.

    ``launcher`` makes the function that launches a compiled kernel, from its source and its metadata. ``load`` returns
    what a launch gets of a kernel: from its name, its PTX and its bytes of shared memory.
    """

    def __init__(
        self,
        target: GPUTarget,
        launcher: Callable[[Any, Any], Callable[..., None]],
        load: Callable[[str, str, int], object],
    ) -> None:
        self._target = target
        self.utils = _Utils(shared_limit(f"sm_{target.arch}"), load)
        self.launcher_cls = launcher

    @staticmethod
    def is_active() -> bool:
        """Return True: the CPU is always there."""
        return True

    def get_current_target(self) -> GPUTarget:
        """Return the architecture to compile for."""
        return self._target

    def get_current_device(self) -> int:
        """Return the number of the only device.

        Triton keeps compiled kernels per device: those of another architecture, or of a GPU, must not be found.
        """
        return int(self._target.arch)

    def set_current_device(self, device: int) -> None:
        """Accept any number: there is one device."""

    def get_current_stream(self, device: int) -> int:
        """Return the default stream. Launches run in the order in which they are made."""
        return 0

    def get_device_capability(self, device: int = 0) -> tuple[int, int]:
        """Return the compute capability of the target."""
        major, minor = divmod(int(self._target.arch), 10)
        return major, minor

    def map_python_to_cpp_type(self, ty: str) -> str:
        """Return the C++ type of one of Triton's types."""
        return str(ty_to_cpp(ty))

    def get_benchmarker(self) -> Callable[..., Any]:
        """Return the function with which an autotuner times its configurations."""
        return EqualTimes()

    def get_empty_cache_for_benchmark(self) -> None:
        """Return nothing: there is no cache to flush between timings."""

    def clear_cache(self, cache: object) -> None:
        """Flush nothing."""


class TargetDriver(PtxDriver):
    """Driver of a device that exists for the compiler only.

    A module may ask for it when it is imported, and may launch kernels at its top level: nothing runs.
    """

    def __init__(self, arch: str) -> None:
        super().__init__(target_of(arch), lambda source, metadata: _launch_nothing, lambda name, ptx, shared: name)

    def get_active_torch_device(self) -> Any:
        """Return PyTorch's device for tensors."""
        import torch

        return torch.device("cpu")

    def get_device_interface(self) -> Any:
        """Return PyTorch's module for the device."""
        import torch

        return torch.cpu

    def get_benchmarker(self) -> Callable[..., Any]:
        """Return a function that times nothing, and calls nothing."""
        benchmark = super().get_benchmarker()
        return lambda call, **options: benchmark(_launch_nothing, **options)


class _Utils:
    """The part of the driver that Triton calls ``utils``."""

    fill_tma_descriptor_tiled: Callable[..., object]
    """Set where launches get tensor descriptors."""

    def __init__(self, shared_bytes: int, load: Callable[[str, str, int], object]) -> None:
        self._shared_bytes, self._load = shared_bytes, load

    def load_binary(
        self, name: str, kernel: str | bytes, shared: int, device: int
    ) -> tuple[object, object, int, int, int]:
        """Return module, function, registers, spills and the largest number of threads of a block."""
        loaded = self._load(name, kernel.decode() if isinstance(kernel, bytes) else kernel, shared)
        return loaded, loaded, _REGISTERS, 0, _MAX_THREADS

    def unload_module(self, module: object) -> None:
        """Release nothing: the PTX is released with its last reference."""

    def get_device_properties(self, device: int) -> dict[str, int]:
        """Return the properties that Triton and autotuners read: those of an A100, but for its shared memory."""
        return {
            "max_shared_mem": self._shared_bytes,
            "max_num_regs": 65_536,
            "multiprocessor_count": int(os.environ.get(MULTIPROCESSORS_VARIABLE, _MULTIPROCESSORS)),
            "warpSize": WARP_SIZE,
            "sm_clock_rate": 1_410_000,
            "mem_clock_rate": 1_215_000,
            "mem_bus_width": 5_120,
        }

    def set_printf_fifo_size(self, size: int) -> None:
        """Accept any size: output is not buffered."""


def _launch_nothing(*_: object) -> None:
    """Launch nothing: the module is imported for its kernels."""


def use_target(arch: str) -> None:
    """Let Triton compile to PTX for an architecture, without a GPU, for the rest of the process."""
    restore_backend(PtxBackend)
    triton.runtime.driver._active = TargetDriver(arch)
