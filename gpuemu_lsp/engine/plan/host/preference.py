"""Which of several launches of a kernel says most about it."""

from __future__ import annotations

import math

from gpuemu_lsp.engine.plan.host.reading import ReadHostLaunch
from gpuemu_lsp.engine.plan.host.symbolic import number, substitute, symbols
from gpuemu_lsp.engine.plan.host.values import Pointer

_USUAL = 1024


def preference(one: ReadHostLaunch) -> tuple[bool, int, int]:
    """Return a key by which the best launch is the first."""
    return is_refuted(one), _open_symbols(one), _slack(one)


def _open_symbols(one: ReadHostLaunch) -> int:
    names = {name for extent in (*one.launch.grid, *one.launch.block) if extent is not None for name in symbols(extent)}
    return sum(one.run.symbols[name].origin == "computed" for name in names)


def _slack(one: ReadHostLaunch) -> int:
    """Return how much larger the buffers of a launch are than its grid, as a power of two.

    A program that uses the same buffers for several sizes fills them at the largest one only.
    """
    launch = one.launch
    values = {name: number(max(known.values, default=_USUAL)) for name, known in one.run.symbols.items()}
    used = {value.allocation for value in launch.arguments if isinstance(value, Pointer)}
    sizes = [launch.memory[key].size for key in used if key is not None and key in launch.memory]
    bytes_ = sum((substitute(size, values).constant or 0) for size in sizes if size is not None)
    extents = [substitute(one, values).constant or 1 for one in (*launch.grid, *launch.block) if one is not None]
    return (bytes_ // max(math.prod(extents), 1)).bit_length()


def is_refuted(one: ReadHostLaunch) -> bool:
    """Return whether a condition on the path to a launch is false."""
    return any(condition.value is False for condition in one.launch.conditions)
