"""The bytes of a box of a tensor in global memory, and of its tile in shared memory (PTX ISA sections 5.5.3, 5.5.7)."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from gpuemu_lsp.engine.tensor_map import TensorMap

Indices = npt.NDArray[np.int64]


def swizzled(address: Indices, bits: int) -> Indices:
    """Return addresses with their bits 4 and up changed by bits 7 and up, ``bits`` of them (section 5.5.7)."""
    return address ^ ((address >> 3) & ((16 << bits) - 16))


def tile_addresses(tensor: TensorMap, coordinates: tuple[int, ...], start: int) -> tuple[Indices, Indices]:
    """Return the address in global memory, -1 outside of the tensor, and in shared memory of each byte of a box."""
    index = np.indices(tensor.tile[::-1], dtype=np.int64).reshape(tensor.rank, -1)[::-1]
    inside = np.ones(index.shape[1], dtype=np.bool_)
    far = np.full(index.shape[1], tensor.address, dtype=np.int64)
    distances = (tensor.element_size, *tensor.strides)
    for place, first, size, stride, step in zip(index, coordinates, tensor.sizes, distances, tensor.steps, strict=True):
        at = place * step + first
        inside &= (at >= 0) & (at < size)
        far += at * stride
    byte = np.arange(tensor.element_size, dtype=np.int64)
    outside = np.where(inside[:, None], far[:, None] + byte, -1).reshape(-1)
    near = swizzled(start + np.arange(tensor.box_bytes, dtype=np.int64), tensor.swizzle)
    return outside, near


def nan_bytes(tensor: TensorMap) -> npt.NDArray[np.uint8]:
    """Return the bytes of the NaN that fills elements outside of a tensor: all bits but the sign, as in PTX."""
    return np.array([0xFF] * (tensor.element_size - 1) + [0x7F], dtype=np.uint8)
