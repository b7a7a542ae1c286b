"""Memory transactions of a warp's accesses: sectors of global memory, passes over the banks of shared memory.

A request is one access of a warp. All functions take an array of addresses and one of active lanes, both of shape
``(requests, 32)``, and return one number per request. Accesses are aligned to their size, a power of two up to 16.
"""

from __future__ import annotations

from typing import Final, TypeAlias

import numpy as np
import numpy.typing as npt

Numbers: TypeAlias = npt.NDArray[np.int64]
Flags: TypeAlias = npt.NDArray[np.bool_]

SECTOR: Final = 32
"""Bytes of a sector, the smallest unit of a transfer from global memory."""
BANKS: Final = 32
"""Banks of shared memory; each delivers one word of 4 bytes per pass."""
_WORD = 4
_PASS_BYTES = BANKS * _WORD
_NONE = -1


def sectors(addresses: Numbers, active: Flags) -> Numbers:
    """Return the number of sectors that contain the accesses of the active lanes."""
    return _count(_sorted(addresses // SECTOR, active))


def least_sectors(addresses: Numbers, active: Flags, sizes: Numbers) -> Numbers:
    """Return the number of sectors if the distinct addresses of each request were consecutive (fully coalesced).

    ``sizes`` has the bytes per lane of each request.
    """
    requested: Numbers = _count(_sorted(addresses, active)) * sizes
    return (requested + SECTOR - 1) // SECTOR


def passes(addresses: Numbers, active: Flags, size: int) -> tuple[Numbers, Numbers]:
    """Return the passes over the banks, and the number without bank conflicts, for ``size`` bytes per lane.

    Lanes that access the same word share it (broadcast). Accesses of 8 or 16 bytes per lane are served in two or four
    parts of the warp, of at most 128 bytes each.
    """
    count = len(addresses)
    together = min(addresses.shape[1], _PASS_BYTES // size)
    # Each lane's words, then one row per part of the warp: a pass serves any set of words with at most one per bank, so
    # that a part takes as many passes as its fullest bank has different words.
    words = addresses[:, :, None] // _WORD + np.arange(max(size // _WORD, 1))
    wanted = np.broadcast_to(active[:, :, None], words.shape)
    parts = addresses.shape[1] // together
    ordered = _sorted(words.reshape(count * parts, -1), wanted.reshape(count * parts, -1))
    rows, columns = np.nonzero(_fresh(ordered))
    banks = ordered[rows, columns] % BANKS
    depth = np.bincount(rows * BANKS + banks, minlength=count * parts * BANKS).reshape(count, parts, BANKS).max(axis=2)
    return depth.sum(axis=1), (depth > 0).sum(axis=1)


def _sorted(values: Numbers, active: Flags) -> Numbers:
    """Sort each row; inactive lanes come first, as ``_NONE``."""
    return np.sort(np.where(active, values, _NONE), axis=1)


def _count(ordered: Numbers) -> Numbers:
    """Return the number of different values in each sorted row."""
    counts: Numbers = _fresh(ordered).sum(axis=1)
    return counts


def _fresh(ordered: Numbers) -> Flags:
    """Return, for each value of a sorted row, whether it differs from the one before."""
    first: Flags = ordered != _NONE
    first[:, 1:] &= ordered[:, 1:] != ordered[:, :-1]
    return first
