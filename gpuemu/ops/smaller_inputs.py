"""Search for smaller inputs with which an operation still fails."""

from __future__ import annotations

from collections.abc import Callable

from gpuemu.ops.cases import cropped
from gpuemu_lsp.engine.fuzz.model import Array


def smaller_inputs(
    inputs: dict[str, Array], fails: Callable[[dict[str, Array]], bool], most_runs: int
) -> dict[str, Array]:
    """Return inputs for which ``fails`` holds, with sizes reduced by binary search, one after the other.

    Equal sizes are one dim. ``most_runs`` limits the calls of ``fails`` by the search within sizes.
    """
    best, runs = inputs, 0
    # The first elements, then the last ones of these: a wrong row in the middle remains alone.
    sizes = sorted({size for array in best.values() for size in array.shape if size > 1}, reverse=True)
    for extent in sizes:
        size = extent
        for last in (False, True):
            low, high = 1, size
            while low < high and runs < most_runs:
                middle, runs = (low + high) // 2, runs + 1
                if fails(cropped(best, size, middle, last=last)):
                    high = middle
                else:
                    low = middle + 1
            if high < size and fails(smaller := cropped(best, size, high, last=last)):
                best, size = smaller, high
    return best
