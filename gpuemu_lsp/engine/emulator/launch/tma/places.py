"""The bytes that a copy reads or writes, in the order of its elements: a pattern of offsets from a base address.

Copies of one launch have few patterns, which are analysed once: pieces of 16 bytes are moved as a whole.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

Indices: TypeAlias = npt.NDArray[np.int64]
"""Offsets or addresses of bytes: one-dimensional."""
Bytes: TypeAlias = npt.NDArray[np.uint8]
"""Values of bytes: one-dimensional."""

Memory: TypeAlias = Callable[[int, int], Bytes]
"""Returns a view of some bytes from an address on."""

_PIECE = np.complex128
"""16 bytes that NumPy moves at once, whatever they are."""


@dataclass(frozen=True, slots=True, eq=False)
class Pattern:
    """Offsets of bytes, the lowest of them, and the number of bytes from there to the highest.

    ``pieces`` are the numbers of the pieces of 16 bytes, counted from the lowest on, None if bytes are not in pieces.
    """

    offsets: Indices
    low: int
    extent: int
    pieces: Indices | None

    @property
    def dense(self) -> bool:
        """Whether the bytes are a permutation of adjacent ones."""
        return self.extent == self.offsets.size


def made_pattern(offsets: Indices) -> Pattern:
    """Return the pattern of some offsets."""
    if not offsets.size:
        return Pattern(offsets, 0, 0, None)
    low = int(offsets.min())
    extent = int(offsets.max()) - low + 1
    first = offsets[::16]
    # The bytes of a piece follow one another if the last does the first: rows of boxes are multiples of 16 bytes.
    in_pieces = offsets.size % 16 == 0 and not (first - low & 15).any() and not (offsets[15::16] - first != 15).any()
    return Pattern(offsets, low, extent, (first - low) // 16 if in_pieces else None)


@lru_cache(maxsize=256)
def line(start: int, count: int) -> Pattern:
    """Return the pattern of adjacent bytes from an offset on."""
    return made_pattern(start + np.arange(count, dtype=np.int64))


class Places(NamedTuple):
    """The bytes of a pattern from an address on; ``inside`` says which of them are in the tensor.

    It has the shape (bytes,), and is None if all are.
    """

    base: int
    pattern: Pattern
    inside: npt.NDArray[np.bool_] | None = None

    @property
    def addresses(self) -> Indices:
        """The addresses of all bytes, -1 outside of the tensor."""
        found = self.base + self.pattern.offsets
        return found if self.inside is None else np.where(self.inside, found, -1)

    @property
    def within(self) -> Places:
        """The bytes in the tensor only."""
        if self.inside is None:
            return self
        return Places(self.base, made_pattern(self.pattern.offsets[self.inside]))


def gathered(memory: Memory, places: Places) -> Bytes:
    """Return the bytes of places, all of which are in memory."""
    pattern = places.pattern
    view = memory(places.base + pattern.low, pattern.extent)
    if pattern.pieces is None:
        return view[pattern.offsets - pattern.low]
    found: Bytes = view.view(_PIECE)[pattern.pieces].view(np.uint8)
    return found


def scatter(memory: Memory, places: Places, values: Bytes) -> None:
    """Write the bytes of places, all of which are in memory."""
    pattern = places.pattern
    view = memory(places.base + pattern.low, pattern.extent)
    if pattern.pieces is None:
        view[pattern.offsets - pattern.low] = values
    else:
        view.view(_PIECE)[pattern.pieces] = values.view(_PIECE)


def fill(memory: Memory, places: Places, value: int) -> None:
    """Write one value to the bytes of places, all of which are in memory."""
    pattern = places.pattern
    # Most tiles are a permutation of adjacent bytes.
    target = slice(None) if pattern.dense else pattern.offsets - pattern.low
    memory(places.base + pattern.low, pattern.extent)[target] = value
