"""Ranges of the integers that recorded launches read: indices stay indices."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from gpuemu_lsp.engine.element_types import INTEGERS
from gpuemu_lsp.engine.project.expressions import Expression, parse
from gpuemu_lsp.engine.recordings.model import RecordedAllocation, RecordingError
from gpuemu_lsp.engine.recordings.reader import read_contents


def value_range(
    path: str, dtype: str, memories: Sequence[RecordedAllocation], bounds: Mapping[str, Sequence[int]]
) -> tuple[Expression | float, Expression | float] | None:
    """Return the half-open range of an integer tensor's values over all launches; None for other dtypes.

    The bound is one of ``bounds``, expressions with their value in each launch, if values come close to it in each and
    never reach it.
    """
    import numpy as np

    if dtype not in INTEGERS:
        return None
    limits: list[tuple[int, int]] = []
    for memory in memories:
        if memory.before is None:
            continue
        try:
            data = read_contents(path, memory.before)
        except RecordingError:
            return None
        values = np.frombuffer(data[: len(data) // np.dtype(dtype).itemsize * np.dtype(dtype).itemsize], dtype)
        if memory.initialised is not None or not values.size:
            return None
        limits.append((int(values.min()), int(values.max())))
    if not limits:
        return None
    low, high = min(one for one, _ in limits), max(one for _, one in limits)
    # The least bound first: what is below it is below the others.
    for text, sizes in sorted(bounds.items(), key=lambda item: sum(item[1])):
        if low < 0 or len(limits) != len(sizes):
            continue
        if all(size // 2 <= most < size for (_, most), size in zip(limits, sizes, strict=True)):
            return parse(0), parse(text)
    return low, high + 1
