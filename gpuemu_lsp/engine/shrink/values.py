"""Makes the inputs plain as a whole: all zeros, all ones, signs, small integers."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from gpuemu_lsp.engine.fuzz.model import Array, Case
from gpuemu_lsp.engine.shrink.model import Candidate, Domain, Proposals, Space

Floats: TypeAlias = npt.NDArray[np.float64]


def shrink_values(start: Candidate, space: Space) -> Proposals:
    """Propose the case with whole inputs rewritten: all of them at once, then one by one."""
    current = start
    domains = space.domains(start.case)
    for names in (by_size(start.case), *([name] for name in by_size(start.case))):
        for rewrite in _REWRITES:
            tensors = {name: current.case.tensors[name] for name in names}
            plain = {
                name: fit(rewrite(tensor), tensor, domains.get(name, Domain())) for name, tensor in tensors.items()
            }
            candidate = with_tensors(current, plain)
            if (yield candidate):
                current = candidate
                break


def legal(space: Space, case: Case, name: str) -> Domain:
    """Return what the values of an input may be: what is declared, or for undeclared integers the span they have.

    Integers are often indices or lengths; a value outside what was drawn could fail for a reason of its own.
    """
    declared, tensor = space.domains(case).get(name), case.tensors[name]
    if declared is not None or tensor.dtype.kind not in "iu" or not tensor.size:
        return declared or Domain()
    return Domain(float(tensor.min()), float(tensor.max()))


def with_tensors(candidate: Candidate, tensors: Mapping[str, Array]) -> Candidate:
    """Return the candidate with some inputs replaced."""
    case = replace(candidate.case, tensors={**candidate.case.tensors, **tensors})
    return Candidate(case, candidate.changed | tensors.keys())


def by_size(case: Case) -> list[str]:
    """Return the names of the inputs, largest first."""
    return sorted(case.tensors, key=lambda name: (-case.tensors[name].size, name))


def fit(values: Floats, like: Array, domain: Domain) -> Array:
    """Return ``values`` in the dtype of ``like``, each moved into the domain. Integer values must be small."""
    low = -np.inf if domain.low is None else domain.low
    high = np.inf if domain.high is None else domain.high
    if like.dtype.kind in "ub":
        low = max(low, 0.0)
    fitted: Array = np.clip(values, low, high).astype(like.dtype)
    return fitted


def clip(tensor: Array, domain: Domain) -> Array:
    """Return a copy in which every value outside the domain is moved to its nearer end; the others keep their bits."""
    clipped = np.array(tensor)
    values = clipped.astype(np.float64)
    if domain.low is not None:
        clipped[values < domain.low] = domain.low
    if domain.high is not None:
        clipped[values > domain.high] = domain.high
    return clipped


def _small(tensor: Array) -> Floats:
    """Return the values as float64, with NaN and infinities brought to where the small numbers are."""
    small: Floats = np.nan_to_num(tensor.astype(np.float64), nan=0.0, posinf=_SMALL, neginf=-_SMALL)
    return small


_SMALL = 8.0

_REWRITES: tuple[Callable[[Array], Floats], ...] = (
    lambda tensor: np.zeros(tensor.shape),
    lambda tensor: np.ones(tensor.shape),
    lambda tensor: np.sign(_small(tensor)),
    lambda tensor: np.clip(np.trunc(_small(tensor)), -_SMALL, _SMALL),
    lambda tensor: np.clip(np.trunc(_small(tensor) * 16) / 16, -_SMALL, _SMALL),
)
"""From the plainest to the least plain."""
