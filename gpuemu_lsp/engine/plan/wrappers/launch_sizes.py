"""Dims in the expressions of a launch."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from gpuemu_lsp.engine.plan.wrappers.values import (
    Value,
    substituted,
)
from gpuemu_lsp.engine.project.expressions import Binary, Call, Expression, Name, constant, names, walk
from gpuemu_lsp.engine.project.expressions import Node as Formula
from gpuemu_lsp.engine.project.model import (
    KernelSpec,
    PointerSpec,
    ScalarSpec,
)


def renamed(arg: PointerSpec | ScalarSpec, rename: Mapping[str, Expression]) -> PointerSpec | ScalarSpec:
    """Return an argument with dims replaced."""
    if isinstance(arg, PointerSpec):
        low_high = arg.range
        bounds = None
        if low_high is not None:
            low, high = (substituted(one, rename) if isinstance(one, Expression) else one for one in low_high)
            bounds = (low, high)
        return replace(arg, shape=tuple(substituted(one, rename) for one in arg.shape), range=bounds)
    value = arg.value
    return replace(arg, value=substituted(value, rename)) if isinstance(value, Expression) else arg


def language_type(value: Value) -> str | None:
    """Return ``tl.float16`` and the like; None for another value."""
    text = getattr(value, "text", "")
    if text.startswith(("tl.", "triton.language.")):
        return f"tl.{text.rpartition('.')[2]}"
    return None


def rounded_up(expressions: Iterable[Expression]) -> frozenset[str]:
    """Return the dims that are rounded up."""
    found: set[str] = set()
    for expression in expressions:
        for node in walk(expression):
            if isinstance(node, Call) and node.function in ("ceil_div", "next_pow2"):
                found |= names(Expression(node.arguments[0], ""))
    return frozenset(found)


def exact(grid: Iterable[Expression]) -> frozenset[str]:
    """Return the dims for each of whose elements there is a program: axes of the grid, or factors of one."""
    found: set[str] = set()
    for expression in grid:
        pending: list[Formula] = [expression.root]
        while pending:
            node = pending.pop()
            if isinstance(node, Name):
                found.add(node.name)
            elif isinstance(node, Binary) and node.operator == "*":
                pending += (node.left, node.right)
    return frozenset(found)


def divisor(grid: Iterable[Expression], dim: str) -> int:
    """Return the number by which a size is divided in the grid without rounding up, else 1."""
    for expression in grid:
        for node in walk(expression):
            if isinstance(node, Binary) and node.operator == "//" and node.left == Name(dim):
                value = constant(Expression(node.right, ""))
                if value is not None and value > 0:
                    return value
    return 1


def notes_of(spec: KernelSpec, uncertain: Iterable[str]) -> tuple[str, ...]:
    """Return the arguments and the grid as the hint on the kernel states them."""
    notes = []
    for name, arg in (spec.args or {}).items():
        if isinstance(arg, PointerSpec):
            shape = ", ".join(map(str, arg.shape))
            notes.append(f"{name}: {arg.direction} [{'?' if name in uncertain else shape}]")
    grid = spec.launch.grid if spec.launch is not None else ()
    return (*notes, f"grid ({', '.join(map(str, grid or ()))})")
