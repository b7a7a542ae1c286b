"""Which accesses to shared memory of two threads can come to one place, where addresses follow from the thread."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
import numpy.typing as npt

from gpuemu_lsp.engine.emulator.analysis.thread_affine import PerThreadValues
from gpuemu_lsp.engine.emulator.ir.accesses import MemoryAccess

_LIMIT = 1 << 18
"""Bytes of shared memory: more than any GPU has."""

_MOST = 1 << 20
"""Places that are looked at; for more it would take too long."""

_Places = tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]
"""Threads, and the place each of them touches."""


def conflicting_accesses(group: Iterable[MemoryAccess], threads: PerThreadValues) -> frozenset[tuple[int, bool]]:
    """Return, by key, the accesses of a group to places that two threads may touch, at least one of them writing."""
    live = [access for access in group if threads.reaching(access.block, access.instruction.guard).any()]
    grain = 4 if all(access.size % 4 == 0 for access in live) else 1
    found: list[tuple[MemoryAccess, _Places]] = []
    left = _MOST
    for access in live:
        places = _places(access, threads, grain) if left > 0 else None
        if places is None:
            return frozenset(one.key for one in live)
        found.append((access, places))
        left -= len(places[0])
    everybody = _Users([places for _, places in found])
    writers = _Users([places for access, places in found if access.is_write])
    return frozenset(
        access.key for access, places in found if (everybody if access.is_write else writers).any_but(*places)
    )


def _places(access: MemoryAccess, threads: PerThreadValues, grain: int) -> _Places | None:
    """Return what each thread that may come here touches. What lies outside is refused, and not done at all."""
    address = threads.address(access.address) if access.space == "shared" else None
    if address is None:
        return None
    inside = (address >= 0) & (address + access.size <= _LIMIT)
    who = np.flatnonzero(inside & threads.reaching(access.block, access.instruction.guard))
    count = max(access.size // grain, 1)
    where = (address[who] // grain)[:, None] + np.arange(count)
    return np.repeat(who, count), where.reshape(-1)


class _Users:
    """The first and the last thread that touches each place."""

    def __init__(self, touched: Sequence[_Places]) -> None:
        size = max((int(where.max()) + 1 for _, where in touched if len(where)), default=0)
        self._first, self._last = np.full(size, _LIMIT), np.full(size, -1)
        for who, where in touched:
            np.minimum.at(self._first, where, who)
            np.maximum.at(self._last, where, who)

    def any_but(self, who: npt.NDArray[np.int64], where: npt.NDArray[np.int64]) -> bool:
        """Whether another thread touches one of these places, too."""
        seen = where < len(self._first)
        who, where = who[seen], where[seen]
        return bool(((self._first[where] < who) | (self._last[where] > who)).any())
