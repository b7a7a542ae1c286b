"""References in PyTorch: fp64 CPU tensors in place of arrays, and Monte Carlo arithmetic on ATen operations.

A reference that computes with PyTorch gets tensors that share the memory of the arrays. Its rounding is simulated where
PyTorch dispatches each operation: the result of one that rounds is perturbed as that of the same NumPy function
(:mod:`.rounding`). Operations that compute several steps at once, such as layer normalisation, hide the rounding
between the steps: they count as leaks, after which the error budget is larger.

PyTorch is imported only for references that use it.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from types import CodeType, FunctionType, ModuleType
from typing import Any

import numpy as np

from gpuemu_lsp.engine.compile.torch_devices import cuda_means_cpu
from gpuemu_lsp.engine.fuzz.model import Array
from gpuemu_lsp.engine.oracle.rounding import MonteCarloArithmetic, growth
from gpuemu_lsp.engine.oracle.trace import traced

_CONVERTS = "from_numpy"
_EXACT = frozenset(
    (
        *("abs", "neg", "sign", "sgn", "maximum", "minimum", "max", "min", "amax", "amin", "relu", "relu_", "clamp"),
        *("clamp_", "clamp_min", "clamp_max", "floor", "ceil", "round", "trunc", "fmod", "remainder", "where"),
        *("clone", "copy_", "_to_copy", "cat", "stack", "index", "index_select", "gather", "take", "scatter"),
        *("scatter_", "masked_fill", "masked_fill_", "masked_select", "fill_", "zero_", "sort", "topk", "flip", "roll"),
        *("repeat", "tril", "triu", "constant_pad_nd", "index_put_", "index_put", "empty", "empty_like", "zeros"),
        *("zeros_like", "ones", "ones_like", "full", "full_like", "arange", "new_zeros", "new_ones", "new_full", "eye"),
        *(
            "new_empty",
            "scalar_tensor",
            "lift_fresh",
            "lift_fresh_copy",
            "set_",
            "resize_",
            "cummax",
            "cummin",
            "_unsafe_view",
        ),
        *("threshold", "leaky_relu_backward", "max_pool2d_with_indices", "embedding", "one_hot", "contiguous"),
    )
)
"""Operations whose result is made of their operands, or representable."""
_ROUNDED_ONCE = frozenset({"mul", "div", "sqrt", "reciprocal", "square", "leaky_relu"})
_SUMS = frozenset({"add", "sub", "rsub", "addcmul", "lerp"})
_FUNCTIONS = frozenset(
    (
        *("exp", "exp2", "expm1", "log", "log2", "log10", "log1p", "tanh", "sigmoid", "erf", "erfc", "erfinv", "pow"),
        *("rsqrt", "sin", "cos", "tan", "asin", "acos", "atan", "atan2", "sinh", "cosh", "asinh", "acosh", "atanh"),
        *("softplus", "lgamma", "digamma", "silu", "gelu", "hypot", "logaddexp", "logaddexp2", "log_sigmoid_forward"),
    )
)
_REDUCTIONS = frozenset(
    {"sum", "mean", "mm", "bmm", "addmm", "baddbmm", "addmv", "mv", "dot", "cumsum", "convolution", "addbmm", "linear"}
)
"""Sums of products or terms, whose error is relative to the same sum of magnitudes."""


def uses_torch(function: Callable[..., Any]) -> bool:
    """Return whether a reference computes with PyTorch, and does not itself convert arrays to tensors.

    One that names neither PyTorch nor NumPy calls methods: of tensors, if its file imports PyTorch alone.
    """
    names = set[str]()
    if _mentions_torch(function, names, set()):
        return _CONVERTS not in names
    modules = _modules(function)
    if "torch" not in modules or _named_modules(function) & {"numpy"}:
        return False
    return "numpy" not in modules or _are_tensor_methods(names)


def may_use_torch(function: Callable[..., Any]) -> bool:
    """Return whether the file of a reference imports PyTorch, so that either arrays or tensors may be meant."""
    return "torch" in _modules(function)


def _modules(function: Any) -> set[str]:
    """Return the top-level packages that the globals of a function come from."""
    values = getattr(inspect.unwrap(function), "__globals__", {}).values()
    return {name.partition(".")[0] for value in values if isinstance(name := _module_name(value), str)}


def _named_modules(function: Any) -> set[str]:
    """Return the top-level packages of the globals that a function itself names."""
    plain = inspect.unwrap(function)
    values = [getattr(plain, "__globals__", {}).get(name) for name in _names(plain.__code__)]
    return {name.partition(".")[0] for value in values if isinstance(name := _module_name(value), str)}


def _module_name(value: Any) -> Any:
    return value.__name__ if isinstance(value, ModuleType) else getattr(value, "__module__", None)


def _are_tensor_methods(names: set[str]) -> bool:
    """Return whether some of the names are attributes of tensors and not of arrays."""
    import torch

    return any(hasattr(torch.Tensor, name) and not hasattr(np.ndarray, name) for name in names)


def _mentions_torch(function: Any, names: set[str], seen: set[int]) -> bool:
    function = getattr(function, "__wrapped__", function)
    if not isinstance(function, FunctionType) or id(function) in seen:
        return False
    seen.add(id(function))
    own = set(_names(function.__code__))
    names |= own
    found = False
    for name in own:
        value = function.__globals__.get(name)
        module = _module_name(value)
        found = found or (isinstance(module, str) and module.partition(".")[0] == "torch")
        # The helpers of the same file.
        if isinstance(value, FunctionType) and value.__globals__ is function.__globals__:
            found = _mentions_torch(value, names, seen) or found
    return found


def _names(code: CodeType) -> Iterator[str]:
    yield from code.co_names
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _names(constant)


def as_tensors(tensors: Mapping[str, Array]) -> dict[str, Any]:
    """Return tensors with the memory of arrays. PyTorch computes with few unsigned types: they become int64."""
    import torch

    return {
        name: torch.from_numpy(value.astype(np.int64) if value.dtype.kind == "u" and value.itemsize > 1 else value)
        for name, value in tensors.items()
    }


@contextmanager
def rounding_operations(arithmetic: MonteCarloArithmetic | None, *, live: bool = False) -> Iterator[None]:
    """Let every operation round as in ``arithmetic``; None for exact ones.

    The device ``cuda`` means the CPU, except in a program that is running (``live``).
    """
    import torch

    with nullcontext() if live else cuda_means_cpu(), torch.no_grad():
        if arithmetic is None:
            yield
            return
        with _dispatch_mode(arithmetic):
            yield


def as_arrays(result: Any, arithmetic: MonteCarloArithmetic | None) -> Any:
    """Return what a reference returned with arrays in place of tensors."""
    import torch

    if isinstance(result, torch.Tensor):
        array = result.detach().cpu()
        array = array.float() if array.dtype in (torch.bfloat16, torch.float8_e4m3fn, torch.float8_e5m2) else array
        return traced(array.resolve_conj().resolve_neg().numpy(), arithmetic)
    if isinstance(result, Mapping):
        return {name: as_arrays(value, arithmetic) for name, value in result.items()}
    if isinstance(result, tuple | list):
        return tuple(as_arrays(value, arithmetic) for value in result)
    return result


def _dispatch_mode(arithmetic: MonteCarloArithmetic) -> Any:
    import torch
    from torch.utils._python_dispatch import TorchDispatchMode

    class RoundingMode(TorchDispatchMode):  # type: ignore[misc]
        """Perturbs the results of operations that round."""

        def __torch_dispatch__(
            self, operation: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
        ) -> Any:
            options = kwargs or {}
            name = operation.overloadpacket.__name__
            returned = operation._schema.returns
            is_view = any(one.alias_info is not None and not one.alias_info.is_write for one in returned)
            if is_view or name in _EXACT:
                return operation(*args, **options)
            # Before the call: an operation in place changes its operand.
            scale = _scale(operation, name.rstrip("_"), args, options)
            result = operation(*args, **options)
            for one in result if isinstance(result, tuple | list) else (result,):
                if isinstance(one, torch.Tensor) and one.dtype == torch.float64:
                    _perturb(arithmetic, name.rstrip("_"), one.numpy(), scale)
            return result

    return RoundingMode()


def _scale(operation: Any, name: str, args: tuple[Any, ...], options: dict[str, Any]) -> Any:
    """Return the magnitude that the error of an operation is relative to; None if it is that of the result."""
    import torch

    if name in _SUMS:
        # An eighth: of the eight unit roundoffs of a perturbation this leaves the one that a product loses without fma.
        terms = [one.abs().numpy() for one in args if isinstance(one, torch.Tensor) and one.dtype == torch.float64]
        return (sum(terms[1:], terms[0]) if terms else 0.0) / 8
    if name not in _REDUCTIONS:
        return None
    magnitudes = [one.abs() if isinstance(one, torch.Tensor) else one for one in args]
    count = max((one.shape[-1] if name in _PRODUCTS else one.numel() for one in _tensors(args)), default=1)
    sums = operation(*magnitudes, **options)
    if name in ("sum", "mean"):
        count = count // max(sums.numel(), 1)
    elif name == "convolution":
        count = int(np.prod(args[1].shape[1:]))
    elif name == "cumsum":
        count = args[0].shape[args[1]] if args[0].dim() else 1
    return growth(max(count, 1)) * sums.numpy()


_PRODUCTS = _REDUCTIONS - {"sum", "mean", "cumsum", "convolution"}


def _tensors(args: tuple[Any, ...]) -> list[Any]:
    import torch

    return [one for one in args if isinstance(one, torch.Tensor)]


def _perturb(arithmetic: MonteCarloArithmetic, name: str, values: Array, scale: Any) -> None:
    size = np.abs(values)
    if name in _REDUCTIONS:
        arithmetic.perturb(values, arithmetic.unit * scale)
    elif name in _SUMS:
        arithmetic.perturb(values, arithmetic.unit * (size + scale))
    elif name in _ROUNDED_ONCE:
        arithmetic.perturb(values, arithmetic.unit * size)
    else:
        arithmetic.leaks += name not in _FUNCTIONS
        arithmetic.perturb(values, arithmetic.function_unit * size)
