"""How a kernel computes, as far as rounding is concerned: its formats, its approximate instructions, its range."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from gpuemu_lsp.engine.fuzz.dtypes import FORMATS, FloatFormat
from gpuemu_lsp.engine.fuzz.model import Case
from gpuemu_lsp.engine.plan.model import Plan

Doubles: TypeAlias = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Numerics:
    """How the kernel computes.

    ``precisions`` are the float formats of its arithmetic (``f32``, ``f16``, ..., ``mma`` for sums on tensor cores), as
    its PTX shows; empty for one that only moves data. ``approximate`` names executed instructions with a documented
    error. ``linear`` says it only adds, multiplies and moves.
    """

    precisions: frozenset[str] = frozenset()
    approximate: tuple[str, ...] = ()
    linear: bool = False


_FORMAT_OF = {
    "f64": "float64",
    "f32": "float32",
    "tf32": "tf32",
    "f16": "float16",
    "f16x2": "float16",
    "bf16": "bfloat16",
    "bf16x2": "bfloat16",
    "e4m3": "float8_e4m3fn",
    "e4m3x2": "float8_e4m3fn",
    "e5m2": "float8_e5m2",
    "e5m2x2": "float8_e5m2",
}

_SINGLE = FORMATS["float32"]
_OF_TENSOR_CORES = {
    "tf32": FloatFormat(11, _SINGLE.largest, _SINGLE.tiny, 2.0**-136),
    # Sums in f32: hardware aligns the addends of a step to the largest of them and drops what is then too low.
    "mma": FloatFormat(21, _SINGLE.largest, _SINGLE.tiny, _SINGLE.smallest),
}

_APPROXIMATE = {
    # PTX ISA, floating-point instructions: maximum errors. Only what is worse than a few ulp of fp32 matters here.
    "tanh.approx.f16": 2.0**-10.9,
    "tanh.approx.bf16": 2.0**-8,
    "tanh.approx": 2.0**-10.9,
    "sin.approx": 2.0**-20,
    "cos.approx": 2.0**-20,
    "ex2.approx.f16": 2.0**-9.9,
    "ex2.approx.atype.f16": 2.0**-9.9,
    "ex2.approx.ftz.bf16": 2.0**-7,
    "lg2.approx": 2.0**-21,
}


@dataclass(frozen=True, slots=True)
class KernelArithmetic:
    """Unit roundoff of the operations and of functions, and the format whose range applies.

    ``narrowest`` is the largest number of the smallest range in use.
    """

    unit: float
    function_unit: float
    form: FloatFormat
    narrowest: float

    @staticmethod
    def of(numerics: Numerics, plan: Plan, case: Case) -> KernelArithmetic:
        """Read it off what the PTX shows, for one case: the range depends on its values."""
        names = {_FORMAT_OF.get(name, name) for name in numerics.precisions}
        known = FORMATS | _OF_TENSOR_CORES
        forms = [known[name] for name in names if name in known]
        if not forms:
            forms = [FORMATS["float64" if plan.dtype == "float64" else "float32"]]
        digits = min(form.digits for form in forms)
        # A half-precision sum that overflows on ordinary values is what a user wants to hear of: fp32's range applies,
        # unless the values are so large that their squares leave the smaller one.
        narrow = min(forms, key=lambda form: form.largest)
        wide = FORMATS["float64" if narrow.digits == 53 else "float32"]
        range_of = narrow if narrow.largest > wide.largest or squares_exceed(case, narrow) else wide
        form = FloatFormat(digits, range_of.largest, range_of.tiny, range_of.smallest)
        errors = [
            error
            for executed in numerics.approximate
            for prefix, error in _APPROXIMATE.items()
            if executed.startswith(prefix)
        ]
        return KernelArithmetic(form.roundoff, max((form.roundoff, *errors)), form, narrow.largest)


def squares_exceed(case: Case, form: FloatFormat) -> bool:
    """Whether inputs are so large that their squares leave a format's range: any kernel may overflow then."""
    largest = largest_input(case)
    return largest is not None and largest > float(np.sqrt(form.largest)) / 4


def largest_input(case: Case) -> float | None:
    """Return the largest finite magnitude of the float inputs, or None without any."""
    found = None
    for values in case.tensors.values():
        if values.dtype.kind in "biu" or not values.size:
            continue
        magnitude = np.abs(values.astype(np.float64))
        own = float(np.max(magnitude, initial=0.0, where=np.isfinite(magnitude)))
        found = own if found is None else max(found, own)
    return found


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
