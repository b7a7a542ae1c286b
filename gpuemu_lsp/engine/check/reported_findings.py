"""The findings of one plan that were reported: each once per rule, severity and line, and again when more is known."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import TypeAlias

from gpuemu_lsp.engine.findings import Finding, Severity

Order: TypeAlias = Callable[[Finding], tuple[bool, int]]
"""Orders findings of one error by the simplicity of their cases, as the store replays them."""
_Key: TypeAlias = tuple[str, Severity, str, int]


@dataclass(slots=True)
class ReportedFindings:
    """What was reported so far. ``merged`` is True once a finding was left out because another one is on its line."""

    merged: bool = False
    _by_key: dict[_Key, Finding] = field(default_factory=dict)

    @property
    def rules(self) -> frozenset[tuple[str, Severity]]:
        """The rules of all findings reported so far, with their severities."""
        return frozenset((rule, severity) for rule, severity, *_ in self._by_key)

    def add(self, finding: Finding, order: Order) -> Finding | None:
        """Return what is to be reported of a finding: it, with what an earlier one of the same error shows, or None.

        With guessed sizes one case may only hint at what another proves: then the hint is left out. So is an error that
        stands under another one already, and has that one as a consequence: at other sizes one mistake may show in
        another order.
        """
        key = _key(finding)
        proven = _key(replace(finding, severity=Severity.ERROR)) in self._by_key
        if finding.severity is Severity.INFORMATION and proven:
            return None
        if any(_follows(finding, other) and _follows(other, finding) for other in self._by_key.values()):
            return None
        earlier = self._by_key.get(key)
        shown = finding if earlier is None else _simpler(earlier, finding, order)
        self.merged = self.merged or (earlier is not None and earlier.place != finding.place)
        if shown is earlier:
            return None
        self._by_key[key] = shown
        return shown

    def update(self, finding: Finding) -> None:
        """Replace a finding by one that says more of the same."""
        self._by_key[_key(finding)] = finding


def _key(finding: Finding) -> _Key:
    return finding.rule, finding.severity, finding.place.path, finding.place.range.start.line


def _follows(finding: Finding, other: Finding) -> bool:
    """Return whether an error of this line and rule is a consequence of another one."""
    return _key(finding) in map(_key, other.consequences)


def _simpler(first: Finding, second: Finding, order: Order) -> Finding:
    """Return of two findings of one error that of the simpler case, the first of equal ones.

    What follows from the error may show in the other case only.
    """
    simple, other = sorted((first, second), key=order)
    if simple.consequences or not other.consequences:
        return simple
    return replace(simple, consequences=other.consequences)
