"""What the text of a kernel says about the sizes with which it is launched."""

from __future__ import annotations

import re

from gpuemu_lsp.engine.hostcode.values import HostLaunch
from gpuemu_lsp.engine.plan.context import KernelContext
from gpuemu_lsp.engine.symbolic.size import Size, symbols

_LEAST_TILE, _LARGEST_TILE = 32, 1024
_COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.DOTALL)
_WORD = re.compile(r"(?<![\w.])(?:\d+|[A-Za-z_]\w*)(?![\w.])")

_LOOP = re.compile(r"\bfor\s*\([^;()]*(?:\([^()]*\)[^;()]*)*;([^;]*);((?:[^()]|\([^()]*\))*)\)")
_BOUND = re.compile(
    r"[\w)\]]\s*<=?\s*((?:[\w\s*+]|\((?:[\w\s*+]|\([\w\s]*\))*\))+)\s*(?=[;)&|?]|$)|[(&|?;,]\s*(\w+)\s*>=?(?![>=])"
)
"""What an index is less than: a product of sizes at most, without a division."""
_ELEMENTS = re.compile(r"\+\+|\+=\s*1\b|\b(?:blockDim|gridDim)\b")


def tile_sizes(context: KernelContext, launch: HostLaunch) -> list[int]:
    """Return the numbers that a kernel has as literals, constants and arguments, the largest first.

    A scalar argument may divide a size: the number of heads, of the channels.
    """
    found = {value.constant or 0 for value in launch.arguments if isinstance(value, Size)}
    written = " ".join((_COMMENT.sub(" ", context.text), *context.bindings.values()))
    for word in set(_WORD.findall(written)):
        text = context.definitions.get(word, word).strip("() uUlL")
        if text.isdigit() and int(text) >= _LEAST_TILE:
            found.add(int(text))
    return sorted((one for one in found if 1 < one <= _LARGEST_TILE), reverse=True)


def guarded_sizes(context: KernelContext, launch: HostLaunch) -> frozenset[str]:
    """Return the symbols in integers that a kernel compares with: in `if (i < n)` the size `n` is a bound."""
    compared = frozenset[int]() if context.code is None else context.code.compared_parameters
    return frozenset[str]().union(
        *(
            symbols(value)
            for number, value in enumerate(launch.arguments)
            if number in compared and isinstance(value, Size)
        )
    )


def bounded_sizes(context: KernelContext, launch: HostLaunch) -> frozenset[str]:
    """Return the symbols with which a kernel compares each element's index: it is for any number of elements.

    A loop over tiles, ``for (k = 0; k < n; k += 16)``, compares only the first index of each.
    """
    code = _LOOP.sub(
        lambda found: f"{found[1]};" if _ELEMENTS.search(found[2]) else "", _COMMENT.sub(" ", context.text)
    )
    bounds = {word for side in _BOUND.findall(code) for word in _WORD.findall("".join(side))}
    return frozenset(
        name
        for param, value in zip(context.declaration.params, launch.arguments, strict=False)
        if isinstance(value, Size) and (name := value.name) is not None and param.name in bounds
    )
