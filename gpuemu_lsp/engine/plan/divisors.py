"""Sizes that the kernel's code assumes to be multiples of a constant, or powers of two.

A body that computes ``N / 32`` and never ``N % 32`` drops the remainder: its author passes multiples of 32 only. Sizes
that were inferred keep to such multiples, since findings on others would be false positives. ``(N + 31) / 32`` rounds
up and ``N % 32`` handles the remainder; neither restricts the size. A warp's matrix instructions compute whole tiles,
so sizes of a kernel with them are multiples of the tile and of the block's tile.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping

from gpuemu_lsp.engine.plan.cexpr import Scope, translate
from gpuemu_lsp.engine.plan.context import KernelContext
from gpuemu_lsp.engine.project.expressions import ExpressionError, evaluate, parse

_LOCAL = re.compile(
    r"\b(?:const|constexpr)\s+(?:unsigned\s+)?(?:int|size_t|long|unsigned|auto)\s+(\w+)\s*=\s*([^;,]+);"
)
_COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.DOTALL)
_MATRIX_INSTRUCTIONS = re.compile(
    r"\b(?:wmma::|load_matrix_sync|store_matrix_sync|mma_sync|mma\.sync|ldmatrix|__mma_|__wmma_)"
)
_MATRIX_TILE = 64
_MAX_DIVISOR = 2048


def size_divisors(
    context: KernelContext, sizes: Iterable[str], block: tuple[str, ...], tiles: Mapping[str, int]
) -> dict[str, int]:
    """Return the number that each size parameter must be a multiple of, for those that have one.

    ``block`` is the block's extents as texts; ``tiles`` maps sizes to what the grid divides them by.
    """
    text = _code(context)
    known = {**context.definitions, **dict(_LOCAL.findall(text))}
    known |= {f"blockDim.{axis}": extent for axis, extent in zip("xyz", (*block, "1", "1"), strict=False)}
    scope = Scope(definitions=known)
    found: dict[str, int] = {}
    uses_matrices = _MATRIX_INSTRUCTIONS.search(text) is not None
    for name in sizes:
        if re.search(rf"\b{re.escape(name)}\s*%", text):
            continue
        divisors = [_MATRIX_TILE, tiles.get(name, 1)] if uses_matrices else []
        divisors += [
            divisor
            for written in re.findall(rf"(?<![\w/*%.>])(?<![/*%]\s)\b{re.escape(name)}\s*/\s*([\w.]+)", text)
            if (divisor := _value(written, scope)) is not None and 1 < divisor <= _MAX_DIVISOR
        ]
        common = math.lcm(*divisors) if divisors else 1
        if 1 < common <= _MAX_DIVISOR:
            found[name] = common
    return found


def power_of_two_sizes(context: KernelContext, sizes: Iterable[str]) -> frozenset[str]:
    """Return the size parameters that a loop halves down to one: a tree reduction over a power of two."""
    text = _code(context)
    loop = r"=\s*{}\s*(?:>>\s*1|/\s*2)\s*;[^;{{}}]*;[^;{{}}]*?(?:>>=\s*1|/=\s*2)\s*\)"
    return frozenset(name for name in sizes if re.search(loop.format(re.escape(name)), text))


def _code(context: KernelContext) -> str:
    return _COMMENT.sub(" ", context.text)


def _value(text: str, scope: Scope) -> int | None:
    translated = translate(text, scope)
    if translated is None:
        return None
    try:
        return evaluate(parse(translated), {})
    except ExpressionError:
        return None
