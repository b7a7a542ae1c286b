"""Numbers in a kernel that may be the size of a tile, of which its author passes multiples only."""

from __future__ import annotations

import re

from gpuemu_lsp.engine.plan.context import KernelContext
from gpuemu_lsp.engine.plan.host.symbolic import Polynomial
from gpuemu_lsp.engine.plan.host.values import HostLaunch

_COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.DOTALL)
_WORD = re.compile(r"(?<![\w.])(?:\d+|[A-Za-z_]\w*)(?![\w.])")
_LEAST, _LARGEST = 3, 1024


def tile_sizes(context: KernelContext, launch: HostLaunch) -> list[int]:
    """Return the numbers that a kernel has as literals, constants and arguments, the largest first.

    A scalar argument may divide a size: the number of heads, of the channels.
    """
    found = {value.constant or 0 for value in launch.arguments if isinstance(value, Polynomial)}
    written = " ".join((_COMMENT.sub(" ", context.text), *context.bindings.values()))
    for word in set(_WORD.findall(written)):
        text = context.definitions.get(word, word).strip("() uUlL")
        if text.isdigit():
            found.add(int(text))
    return sorted((one for one in found if _LEAST <= one <= _LARGEST), reverse=True)
