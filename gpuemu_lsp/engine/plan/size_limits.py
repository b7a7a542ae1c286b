"""Sizes that the kernel's code assumes to be multiples of a constant, or powers of two.

Code that computes ``n / 32`` and never ``n % 32`` drops the remainder: its author passes multiples of 32 only. Sizes
that were inferred keep to such multiples, since findings on others would be false positives. ``(n + 31) / 32`` rounds
up and ``n % 32`` handles the remainder; neither restricts the size. A warp's matrix instructions compute whole tiles,
so sizes of a kernel with them are multiples of the tile and of the block's tile, unless the program states another
number: ``if (n % 16) return;``.
"""

from __future__ import annotations

import math
from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import replace

from gpuemu_lsp.engine.plan.context import KernelContext
from gpuemu_lsp.engine.project.expressions import Expression, constant
from gpuemu_lsp.engine.project.model import DimSpec

_MATRIX_TILE = 64
_MAX_DIVISOR = 2048


def size_divisors(
    context: KernelContext,
    sizes: Iterable[str],
    block: Sequence[Expression],
    tiles: Mapping[str, int],
    stated: Container[str],
) -> dict[str, int]:
    """Return the number that each size parameter must be a multiple of, for those that have one.

    ``block`` are the extents of a block; ``tiles`` maps sizes to what the grid divides them by. ``stated`` are those of
    which the program says what they are multiples of.
    """
    code = context.code
    if code is None:
        return {}
    extents = dict(zip("xyz", map(constant, block), strict=False))
    found: dict[str, int] = {}
    for name in sizes:
        number = context.number_of(name)
        divisors = {
            divisor if isinstance(divisor, int) else extents.get(divisor, 1) or 1 for divisor in code.divisors(number)
        }
        if code.multiplies_matrices and name not in stated and not code.remainders(number):
            divisors |= {_MATRIX_TILE, tiles.get(name, 1)}
        common = math.lcm(*divisors)
        if 1 < common <= _MAX_DIVISOR:
            found[name] = common
    return found


def power_of_two_sizes(context: KernelContext, sizes: Iterable[str]) -> frozenset[str]:
    """Return the size parameters that a loop halves down to one: a tree reduction over a power of two."""
    code = context.code
    if code is None:
        return frozenset()
    return frozenset(name for name in sizes if code.is_halved(context.number_of(name)))


def within(dim: DimSpec, checked: DimSpec) -> DimSpec:
    """Return an inferred size within the bounds, and with the divisors, of a size of the program."""
    bounds = [one for one in (dim.maximum, checked.maximum) if one is not None]
    multiple = math.lcm(dim.multiple_of, checked.multiple_of)
    if dim.choices or checked.choices:
        return replace(dim, multiple_of=multiple)
    least = max(dim.minimum or 1, checked.minimum or 1)
    return replace(
        dim, minimum=least if least > 1 else dim.minimum, maximum=min(bounds, default=None), multiple_of=multiple
    )
