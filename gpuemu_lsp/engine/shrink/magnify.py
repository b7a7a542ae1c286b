"""Makes a case smaller by giving fewer elements larger values: what overflows or drowns in a sum needs either.

All elements take the largest magnitude there is, which shows most with fewest elements; then it grows a little, as
beyond some bound nothing is judged any more.
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
"""Where neither shows that values matter, nothing else is tried."""
_FEW = 8
"""So few elements are no long sum."""


def magnify_values(start: ShrinkCandidate, space: CaseSpace) -> Proposals:
    """Propose the case one smaller in a dim with the same large value everywhere, and then ever smaller ones."""
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
    """Try one size with ever larger values; return what was accepted."""
    drawn = space.rebuild(current.case, {**current.case.dims, name: size})
    if drawn is None or drawn.dims[name] != size:
        return None
    names = by_size(drawn)
    domains = space.domains(drawn)
    for factor in growth[:1] if drawn.exact else growth:  # small integers must stay small
        tensors = {key: _loud(current.case, drawn, key, factor, domains.get(key), space) for key in names}
        candidate = ShrinkCandidate(replace(drawn, tensors={**drawn.tensors, **tensors}), frozenset(names))
        if (yield candidate):
            return candidate
    return None


def _loud(current: Case, drawn: Case, name: str, factor: float, domain: ValueDomain | None, space: CaseSpace) -> Array:
    values = current.tensors[name].astype(np.float64)
    largest = float(np.max(np.abs(values), where=np.isfinite(values), initial=0.0)) * factor
    like = drawn.tensors[name]
    return fit(np.full(like.shape, largest), like, domain or legal(space, current, name))
