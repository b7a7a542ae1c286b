"""Forms of texture and surface instructions as the number that generated code passes to the device library."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum


class Geometry(IntEnum):
    """Geometry of a texture or surface (PTX ISA sections 9.7.10 and 9.7.11)."""

    D1 = 1
    D2 = 2
    D3 = 3
    A1 = 4
    A2 = 5
    CUBE = 6
    ACUBE = 7

    @property
    def layered(self) -> bool:
        """Whether the first coordinate is the number of a layer."""
        return self in (Geometry.A1, Geometry.A2, Geometry.ACUBE)

    @property
    def coordinates(self) -> int:
        """Number of coordinates without the layer."""
        return {Geometry.D1: 1, Geometry.A1: 1, Geometry.D2: 2, Geometry.A2: 2}.get(self, 3)


class LevelOperand(IntEnum):
    """Where the level of detail comes from: none is given, a number, or derivatives of the coordinates."""

    NONE = 0
    LEVEL = 1
    DERIVATIVES = 2


class Boundary(IntEnum):
    """What a surface access outside of the surface does."""

    TRAP = 0
    CLAMP = 1
    ZERO = 2


@dataclass(frozen=True, slots=True)
class TextureForm:
    """A ``tex`` or ``tld4`` instruction. ``gathers`` is the channel of ``tld4``, None for ``tex``."""

    geometry: Geometry
    integers: bool = False
    level: LevelOperand = LevelOperand.NONE
    gathers: int | None = None

    @property
    def bits(self) -> int:
        """The form as a number."""
        gather = 0 if self.gathers is None else self.gathers + 1
        return self.geometry | self.integers << 4 | self.level << 5 | gather << 8


@dataclass(frozen=True, slots=True)
class SurfaceForm:
    """A ``suld`` or ``sust`` instruction that accesses ``count`` elements of ``size`` bytes."""

    geometry: Geometry
    boundary: Boundary
    size: int
    count: int

    @property
    def bits(self) -> int:
        """The form as a number."""
        return self.geometry | self.boundary << 4 | self.size * self.count << 8
