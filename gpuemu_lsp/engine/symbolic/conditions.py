"""Conditions: comparisons of sizes, and what is made of them with ``&&`` and ``||``."""

from __future__ import annotations

import operator as operators
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from gpuemu_lsp.engine.symbolic.size import Size

COMPARISONS: Final[Mapping[str, Callable[[int, int], bool]]] = {
    "==": operators.eq,
    "!=": operators.ne,
    "<": operators.lt,
    "<=": operators.le,
    ">": operators.gt,
    ">=": operators.ge,
}
_OPPOSITES: Final = {"==": "!=", "!=": "==", "<": ">=", ">=": "<", ">": "<=", "<=": ">"}
SWAPPED: Final = {"==": "==", "!=": "!=", "<": ">", ">": "<", "<=": ">=", ">=": "<="}
"""The comparison that holds with the sides exchanged."""


@dataclass(frozen=True, slots=True)
class Condition:
    """A comparison ``left operator right``, a conjunction, a disjunction, or a condition whose ``value`` is known.

    A condition without any of these is one of which nothing is known.
    """

    value: bool | None = None
    operator: str = ""
    left: Size | None = None
    right: Size | None = None
    parts: tuple[Condition, ...] = ()
    """Operands of ``&&`` and ``||``."""

    @property
    def sides(self) -> tuple[Size, Size] | None:
        """The two sizes that are compared; None for a condition that is not a comparison of sizes."""
        return (self.left, self.right) if self.left is not None and self.right is not None else None


def compared(operator: str, left: Size, right: Size) -> Condition:
    """Return a comparison of two sizes, with its value if their bounds determine it."""
    bounds = (left - right).bounds
    holds = COMPARISONS[operator]
    if bounds.low == bounds.high:
        return Condition(holds(int(bounds.low), 0))
    ends = {bounds.low, bounds.high}
    if operator in ("==", "!="):
        return Condition(None, operator, left, right) if 0 in bounds else Condition(operator == "!=")
    known = {end > 0 if operator in (">", "<=") else end >= 0 for end in ends}
    if len(known) > 1:
        return Condition(None, operator, left, right)
    return Condition(known.pop() == (operator in (">", ">=")))


def all_of(conditions: Iterable[Condition]) -> Condition:
    """Return the conjunction of some conditions."""
    parts = [one for one in conditions if one.value is not True]
    if any(one.value is False for one in parts):
        return Condition(False)
    return Condition(None, "&&", parts=tuple(parts)) if len(parts) > 1 else parts[0] if parts else Condition(True)


def any_of(conditions: Iterable[Condition]) -> Condition:
    """Return the disjunction of some conditions."""
    return negated(all_of(map(negated, conditions)))


def negated(condition: Condition) -> Condition:
    """Return the negation of a condition."""
    if condition.value is not None:
        return Condition(not condition.value)
    if condition.operator in _OPPOSITES:
        return Condition(None, _OPPOSITES[condition.operator], condition.left, condition.right)
    if condition.operator in ("&&", "||"):
        return Condition(None, "&&" if condition.operator == "||" else "||", parts=tuple(map(negated, condition.parts)))
    return Condition()


def conjuncts(conditions: Iterable[Condition]) -> Iterator[Condition]:
    """Yield conditions, the operands of a conjunction one by one."""
    for condition in conditions:
        yield from conjuncts(condition.parts) if condition.operator == "&&" else (condition,)
