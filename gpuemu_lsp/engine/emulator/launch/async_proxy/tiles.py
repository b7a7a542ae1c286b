"""Shared memory of one block as the asynchronous proxy sees it: for each 16 bytes, the copy that wrote them."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import lru_cache

import numpy as np

from gpuemu_lsp.engine.emulator.launch.async_proxy.operands import CHUNK, Indices, OperandChunks, chunk_numbers
from gpuemu_lsp.engine.tensor_map import TensorMap


@dataclass(frozen=True, slots=True)
class Tile:
    """A bulk copy to shared memory: its site and thread, map and coordinates, and the ``mbarrier`` with its phase.

    ``start`` and ``size`` are bytes of shared memory. ``tensor`` is None for a copy without a map.
    """

    site: int
    thread: int
    start: int
    size: int
    barrier: int
    phase: int
    tensor: TensorMap | None = None
    coordinates: tuple[int, ...] = ()

    def elements(self, chunks: OperandChunks) -> tuple[Indices, Indices]:
        """Return the first and the second coordinate in the tensor of the chunks of an operand, of a tile by a map."""
        assert self.tensor is not None
        first, second = _elements(chunks, self.tensor, self.start)
        return first + self.coordinates[0], second + (self.coordinates[1] if self.tensor.rank > 1 else 0)


@lru_cache(maxsize=256)
def _elements(chunks: OperandChunks, tensor: TensorMap, start: int) -> tuple[Indices, Indices]:
    """Return the places of an operand's chunks in a box whose tile begins at ``start``."""
    # The pattern is an exclusive or with bits that it does not change: it is its own inverse.
    linear = chunks.addresses ^ (chunks.addresses >> 3 & (CHUNK << tensor.swizzle) - CHUNK)
    index = (linear - start) // tensor.element_size
    sizes, steps = tensor.tile, tensor.steps
    first, rest = index % sizes[0], index // sizes[0]
    return first, rest % sizes[1] * steps[1] if tensor.rank > 1 else np.zeros_like(rest)


@dataclass(slots=True)
class SharedTiles:
    """The tiles of a block; ``chunks`` has the number of the last one that was copied to each 16 bytes, or -1."""

    chunks: Indices
    tiles: list[Tile] = field(default_factory=list)

    def add(self, tile: Tile, places: Indices) -> None:
        """Record a copy, from its issue on."""
        self.chunks[chunk_numbers(places)] = len(self.tiles)
        self.tiles.append(tile)

    def at(self, addresses: Indices) -> Indices:
        """Return the number of the tile at each address, -1 for none."""
        inside = (addresses >= 0) & (addresses < len(self.chunks) * CHUNK)
        return np.where(inside, self.chunks[np.where(inside, addresses // CHUNK, 0)], -1)
