"""Pass that rewrites whole inputs: all zeros, all ones, signs, small integers. Also helpers of the value passes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TypeAlias

import ml_dtypes
import numpy as np
import numpy.typing as npt

from gpuemu_lsp.engine.fuzz.model import Array, Case
from gpuemu_lsp.engine.shrink.model import CaseSpace, Proposals, ShrinkCandidate, ValueDomain
from gpuemu_lsp.engine.shrink.order import complexity

Floats: TypeAlias = npt.NDArray[np.float64]


def simplify_inputs(start: ShrinkCandidate, space: CaseSpace) -> Proposals:
    """Propose the case with rewritten inputs: all of them at once, then one by one."""
    current = start
    domains = {name: legal(space, start.case, name) for name in start.case.tensors}
    # All inputs at once first: most failures of layout and size need no particular values.
    for names in (by_size(start.case), *([name] for name in by_size(start.case))):
        for rewrite in _REWRITES:
            tensors = {name: current.case.tensors[name] for name in names}
            candidate = with_tensors(
                current, {name: rewrite(tensor, domains[name]) for name, tensor in tensors.items()}
            )
            if (yield candidate):
                current = candidate
                break


def legal(space: CaseSpace, case: Case, name: str) -> ValueDomain:
    """Return the values an input may have: the declared ones, or for undeclared integers the span of those drawn.

    Integers are often indices or lengths; a value outside the drawn span could fail for a reason of its own.
    """
    declared, tensor = space.domains(case).get(name), case.tensors[name]
    if declared is not None or tensor.dtype.kind not in "iu" or not tensor.size:
        return declared or ValueDomain()
    return ValueDomain(float(tensor.min()), float(tensor.max()))


def with_tensors(candidate: ShrinkCandidate, tensors: Mapping[str, Array]) -> ShrinkCandidate:
    """Return the candidate with some inputs replaced."""
    case = replace(candidate.case, tensors={**candidate.case.tensors, **tensors})
    return ShrinkCandidate(case, candidate.changed | tensors.keys())


def by_size(case: Case) -> list[str]:
    """Return the names of the inputs that may be changed, largest first.

    Inputs that share memory are left out: changing one of them would make their values contradict each other.
    """
    shared = set()
    for key, other in case.extra.items():
        if key.startswith("alias:"):
            shared |= {key.removeprefix("alias:"), other} if key.removeprefix("alias:") in case.tensors else set()
    return sorted(case.tensors.keys() - shared, key=lambda name: (-case.tensors[name].size, name))


def fit(values: Floats, like: Array, domain: ValueDomain) -> Array:
    """Return the elements in the dtype of ``like``, clipped to the domain. Integers must be exact in float64."""
    lowest, highest = _span(like)
    low = lowest if domain.low is None else max(lowest, domain.low)
    high = highest if domain.high is None else min(highest, domain.high)
    fitted: Array = np.clip(values, low, high).astype(like.dtype)
    return fitted


def _span(like: Array) -> tuple[float, float]:
    """Return the range of the dtype, for integers up to 2**31: a conversion beyond it would wrap or overflow."""
    if like.dtype.kind == "b":
        return 0.0, 1.0
    if like.dtype.kind in "iu":
        info = np.iinfo(like.dtype)
        return float(max(info.min, -(1 << 31))), float(min(info.max, 1 << 31))
    limit = float(ml_dtypes.finfo(like.dtype).max)  # type: ignore[no-untyped-call]
    return -limit, limit


def clip(tensor: Array, domain: ValueDomain) -> Array:
    """Return a copy with every element outside the domain set to its nearer end; others keep their bits."""
    clipped = np.array(tensor)
    # Not np.clip: it would change the bits of NaN and of integers beyond 2**53.
    values = clipped.astype(np.float64)
    if domain.low is not None:
        clipped[values < domain.low] = domain.low
    if domain.high is not None:
        clipped[values > domain.high] = domain.high
    return clipped


def simplest_value(like: Array, domain: ValueDomain) -> Array:
    """Return the simplest legal value in the dtype of ``like``, as an array of shape (1,)."""
    options = fit(np.array(SIMPLE_VALUES), like, domain)
    return options[[int(np.argmin(complexity(options)))]]


def _small(tensor: Array) -> Floats:
    """Return the values as float64, NaN as zero and infinities as small numbers."""
    small: Floats = np.nan_to_num(tensor.astype(np.float64), nan=0.0, posinf=_SMALL, neginf=-_SMALL)
    return small


SIMPLE_VALUES = (0.0, 1.0, -1.0, 2.0, 3.0, -2.0, 4.0, 0.5, 8.0, 16.0, 100.0, -100.0, 1024.0, 65536.0)
"""Values to try, simplest first: round numbers are easier to follow through a computation."""

_SMALL = 8.0

_REWRITES: tuple[Callable[[Array, ValueDomain], Array], ...] = (
    lambda tensor, domain: np.broadcast_to(simplest_value(tensor, domain), tensor.shape).copy(),
    lambda tensor, domain: fit(np.ones(tensor.shape), tensor, domain),
    lambda tensor, domain: fit(np.sign(_small(tensor)), tensor, domain),
    lambda tensor, domain: fit(np.clip(np.trunc(_small(tensor)), -_SMALL, _SMALL), tensor, domain),
    lambda tensor, domain: fit(np.clip(np.trunc(_small(tensor) * 16) / 16, -_SMALL, _SMALL), tensor, domain),
)
"""Rewrites from the one with the simplest result on; the first that still fails is kept."""
