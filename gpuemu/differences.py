"""Central differences of a function in fp64, with an error bound for each element of its gradient."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from gpuemu.verifier.values import Array

Loss: TypeAlias = "Callable[[Mapping[str, Array]], float]"

STEP = 1e-3
"""First step of a finite difference, relative to the magnitude of the element, in fp64. It is halved once."""
MOST_ELEMENTS = 256
"""Elements of one input whose gradient is compared with finite differences."""


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
    loss: Loss, values: Mapping[str, Array], name: str, grad: Array | None, atol: float, rtol: float
) -> str | None:
    """Compare a gradient with finite differences of ``loss``; return the message of a difference."""
    # Rounding of the gradient itself is relative to its largest elements.
    scale = 0.0 if grad is None or not grad.size else float(np.abs(grad.astype(np.float64)).max())
    wrong, _ = compared(loss, values, name, grad, (atol + 1e-2 * rtol * scale, rtol), STEP, 0)
    return None if wrong is None else wrong.message(name)


def compared(
    loss: Loss,
    values: Mapping[str, Array],
    name: str,
    grad: Array | None,
    tolerance: tuple[float | None, float | None],
    step: float,
    seed: int,
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
        if not abs(float(flat[place]) - estimate) <= allowed:
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
