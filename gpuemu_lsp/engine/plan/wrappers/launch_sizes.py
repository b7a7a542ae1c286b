"""Dims in the expressions of a launch."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from gpuemu_lsp.engine.project.expressions import Expression
from gpuemu_lsp.engine.project.model import (
    KernelSpec,
    PointerSpec,
    ScalarSpec,
)
from gpuemu_lsp.engine.symbolic.expressions import expression_of, size_of
from gpuemu_lsp.engine.symbolic.size import Size, SizeOperation, SizeSymbol, atoms, substitute, symbol, symbols


def named(name: str) -> Size:
    """Return a dim, or a number of the caller: the sizes that checks draw are positive."""
    return symbol(name, 1)


def renamed(arg: PointerSpec | ScalarSpec, rename: Mapping[str, Size]) -> PointerSpec | ScalarSpec:
    """Return an argument with dims replaced."""
    if isinstance(arg, PointerSpec):
        bounds = None
        if arg.range is not None:
            low, high = (substituted(one, rename) if isinstance(one, Expression) else one for one in arg.range)
            bounds = (low, high)
        shape, strides = (tuple(substituted(one, rename) for one in each) for each in (arg.shape, arg.strides))
        return replace(arg, shape=shape, strides=strides, range=bounds)
    value = arg.value
    return replace(arg, value=substituted(value, rename)) if isinstance(value, Expression) else arg


def substituted(expression: Expression, values: Mapping[str, Size]) -> Expression:
    """Return an expression with dims replaced."""
    return expression_of(substitute(size_of(expression, 1), values))


def rounded_up(sizes: Iterable[Size]) -> frozenset[str]:
    """Return the dims that are rounded up."""
    up = (atom for size in sizes for atom in atoms(size) if isinstance(atom, SizeOperation))
    return frozenset().union(*(symbols(atom.left) for atom in up if atom.operator in ("ceil_div", "next_pow2")))


def exact(grid: Iterable[Size]) -> frozenset[str]:
    """Return the dims for each of whose elements there is a program: axes of the grid, or factors of one."""
    factors = [axis.terms[0][0] for axis in grid if len(axis.terms) == 1]
    return frozenset(atom.name for some in factors for atom in some if isinstance(atom, SizeSymbol))


def divisor(grid: Iterable[Size], dim: str) -> int:
    """Return the number by which a size is divided in the grid without rounding up, else 1."""
    quotients = (atom for axis in grid for atom in atoms(axis) if isinstance(atom, SizeOperation))
    found = (atom.right.constant or 0 for atom in quotients if atom.operator == "//" and atom.left.name == dim)
    return next((one for one in found if one > 0), 1)


def notes_of(spec: KernelSpec, uncertain: Iterable[str]) -> tuple[str, ...]:
    """Return the arguments and the grid as the hint on the kernel states them."""
    notes = []
    for name, arg in (spec.args or {}).items():
        if isinstance(arg, PointerSpec):
            shape = ", ".join(map(str, arg.shape))
            notes.append(f"{name}: {arg.direction} [{'?' if name in uncertain else shape}]")
    grid = spec.launch.grid if spec.launch is not None else ()
    return (*notes, f"grid ({', '.join(map(str, grid or ()))})")
