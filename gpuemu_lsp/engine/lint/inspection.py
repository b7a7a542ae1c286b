"""Measurements of one compiled kernel, common to findings and report."""

from __future__ import annotations

from dataclasses import dataclass, field

from gpuemu_lsp.engine.findings import Json, Place
from gpuemu_lsp.engine.lint.pattern_search import PatternMatch


@dataclass(frozen=True, slots=True)
class LimitCheck:
    """A resource with its measured value and limit (None if not configured), in ``unit`` (bytes, registers, ...).

    ``parts`` are its summands.
    """

    rule: str
    key: str
    title: str
    unit: str
    value: int
    limit: int | None
    parts: dict[str, Json] = field(default_factory=dict)

    @property
    def ok(self) -> bool:
        """Whether the value does not exceed the limit."""
        return self.limit is None or self.value <= self.limit


@dataclass(frozen=True, slots=True)
class PatternCheck:
    """A pattern and its matches in one instance of a kernel; ``index`` is its position in the list in gpuemu.toml.

    An artifact has all instances of a kernel, often one per dtype. ``elsewhere`` are the other instances with matches,
    ``known`` the places of matches in instances before this one, ``first`` is True for the first instance. ``decided``
    is False where PTX cannot show the absence of the pattern.
    """

    pattern: str
    required: bool
    index: int
    matches: tuple[PatternMatch, ...]
    elsewhere: tuple[str, ...]
    known: frozenset[Place | None]
    first: bool
    decided: bool

    @property
    def ok(self) -> bool:
        """Whether a required pattern is in any instance of the kernel, or a forbidden one not in this instance."""
        return bool(self.matches or self.elsewhere) if self.required else not self.matches


@dataclass(frozen=True, slots=True)
class Inspection:
    """All measurements of one kernel.

    ``name`` is its name expression, ``place`` its name token in the source. ``unchecked`` are the reasons for which a
    part of the configured checks could not be made.
    """

    kernel: str
    name: str
    place: Place
    limits: tuple[LimitCheck, ...]
    patterns: tuple[PatternCheck, ...]
    configured: bool
    unchecked: tuple[str, ...] = ()
