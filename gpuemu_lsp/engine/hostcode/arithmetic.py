"""Operators of host code."""

from __future__ import annotations

import math
from dataclasses import replace

from gpuemu_lsp.engine.hostcode.values import (
    Choice,
    Closure,
    DataType,
    FloatValue,
    HostFunctionName,
    Pointer,
    Ranged,
    RecordValue,
    StringValue,
    Tensor,
    Undetermined,
    Unknown,
    Value,
    is_null,
)
from gpuemu_lsp.engine.symbolic.conditions import SWAPPED, Condition
from gpuemu_lsp.engine.symbolic.size import (
    ONE,
    UNKNOWN_OFFSET,
    ZERO,
    Size,
    add,
    divide,
    floor_divide,
    multiply,
    number,
    remainder,
    symbol,
)

_COMPARISONS = frozenset({"==", "!=", "<", "<=", ">", ">="})
_FLOATS = frozenset({"float32", "float16", "bfloat16"})
"""Types that tensors without one may have."""


def both(left: Condition, right: Condition) -> Condition:
    """Return the conjunction of two conditions."""
    if False in (left.value, right.value):
        return Condition(False)
    if left.value:
        return right
    return left if right.value else Condition(None, "&&", parts=(left, right))


def truth(value: Value) -> Condition:
    """Return a value as a condition."""
    if isinstance(value, Condition):
        return value
    if isinstance(value, Size):
        known = value.constant
        return Condition(known != 0) if known is not None else Condition(None, "!=", value, ZERO)
    if isinstance(value, Pointer):
        return Condition(value.allocation is not None)
    if isinstance(value, StringValue) and value.text:
        return Condition(True)
    return Condition(True if isinstance(value, HostFunctionName | Choice | Tensor | DataType) else None)


def operate(operator: str, left: Value, right: Value) -> Value:
    """Return the result of a binary operator."""
    left, right = promoted(left), promoted(right)
    if isinstance(left, Pointer) and isinstance(right, Size) and operator in ("+", "-"):
        # Elements may have a type whose size is not known.
        bytes_ = symbol(UNKNOWN_OFFSET) if left.element is None else multiply(right, number(left.element))
        return Pointer(left.allocation, add(left.offset, bytes_, 1 if operator == "+" else -1), left.element, left.type)
    if operator == "+" and isinstance(left, Unknown | Ranged) and isinstance(right, Pointer):
        left, right = right, left
    if operator == "+" and isinstance(left, Pointer) and isinstance(right, Unknown | Ranged):
        return Pointer(left.allocation, add(left.offset, symbol(UNKNOWN_OFFSET)), left.element, left.type)
    if isinstance(left, Size) and isinstance(right, Size):
        return _integers(operator, left, right)
    if operator in _COMPARISONS:
        if isinstance(left, FloatValue) and isinstance(right, FloatValue) and None not in (left.value, right.value):
            return Condition(_compare(operator, left.value or 0.0, right.value or 0.0))
        if operator in ("==", "!="):
            same = _same(left, right)
            return Condition(None if same is None else same == (operator == "=="))
        return _open_comparison(operator, left, right)
    if operator == "**" and (isinstance(left, FloatValue) or isinstance(right, FloatValue)):
        return FloatValue()
    if isinstance(left, FloatValue) or isinstance(right, FloatValue):
        result = reals("/" if operator == "real/" else operator, real(left), real(right))
        return replace(result, type=_common_type(left, right))
    if isinstance(left, Ranged) or isinstance(right, Ranged):
        return _ranged(operator, left, right)
    return Unknown()


def _same(left: Value, right: Value) -> bool | None:
    """Return whether two values that are not numbers are equal; None where that is not known."""
    for value, other in ((left, right), (right, left)):
        if is_null(value):
            known = isinstance(other, Tensor | StringValue | DataType | Closure | RecordValue | FloatValue | Condition)
            known = known or (isinstance(other, Size) and other.constant != 0)
            return True if is_null(other) else False if known else None
    if isinstance(left, StringValue) and isinstance(right, StringValue):
        return left == right if left.text and right.text else None
    if isinstance(left, DataType) and isinstance(right, DataType):
        if left != right and "" in (left.name, right.name):
            return None if {left.name, right.name} & _FLOATS else False
        return left.name == right.name
    return None


def _open_comparison(operator: str, left: Value, right: Value) -> Condition:
    """Return a comparison of a size with a value that is not known, which may exclude sizes."""
    if isinstance(left, Size):
        return Condition(None, operator, left)
    return Condition(None, SWAPPED[operator], right) if isinstance(right, Size) else Condition()


def promoted(value: Value) -> Value:
    """Return a known condition as an integer; other values unchanged."""
    if isinstance(value, Condition) and value.value is not None:
        return number(int(value.value))
    return value


def _compare(operator: str, left: float, right: float) -> bool:
    return {
        "==": left == right,
        "!=": left != right,
        "<": left < right,
        "<=": left <= right,
        ">": left > right,
        ">=": left >= right,
    }[operator]


def _integers(operator: str, left: Size, right: Size) -> Value:
    if operator in _COMPARISONS:
        difference = add(left, right, -1).constant
        if difference is not None:
            return Condition(_compare(operator, difference, 0))
        return Condition(None, operator, left, right)
    if operator == "+":
        return add(left, right)
    if operator == "-":
        return add(left, right, -1)
    if operator == "*":
        return multiply(left, right)
    if operator == "/":
        return divide(left, right)
    if operator == "//":
        return floor_divide(left, right)
    if operator == "real/":
        return reals("/", real(left), real(right))
    if operator == "%":
        return remainder(left, right)
    first, second = left.constant, right.constant
    if operator == "**":
        small = first is not None and second is not None and 0 <= second < 40
        return number(int((first or 0) ** (second or 0))) if small else Unknown()
    if operator in ("<<", ">>") and second is not None and 0 <= second < 62:
        return multiply(left, number(1 << second)) if operator == "<<" else divide(left, number(1 << second))
    if first is not None and second is not None and operator in ("&", "|", "^"):
        return number({"&": first & second, "|": first | second, "^": first ^ second}[operator])
    if operator == "&" and second is not None and second > 0 and second & (second + 1) == 0:
        return remainder(left, number(second + 1))
    if operator == "&" and second is not None and second < 0 and -second & (-second - 1) == 0:
        return multiply(divide(left, number(-second)), number(-second))  # `n & ~31`
    return Unknown()


def real(value: Value) -> FloatValue:
    """Return a value as a floating-point number."""
    if isinstance(value, Size):
        known = value.constant
        return FloatValue(value, ONE, None if known is None else float(known))
    return value if isinstance(value, FloatValue) else FloatValue()


def _common_type(left: Value, right: Value) -> str:
    """Return the floating-point type of a result, empty if it is not known. Integers have no part in it."""
    numbers = [value for value in (left, right) if not isinstance(value, Size)]
    types = {value.type if isinstance(value, FloatValue) else "" for value in numbers}
    return types.pop() if len(types) == 1 else ""


def typed_real(value: Value, dtype: str) -> Value:
    """Return a number as a floating-point number of a type; values that are not known as numbers unchanged."""
    if isinstance(value, Undetermined):
        value = value.number
    return replace(real(value), type=dtype) if isinstance(value, Size | FloatValue) else value


def reals(operator: str, left: FloatValue, right: FloatValue) -> FloatValue:
    """Return the result of an operator on floating-point numbers."""
    value = None
    if left.value is not None and right.value is not None:
        try:
            value = {
                "+": left.value + right.value,
                "-": left.value - right.value,
                "*": left.value * right.value,
                "/": left.value / right.value if right.value else math.inf,
            }.get(operator)
        except OverflowError:
            value = None
    if None in (left.top, left.bottom, right.top, right.bottom):
        return FloatValue(None, None, value)
    assert left.top is not None and left.bottom is not None and right.top is not None and right.bottom is not None
    if operator == "*":
        return FloatValue(multiply(left.top, right.top), multiply(left.bottom, right.bottom), value)
    if operator == "/":
        return FloatValue(multiply(left.top, right.bottom), multiply(left.bottom, right.top), value)
    if operator in ("+", "-"):
        top = add(multiply(left.top, right.bottom), multiply(right.top, left.bottom), 1 if operator == "+" else -1)
        return FloatValue(top, multiply(left.bottom, right.bottom), value)
    return FloatValue(None, None, value)


def _ranged(operator: str, left: Value, right: Value) -> Value:
    if isinstance(left, Ranged) and isinstance(right, Size):
        if operator == "%":
            return Ranged(ZERO, right)
        if operator == "&" and right.constant is not None and right.constant >= 0:
            return Ranged(ZERO, add(right, ONE))
        if operator in ("+", "-"):
            sign = 1 if operator == "+" else -1
            return Ranged(add(left.low, right, sign), add(left.high, right, sign))
        if operator == "/" and (right.constant or 0) > 0:
            return Ranged(divide(left.low, right), add(divide(add(left.high, ONE, -1), right), ONE))
        if operator == "*" and (right.constant is None or right.constant > 0):
            return Ranged(multiply(left.low, right), add(multiply(add(left.high, ONE, -1), right), ONE))
    if isinstance(right, Ranged) and isinstance(left, Size) and operator == "+":
        return Ranged(add(right.low, left), add(right.high, left))
    if isinstance(right, Ranged) and isinstance(left, Size) and operator == "*":
        return _ranged("*", right, left)
    if isinstance(left, Ranged) and isinstance(right, Ranged) and operator == "+":
        return Ranged(add(left.low, right.low), add(add(left.high, right.high), ONE, -1))
    return Unknown("int")


def low_bits(value: Size, dtype: str) -> Size:
    """Return an integer as the value of a narrow parameter, which takes the low bits."""
    bits = {"int8": 8, "uint8": 8, "int16": 16, "uint16": 16}.get(dtype)
    known = value.constant
    if bits is None or (known is not None and 0 <= known < 1 << (bits - 1)):
        return value
    half = number(0 if dtype.startswith("u") else 1 << (bits - 1))
    return add(remainder(add(value, half), number(1 << bits)), half, -1)


def truncated(value: FloatValue) -> Size | None:
    """Return a floating-point number converted to an integer."""
    if value.value is not None and abs(value.value) < 2**62:
        return number(int(value.value))
    if value.top is not None and value.bottom is not None:
        return divide(value.top, value.bottom)
    return None
