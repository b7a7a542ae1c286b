"""Pass that simplifies single elements: as few non-zero ones as possible, then simpler values for those."""

from __future__ import annotations

from collections.abc import Generator

import numpy as np
import numpy.typing as npt

from gpuemu_lsp.engine.shrink.model import CaseSpace, Proposals, ShrinkCandidate, ValueDomain
from gpuemu_lsp.engine.shrink.order import complexity
from gpuemu_lsp.engine.shrink.values import SIMPLE_VALUES, by_size, fit, legal, simplest_value, with_tensors

_FEW = 16
"""Elements up to which each is simplified by itself."""
_PATIENCE = 64
"""Consecutive rejections after which removal stops: most of the elements are needed then."""


def simplify_elements(start: ShrinkCandidate, space: CaseSpace) -> Proposals:
    """Propose the case with elements of each input at the simplest value, then the last few at simpler ones."""
    current = start
    for name in by_size(start.case):
        domain = legal(space, start.case, name)
        current = yield from _remove(current, name, domain)
        current = yield from _simplify(current, name, domain)


def _remove(
    current: ShrinkCandidate, name: str, domain: ValueDomain
) -> Generator[ShrinkCandidate, bool, ShrinkCandidate]:
    """Set ever smaller groups of elements to the simplest legal value (delta debugging)."""
    active = _not_simplest(current, name, domain)
    simplest = float(simplest_value(current.case.tensors[name], domain)[0])
    # From halves on: all at once has been tried by simplify_inputs.
    group, refused = len(active) // 2, 0
    while group >= 1 and refused < _PATIENCE:
        start = 0
        while start < len(active) and refused < _PATIENCE:
            indices = active[start : start + group]
            candidate = _set(current, name, indices, simplest, domain)
            if (yield candidate):
                current, refused = candidate, 0
                active = np.delete(active, slice(start, start + group))
            else:
                refused += 1
                start += group
        group = min(group // 2, len(active)) if group > 1 else 0
    return current


def _simplify(
    current: ShrinkCandidate, name: str, domain: ValueDomain
) -> Generator[ShrinkCandidate, bool, ShrinkCandidate]:
    """Set each of the last few elements to the simplest value that still fails."""
    active = _not_simplest(current, name, domain)
    if len(active) > _FEW:
        return current
    values = current.case.tensors[name].astype(np.float64).reshape(-1)
    # Nothing larger than the largest element: it could overflow the dtype or the sums of an exact case.
    bound = max(1.0, float(np.max(np.abs(values), where=np.isfinite(values), initial=0.0)))
    allowed = [
        value for value in SIMPLE_VALUES if abs(value) <= bound and (value.is_integer() or not current.case.exact)
    ]
    for index in active:
        # The integer part may be far from every simple value, and still simpler than the fraction.
        rounded = [float(np.trunc(values[index]))] if np.isfinite(values[index]) else []
        for value in dict.fromkeys((*allowed, *rounded)):
            candidate = _set(current, name, np.array([index]), value, domain)
            if (yield candidate):
                current = candidate
                break
    return current


def _not_simplest(current: ShrinkCandidate, name: str, domain: ValueDomain) -> npt.NDArray[np.intp]:
    """Return the flat indices of elements that are not as simple as possible."""
    tensor = current.case.tensors[name]
    return np.flatnonzero(complexity(tensor).reshape(-1) > complexity(simplest_value(tensor, domain))[0])


def _set(
    current: ShrinkCandidate, name: str, indices: npt.NDArray[np.intp], value: float, domain: ValueDomain
) -> ShrinkCandidate:
    tensor = np.array(current.case.tensors[name])
    tensor.reshape(-1)[indices] = fit(np.full(1, value), tensor, domain)[0]
    return with_tensors(current, {name: tensor})
