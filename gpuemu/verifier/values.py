"""Arguments and results of a checked function: nested tuples, lists, dicts and dataclasses of tensors.

A tensor is a NumPy array or a PyTorch tensor. PyTorch is used only if the program has imported it.
"""

from __future__ import annotations

import copy
import dataclasses
import sys
from collections.abc import Callable, Iterator, Mapping
from typing import Any, TypeAlias

import ml_dtypes
import numpy as np
import numpy.typing as npt

Array: TypeAlias = npt.NDArray[Any]
Visit: TypeAlias = Callable[[str, Any], Any]

_BYTES: dict[str, type[np.generic]] = {
    "torch.bfloat16": ml_dtypes.bfloat16,
    "torch.float8_e4m3fn": ml_dtypes.float8_e4m3fn,
    "torch.float8_e5m2": ml_dtypes.float8_e5m2,
}
"""Dtypes of PyTorch that NumPy does not have."""


def is_torch(value: object) -> bool:
    """Return whether ``value`` is a tensor of PyTorch."""
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(value, torch.Tensor)


def is_module(value: object) -> bool:
    """Return whether ``value`` is a ``torch.nn.Module``."""
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(value, torch.nn.Module)


def is_tensor(value: object) -> bool:
    """Return whether ``value`` is an array of NumPy or a tensor of PyTorch."""
    return isinstance(value, np.ndarray | np.generic) or is_torch(value)


def mapped(value: Any, visit: Visit, path: str = "") -> Any:
    """Return ``value`` with ``visit(path, leaf)`` in place of every leaf of its structure.

    The path has the keys and indices that lead to the leaf, joined by dots.
    """
    kind = type(value)
    if kind is tuple or kind is list:
        return kind(mapped(item, visit, _join(path, index)) for index, item in enumerate(value))
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return kind(*(mapped(item, visit, _join(path, name)) for name, item in zip(value._fields, value, strict=True)))
    if isinstance(value, Mapping):
        items = {key: mapped(item, visit, _join(path, key)) for key, item in value.items()}
        return items if kind is dict else _like(value, items)
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        fields = {field.name: getattr(value, field.name) for field in dataclasses.fields(value) if field.init}
        return dataclasses.replace(value, **mapped(fields, visit, path))
    return visit(path, value)


def leaves(value: Any) -> dict[str, Any]:
    """Return the leaves of ``value`` by path, in order; a value without structure has the path ``""``."""
    found: dict[str, Any] = {}

    def visit(path: str, leaf: Any) -> Any:
        found[path] = leaf
        return leaf

    mapped(value, visit)
    return found


def tensors(value: Any) -> Iterator[tuple[str, Any]]:
    """Yield the tensors of ``value`` with their paths."""
    return ((path, leaf) for path, leaf in leaves(value).items() if is_tensor(leaf))


def snapshot(value: Any) -> Any:
    """Return a copy that later changes of ``value`` do not affect, detached from the autograd graph.

    Arrays, tensors and modules are copied; other leaves are immutable numbers and strings, or are shared.
    """
    kind = type(value)
    if kind is np.ndarray:
        return value.copy() if value.flags.c_contiguous else _array_copy(value)
    if kind is float or kind is int or kind is str or kind is bool or value is None:
        return value
    if is_torch(value):
        return value.detach().clone() if value.is_contiguous() else _tensor_copy(value.detach())
    if kind is tuple:
        return tuple(snapshot(item) for item in value)
    if is_module(value):
        return copy.deepcopy(value)
    if isinstance(value, tuple | list | Mapping) or dataclasses.is_dataclass(value):
        return mapped(value, lambda _, leaf: snapshot(leaf) if not _has_structure(leaf) else leaf)
    return _array_copy(value) if isinstance(value, np.ndarray) else value


def _array_copy(array: Array) -> Array:
    """Return a copy with the strides of an array: what a kernel does wrong may depend on them."""
    return laid_out(array, array.strides)


def _tensor_copy(tensor: Any) -> Any:
    """Return a copy with the strides of a tensor."""
    torch = sys.modules["torch"]
    if tensor.layout is not torch.strided or not tensor.numel():
        return tensor.clone()
    # An expanded dimension has one element in memory, which cannot be written twice.
    once = tensor
    for axis, step in enumerate(tensor.stride()):
        once = once.narrow(axis, 0, 1) if step == 0 else once
    copied = torch.empty_strided(once.shape, once.stride(), dtype=tensor.dtype, device=tensor.device)
    return copied.copy_(once).expand(tensor.shape)


def size_of(value: Any) -> int:
    """Return the bytes of the tensors in ``value``, those of modules included."""
    if type(value) is np.ndarray:
        return int(value.nbytes)
    total = 0
    for leaf in leaves(value).values():
        if is_module(leaf):
            total += sum(tensor.numel() * tensor.element_size() for tensor in leaf.state_dict().values())
        elif is_tensor(leaf):
            total += int(leaf.nbytes)
    return total


def as_array(value: Any) -> Array:
    """Return a tensor or number as an array of NumPy; ``bfloat16`` and fp8 have the dtypes of ml_dtypes.

    Raises
    ------
    TypeError
        If it is not a tensor or number.
    """
    if is_torch(value):
        torch = sys.modules["torch"]
        plain = value.detach().resolve_conj().resolve_neg().cpu()
        extended = _BYTES.get(str(plain.dtype))
        if extended is None:
            result: Array = plain.numpy()
            return result
        raw = plain.contiguous().view(torch.int8 if plain.element_size() == 1 else torch.int16)
        narrow: Array = raw.numpy().view(np.dtype(extended))
        return narrow
    if not isinstance(value, np.ndarray | np.generic | bool | int | float | complex) and not hasattr(
        value, "__array__"
    ):
        raise TypeError(f"a {type(value).__name__} is neither a tensor nor a number")
    return np.asarray(value)


def laid_out(array: Array, strides: tuple[int, ...]) -> Array:
    """Return an array of the same shape in new memory with these strides, in bytes; steps of 0 share an element."""
    if not array.size:
        return array.copy()
    size = array.itemsize
    span = size + sum((extent - 1) * abs(step) for extent, step in zip(array.shape, strides, strict=True))
    start = sum((extent - 1) * -step for extent, step in zip(array.shape, strides, strict=True) if step < 0)
    memory = np.zeros(span, np.uint8)
    view: Array = np.ndarray(array.shape, array.dtype, memory.data, offset=start, strides=strides)
    view[...] = array
    return view


def _has_structure(value: object) -> bool:
    return isinstance(value, tuple | list | Mapping)


def _join(path: str, key: object) -> str:
    return f"{path}.{key}" if path else str(key)


def _like(value: Any, items: dict[Any, Any]) -> Any:
    """Return a mapping of the type of ``value``, or a dict if that cannot be built from one."""
    try:
        return type(value)(items)
    except Exception:
        return items
