"""The nodes in a node."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields

from gpuemu_lsp.engine.hostcode.ir import (
    AddressOf,
    BinaryOperation,
    CallExpression,
    Constant,
    Dereference,
    Expression,
    FieldAccess,
    NameUse,
    Node,
    SizeOf,
    Subscript,
    UnaryOperation,
)

_PLAIN = frozenset(
    {"span", "name", "type", "operator", "before", "arrow", "names", "kind", "scope", "first", "harmless"}
)
"""Fields without nodes."""


_known_fields: dict[type[Node], tuple[str, ...]] = {}


def _fields_of(node: Node) -> tuple[str, ...]:
    """Return the fields of a node that may have other nodes."""
    kind = type(node)
    if kind not in _known_fields:
        _known_fields[kind] = tuple(each.name for each in fields(node) if each.name not in _PLAIN)
    return _known_fields[kind]


def children(node: Node) -> Iterator[Node]:
    """Yield the nodes in a node, in the order in which they are written."""
    for name in _fields_of(node):
        value = getattr(node, name)
        if isinstance(value, tuple):
            for item in value:
                inner = item[1] if type(item) is tuple else item
                if hasattr(inner, "__dataclass_fields__"):
                    yield inner
        elif hasattr(value, "__dataclass_fields__"):
            yield value


def walk(node: Node) -> Iterator[Node]:
    """Yield a node and all nodes in it, each before those in it."""
    pending = [node]
    while pending:
        here = pending.pop()
        yield here
        pending += reversed([*children(here)])


def names_in(node: Node) -> frozenset[str]:
    """Return the names that some code uses, without their scopes."""
    return frozenset(one.base for one in walk(node) if isinstance(one, NameUse))


def written(node: Expression) -> str:
    """Return the place that an expression stands for as it is written: ``n``, ``p->size``, ``a[i].x``."""
    match node:
        case NameUse():
            return node.name
        case FieldAccess():
            return f"{written(node.base)}{'->' if node.arrow else '.'}{node.name}"
        case Subscript():
            return f"{written(node.base)}[{written(node.index)}]"
        case Dereference():
            return f"*{written(node.operand)}"
        case AddressOf():
            return f"&{written(node.operand)}"
        case Constant():
            return str(node.value)
        case CallExpression():
            return f"{written(node.callee)}({', '.join(map(written, node.arguments))})"
        case BinaryOperation():
            return f"{written(node.left)} {node.operator} {written(node.right)}"
        case _:
            return ""


def is_number(code: Expression | None) -> bool:
    """Return whether an initialiser is a number, or computed from numbers and sizes of types."""
    match code:
        case Constant(value=value):
            return isinstance(value, int) and not isinstance(value, bool)
        case BinaryOperation(operator=operator):
            return operator in ("+", "-", "*", "/", "<<") and is_number(code.left) and is_number(code.right)
        case UnaryOperation(operator="-" | "+"):
            return is_number(code.operand)
        case SizeOf():
            return True
    return False
