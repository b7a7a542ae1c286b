"""Reference implementation of IEEE 754 arithmetic on bit patterns, by rational numbers."""

from __future__ import annotations

import math
import operator
import random
from dataclasses import dataclass
from fractions import Fraction

import numpy as np


@dataclass(frozen=True)
class Format:
    exponent: int
    mantissa: int

    @property
    def width(self) -> int:
        return 1 + self.exponent + self.mantissa

    @property
    def bias(self) -> int:
        return (1 << (self.exponent - 1)) - 1

    @property
    def infinity(self) -> int:
        return ((1 << self.exponent) - 1) << self.mantissa

    @property
    def sign(self) -> int:
        return 1 << (self.width - 1)

    @property
    def smallest(self) -> Fraction:
        """The spacing of subnormals."""
        return Fraction(2) ** (1 - self.bias - self.mantissa)


FORMATS = {"f16": Format(5, 10), "bf16": Format(8, 7), "f32": Format(8, 23), "f64": Format(11, 52)}


def decode(bits: int, f: Format) -> Fraction | float:
    """Return the value of a bit pattern: a Fraction, or a Python float for zeros, infinities and NaNs."""
    negative, magnitude = bits & f.sign, bits & (f.sign - 1)
    if magnitude > f.infinity:
        return math.nan
    if magnitude == f.infinity:
        return -math.inf if negative else math.inf
    if not magnitude:
        return -0.0 if negative else 0.0
    exponent, fraction = magnitude >> f.mantissa, magnitude & ((1 << f.mantissa) - 1)
    if exponent:
        fraction |= 1 << f.mantissa
    value = fraction * f.smallest * 2 ** max(exponent - 1, 0)
    return -value if negative else value


def encode(value: Fraction | float, f: Format, mode: str = "rn") -> int:
    """Round a value to a bit pattern, in a rounding mode of PTX (``rna``: to nearest, ties away from zero)."""
    if isinstance(value, float):
        if math.isnan(value):
            return f.infinity | 1 << (f.mantissa - 1)
        return (f.sign if math.copysign(1, value) < 0 else 0) | (f.infinity if value else 0)
    negative = value < 0
    magnitude = abs(value)
    exponent = _floor_log2(magnitude)
    unit = max(Fraction(2) ** (exponent - f.mantissa), f.smallest)
    units, rest = divmod(magnitude, unit)
    half = rest * 2 - unit
    away = {
        "rn": half > 0 or (half == 0 and units & 1),
        "rna": half >= 0,
        "rz": False,
        "rm": negative and rest,
        "rp": not negative and rest,
    }[mode]
    magnitude = (units + bool(away)) * unit
    sign = f.sign if negative else 0
    if not magnitude:
        return sign
    exponent = _floor_log2(magnitude)
    if exponent > f.bias:
        inwards = mode == "rz" or (mode == "rm" and not negative) or (mode == "rp" and negative)
        return sign | (f.infinity - 1 if inwards else f.infinity)
    if exponent < 1 - f.bias:
        return sign | int(magnitude / f.smallest)
    unit = Fraction(2) ** (exponent - f.mantissa)
    return sign | (exponent + f.bias - 1 << f.mantissa) + int(magnitude / unit)


def _floor_log2(value: Fraction) -> int:
    guess = value.numerator.bit_length() - value.denominator.bit_length()
    return guess if value >= Fraction(2) ** guess else guess - 1


def flushed(bits: int, f: Format) -> int:
    return bits if bits & f.infinity else bits & f.sign


def _special(value: Fraction | float) -> float:
    """Return a float of the same sign and class (finite, infinite, NaN)."""
    return value if isinstance(value, float) else 1.0 if value > 0 else -1.0


def compute(operation: str, mode: str, f: Format, *patterns: int) -> int:
    """Return the bit pattern of ``add sub mul div fma sqrt`` of ``patterns``; any NaN if the result is NaN."""
    values = [decode(pattern, f) for pattern in patterns]
    if operation == "sub":
        operation, values = "add", [values[0], -values[1]]
    if any(isinstance(v, float) and not math.isfinite(v) for v in values):
        return encode(_of_specials(operation, [_special(v) for v in values]), f)
    if operation == "sqrt":
        return _square_root(values[0], f, mode)
    if operation == "div":
        if values[1] == 0:
            kinds = [_special(v) for v in values]
            sign = math.copysign(1, kinds[0]) * math.copysign(1, kinds[1])
            return encode(math.nan if values[0] == 0 else sign * math.inf, f)
        exact = Fraction(values[0]) / Fraction(values[1])
        zero = math.copysign(0.0, math.copysign(1, _special(values[0])) * _special(values[1]))
    elif operation == "mul":
        exact = Fraction(values[0]) * Fraction(values[1])
        zero = math.copysign(0.0, math.copysign(1, _special(values[0])) * math.copysign(1, _special(values[1])))
    else:
        if operation == "fma":
            product = Fraction(values[0]) * Fraction(values[1])
            sign = math.copysign(1, _special(values[0])) * math.copysign(1, _special(values[1]))
            terms = [product or math.copysign(0.0, sign), values[2]]
        else:
            terms = values
        exact = Fraction(terms[0]) + Fraction(terms[1])
        signs = [math.copysign(1, _special(t)) for t in terms]
        zero = math.copysign(0.0, signs[0] if signs[0] == signs[1] else (-1 if mode == "rm" else 1))
    return encode(exact or zero, f, mode)


def _of_specials(operation: str, values: list[float]) -> float:
    with np.errstate(all="ignore"):
        a, *rest = map(np.float64, values)
        if operation == "sqrt":
            return float(np.sqrt(a))
        if operation == "fma":
            return float(a * rest[0] + rest[1])
        return float({"add": operator.add, "mul": operator.mul, "div": operator.truediv}[operation](a, rest[0]))


def _square_root(value: Fraction | float, f: Format, mode: str) -> int:
    if value == 0:
        return encode(value, f)
    if value < 0:
        return encode(math.nan, f)
    # The root is rounded to odd with enough extra bits that rounding it again is correct.
    shift = 2 * (f.mantissa + 4) + 2 * f.bias + 2 * f.mantissa
    shift += shift & 1
    scaled = value * 4**shift
    assert scaled.denominator == 1
    root = math.isqrt(scaled.numerator)
    sticky = Fraction(1, 2) if root * root != scaled.numerator else 0
    return encode((root + sticky) / Fraction(2) ** shift, f, mode)


def is_nan(pattern: int, f: Format) -> bool:
    return pattern & (f.sign - 1) > f.infinity


def edges(f: Format) -> list[int]:
    """Return bit patterns at the boundaries of a format: zeros, subnormals, powers of two, infinities, NaN."""
    one = f.bias << f.mantissa
    positive = [
        0, 1, 2, (1 << f.mantissa) - 1, 1 << f.mantissa, (1 << f.mantissa) + 1, one - 1, one, one + 1,
        one + (1 << f.mantissa - 1), one + (1 << f.mantissa), one - (1 << f.mantissa), one + 3 * (1 << f.mantissa),
        f.infinity - (1 << f.mantissa), f.infinity - 1, f.infinity, f.infinity | 1 << f.mantissa - 1,
    ]  # fmt: skip
    return positive + [pattern | f.sign for pattern in positive]


def cases(f: Format, arity: int, count: int, seed: str) -> list[tuple[int, ...]]:
    """Return boundary patterns, random patterns, and numbers of similar size, whose sums cancel and tie."""
    rng = random.Random(seed)
    special = edges(f)
    found = [tuple(rng.choice(special) for _ in range(arity)) for _ in range(count)]
    found += [tuple(rng.getrandbits(f.width) for _ in range(arity)) for _ in range(count)]
    for _ in range(count):
        middle = rng.randrange(f.mantissa + 2, 2 * f.bias - f.mantissa - 2)
        row = []
        for position in range(arity):
            exponent = middle if position != 1 or arity < 3 else f.bias
            exponent += rng.randrange(-f.mantissa - 2, f.mantissa + 2) // rng.choice((1, 2, 4))
            few = rng.getrandbits(f.mantissa) & -(1 << rng.randrange(f.mantissa))
            row.append(rng.getrandbits(1) << (f.width - 1) | min(max(exponent, 0), 2 * f.bias) << f.mantissa | few)
        found.append(tuple(row))
    return found
