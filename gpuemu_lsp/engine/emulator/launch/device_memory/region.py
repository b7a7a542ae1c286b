"""A named range of memory in the arena."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Region:
    """An allocation in the arena; sizes in bytes. ``kind`` is buffer, variable, shared, local, stack or param."""

    name: str
    kind: str
    address: int
    size: int
    element_size: int = 1
