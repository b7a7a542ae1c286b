"""Comparisons of symbolic values."""

from __future__ import annotations

from typing import Final

from gpuemu_lsp.engine.plan.wrappers.values import (
    DataType,
    LiteralValue,
    Parameter,
    UnknownValue,
    Value,
    ValueSequence,
)
from gpuemu_lsp.engine.symbolic.conditions import COMPARISONS
from gpuemu_lsp.engine.symbolic.size import Size

LARGEST_SIZE: Final = 4096
"""Sizes that checks draw are smaller, so that all of them are on one side of a limit that is not."""
_FLOATS = frozenset({"float32", "float16", "bfloat16"})
"""Types that tensors without one may have."""


def compared(sign: str, left: Value, right: Value) -> bool | None:
    """Return whether a comparison holds; None where that is not known."""
    if sign in ("in", "not in"):
        found = _contained(left, right) if isinstance(right, ValueSequence) else None
        return None if found is None else found == (sign == "in")
    if sign in ("is", "is not") and isinstance(right, LiteralValue) and right.value is None:
        if isinstance(left, Parameter | UnknownValue):
            return None
        return (isinstance(left, LiteralValue) and left.value is None) == (sign == "is")
    if isinstance(left, DataType) and isinstance(right, DataType) and sign in ("==", "!="):
        if "" in (left.name, right.name) and left != right:
            return None if {left.name, right.name} & _FLOATS else sign == "!="
        return (left == right) == (sign == "==")
    if isinstance(left, LiteralValue) and isinstance(right, LiteralValue) and sign in ("==", "!="):
        return (left == right) == (sign == "==")
    if isinstance(left, Size) and isinstance(right, Size) and sign in COMPARISONS:
        difference = (left - right).constant
        if difference is not None:
            return COMPARISONS[sign](difference, 0)
        if left.name is not None and (right.constant or 0) >= LARGEST_SIZE:
            return sign in ("<", "<=", "!=")
    return None


def _contained(value: Value, items: ValueSequence) -> bool | None:
    """Return whether a constant is one of several."""
    for one in (value, *items.items):
        if not isinstance(one, LiteralValue) and not (isinstance(one, Size) and one.constant is not None):
            return None
    return any(compared("==", value, one) for one in items.items if type(one) is type(value))
