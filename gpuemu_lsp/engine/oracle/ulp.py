"""Units in the last place of the float formats."""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from gpuemu_lsp.engine.fuzz.dtypes import FloatFormat

Doubles: TypeAlias = npt.NDArray[np.float64]


def spacing(values: Doubles, form: FloatFormat) -> Doubles:
    """Return the distance between neighbours of ``form`` at each value's magnitude; subnormals have the smallest one.

    Infinite and NaN values get the spacing of the largest finite number.
    """
    with np.errstate(invalid="ignore"):
        magnitude = np.minimum(np.nan_to_num(np.abs(values), nan=form.largest, posinf=form.largest), form.largest)
    _, exponents = np.frexp(magnitude)
    result: Doubles = np.ldexp(1.0, exponents - form.digits)
    return np.maximum(result, form.smallest)


def overflow_threshold(form: FloatFormat) -> float:
    """Return the magnitude from which rounding to nearest gives infinity (NaN where the format has none)."""
    exponent = int(np.frexp(form.largest)[1])
    half = float(np.ldexp(1.0, exponent - form.digits - 1))
    return form.largest + half if form.largest + half != form.largest else form.largest
