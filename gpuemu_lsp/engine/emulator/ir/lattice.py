"""How a value differs between the lanes of a warp: not at all, by a constant step, or in any way.

A warp is run as ``parts`` native vectors of ``lanes`` lanes each. A value that is the same for all lanes, or rises by a
constant step from lane to lane, is kept as one scalar base for the warp, or as one per part.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

WARP = 32
"""Lanes in a warp (PTX ISA section 3.1)."""


@dataclass(frozen=True, slots=True)
class Shape:
    """The form of a register's value.

    ``varying``: a vector per part. Otherwise lane i holds ``base + i * step``, with one base for the warp, or, with
    ``per_part``, one for each part and i counted inside the part.
    """

    per_part: bool = False
    step: int = 0
    varying: bool = False

    @property
    def uniform(self) -> bool:
        """Whether all lanes of the warp hold the same value."""
        return not (self.per_part or self.step or self.varying)

    @property
    def flat(self) -> bool:
        """Whether all lanes of each part hold the same value."""
        return not (self.step or self.varying)


UNIFORM = Shape()
VARYING = Shape(varying=True)


@dataclass(frozen=True, slots=True)
class Fact:
    """A shape, and how many low bits of every base are known to be zero."""

    shape: Shape
    zeros: int = 0


def join(first: Fact | None, second: Fact) -> Fact:
    """Return what holds for a register that gets either value."""
    if first is None or first == second:
        return second
    a, b = first.shape, second.shape
    zeros = min(first.zeros, second.zeros)
    if a.varying or b.varying or a.step != b.step:
        return Fact(VARYING)
    return Fact(Shape(a.per_part or b.per_part, a.step), zeros)


@dataclass(frozen=True, slots=True)
class BlockShape:
    """What the block's dimensions say about ``%tid``: the form of each component, and whether all warps are full.

    Code is specialised by this, so the exact dimensions are not in it. ``lanes`` is the width of a native vector.
    """

    lanes: int
    x: Fact
    y: Fact
    z: Fact
    full_warps: bool
    width_zeros: int

    @property
    def parts(self) -> int:
        """Native vectors to a warp."""
        return WARP // self.lanes

    def specials(self) -> Mapping[str, Fact]:
        """Return the facts about special registers (section 10); those not listed are the same for all lanes."""
        return {
            "%tid.x": self.x,
            "%tid.y": self.y,
            "%tid.z": self.z,
            "%laneid": Fact(Shape(False, 1), 63),
            "%lanemask_eq": Fact(VARYING),
            "%lanemask_le": Fact(VARYING),
            "%lanemask_lt": Fact(VARYING),
            "%lanemask_ge": Fact(VARYING),
            "%lanemask_gt": Fact(VARYING),
            "%ntid.x": Fact(UNIFORM, self.width_zeros),
            "%warpid": Fact(UNIFORM),
        }


def block_shape(block: tuple[int, int, int], lanes: int) -> BlockShape:
    """Classify the thread indices of a block with the given dimensions."""
    facts = [Fact(UNIFORM, 63)] * 3
    real = [axis for axis in range(3) if block[axis] > 1]
    below = 1
    for order, axis in enumerate(real):
        last = order == len(real) - 1
        if order == 0:
            facts[axis] = _running(block[axis], lanes, last)
        elif below % WARP == 0:
            facts[axis] = Fact(UNIFORM)
        elif below % lanes == 0:
            facts[axis] = Fact(Shape(per_part=True))
        else:
            facts[axis] = Fact(VARYING)
        below *= block[axis]
    zeros = (block[0] & -block[0]).bit_length() - 1
    return BlockShape(lanes, facts[0], facts[1], facts[2], below % WARP == 0, min(zeros, 5))


def _running(size: int, lanes: int, only: bool) -> Fact:
    """Return the form of the index that changes fastest."""
    if only or size % WARP == 0:
        return Fact(Shape(False, 1), 5)
    if size % lanes == 0:
        return Fact(Shape(True, 1), lanes.bit_length() - 1)
    return Fact(VARYING)
