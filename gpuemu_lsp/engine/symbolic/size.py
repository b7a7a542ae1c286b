"""Integers of host code as polynomials over symbols, in a normal form.

Equal sizes of a program are thereby equal values: ``(n * 4) // 4`` is ``n``, whatever way the host code computed it. An
operation that is not polynomial, such as ``n // 256`` or ``min(n, 1024)``, is an atom of the polynomial. Its rules, in
:data:`_RULES`, decide which of several equal forms it has: ``(n + 255) // 256``, ``(n - 1) // 256 + 1``,
``-(-n // 256)`` and ``n // 256 + (n % 256 != 0)`` are ``ceil_div(n, 256)``.

Each value has bounds, derived from those of its symbols. A rule that holds only for values of one sign asks for them:
nothing here assumes that sizes are positive.

Division has the semantics of gpuemu.toml and of Python: ``//`` rounds down, and ``%`` has the sign of the divisor.
:func:`divide` and :func:`remainder` are those of C, which round towards zero. Where the bounds say that both agree,
their results are the same; elsewhere the operation is marked as one that ``truncates``.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import reduce
from typing import Final, TypeAlias

from gpuemu_lsp.engine.symbolic.bounds import ANY, Bounds, bounds_of_operation, integer_operation, limits

_MAX_TERMS: Final = 24


class TooComplexError(ValueError):
    """A size with too many terms, or a division by zero."""


@dataclass(frozen=True, slots=True)
class SizeSymbol:
    """An integer that is not known: an argument of the program, or a parameter of a function without callers.

    Symbols are equal if their names are. ``bounds`` hold wherever the symbol occurs.
    """

    name: str
    bounds: Bounds = field(default=ANY, compare=False)


@dataclass(frozen=True, slots=True)
class SizeOperation:
    """An operation on sizes that is not polynomial: ``//``, ``%``, ``ceil_div``, ``min``, ``max`` or ``next_pow2``.

    ``//`` and ``%`` round towards zero if the operation ``truncates``, else down.
    """

    operator: str
    operands: tuple[Size, ...]
    truncates: bool = False
    bounds: Bounds = field(default=ANY, compare=False)

    @property
    def left(self) -> Size:
        """The first operand: the dividend of a quotient."""
        return self.operands[0]

    @property
    def right(self) -> Size:
        """The second operand: the divisor of a quotient."""
        return self.operands[1]


Atom: TypeAlias = "SizeSymbol | SizeOperation"
Factors: TypeAlias = "tuple[Atom, ...]"


@dataclass(frozen=True, slots=True)
class Size:
    """A sum of products: pairs of the factors, in a fixed order, and their coefficient. The constant is the last."""

    terms: tuple[tuple[Factors, int], ...]

    @property
    def constant(self) -> int | None:
        """The value, None if it depends on a symbol."""
        if not self.terms:
            return 0
        return self.terms[0][1] if len(self.terms) == 1 and not self.terms[0][0] else None

    @property
    def offset(self) -> int:
        """The constant of the sum: 255 for ``n + 255``."""
        return self.terms[-1][1] if self.terms and not self.terms[-1][0] else 0

    @property
    def atom(self) -> Atom | None:
        """The symbol or the operation that the size is; None for any other."""
        if len(self.terms) == 1 and self.terms[0][1] == 1 and len(self.terms[0][0]) == 1:
            return self.terms[0][0][0]
        return None

    @property
    def name(self) -> str | None:
        """The name of the symbol that the size is; None for any other."""
        atom = self.atom
        return atom.name if isinstance(atom, SizeSymbol) else None

    @property
    def bounds(self) -> Bounds:
        """The least and the largest value, from the bounds of the symbols."""
        total = Bounds(0, 0)
        for factors, coefficient in self.terms:
            total = total + _product_bounds(factors) * Bounds(coefficient, coefficient)
        return total

    def __add__(self, other: Size) -> Size:
        """Return the sum."""
        return add(self, other)

    def __sub__(self, other: Size) -> Size:
        """Return the difference."""
        return add(self, other, -1)

    def __mul__(self, other: Size) -> Size:
        """Return the product."""
        return multiply(self, other)

    def __neg__(self) -> Size:
        """Return the negative."""
        return add(ZERO, self, -1)

    def __str__(self) -> str:
        """Return the size in the grammar of gpuemu.toml's expressions; one that truncates as if it rounded down."""
        # A term that is added comes first: `n - 1`, `n - k`.
        terms = [_as_written(*term) for term in self.terms]
        first = next((term for term in terms if term[0] and term[1] > 0), None)
        terms.sort(key=lambda term: term is not first)
        return " + ".join(_term_text(*term) for term in terms).replace("+ -", "- ") or "0"


ZERO, ONE = Size(()), Size((((), 1),))


def number(value: int) -> Size:
    """Return a constant."""
    return Size((((), value),)) if value else ZERO


UNKNOWN_OFFSET = "unknown offset"
"""Symbol of a number of bytes that no other value determines. No identifier of a program has a blank."""


def symbol(name: str, minimum: int | None = None, maximum: int | None = None) -> Size:
    """Return an integer that is not known, between two bounds that are both included; None for no bound."""
    return _of_atom(SizeSymbol(name, limits(minimum, maximum)))


def add(left: Size, right: Size, sign: int = 1) -> Size:
    """Return the sum, or the difference for the sign -1."""
    terms = dict(left.terms)
    for factors, coefficient in right.terms:
        terms[factors] = terms.get(factors, 0) + sign * coefficient
    return _normal(terms)


def multiply(left: Size, right: Size) -> Size:
    """Return the product."""
    terms: dict[Factors, int] = {}
    for some, first in left.terms:
        for others, second in right.terms:
            factors = tuple(sorted((*some, *others), key=_atom_text))
            terms[factors] = terms.get(factors, 0) + first * second
    return _normal(terms)


def product(factors: Iterable[Size]) -> Size:
    """Return the product of some sizes, 1 for none."""
    return reduce(multiply, factors, ONE)


def _normal(terms: dict[Factors, int]) -> Size:
    """Return the sum of some terms."""
    kept = [(factors, coefficient) for factors, coefficient in terms.items() if coefficient]
    if len(kept) > _MAX_TERMS:
        raise TooComplexError
    # Constants last: ``n + 255``.
    kept.sort(key=lambda term: (not term[0], [_atom_text(atom) for atom in term[0]]))
    return Size(tuple(kept))


def _is_negative(value: Size) -> bool:
    """Return whether the first term is subtracted: of a size and its negative it is so for one."""
    return bool(value.terms) and value.terms[0][1] < 0


def _is_subtracted(value: Size) -> bool:
    """Return whether all terms are subtracted, but for the constant."""
    return _is_negative(value) and all(coefficient < 0 for factors, coefficient in value.terms if factors)


def _product_bounds(factors: Factors) -> Bounds:
    """Return the bounds of a product; those of a square are not negative."""
    result = Bounds(1, 1)
    for atom in dict.fromkeys(factors):
        result = result * atom.bounds.power(factors.count(atom))
    return result


def floor_divide(left: Size, right: Size) -> Size:
    """Return the quotient, rounded down: ``//`` of Python and of gpuemu.toml."""
    return _applied("//", left, right)


def modulo(left: Size, right: Size) -> Size:
    """Return the remainder of :func:`floor_divide`, which has the sign of the divisor."""
    return _applied("%", left, right)


def ceil_div(left: Size, right: Size) -> Size:
    """Return the quotient, rounded up."""
    return _applied("ceil_div", left, right)


def divide(left: Size, right: Size) -> Size:
    """Return the quotient of C, rounded towards zero."""
    return _applied("//", left, right, truncates=_truncates(left, right))


def remainder(left: Size, right: Size) -> Size:
    """Return the remainder of C, which has the sign of the dividend."""
    return _applied("%", left, right, truncates=_truncates(left, right))


def extreme(name: str, *values: Size) -> Size:
    """Return the ``min`` or the ``max`` of some integers."""
    return _applied(name, *values)


def next_power_of_two(value: Size) -> Size:
    """Return the smallest power of two that is not less, 1 for values below."""
    return _applied("next_pow2", value)


def indicator(operator: str, left: Size, right: Size) -> Size:
    """Return 1 where a comparison of two integers holds, 0 elsewhere."""
    difference = left - right
    if operator in ("==", "!="):
        bounds = difference.bounds
        distance = difference if bounds.low >= 0 else -difference if bounds.high <= 0 else difference * difference
        differs = extreme("min", distance, ONE)
        return differs if operator == "!=" else ONE - differs
    if operator in ("<", "<="):
        difference = -difference
    above = difference if operator in ("<", ">") else difference + ONE
    return extreme("min", extreme("max", above, ZERO), ONE)


def _truncates(left: Size, right: Size) -> bool:
    """Return whether rounding towards zero may differ from rounding down."""
    return left.bounds.low < 0 or right.bounds.low < 0


Rule: TypeAlias = "Callable[[str, tuple[Size, ...], bool], Size | None]"
"""An equal form of an operation, given by its operator, its operands and whether it truncates; None if it has none."""


def _applied(operator: str, *operands: Size, truncates: bool = False) -> Size:
    """Return the normal form of an operation."""
    for rule in _RULES[operator]:
        result = rule(operator, operands, truncates)
        if result is not None:
            return result
    return _of_atom(_operation(operator, operands, truncates))


def _operation(operator: str, operands: tuple[Size, ...], truncates: bool = False) -> SizeOperation:
    bounds = bounds_of_operation(operator, [operand.bounds for operand in operands], truncates)
    return SizeOperation(operator, operands, truncates, bounds)


def _constants(operator: str, operands: tuple[Size, ...], truncates: bool) -> Size | None:
    """Compute an operation on constants."""
    values = [operand.constant for operand in operands]
    if operator in _QUOTIENTS and values[1] == 0:
        raise TooComplexError
    if None in values:
        return None
    return number(integer_operation(operator, [value for value in values if value is not None], truncates))


def _sign_of_divisor(operator: str, operands: tuple[Size, ...], truncates: bool) -> Size | None:
    """Turn the signs where the divisor is negative: ``x // -b`` is ``-x // b``."""
    left, right = operands
    if not _is_subtracted(right):
        return None
    if operator != "%":
        return _applied(operator, -left, -right, truncates=truncates)
    rest = _applied("%", left if truncates else -left, -right, truncates=truncates)
    return rest if truncates else -rest


def _exact(operator: str, operands: tuple[Size, ...], truncates: bool) -> Size | None:
    """Divide term by term where there is no remainder: ``(n * m) // m`` is ``n``."""
    left, right = operands
    exact = ONE if left == right else _by_term(left, right)
    if exact is None:
        return None
    return ZERO if operator == "%" else exact


def _sign_of_dividend(operator: str, operands: tuple[Size, ...], truncates: bool) -> Size | None:
    """Turn the signs where the dividend is negative: ``-x // b`` is ``-ceil_div(x, b)``."""
    left, right = operands
    if not _is_negative(left):
        return None
    if truncates:
        return -_applied(operator, -left, right, truncates=_truncates(-left, right))
    if operator == "%":
        whole = _is_subtracted(left) and right.bounds.low > 0
        return right * _applied("ceil_div", -left, right) + left if whole else None
    return -_applied("//" if operator == "ceil_div" else "ceil_div", -left, right)


def _common_factors(operator: str, operands: tuple[Size, ...], truncates: bool) -> Size | None:
    """Divide both sides by what they have in common: ``(4 * n) // 16`` is ``n // 4``, ``(8 * n) % 128`` as well."""
    left, right = operands
    if len(right.terms) != 1:
        return None
    factors, divisor = right.terms[0]
    times = math.gcd(divisor, *(coefficient for some, coefficient in left.terms if some))
    common: list[Atom] = []
    for atom in factors:
        if all(some.count(atom) > common.count(atom) for some, _ in left.terms):
            common.append(atom)
    if operator == "%" or truncates:
        # Of a quotient that is rounded down or up, the constant is too: `(4 * n + 3) // 16` is `n // 4`.
        times = math.gcd(times, left.offset)
    scale = Size(((tuple(common), times),))
    offset = left.offset // times if operator != "ceil_div" else -(-left.offset // times)
    first, second = _by_term(left - number(left.offset), scale), _by_term(right, scale)
    if scale == ONE or first is None or second is None:
        return None
    result = _applied(operator, first + number(offset), second, truncates=truncates)
    return scale * result if operator == "%" else result


def _whole_terms(operator: str, operands: tuple[Size, ...], truncates: bool) -> Size | None:
    """Divide the terms that have no remainder on their own: ``(4 * n + m) // 4`` is ``n + m // 4``."""
    left, right = operands
    if truncates or len(right.terms) != 1:
        return None
    whole, rest = ZERO, left
    for factors, coefficient in left.terms:
        term = Size(((factors, coefficient),))
        exact = _by_term(term, right)
        if exact is None and not factors and right.constant is not None:
            # Of a constant the remainder stays: `n + 300` is `n + 44` and once the divisor 256.
            exact = number(coefficient // right.constant)
            term = exact * right
        if exact is not None and exact != ZERO:
            whole, rest = whole + exact, rest - term
    if whole == ZERO:
        return None
    return _applied("%", rest, right) if operator == "%" else whole + _applied(operator, rest, right)


def _rounding(operator: str, operands: tuple[Size, ...], truncates: bool) -> Size | None:
    """Choose between rounding up and down: ``(n + 255) // 256`` is ``ceil_div(n, 256)``.

    ``x // b`` is ``ceil_div(x - b + 1, b)`` for all integers. The form with the smaller constant is normal, and of
    constants that are divided by a size the one with an even constant: sizes are mostly even.
    """
    left, right = operands
    if truncates or left.offset == 0 or right.bounds.low <= 0:
        return None
    if left.constant is not None:
        if left.constant % 2 == 0:
            return None
        up = operator == "//"
        return _applied("ceil_div", left + ONE, right) - ONE if up else _applied("//", left - ONE, right) + ONE
    if operator == "ceil_div":
        down = _applied("//", left + right - ONE, right)
        return None if down == _of_atom(_operation("ceil_div", operands)) else down
    if right.constant is None:
        return _applied("ceil_div", left + ONE, right) - ONE if left.offset == -1 else None
    turned = left - right + ONE, right
    if -turned[0].offset >= left.offset:
        return None
    return _nested("ceil_div", turned, truncates) or _of_atom(_operation("ceil_div", turned))


def _nested(operator: str, operands: tuple[Size, ...], truncates: bool) -> Size | None:
    """Divide once by a product of divisors: ``n // 256 // 4`` is ``n // 1024``."""
    left, right = operands
    offset = 0 if truncates else left.offset
    atom = (left - number(offset)).atom
    if not isinstance(atom, SizeOperation) or (atom.operator, atom.truncates) != (operator, truncates):
        return None
    inner, outer = atom.right.constant, right.constant
    if inner is None or outer is None or inner <= 0 or outer <= 0:
        return None
    return _applied(operator, atom.left + number(offset * inner), number(inner * outer), truncates=truncates)


def _below_divisor(operator: str, operands: tuple[Size, ...], truncates: bool) -> Size | None:
    """Return the quotient of a dividend that is less than its divisor: ``n % 8 // 8`` is 0."""
    left, right = operands
    gap = (right - left).bounds.low
    if operator == "ceil_div":
        return ONE if left.bounds.low > 0 and gap >= 0 else None
    if left.bounds.low < 0 or gap <= 0:
        return None
    return left if operator == "%" else ZERO


def _nested_remainder(operator: str, operands: tuple[Size, ...], truncates: bool) -> Size | None:
    """Leave out a remainder in a remainder by the same number: ``(m + n % 8) % 8`` is ``(m + n) % 8``."""
    left, right = operands
    if truncates:
        return None
    for factors, coefficient in left.terms:
        atom = factors[0] if len(factors) == 1 else None
        if isinstance(atom, SizeOperation) and atom.operator == "%" and atom.right == right and not atom.truncates:
            rest = left - Size(((factors, coefficient),))
            return _applied("%", rest + number(coefficient) * atom.left, right)
    return None


def _has_remainder(operator: str, operands: tuple[Size, ...], truncates: bool) -> Size | None:
    """Write ``min(a % b, 1)``, which is 1 where there is a remainder, as ``ceil_div(a, b) - a // b``."""
    rest = operands[0].atom
    if operands[1:] != (ONE,) or not isinstance(rest, SizeOperation) or rest.operator != "%" or rest.truncates:
        return None
    return _applied("ceil_div", *rest.operands) - _applied("//", *rest.operands) if rest.bounds.low >= 0 else None


def _among(operator: str, operands: tuple[Size, ...], truncates: bool) -> Size | None:
    """Leave out values that others make superfluous; write those left in a fixed order, a constant last."""
    flat: list[Size] = []
    for operand in operands:
        atom = operand.atom
        same = isinstance(atom, SizeOperation) and atom.operator == operator
        flat += atom.operands if isinstance(atom, SizeOperation) and same else (operand,)
    kept: list[Size] = []
    for value in sorted(dict.fromkeys(flat), key=lambda one: (one.constant is not None, str(one))):
        if not any(_is_beyond(operator, other, value) for other in kept):
            kept = [other for other in kept if not _is_beyond(operator, value, other)]
            kept.append(value)
    if len(kept) == 1:
        return kept[0]
    return _applied(operator, *kept) if tuple(kept) != operands else None


def _is_beyond(operator: str, value: Size, other: Size) -> bool:
    """Return whether the ``min`` or ``max`` of two values is the first one."""
    bounds = (other - value if operator == "min" else value - other).bounds
    return bounds.low >= 0


_QUOTIENTS: Final = frozenset({"//", "%", "ceil_div"})
_OF_QUOTIENTS: Final[tuple[Rule, ...]] = (
    _constants,
    _sign_of_divisor,
    _exact,
    _sign_of_dividend,
    _common_factors,
    _whole_terms,
    _below_divisor,
)
_RULES: Final[Mapping[str, tuple[Rule, ...]]] = {
    "//": (*_OF_QUOTIENTS, _nested, _rounding),
    "ceil_div": (*_OF_QUOTIENTS, _nested, _rounding),
    "%": (_constants, _nested_remainder, *_OF_QUOTIENTS),
    "min": (_constants, _has_remainder, _among),
    "max": (_constants, _among),
    "next_pow2": (_constants,),
}
"""The rules of each operation; the first that applies gives an equal form, which is not changed by it again."""


def _by_term(left: Size, right: Size) -> Size | None:
    """Return the exact quotient by a product, None if there is a remainder."""
    if len(right.terms) != 1:
        return None
    factors, coefficient = right.terms[0]
    quotient: dict[Factors, int] = {}
    for some, times in left.terms:
        rest = list(some)
        for factor in factors:
            if factor not in rest:
                return None
            rest.remove(factor)
        if times % coefficient:
            return None
        quotient[tuple(rest)] = times // coefficient
    return _normal(quotient)


def symbols(value: Size) -> frozenset[str]:
    """Return the names of the symbols in a size."""
    return frozenset(atom.name for atom in atoms(value) if isinstance(atom, SizeSymbol))


def atoms(value: Size) -> Iterator[Atom]:
    """Yield the symbols and operations in a size as its text has them, operands included."""
    for term in value.terms:
        for atom in _as_written(*term)[0]:
            yield atom
            if isinstance(atom, SizeOperation):
                for operand in atom.operands:
                    yield from atoms(operand)


def substitute(value: Size, values: Mapping[str, Size]) -> Size:
    """Return a size with some symbols replaced."""
    if symbols(value).isdisjoint(values):
        return value
    total = ZERO
    for factors, coefficient in value.terms:
        total = total + reduce(multiply, (_replaced(atom, values) for atom in factors), number(coefficient))
    return total


def _replaced(atom: Atom, values: Mapping[str, Size]) -> Size:
    if isinstance(atom, SizeSymbol):
        return values.get(atom.name, _of_atom(atom))
    operands = [substitute(operand, values) for operand in atom.operands]
    truncates = atom.truncates and _truncates(*operands)
    return _applied(atom.operator, *operands, truncates=truncates)


def evaluate(value: Size, values: Mapping[str, int]) -> int:
    """Return the value where every symbol has one.

    Raises
    ------
    KeyError
        For a symbol without a value.
    ZeroDivisionError
        For a division by zero.
    """
    total = 0
    for factors, coefficient in value.terms:
        total += coefficient * math.prod(_value(atom, values) for atom in factors)
    return total


def _value(atom: Atom, values: Mapping[str, int]) -> int:
    if isinstance(atom, SizeSymbol):
        return values[atom.name]
    operands = [evaluate(operand, values) for operand in atom.operands]
    return integer_operation(atom.operator, operands, atom.truncates)


def _of_atom(atom: Atom) -> Size:
    return Size((((atom,), 1),))


def _atom_text(atom: Atom) -> str:
    if isinstance(atom, SizeSymbol):
        return atom.name
    if atom.operator in ("//", "%"):
        return f"{_operand_text(atom.left)} {atom.operator} {_operand_text(atom.right)}"
    return f"{atom.operator}({', '.join(map(str, atom.operands))})"


def _operand_text(value: Size) -> str:
    if value.atom is not None:
        return _factor_text(value.atom)
    return str(value) if value.constant is not None and value.constant >= 0 else f"({value})"


def _factor_text(atom: Atom) -> str:
    quotient = isinstance(atom, SizeOperation) and atom.operator in ("//", "%")
    return f"({_atom_text(atom)})" if quotient else _atom_text(atom)


def _as_written(factors: Factors, coefficient: int) -> tuple[Factors, int]:
    """Return a term that is not subtracted where a quotient in it can be turned: ``ceil_div(n - k, b)``.

    The normal form is ``-((k - n) // b)``, which is equal.
    """
    for atom in factors if coefficient < 0 else ():
        quotient = isinstance(atom, SizeOperation) and atom.operator in ("//", "ceil_div")
        if isinstance(atom, SizeOperation) and quotient and any(times < 0 for some, times in atom.left.terms if some):
            up = atom.operator == "//" and not atom.truncates
            turned = SizeOperation("ceil_div" if up else "//", (-atom.left, atom.right), atom.truncates)
            return tuple(turned if one is atom else one for one in factors), -coefficient
    return factors, coefficient


def _term_text(factors: Factors, coefficient: int) -> str:
    if not factors:
        return str(coefficient)
    if len(factors) == 1 and coefficient == 1:
        return _atom_text(factors[0])
    text = " * ".join(map(_factor_text, factors))
    return text if coefficient == 1 else f"-{text}" if coefficient == -1 else f"{coefficient} * {text}"
