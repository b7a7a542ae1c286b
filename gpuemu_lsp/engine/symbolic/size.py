"""Integers of host code as polynomials over symbols, in a normal form.

Equal sizes of a program are thereby equal values: ``(n * 4) // 4`` is ``n``, whatever way the host code computed it. An
operation that is not polynomial is an atom: ``(n + 255) // 256`` and ``min(n, 1024)``.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import reduce
from typing import TypeAlias

_MAX_TERMS = 24


@dataclass(frozen=True, slots=True, order=True)
class SizeSymbol:
    """An integer that is not known: an argument of the program, or a parameter of a function without callers."""

    name: str


@dataclass(frozen=True, slots=True)
class SizeOperation:
    """``//``, ``%``, ``min``, ``max`` or ``ceil_div`` of two polynomials."""

    operator: str
    left: Size
    right: Size


Atom: TypeAlias = "SizeSymbol | SizeOperation"


@dataclass(frozen=True, slots=True)
class Size:
    """A sum of products: pairs of the factors, in a fixed order, and their coefficient."""

    terms: tuple[tuple[tuple[Atom, ...], int], ...]

    @property
    def constant(self) -> int | None:
        """The value, None if it depends on a symbol."""
        if not self.terms:
            return 0
        return self.terms[0][1] if len(self.terms) == 1 and not self.terms[0][0] else None

    def __str__(self) -> str:
        """Return the polynomial in the grammar of gpuemu.toml's expressions."""
        if not self.terms:
            return "0"
        parts = [_term_text(factors, coefficient) for factors, coefficient in self.terms]
        return " + ".join(parts).replace("+ -", "- ")


class TooComplexError(ValueError):
    """A polynomial with too many terms, or a division by zero."""


ZERO, ONE = Size(()), Size((((), 1),))


def number(value: int) -> Size:
    """Return a constant."""
    return Size((((), value),)) if value else ZERO


UNKNOWN_OFFSET = "unknown offset"
"""Symbol of a number of bytes that no other value determines. No identifier of a program has a blank."""


def symbol(name: str) -> Size:
    """Return an unknown integer."""
    return Size((((SizeSymbol(name),), 1),))


def add(left: Size, right: Size, sign: int = 1) -> Size:
    """Return the sum, or the difference for the sign -1."""
    terms = dict(left.terms)
    for factors, coefficient in right.terms:
        terms[factors] = terms.get(factors, 0) + sign * coefficient
    return _normal(terms)


def multiply(left: Size, right: Size) -> Size:
    """Return the product."""
    terms: dict[tuple[Atom, ...], int] = {}
    for some, first in left.terms:
        for others, second in right.terms:
            factors = tuple(sorted((*some, *others), key=_atom_text))
            terms[factors] = terms.get(factors, 0) + first * second
    return _normal(terms)


def divide(left: Size, right: Size) -> Size:
    """Return the quotient of sizes, rounded down."""
    divisor = right.constant
    if divisor == 0:
        raise TooComplexError
    if left == right:
        return ONE
    known = left.constant
    if known is not None and divisor is not None:
        return number(abs(known) // abs(divisor) * (1 if known * divisor >= 0 else -1))  # C rounds towards zero
    if divisor is not None and all(coefficient % divisor == 0 for _, coefficient in left.terms):
        return Size(tuple((factors, coefficient // divisor) for factors, coefficient in left.terms))
    if divisor is None and len(right.terms) == 1 and (exact := _by_term(left, right)) is not None:
        return exact
    return _atom(_nested("//", left, right))


def remainder(left: Size, right: Size) -> Size:
    """Return the remainder of a division of sizes."""
    known, divisor = left.constant, right.constant
    if divisor == 0:
        raise TooComplexError
    if known is not None and divisor is not None:
        return number(abs(known) % abs(divisor) * (1 if known >= 0 else -1))
    if divisor is not None and all(coefficient % divisor == 0 for _, coefficient in left.terms):
        return ZERO
    return _atom(SizeOperation("%", left, right))


def ceil_div(left: Size, right: Size) -> Size:
    """Return the quotient, rounded up."""
    exact = divide(left, right)
    if multiply(exact, right) == left:
        return exact
    known, divisor = left.constant, right.constant
    if known is not None and divisor is not None:
        return number(-(-known // divisor))
    return _atom(_nested("ceil_div", left, right))


def _nested(operator: str, left: Size, right: Size) -> SizeOperation:
    """Return a quotient of sizes; that of a quotient, ``n / 256 / 4``, is one by the product of the divisors."""
    if len(left.terms) == 1 and left.terms[0][1] == 1 and len(left.terms[0][0]) == 1:
        atom = left.terms[0][0][0]
        known = isinstance(atom, SizeOperation) and atom.operator == operator and (atom.right.constant or 0) > 0
        if isinstance(atom, SizeOperation) and known and (right.constant or 0) > 0:
            return SizeOperation(operator, atom.left, multiply(atom.right, right))
    return SizeOperation(operator, left, right)


def extreme(name: str, left: Size, right: Size) -> Size:
    """Return ``min`` or ``max`` of two integers."""
    known, other = left.constant, right.constant
    if known is not None and other is not None:
        return number(min(known, other) if name == "min" else max(known, other))
    return left if left == right else _atom(SizeOperation(name, left, right))


def symbols(value: Size) -> frozenset[str]:
    """Return the names of the symbols in a polynomial."""
    return frozenset(atom.name for atom in atoms(value) if isinstance(atom, SizeSymbol))


def atoms(value: Size) -> Iterator[Atom]:
    """Yield the symbols and operations in a polynomial, operands included."""
    for factors, _ in value.terms:
        for atom in factors:
            yield atom
            if isinstance(atom, SizeOperation):
                yield from atoms(atom.left)
                yield from atoms(atom.right)


def substitute(value: Size, values: Mapping[str, Size]) -> Size:
    """Return a polynomial with some symbols replaced."""
    if symbols(value).isdisjoint(values):
        return value
    total = ZERO
    for factors, coefficient in value.terms:
        replaced = (_replaced(atom, values) for atom in factors)
        total = add(total, reduce(multiply, replaced, number(coefficient)))
    return total


_OPERATIONS = {"//": divide, "%": remainder, "ceil_div": ceil_div}


def _replaced(atom: Atom, values: Mapping[str, Size]) -> Size:
    if isinstance(atom, SizeSymbol):
        return values.get(atom.name, _atom(atom))
    left, right = substitute(atom.left, values), substitute(atom.right, values)
    known = _OPERATIONS.get(atom.operator)
    return extreme(atom.operator, left, right) if known is None else known(left, right)


def _by_term(left: Size, right: Size) -> Size | None:
    """Return the exact quotient by a product, None if there is a remainder."""
    factors, coefficient = right.terms[0]
    found: dict[tuple[Atom, ...], int] = {}
    for some, times in left.terms:
        rest = list(some)
        for factor in factors:
            if factor not in rest:
                return None
            rest.remove(factor)
        if times % coefficient:
            return None
        found[tuple(rest)] = times // coefficient
    return _normal(found)


def _normal(terms: Mapping[tuple[Atom, ...], int]) -> Size:
    kept = [(factors, coefficient) for factors, coefficient in terms.items() if coefficient]
    if len(kept) > _MAX_TERMS:
        raise TooComplexError
    # Constants last: ``n + 255``.
    kept.sort(key=lambda term: (not term[0], [_atom_text(atom) for atom in term[0]]))
    return Size(tuple(kept))


def _atom(atom: Atom) -> Size:
    return Size((((atom,), 1),))


def _atom_text(atom: Atom) -> str:
    if isinstance(atom, SizeSymbol):
        return atom.name
    if atom.operator in ("//", "%"):
        return f"(({atom.left}) {atom.operator} ({atom.right}))"
    return f"{atom.operator}({atom.left}, {atom.right})"


def _term_text(factors: tuple[Atom, ...], coefficient: int) -> str:
    if not factors:
        return str(coefficient)
    product = " * ".join(map(_atom_text, factors))
    return product if coefficient == 1 else f"-{product}" if coefficient == -1 else f"{coefficient} * {product}"


def least(one: Size, other: Size) -> Size:
    """Return the smaller of two sizes, which are positive."""
    return _extreme_size("min", one, other)


def most(one: Size, other: Size) -> Size:
    """Return the larger of two sizes, which are positive."""
    return _extreme_size("max", one, other)


def _extreme_size(name: str, one: Size, other: Size) -> Size:
    difference = add(one, other, -1)
    # Sizes are positive: `n - 1` is not below 0.
    signs = {coefficient > 0 for factors, coefficient in difference.terms if factors}
    if difference.constant is None and len(signs) == 1:
        larger = one if signs == {True} else other
        return larger if name == "max" else (other if larger is one else one)
    return extreme(name, one, other)
