"""Central differences of a function in fp64, with an error bound for each element of its gradient."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from gpuemu.verifier.values import Array

Loss: TypeAlias = "Callable[[Mapping[str, Array]], float]"

Terms: TypeAlias = "Callable[[Mapping[str, Array]], Array]"

STEP = 1e-3
"""First step of a finite difference, relative to the magnitude of the element, in fp64. It is halved once."""
MOST_ELEMENTS = 256
"""Elements of one input whose gradient is compared with finite differences."""
_STEPS = (2.0**-10, 2.0**-7, 2.0**-4, 2.0**-2, 1.0)
"""Steps between the spacing of 16-bit formats and the largest element, relative to that."""
_NARROW_ROUNDINGS = 16.0
"""Roundings of a backward pass in a narrow format, in unit roundoffs of the steepest slope near by."""
_SINGLE_ROUNDOFF = 2.0**-24


@dataclass(frozen=True, slots=True)
class WrongElement:
    """An element of a gradient that differs from a finite difference, the worst of ``wrong`` ones."""

    index: tuple[int, ...]
    expected: float
    actual: float
    wrong: int
    compared: int

    def message(self, name: str) -> str:
        """Return the sentence for the user."""
        place = list(self.index) if self.index else ""
        return (
            f"grad of {name}{place} = {self.actual:.7g}, expected {self.expected:.7g} by finite differences; "
            f"{self.wrong} of {self.compared} elements differ"
        )


def compared_gradient(
    terms: Terms,
    values: Mapping[str, Array],
    name: str,
    grad: Array | None,
    tolerance: tuple[float, float],
    roundoff: float,
) -> str | None:
    """Compare a gradient with finite differences of the sum of ``terms``; return the message of a difference.

    Parameters
    ----------
    terms : Callable
        The outputs multiplied by their cotangents.
    values : Mapping
        Where the gradient was taken, in fp64.
    name : str
        The input that it belongs to.
    grad : ndarray or None
        The gradient, of the shape of the input; None is zero.
    tolerance : tuple
        ``atol`` and ``rtol``.
    roundoff : float
        Unit roundoff of the format in which the gradient was computed.
    """
    # Rounding of the gradient itself is relative to its largest elements.
    scale = 0.0 if grad is None or not grad.size else float(np.abs(grad.astype(np.float64)).max())
    atol, rtol = tolerance

    def loss(given: Mapping[str, Array]) -> float:
        return float(terms(given).sum())

    def rounding(place: int) -> float:
        if roundoff <= _SINGLE_ROUNDOFF:
            return 0.0
        return _NARROW_ROUNDINGS * roundoff * steepest(terms, values, name, place)

    wrong, _ = compared(loss, values, name, grad, (atol + 1e-2 * rtol * scale, rtol), STEP, 0, rounding)
    return None if wrong is None else wrong.message(name)


def steepest(terms: Terms, values: Mapping[str, Array], name: str, place: int) -> float:
    """Return the steepest slope of the terms, in magnitude, over steps of one element of several sizes.

    A backward pass in a narrow format subtracts numbers of the size of the slopes near by: that of ``softmax`` is
    ``p * (g - sum(g * p))``, whose error does not become small where ``p`` is close to 1 and the gradient is.
    """
    centre = terms(values)
    largest = max(float(np.abs(values[name]).max(initial=0.0)), 1e-3)
    found = 0.0
    with np.errstate(all="ignore"):
        for step in _STEPS:
            for sign in (1.0, -1.0):
                moved = np.array(values[name], np.float64, order="C")
                moved.reshape(-1)[place] += sign * step * largest
                slope = float(np.abs(terms({**values, name: moved}) - centre).sum()) / (step * largest)
                found = max(found, slope if np.isfinite(slope) else 0.0)
    return found


def compared(
    loss: Loss,
    values: Mapping[str, Array],
    name: str,
    grad: Array | None,
    tolerance: tuple[float | None, float | None],
    step: float,
    seed: int,
    rounding: Callable[[int], float] | None = None,
) -> tuple[WrongElement | None, int]:
    """Compare elements of a gradient with finite differences.

    Parameters
    ----------
    loss : Callable
        The function of arrays in fp64 whose gradient it is.
    values : Mapping
        Where it was taken.
    name : str
        The input that it belongs to.
    grad : ndarray or None
        The gradient; None is zero.
    tolerance : tuple
        ``atol`` and ``rtol`` in addition to the error of the differences.
    step : float
        Relative step.
    seed : int
        Selects the elements where there are more than :data:`MOST_ELEMENTS`.
    rounding : Callable, optional
        Returns the error that rounding explains in an element in addition, for its place in the flat array.

    Returns
    -------
    tuple
        The worst of the wrong elements or None, and the number of those compared.
    """
    count = values[name].size
    places = np.sort(np.random.default_rng(seed).permutation(count)[:MOST_ELEMENTS])
    flat = np.zeros(count) if grad is None else np.ascontiguousarray(grad).astype(np.float64).reshape(-1)
    atol, rtol = tolerance
    wrong = []
    for place in map(int, places):
        estimate, bound = _difference(loss, values, name, place, step)
        allowed = bound if atol is None and rtol is None else (atol or 0.0) + (rtol or 0.0) * abs(estimate) + bound
        error = abs(float(flat[place]) - estimate)
        if not error <= allowed and (rounding is None or not error <= allowed + rounding(place)):
            wrong.append((place, estimate, float(flat[place])))
    if not wrong:
        return None, len(places)
    place, estimate, actual = max(wrong, key=lambda one: float(np.nan_to_num(abs(one[2] - one[1]), nan=np.inf)))
    index = tuple(int(i) for i in np.unravel_index(place, values[name].shape))
    return WrongElement(index, estimate, actual, len(wrong), len(places)), len(places)


def _difference(loss: Loss, values: Mapping[str, Array], name: str, place: int, step: float) -> tuple[float, float]:
    """Return a derivative by Richardson extrapolation of two central differences, and a bound of its error.

    The bound is infinite where the one-sided differences disagree, as at the corner of ``relu``: any subgradient is
    then correct.
    """

    def at(offset: float) -> float:
        moved = np.array(values[name], np.float64, order="C")
        moved.reshape(-1)[place] += offset
        return loss({**values, name: moved})

    size = step * max(1.0, abs(float(values[name].reshape(-1)[place])))
    centre = at(0.0)
    wide, narrow = (at(size), at(-size)), (at(size / 2), at(-size / 2))
    coarse, fine = (wide[0] - wide[1]) / (2 * size), (narrow[0] - narrow[1]) / size
    best = (4 * fine - coarse) / 3
    rounding = 2.0**-50 * (abs(centre) + max(map(abs, (*wide, *narrow)))) / size * 64
    # The error of a smooth function falls with the square of the step: the two central differences show its size.
    error = 4 * abs(fine - coarse) + rounding + 1e-7 * abs(best)
    jump = abs((narrow[0] - centre) - (centre - narrow[1])) / (size / 2)
    curvature = abs((wide[0] - centre) - (centre - wide[1])) / size
    # For a smooth function one-sided slopes differ by half as much at half the step; at a corner by as much.
    if jump > 0.75 * curvature and jump > 1e-3 * max(abs(best), 1e-6) and jump > 16 * rounding:
        return best, float("inf")
    return best, error
