"""Symbolic values of expressions in a function that launches kernels. Sizes are expressions over dims."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

from tree_sitter import Node as Syntax

from gpuemu_lsp.engine.project.expressions import (
    Binary,
    Call,
    Expression,
    ExpressionError,
    Name,
    Negation,
    Node,
    Number,
    constant,
    parse,
)
from gpuemu_lsp.engine.source.python.module_scope import ModuleScope

MAX_TEXT = 512
"""Longest text of a size; longer ones are not known."""


@dataclass(frozen=True, slots=True)
class UnknownValue:
    """A value that only a run determines; ``reason`` is the expression."""

    reason: str


@dataclass(frozen=True, slots=True)
class LiteralValue:
    """A float, boolean, text or None."""

    value: float | bool | str | None


@dataclass(frozen=True, slots=True)
class Quotient(LiteralValue):
    """The float ``left / right`` of two integers, which ``math.ceil`` or ``int`` makes an integer again."""

    left: Expression
    right: Expression


@dataclass(frozen=True, slots=True)
class DataType:
    """A dtype of PyTorch by its name in NumPy; empty for that of the parameters, which the check chooses."""

    name: str


@dataclass(frozen=True, slots=True)
class ValueSequence:
    """A tuple or list."""

    items: tuple[Value, ...]


@dataclass(frozen=True, slots=True)
class BoundKernel:
    """A kernel with its grid: ``kernel[grid]``."""

    kernel: str
    grid: Value


@dataclass(frozen=True, slots=True)
class LocalFunction:
    """A function or lambda of the module, or of ``module`` if that is another one.

    ``names`` are the variables that it sees, ``owner`` is the object of a method.
    """

    node: Syntax
    names: Mapping[str, Value] = field(compare=False, repr=False)
    owner: Value | None = field(default=None, compare=False, repr=False)
    module: ModuleScope | None = field(default=None, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class DottedName:
    """A name of another module, such as ``torch.empty``; or a kernel of this one."""

    text: str


@dataclass(frozen=True, slots=True)
class Layer:
    """A layer of ``torch.nn``, which returns a tensor of another shape when it is called."""

    name: str


@dataclass(slots=True, eq=False)
class Storage:
    """The memory of a tensor.

    ``state`` is ``given`` (a parameter), ``empty`` (not initialised) or ``filled``. ``bounds`` are those of integers,
    half-open. ``certain``: the extents are known, not assumed. ``shared``: something besides the launch may use it.
    """

    name: str
    shape: tuple[Expression, ...]
    dtype: str
    state: str
    certain: bool = True
    bounds: tuple[Expression, Expression] | None = None
    shared: bool = False
    launches: int = 0


@dataclass(frozen=True, slots=True)
class SymbolicTensor:
    """A tensor; ``strides`` in elements, None for a contiguous one."""

    storage: Storage
    shape: tuple[Expression, ...]
    dtype: str
    strides: tuple[Expression, ...] | None = None
    offset: Expression | None = None
    """The index of the first element in the storage, in elements; None for 0."""

    def stride(self, axis: int) -> Expression:
        """Return the distance of neighbours along an axis, in elements."""
        if self.strides is not None:
            return self.strides[axis]
        return product(self.shape[axis % len(self.shape) + 1 :])


@dataclass(slots=True, eq=False)
class ObjectValue:
    """An object of a class of the module, or a dictionary; ``methods`` are those of the class."""

    methods: Mapping[str, Syntax]
    attributes: dict[str, Value] = field(default_factory=dict)
    complete: bool = True
    """A dictionary has no other keys."""


@dataclass(frozen=True, slots=True)
class Parameter:
    """A parameter of the evaluated function: a number or a tensor, depending on its use."""

    name: str


Value: TypeAlias = (
    "Expression | UnknownValue | LiteralValue | DataType | ValueSequence | LocalFunction | DottedName"
    " | SymbolicTensor | Parameter | ObjectValue | BoundKernel | Layer"
)
Evaluate: TypeAlias = Callable[[Syntax], Value]


def size(value: int) -> Expression:
    """Return the expression of a number."""
    return parse(value)


def named(name: str) -> Expression:
    """Return the expression of a dim."""
    return Expression(Name(name), name)


def product(factors: tuple[Expression, ...]) -> Expression:
    """Return the product of sizes, 1 for none."""
    result = size(1)
    for one in factors:
        result = combined("*", result, one)
    return result


def combined(operator: str, left: Expression, right: Expression) -> Expression:
    """Return the simplified result of an operator of gpuemu.toml's expressions.

    Raises
    ------
    ExpressionError
        If it has no value, or is too long.
    """
    if operator == "*" and constant(left) == 1:
        return right
    if operator == "*" and 0 in (constant(left), constant(right)):
        return size(0)
    if (operator == "*" and constant(right) == 1) or (operator == "//" and constant(right) == 1):
        return left
    if operator in ("+", "-") and constant(right) == 0:
        return left
    if operator == "//" and left == right:
        return size(1)
    if (
        operator == "//"
        and isinstance(left.root, Binary)
        and left.root.operator == "*"
        and left.root.right == right.root
    ):
        return rebuilt(left.root.left, {})
    return _folded(
        Expression(Binary(operator, left.root, right.root), f"{_operand(left)} {operator} {_operand(right)}")
    )


def applied(function: str, *arguments: Expression) -> Expression:
    """Return the value of ``min``, ``max``, ``ceil_div`` or ``next_pow2``.

    Raises
    ------
    ExpressionError
        If it is too long.
    """
    text = f"{function}({', '.join(map(str, arguments))})"
    return _folded(Expression(Call(function, tuple(one.root for one in arguments)), text))


def negated(value: Expression) -> Expression:
    """Return the negative of a number."""
    return _folded(Expression(Negation(value.root), f"-{_operand(value)}"))


def _folded(expression: Expression) -> Expression:
    value = constant(expression)
    if value is not None:
        return Expression(parse(value).root, str(value))
    if len(expression.text) > MAX_TEXT:
        raise ExpressionError("the expression is too long")
    return expression


def _operand(expression: Expression) -> str:
    return f"({expression})" if isinstance(expression.root, Binary | Negation) else str(expression)


def substituted(expression: Expression, values: Mapping[str, Expression]) -> Expression:
    """Return an expression with dims replaced; its text too."""
    return rebuilt(expression.root, values)


def rebuilt(node: Node, values: Mapping[str, Expression]) -> Expression:
    """Return the simplified expression of a tree with dims replaced."""
    match node:
        case Name(name):
            return values.get(name, named(name))
        case Binary(operator, left, right):
            return combined(operator, rebuilt(left, values), rebuilt(right, values))
        case Negation(operand):
            return negated(rebuilt(operand, values))
        case Call(function, arguments):
            return applied(function, *(rebuilt(one, values) for one in arguments))
        case _:
            return Expression(node, str(getattr(node, "value", node)))


def ceiling(sign: str, left: Expression, right: Expression) -> Expression | None:
    """Return ``(n + b - 1) // b`` as ``ceil_div(n, b)``; None for any other quotient."""
    root = left.root
    if sign != "//" or not isinstance(root, Binary):
        return None
    less, one = constant(right), Number(1)
    rounded: Node | None = None
    if root.operator == "-" and root.right == one and isinstance(root.left, Binary) and root.left.operator == "+":
        terms = (root.left.left, root.left.right)
        rounded = next((terms[1 - at] for at in (1, 0) if terms[at] == right.root), None)
    elif root.operator == "+" and isinstance(root.right, Binary) and root.right.operator == "-":
        rounded = root.left if root.right.left == right.root and root.right.right == one else None
    elif root.operator == "+" and less is not None and less > 1 and root.right == Number(less - 1):
        rounded = root.left
    return applied("ceil_div", rebuilt(rounded, {}), right) if rounded is not None else None


def rounded_up_quotient(value: Expression) -> Expression | None:
    """Return ``ceil_div(n, b)`` for the operand ``-n // b`` of a negation; None for any other operand."""
    root = value.root
    if not isinstance(root, Binary) or root.operator != "//" or not isinstance(root.left, Negation):
        return None
    return applied("ceil_div", rebuilt(root.left.operand, {}), rebuilt(root.right, {}))
