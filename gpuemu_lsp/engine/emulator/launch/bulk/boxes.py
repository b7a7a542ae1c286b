"""The bytes of a box of a tensor in global memory, and of its tile in shared memory (PTX ISA sections 5.5.3, 5.5.7)."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from gpuemu_lsp.engine.tensor_map import TensorMap

Indices = npt.NDArray[np.int64]

Memory: TypeAlias = Callable[[int, int], npt.NDArray[np.uint8]]

_PIECE = np.complex128
"""16 bytes that NumPy moves at once, whatever they are."""


def swizzled(address: Indices, bits: int) -> Indices:
    """Return addresses with their bits 4 and up changed by bits 7 and up, ``bits`` of them (section 5.5.7)."""
    return address ^ ((address >> 3) & ((16 << bits) - 16))


def tile_addresses(tensor: TensorMap, coordinates: tuple[int, ...], start: int) -> tuple[Indices, Indices]:
    """Return the address in global memory, -1 outside of the tensor, and in shared memory of each byte of a box."""
    near = _near(start, tensor.box_bytes, tensor.swizzle)
    distances = (tensor.element_size, *tensor.strides)
    offsets = _offsets(tensor.tile, tuple(map(int.__mul__, distances, tensor.steps)), tensor.element_size)
    origin = tensor.address + sum(map(int.__mul__, coordinates, distances))
    limits = zip(coordinates, tensor.tile, tensor.steps, tensor.sizes, strict=True)
    if all(first >= 0 and first + (count - 1) * step < size for first, count, step, size in limits):
        return origin + offsets, near
    index = np.indices(tensor.tile[::-1], dtype=np.int64).reshape(tensor.rank, -1)[::-1]
    inside = np.ones(index.shape[1], dtype=np.bool_)
    for place, first, size, step in zip(index, coordinates, tensor.sizes, tensor.steps, strict=True):
        at = place * step + first
        inside &= (at >= 0) & (at < size)
    return np.where(np.repeat(inside, tensor.element_size), origin + offsets, -1), near


@lru_cache(maxsize=256)
def _near(start: int, count: int, swizzle: int) -> Indices:
    return swizzled(start + np.arange(count, dtype=np.int64), swizzle)


@lru_cache(maxsize=64)
def _offsets(tile: tuple[int, ...], distances: tuple[int, ...], element_size: int) -> Indices:
    """Return the distances of all bytes of a box from its first one."""
    index = np.indices(tile[::-1], dtype=np.int64).reshape(len(tile), -1)[::-1]
    elements = sum(place * distance for place, distance in zip(index, distances, strict=True))
    return (np.asarray(elements)[:, None] + np.arange(element_size, dtype=np.int64)).reshape(-1)


def _chunks(places: Indices) -> Indices | None:
    """Return the addresses of the pieces of 16 bytes that some bytes are, None if they are not.

    The bytes of a piece follow one another if the last does the first: rows of boxes are multiples of 16 bytes.
    """
    if places.size % 16:
        return None
    first = places[::16]
    return None if (first & 15).any() or (places[15::16] - first != 15).any() else first


def gathered(memory: Memory, places: Indices) -> npt.NDArray[np.uint8]:
    """Return the bytes at addresses, at least one; ``memory`` returns a view of those from an address on."""
    chunks = _chunks(places)
    if chunks is None:
        low = int(places.min())
        return memory(low, int(places.max()) - low + 1)[places - low]
    low = int(chunks.min())
    found: npt.NDArray[np.uint8] = (
        memory(low, int(chunks.max()) - low + 16).view(_PIECE)[chunks - low >> 4].view(np.uint8)
    )
    return found


def scatter(memory: Memory, places: Indices, values: npt.NDArray[np.uint8]) -> None:
    """Write the bytes at addresses, at least one."""
    chunks = _chunks(places)
    if chunks is None:
        low = int(places.min())
        memory(low, int(places.max()) - low + 1)[places - low] = values
        return
    low = int(chunks.min())
    memory(low, int(chunks.max()) - low + 16).view(_PIECE)[chunks - low >> 4] = values.view(_PIECE)


def nan_bytes(tensor: TensorMap) -> npt.NDArray[np.uint8]:
    """Return the bytes of the NaN that fills elements outside of a tensor: all bits but the sign, as in PTX."""
    return np.array([0xFF] * (tensor.element_size - 1) + [0x7F], dtype=np.uint8)
