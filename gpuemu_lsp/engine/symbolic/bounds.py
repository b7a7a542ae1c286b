"""Operations on integers, and on the least and largest values of integers."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

_Limit: TypeAlias = int | float
"""An integer, or an infinity."""


@dataclass(frozen=True, slots=True)
class Bounds:
    """The values from ``low`` to ``high``, both included; infinities where there is no limit."""

    low: _Limit = -math.inf
    high: _Limit = math.inf

    @property
    def empty(self) -> bool:
        """Whether there is no such value."""
        return self.low > self.high

    def __contains__(self, value: int) -> bool:
        """Return whether a value lies between the bounds."""
        return self.low <= value <= self.high

    def __and__(self, other: Bounds) -> Bounds:
        """Return the values that are in both."""
        return Bounds(max(self.low, other.low), min(self.high, other.high))

    def __neg__(self) -> Bounds:
        """Return the bounds of the negative."""
        return Bounds(-self.high, -self.low)

    def __add__(self, other: Bounds) -> Bounds:
        """Return the bounds of the sum."""
        return Bounds(_sum(self.low, other.low), _sum(self.high, other.high))

    def __sub__(self, other: Bounds) -> Bounds:
        """Return the bounds of the difference."""
        return self + -other

    def __mul__(self, other: Bounds) -> Bounds:
        """Return the bounds of the product of two integers that may be independent."""
        ends = [_product(one, two) for one in (self.low, self.high) for two in (other.low, other.high)]
        return Bounds(min(ends), max(ends))

    def power(self, exponent: int) -> Bounds:
        """Return the bounds of a power with a positive exponent."""
        result = self
        for _ in range(exponent - 1):
            result = result * self
        return result & Bounds(0) if exponent % 2 == 0 else result

    def __floordiv__(self, other: Bounds) -> Bounds:
        """Return the bounds of the quotient, rounded down."""
        if other.high < 0:
            return -self // -other
        if other.low <= 0:
            return Bounds()
        ends = [_quotient(one, two) for one in (self.low, self.high) for two in (other.low, other.high)]
        return Bounds(min(ends), max(ends))

    def remainder(self, other: Bounds, truncates: bool) -> Bounds:
        """Return the bounds of the remainder, which has the sign of the dividend if it ``truncates``."""
        if truncates:
            most = _sum(max(abs(other.low), abs(other.high)), -1)
            return Bounds(max(-most, min(self.low, 0)), min(most, max(self.high, 0)))
        if other.low > 0:
            least_is_known = self.low >= 0
            return Bounds(0, min(_sum(other.high, -1), self.high) if least_is_known else _sum(other.high, -1))
        return Bounds(min(_sum(other.low, 1), 0), max(_sum(other.high, -1), 0))

    def next_power_of_two(self) -> Bounds:
        """Return the bounds of the smallest power of two that is not less."""
        return Bounds(_power_of_two(self.low), _power_of_two(self.high))


ANY = Bounds()


def limits(minimum: int | None, maximum: int | None) -> Bounds:
    """Return bounds of which either may be missing."""
    return Bounds(-math.inf if minimum is None else minimum, math.inf if maximum is None else maximum)


def hull(one: Bounds, other: Bounds) -> Bounds:
    """Return the bounds of an integer that is in one of two."""
    return Bounds(min(one.low, other.low), max(one.high, other.high))


def integer_operation(operator: str, values: Sequence[int], truncates: bool = False) -> int:
    """Return the value of an operation of :class:`.size.SizeOperation` on integers.

    Raises
    ------
    ZeroDivisionError
        For a division by zero.
    """
    if operator in ("min", "max"):
        return min(values) if operator == "min" else max(values)
    if operator == "next_pow2":
        return 1 << max(values[0] - 1, 0).bit_length()
    left, right = values
    if operator == "ceil_div":
        return -(-left // right)
    quotient = left // right
    if truncates and quotient < 0:
        quotient = -(-left // right)
    return quotient if operator == "//" else left - quotient * right


def bounds_of_operation(operator: str, operands: Sequence[Bounds], truncates: bool) -> Bounds:
    """Return the bounds of an operation of :class:`.size.SizeOperation` from those of its operands."""
    if operator in ("min", "max"):
        choose = min if operator == "min" else max
        return Bounds(choose(one.low for one in operands), choose(one.high for one in operands))
    if operator == "next_pow2":
        return operands[0].next_power_of_two()
    left, right = operands
    if operator == "%":
        return left.remainder(right, truncates)
    down, up = left // right, -(-left // right)
    if operator == "ceil_div":
        return up
    # Rounding towards zero is rounding down or up.
    return hull(down, up) if truncates else down


def _sum(one: _Limit, other: _Limit) -> _Limit:
    # An integer that a float cannot hold is not added to an infinity.
    return one if isinstance(one, float) else other if isinstance(other, float) else one + other


def _product(one: _Limit, other: _Limit) -> _Limit:
    if one == 0 or other == 0:
        return 0
    if isinstance(one, float) or isinstance(other, float):
        return math.inf if (one > 0) == (other > 0) else -math.inf
    return one * other


def _quotient(dividend: _Limit, divisor: _Limit) -> _Limit:
    """Return a quotient by a positive number, rounded down."""
    if isinstance(dividend, float):
        return dividend
    if isinstance(divisor, float):
        return 0 if dividend >= 0 else -1
    return dividend // divisor


def _power_of_two(value: _Limit) -> _Limit:
    if isinstance(value, float):
        return math.inf if value > 0 else 1
    return 1 << max(value - 1, 0).bit_length()
