"""Approximate functions: errors against f64 within the manual's bounds, and the special values of its tables."""

from __future__ import annotations

import math

import numpy as np
import pytest
from support.instruction_launch import parse, run

from gpuemu_lsp.engine.emulator import ops

_SAMPLES = 100_000


def _run(name: str, *arrays: np.ndarray) -> np.ndarray:
    operands = ", ".join("dabc"[: len(arrays) + 1])
    dtype = arrays[0].dtype
    word = np.dtype(f"u{dtype.itemsize}")
    return run(f"{name} {operands}", *(array.view(word) for array in arrays))[0].view(dtype)


def _relative(got: np.ndarray, exact: np.ndarray) -> float:
    return float(np.max(np.abs(got - exact) / np.abs(exact)))


def _absolute(got: np.ndarray, exact: np.ndarray) -> float:
    return float(np.max(np.abs(got - exact)))


@pytest.mark.parametrize(
    ("name", "function", "ranges", "error", "bound"),
    [
        ("ex2.approx.f32", np.exp2, [(-126, 127.99), (-1, 1), (-1e-3, 1e-3)], _relative, 2**-22.5),
        ("lg2.approx.f32", np.log2, [(0.51, 1.99), (0.999, 1.001)], _absolute, 2**-22),
        ("lg2.approx.f32", np.log2, [(1e-30, 0.5), (2, 1e30), (1e-44, 1e-38)], _relative, 2**-22),
        ("tanh.approx.f32", np.tanh, [(1e-9, 0.6), (-10, -0.5), (0.5, 100)], _relative, 2**-11),
        ("sin.approx.f32", np.sin, [(-6.2831, 6.2831), (-1, 1), (-314, 314)], _absolute, 2**-20.5),
        ("cos.approx.f32", np.cos, [(-6.2831, 6.2831), (-1, 1), (-314, 314)], _absolute, 2**-20.5),
        ("rcp.approx.f32", lambda x: 1 / x, [(1e-37, 1e-30), (-5, -0.1), (1, 1e37)], _relative, 2**-23),
        ("rsqrt.approx.f32", lambda x: x**-0.5, [(1e-37, 1e-30), (0.1, 5), (1, 1e37)], _relative, 2**-22.9),
        ("sqrt.approx.f32", np.sqrt, [(1e-37, 1e-30), (0.1, 5), (1, 1e37)], _relative, 2**-23),
    ],
)
def test_error(name: str, function, ranges, error, bound: float) -> None:
    rng = np.random.default_rng(7)
    for low, high in ranges:
        x = rng.uniform(low, high, _SAMPLES).astype(np.float32)
        if low > 0 and high / low > 100:
            x = np.exp(rng.uniform(np.log(low), np.log(high), _SAMPLES)).astype(np.float32)
        assert error(_run(name, x).astype(np.float64), function(x.astype(np.float64))) <= bound, (low, high)
        if name.startswith("tanh"):
            continue
        normal = x[np.abs(x) >= 2.0**-126]
        if normal.size:
            flushed = name.replace(".approx", ".approx.ftz")
            assert error(_run(flushed, normal).astype(np.float64), function(normal.astype(np.float64))) <= bound


@pytest.mark.parametrize(
    ("name", "function", "bound"),
    [("ex2.approx.f16", np.exp2, 2**-9.9), ("tanh.approx.f16", np.tanh, 2**-10.987)],
)
def test_every_half(name: str, function, bound: float) -> None:
    every = np.arange(1 << 16, dtype=np.uint16).view(np.float16)
    with np.errstate(over="ignore"):
        exact = function(every.astype(np.float64)).astype(np.float16).astype(np.float64)
    got = _run(name, every).astype(np.float64)
    np.testing.assert_array_equal(np.isnan(got), np.isnan(exact))
    finite = np.isfinite(exact) & (np.abs(exact) > 2.0**-14)
    np.testing.assert_array_equal(got[np.isinf(exact)], np.inf)
    assert np.max(np.abs(got[finite] - exact[finite]) / np.abs(exact[finite])) <= bound
    (packed,) = run(f"{name}x2 d, a", np.arange(1 << 16, dtype=np.uint32) * 0x10001)
    (single,) = run(f"{name} d, a", np.arange(1 << 16, dtype=np.uint16))
    assert (packed == single * np.uint32(0x10001)).all()


@pytest.mark.parametrize(("name", "function"), [("ex2.approx.ftz.bf16", np.exp2), ("tanh.approx.bf16", np.tanh)])
def test_every_bfloat(name: str, function) -> None:
    patterns = np.arange(1 << 16, dtype=np.uint32)
    with np.errstate(invalid="ignore"):  # some patterns are signalling NaNs
        x = (patterns << np.uint32(16)).view(np.float32).astype(np.float64)
    (result,) = run(f"{name} d, a", patterns)
    got = (result.astype(np.uint32) << np.uint32(16)).view(np.float32).astype(np.float64)
    with np.errstate(over="ignore"):
        exact = function(x)
    usual = np.isfinite(exact) & (np.abs(exact) >= 2.0**-126) & (np.abs(exact) < 3e38)
    assert np.max(np.abs(got[usual] - exact[usual]) / np.abs(exact[usual])) <= 2**-8
    np.testing.assert_array_equal(np.isnan(got), np.isnan(x))


_INF, _NAN, _TINY = math.inf, math.nan, 2.0**-130


@pytest.mark.parametrize(
    ("name", "table"),
    [
        ("ex2.approx.f32", [(-_INF, 0), (-0.0, 1), (_TINY, 1), (_INF, _INF), (128, _INF), (-149, 2.0**-149)]),
        ("ex2.approx.ftz.f32", [(-_INF, 0), (-0.0, 1), (_TINY, 1), (_INF, _INF), (-127, 0), (10, 1024)]),
        ("lg2.approx.f32", [(-_INF, _NAN), (-1, _NAN), (-0.0, -_INF), (0, -_INF), (_INF, _INF), (_TINY, -130), (8, 3)]),
        ("lg2.approx.ftz.f32", [(-_TINY, -_INF), (_TINY, -_INF), (1, 0)]),
        ("rcp.approx.f32", [(-_INF, -0.0), (_INF, 0), (0, _INF), (-0.0, -_INF), (2.0**-127, 2.0**127)]),
        ("rcp.approx.ftz.f32", [(_TINY, _INF), (-_TINY, -_INF), (2.0**127, 0), (-(2.0**127), -0.0)]),
        ("rsqrt.approx.f32", [(-_INF, _NAN), (-1, _NAN), (-0.0, -_INF), (0, _INF), (_INF, 0), (4, 0.5)]),
        ("rsqrt.approx.ftz.f32", [(_TINY, _INF), (-_TINY, -_INF)]),
        ("sqrt.approx.f32", [(-1, _NAN), (-0.0, -0.0), (_INF, _INF), (2.0**-130, 2.0**-65)]),
        ("sqrt.approx.ftz.f32", [(_TINY, 0), (-_TINY, -0.0)]),
        ("sin.approx.f32", [(-_INF, _NAN), (_INF, _NAN), (-0.0, -0.0), (0, 0)]),
        ("sin.approx.ftz.f32", [(_TINY, 0), (-_TINY, -0.0)]),
        ("cos.approx.f32", [(-_INF, _NAN), (_INF, _NAN), (-0.0, 1), (_TINY, 1)]),
        ("tanh.approx.f32", [(-_INF, -1), (_INF, 1), (-0.0, -0.0), (0, 0), (_TINY, _TINY)]),
    ],
)
def test_special_values(name: str, table: list[tuple[float, float]]) -> None:
    x, expected = np.array([*table, (_NAN, _NAN)], np.float32).T.copy()
    got = _run(name, x)
    np.testing.assert_array_equal(got, expected)
    zero = expected == 0
    np.testing.assert_array_equal(np.signbit(got[zero]), np.signbit(expected[zero]))


def test_sines_of_large_angles_stay_in_range() -> None:
    x = np.geomspace(1e5, 3e38, 2000).astype(np.float32)
    for name in ("sin.approx.f32", "cos.approx.f32"):
        assert np.all(np.abs(_run(name, x)) <= 1.0)


def test_fast_division() -> None:
    rng = np.random.default_rng(3)
    a, b = (np.exp2(rng.uniform(-40, 40, _SAMPLES)).astype(np.float32) for _ in range(2))
    exact = a.astype(np.float64) / b
    for name in ("div.approx.f32", "div.full.f32", "div.approx.ftz.f32", "div.full.ftz.f32"):
        assert _relative(_run(name, a, b).astype(np.float64), exact) <= 2**-22, name
    # The manual's exception: a divisor above 2**126 gives 0, or NaN for an infinite dividend.
    a = np.array([1.0, -3e38, _INF, 1.0, 2.0**127], np.float32)
    b = np.array([2.0**127, 3e38, 2.0**127, 2.0**126, 2.0**126], np.float32)
    np.testing.assert_array_equal(_run("div.approx.f32", a, b), np.array([0, -0.0, _NAN, 2.0**-126, 2], np.float32))
    np.testing.assert_array_equal(_run("div.full.f32", a, b), (a.astype(np.float64) / b).astype(np.float32))


@pytest.mark.parametrize(("name", "function"), [("rcp", lambda x: 1 / x), ("rsqrt", lambda x: x**-0.5)])
def test_reduced_double_precision(name: str, function) -> None:
    x = np.geomspace(1e-200, 1e200, 5000)
    got = _run(f"{name}.approx.ftz.f64", x)
    assert _relative(got, function(x)) <= 2**-19
    assert not (got.view(np.uint64) & np.uint64(0xFFFFFFFF)).any()
    special = _run(f"{name}.approx.ftz.f64", np.array([0.0, -0.0, 1e-310, _INF, _NAN]))
    np.testing.assert_array_equal(special, [_INF, -_INF, _INF, 0.0, _NAN])


def test_accuracy_is_the_manuals_bound() -> None:
    assert ops.accuracy(parse("fma.rn.f32 d, a, b, c")) is None
    assert ops.accuracy(parse("div.rn.f32 d, a, b")) is None
    assert ops.accuracy(parse("ex2.approx.ftz.f32 d, a")) == "2 ulp"
    assert ops.accuracy(parse("div.full.f32 d, a, b")) == "2 ulp"


def test_expf_as_the_compiler_expands_it() -> None:
    """``expf`` expands to cvt.sat, fma.rm and ex2.approx.ftz, which must agree to the bit on the range reduction."""
    x = np.linspace(-87, 88, 20_000).astype(np.float32)

    def constant(value: float) -> np.ndarray:
        return np.full(len(x), value, np.float32)

    scaled = _run("fma.rn.f32", x, constant(0.00572498), constant(0.5))
    j = _run("fma.rm.f32", _run("cvt.sat.f32.f32", scaled), constant(252.0), constant(12582913.0))
    shift = _run("add.f32", j, constant(-12583039.0))
    part = _run("fma.rn.f32", x, constant(1.4426950216), -shift)
    part = _run("fma.rn.f32", x, constant(1.925963033500e-8), part)
    power = _run("ex2.approx.ftz.f32", part)
    scale = (j.view(np.uint32) << np.uint32(23)).view(np.float32)
    assert _relative((scale * power).astype(np.float64), np.exp(x.astype(np.float64))) < 2**-22
