"""The record of a finding: an error or hint, its place, and the input that causes it.

Positions are 0-based lines and 0-based UTF-8 byte columns throughout the engine, as those of NVRTC, tree-sitter and PTX
are. A front end converts them to the units of its protocol, since it has the text of the line.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import TypeAlias

from gpuemu_lsp.engine.cause import Cause, ErrorTrait

Json: TypeAlias = "bool | int | float | str | list[Json] | dict[str, Json] | None"


_RUN_RULES = ("memory/", "sync/", "numeric/")
"""Prefixes of the rules that launches of cases break."""
_OF_ANY_DTYPE = ("memory/", "sync/", "numeric/unwritten-output")
"""Prefixes of those that do not compare values: on one line they are one mistake, whatever the dtype is."""


class Severity(StrEnum):
    """Severity of a finding; an ERROR makes ``--check`` exit with 1."""

    ERROR = "error"
    WARNING = "warning"
    INFORMATION = "information"
    HINT = "hint"


@dataclass(frozen=True, slots=True, order=True)
class Position:
    """A position between two characters: 0-based line, 0-based column in UTF-8 bytes."""

    line: int
    column: int


@dataclass(frozen=True, slots=True, order=True)
class Range:
    """Half-open range from ``start`` to ``end``."""

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


@dataclass(frozen=True, slots=True, order=True)
class ModulePlace(Place):
    """A range of a Python module, on a finding about code in one of its strings; other ranges are of that code."""


class Role(StrEnum):
    """What a related place is to its finding, where something decides on it."""

    OTHER_ACCESS = "other-access"
    INCLUDE = "include"
    OP_ENTRY = "op-entry"
    OP_REFERENCE = "op-reference"
    OTHER_INSTANCE = "other-instance"


@dataclass(frozen=True, slots=True)
class Related:
    """Another place that explains a finding: an include line, a caller, the other access of a race."""

    place: Place
    message: str
    role: Role | None = None


def other_access(place: Place) -> Related:
    """Return the place of a race's second access."""
    return Related(place, "the other access", Role.OTHER_ACCESS)


@dataclass(frozen=True, slots=True)
class Finding:
    """One error, warning, information or hint.

    ``rule`` is a name of :mod:`gpuemu_lsp.engine.rules`. ``case`` is a decimal string: JSON numbers have only 53
    bits. ``data`` has JSON values only: expected, actual, index, thread, block, max_error, count, ...
    ``cause`` has what the rule leaves open and something decides on, ``traits`` what a compile error is about; no front
    end shows them. ``states_sizes``: the message says which ``dims`` it is about.
    ``consequences`` are errors that exist only because of this one, in the same case; they are not counted.
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
    consequences: tuple[Finding, ...] = ()
    cause: Cause | None = None
    traits: frozenset[ErrorTrait] = frozenset()
    states_sizes: bool = False

    @property
    def consequence_messages(self) -> tuple[str, ...]:
        """The messages of the consequences, as every format shows them under the finding."""
        return tuple(f"consequence: {one.message}" for one in self.consequences)

    @property
    def locations(self) -> tuple[Related, ...]:
        """The consequences and the related places."""
        following = zip(self.consequences, self.consequence_messages, strict=True)
        return (*(Related(one.place, message) for one, message in following), *self.related)

    @property
    def whole_message(self) -> str:
        """The message, with the consequences on lines of their own: for formats without related places."""
        return "\n".join((self.message, *self.consequence_messages))

    def replaces(self, earlier: Finding) -> bool:
        """Return whether a check that yields this after ``earlier`` says more: a simpler case, consequences, values.

        A check yields one finding of a run for each rule, severity and line, and dtype and architecture. An error also
        replaces an information.
        """
        of_run = self.case is not None and earlier.case is not None and self.rule.startswith(_RUN_RULES)
        proves = self.severity is Severity.ERROR and earlier.severity is Severity.INFORMATION
        return of_run and (proves or self.severity is earlier.severity) and self._run_key == earlier._run_key

    def repeats(self, earlier: Finding) -> bool:
        """Return whether this is the mistake of ``earlier`` in another instance of the kernel, of another dtype."""
        of_run = self.case is not None and earlier.case is not None and self.rule.startswith(_OF_ANY_DTYPE)
        others = None not in (self.dtype, earlier.dtype) and self.dtype != earlier.dtype
        severities = self.severity is earlier.severity or earlier.severity is Severity.ERROR
        return of_run and others and severities and replace(self, dtype=earlier.dtype)._run_key == earlier._run_key

    def with_instances(self, *found: Related) -> Finding:
        """Return the finding with remarks about other instances, each once."""
        return replace(self, related=tuple(dict.fromkeys((*self.related, *found)))) if found else self

    @property
    def _instances(self) -> tuple[Related, ...]:
        return tuple(one for one in self.related if one.role is Role.OTHER_INSTANCE)

    @property
    def _run_key(self) -> tuple[object, ...]:
        place = self.place.path, self.place.range.start.line
        return self.rule, self.kernel, self.dtype, self.arch, place

    def with_fingerprint(self, relative_path: str, line_text: str) -> Finding:
        """Return the finding with an identity that does not change when lines move.

        It is derived from the rule, kernel and dtype and the text of the line, not from the line's number.
        """
        parts = (self.rule, relative_path, self.kernel or "", self.dtype or "", " ".join(line_text.split()))
        digest = hashlib.blake2b("\0".join(parts).encode(), digest_size=8).hexdigest()
        return replace(self, fingerprint=digest)


def collect(findings: list[Finding], finding: Finding) -> Finding:
    """Add a finding to those of a check, in place of the one that it replaces; return what is kept.

    A mistake that is found in a second instance of a kernel is a remark on the first finding.
    """
    for position, earlier in enumerate(findings):
        if finding.replaces(earlier):
            kept = finding.with_instances(*earlier._instances)
        elif finding.repeats(earlier):
            kept = earlier.with_instances(Related(earlier.place, f"also as {finding.dtype}", Role.OTHER_INSTANCE))
        else:
            continue
        findings[position] = kept
        return kept
    findings.append(finding)
    return finding
