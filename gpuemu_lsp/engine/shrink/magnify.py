"""Pass that magnifies values: fewer elements of a larger value fail where more of smaller ones did.

Overflows, and terms that are absorbed by a sum, need either many elements or large ones. All elements take the largest
magnitude of the case; then it grows in small steps, as the error budget of a much larger value may exceed the error.
"""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import replace

import numpy as np

from gpuemu_lsp.engine.fuzz.model import Array, Case
from gpuemu_lsp.engine.shrink.dims import floor_of
from gpuemu_lsp.engine.shrink.model import CaseSpace, Proposals, ShrinkCandidate, ValueDomain
from gpuemu_lsp.engine.shrink.values import by_size, fit, legal

_GROWTH = (1.0, 33 / 32, 17 / 16, 9 / 8, 5 / 4, 3 / 2, 2.0, 4.0)
_FIRST: tuple[float, ...] = (1.0, 2.0)
"""Factors of the first size that is tried: if none of them fails, values do not matter and the pass ends."""
_FEW = 8
"""Sizes up to which no sum is long."""


def magnify_values(start: ShrinkCandidate, space: CaseSpace) -> Proposals:
    """Propose the case one step smaller in a dim with one large value in all elements, then bisect the dim."""
    current = start
    for spec in space.dims:
        floor, step = floor_of(spec), max(1, spec.multiple_of)
        growth = _FIRST
        while current.case.dims.get(spec.name, floor) > max(floor, _FEW):
            size = current.case.dims[spec.name]
            smaller = yield from _at(current, space, spec.name, size - step, growth)
            growth = _GROWTH
            if smaller is None:
                break
            current = smaller
            # The failing size is known to be at most size - step: bisect what lies below it.
            low, high = floor, size - step
            while low < high:
                middle = low + (high - low) // (2 * step) * step
                smaller = yield from _at(current, space, spec.name, middle, _GROWTH[:1])
                if smaller is None:
                    low = middle + step
                else:
                    current, high = smaller, middle


def _at(
    current: ShrinkCandidate, space: CaseSpace, name: str, size: int, growth: tuple[float, ...]
) -> Generator[ShrinkCandidate, bool, ShrinkCandidate | None]:
    """Propose one size with ever larger values; return the accepted candidate, None if there is none."""
    drawn = space.rebuild(current.case, {**current.case.dims, name: size})
    if drawn is None or drawn.dims[name] != size:
        return None
    names = by_size(drawn)
    domains = space.domains(drawn)
    # The small integers of an exact case must stay small.
    for factor in growth[:1] if drawn.exact else growth:
        tensors = {key: _magnified(current.case, drawn, key, factor, domains.get(key), space) for key in names}
        candidate = ShrinkCandidate(replace(drawn, tensors={**drawn.tensors, **tensors}), frozenset(names))
        if (yield candidate):
            return candidate
    return None


def _magnified(
    current: Case, drawn: Case, name: str, factor: float, domain: ValueDomain | None, space: CaseSpace
) -> Array:
    values = current.tensors[name].astype(np.float64)
    largest = float(np.max(np.abs(values), where=np.isfinite(values), initial=0.0)) * factor
    like = drawn.tensors[name]
    return fit(np.full(like.shape, largest), like, domain or legal(space, current, name))
