"""Constants of a module: literals, and arithmetic of numbers."""

from __future__ import annotations

import operator
from collections.abc import Callable

from tree_sitter import Node

from gpuemu_lsp.engine.source.python.module_scope import ModuleScope
from gpuemu_lsp.engine.source.python.syntax import literal, text_of

MAX_DEPTH = 32
"""Nesting of expressions and assignments, at most: a name may be assigned an expression of itself."""
_MAX_BITS = 256

_OPERATORS: dict[str, Callable[[int | float, int | float], int | float]] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "/": operator.truediv,
    "//": operator.floordiv,
    "%": operator.mod,
}


class UnknownText(Exception):  # noqa: N818 - a result, not an error
    """The value is known only when the program runs; the message is the expression, ``node`` its syntax."""

    def __init__(self, node: Node) -> None:
        super().__init__(shown(node))
        self.node = node


def constant(node: Node, scope: ModuleScope, depth: int = 0) -> object:
    """Return the value of a literal, of arithmetic of numbers, or of a name that is assigned one.

    Raises
    ------
    UnknownText
        If it is none of these.
    """
    if depth > MAX_DEPTH:
        raise UnknownText(node)
    if node.type in ("identifier", "attribute"):
        parts = scope.lookup(node)
        if parts is None or len(parts) != 1:
            raise UnknownText(node)
        return constant(parts[0][0], parts[0][1], depth + 1)
    if node.type == "parenthesized_expression" and len(node.named_children) == 1:
        return constant(node.named_children[0], scope, depth + 1)
    if node.type in ("binary_operator", "unary_operator"):
        return _number(node, scope, depth)
    if node.type == "subscript":
        return _item(node, scope, depth)
    if node.type == "call" and text_of(node.child_by_field_name("function")) in ("int", "str"):
        arguments = node.child_by_field_name("arguments")
        if arguments is not None and len(arguments.named_children) == 1:
            value = constant(arguments.named_children[0], scope, depth + 1)
            return str(value) if text_of(node).startswith("str") else _whole(value, node)
    value = literal(node)
    if value is None and node.type != "none":
        raise UnknownText(node)
    return value


def _whole(value: object, node: Node) -> int:
    if not isinstance(value, int | float):
        raise UnknownText(node)
    return int(value)


def _number(node: Node, scope: ModuleScope, depth: int) -> int | float:
    sides = [node.child_by_field_name(name) for name in ("left", "right", "argument")]
    values = [constant(side, scope, depth + 1) for side in sides if side is not None]
    sign = text_of(node.child_by_field_name("operator"))
    numbers = [value for value in values if isinstance(value, int | float) and abs(value) < 1 << _MAX_BITS]
    if len(numbers) != len(values):
        raise UnknownText(node)
    if len(numbers) == 1 and sign in ("-", "+"):
        return -numbers[0] if sign == "-" else numbers[0]
    if len(numbers) == 2 and sign in ("<<", ">>", "**"):
        left, right = numbers
        if isinstance(left, int) and isinstance(right, int) and 0 <= right < _MAX_BITS and abs(left) < 1 << 32:
            return left**right if sign == "**" and right <= 8 else left << right if sign == "<<" else left >> right
    if len(numbers) == 2 and sign in _OPERATORS and not (sign in ("/", "//", "%") and numbers[1] == 0):
        return _OPERATORS[sign](numbers[0], numbers[1])
    raise UnknownText(node)


def _item(node: Node, scope: ModuleScope, depth: int) -> object:
    """Return an element of a literal dictionary, list or tuple."""
    value, key = node.child_by_field_name("value"), node.child_by_field_name("subscript")
    if value is None or key is None:
        raise UnknownText(node)
    container, wanted = constant(value, scope, depth + 1), constant(key, scope, depth + 1)
    try:
        if isinstance(container, dict | list | tuple):
            return container[wanted]  # type: ignore[call-overload]
    except (KeyError, IndexError, TypeError):
        pass
    raise UnknownText(node)


def shown(node: Node) -> str:
    """Return an expression on one line, shortened."""
    text = " ".join(text_of(node).split())
    return text if len(text) <= 40 else f"{text[:37]}..."
