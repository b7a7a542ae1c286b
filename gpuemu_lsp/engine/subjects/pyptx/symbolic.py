"""Integers that know the size they are.

The function that builds a kernel computes shapes and its grid from its arguments. It is called once with integers of
this kind, and what it computes with them are sizes over the dims of gpuemu.toml.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any, Final

from gpuemu_lsp.engine.project.expressions import MAX_LENGTH, Expression
from gpuemu_lsp.engine.symbolic import expressions
from gpuemu_lsp.engine.symbolic.size import Size, TooComplexError, add, floor_divide, modulo, multiply, number

_LONGEST: Final = MAX_LENGTH // 8
"""Length of the text of a size, in characters, beyond which a value is taken for a constant."""


class SymbolicInt(int):
    """An integer with its size. Operations whose result is not a size return plain integers."""

    size: Size

    def __new__(cls, value: int, size: Size) -> SymbolicInt:
        """Return an integer of a value, which its size has in one case."""
        made = super().__new__(cls, value)
        made.size = size
        return made

    def __neg__(self) -> int:
        return SymbolicInt(-int(self), -self.size)

    def __lshift__(self, other: int) -> int:
        return self * (1 << other)

    def __rshift__(self, other: int) -> int:
        return self // (1 << other)


def _operation(apply: Callable[[Size, Size], Size], compute: Callable[[int, int], int], *, swapped: bool) -> Any:
    def operation(self: SymbolicInt, other: Any) -> Any:
        if not isinstance(other, int):
            return NotImplemented
        value = compute(*_ordered(int(self), int(other), swapped))
        if type(other) is not int and not isinstance(other, SymbolicInt):
            return value
        try:
            size = apply(*_ordered(self.size, _size(other), swapped))
        except TooComplexError:
            return value
        return SymbolicInt(value, size) if len(str(size)) <= _LONGEST else value

    return operation


def _ordered(first: Any, second: Any, swapped: bool) -> tuple[Any, Any]:
    return (second, first) if swapped else (first, second)


for _name, _apply, _compute in (
    ("add", add, operator.add),
    ("sub", Size.__sub__, operator.sub),
    ("mul", multiply, operator.mul),
    ("floordiv", floor_divide, operator.floordiv),
    ("mod", modulo, operator.mod),
):
    setattr(SymbolicInt, f"__{_name}__", _operation(_apply, _compute, swapped=False))
    setattr(SymbolicInt, f"__r{_name}__", _operation(_apply, _compute, swapped=True))


def symbolic(value: int, expression: Expression) -> SymbolicInt:
    """Return an integer with an expression whose value it is in one case."""
    return SymbolicInt(value, expressions.size_of(expression, minimum=1))


def expression_of(value: int) -> Expression:
    """Return the expression of an integer, a constant for a plain one."""
    return expressions.expression_of(_size(value))


def _size(value: int) -> Size:
    return value.size if isinstance(value, SymbolicInt) else number(int(value))
