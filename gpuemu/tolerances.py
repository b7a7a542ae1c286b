"""Tolerances of the form ``|actual - expected| <= atol + rtol * |expected|``, and their measurement.

They are for comparisons with a fixed tolerance. Without one, the checks of this package derive a budget for each
element from the reference itself, which is neither too tight for long sums nor blind to small constants.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from gpuemu_lsp.engine.fuzz.dtypes import numpy_dtype

_DEFAULT = {"float16": (1e-3, 1e-2), "bfloat16": (1e-2, 1e-1), "float32": (1e-5, 1e-4), "float64": (1e-10, 1e-9)}
_STRICT = {"float16": (1e-4, 1e-3), "bfloat16": (1e-3, 1e-2), "float32": (1e-6, 1e-5), "float64": (1e-12, 1e-11)}
_RELAXED = {"float16": (1e-2, 1e-1), "bfloat16": (5e-2, 5e-1), "float32": (1e-4, 1e-3), "float64": (1e-8, 1e-7)}
_PRODUCTION = {"float16": (5e-4, 5e-3), "bfloat16": (5e-3, 5e-2), "float32": (1e-6, 1e-5), "float64": (1e-12, 1e-11)}
_FRAMEWORKS = {"numpy": 1.0, "pytorch": 1.0, "torch": 1.0, "jax": 1.5, "tensorflow": 1.5}
_OPERATIONS = {"matmul": 1.5, "conv2d": 2.0, "softmax": 1.5, "batchnorm": 2.0, "layernorm": 2.0, "attention": 2.5}
_CROSS_FRAMEWORK = 1.5


@dataclass(frozen=True, slots=True)
class ToleranceConfig:
    """An absolute and a relative tolerance."""

    atol: float = 1e-5
    rtol: float = 1e-5

    @classmethod
    def for_dtype(cls, dtype: str, framework: str = "numpy") -> ToleranceConfig:
        """Return the default of a dtype, scaled for a framework."""
        return cls(*_DEFAULT.get(dtype, (1e-5, 1e-5))).scale(_FRAMEWORKS.get(framework, 1.0))

    @classmethod
    def strict(cls, dtype: str) -> ToleranceConfig:
        """Return a tight tolerance of a dtype."""
        return cls(*_STRICT.get(dtype, (1e-6, 1e-5)))

    @classmethod
    def relaxed(cls, dtype: str) -> ToleranceConfig:
        """Return a loose tolerance of a dtype."""
        return cls(*_RELAXED.get(dtype, (1e-4, 1e-3)))

    def scale(self, factor: float) -> ToleranceConfig:
        """Return both tolerances multiplied."""
        return ToleranceConfig(self.atol * factor, self.rtol * factor)

    def to_dict(self) -> dict[str, float]:
        """Return ``atol`` and ``rtol``."""
        return {"atol": self.atol, "rtol": self.rtol}


@dataclass(frozen=True, slots=True)
class ToleranceProfile:
    """Tolerances by dtype."""

    tolerances: Mapping[str, ToleranceConfig]
    name: str = ""

    _FALLBACK: ClassVar[ToleranceConfig] = ToleranceConfig()

    def get(self, dtype: str) -> ToleranceConfig:
        """Return the tolerance of a dtype."""
        return self.tolerances.get(dtype, self._FALLBACK)

    @classmethod
    def for_testing(cls) -> ToleranceProfile:
        """Return the defaults."""
        return cls({name: ToleranceConfig(*pair) for name, pair in _DEFAULT.items()}, "testing")

    @classmethod
    def for_production(cls) -> ToleranceProfile:
        """Return tight tolerances."""
        return cls({name: ToleranceConfig(*pair) for name, pair in _PRODUCTION.items()}, "production")

    @classmethod
    def for_cross_framework(cls, source: str, target: str) -> ToleranceProfile:
        """Return tolerances for results of two frameworks."""
        factor = max(_FRAMEWORKS.get(source, 1.0), _FRAMEWORKS.get(target, 1.0)) * _CROSS_FRAMEWORK
        scaled = {name: ToleranceConfig(*pair).scale(factor) for name, pair in _DEFAULT.items()}
        return cls(scaled, f"{source}-{target}")


def get_recommended_tolerance(
    dtype: str, framework: str | None = None, operation: str | None = None
) -> ToleranceConfig:
    """Return the default of a dtype, scaled for a framework and an operation."""
    factor = _OPERATIONS.get((operation or "").lower(), 1.0)
    return ToleranceConfig.for_dtype(dtype, framework or "numpy").scale(factor)


def compare_tolerances(first: ToleranceConfig, second: ToleranceConfig) -> dict[str, Any]:
    """Return the ratios of two tolerances, and which is tighter: ``first``, ``second``, ``equal`` or ``mixed``."""
    ratios = {"atol_ratio": _ratio(first.atol, second.atol), "rtol_ratio": _ratio(first.rtol, second.rtol)}
    below = all(ratio <= 1 for ratio in ratios.values())
    above = all(ratio >= 1 for ratio in ratios.values())
    names = {(True, True): "equal", (True, False): "first", (False, True): "second"}
    return {**ratios, "tighter": names.get((below, above), "mixed")}


def calibrate_tolerance(
    reference_fn: Callable[..., Any],
    test_fn: Callable[..., Any],
    input_shapes: Sequence[Any],
    dtype: str = "float32",
    n_samples: int = 100,
    seed: int = 42,
    percentile: float = 99.0,
    safety_margin: float = 2.0,
) -> ToleranceConfig:
    """Measure the differences of two functions on standard normal inputs.

    Parameters
    ----------
    reference_fn, test_fn : Callable
        Functions of arrays.
    input_shapes : Sequence
        The shape of each positional argument, or a list of such sequences, which are used in turn.
    dtype : str
        Dtype of the inputs.
    n_samples : int
        Number of inputs.
    percentile : float
        Percentile of the samples' largest differences.
    safety_margin : float
        Factor of that percentile.

    Returns
    -------
    ToleranceConfig
        Absolute and relative tolerance, each measured on its own.

    Raises
    ------
    ValueError
        If the results differ in shape, or no sample has finite results: no tolerance covers such differences.
    """
    variants = _shapes(input_shapes)
    random = np.random.default_rng(seed)
    absolute, relative = [], []
    for sample in range(n_samples):
        shapes = variants[sample % len(variants)]
        inputs = [random.standard_normal(shape).astype(numpy_dtype(dtype)) for shape in shapes]
        expected = np.asarray(reference_fn(*(one.copy() for one in inputs))).astype(np.float64)
        actual = np.asarray(test_fn(*(one.copy() for one in inputs))).astype(np.float64)
        if expected.shape != actual.shape:
            raise ValueError(f"the functions return the shapes {expected.shape} and {actual.shape} for {shapes}")
        finite = np.isfinite(expected) & np.isfinite(actual)
        if not np.array_equal(np.isnan(expected), np.isnan(actual)):
            raise ValueError("one function returns NaN where the other does not: no tolerance covers that")
        if not finite.any():
            continue
        difference = np.abs(actual - expected)[finite]
        absolute.append(float(difference.max()))
        relative.append(float((difference / (np.abs(expected[finite]) + 1e-10)).max()))
    if not absolute:
        raise ValueError("no sample has finite results")
    return ToleranceConfig(
        float(np.percentile(absolute, percentile)) * safety_margin,
        float(np.percentile(relative, percentile)) * safety_margin,
    )


def _shapes(given: Sequence[Any]) -> list[list[tuple[int, ...]]]:
    """Return the alternatives: a shape is a sequence of numbers, an alternative a sequence of shapes."""
    if not given:
        raise ValueError("input_shapes is empty")
    nested = [len(one) > 0 and not isinstance(one[0], int | np.integer) for one in given]
    if any(nested) != all(nested):
        raise ValueError("input_shapes mixes shapes with lists of shapes")
    alternatives = given if all(nested) else [given]
    return [[tuple(int(extent) for extent in shape) for shape in one] for one in alternatives]


def _ratio(first: float, second: float) -> float:
    if second:
        return first / second
    return 1.0 if not first else float("inf")
