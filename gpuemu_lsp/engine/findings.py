"""The record that every face renders: one thing that is wrong, where, and with which input.

Positions are 0-based lines and 0-based UTF-8 byte columns throughout the engine, because NVRTC, tree-sitter and PTX all
speak bytes. A face converts to what its protocol wants, at the edge, where it has the text of the line.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import TypeAlias

Json: TypeAlias = "bool | int | float | str | list[Json] | dict[str, Json] | None"


class Severity(StrEnum):
    """How bad a finding is; an ERROR makes ``--check`` exit with 1."""

    ERROR = "error"
    WARNING = "warning"
    INFORMATION = "information"
    HINT = "hint"


@dataclass(frozen=True, slots=True, order=True)
class Position:
    """A place between two characters: 0-based line, 0-based column in UTF-8 bytes."""

    line: int
    column: int


@dataclass(frozen=True, slots=True, order=True)
class Range:
    """Half-open span from ``start`` to ``end``."""

    start: Position
    end: Position

    @staticmethod
    def of(line: int, column: int, end_line: int, end_column: int) -> Range:
        """Build a range from four numbers."""
        return Range(Position(line, column), Position(end_line, end_column))


@dataclass(frozen=True, slots=True, order=True)
class Place:
    """A range in a file. ``path`` is absolute, with forward slashes."""

    path: str
    range: Range


@dataclass(frozen=True, slots=True)
class Related:
    """Another place that explains a finding: the include line, the caller, the other party of a race."""

    place: Place
    message: str


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that is wrong (or, as a hint, worth knowing).

    ``rule`` is a name of :mod:`gpuemu_lsp.engine.rules`. ``case`` is a decimal string: 64-bit seeds do not survive
    JSON numbers. ``data`` holds JSON values only: expected, actual, index, thread, block, max_error, count, ...
    """

    rule: str
    message: str
    place: Place
    severity: Severity
    kernel: str | None = None
    arch: str | None = None
    dtype: str | None = None
    case: str | None = None
    dims: Mapping[str, int] = field(default_factory=dict)
    data: Mapping[str, Json] = field(default_factory=dict)
    related: tuple[Related, ...] = ()
    fingerprint: str = ""

    def with_fingerprint(self, relative_path: str, line_text: str) -> Finding:
        """Return the finding with an identity that survives line shifts.

        It is made of what the finding says and of the text of its line, never of the line's number.
        """
        parts = (self.rule, relative_path, self.kernel or "", self.dtype or "", " ".join(line_text.split()))
        digest = hashlib.blake2b("\0".join(parts).encode(), digest_size=8).hexdigest()
        return replace(self, fingerprint=digest)
