"""Values of expressions at a moment.

Numbers are computed exactly, as in a debugger: an ``int`` does not overflow. Division and remainder are those of C.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from typing import Final, TypeAlias

import numpy as np

from gpuemu_lsp.engine.debug.dwarf.model import Type
from gpuemu_lsp.engine.debugger.objects import OUTSIDE, Moment, Object, type_of_dtype, value_of
from gpuemu_lsp.engine.debugger.syntax import (
    CBinary,
    CConditional,
    CExpressionError,
    CLiteral,
    CMember,
    CName,
    CUnary,
    Node,
)
from gpuemu_lsp.engine.fuzz.dtypes import numpy_dtype

Scalar: TypeAlias = "int | float | str"
"""A number, or an enumerator."""
Value: TypeAlias = "Scalar | Object"
Lookup: TypeAlias = Callable[[str], "Object | None"]
"""Returns the object of a name, None for a name that is not known."""


class UnknownNameError(CExpressionError):
    """A name that nothing has."""


def evaluate(node: Node, lookup: Lookup, moment: Moment) -> Value:
    """Return the value of an expression: a number, or an object for what can be looked into.

    Raises
    ------
    CExpressionError
        If it has no value.
    """
    return _Evaluator(lookup, moment).value(node)


def decided(node: Node, lookup: Lookup, moment: Moment) -> bool | None:
    """Return whether a condition holds as far as the names that ``lookup`` has decide it, None where they do not."""
    if isinstance(node, CBinary) and node.sign in ("&&", "||"):
        sides = {decided(side, lookup, moment) for side in (node.left, node.right)}
        deciding = node.sign == "||"
        return deciding if deciding in sides else None if None in sides else not deciding
    try:
        return truth(evaluate(node, lookup, moment), moment)
    except CExpressionError:
        return None


def truth(value: Value, moment: Moment) -> bool:
    """Return whether a value is not zero."""
    return bool(number_of(value, moment))


def number_of(value: Value, moment: Moment) -> int | float:
    """Return a value as a number; a pointer as its address.

    Raises
    ------
    CExpressionError
        If it is not a number, or has no value.
    """
    if isinstance(value, int | float):
        return value
    if isinstance(value, str):
        raise CExpressionError(f"{value} is not a number")
    if value.type.kind == "array" and value.address is not None:
        return value.address
    data = moment.load(value)
    if data is None:
        raise CExpressionError(OUTSIDE if moment.is_outside(value) else "it has no value at this time")
    if value.type.kind == "pointer":
        return int.from_bytes(data[:8], "little")
    if value.type.kind == "enum":
        return value.type.number(int.from_bytes(data, "little"))
    shown = value_of(moment, value)
    if isinstance(shown, str):
        return float(shown)  # NaN and infinities
    if isinstance(shown, int | float):
        return shown
    raise CExpressionError(f"a value of the type {value.type.name or value.type.kind} is not a number")


class _Evaluator:
    def __init__(self, lookup: Lookup, moment: Moment) -> None:
        self._lookup, self._moment = lookup, moment

    def value(self, node: Node) -> Value:
        if isinstance(node, CLiteral):
            return node.value
        if isinstance(node, CName):
            object_ = self._lookup(node.text)
            if object_ is None:
                raise UnknownNameError(f"there is no variable '{node.text}' here")
            return object_
        if isinstance(node, CConditional):
            return self.value(node.first if truth(self.value(node.condition), self._moment) else node.second)
        if isinstance(node, CMember):
            return self._member(node)
        if isinstance(node, CUnary):
            return self._unary(node)
        if node.sign == "[]":
            return self._element(self.value(node.left), self._number(node.right))
        if node.sign in ("&&", "||"):
            left = truth(self.value(node.left), self._moment)
            return int(left) if left == (node.sign == "||") else int(truth(self.value(node.right), self._moment))
        return self._binary(node)

    def _number(self, node: Node) -> int | float:
        return number_of(self.value(node), self._moment)

    def _unary(self, node: CUnary) -> Value:
        operand = self.value(node.operand)
        if node.sign == "&":
            if not isinstance(operand, Object) or operand.address is None:
                raise CExpressionError("it has no address: it is in a register")
            return Object(_pointer_to(operand.type), data=operand.address.to_bytes(8, "little"))
        if node.sign == "*":
            return self._element(operand, 0)
        number = number_of(operand, self._moment)
        if node.sign in ("-", "+"):
            return -number if node.sign == "-" else number
        if node.sign == "!":
            return int(not number)
        if node.sign == "~":
            return ~_integer(number)
        with np.errstate(all="ignore"):
            converted = np.array(number).astype(numpy_dtype(node.sign))
        type_ = type_of_dtype(converted.dtype)
        return Object(type_, data=converted.tobytes())

    def _binary(self, node: CBinary) -> Value:
        left, right = self.value(node.left), self.value(node.right)
        if node.sign in ("+", "-") and (moved := self._moved(node.sign, left, right)) is not None:
            return moved
        first, second = number_of(left, self._moment), number_of(right, self._moment)
        if node.sign in _COMPARISONS:
            return int(_COMPARISONS[node.sign](first, second))
        if node.sign in _INTEGERS:
            if node.sign in ("<<", ">>") and not 0 <= second < 64:
                raise CExpressionError(f"a shift by {second} is not defined")
            return _INTEGERS[node.sign](_integer(first), _integer(second))
        if node.sign in ("/", "%"):
            return _divided(node.sign, first, second)
        return _ARITHMETIC[node.sign](first, second)

    def _moved(self, sign: str, left: Value, right: Value) -> Object | None:
        """Return a pointer some elements further, None if this is not a sum with a pointer."""
        if sign == "+" and isinstance(right, Object) and right.type.kind in ("pointer", "array"):
            left, right = right, left
        if not isinstance(left, Object) or left.type.kind not in ("pointer", "array"):
            return None
        if isinstance(right, Object) and right.type.kind in ("pointer", "array"):
            return None
        element = left.element if left.type.kind == "array" else left.type.target
        size = element.size if element is not None and element.size else 1
        steps = _integer(number_of(right, self._moment)) * (1 if sign == "+" else -1)
        address = _integer(number_of(left, self._moment)) + steps * size
        return Object(_pointer_to(element), data=(address % (1 << 64)).to_bytes(8, "little"))

    def _element(self, value: Value, number: int | float) -> Object:
        index = _integer(number)
        if not isinstance(value, Object):
            raise CExpressionError("a number has no elements")
        if value.type.kind == "array":
            if not 0 <= index < value.count:
                raise CExpressionError(f"index {index} is out of bounds of {value.count} elements")
            element = value.index(index)
            if element is not None:
                return element
        if value.type.kind == "pointer" and value.type.target is not None and value.type.target.size:
            address = _integer(number_of(value, self._moment))
            return Object(value.type.target, address + index * value.type.target.size)
        raise CExpressionError(f"a value of the type {value.type.name or value.type.kind} has no elements")

    def _member(self, node: CMember) -> Value:
        value = self.value(node.operand)
        if isinstance(value, Object) and value.type.kind == "pointer":
            value = self._element(value, 0)
        for name, member in value.members() if isinstance(value, Object) else ():
            if name == node.name:
                return member
        raise CExpressionError(f"there is no member '{node.name}'")


def _pointer_to(target: Type | None) -> Type:
    return Type("pointer", f"{target.name if target is not None else 'void'}*", 8, target=target)


def _integer(number: int | float) -> int:
    if isinstance(number, float) and not number.is_integer():
        raise CExpressionError(f"{number:g} is not an integer")
    return int(number)


def _divided(sign: str, first: int | float, second: int | float) -> int | float:
    if not second:
        raise CExpressionError("division by zero")
    if sign == "/" and (isinstance(first, float) or isinstance(second, float)):
        return first / second
    left, right = _integer(first), _integer(second)
    quotient = abs(left) // abs(right) * (1 if (left < 0) == (right < 0) else -1)
    return quotient if sign == "/" else left - quotient * right


_COMPARISONS: Final[Mapping[str, Callable[[int | float, int | float], bool]]] = {
    "==": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    ">": operator.gt,
    "<=": operator.le,
    ">=": operator.ge,
}
_INTEGERS: Final[Mapping[str, Callable[[int, int], int]]] = {
    "|": operator.or_,
    "^": operator.xor,
    "&": operator.and_,
    "<<": operator.lshift,
    ">>": operator.rshift,
}
_ARITHMETIC: Final[Mapping[str, Callable[[int | float, int | float], int | float]]] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
}
