"""Python values of a call as JSON and arrays: what passes between the processes of a task and of an answer.

Tensors become NumPy arrays of an ``.npz`` file, which is read without pickle. ``bfloat16`` and the formats of 8 bits
have no array of their own: their bytes are stored with the name of the dtype.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import is_dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import torch

_BY_SIZE = {1: torch.uint8, 2: torch.int16}


class UnsupportedValueError(Exception):
    """A value that has no form here, such as a module."""


def save(path: Path, value: Any) -> None:
    """Write a value to a file.

    Raises
    ------
    UnsupportedValueError
        If it holds something else than numbers, text, tensors, dtypes, and lists, tuples, dicts, namespaces and
        dataclasses of them.
    """
    arrays: dict[str, Any] = {}
    text = json.dumps(_encoded(value, arrays))
    with path.open("wb") as file:
        np.savez(file, __value__=np.frombuffer(text.encode(), np.uint8), **arrays)


def load(path: Path) -> Any:
    """Return the value of a file; its tensors are on the CPU."""
    with np.load(path, allow_pickle=False) as file:
        arrays = {name: file[name] for name in file.files}
    return _decoded(json.loads(arrays.pop("__value__").tobytes()), arrays)


def _encoded(value: Any, arrays: dict[str, Any]) -> Any:
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, torch.Tensor):
        name = f"t{len(arrays)}"
        host = value.detach().cpu()
        layout = {} if host.is_contiguous() else {"shape": host.shape, "strides": host.stride()}
        host = _elements(host) if layout else host
        numpy_has_it = host.dtype not in (torch.bfloat16, torch.float8_e4m3fn, torch.float8_e5m2)
        arrays[name] = (host if numpy_has_it else host.view(_BY_SIZE[host.itemsize])).numpy()
        return {"tensor": name, "dtype": str(host.dtype).removeprefix("torch."), **layout}
    if isinstance(value, torch.dtype):
        return {"torch": str(value).removeprefix("torch.")}
    if isinstance(value, list | tuple):
        return {"list" if isinstance(value, list) else "tuple": [_encoded(one, arrays) for one in value]}
    if isinstance(value, dict) and all(isinstance(name, str) for name in value):
        return {"dict": {name: _encoded(one, arrays) for name, one in value.items()}}
    if isinstance(value, SimpleNamespace) or is_dataclass(value):
        # An answer has a class of its own, whose attributes have the same names.
        return {"attributes": {name: _encoded(one, arrays) for name, one in vars(value).items()}}
    raise UnsupportedValueError(f"a value of type {type(value).__name__} cannot be given to another process")


def _decoded(value: Any, arrays: dict[str, Any]) -> Any:
    if not isinstance(value, dict):
        return value
    if "tensor" in value:
        array, dtype = torch.from_numpy(arrays[value["tensor"]]), getattr(torch, value["dtype"])
        tensor = array if array.dtype == dtype else array.view(dtype)
        return tensor.as_strided(value["shape"], value["strides"]) if "strides" in value else tensor
    if "torch" in value:
        return getattr(torch, value["torch"])
    if "dict" in value:
        return {name: _decoded(one, arrays) for name, one in value["dict"].items()}
    if "attributes" in value:
        return SimpleNamespace(**{name: _decoded(one, arrays) for name, one in value["attributes"].items()})
    items = [_decoded(one, arrays) for one in (value["list"] if "list" in value else value["tuple"])]
    return items if "list" in value else tuple(items)


def _elements(tensor: torch.Tensor) -> torch.Tensor:
    """Return the memory from the first to the last element of a tensor, which is not empty, as one dimension."""
    last = sum((size - 1) * stride for size, stride in zip(tensor.shape, tensor.stride(), strict=True))
    return tensor.as_strided((last + 1,), (1,))


def tensors_of(value: Any) -> list[torch.Tensor]:
    """Return the tensors in a nested value, in order."""
    if isinstance(value, torch.Tensor):
        return [value]
    items: list[Any] = []
    if isinstance(value, dict | list | tuple):
        items = list(value.values() if isinstance(value, dict) else value)
    return [tensor for item in items for tensor in tensors_of(item)]


def results_of(value: Any, number: torch.dtype = torch.float32) -> list[torch.Tensor]:
    """Return what a call returned as real tensors, in order: complex ones have a dimension more.

    Numbers are tensors without dimensions; ``number`` is the dtype of those that are not integers.
    """
    if isinstance(value, torch.Tensor):
        return [torch.view_as_real(value.resolve_conj()) if value.is_complex() else value]
    if isinstance(value, bool | int | float):
        return [torch.tensor(value, dtype=number if isinstance(value, float) else None)]
    items = list(value.values() if isinstance(value, dict) else value) if isinstance(value, dict | list | tuple) else []
    return [tensor for item in items for tensor in results_of(item, number)]


def mapped(value: Any, function: Callable[[torch.Tensor], torch.Tensor]) -> Any:
    """Return a nested value with a function applied to each of its tensors, in order."""
    if isinstance(value, torch.Tensor):
        return function(value)
    if isinstance(value, list | tuple):
        return type(value)([mapped(item, function) for item in value])
    return {name: mapped(item, function) for name, item in value.items()} if isinstance(value, dict) else value


def equal(now: torch.Tensor, before: torch.Tensor) -> bool:
    """Return whether two tensors on the CPU are equal; NaN is equal to NaN."""
    return bool(torch.equal(torch.nan_to_num(now.float()), torch.nan_to_num(before.float())))


def copied(values: Sequence[Any]) -> list[Any]:
    """Return arguments of a call with copies of their tensors."""
    return [mapped(value, torch.clone) for value in values]
