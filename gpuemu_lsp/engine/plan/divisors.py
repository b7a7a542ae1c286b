"""Sizes the author takes to be multiples: a body that says ``N / 32`` and never ``N % 32`` drops the rest.

Rounding down is how a kernel says that it is only ever given multiples. For sizes that were guessed, other ones would
show what nobody claims to support. ``(N + 31) / 32`` rounds up, and ``N % 32`` treats the rest: neither says so.
A warp's matrix instructions work on whole tiles, so a kernel of them takes multiples of these, and of its blocks'.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping

from gpuemu_lsp.engine.plan.cexpr import translate
from gpuemu_lsp.engine.project.expressions import ExpressionError, evaluate, parse
from gpuemu_lsp.engine.source.model import KernelDecl, SourceFile

_LOCAL = re.compile(
    r"\b(?:const|constexpr)\s+(?:unsigned\s+)?(?:int|size_t|long|unsigned|auto)\s+(\w+)\s*=\s*([^;,]+);"
)
_COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.DOTALL)
_TILES = re.compile(r"\b(?:wmma::|load_matrix_sync|store_matrix_sync|mma_sync|mma\.sync|ldmatrix|__mma_|__wmma_)")
_TILE = 64
_LARGEST = 2048


def body_divisors(
    decl: KernelDecl,
    source: SourceFile,
    sizes: Iterable[str],
    definitions: Mapping[str, str],
    block: tuple[str, ...],
    tiles: Mapping[str, int],
) -> dict[str, int]:
    """Return what each size parameter is divided by in the kernel's body, where the rest is then lost.

    ``definitions`` are constants and template arguments; ``block`` the block's extents as texts;
    ``tiles`` what the grid divides sizes by.
    """
    lines = source.text.split("\n")[decl.range.start.line : decl.range.end.line + 1]
    text = _COMMENT.sub(" ", "\n".join(lines))
    known = {**definitions, **dict(_LOCAL.findall(text))}
    known |= {f"blockDim.{axis}": extent for axis, extent in zip("xyz", (*block, "1", "1"), strict=False)}
    found: dict[str, int] = {}
    whole = _TILES.search(text) is not None
    for name in sizes:
        if re.search(rf"\b{re.escape(name)}\s*%", text):
            continue
        steps = [_TILE, tiles.get(name, 1)] if whole else []
        steps += [
            step
            for divisor in re.findall(rf"(?<![\w/*%.>])(?<![/*%]\s)\b{re.escape(name)}\s*/\s*([\w.]+)", text)
            if (step := _value(divisor, known)) is not None and 1 < step <= _LARGEST
        ]
        together = math.lcm(*steps) if steps else 1
        if 1 < together <= _LARGEST:
            found[name] = together
    return found


def halved(decl: KernelDecl, source: SourceFile, sizes: Iterable[str]) -> frozenset[str]:
    """Return the size parameters that a loop of the body halves down to one: a tree over a power of two."""
    lines = source.text.split("\n")[decl.range.start.line : decl.range.end.line + 1]
    text = _COMMENT.sub(" ", "\n".join(lines))
    loop = r"=\s*{}\s*(?:>>\s*1|/\s*2)\s*;[^;{{}}]*;[^;{{}}]*?(?:>>=\s*1|/=\s*2)\s*\)"
    return frozenset(name for name in sizes if re.search(loop.format(re.escape(name)), text))


def _value(text: str, known: Mapping[str, str]) -> int | None:
    translated = translate(text, {}, known)
    if translated is None:
        return None
    try:
        return evaluate(parse(translated), {})
    except ExpressionError:
        return None
