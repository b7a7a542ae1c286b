"""How a value differs between the lanes of a warp: not at all, by a constant step, or in any way.

A warp is run as ``parts`` native vectors of ``lanes`` lanes each. A value that is the same for all lanes, or rises by a
constant step from lane to lane, is kept as one scalar base for the warp, or as one per part.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

WARP_SIZE = 32
"""Lanes in a warp (PTX ISA section 3.1)."""


@dataclass(frozen=True, slots=True)
class VectorShape:
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
    def part_uniform(self) -> bool:
        """Whether all lanes of each part hold the same value."""
        return not (self.step or self.varying)


UNIFORM = VectorShape()
VARYING = VectorShape(varying=True)


@dataclass(frozen=True, slots=True)
class LatticeValue:
    """A shape, and how many low bits of every base are known to be zero."""

    shape: VectorShape
    zeros: int = 0


def join(first: LatticeValue | None, second: LatticeValue) -> LatticeValue:
    """Return what holds for a register that gets either value."""
    if first is None or first == second:
        return second
    a, b = first.shape, second.shape
    zeros = min(first.zeros, second.zeros)
    if a.varying or b.varying or a.step != b.step:
        return LatticeValue(VARYING)
    return LatticeValue(VectorShape(a.per_part or b.per_part, a.step), zeros)


@dataclass(frozen=True, slots=True)
class ThreadBlockShape:
    """What the block's dimensions say about ``%tid``: the form of each component, and whether all warps are full.

    Code is specialised by this, so the exact dimensions are not in it. ``lanes`` is the width of a native vector.
    """

    lanes: int
    x: LatticeValue
    y: LatticeValue
    z: LatticeValue
    full_warps: bool
    width_zeros: int

    @property
    def parts(self) -> int:
        """Native vectors to a warp."""
        return WARP_SIZE // self.lanes

    def specials(self) -> Mapping[str, LatticeValue]:
        """Return the facts about special registers (section 10); those not listed are the same for all lanes."""
        return {
            "%tid.x": self.x,
            "%tid.y": self.y,
            "%tid.z": self.z,
            "%laneid": LatticeValue(VectorShape(False, 1), 63),
            "%lanemask_eq": LatticeValue(VARYING),
            "%lanemask_le": LatticeValue(VARYING),
            "%lanemask_lt": LatticeValue(VARYING),
            "%lanemask_ge": LatticeValue(VARYING),
            "%lanemask_gt": LatticeValue(VARYING),
            "%ntid.x": LatticeValue(UNIFORM, self.width_zeros),
            "%warpid": LatticeValue(UNIFORM),
        }


def thread_block_shape(block: tuple[int, int, int], lanes: int) -> ThreadBlockShape:
    """Classify the thread indices of a block with the given dimensions."""
    facts = [LatticeValue(UNIFORM, 63)] * 3
    real = [axis for axis in range(3) if block[axis] > 1]
    below = 1
    for order, axis in enumerate(real):
        last = order == len(real) - 1
        if order == 0:
            facts[axis] = _running(block[axis], lanes, last)
        elif below % WARP_SIZE == 0:
            facts[axis] = LatticeValue(UNIFORM)
        elif below % lanes == 0:
            facts[axis] = LatticeValue(VectorShape(per_part=True))
        else:
            facts[axis] = LatticeValue(VARYING)
        below *= block[axis]
    zeros = (block[0] & -block[0]).bit_length() - 1
    return ThreadBlockShape(lanes, facts[0], facts[1], facts[2], below % WARP_SIZE == 0, min(zeros, 5))


def _running(size: int, lanes: int, only: bool) -> LatticeValue:
    """Return the form of the index that changes fastest."""
    if only or size % WARP_SIZE == 0:
        return LatticeValue(VectorShape(False, 1), 5)
    if size % lanes == 0:
        return LatticeValue(VectorShape(True, 1), lanes.bit_length() - 1)
    return LatticeValue(VARYING)
