"""PyTorch's devices and compiler: the order of the checker's reads after a kernel, and calls that are not traced."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Iterator
from typing import Any

from gpuemu.verifier.values import is_torch, leaves

_AUTOCAST = {"torch.float16": "f16", "torch.bfloat16": "bf16"}


def observing(*functions: Callable[..., Any]) -> tuple[Callable[..., Any], ...]:
    """Return the functions such that ``torch.compile`` does not trace them, which is a break of the graph."""
    torch = sys.modules.get("torch")
    return functions if torch is None else tuple(torch.compiler.disable(function) for function in functions)


def is_capturing() -> bool:
    """Return whether a CUDA graph is being captured: copies would then become part of the graph."""
    torch = sys.modules.get("torch")
    return torch is not None and torch.cuda.is_initialized() and bool(torch.cuda.is_current_stream_capturing())


def current_autocast() -> tuple[tuple[str, Any, str], ...]:
    """Return the devices for which PyTorch's autocast is on, with its dtype and the name of that format."""
    torch = sys.modules.get("torch")
    if torch is None:
        return ()
    on = [device for device in ("cpu", "cuda") if torch.is_autocast_enabled(device)]
    dtypes = [torch.get_autocast_dtype(device) for device in on]
    return tuple((device, dtype, _AUTOCAST.get(str(dtype), "f32")) for device, dtype in zip(on, dtypes, strict=True))


@contextlib.contextmanager
def autocasting(state: tuple[tuple[str, Any, str], ...]) -> Iterator[None]:
    """Turn autocast on as it was at a call: each thread has its own."""
    with contextlib.ExitStack() as stack:
        for device, dtype, _ in state:
            stack.enter_context(sys.modules["torch"].autocast(device, dtype))
        yield


def recorded_event(value: Any) -> Any:
    """Return an event after all work of the current stream if ``value`` has a tensor of a GPU, else None."""
    tensor = next((leaf for leaf in leaves(value).values() if is_torch(leaf) and leaf.is_cuda), None)
    if tensor is None:
        return None
    torch = sys.modules["torch"]
    with torch.cuda.device(tensor.device):
        event = torch.cuda.Event()
        event.record()
    return tensor.device, event


@contextlib.contextmanager
def after_event(ready: Any, value: Any) -> Iterator[None]:
    """Let the device's work of a block wait for an event, in a stream of its own: the program's stream never waits."""
    if ready is None:
        yield
        return
    torch = sys.modules["torch"]
    device, event = ready
    with torch.cuda.device(device):
        stream = torch.cuda.Stream()
        stream.wait_event(event)
        with torch.cuda.stream(stream):
            yield
        for leaf in leaves(value).values():
            if is_torch(leaf) and leaf.is_cuda:
                # The memory belongs to the program's stream, which must not use it again before this one has read it.
                leaf.record_stream(stream)
        stream.synchronize()
