"""Integers that know the expression they come from.

The function that builds a kernel computes shapes and its grid from its arguments. It is called once with integers of
this kind, and what it computes with them are expressions over the dims of gpuemu.toml.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from gpuemu_lsp.engine.project.expressions import Attribute, Binary, Call, Expression, Name, Negation, Node, Number

_DEEPEST: Final = 40
"""Nested operations beyond which a value is taken for a constant."""


class SymbolicInt(int):
    """An integer with its expression. Operations whose result is not in the grammar of expressions return plain ones.

    ``depth`` is the number of nested operations.
    """

    node: Node
    depth: int

    def __new__(cls, value: int, node: Node, depth: int = 0) -> SymbolicInt:
        """Return an integer of a value, which its expression has in one case."""
        found = super().__new__(cls, value)
        found.node, found.depth = node, depth
        return found

    def __neg__(self) -> int:
        return SymbolicInt(-int(self), Negation(self.node), self.depth + 1)

    def __lshift__(self, other: int) -> int:
        return self * (1 << other)

    def __rshift__(self, other: int) -> int:
        return self // (1 << other)


def _operation(operator: str, compute: Callable[[int, int], int], *, swapped: bool) -> Any:
    def operation(self: SymbolicInt, other: Any) -> Any:
        if type(other) is not int and not isinstance(other, SymbolicInt):
            return NotImplemented if not isinstance(other, int) else compute(*_ordered(int(self), int(other), swapped))
        value = compute(*_ordered(int(self), int(other), swapped))
        depth = max(self.depth, other.depth if isinstance(other, SymbolicInt) else 0) + 1
        if depth > _DEEPEST:
            return value
        left, right = _ordered(self.node, _node(other), swapped)
        return SymbolicInt(value, Binary(operator, left, right), depth)

    return operation


def _ordered(first: Any, second: Any, swapped: bool) -> tuple[Any, Any]:
    return (second, first) if swapped else (first, second)


for _name, _operator, _compute in (
    ("add", "+", lambda a, b: a + b),
    ("sub", "-", lambda a, b: a - b),
    ("mul", "*", lambda a, b: a * b),
    ("floordiv", "//", lambda a, b: a // b),
    ("mod", "%", lambda a, b: a % b),
):
    setattr(SymbolicInt, f"__{_name}__", _operation(_operator, _compute, swapped=False))
    setattr(SymbolicInt, f"__r{_name}__", _operation(_operator, _compute, swapped=True))


def symbolic(value: int, expression: Expression) -> SymbolicInt:
    """Return an integer with an expression whose value it is in one case."""
    return SymbolicInt(value, expression.root)


def expression_of(value: int) -> Expression:
    """Return the expression of an integer, a constant for a plain one."""
    node = _node(value)
    return Expression(node, _text(node))


def _node(value: int) -> Node:
    if isinstance(value, SymbolicInt):
        return value.node
    return Negation(Number(-int(value))) if value < 0 else Number(int(value))


def _text(node: Node) -> str:
    """Return an expression as it is written."""
    match node:
        case Number(value):
            return str(value)
        case Name(name):
            return name
        case Attribute():
            return node.key
        case Negation(operand):
            return f"-{_inner(operand)}"
        case Binary(operator, left, right):
            return f"{_inner(left)} {operator} {_inner(right)}"
        case Call(function, arguments):
            return f"{function}({', '.join(map(_text, arguments))})"


def _inner(node: Node) -> str:
    return f"({_text(node)})" if isinstance(node, Binary | Negation) else _text(node)
