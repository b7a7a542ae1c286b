"""Triton driver whose device is the emulator: loading a kernel keeps its PTX, and a launch runs it on the CPU."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from triton.backends.compiler import GPUTarget, Language

from gpuemu.triton.arguments import ArgumentPacker
from gpuemu.triton.descriptors import fill_tma_descriptor_tiled
from gpuemu_lsp.engine.subjects.triton.target import PtxDriver


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


class EmulatorDriver(PtxDriver):
    """Driver that passes every launch to ``run``."""

    def __init__(self, target: GPUTarget, run: RunLaunch) -> None:
        super().__init__(target, lambda source, metadata: _Launcher(source, metadata, run), LoadedKernel)
        self.utils.fill_tma_descriptor_tiled = fill_tma_descriptor_tiled

    def get_active_torch_device(self) -> Any:
        """Return PyTorch's device for tensors that kernels take: the emulated one."""
        import torch

        return torch.device("cuda", 0)

    def get_device_interface(self) -> Any:
        """Return PyTorch's module for the device."""
        import torch

        return torch.cuda


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
