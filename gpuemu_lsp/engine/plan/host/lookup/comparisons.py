"""What a comparison on the path to a launch, or an extent of its grid, says about one size."""

from __future__ import annotations

import math

from gpuemu_lsp.engine.symbolic.size import (
    Size,
    SizeOperation,
    SizeSymbol,
    add,
    atoms,
    divide,
    multiply,
    number,
    symbol,
    symbols,
)

_MAX_STEP = 2048
_MAX_FEWER, _LEAST_BLOCK = 2, 32


def in_order(left: Size, right: Size, operator: str) -> tuple[Size, Size]:
    """Return the sides of ``<=`` or ``>=``, the one that is not greater first."""
    return (left, right) if operator == "<=" else (right, left)


def single(value: Size) -> str | None:
    """Return the name of a polynomial that is one symbol."""
    if len(value.terms) == 1 and value.terms[0][1] == 1 and len(value.terms[0][0]) == 1:
        atom = value.terms[0][0][0]
        return atom.name if isinstance(atom, SizeSymbol) else None
    return None


def solved(difference: Size) -> tuple[str, Size] | None:
    """Return a symbol and its value where a sum with one symbol is zero: ``n - 4`` says that ``n`` is 4."""
    names = symbols(difference)
    for factors, coefficient in difference.terms:
        atom = factors[0] if len(factors) == 1 else None
        if isinstance(atom, SizeSymbol) and len(names) == 1 and abs(coefficient) == 1:
            rest = add(difference, multiply(symbol(atom.name), number(coefficient)), -1)
            return (atom.name, multiply(rest, number(-coefficient))) if rest.constant is not None else None
    return None


def divided(value: Size) -> tuple[str, int] | None:
    """Return name and divisor of ``n % 16``; for ``8 * n % 128`` the divisor is 16."""
    if len(value.terms) == 1 and len(value.terms[0][0]) == 1:
        atom = value.terms[0][0][0]
        if isinstance(atom, SizeOperation) and atom.operator == "%":
            left, divisor = atom.left, atom.right.constant
            coefficient = left.terms[0][1] if len(left.terms) == 1 else 0
            name = single(divide(left, number(coefficient))) if coefficient > 0 else None
            if name is not None and divisor is not None and 0 < divisor <= _MAX_STEP:
                return name, divisor // math.gcd(divisor, coefficient)
    return None


def within(left: Size, right: Size) -> tuple[str, int, int] | None:
    """Return a symbol and its bounds, both included, where a quotient is a number: ``(n + 31) // 32 - 1 == 2``."""
    difference = add(left, right, -1)
    quotients = [(factors, one) for factors, one in difference.terms if factors]
    atom = quotients[0][0][0] if len(quotients) == 1 and len(quotients[0][0]) == 1 and quotients[0][1] == 1 else None
    if not isinstance(atom, SizeOperation) or atom.operator not in ("//", "ceil_div"):
        return None
    divisor = atom.right.constant
    value = -sum(one for factors, one in difference.terms if not factors)
    offset = sum(one for factors, one in atom.left.terms if not factors)
    name = single(add(atom.left, number(offset), -1))
    if name is None or divisor is None or divisor <= 0:
        return None
    first = value * divisor - offset - (divisor - 1 if atom.operator == "ceil_div" else 0)
    return name, first, first + divisor - 1


def rounds_up(extent: Size, name: str) -> bool:
    """Return whether a grid has blocks for every value of a size: it is rounded up, or has a block for each."""
    if any(SizeSymbol(name) in factors for factors, _ in extent.terms):
        return True
    for atom in atoms(extent):
        if not isinstance(atom, SizeOperation):
            continue
        if atom.operator in ("min", "max") and any(rounds_up(operand, name) for operand in atom.operands):
            return True
        if atom.operator == "ceil_div" and any(SizeSymbol(name) in factors for factors, _ in atom.left.terms):
            # `(n - 1 + 255) // 256` rounds up the number of rows `n - 1` of `n` row pointers.
            fewer = _MAX_FEWER if (atom.right.constant or 0) >= _LEAST_BLOCK else 0
            if atom.left.offset >= -fewer:
                return True
    return False
