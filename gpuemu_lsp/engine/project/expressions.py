"""The integer expressions of gpuemu.toml: ``"ceil_div(n, 256)"``, ``"4 * 256"``, ``"x.stride(0)"``.

Grammar, with Python's precedence and floor semantics for ``//`` and ``%``::

    sum     = product { ("+" | "-") product }
    product = unary { ("*" | "//" | "%") unary }
    unary   = "-" unary | atom
    atom    = integer | name | name "." "size" | name "." ("stride" | "shape") "(" integer ")"
            | ("min" | "max" | "ceil_div" | "next_pow2") "(" sum { "," sum } ")" | "(" sum ")"

Files may come from untrusted sources, so length, depth and the size of every intermediate value are limited, and no
part of an expression is evaluated by Python.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

MAX_LENGTH = 4096
"""Longest expression text, in characters."""
MAX_DEPTH = 100
"""Largest nesting of parentheses and depth of the tree (a sum of 101 terms is deeper)."""
MAX_VALUE = 2**63 - 1
"""Largest magnitude: sizes and indices on a device are 64-bit. A larger value at any step is an error, not wrapped."""

FUNCTIONS = ("ceil_div", "max", "min", "next_pow2")
ATTRIBUTES = ("shape", "size", "stride")

_TOKEN = re.compile(
    r"(?P<number>0[xX][0-9a-fA-F_]+|[0-9][0-9_]*)|(?P<name>[A-Za-z_][A-Za-z0-9_]*)|(?P<sign>//|\*\*|[-+*/%(),.])"
)
_SPACE = re.compile(r"\s*")


class ExpressionError(ValueError):
    """An invalid expression, or one without a value. ``column`` is 0-based, in characters of the text."""

    def __init__(self, message: str, column: int = 0) -> None:
        super().__init__(message)
        self.message = message
        self.column = column


@dataclass(frozen=True, slots=True)
class Number:
    """A literal."""

    value: int
    column: int = field(default=0, compare=False)


@dataclass(frozen=True, slots=True)
class Name:
    """A dim, or another name of the evaluator's environment."""

    name: str
    column: int = field(default=0, compare=False)


@dataclass(frozen=True, slots=True)
class Attribute:
    """A property of a tensor argument: ``x.size`` (elements), ``x.shape(0)``, ``x.stride(0)`` (elements)."""

    tensor: str
    attribute: str
    index: int | None = None
    column: int = field(default=0, compare=False)

    @property
    def key(self) -> str:
        """The name of the value in the environment: ``x.size``, ``x.stride(0)``."""
        suffix = "" if self.index is None else f"({self.index})"
        return f"{self.tensor}.{self.attribute}{suffix}"


@dataclass(frozen=True, slots=True)
class Negation:
    """Unary minus."""

    operand: Node
    column: int = field(default=0, compare=False)


@dataclass(frozen=True, slots=True)
class Binary:
    """``left operator right``; ``column`` is the operator's."""

    operator: str
    left: Node
    right: Node
    column: int = field(default=0, compare=False)


@dataclass(frozen=True, slots=True)
class Call:
    """``min``, ``max`` (one argument or more), ``ceil_div`` (two) or ``next_pow2`` (one).

    ``select``, which cannot be written, has the value of its second argument if the first is 1, of its third if it is
    2, and so on.
    """

    function: str
    arguments: tuple[Node, ...]
    column: int = field(default=0, compare=False)


Node: TypeAlias = "Number | Name | Attribute | Negation | Binary | Call"


@dataclass(frozen=True, slots=True)
class Expression:
    """A parsed expression. ``str()`` is its text; expressions are equal if their trees are."""

    root: Node
    text: str = field(compare=False)

    def __str__(self) -> str:
        return self.text


def parse(text: str | int) -> Expression:
    """Parse an expression; an integer is one too.

    Raises
    ------
    ExpressionError
        If the text is not in the grammar or exceeds a limit.
    """
    source = str(text) if not isinstance(text, int) or abs(text) <= MAX_VALUE else "9" * 20
    if len(source) > MAX_LENGTH:
        raise ExpressionError(f"the expression is longer than {MAX_LENGTH} characters", MAX_LENGTH)
    return Expression(_Parser(source).expression(), source)


def evaluate(expression: Expression, env: Mapping[str, int]) -> int:
    """Return the value over ``env``: dim names, and ``x.size``, ``x.stride(0)``, ``x.shape(0)`` for attributes.

    Raises
    ------
    ExpressionError
        For a name that is not in ``env``, a division by zero, or a value (also an intermediate one) beyond 64 bits.
    """
    return _value(expression.root, env)


def names(expression: Expression) -> frozenset[str]:
    """Return the names (dims) in the expression."""
    return frozenset(node.name for node in walk(expression) if isinstance(node, Name))


def attributes(expression: Expression) -> frozenset[str]:
    """Return the environment keys of the tensor properties in the expression, such as ``x.stride(0)``."""
    return frozenset(node.key for node in walk(expression) if isinstance(node, Attribute))


def constant(expression: Expression) -> int | None:
    """Return the value of an expression without names; None if it has names or no value."""
    if any(isinstance(node, Name | Attribute) for node in walk(expression)):
        return None
    try:
        return evaluate(expression, {})
    except ExpressionError:
        return None


def walk(expression: Expression) -> Iterator[Node]:
    """Yield every node, parents first, left to right."""
    pending: list[Node] = [expression.root]
    while pending:
        node = pending.pop()
        yield node
        match node:
            case Negation(operand):
                pending.append(operand)
            case Binary(_, left, right):
                pending += (right, left)
            case Call(_, arguments):
                pending.extend(reversed(arguments))
            case _:
                pass


def _value(node: Node, env: Mapping[str, int]) -> int:
    match node:
        case Number(value):
            return value
        case Name(name):
            return _lookup(name, env, node.column)
        case Attribute():
            return _lookup(node.key, env, node.column)
        case Negation(operand):
            result = -_value(operand, env)
        case Binary(operator, left, right):
            result = _apply(operator, _value(left, env), _value(right, env), node.column)
        case Call(function, arguments):
            result = _call(function, [_value(argument, env) for argument in arguments], node.column)
    if abs(result) > MAX_VALUE:
        raise ExpressionError("the value does not fit in 64 bits", node.column)
    return result


def _call(function: str, values: list[int], column: int) -> int:
    if function == "ceil_div":
        return -_apply("//", -values[0], values[1], column)
    if function == "next_pow2":
        # As triton.next_power_of_2: 1 for anything below 2.
        return 1 << max(values[0] - 1, 0).bit_length()
    if function == "select":
        if not 1 <= values[0] < len(values):
            raise ExpressionError(f"there is no choice {values[0]}", column)
        return values[values[0]]
    return min(values) if function == "min" else max(values)


def _lookup(key: str, env: Mapping[str, int], column: int) -> int:
    if key not in env:
        raise ExpressionError(f"`{key}` has no value here", column)
    return int(env[key])


def _apply(operator: str, left: int, right: int, column: int) -> int:
    if operator == "+":
        return left + right
    if operator == "-":
        return left - right
    if operator == "*":
        return left * right
    if right == 0:
        raise ExpressionError("division by zero", column)
    return left // right if operator == "//" else left % right


@dataclass(frozen=True, slots=True)
class _Token:
    kind: str  # "number" | "name" | "sign" | "end"
    text: str
    column: int


class _Parser:
    """Recursive-descent parser. Each method returns a node and the depth of its tree."""

    def __init__(self, text: str) -> None:
        self._tokens = list(_tokens(text))
        self._at = 0
        self._nesting = 0

    def expression(self) -> Node:
        node, _ = self._sum()
        token = self._next
        if token.kind != "end":
            raise _unexpected(token)
        return node

    @property
    def _next(self) -> _Token:
        return self._tokens[self._at]

    def _take(self) -> _Token:
        token = self._next
        self._at += token.kind != "end"
        return token

    def _accept(self, *signs: str) -> _Token | None:
        return self._take() if self._next.kind == "sign" and self._next.text in signs else None

    def _expect(self, sign: str) -> None:
        if self._accept(sign) is None:
            found = f"`{self._next.text}`" if self._next.text else "the end of the expression"
            raise ExpressionError(f"expected `{sign}`, found {found}", self._next.column)

    def _sum(self) -> tuple[Node, int]:
        left = self._product()
        while operator := self._accept("+", "-"):
            left = _binary(operator, left, self._product())
        return left

    def _product(self) -> tuple[Node, int]:
        left = self._unary()
        while operator := self._accept("*", "//", "%"):
            left = _binary(operator, left, self._unary())
        return left

    def _unary(self) -> tuple[Node, int]:
        # All recursion passes through here, so this count limits Python's stack.
        self._nesting += 1
        _limit(self._nesting, self._next.column)
        sign = self._accept("-")
        if sign is None:
            result = self._atom()
        else:
            operand, depth = self._unary()
            result = Negation(operand, sign.column), _limit(depth + 1, sign.column)
        self._nesting -= 1
        return result

    def _atom(self) -> tuple[Node, int]:
        token = self._take()
        if token.kind == "number":
            return Number(_integer(token), token.column), 1
        if token.kind == "name":
            if self._next.text == "(":
                return self._call(token)
            if self._accept("."):
                return self._attribute(token), 1
            return Name(token.text, token.column), 1
        if token.text == "(":
            inner = self._sum()
            self._expect(")")
            return inner
        raise _unexpected(token)

    def _call(self, name: _Token) -> tuple[Node, int]:
        if name.text not in FUNCTIONS:
            raise ExpressionError(
                f"unknown function `{name.text}`; known: `min`, `max`, `ceil_div` and `next_pow2`", name.column
            )
        self._expect("(")
        arguments = [self._sum()]
        while self._accept(","):
            arguments.append(self._sum())
        self._expect(")")
        wanted = {"ceil_div": 2, "next_pow2": 1}.get(name.text, len(arguments))
        if len(arguments) != wanted:
            count = "1 argument" if wanted == 1 else f"{wanted} arguments"
            raise ExpressionError(f"`{name.text}` takes {count}, not {len(arguments)}", name.column)
        depth = _limit(1 + max(depth for _, depth in arguments), name.column)
        return Call(name.text, tuple(node for node, _ in arguments), name.column), depth

    def _attribute(self, tensor: _Token) -> Attribute:
        attribute = self._take()
        if attribute.text not in ATTRIBUTES:
            raise ExpressionError(
                f"unknown attribute `{attribute.text}`; known: `size`, `shape(i)` and `stride(i)`",
                attribute.column,
            )
        if attribute.text == "size":
            return Attribute(tensor.text, "size", None, tensor.column)
        self._expect("(")
        index = self._take()
        if index.kind != "number":
            raise ExpressionError(
                f"the argument of `{attribute.text}` is the number of a dimension, from 0", index.column
            )
        self._expect(")")
        return Attribute(tensor.text, attribute.text, _integer(index), tensor.column)


def _tokens(text: str) -> Iterator[_Token]:
    column = _skip(text, 0)
    while column < len(text):
        match = _TOKEN.match(text, column)
        if match is None or match.lastgroup is None:
            raise ExpressionError(f"unexpected character `{text[column]}`", column)
        yield _Token(match.lastgroup, match.group(), column)
        column = _skip(text, match.end())
    yield _Token("end", "", len(text))


def _skip(text: str, column: int) -> int:
    match = _SPACE.match(text, column)
    return match.end() if match else column


def _integer(token: _Token) -> int:
    try:
        # int() raises for a literal of thousands of digits too.
        value = int(token.text, 16 if token.text[:2] in ("0x", "0X") else 10)
    except ValueError:
        raise ExpressionError(f"`{token.text[:40]}` is not a number", token.column) from None
    if value > MAX_VALUE:
        raise ExpressionError("the number does not fit in 64 bits", token.column)
    return value


def _binary(operator: _Token, left: tuple[Node, int], right: tuple[Node, int]) -> tuple[Node, int]:
    depth = _limit(1 + max(left[1], right[1]), operator.column)
    return Binary(operator.text, left[0], right[0], operator.column), depth


def _limit(depth: int, column: int) -> int:
    if depth > MAX_DEPTH:
        raise ExpressionError(f"the expression is nested deeper than {MAX_DEPTH} levels", column)
    return depth


def _unexpected(token: _Token) -> ExpressionError:
    if token.kind == "end":
        return ExpressionError("expected a number or a name, found the end of the expression", token.column)
    if token.text == "/":
        return ExpressionError("there is no operator `/`; use `//` (rounds down) or `ceil_div(a, b)`", token.column)
    if token.text == "**":
        return ExpressionError("there is no operator `**`; write the product or the number", token.column)
    return ExpressionError(f"unexpected `{token.text}`", token.column)
