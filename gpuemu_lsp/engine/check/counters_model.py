"""What a kernel did in one case, in numbers, by line of its source."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class LineTraffic:
    """The requests of a line to one space: ``kind`` is load, store, copy or atomic. A request is that of a warp.

    ``bytes`` is what lanes asked for; ``units`` the sectors (global) or passes over the banks (shared) that took,
    ``least`` the fewest that could have held the same bytes.
    """

    space: str
    kind: str
    requests: int
    bytes: int
    units: int
    least: int


@dataclass(frozen=True, slots=True)
class LineCounters:
    """A 0-based line: instructions of a warp, the lanes that ran them, and what went to memory."""

    path: str
    line: int
    instructions: int
    lanes: int
    traffic: tuple[LineTraffic, ...] = ()


@dataclass(frozen=True, slots=True)
class KernelCounters:
    """One case of one dtype: the largest that was clean.

    ``bytes`` is what global memory moves, in whole sectors and without caches; ``touched`` what it would move with
    perfect ones. ``operations`` are floating-point additions and multiplications, a fused one two.
    """

    dtype: str
    case: str
    dims: Mapping[str, int] = field(default_factory=dict)
    instructions: int = 0
    lanes: int = 0
    operations: int = 0
    bytes: int = 0
    touched: int = 0
    lines: tuple[LineCounters, ...] = ()

    @property
    def intensity(self) -> float | None:
        """Operations per byte moved; None where nothing is moved."""
        return self.operations / self.bytes if self.bytes else None
