"""PyTorch's device ``cuda`` as the CPU while a module with kernels is imported, which may make tensors there."""

from __future__ import annotations

import importlib
import re
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from types import SimpleNamespace
from typing import Any

_PROPERTIES = SimpleNamespace(
    name="NVIDIA A100 (gpuemu)",
    major=8,
    minor=0,
    multi_processor_count=108,
    total_memory=40 << 30,
    warp_size=32,
    max_threads_per_multi_processor=2048,
    shared_memory_per_block=48 << 10,
    shared_memory_per_block_optin=163 << 10,
    shared_memory_per_multiprocessor=164 << 10,
    regs_per_multiprocessor=65536,
    L2_cache_size=40 << 20,
)
"""What a module may read of the device when it is imported."""
_IMPORTS_TORCH = re.compile(r"^[ \t]*(?:import|from)[ \t]+torch\b", re.M)


@contextmanager
def importing(text: str, package: str = "") -> Iterator[None]:
    """Execute a module of this text: ``device="cuda"`` means the CPU if it imports PyTorch.

    PyTorch is then imported first, and for a module of a package, the others of which may import it. A failure of that
    import is left to the module's own.
    """
    if package or _IMPORTS_TORCH.search(text):
        with suppress(ImportError):
            importlib.import_module("torch")
    with cuda_means_cpu():
        yield


@contextmanager
def cuda_means_cpu() -> Iterator[None]:
    """Let ``device="cuda"`` and ``.cuda()`` give CPU tensors; nothing if PyTorch has not been imported."""
    torch = sys.modules.get("torch")
    if torch is None:
        yield
        return
    with ExitStack() as stack:
        stack.enter_context(_device_mode(torch)())
        for name, value in {
            "is_available": lambda: True,
            "device_count": lambda: 1,
            "current_device": lambda: 0,
            "set_device": lambda device: None,
            "synchronize": lambda device=None: None,
            "empty_cache": lambda: None,
            "get_device_capability": lambda device=None: (8, 0),
            "get_device_name": lambda device=None: _PROPERTIES.name,
            "get_device_properties": lambda device=None: _PROPERTIES,
        }.items():
            stack.callback(setattr, torch.cuda, name, getattr(torch.cuda, name))
            setattr(torch.cuda, name, value)
        yield


def _device_mode(torch: Any) -> type:
    from torch.overrides import TorchFunctionMode

    def on_cpu(value: Any) -> Any:
        if isinstance(value, torch.device):
            return torch.device("cpu") if value.type == "cuda" else value
        if isinstance(value, str) and (value == "cuda" or value.startswith("cuda:")):
            return "cpu"
        return value

    class CudaMeansCpu(TorchFunctionMode):  # type: ignore[misc]
        """Replaces the device in every call of PyTorch."""

        def __torch_function__(
            self,
            function: Callable[..., Any],
            types: Sequence[type],
            args: Sequence[Any] = (),
            kwargs: Mapping[str, Any] | None = None,
        ) -> Any:
            if function is torch.Tensor.cuda:
                return args[0]
            if function == torch.Tensor.is_cuda.__get__:
                return True
            named = {name: on_cpu(value) for name, value in (kwargs or {}).items()}
            if function is torch.Tensor.pin_memory:
                return args[0]
            return function(*map(on_cpu, args), **named)

    return CudaMeansCpu
