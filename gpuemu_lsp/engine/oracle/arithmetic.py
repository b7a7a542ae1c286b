"""Arithmetic of a kernel as far as rounding is concerned: formats, approximate instructions, range, spacing."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from gpuemu_lsp.engine.fuzz.dtypes import FORMATS, FloatFormat
from gpuemu_lsp.engine.fuzz.model import Case
from gpuemu_lsp.engine.plan.model import Plan

Doubles: TypeAlias = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Numerics:
    """Properties of a kernel's computation, read from its PTX.

    ``precisions`` are the float formats of its arithmetic instructions (``f32``, ``f16``, ..., ``mma`` for sums on
    tensor cores); empty for a kernel that only moves data. ``approximate`` names executed instructions with a
    documented maximum error. ``linear`` is True for a kernel that only adds, multiplies and moves values.
    ``narrow_sums`` are the formats of 16 bits or less in which it holds partial results of a long sum, ``mma.f16`` for
    those of tensor cores. ``ignores_nan``: it has a maximum or minimum that is the other operand where one is NaN.
    """

    precisions: frozenset[str] = frozenset()
    approximate: tuple[str, ...] = ()
    linear: bool = False
    narrow_sums: frozenset[str] = frozenset()
    ignores_nan: bool = False

    def with_wide_sums(self) -> Numerics:
        """Return the numerics of the same computation with sums in fp32, which tensor cores may round as well."""
        return replace(self, precisions=self.precisions - _NARROW | {"mma"}, narrow_sums=frozenset())


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

_NARROW = frozenset({"f16", "bf16", "e4m3", "e5m2"})
_SINGLE = FORMATS["float32"]
_TENSOR_CORE_FORMATS = {
    # tf32 keeps f32's exponent and 10 explicit mantissa bits (PTX ISA, "Alternate floating-point data formats").
    "tf32": FloatFormat(11, _SINGLE.largest, _SINGLE.tiny, 2.0**-136),
    # PTX leaves the rounding of mma accumulation to the implementation. Measured hardware aligns the addends of one
    # step to the largest of them and truncates the rest, which costs about three of f32's 24 digits (Fasi, Higham,
    # Mikaitis, Pranesh, "Numerical behavior of NVIDIA tensor cores", 2021).
    "mma": FloatFormat(21, _SINGLE.largest, _SINGLE.tiny, _SINGLE.smallest),
}

# Maximum errors from the PTX ISA, "Floating point instructions", by prefix of the instruction's name. Instructions
# within a few ulp of f32 (rcp.approx, sqrt.approx, ...) are left out: the general factors of the budget cover them.
_APPROXIMATION_ERRORS = {
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
    """Rounding model of a kernel on one case.

    ``unit`` is the unit roundoff of its operations, ``function_unit`` that of functions such as ``exp``; both are
    relative errors. ``form`` has the precision of the narrowest format and the range that applies.
    """

    unit: float
    function_unit: float
    form: FloatFormat

    @staticmethod
    def of(numerics: Numerics, plan: Plan, case: Case) -> KernelArithmetic:
        """Derive the model from the PTX's formats and from the magnitudes of the case's inputs."""
        names = {_FORMAT_OF.get(name, name) for name in numerics.precisions}
        known = FORMATS | _TENSOR_CORE_FORMATS
        forms = [known[name] for name in names if name in known]
        if not forms:
            forms = [FORMATS["float64" if plan.dtype == "float64" else "float32"]]
        # The narrowest format decides the precision even if only one instruction uses it: which results pass through
        # that instruction is not known here.
        digits = min(form.digits for form in forms)
        # Range is treated the other way round. An fp16 sum that overflows on ordinary values is a bug to report, so
        # fp32's range applies, unless the inputs are so large that their squares leave fp16: any kernel may overflow
        # on those.
        narrow = min(forms, key=lambda form: form.largest)
        wide = FORMATS["float64" if narrow.digits == 53 else "float32"]
        range_of = narrow if narrow.largest > wide.largest or squares_exceed(case, narrow) else wide
        form = FloatFormat(digits, range_of.largest, range_of.tiny, range_of.smallest)
        errors = [
            error
            for executed in numerics.approximate
            for prefix, error in _APPROXIMATION_ERRORS.items()
            if executed.startswith(prefix)
        ]
        return KernelArithmetic(form.roundoff, max((form.roundoff, *errors)), form)


def squares_exceed(case: Case, form: FloatFormat) -> bool:
    """Return whether squares of the inputs overflow ``form``, with two binary digits to spare for a sum of them."""
    largest = largest_input(case)
    return largest is not None and largest > float(np.sqrt(form.largest)) / 4


def largest_input(case: Case) -> float | None:
    """Return the largest finite magnitude of the float inputs, None without float inputs."""
    found = None
    for values in case.tensors.values():
        if values.dtype.kind in "biu" or not values.size:
            continue
        magnitude = np.abs(values.astype(np.float64))
        own = float(np.max(magnitude, initial=0.0, where=np.isfinite(magnitude)))
        found = own if found is None else max(found, own)
    return found


# ---- units in the last place -----------------------------------------------------------------------------------------


def spacing(values: Doubles, form: FloatFormat) -> Doubles:
    """Return the distance between neighbouring numbers of ``form`` at each value's magnitude (one ulp).

    Subnormal values have the spacing of the smallest normal number; infinite and NaN values that of the largest
    finite one.
    """
    with np.errstate(invalid="ignore"):
        magnitude = np.minimum(np.nan_to_num(np.abs(values), nan=form.largest, posinf=form.largest), form.largest)
    _, exponents = np.frexp(magnitude)
    result: Doubles = np.ldexp(1.0, exponents - form.digits)
    return np.maximum(result, form.smallest)


def overflow_threshold(form: FloatFormat) -> float:
    """Return the magnitude from which rounding to nearest gives infinity (NaN in formats without infinity).

    It lies half an ulp above the largest finite number (IEEE 754-2019, section 4.3.1).
    """
    exponent = int(np.frexp(form.largest)[1])
    half = float(np.ldexp(1.0, exponent - form.digits - 1))
    # float64 cannot represent its own threshold: adding half an ulp rounds back to the largest number.
    return form.largest + half if form.largest + half != form.largest else form.largest


def integer_distance(left: npt.NDArray[Any], right: npt.NDArray[Any]) -> Doubles:
    """Return ``|left - right|`` in fp64, for arrays of one integer dtype; zero for equal elements only.

    Above 2**53 neighbouring integers are one number in fp64, so the difference is taken before the conversion.
    """
    unsigned = np.dtype(f"u{left.dtype.itemsize}")
    larger = np.maximum(left, right).astype(unsigned)
    distance: Doubles = (larger - np.minimum(left, right).astype(unsigned)).astype(np.float64)
    return distance
