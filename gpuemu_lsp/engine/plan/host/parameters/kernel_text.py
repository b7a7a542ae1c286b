"""What the text of a kernel says about the sizes with which it is launched."""

from __future__ import annotations

import re
from collections.abc import Collection

from gpuemu_lsp.engine.hostcode.values import HostLaunch
from gpuemu_lsp.engine.plan.context import KernelContext
from gpuemu_lsp.engine.symbolic.size import Size, symbols

_LEAST_TILE, _LARGEST_TILE = 32, 1024
_COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.DOTALL)
_WORD = re.compile(r"(?<![\w.])(?:\d+|[A-Za-z_]\w*)(?![\w.])")

_LOOP = re.compile(r"\bfor\s*\(([^;()]*(?:\([^()]*\)[^;()]*)*);([^;]*);((?:[^()]|\([^()]*\))*)\)")
_BOUND = re.compile(r"[\w)\]]\s*(?:<=?|>=)\s*((?:[\w\s*+]|\((?:[\w\s*+]|\([\w\s]*\))*\))+)\s*(?=[;)&|?]|$)")
"""What an index is less than, or no longer: a product of sizes at most, without a division."""
_GREATER = re.compile(r"[(&|?;,]\s*(\w+)\s*>=?(?![>=])")
"""What is greater than an index."""
_VARIABLE = re.compile(r"(?<![\w.])(\w+)\s*=(?!=)([^=;]*)")
_TIMES = (r"(?<![*\w])(?<!\* )", r"\b(?!\s*(?:\*|<<))")
_THREAD = r"threadIdx\.[xyz]"
"""The index of a thread; of one that is multiplied each thread has several elements."""
_QUOTIENT = re.compile(r"\(\s*([^()/]+)\s*\)\s*/\s*\(?\s*(\w+)")
_ROUNDING = re.compile(r"\b(?:ceil_?div|div_?up|cdiv)\w*\s*\(\s*(\w+)\s*,", re.IGNORECASE)
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

    A loop over tiles, ``for (k = 0; k < n; k += 16)``, compares only the first index of each, unless its threads begin
    at their own.
    """
    text = _COMMENT.sub(" ", context.text)
    first = re.compile(_THREAD.join(_TIMES))
    variables = [name for name, value in _VARIABLE.findall(text) if first.search(value)]
    own = re.compile("|".join((_THREAD, *variables)).join(("(?:", ")")).join(_TIMES))

    def condition(found: re.Match[str]) -> str:
        return f"{found[2]};" if _ELEMENTS.search(found[3]) or own.search(found[1].partition("=")[2]) else ""

    code = _LOOP.sub(condition, text)
    bounds = {word for bound in (*_BOUND.findall(code), *_GREATER.findall(code)) for word in _WORD.findall(bound)}
    return _passed(context, launch, bounds)


def rounded_sizes(context: KernelContext, launch: HostLaunch) -> frozenset[str]:
    """Return the symbols that a kernel itself divides and rounds up, ``(n + 3) / 4``: it is for any remainder."""
    text = _COMMENT.sub(" ", context.text)
    rounded = set(_ROUNDING.findall(text))
    for dividend, divisor in _QUOTIENT.findall(text):
        size, *more = dividend.replace("+", " + ").replace("-", " - ").split()
        known = context.definitions.get(divisor, divisor).strip("() uUlL")
        fewer = str(int(known) - 1) if known.isdigit() else ""
        if more in (["+", fewer], ["+", divisor, "-", "1"]):
            rounded.add(size)
    return _passed(context, launch, rounded)


def _passed(context: KernelContext, launch: HostLaunch, params: Collection[str]) -> frozenset[str]:
    """Return the symbols that the launch passes as some parameters."""
    return frozenset(
        name
        for param, value in zip(context.declaration.params, launch.arguments, strict=False)
        if isinstance(value, Size) and (name := value.name) is not None and param.name in params
    )
