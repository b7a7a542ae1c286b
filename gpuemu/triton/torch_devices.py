"""PyTorch's device ``cuda`` as an emulated GPU, for scripts and tests that were written for one."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

from gpuemu.replaced_attributes import replaced


def has_torch() -> bool:
    """Whether PyTorch is installed; it may be imported after the session has begun."""
    return importlib.util.find_spec("torch") is not None


@contextmanager
def cuda_on_cpu(capability: tuple[int, int], properties: dict[str, int]) -> Iterator[None]:
    """Let ``device="cuda"`` mean an emulated GPU with these properties; nothing if PyTorch is not installed."""
    if not has_torch():
        yield
        return
    import torch

    from gpuemu.triton.cuda_runtime import CudaGenerators, emulated_functions
    from gpuemu.triton.cuda_tensor import emulated_device

    with ExitStack() as stack:
        for owner, name, value in emulated_functions(capability, properties):
            stack.enter_context(replaced(owner, name, value))
        stack.enter_context(replaced(torch, "Generator", CudaGenerators))
        # Module.cuda() must give parameters on the device; without this it would keep the objects on the CPU.
        overwrites = torch.__future__.get_overwrite_module_params_on_conversion()
        stack.callback(torch.__future__.set_overwrite_module_params_on_conversion, overwrites)
        torch.__future__.set_overwrite_module_params_on_conversion(True)
        stack.enter_context(emulated_device())
        yield
