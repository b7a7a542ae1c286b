"""The sizes on a path: one store of equalities, bounds, divisors, choices and other comparisons.

A store does not change: :meth:`Constraints.assume` returns another one, in which a condition holds too, or None where
no sizes fulfil all of them. What it derives follows from the conditions for all integers, so that it never excludes
sizes that fulfil them; it may keep some that do not.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from gpuemu_lsp.engine.symbolic.bounds import ANY, Bounds, bounds_of_operation, limits
from gpuemu_lsp.engine.symbolic.conditions import SWAPPED, Condition, all_of, any_of, compared, negated
from gpuemu_lsp.engine.symbolic.size import (
    ONE,
    ZERO,
    Atom,
    Size,
    SizeOperation,
    SizeSymbol,
    TooComplexError,
    modulo,
    next_power_of_two,
    number,
    substitute,
    symbols,
)


@dataclass(frozen=True, slots=True)
class Constraints:
    """Conditions that hold together, as what they say about single symbols where they say it.

    ``equal`` has the value of a symbol over others, which are not in ``equal`` themselves. ``ranges`` and ``divisors``
    are what conditions say of the other symbols, besides the bounds that they have anyway; ``choices`` are the only
    values that they may have. ``others`` are the conditions that say more than that, with equal sizes replaced.
    """

    equal: Mapping[str, Size] = field(default_factory=dict)
    ranges: Mapping[str, Bounds] = field(default_factory=dict)
    divisors: Mapping[str, int] = field(default_factory=dict)
    choices: Mapping[str, frozenset[int]] = field(default_factory=dict)
    others: tuple[Condition, ...] = ()

    # ---- queries

    def resolved(self, size: Size) -> Size:
        """Return a size with symbols replaced by what they equal.

        Raises
        ------
        TooComplexError
            If it has too many terms.
        """
        return substitute(size, self.equal)

    def bounds(self, size: Size) -> Bounds:
        """Return the least and the largest value of a size."""
        return self._bounds(self.resolved(size))

    def divisor(self, size: Size) -> int:
        """Return a number of which a size is a multiple, 0 for the size 0."""
        return math.gcd(*(coefficient * self._step(factors) for factors, coefficient in self.resolved(size).terms))

    def values(self, name: str) -> frozenset[int] | None:
        """Return the only values that a symbol may have; None if they are not listed."""
        value = self.equal.get(name)
        if value is not None:
            return frozenset((value.constant,)) if value.constant is not None else None
        return self.choices.get(name)

    def holds(self, condition: Condition) -> bool | None:
        """Return whether a condition follows from the store; None if neither it nor its opposite does."""
        if self.assume(negated(condition)) is None:
            return True
        return False if self.assume(condition) is None else None

    # ---- assumptions

    def assume(self, condition: Condition) -> Constraints | None:
        """Return the store in which a condition holds too; None if it does not hold for any sizes."""
        if condition.value is not None:
            return self if condition.value else None
        if condition.operator == "&&":
            store: Constraints | None = self
            for part in condition.parts:
                store = None if store is None else store.assume(part)
            return store
        if condition.operator == "||":
            return self._assume_any(condition)
        if condition.sides is None:
            return self
        try:
            left, right = map(self.resolved, condition.sides)
            return self._assume_comparison(condition.operator, left, right)
        except TooComplexError:
            return self

    def _assume_any(self, condition: Condition) -> Constraints | None:
        feasible = [part for part in condition.parts if self.assume(part) is not None]
        if len(feasible) < 2:
            return self.assume(feasible[0]) if feasible else None
        name, values = _listed(feasible)
        if name is not None and name not in self.equal:
            return self._choose(name, values)
        return replace(self, others=(*self.others, any_of(feasible)))

    def _assume_comparison(self, operator: str, left: Size, right: Size) -> Constraints | None:
        if operator in (">", ">="):
            return self._assume_comparison(SWAPPED[operator], right, left)
        if operator == "<=" and right == next_power_of_two(left):
            return self
        if operator == "<" and left == next_power_of_two(right):
            return None
        if operator in ("<", "<=") and (len(_among("max", left)) > 1 or len(_among("min", right)) > 1):
            # What is below the smallest of several is below each of them.
            pairs = itertools.product(_among("max", left), _among("min", right))
            return self.assume(all_of(Condition(None, operator, *pair) for pair in pairs))
        difference = _without_common_factors(left - right) if operator in ("==", "!=") else left - right
        known = compared(operator, difference, ZERO)
        bounds = self._bounds(difference)
        if known.value is None and operator == "==":
            remains = 0 not in bounds or (
                difference.offset % (self.divisor(difference - number(difference.offset)) or 1)
            )
            return None if remains else self._equate(left, right, difference)
        if known.value is None and operator == "!=":
            if bounds == Bounds(0, 0) or self.divisor(difference) == 0:
                return None
            return self._exclude(difference) if 0 in bounds else self
        if known.value is False:
            return None
        wanted = {
            "<": Bounds(high=-1),
            "<=": Bounds(high=0),
        }.get(operator, ANY)
        if (bounds & wanted).empty:
            return None
        implied = bounds & wanted == bounds
        store = self._tighten(difference, wanted)
        if store is None or implied or _is_single(difference):
            return store
        return replace(store, others=(*store.others, Condition(None, operator, left, right)))

    def _equate(self, left: Size, right: Size, difference: Size) -> Constraints | None:
        """Assume that two sizes, whose difference is zero, are equal: replace a symbol of which it says the value."""
        for name, value in ((left.name, right), (right.name, left)):
            if name is not None and name not in symbols(value):
                return self._replace(name, value)
        symbol, value = _solved(difference)
        if symbol is not None:
            return self._replace(symbol.name, value)
        store = self._tighten(difference, Bounds(0, 0))
        if store is None or _is_single(difference) or _multiple_of(difference) is not None:
            return store
        return replace(store, others=(*store.others, Condition(None, "==", left, right)))

    def _replace(self, name: str, value: Size) -> Constraints | None:
        """Give a symbol a value, of which everything holds that is known of the symbol."""
        single = {name: value}
        store: Constraints | None = Constraints(
            {**{one: substitute(size, single) for one, size in self.equal.items()}, name: value},
            {one: bounds for one, bounds in self.ranges.items() if one != name},
            {one: divisor for one, divisor in self.divisors.items() if one != name},
            {one: values for one, values in self.choices.items() if one != name},
        )
        conditions = [*self.others]
        bounds = self.ranges.get(name, ANY)
        if not math.isinf(bounds.low):
            conditions.append(Condition(None, ">=", value, number(int(bounds.low))))
        if not math.isinf(bounds.high):
            conditions.append(Condition(None, "<=", value, number(int(bounds.high))))
        if name in self.divisors:
            conditions.append(Condition(None, "==", modulo(value, number(self.divisors[name])), ZERO))
        if name in self.choices:
            conditions.append(any_of(Condition(None, "==", value, number(one)) for one in sorted(self.choices[name])))
        for condition in conditions:
            store = None if store is None else store.assume(condition)
        return store

    def _exclude(self, difference: Size) -> Constraints | None:
        """Assume that a size is not zero."""
        symbol, value = _solved(difference)
        constant = value.constant
        if symbol is not None and constant is not None:
            if symbol.name in self.choices:
                return self._choose(symbol.name, self.choices[symbol.name] - {constant})
            bounds = self._of_symbol(symbol)
            if constant in (bounds.low, bounds.high):
                rest = Bounds(constant + 1) if constant == bounds.low else Bounds(high=constant - 1)
                return self._restrict(symbol.name, rest)
        return replace(self, others=(*self.others, Condition(None, "!=", difference, ZERO)))

    # ---- facts about single symbols

    def _tighten(self, size: Size, wanted: Bounds) -> Constraints | None:
        """Restrict the symbols in a size so that it may lie between bounds."""
        store: Constraints | None = self
        for factors, coefficient in size.terms:
            if store is None or len(factors) != 1:
                continue
            rest = store._bounds(size - Size(((factors, coefficient),)))
            # Each other term may have any of its values.
            product = Bounds(wanted.low, wanted.high) - rest if coefficient > 0 else rest - wanted
            times = Bounds(abs(coefficient), abs(coefficient))
            store = store._tighten_atom(factors[0], Bounds((-(-product // times)).low, (product // times).high))
        return store if size.terms or 0 in wanted else None

    def _tighten_atom(self, atom: Atom, wanted: Bounds) -> Constraints | None:
        if isinstance(atom, SizeSymbol):
            return self._restrict(atom.name, wanted)
        if atom.operator in ("min", "max"):
            beyond = Bounds(low=wanted.low) if atom.operator == "min" else Bounds(high=wanted.high)
            store: Constraints | None = self
            for operand in atom.operands:
                store = None if store is None else store._tighten(operand, beyond)
            return store
        if atom.operator == "next_pow2":
            return self._tighten(atom.left, Bounds(high=wanted.high))
        divisor = atom.right.constant
        if divisor is None or divisor <= 0:
            return self
        if atom.operator == "%":
            return self._divide(atom.left, divisor) if wanted & self._bounds(_size(atom)) == Bounds(0, 0) else self
        one, times = Bounds(1, 1), Bounds(divisor, divisor)
        down = atom.operator == "//" and (not atom.truncates or wanted.low > 0)
        up = atom.operator == "//" and (not atom.truncates or wanted.high >= 0)
        least = (wanted * times).low if down else ((wanted - one) * times + one).low
        largest = ((wanted + one) * times - one).high if up else (wanted * times).high
        return self._tighten(atom.left, Bounds(least, largest))

    def _divide(self, size: Size, divisor: int) -> Constraints | None:
        """Assume that a size is a multiple of a number."""
        if size.offset % math.gcd(divisor, *(coefficient for factors, coefficient in size.terms if factors)):
            return None
        symbol = _scaled(size)
        if symbol is None:
            return self
        times = math.lcm(self.divisors.get(symbol.name, 1), divisor // math.gcd(divisor, size.terms[0][1]))
        return replace(self, divisors={**self.divisors, symbol.name: times})._checked(symbol.name)

    def _restrict(self, name: str, bounds: Bounds) -> Constraints | None:
        """Restrict a symbol to bounds."""
        if bounds == ANY:
            return self
        return replace(self, ranges={**self.ranges, name: self.ranges.get(name, ANY) & bounds})._checked(name)

    def _choose(self, name: str, values: frozenset[int]) -> Constraints | None:
        """Restrict a symbol to values."""
        kept = values & self.choices.get(name, values)
        return replace(self, choices={**self.choices, name: kept})._checked(name)

    def _checked(self, name: str) -> Constraints | None:
        """Return the store with the choices of a symbol that its bounds and its divisor allow; None without any."""
        bounds, step = self.ranges.get(name, ANY), self.divisors.get(name, 1)
        if bounds.empty:
            return None
        if name not in self.choices:
            first = -(-bounds.low // step) * step if not math.isinf(bounds.low) else bounds.low
            return self if first <= bounds.high else None
        kept = frozenset(value for value in self.choices[name] if value in bounds and value % step == 0)
        if len(kept) == 1:
            return replace(self, choices={**self.choices, name: kept})._replace(name, number(*kept))
        return replace(self, choices={**self.choices, name: kept}) if kept else None

    # ---- bounds

    def _bounds(self, size: Size) -> Bounds:
        result = self._plain_bounds(size)
        for condition in self.others:
            if condition.sides is not None and condition.operator not in ("!=", "=="):
                left, right = condition.sides
                # A size that is not negative, where the condition holds.
                above = right - left if condition.operator in ("<", "<=") else left - right
                above = above - ONE if condition.operator in ("<", ">") else above
                result = result & Bounds(self._plain_bounds(size - above).low)
                result = result & Bounds(high=self._plain_bounds(size + above).high)
        return result

    def _plain_bounds(self, size: Size) -> Bounds:
        total = Bounds(0, 0)
        for factors, coefficient in size.terms:
            result = Bounds(coefficient, coefficient)
            for atom in dict.fromkeys(factors):
                result = result * self._of_atom(atom).power(factors.count(atom))
            total = total + result
        return total

    def _of_atom(self, atom: Atom) -> Bounds:
        if isinstance(atom, SizeSymbol):
            return self._of_symbol(atom)
        if atom.operator == "%" and atom.right.constant and self.divisor(atom.left) % atom.right.constant == 0:
            return Bounds(0, 0)
        operands = [self._plain_bounds(operand) for operand in atom.operands]
        return atom.bounds & bounds_of_operation(atom.operator, operands, atom.truncates)

    def _of_symbol(self, atom: SizeSymbol) -> Bounds:
        bounds = atom.bounds & self.ranges.get(atom.name, ANY)
        values = self.choices.get(atom.name)
        return bounds & limits(min(values), max(values)) if values else bounds

    def _step(self, factors: tuple[Atom, ...]) -> int:
        """Return a number of which a product is a multiple."""
        return math.prod(self.divisors.get(atom.name, 1) for atom in factors if isinstance(atom, SizeSymbol))


def _among(operator: str, size: Size) -> tuple[Size, ...]:
    """Return the operands of a ``min`` or ``max``; any other size alone."""
    atom = size.atom
    return atom.operands if isinstance(atom, SizeOperation) and atom.operator == operator else (size,)


def _size(atom: Atom) -> Size:
    return Size((((atom,), 1),))


def _scaled(size: Size) -> SizeSymbol | None:
    """Return the symbol of which a size is a multiple; None for any other size."""
    factors = size.terms[0][0] if len(size.terms) == 1 else ()
    return factors[0] if len(factors) == 1 and isinstance(factors[0], SizeSymbol) else None


def _multiple_of(size: Size) -> SizeSymbol | None:
    """Return the symbol that a remainder is of, where a number divides it if that is zero: ``8 * n % 16``."""
    atom = size.atom
    remainder = isinstance(atom, SizeOperation) and atom.operator == "%" and atom.right.constant is not None
    return _scaled(atom.left) if isinstance(atom, SizeOperation) and remainder else None


def _is_single(size: Size) -> bool:
    """Return whether the bounds of a size are bounds of one symbol: ``4 * n + 3``, ``ceil_div(n, 32) - 1``."""
    factors = [some for some, _ in size.terms if some]
    if len(factors) != 1 or len(factors[0]) != 1:
        return False
    atom = factors[0][0]
    if isinstance(atom, SizeOperation):
        exact = atom.operator in ("//", "ceil_div") and not atom.truncates and (atom.right.constant or 0) > 0
        return exact and _is_single(atom.left)
    return True


def _solved(difference: Size) -> tuple[SizeSymbol | None, Size]:
    """Return a symbol and its value where a size is zero: of ``n - m - 4`` the symbol ``n`` and ``m + 4``."""
    for factors, coefficient in difference.terms:
        atom = factors[0] if len(factors) == 1 and abs(coefficient) == 1 else None
        if isinstance(atom, SizeSymbol):
            rest = difference - Size(((factors, coefficient),))
            if atom.name not in symbols(rest):
                return atom, rest if coefficient < 0 else -rest
    return None, ZERO


def _without_common_factors(difference: Size) -> Size:
    """Return a size that is zero where another one is: ``m - k`` for ``4 * n * m - 4 * n * k`` if ``n`` is not zero."""
    if not difference.terms:
        return difference
    times = math.gcd(*(coefficient for _, coefficient in difference.terms))
    common = [atom for atom in difference.terms[0][0] if 0 not in atom.bounds]
    common = [atom for atom in dict.fromkeys(common) if all(atom in factors for factors, _ in difference.terms)]
    terms = []
    for factors, coefficient in difference.terms:
        rest = list(factors)
        for atom in common:
            rest.remove(atom)
        terms.append((tuple(rest), coefficient // times))
    return sum((Size((term,)) for term in terms), ZERO)


def _listed(conditions: list[Condition]) -> tuple[str | None, frozenset[int]]:
    """Return the symbol that is compared with constants by each of several equalities, and these."""
    names: set[str | None] = set()
    values: set[int] = set()
    for condition in conditions:
        left, right = condition.sides or (ZERO, ZERO)
        value = right.constant
        names.add(left.name if condition.operator == "==" and value is not None else None)
        values.add(value or 0)
    return (names.pop(), frozenset(values)) if len(names) == 1 else (None, frozenset())
