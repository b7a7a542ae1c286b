"""Products of a warp group (PTX ISA section 9.7.15): which are in flight, and what they read."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TypeAlias

import numpy as np

from gpuemu_lsp.engine.emulator.launch.async_order.operands import (
    CHUNK,
    Indices,
    OperandChunks,
    decoded,
    operand_bytes,
    operand_chunks,
)
from gpuemu_lsp.engine.emulator.launch.async_order.tiles import BoxPlaces, SharedTiles, Tile, box_places
from gpuemu_lsp.engine.ptx.model import Instruction


@dataclass(frozen=True, slots=True)
class Product:
    """A ``wgmma.mma_async``: its site, the bits of its descriptors (A's 0 if it is in registers), and its operands."""

    site: int
    descriptors: tuple[int, int]
    group: int
    operands: tuple[OperandChunks | None, OperandChunks]
    epoch: int = 0
    """Epoch of its reads in the race detector."""
    fenced: bool = True
    """Whether no store to its operands was without a fence when it was issued: one after that shows in the shadow."""

    def reads(self, chunks: np.ndarray) -> bool:
        """Return whether an operand has bytes in one of the chunks of shared memory: numbers, one-dimensional."""
        return any(one is not None and bool(np.isin(one.addresses // CHUNK, chunks).any()) for one in self.operands)


def made_product(site: int, instruction: Instruction, descriptors: tuple[int, int], group: int, epoch: int) -> Product:
    """Return the product of the event of a ``wgmma.mma_async``."""
    columns, bits, *majors = (int(word) for word in instruction.modifiers[1:5])
    a, b = descriptors
    left = operand_chunks(decoded(a), 64, bits, bool(majors[0])) if a else None
    return Product(site, descriptors, group, (left, operand_chunks(decoded(b), columns, bits, bool(majors[1]))), epoch)


ProductSteps: TypeAlias = "tuple[ElementSteps | None, ElementSteps | None]"
"""The elements of A and B of a product; None for an operand that is not from one copy by a map of two dimensions."""


@dataclass(slots=True)
class WarpGroup:
    """The products of four warps; ``first`` is the number of the first one that is kept.

    ``issued`` and ``committed`` count products and groups of each warp, ``completed`` the products that a warp of the
    group has waited for.
    """

    products: list[Product] = field(default_factory=list)
    first: int = 0
    issued: dict[int, int] = field(default_factory=dict)
    committed: dict[int, int] = field(default_factory=dict)
    completed: int = 0
    steps: ProductSteps | None = None
    """Those of the last product, None if it reads what is not there."""

    @property
    def flying(self) -> list[Product]:
        """The products that nothing has waited for."""
        return self.products[self.completed - self.first :]

    @property
    def reads_until(self) -> int | None:
        """Epoch of the reads of the first product that nothing has waited for; None if there is none."""
        return next((one.epoch for one in self.flying), None)

    @property
    def count(self) -> int:
        """Number of products that some warp has issued."""
        return self.first + len(self.products)

    def wait(self, warp: int, allowed: int) -> None:
        """Complete all products but those of the last ``allowed`` groups of a warp."""
        limit = self.committed.get(warp, 0) - allowed
        while self.completed < self.count and self.products[self.completed - self.first].group < limit:
            self.completed += 1
        # Products that some warp has not issued yet are still compared with what it issues, and the last one with the
        # next.
        keep = max(self.first, min([self.completed, *self.issued.values()]) - 1)
        del self.products[: keep - self.first]
        self.first = keep


@dataclass(frozen=True, slots=True)
class ElementSteps:
    """The elements of a tensor that an operand's chunks are, of an operand that lies in one tile."""

    tile: Tile
    chunks: OperandChunks
    places: BoxPlaces

    @property
    def across(self) -> Indices:
        """The row (column of B) in the tensor of the first element of each chunk."""
        return self.places.across + self._coordinate(1 if self.chunks.along_k else 0)

    @property
    def along(self) -> Indices:
        """The k in the tensor of the first element of each chunk."""
        return self.places.along + self._start

    @property
    def first(self) -> int:
        """The k of the first chunk."""
        return int(self.places.along[0]) + self._start

    @property
    def _start(self) -> int:
        return self._coordinate(0 if self.chunks.along_k else 1)

    def _coordinate(self, dimension: int) -> int:
        return self.tile.coordinates[dimension]


def element_steps(chunks: OperandChunks, shared: SharedTiles) -> ElementSteps | None:
    """Return the elements of an operand, None if it is not from one copy by a map of two dimensions."""
    one = operand_bytes(chunks)
    tile = shared.only(one.numbers) if one.low >= 0 and one.high < shared.chunks.size * CHUNK else None
    if tile is None or tile.tensor is None or tile.tensor.rank != 2:
        return None
    return ElementSteps(tile, chunks, box_places(chunks, tile.tensor, tile.start))


def product_steps(product: Product, shared: SharedTiles) -> ProductSteps:
    """Return the elements of both operands of a product when it is issued."""
    a, b = product.operands
    return (element_steps(a, shared) if a is not None else None, element_steps(b, shared))


def step_fault(steps: ProductSteps, before: ProductSteps | None) -> tuple[str, Tile] | None:
    """Return how the descriptors of a product step through their tiles wrongly, and the tile; None if they do not.

    ``before`` are the steps of the product before it.

    In both operands the k of the tensor must run with the k of the product, and from one product to the next of the
    same two tiles both must advance by the same number of elements.
    """

    def spans() -> str:
        return " and ".join(
            f"k of {name} is {_span(one)}" for name, one in zip("AB", steps, strict=True) if one is not None
        )

    for name, one in zip("AB", steps, strict=True):
        if one is not None and not one.places.regular:
            text = f"the descriptor of {name} does not follow its tile: {_irregular(name, one)}; {spans()}"
            return text, one.tile
    a, b = steps
    if before is None or a is None or b is None:
        return None
    if before[0] is None or before[1] is None or before[0].tile is not a.tile or before[1].tile is not b.tile:
        return None
    advances = [now.first - then.first for now, then in ((a, before[0]), (b, before[1]))]
    if advances[0] == advances[1]:
        return None
    text = (
        f"the descriptors do not step along k together: {spans()}; since the product before this one A has advanced by "
    )
    return f"{text}{advances[0]} elements, B by {advances[1]}", b.tile


def _span(one: ElementSteps) -> str:
    """Return the elements along k that an operand's chunks are: ``16..31``."""
    element = one.tile.tensor.element_size if one.tile.tensor is not None else 1
    inner = CHUNK // element if one.chunks.along_k else 1
    return f"{int(one.along.min())}..{int(one.along.max()) + inner - 1}"


def _irregular(name: str, one: ElementSteps) -> str:
    """Return two chunks of an operand that are not as far apart in the tensor as in the product."""
    chunks, across, along = one.chunks, one.across, one.along
    away = (along - chunks.ks != along[0] - chunks.ks[0]) | (across - chunks.rows != across[0] - chunks.rows[0])
    what = "row" if name == "A" else "column"
    places = [
        f"{what} {chunks.rows[index]}, k {chunks.ks[index]} of the product is {what} {across[index]}, k "
        f"{along[index]} of the tensor"
        for index in (0, int(np.flatnonzero(away)[0]))
    ]
    return ", ".join(places)
