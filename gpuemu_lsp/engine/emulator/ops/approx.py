"""Approximate functions (PTX ISA sections 9.7.3 and 9.7.4), branch-free, for scalars and vectors.

The manual documents bounds of the error, not the bits. These implementations are within about one unit in the last
place, which is inside the bounds, but the bits differ from a GPU's. Special values follow the manual's tables. The
polynomials are near-minimax fits over the stated intervals.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from gpuemu_lsp.engine.emulator.ops import ieee
from gpuemu_lsp.engine.emulator.ops.floating_point import unpacked
from gpuemu_lsp.engine.emulator.ops.form import OpcodeForm, Operation, Resolver, operation
from gpuemu_lsp.engine.emulator.ops.lanes import LaneBuilder, Value, element
from gpuemu_lsp.engine.emulator.ops.types import DOUBLE, FLOAT, I32, I64, PACKED

# (2**x - 1) / x for |x| <= 1/2, relative error of 2**x: 2e-9.
_EXP2 = (
    0.6931471824645996,
    0.24022647738456726,
    0.055503323674201965,
    0.009618435986340046,
    0.001339889713563025,
    0.00015353698108810931,
)
# log2(1 + x) / x for sqrt(1/2) <= 1 + x <= sqrt(2), relative error 4e-9.
_LOG2 = (
    1.4426950216293335,
    -0.7213473320007324,
    0.4808982312679291,
    -0.3606966435909271,
    0.2885672152042389,
    -0.23961719870567322,
    0.20460417866706848,
    -0.1910678744316101,
    0.18615566194057465,
    -0.10991451889276505,
)
# (sin(x)/x - 1) / x**2 and (cos(x) - 1) / x**2 in x**2, for |x| <= pi/4, error below 1e-10.
_SIN = (-0.1666666716337204, 0.008333329111337662, -0.0001983933470910415, 2.718307086979621e-06)
_COS = (-0.5, 0.04166661947965622, -0.0013886680826544762, 2.438354385958519e-05)
# (tanh(x)/x - 1) / x**2 in x**2, for |x| <= 0.55, error 1e-9.
_TANH = (-0.33333319425582886, 0.13332600891590118, -0.053853824734687805, 0.021077638491988182, -0.0062823169864714146)

_FLOATS = ("f32", "f16", "f16x2", "bf16", "bf16x2")


def _polynomial(lanes: LaneBuilder, x: Value, coefficients: Sequence[float]) -> Value:
    """Return the sum of ``coefficients[k] * x**k`` in f32, by Horner's rule with fma."""
    result = lanes.number(FLOAT, coefficients[-1])
    for coefficient in reversed(coefficients[:-1]):
        result = lanes.call("fma", result, x, lanes.number(FLOAT, coefficient))
    return result


def _clamped(lanes: LaneBuilder, x: Value, low: float, high: float) -> Value:
    """Clamp to [low, high]; NaN is kept."""
    bottom, top = lanes.number(element(x), low), lanes.number(element(x), high)
    x = lanes.select(lanes.fcmp("<", x, bottom), bottom, x)
    return lanes.select(lanes.fcmp(">", x, top), top, x)


def _exp2(lanes: LaneBuilder, x: Value) -> Value:
    """Return 2**x in f32, subnormal results included."""
    builder = lanes.builder
    # Below -150 the result rounds to 0, from 128 on it is infinite: clamping keeps the exponent arithmetic in range.
    x = _clamped(lanes, x, -160.0, 130.0)
    # Adding 1.5 * 2**23 rounds to an integer and leaves it in the low bits. A NaN reappears in ``fraction``.
    magic = lanes.number(FLOAT, 12582912.0)
    shifted = builder.fadd(x, magic)
    whole = builder.sub(lanes.bits(shifted, I32), lanes.integer(I32, 0x4B400000))
    fraction = builder.fsub(x, builder.fsub(shifted, magic))
    one = lanes.number(FLOAT, 1.0)
    mantissa = lanes.call("fma", _polynomial(lanes, fraction, _EXP2), fraction, one)
    if lanes.target.avx512:
        full = f"llvm.ldexp.{'' if lanes.count is None else f'v{lanes.count}'}f32"
        full += f".{'' if lanes.count is None else f'v{lanes.count}'}i32"
        return lanes.call_exact(full, mantissa.type, (mantissa, whole))
    # Two factors, since 2**-149 and 2**129 are not normal f32 numbers; only the second product can round.
    half = builder.ashr(whole, lanes.integer(I32, 1))
    for exponent in (half, builder.sub(whole, half)):
        biased = builder.add(exponent, lanes.integer(I32, 127))
        mantissa = builder.fmul(mantissa, lanes.bits(builder.shl(biased, lanes.integer(I32, 23)), FLOAT))
    return mantissa


def _log2(lanes: LaneBuilder, x: Value) -> Value:
    """Return log2(x) in f32, for subnormals too."""
    builder = lanes.builder
    # Subnormals have no implicit leading 1: scale them to normal numbers, and subtract 24 from the result.
    small = lanes.fcmp("<", x, lanes.number(FLOAT, ieee.TINY[FLOAT]))
    scaled = lanes.select(small, builder.fmul(x, lanes.number(FLOAT, 2.0**24)), x)
    pattern = lanes.bits(scaled, I32)
    # Bits of sqrt(1/2): subtracting them gives the exponent that leaves a mantissa in [sqrt(1/2), sqrt(2)), so that
    # log2 near 1 does not cancel.
    root = 0x3F3504F3
    offset = builder.sub(pattern, lanes.integer(I32, root))
    exponent = builder.ashr(offset, lanes.integer(I32, 23))
    rest = builder.and_(offset, lanes.integer(I32, 0x7FFFFF))
    fraction = builder.fsub(lanes.bits(builder.add(rest, lanes.integer(I32, root)), FLOAT), lanes.number(FLOAT, 1.0))
    whole = builder.sitofp(exponent, lanes.type(FLOAT))
    whole = lanes.select(small, builder.fsub(whole, lanes.number(FLOAT, 24.0)), whole)
    result = lanes.call("fma", _polynomial(lanes, fraction, _LOG2), fraction, whole)
    infinity = lanes.number(FLOAT, math.inf)
    result = lanes.select(lanes.fcmp("<", x, infinity), result, x)  # +inf and NaN
    zero = lanes.number(FLOAT, 0.0)
    result = lanes.select(lanes.fcmp("==", x, zero), lanes.number(FLOAT, -math.inf), result)
    return lanes.select(lanes.fcmp("<", x, zero), lanes.number(FLOAT, math.nan), result)


def _sine(lanes: LaneBuilder, x: Value, quarter: int) -> Value:
    """Return sin(x + quarter * pi/2) in f32; the angle is reduced in f64."""
    builder = lanes.builder
    wide = lanes.fpext(x, DOUBLE)
    # As in _exp2: the nearest multiple of pi/2, as a float and, in the low bits, as an integer.
    magic = lanes.number(DOUBLE, 1.5 * 2.0**52)
    shifted = lanes.call("fma", wide, lanes.number(DOUBLE, 2 / math.pi), magic)
    turns = builder.fsub(shifted, magic)
    reduced = lanes.call("fma", turns, lanes.number(DOUBLE, -math.pi / 2), wide)
    # For arguments beyond about 2**50 the reduction has lost all bits; the clamp keeps the result in [-1, 1].
    angle = _clamped(lanes, lanes.fptrunc(reduced, FLOAT), -0.7853982, 0.7853982)
    quadrant = lanes.resize(lanes.bits(shifted, I64), I32)
    if quarter:
        quadrant = builder.add(quadrant, lanes.integer(I32, quarter))
    square = builder.fmul(angle, angle)
    one = lanes.number(FLOAT, 1.0)
    cosine = lanes.call("fma", _polynomial(lanes, square, _COS), square, one)
    sine = builder.fmul(angle, lanes.call("fma", _polynomial(lanes, square, _SIN), square, one))
    odd = lanes.ieq(builder.and_(quadrant, lanes.integer(I32, 1)), lanes.integer(I32, 1))
    chosen = lanes.bits(lanes.select(odd, cosine, sine), I32)
    sign = builder.shl(builder.and_(quadrant, lanes.integer(I32, 2)), lanes.integer(I32, 30))
    return lanes.bits(builder.xor(chosen, sign), FLOAT)


def _sin(lanes: LaneBuilder, x: Value) -> Value:
    return _sine(lanes, x, 0)


def _cos(lanes: LaneBuilder, x: Value) -> Value:
    return _sine(lanes, x, 1)


def _tanh(lanes: LaneBuilder, x: Value) -> Value:
    builder = lanes.builder
    magnitude = lanes.call("fabs", x)
    square = builder.fmul(x, x)
    one, two = lanes.number(FLOAT, 1.0), lanes.number(FLOAT, 2.0)
    near = builder.fmul(magnitude, lanes.call("fma", _polynomial(lanes, square, _TANH), square, one))
    # 1 - 2 / (exp(2x) + 1), with exp(2x) = 2**(2x / ln 2).
    grown = _exp2(lanes, builder.fmul(magnitude, lanes.number(FLOAT, 2.885390043258667)))
    far = builder.fsub(one, builder.fdiv(two, builder.fadd(grown, one)))
    result = lanes.select(lanes.fcmp("<", magnitude, lanes.number(FLOAT, 0.55)), near, far)
    return lanes.call("copysign", result, x)


def _rcp(lanes: LaneBuilder, x: Value) -> Value:
    return lanes.builder.fdiv(lanes.number(element(x), 1.0), x)


def _rsqrt(lanes: LaneBuilder, x: Value) -> Value:
    return _rcp(lanes, lanes.call("sqrt", x))


def _sqrt(lanes: LaneBuilder, x: Value) -> Value:
    return lanes.call("sqrt", x)


_FUNCTIONS: dict[str, tuple[Callable[[LaneBuilder, Value], Value], dict[str, str]]] = {
    "ex2": (
        _exp2,
        {
            "f32": "2 ulp",
            "f16": "2^-9.9 relative",
            "f16x2": "2^-9.9 relative",
            "bf16": "2^-7 relative",
            "bf16x2": "2^-7 relative",
        },
    ),
    "tanh": (
        _tanh,
        {
            "f32": "2^-11 relative",
            "f16": "2^-10.987 absolute",
            "f16x2": "2^-10.987 absolute",
            "bf16": "2^-8 absolute",
            "bf16x2": "2^-8 absolute",
        },
    ),
    "lg2": (_log2, {"f32": "2^-22 absolute in (0.5, 2), relative elsewhere"}),
    "sin": (_sin, {"f32": "2^-20.5 absolute in [-2pi, 2pi]"}),
    "cos": (_cos, {"f32": "2^-20.5 absolute in [-2pi, 2pi]"}),
    "rcp": (_rcp, {"f32": "1 ulp"}),
    "rsqrt": (_rsqrt, {"f32": "2^-22.9 relative", "f64": "undocumented"}),
    "sqrt": (_sqrt, {"f32": "2^-23 relative"}),
}


def _function(form: OpcodeForm) -> Operation | None:
    """Resolve one-operand functions with ``.approx``."""
    function, bounds = _FUNCTIONS[form.opcode]
    approximate, ftz = form.has("approx"), form.has("ftz")
    name = form.type(("f64", *_FLOATS))
    if not approximate or name is None or not form.done:
        return None
    if name == "f64" and ftz and form.opcode in ("rcp", "rsqrt"):
        return operation("f64", ("f64",), _gross(function), "20 bits")
    if name not in bounds or not _flushes(form.opcode, name, ftz):
        return None
    unit = PACKED.get(name, name)

    def emit(lanes: LaneBuilder, a: Value) -> Value:
        if ftz:
            a = ieee.flush(lanes, a, unit)
        result = ieee.narrow(lanes, function(lanes, ieee.widen(lanes, a, unit)), unit)
        return ieee.flush(lanes, result, unit) if ftz else result

    return operation(name, (name,), unpacked(name, emit), bounds[name])


def _flushes(opcode: str, name: str, ftz: bool) -> bool:
    """Whether the type may have (or lack) ``.ftz``: optional for f32, prescribed for f16 and bf16."""
    if name == "f32":
        return not (ftz and opcode == "tanh")
    return ftz == (opcode == "ex2" and name.startswith("bf16"))


def _gross(function: Callable[[LaneBuilder, Value], Value]) -> Callable[[LaneBuilder, Value], Value]:
    """Return ``rcp.approx.ftz.f64`` or ``rsqrt.approx.ftz.f64``, which ignore and clear the low 32 bits."""

    def emit(lanes: LaneBuilder, a: Value) -> Value:
        upper = lanes.integer(I64, 0xFFFFFFFF00000000)
        a = lanes.bits(lanes.builder.and_(lanes.bits(a, I64), upper), DOUBLE)
        result = lanes.bits(function(lanes, ieee.flush(lanes, a, "f64")), I64)
        # Adding half a unit of the upper word rounds to nearest; infinities and canonical NaNs have a zero lower word.
        rounded = lanes.builder.add(result, lanes.integer(I64, 0x80000000))
        return ieee.flush(lanes, lanes.bits(lanes.builder.and_(rounded, upper), DOUBLE), "f64")

    return emit


def _div(form: OpcodeForm) -> Operation | None:
    kind, ftz = form.take("approx", "full"), form.has("ftz")
    name = form.type(("f32",))
    if kind is None or name is None or not form.done:
        return None

    def emit(lanes: LaneBuilder, a: Value, b: Value) -> Value:
        builder = lanes.builder
        if ftz:
            a, b = ieee.flush(lanes, a, name), ieee.flush(lanes, b, name)
        result = builder.fdiv(a, b)
        if kind == "approx":
            # div.approx is a * (1/b) with a flushed reciprocal: 0 for 2**126 < |b|, NaN if a is infinite (9.7.3.8).
            huge = lanes.fcmp(">", lanes.call("fabs", b), lanes.number(FLOAT, 2.0**126))
            nothing = builder.fmul(a, lanes.call("copysign", lanes.number(FLOAT, 0.0), b))
            result = lanes.select(huge, nothing, result)
        return ieee.flush(lanes, result, name) if ftz else result

    return operation(name, (name, name), emit, "2 ulp")


RESOLVERS: dict[str, Resolver] = {"div": _div, **dict.fromkeys(_FUNCTIONS, _function)}
