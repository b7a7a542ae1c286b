"""The bytes of a box of a tensor in global memory, and of its tile in shared memory (PTX ISA sections 5.5.3, 5.5.7)."""

from __future__ import annotations

from functools import lru_cache

import numpy as np
import numpy.typing as npt

from gpuemu_lsp.engine.emulator.launch.tma.places import Indices, Pattern, Places, made_pattern
from gpuemu_lsp.engine.tensor_map import TensorMap


def swizzled(address: Indices, bits: int) -> Indices:
    """Return addresses with their bits 4 and up changed by bits 7 and up, ``bits`` of them (section 5.5.7)."""
    return address ^ ((address >> 3) & ((16 << bits) - 16))


def tile_addresses(tensor: TensorMap, coordinates: tuple[int, ...], start: int) -> tuple[Places, Pattern]:
    """Return the bytes of a box in global memory, and in shared memory, where its tile has offset ``start``."""
    distances, lasts, offsets = _box(tensor)
    near = _near(start, offsets.offsets.size, tensor.swizzle)
    origin = tensor.address + sum(map(int.__mul__, coordinates, distances))
    limits = zip(coordinates, lasts, tensor.sizes, strict=True)
    if all(first >= 0 and first + last < size for first, last, size in limits):
        return Places(origin, offsets), near
    index = np.indices(tensor.tile[::-1], dtype=np.int64).reshape(tensor.rank, -1)[::-1]
    inside = np.ones(index.shape[1], dtype=np.bool_)
    for place, first, size, step in zip(index, coordinates, tensor.sizes, tensor.steps, strict=True):
        at = place * step + first
        inside &= (at >= 0) & (at < size)
    return Places(origin, offsets, np.repeat(inside, tensor.element_size)), near


@lru_cache(maxsize=256)
def _near(start: int, count: int, swizzle: int) -> Pattern:
    return made_pattern(swizzled(start + np.arange(count, dtype=np.int64), swizzle))


@lru_cache(maxsize=64)
def _box(tensor: TensorMap) -> tuple[tuple[int, ...], tuple[int, ...], Pattern]:
    """Return the bytes from element to element by dimension, the last elements of a box, and its bytes."""
    distances = (tensor.element_size, *tensor.strides)
    index = np.indices(tensor.tile[::-1], dtype=np.int64).reshape(tensor.rank, -1)[::-1]
    steps = zip(index, distances, tensor.steps, strict=True)
    elements = np.asarray(sum(place * distance * step for place, distance, step in steps))
    offsets = (elements[:, None] + np.arange(tensor.element_size, dtype=np.int64)).reshape(-1)
    lasts = tuple((count - 1) * step for count, step in zip(tensor.tile, tensor.steps, strict=True))
    return distances, lasts, made_pattern(offsets)


def nan_bytes(tensor: TensorMap) -> npt.NDArray[np.uint8]:
    """Return the bytes of the NaN that fills elements outside of a tensor: halves of 0x7ff7, as on an H100."""
    return np.resize(np.array([0xF7, 0x7F], dtype=np.uint8), tensor.element_size)
