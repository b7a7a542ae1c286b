"""NumPy dtypes by name, and the parameters of the floating-point formats."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import ml_dtypes
import numpy as np

_EXTENSION = ("bfloat16", "float8_e4m3fn", "float8_e5m2")


@dataclass(frozen=True, slots=True)
class FloatFormat:
    """A binary floating-point format.

    ``digits`` counts significand bits with the hidden one; ``tiny`` is the smallest normal and ``smallest`` the
    smallest subnormal value; ``has_inf`` is False for e4m3fn, whose only special value is NaN.
    """

    digits: int
    largest: float
    tiny: float
    smallest: float
    has_inf: bool = True

    @property
    def roundoff(self) -> float:
        """The unit roundoff u: half the distance from 1 to the next larger number."""
        return 2.0**-self.digits


FORMATS = {
    "float64": FloatFormat(53, float(np.finfo(np.float64).max), 2.0**-1022, 2.0**-1074),
    "float32": FloatFormat(24, float(np.finfo(np.float32).max), 2.0**-126, 2.0**-149),
    "float16": FloatFormat(11, 65504.0, 2.0**-14, 2.0**-24),
    "bfloat16": FloatFormat(8, (2 - 2.0**-7) * 2.0**127, 2.0**-126, 2.0**-133),
    "float8_e4m3fn": FloatFormat(4, 448.0, 2.0**-6, 2.0**-9, has_inf=False),
    "float8_e5m2": FloatFormat(3, 57344.0, 2.0**-14, 2.0**-16),
}
"""Floating-point formats by dtype name."""


@lru_cache(maxsize=64)
def numpy_dtype(name: str) -> np.dtype[Any]:
    """Return the NumPy dtype of a dtype name (``bfloat16`` and the fp8 types come from ml_dtypes)."""
    return np.dtype(getattr(ml_dtypes, name)) if name in _EXTENSION else np.dtype(name)


def is_float(name: str) -> bool:
    """Whether a dtype name is a floating-point type."""
    return name in FORMATS
