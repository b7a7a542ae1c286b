"""Gradients at points where a function has no derivative: ``relu`` and ``abs`` at 0, equal maxima, limits of ``clamp``.

A derivative does not exist there, and frameworks choose among the subgradients: 0, 1 or one half of the cotangent, that
of the first of equal maxima, or equal shares. Clarke's generalised gradient is the convex hull of the limits of
gradients near by (F. H. Clarke, Optimization and Nonsmooth Analysis, 1983, section 2.5). So an element is accepted if
it lies between gradients of the reference at inputs that are moved by about their rounding. Where a function is smooth
these gradients are all the same, and nothing else is accepted.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np

from gpuemu.derived_budget import DerivedVerdict
from gpuemu.verifier.values import Array
from gpuemu_lsp.engine.fuzz.dtypes import FORMATS

Gradients: TypeAlias = "Callable[[Mapping[str, Array]], Sequence[Any]]"

_POINTS = 24
"""Points near by at which all elements of all inputs are moved."""
_MOST_ELEMENTS = 64
"""Elements that are moved one by one, as those of many equal maxima."""
_ROUNDINGS = 4.0
"""Largest move of an element, in unit roundoffs of its format."""
_AT_ZERO = 2.0**-40
"""Move of an element that is 0, relative to the largest of its tensor."""


def with_subgradients(
    function: Gradients, inputs: Mapping[str, Array], verdict: DerivedVerdict, actual: Mapping[str, Array]
) -> dict[str, Array]:
    """Return results and gradients with the exact value in place of elements that are subgradients.

    Parameters
    ----------
    function : Callable
        Returns the results and gradients of the reference in the order of ``actual``, for inputs in fp64.
    inputs : Mapping
        Arrays by name, those of which a gradient was taken. The gradient of ``x`` is named ``grad of x``.
    verdict : DerivedVerdict
        The comparison of ``actual`` with the reference.
    actual : Mapping
        Results and gradients by name.
    """
    found = dict(actual)
    wrong = [one.param for one in verdict.mismatches if one.wrong is not None and one.param.startswith("grad of ")]
    if not wrong:
        return found
    places = {name: list(actual).index(name) for name in wrong}
    low = {name: verdict.expected[name].astype(np.float64) for name in wrong}
    high = {name: array.copy() for name, array in low.items()}
    wide = {name: array.astype(np.float64) for name, array in inputs.items()}
    steps = {name: _steps(array) for name, array in inputs.items()}
    random = np.random.default_rng(0)
    for _ in range(_POINTS):
        moved = {name: x + steps[name] * random.uniform(-1, 1, x.shape) for name, x in wide.items()}
        for name, grad in _evaluated(function, moved, places).items():
            low[name], high[name] = np.fmin(low[name], grad), np.fmax(high[name], grad)
    for name in wrong:
        values, exact = actual[name].astype(np.float64), verdict.expected[name]
        slack = _slack(verdict, name, actual[name])
        # Where gradients near by do not differ, the comparison with the reference stands.
        between = (values >= low[name] - slack) & (values <= high[name] + slack) & (high[name] - low[name] > slack)
        rest = np.argwhere(~between & ~(np.abs(values - exact) <= slack))
        found[name] = np.where(between, exact, values)
        if len(rest) and all(
            _is_between(function, wide, steps, name, tuple(at), values, slack, places) for at in _some(rest)
        ):
            found[name] = exact.astype(np.float64)
    return found


def _is_between(
    function: Gradients,
    wide: Mapping[str, Array],
    steps: Mapping[str, Array],
    name: str,
    at: tuple[int, ...],
    values: Array,
    slack: Array,
    places: Mapping[str, int],
) -> bool:
    """Return whether an element is between the gradients with this element alone larger, and smaller."""
    source = name.removeprefix("grad of ")
    ends = []
    for sign in (-1.0, 1.0):
        moved = wide[source].copy()
        moved[at] += sign * steps[source][at]
        ends.append(float(_evaluated(function, {**wide, source: moved}, places)[name][at]))
    lowest, highest = min(ends), max(ends)
    allowed, value = float(slack[at]), float(values[at])
    return highest - lowest > allowed and lowest - allowed <= value <= highest + allowed


def _some(rest: Array) -> Array:
    return np.asarray(np.random.default_rng(0).permutation(rest)[:_MOST_ELEMENTS])


def _evaluated(function: Gradients, moved: Mapping[str, Array], places: Mapping[str, int]) -> dict[str, Array]:
    results = function(moved)
    return {name: np.asarray(results[place], np.float64) for name, place in places.items()}


def _steps(array: Array) -> Array:
    roundoff = FORMATS[array.dtype.name].roundoff if array.dtype.name in FORMATS else 0.0
    size = np.abs(array.astype(np.float64))
    largest = float(size.max(initial=0.0)) or 1.0
    return np.asarray(_ROUNDINGS * roundoff * size + _AT_ZERO * largest)


def _slack(verdict: DerivedVerdict, name: str, actual: Array) -> Array:
    allowed = np.broadcast_to(verdict.allowed.get(name, np.float64(0.0)), actual.shape)
    return np.where(np.isfinite(allowed), allowed, 0.0)
