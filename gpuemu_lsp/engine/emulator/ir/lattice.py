"""The divergence lattice: values that are uniform, affine or varying over the lanes of a warp.

::

                 varying                 one native vector per part
                    |
      affine, one base per part          lane i of a part holds base[part] + i * step
                    |
      affine, one base per warp          lane i of the warp holds base + i * step
                    |
                 uniform                 the affine value with step 0

A warp of 32 lanes is executed as ``parts`` native vectors of ``lanes`` lanes each ("parts" as in LLVM's loop
vectoriser). A uniform or affine value needs no vector: generated code keeps its scalar base, one for the warp or one
per part, and derives from the shape which loads are contiguous and which branches cannot diverge.

Affine shapes with a constant stride are those of Coutinho, Sampaio, Pereira and Meira ("Divergence analysis and
optimizations", PACT 2011) and of the Region Vectorizer (Moll and Hack, "Partial control-flow linearization", PLDI
2018), whose name ``VectorShape`` is kept. As there, a lattice value also has an alignment: the low bits of the base
that are known to be zero decide whether ``and``, ``shr`` and comparisons act alike on all lanes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache

WARP_SIZE = 32
"""Lanes in a warp (PTX ISA section 3.1)."""


@dataclass(frozen=True, slots=True)
class VectorShape:
    """The shape of a register's value over the lanes of a warp.

    ``varying``: a native vector per part. Otherwise lane i holds ``base + i * step``, with one base for the warp, or,
    with ``per_part``, one base for each part and i counted inside the part.
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
    """A shape, and the number of low bits that are known to be zero in every base."""

    shape: VectorShape
    zeros: int = 0


def join(first: LatticeValue | None, second: LatticeValue) -> LatticeValue:
    """Return the least upper bound of two values; None is the bottom of the lattice, "not evaluated yet"."""
    if first is None or first == second:
        return second
    a, b = first.shape, second.shape
    zeros = min(first.zeros, second.zeros)
    # Lanes that hold values of different strides do not lie on one line.
    if a.varying or b.varying or a.step != b.step:
        return LatticeValue(VARYING)
    return LatticeValue(VectorShape(a.per_part or b.per_part, a.step), zeros)


@dataclass(frozen=True, slots=True)
class ThreadBlockShape:
    """Shapes of ``%tid.x``, ``%tid.y`` and ``%tid.z`` in blocks of some dimensions; ``lanes`` per native vector.

    ``full_warps``: the block size is a multiple of 32. ``width_zeros``: trailing zero bits of ``%ntid.x``, at most 5.
    Code is specialised by this value and not by the dimensions, so that blocks of 128 and 256 threads share one
    version.
    """

    lanes: int
    x: LatticeValue
    y: LatticeValue
    z: LatticeValue
    full_warps: bool
    width_zeros: int

    @property
    def parts(self) -> int:
        """Native vectors per warp."""
        return WARP_SIZE // self.lanes

    def specials(self) -> Mapping[str, LatticeValue]:
        """Return the values of special registers (PTX ISA section 10); those that are missing are uniform."""
        return {
            "%tid.x": self.x,
            "%tid.y": self.y,
            "%tid.z": self.z,
            # Lane 0 has %laneid 0: all bits of the base are zero.
            "%laneid": LatticeValue(VectorShape(False, 1), 63),
            "%lanemask_eq": LatticeValue(VARYING),
            "%lanemask_le": LatticeValue(VARYING),
            "%lanemask_lt": LatticeValue(VARYING),
            "%lanemask_ge": LatticeValue(VARYING),
            "%lanemask_gt": LatticeValue(VARYING),
            "%ntid.x": LatticeValue(UNIFORM, self.width_zeros),
            "%warpid": LatticeValue(UNIFORM),
        }


@lru_cache(maxsize=256)
def thread_block_shape(block: tuple[int, int, int], lanes: int) -> ThreadBlockShape:
    """Classify the thread indices of a block with dimensions ``block``, in native vectors of ``lanes`` lanes."""
    values = [LatticeValue(UNIFORM, 63)] * 3
    # Dimensions of size 1 have index 0 everywhere, and do not count for the linear thread index (section 10: x is the
    # fastest, then y, then z; warps are 32 consecutive linear indices).
    extended = [axis for axis in range(3) if block[axis] > 1]
    stride = 1
    for order, axis in enumerate(extended):
        last = order == len(extended) - 1
        if order == 0:
            values[axis] = _fastest_index(block[axis], lanes, last)
        elif stride % WARP_SIZE == 0:
            values[axis] = LatticeValue(UNIFORM)
        elif stride % lanes == 0:
            values[axis] = LatticeValue(VectorShape(per_part=True))
        else:
            values[axis] = LatticeValue(VARYING)
        stride *= block[axis]
    zeros = (block[0] & -block[0]).bit_length() - 1
    return ThreadBlockShape(lanes, values[0], values[1], values[2], stride % WARP_SIZE == 0, min(zeros, 5))


def _fastest_index(size: int, lanes: int, only: bool) -> LatticeValue:
    """Return the value of the fastest index, of ``size``; ``only`` if all other dimensions are 1."""
    if only or size % WARP_SIZE == 0:
        # The index of a warp's first lane is a multiple of 32: five zero bits.
        return LatticeValue(VectorShape(False, 1), 5)
    if size % lanes == 0:
        return LatticeValue(VectorShape(True, 1), lanes.bit_length() - 1)
    # The index wraps around inside a native vector.
    return LatticeValue(VARYING)
