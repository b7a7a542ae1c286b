"""Tensors of PyTorch on an emulated device ``cuda:0``, whose memory is that of the CPU.

A tensor made with ``device="cuda"``, moved there, or computed from one that is there says so in ``device`` and
``is_cuda``, and PyTorch's CPU kernels compute with it. So ``x.cpu()`` is a copy as on a GPU, a library's checks of
devices hold, and kernels that a library registered for ``CUDA`` with :mod:`torch.library` are the ones that run.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves, tree_map, tree_map_only

from gpuemu.replaced_attributes import replaced
from gpuemu.triton.autocast import with_autocast

CUDA = torch.device("cuda", 0)
_CPU = torch.device("cpu")
_CUDA_KERNELS = torch._C.DispatchKeySet(torch._C.DispatchKey.CUDA)


class CudaTensor(torch.Tensor):  # type: ignore[misc]  # PyTorch has no type information here
    """A tensor on the emulated device; its storage is in the memory of the CPU."""

    @property
    def device(self) -> torch.device:
        """The emulated device."""
        return CUDA

    @property
    def is_cuda(self) -> bool:
        """True."""
        return True

    @property
    def is_cpu(self) -> bool:
        """False."""
        return False

    def type(self, dtype: Any = None, non_blocking: bool = False, **_: Any) -> Any:
        """Return the name of the tensor's type, or the tensor with another."""
        if dtype is None:
            return on_host(self.detach()).type().replace("torch.", "torch.cuda.")
        if isinstance(dtype, str) and dtype.startswith("torch.cuda."):
            dtype = on_host(self.detach()).new_empty(0).type(dtype.replace("torch.cuda.", "torch.")).dtype
        return self.to(dtype)

    @property
    def names(self) -> tuple[None, ...]:
        """The names of the dimensions: tensors of the device have none."""
        return (None,) * len(self.shape)

    def get_device(self) -> int:
        """Return the number of the device."""
        return 0

    def numpy(self, *, force: bool = False) -> Any:
        """Raise as for a GPU, unless ``force`` is given."""
        if not force:
            raise TypeError(
                "can't convert cuda:0 device type tensor to numpy. "
                "Use Tensor.cpu() to copy the tensor to host memory first."
            )
        return on_host(self.detach()).clone().numpy(force=True)

    def __array__(self, dtype: Any = None) -> Any:
        """Raise as for a GPU."""
        return self.numpy()

    def tolist(self) -> Any:
        """Return the elements as Python numbers, in nested lists."""
        return on_host(self.detach()).tolist()

    def __repr__(self, *, tensor_contents: Any = None) -> str:
        """Return the elements and the device, as PyTorch prints them."""
        text = repr(on_host(self.detach()))
        return f"{text[:-1]}, device='cuda:0')"

    def __format__(self, spec: str) -> str:
        """Return the only element, formatted."""
        return format(on_host(self.detach()), spec) if self.dim() == 0 else super().__format__(spec)

    def __deepcopy__(self, memo: dict[int, Any]) -> Any:
        """Return a copy on the same device."""
        copied = on_device(on_host(self.detach()).clone()).requires_grad_(self.requires_grad)
        if isinstance(self, torch.nn.Parameter):
            copied = torch.nn.Parameter(copied, self.requires_grad)
        memo[id(self)] = copied
        return copied

    def __reduce_ex__(self, protocol: Any) -> Any:
        """Return what restores the tensor on the same device."""
        return on_device, (on_host(self.detach()).clone(),)

    @classmethod
    def __torch_function__(
        cls, function: Any, types: Sequence[Any], args: Sequence[Any] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        """Run a function of PyTorch's that is called with such a tensor."""
        with torch._C.DisableTorchFunctionSubclass():
            return _call(function, args, dict(kwargs or {}))

    @classmethod
    def __torch_dispatch__(
        cls, operator: Any, types: Sequence[Any], args: Sequence[Any] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        """Run one operator."""
        return _dispatch(operator, args, dict(kwargs or {}))


def on_device(tensor: torch.Tensor) -> CudaTensor:
    """Return a tensor on the emulated device that shares the memory of a CPU tensor."""
    return torch.Tensor._make_subclass(  # type: ignore[no-any-return]
        CudaTensor, tensor, tensor.requires_grad, device_for_backend_keys=CUDA
    )


def on_host(tensor: torch.Tensor) -> torch.Tensor:
    """Return a CPU tensor that shares the memory of one on the emulated device."""
    with torch._C._DisableTorchDispatch():
        return torch.Tensor._make_subclass(torch.Tensor, tensor, False, device_for_backend_keys=_CPU)


class _ToHost(torch.autograd.Function):  # type: ignore[misc]
    @staticmethod
    def forward(ctx: Any, tensor: Any) -> Any:
        return on_host(tensor).clone()

    @staticmethod
    def backward(ctx: Any, gradient: Any) -> Any:
        return gradient if isinstance(gradient, CudaTensor) else on_device(gradient.clone())


class _ToDevice(torch.autograd.Function):  # type: ignore[misc]
    @staticmethod
    def forward(ctx: Any, tensor: Any) -> Any:
        return on_device(tensor.clone())

    @staticmethod
    def backward(ctx: Any, gradient: Any) -> Any:
        return on_host(gradient).clone() if isinstance(gradient, CudaTensor) else gradient


@contextmanager
def emulated_device() -> Iterator[None]:
    """Let ``device="cuda"`` mean the emulated device in this thread."""
    with ExitStack() as stack:
        for name, function in _METHODS.items():
            stack.enter_context(replaced(torch.Tensor, name, function))
        for name, function in _FACTORIES.items():
            stack.enter_context(replaced(torch, name, function))
        stack.enter_context(replaced(torch.autograd, "_engine_run_backward", _run_backward))
        stack.enter_context(_Operators())
        yield


_engine = torch.autograd._engine_run_backward


def _run_backward(*args: Any, **kwargs: Any) -> Any:
    """Run a backward pass. ``Tensor.backward`` is a function of such a tensor, but what the user wrote runs in it."""
    with torch._C._EnableTorchFunction():
        return _engine(*args, **kwargs)


class _Operators(TorchDispatchMode):  # type: ignore[misc]
    """Handles operators that make tensors on the device."""

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        # PyTorch would import its compiler, in some seconds, to keep it away from the method below.
        return False

    def __torch_dispatch__(
        self, operator: Any, types: Sequence[Any], args: Sequence[Any] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        return _dispatch(operator, args, dict(kwargs or {}))


def is_cuda(value: Any) -> bool:
    """Whether a value names the device, as a string or as a device of PyTorch's."""
    if isinstance(value, torch.device):
        return bool(value.type == "cuda")
    return isinstance(value, str) and (value == "cuda" or value.startswith("cuda:"))


def _call(function: Callable[..., Any], args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
    """Call a function of PyTorch's that has a tensor of the device among its arguments."""
    device = kwargs.get("device")
    if device is not None and not is_cuda(device):
        # An operator that gets a tensor of the device and another device comes from PyTorch's own code, for which
        # the tensor is on the CPU; the program's own wish is met here.
        args, kwargs = tree_map_only(CudaTensor, lambda value: on_host(value.detach()), (args, kwargs))
    if torch.is_autocast_enabled("cuda"):
        args, kwargs = with_autocast(getattr(function, "__name__", ""), args, kwargs)
    return function(*args, **kwargs)


_tensor_to = torch.Tensor.to
_tensor_new = torch.Tensor.new_tensor


def _to(tensor: torch.Tensor, *args: Any, **kwargs: Any) -> Any:
    """``Tensor.to``."""
    device = kwargs.pop("device", None)
    rest = list(args)
    other = rest[0] if rest else kwargs.get("other")
    if isinstance(other, torch.Tensor):
        device, rest[:1] = other.device, [other.dtype]
        kwargs.pop("other", None)
    elif rest and (isinstance(rest[0], torch.device | str | int) or rest[0] is None):
        first = rest.pop(0)
        device = CUDA if isinstance(first, int) else first
    kwargs.pop("non_blocking", None)
    if len(rest) > 1:  # dtype, non_blocking, copy
        kwargs["copy"] = rest[2] if len(rest) > 2 else False
    rest = [value for value in rest[:1] if value is not None]
    moved = _moved(tensor, device)
    if moved is not tensor:
        kwargs.pop("copy", None)
    return _tensor_to(moved, *rest, **kwargs) if rest or kwargs else moved


def _moved(tensor: torch.Tensor, device: Any) -> torch.Tensor:
    here = isinstance(tensor, CudaTensor)
    if device is None or is_cuda(device) == here:
        # Between devices other than this one, PyTorch moves the tensor itself.
        return tensor if here or device is None else _tensor_to(tensor, device)
    if not here:
        return _ToDevice.apply(tensor)
    return _moved(_ToHost.apply(tensor), device)


def _cuda(tensor: torch.Tensor, *_: Any, **__: Any) -> Any:
    """``Tensor.cuda``."""
    return _moved(tensor, CUDA)


def _cpu(tensor: torch.Tensor, *_: Any, **__: Any) -> Any:
    """``Tensor.cpu``."""
    return _moved(tensor, _CPU)


def _pin_memory(tensor: torch.Tensor, *_: Any, **__: Any) -> Any:
    """``Tensor.pin_memory``: host and device share memory."""
    return tensor


def _record_stream(tensor: torch.Tensor, stream: object) -> None:
    """``Tensor.record_stream``: nothing is freed while a stream still needs it."""


def _from_data(function: Callable[..., Any], like: bool = False) -> Callable[..., Any]:
    """Return ``torch.tensor`` or a relative: PyTorch fills memory of the CPU and moves it to a GPU by itself."""

    @functools.wraps(function)
    def make(*args: Any, device: Any = None, **kwargs: Any) -> Any:
        data = args[0] if args else next(iter(kwargs.values()))
        if device is None:
            device = data.device if isinstance(data, torch.Tensor) else torch.get_default_device()
        if isinstance(data, torch.Tensor) and not like and function is not _tensor:
            return _to(data, device, *args[1:], **kwargs)
        args, kwargs = tree_map_only(CudaTensor, lambda value: on_host(value.detach()), (args, kwargs))
        if not is_cuda(device):
            return function(*args, device=device, **kwargs)
        wants_gradient = kwargs.pop("requires_grad", False)
        return on_device(function(*args, device=_CPU, **kwargs)).requires_grad_(wants_gradient)

    return make


_tensor = torch.tensor
_METHODS: dict[str, Callable[..., Any]] = {
    "to": _to,
    "cuda": _cuda,
    "cpu": _cpu,
    "pin_memory": _pin_memory,
    "record_stream": _record_stream,
    "new_tensor": _from_data(_tensor_new, like=True),
}
_FACTORIES = {function.__name__: _from_data(function) for function in (_tensor, torch.as_tensor, torch.asarray)}


def _dispatch(operator: Any, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
    """Run an operator: the kernel that a library registered for the device, or PyTorch's for the CPU."""
    device = kwargs.get("device")
    tensors = [value for value in tree_leaves((args, kwargs)) if isinstance(value, CudaTensor)]
    if not tensors and not is_cuda(device):
        return operator(*args, **kwargs)
    if _registered_for_cuda(operator):
        with _Operators(), torch._C._EnableTorchFunction():
            return operator.redispatch(_CUDA_KERNELS, *args, **kwargs)
    hosts = {id(tensor): on_host(tensor) for tensor in tensors}
    originals = {id(hosts[id(tensor)]): tensor for tensor in tensors}

    def host(value: Any) -> Any:
        if isinstance(value, CudaTensor):
            return hosts[id(value)]
        return _CPU if isinstance(value, torch.device) and value.type == "cuda" else value

    result = operator(*tree_map(host, args), **tree_map(host, kwargs))
    if operator._schema.is_mutable:
        for tensor in tensors:
            _follow(tensor, hosts[id(tensor)])
    if device is not None and torch.device(device).type == "meta":
        return result
    return tree_map_only(torch.Tensor, lambda value: _restored(value, originals), result)


def _restored(value: torch.Tensor, originals: Mapping[int, CudaTensor]) -> torch.Tensor:
    known = originals.get(id(value))
    return known if known is not None else on_device(value)


def _follow(tensor: CudaTensor, host: torch.Tensor) -> None:
    """Give a tensor the shape that an operator in place, such as ``resize_``, gave to its memory."""
    if tensor.shape != host.shape or tensor.stride() != host.stride() or tensor.data_ptr() != host.data_ptr():
        with torch._C._DisableTorchDispatch():
            torch.Tensor.data.__set__(tensor, on_device(host))


def _registered_for_cuda(operator: Any) -> bool:
    """Whether a Python program registered a kernel for CUDA with :mod:`torch.library`."""
    namespace, _, name = operator.name().partition("::")
    return f"{namespace}/{name}/CUDA" in torch.library._impls
