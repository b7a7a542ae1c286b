"""Elementwise operations: arithmetic, comparisons, functions, selection and conversions of every type."""

from __future__ import annotations

import math

import ml_dtypes
import numpy as np
import pytest
import triton
import triton.language as tl
from language_support import FLOATS, INTEGERS, NUMPY, assert_close, run, values
from triton.language.extra import libdevice

SIZE = 192


@triton.jit
def binary(x, y, out, n, OP: tl.constexpr, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = offsets < n
    a = tl.load(x + offsets, mask=inside, other=1)
    b = tl.load(y + offsets, mask=inside, other=1)
    if OP == "add":
        result = a + b
    elif OP == "sub":
        result = a - b
    elif OP == "mul":
        result = a * b
    elif OP == "floordiv":
        result = a // b
    elif OP == "mod":
        result = a % b
    elif OP == "and":
        result = a & b
    elif OP == "or":
        result = a | b
    elif OP == "xor":
        result = a ^ b
    elif OP == "shl":
        result = a << b
    elif OP == "shr":
        result = a >> b
    elif OP == "min":
        result = tl.minimum(a, b)
    elif OP == "max":
        result = tl.maximum(a, b)
    elif OP == "div":
        result = a / b
    elif OP == "lt":
        result = a < b
    elif OP == "ge":
        result = a >= b
    elif OP == "eq":
        result = a == b
    elif OP == "where":
        result = tl.where(a > b, a, b * 2)
    elif OP == "umulhi":
        result = tl.umulhi(a, b)
    elif OP == "fma":
        result = tl.fma(a, b, a)
    elif OP == "div_rn":
        result = tl.div_rn(a, b)
    elif OP == "clamp":
        result = tl.clamp(a, -0.5, 0.5)
    elif OP == "nan_min":
        result = tl.minimum(a, b, propagate_nan=tl.PropagateNan.ALL)
    tl.store(out + offsets, result, mask=inside)


def truncated(a, b):
    """Return quotients rounded towards zero, as C's."""
    quotient = np.abs(a.astype(object)) // np.abs(b.astype(object))
    return np.where((a < 0) != (b < 0), -quotient, quotient)


def wrapped(exact, dtype):
    """Return exact integers modulo 2 to the number of bits."""
    bits = NUMPY[dtype].itemsize * 8
    return np.array([value % 2**bits for value in exact], np.uint64).astype(f"uint{bits}").view(NUMPY[dtype])


INTEGER_OPS = {
    "add": lambda a, b: a + b,
    "sub": lambda a, b: a - b,
    "mul": lambda a, b: a * b,
    "floordiv": truncated,
    "mod": lambda a, b: a - truncated(a, b) * b,
    "and": lambda a, b: a & b,
    "or": lambda a, b: a | b,
    "xor": lambda a, b: a ^ b,
    "shl": lambda a, b: a << b,
    "shr": lambda a, b: a >> b,
    "min": np.minimum,
    "max": np.maximum,
    "lt": lambda a, b: a < b,
    "ge": lambda a, b: a >= b,
    "eq": lambda a, b: a == b,
    "where": lambda a, b: np.where(a > b, a, b * 2),
}


@pytest.mark.parametrize("dtype", INTEGERS)
@pytest.mark.parametrize("op", INTEGER_OPS)
def test_integers_are_exact(op, dtype):
    a, b = values(dtype, SIZE, 1), values(dtype, SIZE, 2)
    if op in ("shl", "shr"):
        b = b % np.array(NUMPY[dtype].itemsize * 8, b.dtype)
    if op in ("floordiv", "mod"):
        b[b == 0] = 3
        b[b == np.array(-1).astype(b.dtype)] = 5
        b[:20] = np.maximum(b[:20] % np.array(7, b.dtype), 1)
    if op in ("eq", "lt", "ge"):
        b[::3] = a[::3]
    exact = INTEGER_OPS[op](a.astype(object), b.astype(object))
    if op in ("lt", "ge", "eq"):
        out, expected = np.zeros(SIZE, bool), exact.astype(bool)
    else:
        out, expected = np.zeros(SIZE, NUMPY[dtype]), wrapped(exact, dtype)
    run(binary, 2, a, b, out, SIZE - 5, OP=op, BLOCK=128)
    assert out[:-5].tolist() == expected[:-5].tolist() and not out[-5:].any()


FLOAT_OPS = {
    "add": (lambda a, b: a + b, 0.5),
    "sub": (lambda a, b: a - b, 0.5),
    "mul": (lambda a, b: a * b, 0.5),
    "min": (np.minimum, 0),
    "max": (np.maximum, 0),
    # div.full.f32 has a maximum error of 2 ulp (PTX ISA section 9.7.3.8).
    "div": (lambda a, b: a / b, 2.5),
    "mod": (np.fmod, 0),
    "where": (lambda a, b: np.where(a > b, a, b * 2), 0),
    "fma": (lambda a, b: a * b + a, 0.5),
    "lt": (lambda a, b: a < b, 0),
    "eq": (lambda a, b: a == b, 0),
}


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("op", FLOAT_OPS)
def test_floats_are_rounded_once(op, dtype):
    formula, ulps = FLOAT_OPS[op]
    a, b = values(dtype, SIZE, 1), values(dtype, SIZE, 2)
    b[::7] = a[::7]
    wide = np.longdouble if dtype == "float64" else np.float64
    expected = formula(a.astype(wide), b.astype(wide))
    out = np.zeros(SIZE, bool if op in ("lt", "eq") else a.dtype)
    run(binary, 2, a, b, out, SIZE, OP=op, BLOCK=128)
    if out.dtype == bool:
        assert np.array_equal(out, expected)
    else:
        # fmod of a quotient that is rounded: Triton's remainder of floats is exact only for quotients near 0.
        assert_close(out, expected, ulps + 0.01, near_zero=0 if op != "mod" else 1e-6)


@pytest.mark.parametrize(("op", "dtype"), [("div_rn", "float32"), ("clamp", "float32"), ("clamp", "float16")])
def test_rounded_division_and_clamp(op, dtype):
    a, b = values(dtype, SIZE, 1), values(dtype, SIZE, 2)
    out = np.zeros(SIZE, a.dtype)
    run(binary, 2, a, b, out, SIZE, OP=op, BLOCK=128)
    expected = a / b if op == "div_rn" else np.clip(a, np.array(-0.5, a.dtype), np.array(0.5, a.dtype))
    assert np.array_equal(out, expected)


@pytest.mark.parametrize("op", ["min", "max", "nan_min"])
@pytest.mark.parametrize("dtype", FLOATS)
def test_not_a_number_in_minimum_and_maximum(op, dtype):
    a, b = values(dtype, SIZE, 1), values(dtype, SIZE, 2)
    a[::5], b[::3] = np.nan, np.nan
    out = np.zeros(SIZE, a.dtype)
    run(binary, 2, a, b, out, SIZE, OP=op, BLOCK=128)
    formula = {"min": np.fmin, "max": np.fmax, "nan_min": np.minimum}[op]
    assert np.array_equal(out.astype(float), formula(a.astype(float), b.astype(float)), equal_nan=True)


@pytest.mark.parametrize("dtype", ["uint32", "uint64"])
def test_high_halves_of_products(dtype):
    a, b = values(dtype, SIZE, 1), values(dtype, SIZE, 2)
    out = np.zeros(SIZE, a.dtype)
    run(binary, 2, a, b, out, SIZE, OP="umulhi", BLOCK=128)
    assert out.tolist() == [(int(x) * int(y)) >> (a.itemsize * 8) for x, y in zip(a, b, strict=True)]


@triton.jit
def unary(x, out, OP: tl.constexpr, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    a = tl.load(x + offsets)
    if OP == "neg":
        result = -a
    elif OP == "abs":
        result = tl.abs(a)
    elif OP == "invert":
        result = ~a
    elif OP == "exp":
        result = tl.exp(a)
    elif OP == "exp2":
        result = tl.exp2(a)
    elif OP == "log":
        result = tl.log(tl.abs(a) + 0.25)
    elif OP == "log2":
        result = tl.log2(tl.abs(a) + 0.25)
    elif OP == "sqrt":
        result = tl.sqrt(tl.abs(a))
    elif OP == "sqrt_rn":
        result = tl.sqrt_rn(tl.abs(a))
    elif OP == "rsqrt":
        result = tl.rsqrt(tl.abs(a) + 0.25)
    elif OP == "sin":
        result = tl.sin(a)
    elif OP == "cos":
        result = tl.cos(a)
    elif OP == "erf":
        result = tl.erf(a)
    elif OP == "floor":
        result = tl.floor(a * 4)
    elif OP == "ceil":
        result = tl.ceil(a * 4)
    elif OP == "sigmoid":
        result = tl.sigmoid(a)
    elif OP == "tanh":
        result = libdevice.tanh(a)
    elif OP == "log1p":
        result = libdevice.log1p(tl.abs(a))
    elif OP == "expm1":
        result = libdevice.expm1(a)
    elif OP == "pow":
        result = libdevice.pow(tl.abs(a) + 0.25, a)
    elif OP == "atan2":
        result = libdevice.atan2(a, a + 1)
    elif OP == "lgamma":
        result = libdevice.lgamma(tl.abs(a) + 3)
    elif OP == "asin":
        result = libdevice.asin(tl.sin(a) * 0.5)
    elif OP == "rint":
        result = libdevice.rint(a * 4)
    elif OP == "trunc":
        result = libdevice.trunc(a * 4)
    elif OP == "fmod":
        result = libdevice.fmod(a * 4, tl.abs(a) + 0.25)
    elif OP == "cbrt":
        result = libdevice.cbrt(a)
    elif OP == "isnan":
        result = libdevice.isnan(a).to(a.dtype)
    tl.store(out + offsets, result)


FUNCTIONS = {
    "neg": (np.negative, 0),
    "abs": (np.abs, 0),
    # Approximations: PTX ISA sections 9.7.3.14 to 9.7.3.21, and the CUDA Math API for libdevice.
    "exp": (np.exp, 4),
    "exp2": (np.exp2, 4),
    "log": (lambda a: np.log(np.abs(a) + 0.25), 4),
    "log2": (lambda a: np.log2(np.abs(a) + 0.25), 4),
    "sqrt": (lambda a: np.sqrt(np.abs(a)), 4),
    "sqrt_rn": (lambda a: np.sqrt(np.abs(a)), 0.51),
    "rsqrt": (lambda a: 1 / np.sqrt(np.abs(a) + 0.25), 4),
    "sin": (np.sin, 4),
    "cos": (np.cos, 4),
    "erf": (np.vectorize(math.erf), 4),
    "floor": (lambda a: np.floor(a * 4), 0),
    "ceil": (lambda a: np.ceil(a * 4), 0),
    "sigmoid": (lambda a: 1 / (1 + np.exp(-a)), 6),
    "tanh": (np.tanh, 4),
    "log1p": (lambda a: np.log1p(np.abs(a)), 4),
    "expm1": (np.expm1, 4),
    "pow": (lambda a: (np.abs(a) + 0.25) ** a, 12),
    "atan2": (lambda a: np.arctan2(a, a + 1), 6),
    "lgamma": (np.vectorize(lambda a: math.lgamma(abs(a) + 3)), 8),
    "asin": (lambda a: np.arcsin(np.sin(a) * 0.5), 6),
    "rint": (lambda a: np.rint(a * 4), 0),
    "trunc": (lambda a: np.trunc(a * 4), 0),
    "fmod": (lambda a: np.fmod(a * 4, np.abs(a) + 0.25), 0),
    "cbrt": (np.cbrt, 4),
    "isnan": (lambda a: np.isnan(a) * 1.0, 0),
}
NEAR_ZERO = {"log": 3e-7, "log2": 3e-7, "sin": 6e-7, "cos": 6e-7, "atan2": 1e-7, "fmod": 1e-6, "erf": 1e-7}


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("function", FUNCTIONS)
def test_functions_are_those_of_their_names(function, dtype):
    if (function, dtype) == ("sqrt_rn", "float64"):
        pytest.skip("Triton has tl.sqrt_rn of fp32 only")
    formula, ulps = FUNCTIONS[function]
    a = values(dtype, 256, 3)
    out = np.zeros_like(a)
    run(unary, 2, a, out, OP=function, BLOCK=128)
    exact = a.astype(np.float64)
    if function == "atan2":  # the sum is rounded
        expected = np.arctan2(exact, (a + np.array(1, a.dtype)).astype(np.float64))
    else:
        expected = formula(exact)
    # Errors in units of the type: sums before the function are rounded in fp32.
    assert_close(out, expected, ulps + (4 if dtype == "float64" and ulps else 0), NEAR_ZERO.get(function, 0))


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
@pytest.mark.parametrize("function", ["neg", "abs"])
def test_signs_of_short_floats(function, dtype):
    a = values(dtype, 256, 3)
    out = np.zeros_like(a)
    run(unary, 2, a, out, OP=function, BLOCK=128)
    assert np.array_equal(out, FUNCTIONS[function][0](a))


@pytest.mark.parametrize("dtype", INTEGERS)
@pytest.mark.parametrize("function", ["neg", "abs", "invert"])
def test_signs_and_complements_of_integers(function, dtype):
    a = values(dtype, 256, 3)
    out = np.zeros_like(a)
    if function == "neg" and dtype.startswith("u"):
        pytest.skip("Triton has no negation of unsigned integers")
    run(unary, 2, a, out, OP=function, BLOCK=128)
    with np.errstate(over="ignore"):
        expected = {"neg": np.negative, "abs": np.abs, "invert": np.invert}[function](a)
    assert np.array_equal(out, expected)


@triton.jit
def convert(x, out, BITCAST: tl.constexpr, BLOCK: tl.constexpr):
    offsets = tl.arange(0, BLOCK)
    tl.store(out + offsets, tl.load(x + offsets).to(out.dtype.element_ty, bitcast=BITCAST))


@pytest.mark.parametrize("target", [*INTEGERS, *FLOATS])
@pytest.mark.parametrize("source", [*INTEGERS, *FLOATS])
def test_conversions(source, target):
    if source in INTEGERS:
        x = values(source, 128, 4)
        # Sizes that all targets have.
        x[:64] = values(source, 64, 5, 0, 100)
    else:
        x = (values(source, 128, 4) * np.array(20, NUMPY[source])).astype(NUMPY[source])
        if target.startswith("u"):
            x = np.abs(x)
    out = np.zeros(128, NUMPY[target])
    run(convert, 1, x, out, BITCAST=False, BLOCK=128)
    with np.errstate(over="ignore"):
        if source in INTEGERS and target in INTEGERS:
            expected = x.astype(NUMPY[target])
        elif target in INTEGERS:
            expected = np.trunc(x.astype(np.float64)).astype(np.int64).astype(NUMPY[target])
        elif source in INTEGERS:
            # Through the exact integer: NumPy's int64 to float16 is one rounding as well.
            expected = np.array([nearest(int(value), target) for value in x])
        else:
            expected = x.astype(NUMPY[target])
    assert np.array_equal(out.astype(np.float64), expected.astype(np.float64)), (
        x[out != expected][:3],
        out[out != expected][:3],
    )


def nearest(value, dtype):
    """Return an integer rounded once to a float type, ties to even."""
    kind, digits = NUMPY[dtype], {"float16": 11, "bfloat16": 8, "float32": 24, "float64": 53}[dtype]
    excess = max(abs(value).bit_length() - digits, 0)
    quotient, rest = divmod(abs(value), 1 << excess)
    half = (1 << excess) >> 1
    quotient += int(excess > 0 and (rest > half or (rest == half and quotient & 1)))
    return np.array(math.copysign(float(quotient << excess), value)).astype(kind)


@pytest.mark.parametrize(
    ("source", "target"),
    [("float32", "int32"), ("int32", "float32"), ("float16", "int16"), ("uint16", "bfloat16"), ("float64", "uint64"),
     ("int8", "uint8"), ("uint8", "float8e5")],
)  # fmt: skip
def test_bits_of_another_type(source, target):
    x = values(source, 128, 6)
    out = np.zeros(128, NUMPY[target])
    run(convert, 1, x, out, BITCAST=True, BLOCK=128)
    assert np.array_equal(out.view(f"u{out.itemsize}"), x.view(f"u{x.itemsize}"))


@pytest.mark.parametrize(("narrow", "arch"), [("float8e5", "sm_80"), ("float8e5", "sm_90"), ("float8e4nv", "sm_90")])
@pytest.mark.parametrize("wide", ["float16", "bfloat16", "float32"])
def test_floats_of_8_bits(narrow, wide, arch):
    every = np.arange(256, dtype=np.uint8).view(NUMPY[narrow])
    if (narrow, wide) == ("float8e5", "bfloat16"):
        every = np.where(np.isfinite(every), every, 0).astype(every.dtype)  # Triton makes 65536 of infinity
    out = np.zeros(256, NUMPY[wide])
    run(convert, 1, every, out, BITCAST=False, BLOCK=256, arch=arch)
    assert np.array_equal(out.astype(np.float64), every.astype(np.float64), equal_nan=True)
    # And back: values of which one in two lies between two floats of 8 bits.
    x = (values(wide, 256, 7) * np.array(4, NUMPY[wide])).astype(NUMPY[wide])
    back = np.zeros(256, NUMPY[narrow])
    run(convert, 1, x, back, BITCAST=False, BLOCK=256, arch=arch)
    kind = {"float8e5": ml_dtypes.float8_e5m2, "float8e4nv": ml_dtypes.float8_e4m3fn}[narrow]
    assert np.array_equal(back.astype(np.float64), x.astype(np.float32).astype(kind).astype(np.float64))


@triton.jit
def outer(x, y, out, ROWS: tl.constexpr, COLUMNS: tl.constexpr):
    rows, columns = tl.arange(0, ROWS)[:, None], tl.arange(0, COLUMNS)[None, :]
    a = tl.load(x + rows)
    b = tl.load(y + columns)
    tl.store(out + rows * COLUMNS + columns, a * b + a - 2)


@pytest.mark.parametrize("num_warps", [1, 2, 4, 8])
@pytest.mark.parametrize(("rows", "columns"), [(1, 1), (1, 128), (128, 1), (16, 32), (32, 16)])
def test_broadcasts(rows, columns, num_warps):
    x, y = values("int32", rows, 1), values("int32", columns, 2)
    out = np.zeros((rows, columns), np.int32)
    run(outer, 1, x, y, out, ROWS=rows, COLUMNS=columns, num_warps=num_warps)
    with np.errstate(over="ignore"):
        assert np.array_equal(out, x[:, None] * y[None, :] + x[:, None] - np.int32(2))
