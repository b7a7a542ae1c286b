"""What was measured of one compiled kernel, before anyone words it."""

from __future__ import annotations

from dataclasses import dataclass, field

from gpuemu_lsp.engine.findings import Json, Place
from gpuemu_lsp.engine.lint.pattern_search import PatternMatch


@dataclass(frozen=True, slots=True)
class LimitCheck:
    """A resource, its measured value and its limit (None when nobody set one). ``parts`` explain a sum."""

    rule: str
    key: str
    title: str
    unit: str
    value: int
    limit: int | None
    parts: dict[str, Json] = field(default_factory=dict)

    @property
    def ok(self) -> bool:
        """Whether the value keeps the limit."""
        return self.limit is None or self.value <= self.limit


@dataclass(frozen=True, slots=True)
class PatternCheck:
    """A pattern, and where one instance of a kernel meets it. ``index`` is its place in its list in gpuemu.toml.

    An artifact holds all instances of a kernel, often one per dtype. ``elsewhere`` are the others that meet the pattern
    too; ``known`` the places where those before this one do, ``first`` says that there are none before. ``decided`` is
    False when its absence cannot be seen in PTX.
    """

    pattern: str
    required: bool
    index: int
    hits: tuple[PatternMatch, ...]
    elsewhere: tuple[str, ...]
    known: frozenset[Place | None]
    first: bool
    decided: bool

    @property
    def ok(self) -> bool:
        """Whether a required pattern is in some instance of the kernel, or a forbidden one is not in this one."""
        return bool(self.hits or self.elsewhere) if self.required else not self.hits


@dataclass(frozen=True, slots=True)
class Inspection:
    """What was measured of one kernel.

    ``name`` is the expression it was compiled for, ``place`` its name in the source. ``unchecked`` are the reasons why
    a part of the configured checks could not be made.
    """

    kernel: str
    name: str
    place: Place
    limits: tuple[LimitCheck, ...]
    patterns: tuple[PatternCheck, ...]
    configured: bool
    unchecked: tuple[str, ...] = ()
