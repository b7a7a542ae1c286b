"""Sizes from expressions of gpuemu.toml, and back."""

from __future__ import annotations

from gpuemu_lsp.engine.project.expressions import (
    Attribute,
    Binary,
    Call,
    Expression,
    Name,
    Negation,
    Node,
    Number,
    parse,
)
from gpuemu_lsp.engine.symbolic.size import (
    Size,
    TooComplexError,
    add,
    ceil_div,
    extreme,
    floor_divide,
    modulo,
    multiply,
    next_power_of_two,
    number,
    symbol,
)

_BINARY = {"+": add, "*": multiply, "//": floor_divide, "%": modulo}


def expression_of(size: Size) -> Expression:
    """Return a size as an expression."""
    return parse(str(size))


def size_of(expression: Expression, minimum: int | None = None) -> Size:
    """Return an expression as a size; ``minimum`` is the least value of its names.

    Raises
    ------
    TooComplexError
        If it has too many terms, divides by zero, or selects one of several expressions.
    """
    return _size(expression.root, minimum)


def _size(node: Node, minimum: int | None) -> Size:
    match node:
        case Number(value):
            return number(value)
        case Name(name):
            return symbol(name, minimum)
        case Attribute():
            return symbol(node.key, minimum)
        case Negation(operand):
            return -_size(operand, minimum)
        case Binary(operator, left, right):
            sides = _size(left, minimum), _size(right, minimum)
            return sides[0] - sides[1] if operator == "-" else _BINARY[operator](*sides)
        case Call(function, arguments):
            operands = [_size(one, minimum) for one in arguments]
    if function == "ceil_div":
        return ceil_div(*operands)
    if function == "next_pow2":
        return next_power_of_two(*operands)
    if function == "select":
        raise TooComplexError
    return extreme(function, *operands)
