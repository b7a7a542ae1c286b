"""IEEE 754 building blocks: flushing, saturation, NaNs, and rounding between the float formats of PTX.

f16 and bf16 arithmetic is computed in f32 and rounded a second time. For ``+ - *`` this equals a single rounding,
because f32 has more than twice their precision plus two bits (Figueroa, "When is double rounding innocuous?", 1995).
Where that does not hold (fma, narrowing from f64), the wider result is first rounded to odd: the last bit is set if any
discarded bit was. Rounding such a result to a format with at least two bits less is always correct (Boldo and
Melquiond, "Emulation of FMA and correctly rounded sums", 2008).
"""

from __future__ import annotations

from gpuemu_lsp.engine.emulator.ops.lanes import LaneBuilder, Value, element, integer_of
from gpuemu_lsp.engine.emulator.ops.types import DOUBLE, FLOAT, HALF, I16, I32, I64

_EXPONENT = {"f16": 0x7C00, "bf16": 0x7F80, "f32": 0x7F800000, "f64": 0x7FF0000000000000}
_INTEGER = {"f16": I16, "bf16": I16, "f32": I32, "f64": I64}
_WIDTH = {"f16": 16, "bf16": 16, "f32": 32, "f64": 64}
CANONICAL_NAN = {"f16": 0x7FFF, "bf16": 0x7FFF, "f32": 0x7FFFFFFF, "f64": 0x7FF8000000000000}
_SCALAR = {"f16": HALF, "bf16": I16, "f32": FLOAT, "f64": DOUBLE}

TINY = {FLOAT: 2.0**-126, DOUBLE: 2.0**-1022}
"""The smallest positive normal number of a format."""


def sign_bit(name: str) -> int:
    """Return the pattern of the sign bit of format ``name``."""
    return 1 << (_WIDTH[name] - 1)


def constant_bits(lanes: LaneBuilder, name: str, pattern: int) -> Value:
    """Return the value of format ``name`` with this bit pattern."""
    return lanes.bits(lanes.integer(_INTEGER[name], pattern), _SCALAR[name])


def flush(lanes: LaneBuilder, value: Value, name: str) -> Value:
    """Flush subnormals to zeros of the same sign (``.ftz``)."""
    integer = _INTEGER[name]
    pattern = lanes.bits(value, integer)
    exponent = lanes.builder.and_(pattern, lanes.integer(integer, _EXPONENT[name]))
    small = lanes.ieq(exponent, lanes.integer(integer, 0))
    zero = lanes.builder.and_(pattern, lanes.integer(integer, sign_bit(name)))
    return lanes.bits(lanes.select(small, zero, pattern), _SCALAR[name])


def saturate(lanes: LaneBuilder, value: Value) -> Value:
    """Clamp to [0, 1]; NaN becomes +0 (``.sat``)."""
    scalar = element(value)
    zero, one = lanes.number(scalar, 0.0), lanes.number(scalar, 1.0)
    # The ordered comparison is false for NaN, which so becomes +0 (PTX ISA section 9.7.3).
    value = lanes.select(lanes.fcmp(">", value, zero), value, zero)
    return lanes.select(lanes.fcmp("<", value, one), value, one)


def rectify(lanes: LaneBuilder, value: Value) -> Value:
    """Clamp negative numbers to +0 and keep NaN (``.relu``)."""
    zero = lanes.number(element(value), 0.0)
    return lanes.select(lanes.builder.fcmp_unordered(">", value, zero), value, zero)


def widen(lanes: LaneBuilder, value: Value, name: str) -> Value:
    """Extend f16 and bf16 values to f32; values of other formats are returned as they are."""
    if name == "f16":
        return lanes.fpext(value, FLOAT)
    if name == "bf16":
        return lanes.bits(lanes.builder.shl(lanes.resize(value, I32), lanes.integer(I32, 16)), FLOAT)
    return value


def narrow(lanes: LaneBuilder, value: Value, name: str) -> Value:
    """Round an f32 to f16 or bf16, to nearest even; values of other formats are returned as they are.

    Every NaN becomes the canonical one (PTX ISA section 9.7.4: half precision arithmetic), where a host's conversion
    would keep sign and payload. ptxas folds ``cvt.rn.f16.f32`` of any NaN to 0x7fff.
    """
    if name == "f16":
        nan = lanes.fcmp("uno", value, value)
        return lanes.select(nan, constant_bits(lanes, name, CANONICAL_NAN[name]), lanes.fptrunc(value, HALF))
    if name != "bf16":
        return value
    # Adding just under half a unit, and 1 more if the result would be odd, carries into the upper half exactly where
    # rounding to nearest even rounds up. NaNs could carry into infinity, and are selected separately.
    pattern = lanes.bits(value, I32)
    builder = lanes.builder
    odd = builder.and_(builder.lshr(pattern, lanes.integer(I32, 16)), lanes.integer(I32, 1))
    rounded = builder.add(builder.add(pattern, lanes.integer(I32, 0x7FFF)), odd)
    upper = lanes.resize(builder.lshr(rounded, lanes.integer(I32, 16)), I16)
    nan = lanes.fcmp("uno", value, value)
    return lanes.select(nan, lanes.integer(I16, CANONICAL_NAN["bf16"]), upper)


def to_odd(lanes: LaneBuilder, rounded: Value, remainder: Value) -> Value:
    """Return the result rounded to odd, given the result rounded to nearest.

    ``remainder`` is a float with the sign of (exact - rounded): 0 if exact, NaN or 0 where ``rounded`` is not finite.
    """
    integer = integer_of(element(rounded))
    builder = lanes.builder
    pattern = lanes.bits(rounded, integer)
    zero, one = lanes.integer(integer, 0), lanes.integer(integer, 1)
    remainder_integer = integer_of(element(remainder))
    inexact = lanes.fcmp("!=", remainder, lanes.number(element(remainder), 0.0))
    even = lanes.ieq(builder.and_(pattern, one), zero)
    # If the result is even and not exact, one of its two neighbours is the odd one: outwards if the exact value lies
    # there. Patterns of one sign are ordered like magnitudes.
    negative = builder.icmp_signed("<", pattern, zero)
    below = builder.icmp_signed("<", lanes.bits(remainder, remainder_integer), lanes.integer(remainder_integer, 0))
    outwards = lanes.ieq(negative, below)
    step = lanes.select(outwards, one, lanes.integer(integer, -1))
    moved = builder.add(pattern, step)
    return lanes.bits(lanes.select(builder.and_(inexact, even), moved, pattern), element(rounded))


def sum_error(lanes: LaneBuilder, left: Value, right: Value, total: Value) -> Value:
    """Return ``left + right - total`` exactly, for ``total`` their rounded sum (Knuth's TwoSum).

    NaN or 0 where the sum is not finite.
    """
    builder = lanes.builder
    virtual = builder.fsub(total, left)
    left_error = builder.fsub(left, builder.fsub(total, virtual))
    return builder.fadd(left_error, builder.fsub(right, virtual))


def double_to_float_odd(lanes: LaneBuilder, value: Value) -> Value:
    """Round f64 to f32, to odd, so that a second rounding to f16 or bf16 is correct."""
    rounded = lanes.fptrunc(value, FLOAT)
    # On overflow the difference is infinite or NaN, and infinity stays: a narrower format overflows as well.
    return to_odd(lanes, rounded, lanes.builder.fsub(value, lanes.fpext(rounded, DOUBLE)))
