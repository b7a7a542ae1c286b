"""Symbolic values of subscripts: views of tensors, and slices of sequences."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from tree_sitter import Node

from gpuemu_lsp.engine.plan.wrappers.tensor_functions import part, selected
from gpuemu_lsp.engine.plan.wrappers.values import (
    SymbolicTensor,
    Value,
    ValueSequence,
)
from gpuemu_lsp.engine.source.python.syntax import text_of
from gpuemu_lsp.engine.symbolic.size import ZERO, Size

NumberOf: TypeAlias = "Callable[[Node | None], Value]"
"""Return the value of an expression, a parameter as a number."""


def view(tensor: SymbolicTensor, keys: list[Node], number_of: NumberOf) -> SymbolicTensor | None:
    """Return the view ``t[keys]`` for slices without a step, numbers, ``...`` and None; None for other keys."""
    given = len([one for one in keys if one.type not in ("ellipsis", "none")])
    axis, found = 0, tensor
    for key in keys:
        if key.type == "ellipsis":
            axis += len(tensor.shape) - given
            continue
        if axis >= len(found.shape):
            return None
        if key.type == "slice":
            ends = _slice_ends(key, found.shape[axis], number_of)
            if ends is None:
                return None
            if ends != (ZERO, found.shape[axis]):
                found = part(found, axis, ends[0], ends[1] - ends[0])
            axis += 1
            continue
        index = number_of(key)
        if not isinstance(index, Size):
            return None
        from_end = (index.constant or 0) < 0
        found = selected(found, axis, found.shape[axis] + index if from_end else index)
    return found


def _slice_ends(node: Node, extent: Size, number_of: NumberOf) -> tuple[Size, Size] | None:
    first, _, rest = text_of(node).partition(":")
    if ":" in rest:
        return None
    parts = iter(node.named_children)
    ends = [ZERO, extent]
    for at, text in enumerate((first, rest)):
        if not text.strip():
            continue
        value = number_of(next(parts, None))
        if not isinstance(value, Size):
            return None
        ends[at] = extent + value if (value.constant or 0) < 0 else value
    return ends[0], ends[1]


def slice_of(owner: ValueSequence, node: Node) -> ValueSequence | None:
    """Return a part of a sequence; None unless the ends are written as numbers."""
    first, _, last = text_of(node).partition(":")
    ends: list[int | None] = []
    for end in (first, last):
        bare = end.strip()
        if bare and not bare.lstrip("-").isdecimal():
            return None
        ends.append(int(bare) if bare else None)
    return ValueSequence(owner.items[ends[0] : ends[1]])
