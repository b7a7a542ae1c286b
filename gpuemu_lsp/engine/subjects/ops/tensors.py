"""Conversion between NumPy arrays and PyTorch's tensors, which share their memory where PyTorch has the dtype."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np

from gpuemu_lsp.engine.fuzz.dtypes import numpy_dtype
from gpuemu_lsp.engine.fuzz.model import Array

_BITS: dict[str, np.dtype[Any]] = {
    "bfloat16": np.dtype(np.int16),
    "float8_e4m3fn": np.dtype(np.uint8),
    "float8_e5m2": np.dtype(np.uint8),
}
"""NumPy does not know these types: their bits are exchanged."""


def to_tensor(array: Array) -> Any:
    """Return a tensor with the values, shape and strides of an array."""
    import torch

    bits = _BITS.get(array.dtype.name)
    if bits is None:
        return torch.from_numpy(array)
    return torch.from_numpy(array.view(bits)).view(getattr(torch, array.dtype.name))


def to_array(value: Any) -> Any:
    """Return a tensor as an array, any other value as it is."""
    torch = sys.modules.get("torch")
    if torch is None or not isinstance(value, torch.Tensor):
        return value
    plain = value.detach().cpu().resolve_conj().resolve_neg()
    name = str(plain.dtype).removeprefix("torch.")
    if name in _BITS:
        integers = torch.int16 if _BITS[name].itemsize == 2 else torch.uint8
        return plain.contiguous().view(integers).numpy().view(numpy_dtype(name))
    if plain.layout is not torch.strided:
        plain = plain.to_dense()
    return plain.numpy()


def is_tensor(value: Any) -> bool:
    """Return whether a value is a tensor of PyTorch."""
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(value, torch.Tensor)


def is_list_of_arrays(value: Any) -> bool:
    """Return whether a value is a list of arrays or tensors: several results, as those of ``numpy.split``."""
    return (
        isinstance(value, list) and bool(value) and all(isinstance(one, np.ndarray) or is_tensor(one) for one in value)
    )
