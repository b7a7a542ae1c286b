"""Clocks, what is released through a location, and what the threads of a block have acquired."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

Clock: TypeAlias = Mapping[int, int]
"""By thread number, or by the complement of a block's number: the first epoch whose accesses are not ordered."""


def join(clock: dict[int, int], other: Clock) -> None:
    """Raise each entry of a clock to that of another one."""
    for key, epoch in other.items():
        if clock.get(key, 0) < epoch:
            clock[key] = epoch


def joined(one: Clock, other: Clock) -> dict[int, int]:
    """Return a clock with the later epoch of each entry."""
    result = dict(one)
    join(result, other)
    return result


@dataclass(frozen=True, slots=True)
class Released:
    """Clocks released through a location: to all blocks, and to the threads of one block."""

    all: Clock = field(default_factory=dict)
    by_block: Mapping[int, Clock] = field(default_factory=dict)
    _joined: dict[int, Clock] = field(default_factory=dict)

    def clock(self, block: int, *, everything: bool) -> Clock:
        """Return what a block's threads acquire: one object for all of them. ``everything``: also what is for all."""
        own = self.by_block.get(block, {})
        if not everything or not own:
            return self.all if everything else own
        if block not in self._joined:
            self._joined[block] = joined(self.all, own)
        return self._joined[block]


@dataclass(slots=True)
class BlockClocks:
    """Acquired clocks of one block: of all its threads, of single threads and of warps, with the epochs of the last.

    A thousand threads that arrive at an ``mbarrier`` ask a thousand times: no question looks at all threads.
    """

    all: dict[int, int] = field(default_factory=dict)
    by_thread: dict[int, tuple[int, Clock]] = field(default_factory=dict)
    of_warps: dict[int, tuple[int, Clock]] = field(default_factory=dict)
    """What all lanes of a warp have acquired together."""
    changes: int = 0
    """How often ``all`` has changed."""
    changes_of_warps: dict[int, int] = field(default_factory=dict)
    """How often a warp, or a thread of it, has acquired something."""
    _by_warp: dict[int, dict[int, None]] = field(default_factory=dict)
    _oldest: float = math.inf

    def acquire(self, thread: int, epoch: int, clock: Clock) -> None:
        """Replace the clock of a thread."""
        self.by_thread[thread] = (epoch, clock)
        self._by_warp.setdefault(thread >> 5, {})[thread] = None
        self.changes_of_warps[thread >> 5] = self.changes_of_warps.get(thread >> 5, 0) + 1
        self._oldest = min(self._oldest, epoch)

    def acquire_together(self, warp: int, epoch: int, clock: Clock) -> None:
        """Add to the clock of a warp."""
        known = self.of_warps.get(warp)
        self.changes_of_warps[warp] = self.changes_of_warps.get(warp, 0) + 1
        self.of_warps[warp] = (epoch, clock if known is None or known[1] is clock else joined(known[1], clock))
        self._oldest = min(self._oldest, epoch)

    def known_to(self, thread: int) -> list[Clock]:
        """Return what a thread has acquired, itself or with its warp; not through other threads."""
        found = [self.by_thread.get(thread), self.of_warps.get(thread >> 5)]
        return [one[1] for one in found if one is not None]

    def of_warp(self, thread: int) -> Iterable[tuple[int, int, Clock]]:
        """Yield the threads of a thread's warp that have acquired something, with epoch and clock."""
        for one in self._by_warp.get(thread >> 5, ()):
            yield one, *self.by_thread[one]

    def spread(self, barrier: int) -> None:
        """Give all threads of the block what single threads acquired before its last barrier."""
        if self._oldest >= barrier:
            return
        self._oldest = math.inf
        self.changes += 1
        last: Clock | None = None
        for thread, (epoch, clock) in list(self.by_thread.items()):
            if epoch >= barrier:
                self._oldest = min(self._oldest, epoch)
                continue
            # Threads that acquired the same release share one clock object.
            if clock is not last:
                join(self.all, clock)
            last = clock
            del self.by_thread[thread], self._by_warp[thread >> 5][thread]
        for warp, (epoch, clock) in list(self.of_warps.items()):
            if epoch >= barrier:
                self._oldest = min(self._oldest, epoch)
                continue
            join(self.all, clock)
            del self.of_warps[warp]
