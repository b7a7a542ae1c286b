"""Shared memory of one block as the asynchronous proxy sees it: for each 16 bytes, the copy that wrote them."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import lru_cache

import numpy as np

from gpuemu_lsp.engine.emulator.launch.async_order.operands import CHUNK, Indices, OperandChunks
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


@dataclass(frozen=True, slots=True)
class BoxPlaces:
    """The places in a box of the chunks of an operand: along the rows (columns of B), and along k of the product.

    ``regular``: two chunks are as far apart in the box as in the product.
    """

    across: Indices
    along: Indices
    regular: bool


@lru_cache(maxsize=1024)
def box_places(chunks: OperandChunks, tensor: TensorMap, start: int) -> BoxPlaces:
    """Return the places of an operand's chunks in a box whose tile begins at ``start``."""
    # The pattern is an exclusive or with bits that it does not change: it is its own inverse.
    linear = chunks.addresses ^ (chunks.addresses >> 3 & (CHUNK << tensor.swizzle) - CHUNK)
    index = (linear - start) // tensor.element_size
    sizes, steps = tensor.tile, tensor.steps
    first, rest = index % sizes[0], index // sizes[0]
    second = rest % sizes[1] * steps[1] if tensor.rank > 1 else np.zeros_like(rest)
    across, along = (second, first) if chunks.along_k else (first, second)
    away = (along - chunks.ks != along[0] - chunks.ks[0]) | (across - chunks.rows != across[0] - chunks.rows[0])
    return BoxPlaces(across, along, not away.any())


@dataclass(slots=True)
class SharedTiles:
    """The tiles of a block; ``chunks`` has the number of the last one that was copied to each 16 bytes, or -1."""

    chunks: Indices
    tiles: list[Tile] = field(default_factory=list)

    def add(self, tile: Tile, numbers: Indices) -> None:
        """Record a copy to some chunks, from its issue on."""
        self.chunks[numbers] = len(self.tiles)
        self.tiles.append(tile)

    def at(self, numbers: Indices) -> Indices:
        """Return the number of the tile at each of some chunks, which are in shared memory; -1 for none."""
        return self.chunks[numbers]

    def of(self, numbers: Indices) -> list[Tile]:
        """Return the tiles that some chunks are in, each once."""
        one = self.only(numbers) if numbers.size else None
        if one is not None:
            return [one]
        return [self.tiles[number] for number in set(self.at(numbers).tolist()) if number >= 0]

    def only(self, numbers: Indices) -> Tile | None:
        """Return the tile that all of some chunks are in, None if there is no such."""
        found = self.chunks[numbers]
        first = int(found[0])
        return self.tiles[first] if first >= 0 and (found == first).all() else None
