"""Triton driver whose device is the emulator.

Triton reaches a GPU through one driver object: it asks for the target to compile for, loads the binary of a compiled
kernel, and launches it. Here the binary is PTX, loading keeps it, and a launch runs it on the CPU.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from triton.backends.compiler import GPUTarget, Language
from triton.backends.driver import DriverBase
from triton.backends.nvidia.driver import ty_to_cpp

from gpuemu.triton.arguments import ArgumentPacker
from gpuemu.triton.descriptors import fill_tma_descriptor_tiled
from gpuemu_lsp.engine.compile.triton_backend import WARP_SIZE
from gpuemu_lsp.engine.subjects.triton.target import shared_limit

# An A100, but for its shared memory: what Triton asks of a device decides block sizes in autotuners.
_PROPERTIES = {
    "max_num_regs": 65_536,
    "multiprocessor_count": 108,
    "warpSize": WARP_SIZE,
    "sm_clock_rate": 1_410_000,
    "mem_clock_rate": 1_215_000,
    "mem_bus_width": 5_120,
}
_MAX_THREADS = 1024
_REGISTERS = 64
"""Registers of a thread, which only ptxas knows: programs divide by the number to choose how many blocks to launch."""


class LoadedKernel:
    """A compiled kernel as the launcher gets it."""

    __slots__ = ("name", "ptx", "shared_bytes")

    def __init__(self, name: str, ptx: str, shared_bytes: int) -> None:
        self.name, self.ptx, self.shared_bytes = name, ptx, shared_bytes


def release_without_driver(release: Callable[[Any], None]) -> Callable[[Any], None]:
    """Return ``CompiledKernel.__del__`` for kernels that may outlive the session that loaded them.

    Triton would ask the current driver to unload them, and look for a GPU if there is none.
    """

    def method(kernel: Any) -> None:
        if not isinstance(kernel.module, LoadedKernel):
            release(kernel)

    return method


class TritonLaunch:
    """A launch as Triton asks for it, with the arguments as the caller gave them."""

    __slots__ = ("gluon", "grid", "kernel", "metadata", "packer", "values")

    def __init__(
        self,
        kernel: LoadedKernel,
        metadata: Any,
        grid: tuple[int, int, int],
        values: Sequence[Any],
        packer: ArgumentPacker,
        gluon: bool = False,
    ) -> None:
        self.kernel, self.metadata, self.grid, self.values, self.packer = kernel, metadata, grid, values, packer
        self.gluon = gluon


RunLaunch = Callable[[TritonLaunch], None]


class EmulatorDriver(DriverBase):  # type: ignore[misc]  # Triton has no type information
    """Driver that passes every launch to ``run``."""

    def __init__(self, target: GPUTarget, run: RunLaunch) -> None:
        self._target = target
        self.utils = _Utils(shared_limit(f"sm_{target.arch}"))
        self.launcher_cls = lambda source, metadata: _Launcher(source, metadata, run)

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

    def get_active_torch_device(self) -> Any:
        """Return PyTorch's device for tensors that kernels take: the emulated one."""
        import torch

        return torch.device("cuda", 0)

    def get_device_interface(self) -> Any:
        """Return PyTorch's module for the device."""
        import torch

        return torch.cuda

    def map_python_to_cpp_type(self, ty: str) -> str:
        """Return the C++ type of one of Triton's types."""
        return str(ty_to_cpp(ty))

    def get_benchmarker(self) -> Callable[..., Any]:
        """Return the function with which an autotuner times its configurations.

        Each configuration that is benchmarked runs once. All get the same time: emulated times say nothing
        about a GPU, and the first configuration is then chosen in every run.
        """

        def benchmark(call: Callable[[], object], *, quantiles: Sequence[float] | None = None, **_: Any) -> Any:
            call()
            return [1.0] * len(quantiles) if quantiles is not None else 1.0

        return benchmark

    def get_empty_cache_for_benchmark(self) -> None:
        """Return nothing: there is no cache to flush between timings."""

    def clear_cache(self, cache: object) -> None:
        """Flush nothing."""


class _Utils:
    """The part of the driver that Triton calls ``utils``."""

    fill_tma_descriptor_tiled = staticmethod(fill_tma_descriptor_tiled)

    def __init__(self, shared_bytes: int) -> None:
        self._shared_bytes = shared_bytes

    def load_binary(
        self, name: str, kernel: str | bytes, shared: int, device: int
    ) -> tuple[LoadedKernel, LoadedKernel, int, int, int]:
        """Return module, function, registers, spills and the largest number of threads of a block."""
        loaded = LoadedKernel(name, kernel.decode() if isinstance(kernel, bytes) else kernel, shared)
        return loaded, loaded, _REGISTERS, 0, _MAX_THREADS

    def unload_module(self, module: LoadedKernel) -> None:
        """Release nothing: the PTX is released with its last reference."""

    def get_device_properties(self, device: int) -> dict[str, int]:
        """Return the properties that Triton reads."""
        return {"max_shared_mem": self._shared_bytes, **_PROPERTIES}

    def set_printf_fifo_size(self, size: int) -> None:
        """Accept any size: output is not buffered."""


class _Launcher:
    """Launches one compiled kernel; Triton makes one per specialisation."""

    def __init__(self, source: Any, metadata: Any, run: RunLaunch) -> None:
        self._metadata, self._run = metadata, run
        # In Gluon threads, shared memory and barriers are the program's; in Triton the compiler's.
        self._gluon = getattr(source, "language", Language.TRITON) == Language.GLUON
        self._packer = ArgumentPacker(dict(source.signature), getattr(metadata, "tensordesc_meta", None))

    def __call__(
        self,
        grid_x: int,
        grid_y: int,
        grid_z: int,
        stream: int,
        function: LoadedKernel,
        packed: object,
        launch_metadata: Any,
        enter_hook: Callable[[Any], object] | None,
        exit_hook: Callable[[Any], object] | None,
        *values: Any,
    ) -> None:
        if grid_x * grid_y * grid_z == 0:  # an empty grid launches nothing, as in Triton's own launcher
            return
        if enter_hook is not None:
            enter_hook(launch_metadata)
        self._run(TritonLaunch(function, self._metadata, (grid_x, grid_y, grid_z), values, self._packer, self._gluon))
        if exit_hook is not None:
            exit_hook(launch_metadata)
