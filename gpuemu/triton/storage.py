"""Memory of tensors: the whole allocation that a tensor is a view of, as writable bytes.

A kernel gets a pointer to the first element, but it may read and write anything of the allocation: the rows of a
transposed view lie outside the view's own extent. So the emulator gets whole allocations, and tensors that share one
share it in the emulator as well.
"""

from __future__ import annotations

import ctypes
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt


@dataclass(frozen=True, slots=True)
class TensorMemory:
    """The allocation of a tensor.

    ``address`` is that of its first byte and identifies it; ``data`` is a writable view of its bytes, 1-D uint8;
    ``offset`` is that of the tensor's first element in bytes; ``item_size`` the size of an element.
    """

    address: int
    data: npt.NDArray[np.uint8]
    offset: int
    item_size: int


def memory_of(tensor: Any) -> TensorMemory:
    """Return the memory of a PyTorch CPU tensor, a NumPy array, or Triton's wrapper of one.

    Raises
    ------
    TypeError
        If it is none of these, or a tensor on another device.
    """
    # triton.reinterpret wraps a tensor to change its dtype.
    tensor = getattr(tensor, "base", tensor) if type(tensor).__module__.startswith("triton.") else tensor
    if isinstance(tensor, NumpyTensor):
        return _numpy_memory(tensor.array)
    if hasattr(tensor, "untyped_storage"):
        storage = tensor.untyped_storage()
        if storage.device.type != "cpu":  # a tensor on the emulated device has CPU memory
            raise TypeError(f"a tensor on device '{tensor.device}': kernels in the emulator take CPU tensors")
        start = storage.data_ptr()
        return TensorMemory(start, _bytes_at(start, storage.nbytes()), tensor.data_ptr() - start, tensor.element_size())
    raise TypeError(f"a {type(tensor).__name__}: kernels take tensors of PyTorch or NumPy arrays")


class NumpyTensor:
    """A NumPy array of any shape with the attributes by which Triton recognises a tensor."""

    _DTYPES = {  # noqa: RUF012 - a table
        "float16": "fp16",
        "bfloat16": "bf16",
        "float32": "fp32",
        "float64": "fp64",
        "bool": "i1",
        **{f"int{bits}": f"i{bits}" for bits in (8, 16, 32, 64)},
        **{f"uint{bits}": f"u{bits}" for bits in (8, 16, 32, 64)},
        "float8_e4m3fn": "fp8e4nv",
        "float8_e5m2": "fp8e5",
    }

    def __init__(self, array: npt.NDArray[Any]) -> None:
        if str(array.dtype) not in self._DTYPES:
            raise TypeError(f"a NumPy array of {array.dtype}: Triton has no such type")
        self.array = array
        self.dtype = self._DTYPES[str(array.dtype)]
        self.shape = array.shape

    def data_ptr(self) -> int:
        """Return the address of the first element."""
        return int(self.array.ctypes.data)

    def stride(self, dimension: int | None = None) -> Any:
        """Return the strides in elements, or one of them."""
        strides = tuple(step // self.array.itemsize for step in self.array.strides)
        return strides if dimension is None else strides[dimension]


def _numpy_memory(array: npt.NDArray[Any]) -> TensorMemory:
    owner = array
    while isinstance(owner.base, np.ndarray):
        owner = owner.base
    low, high = np.lib.array_utils.byte_bounds(owner)
    return TensorMemory(low, _bytes_at(low, high - low), int(array.ctypes.data) - low, array.itemsize)


def _bytes_at(address: int, size: int) -> npt.NDArray[np.uint8]:
    if not size:
        return np.zeros(0, np.uint8)
    return np.frombuffer(memoryview((ctypes.c_uint8 * size).from_address(address)), np.uint8)
