"""What the accesses of a warp cost memory: sectors of global memory, passes over the banks of shared memory.

All functions take one row of 32 addresses per request, and which of its lanes act. Accesses are aligned to their size,
which is a power of two up to 16.
"""

from __future__ import annotations

from typing import Final, TypeAlias

import numpy as np
import numpy.typing as npt

Numbers: TypeAlias = npt.NDArray[np.int64]
Flags: TypeAlias = npt.NDArray[np.bool_]

SECTOR: Final = 32
"""Bytes that global memory moves at once."""
BANKS: Final = 32
"""Shared memory gives each bank's word, of 4 bytes, once per pass."""
_WORD = 4
_PASS_BYTES = BANKS * _WORD
_NONE = -1


def sectors(addresses: Numbers, active: Flags) -> Numbers:
    """Return, per request, how many sectors hold what the active lanes ask for."""
    return _count(_sorted(addresses // SECTOR, active))


def least_sectors(addresses: Numbers, active: Flags, sizes: Numbers) -> Numbers:
    """Return, per request, how many sectors would do if the distinct places it asks for lay side by side."""
    asked: Numbers = _count(_sorted(addresses, active)) * sizes
    return (asked + SECTOR - 1) // SECTOR


def passes(addresses: Numbers, active: Flags, size: int) -> tuple[Numbers, Numbers]:
    """Return, per request of ``size`` bytes a lane, the passes over the banks, and the fewest that would do.

    Lanes that want the same word share it. A request of 8 or 16 bytes a lane is served by halves or quarters of the
    warp, 128 bytes at most at a time.
    """
    count = len(addresses)
    together = min(addresses.shape[1], _PASS_BYTES // size)
    words = addresses[:, :, None] // _WORD + np.arange(max(size // _WORD, 1))
    wanted = np.broadcast_to(active[:, :, None], words.shape)
    parts = addresses.shape[1] // together
    ordered = _sorted(words.reshape(count * parts, -1), wanted.reshape(count * parts, -1))
    rows, columns = np.nonzero(_fresh(ordered))
    banks = ordered[rows, columns] % BANKS
    depth = np.bincount(rows * BANKS + banks, minlength=count * parts * BANKS).reshape(count, parts, BANKS).max(axis=2)
    return depth.sum(axis=1), (depth > 0).sum(axis=1)


def _sorted(values: Numbers, active: Flags) -> Numbers:
    """Sort each row; what belongs to lanes that do not act comes first, as ``_NONE``."""
    return np.sort(np.where(active, values, _NONE), axis=1)


def _count(ordered: Numbers) -> Numbers:
    """Return how many different values each sorted row has."""
    counts: Numbers = _fresh(ordered).sum(axis=1)
    return counts


def _fresh(ordered: Numbers) -> Flags:
    """Return which values of each sorted row are the first of their kind."""
    first: Flags = ordered != _NONE
    first[:, 1:] &= ordered[:, 1:] != ordered[:, :-1]
    return first
