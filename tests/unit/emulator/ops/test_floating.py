"""Floating-point arithmetic, comparison and conversion against exact rational arithmetic."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from support.exact_arithmetic import FORMATS, Format, cases, compute, decode, edges, encode, flushed, is_nan
from support.instruction_launch import RELATIONS, run

_COUNT = 250
_ARITY = {"add": 2, "sub": 2, "mul": 2, "fma": 3, "div": 2, "rcp": 1, "sqrt": 1}


def _columns(rows, f: Format) -> list[np.ndarray]:
    return [np.array(column, np.uint64) for column in zip(*rows, strict=True)]


def _same(got: int, wanted: int, f: Format) -> bool:
    return got == wanted or (is_nan(got, f) and is_nan(wanted, f))


def _check(text: str, f: Format, rows, function) -> None:
    (result,) = run(text, *_columns(rows, f))
    for got, row in zip(result.tolist(), rows, strict=True):
        wanted = function(*row)
        assert _same(got, wanted, f), f"{text}: {list(map(hex, row))} gives {got:#x}, not {wanted:#x}"


@pytest.mark.parametrize("mode", ["rn", "rz", "rm", "rp"])
@pytest.mark.parametrize("name", ["f32", "f64"])
@pytest.mark.parametrize("operation", list(_ARITY))
def test_every_rounding_mode(operation: str, name: str, mode: str) -> None:
    f = FORMATS[name]
    arity = _ARITY[operation]
    operands = ", ".join("dabc"[: arity + 1])
    rows = cases(f, arity, _COUNT, operation + name)

    def reference(*row: int) -> int:
        if operation == "rcp":
            return compute("div", mode, f, encode(Fraction(1), f), *row)
        return compute(operation, mode, f, *row)

    _check(f"{operation}.{mode}.{name} {operands}", f, rows, reference)


@pytest.mark.parametrize("mode", ["rn", "rm"])
@pytest.mark.parametrize("operation", list(_ARITY))
def test_flush_to_zero(operation: str, mode: str) -> None:
    f = FORMATS["f32"]
    arity = _ARITY[operation]
    rows = cases(f, arity, _COUNT, operation)

    def reference(*row: int) -> int:
        row = tuple(flushed(pattern, f) for pattern in row)
        if operation == "rcp":
            row = (encode(Fraction(1), f), *row)
        return flushed(compute("div" if operation == "rcp" else operation, mode, f, *row), f)

    _check(f"{operation}.{mode}.ftz.f32 {', '.join('dabc'[: arity + 1])}", f, rows, reference)


def _saturated(pattern: int, f: Format) -> int:
    value = decode(pattern, f)
    if isinstance(value, float) and (math.isnan(value) or value == 0):
        return 0
    return 0 if value < 0 else encode(Fraction(1), f) if value > 1 else pattern


@pytest.mark.parametrize("name", ["f32", "f16", "bf16"])
@pytest.mark.parametrize("operation", ["add", "sub", "mul", "fma"])
def test_narrow_formats_and_saturation(operation: str, name: str) -> None:
    f = FORMATS[name]
    arity = _ARITY[operation]
    operands = ", ".join("dabc"[: arity + 1])
    rows = cases(f, arity, 2 * _COUNT, operation + name)
    rounding = ".rn" if operation == "fma" else ""
    _check(f"{operation}{rounding}.{name} {operands}", f, rows, lambda *row: compute(operation, "rn", f, *row))
    if name != "bf16":
        clamped = lambda *row: _saturated(compute(operation, "rn", f, *row), f)  # noqa: E731
        _check(f"{operation}{rounding}.sat.{name} {operands}", f, rows, clamped)
    if name == "f16":

        def flush(*row: int) -> int:
            return flushed(compute(operation, "rn", f, *(flushed(pattern, f) for pattern in row)), f)

        _check(f"{operation}{rounding}.ftz.f16 {operands}", f, rows, flush)
    if name != "f32" and operation == "fma":

        def rectified(*row: int) -> int:
            pattern = compute("fma", "rn", f, *row)
            return 0 if not is_nan(pattern, f) and pattern & f.sign else pattern

        _check(f"fma.rn.relu.{name} {operands}", f, rows, rectified)


@pytest.mark.parametrize("name", ["f16", "bf16"])
def test_packed_equals_two_scalar_operations(name: str) -> None:
    f = FORMATS[name]
    for operation, arity in (("add", 2), ("mul", 2), ("sub", 2), ("fma.rn", 3), ("min", 2), ("max.NaN", 2), ("neg", 1)):
        rows = cases(f, arity, _COUNT, operation)
        low, high = _columns(rows, f), _columns(rows[::-1], f)
        operands = ", ".join("dabc"[: arity + 1])
        (packed,) = run(
            f"{operation}.{name}x2 {operands}", *(a | b << np.uint64(16) for a, b in zip(low, high, strict=True))
        )
        (one,) = run(f"{operation}.{name} {operands}", *low)
        (other,) = run(f"{operation}.{name} {operands}", *high)
        assert (packed == (one | other.astype(np.uint32) << np.uint32(16))).all(), operation


def test_pairs_of_f32_equal_two_scalar_operations() -> None:
    f = FORMATS["f32"]
    for operation, arity in (("add.rn", 2), ("sub.rz.ftz", 2), ("mul.rp", 2), ("fma.rn", 3), ("fma.rm.ftz", 3)):
        operands = ", ".join("dabc"[: arity + 1])
        rows = cases(f, arity, _COUNT, operation)
        # The sign of a NaN is that of the host, which may differ between the two.
        (results,) = run(f"{operation}.f32 {operands}", *_columns(rows, f))
        rows = [row for row, bits in zip(rows, results.tolist(), strict=True) if not is_nan(bits, f)]
        low, high = _columns(rows, f), _columns(rows[::-1], f)
        (packed,) = run(
            f"{operation}.f32x2 {operands}", *(a | b << np.uint64(32) for a, b in zip(low, high, strict=True))
        )
        (one,) = run(f"{operation}.f32 {operands}", *low)
        (other,) = run(f"{operation}.f32 {operands}", *high)
        assert (packed == (one.astype(np.uint64) | other.astype(np.uint64) << np.uint64(32))).all(), operation


@pytest.mark.parametrize("which", ["min", "max"])
def test_min_and_max_of_three(which: str) -> None:
    f = FORMATS["f32"]
    few = edges(f)[::3]
    rows = [(a, b, c) for a in few for b in few for c in few] + cases(f, 3, _COUNT, which)
    larger = which == "max"

    def three(a: int, b: int, c: int, propagate: bool = False) -> int:
        if propagate and any(is_nan(one, f) for one in (a, b, c)):
            return encode(math.nan, f)
        return _extreme(_extreme(a, b, f, larger, propagate), c, f, larger, propagate)

    _check(f"{which}.f32 d, a, b, c", f, rows, three)
    _check(f"{which}.NaN.f32 d, a, b, c", f, rows, lambda a, b, c: three(a, b, c, True))
    magnitude = f.sign - 1
    _check(f"{which}.abs.f32 d, a, b, c", f, rows, lambda a, b, c: three(a & magnitude, b & magnitude, c & magnitude))
    flush = [tuple(flushed(one, f) for one in row) for row in rows]
    wanted = {row: three(*small) for row, small in zip(rows, flush, strict=True)}
    _check(f"{which}.ftz.f32 d, a, b, c", f, rows, lambda *row: wanted[row])


def test_bf16_products_below_the_normal_range_round_once() -> None:
    f = FORMATS["bf16"]
    rows = [(a, b) for a in range(0x1F00, 0x2100, 7) for b in range(0x1F80, 0x2080, 5)]
    _check("mul.bf16 d, a, b", f, rows, lambda a, b: compute("mul", "rn", f, a, b))


def _extreme(a: int, b: int, f: Format, larger: bool, propagate: bool, flush: bool = False) -> int:
    if flush:
        a, b = flushed(a, f), flushed(b, f)
    if is_nan(a, f) or is_nan(b, f):
        if propagate or (is_nan(a, f) and is_nan(b, f)):
            return encode(math.nan, f)
        return b if is_nan(a, f) else a

    def rank(pattern: int) -> int:  # orders -0 before +0
        return -(pattern & (f.sign - 1)) - 1 if pattern & f.sign else pattern

    return (max if larger else min)(a, b, key=rank)


@pytest.mark.parametrize("name", FORMATS)
@pytest.mark.parametrize("which", ["min", "max"])
def test_min_and_max(which: str, name: str) -> None:
    f = FORMATS[name]
    rows = [(a, b) for a in edges(f) for b in edges(f)] + cases(f, 2, _COUNT, which)
    larger = which == "max"
    _check(f"{which}.{name} d, a, b", f, rows, lambda a, b: _extreme(a, b, f, larger, False))
    if name == "f64":
        return
    _check(f"{which}.NaN.{name} d, a, b", f, rows, lambda a, b: _extreme(a, b, f, larger, True))
    magnitude = f.sign - 1

    def signed(a: int, b: int) -> int:
        return _extreme(a & magnitude, b & magnitude, f, larger, False) | (a ^ b) & f.sign

    numbers = [row for row in rows if not (is_nan(row[0], f) or is_nan(row[1], f))]
    _check(f"{which}.xorsign.abs.{name} d, a, b", f, numbers, signed)
    if name != "bf16":
        _check(f"{which}.ftz.{name} d, a, b", f, rows, lambda a, b: _extreme(a, b, f, larger, False, True))


@pytest.mark.parametrize("name", FORMATS)
def test_signs(name: str) -> None:
    f = FORMATS[name]
    rows = [(a,) for a in edges(f)]
    _check(f"neg.{name} d, a", f, rows, lambda a: a ^ f.sign)
    _check(f"abs.{name} d, a", f, rows, lambda a: a & (f.sign - 1))
    if name in ("f32", "f16"):
        _check(f"neg.ftz.{name} d, a", f, rows, lambda a: flushed(a, f) ^ f.sign)
    if name in ("f32", "f64"):
        both = [(a, b) for a in edges(f) for b in edges(f)]
        _check(f"copysign.{name} d, a, b", f, both, lambda a, b: a & f.sign | b & (f.sign - 1))


@pytest.mark.parametrize("name", ["f32", "f64"])
def test_testp(name: str) -> None:
    f = FORMATS[name]
    patterns = edges(f)
    questions = {
        "finite": lambda m: m < f.infinity,
        "infinite": lambda m: m == f.infinity,
        "number": lambda m: m <= f.infinity,
        "notanumber": lambda m: m > f.infinity,
        "normal": lambda m: m == 0 or 1 << f.mantissa <= m < f.infinity,
        "subnormal": lambda m: 0 < m < 1 << f.mantissa,
    }
    for question, function in questions.items():
        (result,) = run(f"testp.{question}.{name} p, a", np.array(patterns, np.uint64))
        assert result.tolist() == [function(a & (f.sign - 1)) for a in patterns], question


@pytest.mark.parametrize("name", FORMATS)
def test_comparisons(name: str) -> None:
    f = FORMATS[name]
    rows = [(a, b) for a in edges(f) for b in edges(f)]
    columns = _columns(rows, f)
    values = [(decode(a, f), decode(b, f)) for a, b in rows]
    unordered = [is_nan(a, f) or is_nan(b, f) for a, b in rows]
    for relation, function in RELATIONS.items():
        plain = [not nan and function(a, b) for (a, b), nan in zip(values, unordered, strict=True)]
        (result,) = run(f"setp.{relation}.{name} p, a, b", *columns)
        assert result.tolist() == plain, relation
        (result,) = run(f"setp.{relation}u.{name} p, a, b", *columns)
        assert result.tolist() == [one or nan for one, nan in zip(plain, unordered, strict=True)], relation
        (result,) = run(f"set.{relation}.u32.{name} d, a, b", *columns)
        assert result.tolist() == [0xFFFFFFFF * one for one in plain], relation
        if name in ("f16", "bf16"):
            (result,) = run(f"set.{relation}.{name}.{name} d, a, b", *columns)
            assert result.tolist() == [encode(Fraction(1), f) * one for one in plain], relation
            packed = [a | b << np.uint64(16) for a, b in zip(columns, columns[::-1], strict=True)]
            low, high = run(f"setp.{relation}.{name}x2 p|q, a, b", *packed)
            (mask,) = run(f"set.{relation}.u32.{name}x2 d, a, b", *packed)
            swapped = [not nan and function(b, a) for (a, b), nan in zip(values, unordered, strict=True)]
            assert low.tolist() == plain
            assert high.tolist() == swapped
            assert mask.tolist() == [0xFFFF * one | 0xFFFF0000 * two for one, two in zip(plain, swapped, strict=True)]
    assert run(f"setp.nan.{name} p, a, b", *columns)[0].tolist() == unordered
    assert run(f"setp.num.{name} p, a, b", *columns)[0].tolist() == [not nan for nan in unordered]


def test_comparison_flushes() -> None:
    f = FORMATS["f32"]
    rows = [(a, b) for a in edges(f) for b in edges(f)]
    (result,) = run("setp.lt.ftz.f32 p, a, b", *_columns(rows, f))
    assert result.tolist() == [decode(flushed(a, f), f) < decode(flushed(b, f), f) for a, b in rows]


def test_select_by_sign_of_a_float() -> None:
    chooser = np.array(edges(FORMATS["f32"]), np.uint64)
    expected = [1 if decode(int(c), FORMATS["f32"]) >= 0 else 2 for c in chooser]
    (result,) = run("slct.u32.f32 d, a, b, c", np.full(len(chooser), 1), np.full(len(chooser), 2), chooser)
    assert result.tolist() == expected


def _interesting(f: Format, target: Format) -> list[int]:
    """Patterns of ``f`` at, just below and just above numbers of ``target`` and the ties between them."""
    patterns = [row[0] for row in cases(f, 1, 100, f"{f}{target}")]
    for pattern in edges(target) + [row[0] for row in cases(target, 1, 100, "targets")]:
        value, following = decode(pattern, target), decode(pattern + 1 & 2 * target.sign - 1, target)
        for number in (value, (Fraction(value) + Fraction(following)) / 2 if _finite(value, following) else value):
            exact = encode(number, f)
            patterns += [exact, exact + 1 & 2 * f.sign - 1, exact - 1 & 2 * f.sign - 1]
    return patterns


def _finite(*values: Fraction | float) -> bool:
    return all(not isinstance(value, float) or math.isfinite(value) for value in values)


_NARROWING = [("f32", "f64", m) for m in ("rn", "rz", "rm", "rp")] + [
    *(("f16", "f32", m) for m in ("rn", "rz", "rm", "rp")),
    ("f16", "f64", "rn"),
    ("f16", "f64", "rz"),
    *(("bf16", "f32", m) for m in ("rn", "rz", "rm", "rp")),
    ("bf16", "f64", "rn"),
    ("bf16", "f16", "rn"),
    ("f16", "bf16", "rn"),
]


@pytest.mark.parametrize(("to", "source", "mode"), _NARROWING)
def test_narrowing(to: str, source: str, mode: str) -> None:
    f, target = FORMATS[source], FORMATS[to]
    rows = [(pattern,) for pattern in _interesting(f, target)]
    _check(f"cvt.{mode}.{to}.{source} d, a", target, rows, lambda a: encode(decode(a, f), target, mode))


@pytest.mark.parametrize(("to", "source"), [("bf16", "f16"), ("f16", "bf16")])
def test_ptxas_rounds_to_nearest_between_short_floats(to: str, source: str) -> None:
    f, target = FORMATS[source], FORMATS[to]
    rows = [(pattern,) for pattern in _interesting(f, target)]
    _check(f"cvt.{to}.{source} d, a", target, rows, lambda a: encode(decode(a, f), target, "rn"))


@pytest.mark.parametrize("to", ["f16", "bf16"])
def test_narrowing_with_relu_and_satfinite(to: str) -> None:
    f, target = FORMATS["f32"], FORMATS[to]
    rows = [(pattern,) for pattern in _interesting(f, target)]

    def relu(a: int) -> int:
        value = decode(a, f)
        return encode(value if math.isnan(value) or value > 0 else 0.0, target)

    def finite(a: int) -> int:
        pattern = encode(decode(a, f), target)
        return pattern - 1 if pattern & (target.sign - 1) == target.infinity else pattern

    _check(f"cvt.rn.relu.{to}.f32 d, a", target, rows, relu)
    _check(f"cvt.rn.satfinite.{to}.f32 d, a", target, rows, finite)
    a = np.array([row[0] for row in rows], np.uint64)
    for suffix in ("", ".relu", ".satfinite"):
        (packed,) = run(f"cvt.rn{suffix}.{to}x2.f32 d, a, b", a, a[::-1])
        (single,) = run(f"cvt.rn{suffix}.{to}.f32 d, a", a)
        assert (packed >> np.uint32(16) == single).all()
        assert (packed & np.uint32(0xFFFF) == single[::-1]).all()


@pytest.mark.parametrize(("to", "source"), [("f32", "f16"), ("f64", "f16"), ("f64", "f32"), ("f32", "bf16")])
def test_widening_is_exact(to: str, source: str) -> None:
    f, target = FORMATS[source], FORMATS[to]
    patterns = range(1 << 16) if f.width == 16 else [row[0] for row in cases(f, 1, 300, to)] + edges(f)
    stride = 7 if f.width == 16 else 1
    rows = [(pattern,) for pattern in list(patterns)[::stride]]
    _check(f"cvt.{to}.{source} d, a", target, rows, lambda a: encode(decode(a, f), target))


_WHOLE = {"rni": round, "rzi": math.trunc, "rmi": math.floor, "rpi": math.ceil}
_INTEGERS = tuple(f"{kind}{bits}" for kind in "su" for bits in (8, 16, 32, 64))


@pytest.mark.parametrize("source", ["f16", "bf16", "f32", "f64"])
def test_to_integers(source: str) -> None:
    f = FORMATS[source]
    patterns = [row[0] for row in cases(f, 1, 60, source)] + edges(f)
    for power in (-1, 0, 1, 7, 8, 15, 16, 31, 32, 52, 53, 63, 64):
        for number in (Fraction(2) ** power, Fraction(2) ** power - Fraction(1, 2), Fraction(2) ** power - 1):
            exact = encode(number, f)
            patterns += [p ^ s for p in (exact, exact + 1, exact - 1) for s in (0, f.sign)]
    patterns = [pattern & (2 * f.sign - 1) for pattern in patterns]
    for to in _INTEGERS:
        bits = int(to[1:])
        low, high = (-(1 << bits - 1), (1 << bits - 1) - 1) if to[0] == "s" else (0, (1 << bits) - 1)
        for mode, function in _WHOLE.items():
            (result,) = run(f"cvt.{mode}.{to}.{source} d, a", np.array(patterns, np.uint64))
            for got, pattern in zip(result.tolist(), patterns, strict=True):
                value = decode(pattern, f)
                if _finite(value):
                    wanted = min(max(function(value), low), high)
                elif math.isnan(value):
                    wanted = 1 << bits - 1 if source == "f64" or bits == 64 else 0
                else:
                    wanted = high if value > 0 else low
                assert got == wanted & ((1 << bits) - 1), (to, mode, source, hex(pattern))


@pytest.mark.parametrize("to", ["f16", "bf16", "f32", "f64"])
def test_from_integers(to: str) -> None:
    f = FORMATS[to]
    for source in _INTEGERS:
        bits = int(source[1:])
        numbers = {0, 1, 2, 3, 65503, 65504, 65519, 65520, 65521, 0x0123456789ABCDEF}
        for power in range(bits):
            for place in (f.mantissa, f.mantissa + 1, f.mantissa + 2, 70):
                low = 1 << max(power - place, 0)
                numbers |= {(1 << power) + low, (1 << power) + 3 * low, (1 << power) - low, (1 << power) + low + 1}
        patterns = sorted({number & ((1 << bits) - 1) for number in numbers} | {(1 << bits) - n for n in (1, 2, 3)})
        values = [p - (1 << bits) if source[0] == "s" and p >> bits - 1 else p for p in patterns]
        for mode in ("rn", "rz", "rm", "rp"):
            (result,) = run(f"cvt.{mode}.{to}.{source} d, a", np.array(patterns, np.uint64))
            wanted = [encode(Fraction(value), f, mode) if value else 0 for value in values]
            assert result.tolist() == wanted, (to, mode, source)


@pytest.mark.parametrize("name", ["f16", "bf16", "f32", "f64"])
def test_rounding_to_integral_floats(name: str) -> None:
    f = FORMATS[name]
    rows = [(row[0],) for row in cases(f, 1, 100, name)] + [(a,) for a in edges(f)]
    rows += [(encode(Fraction(n, 4), f) | s,) for n in range(1, 20) for s in (0, f.sign)]
    for mode, function in _WHOLE.items():

        def reference(a: int, function=function) -> int:
            value = decode(a, f)
            if not _finite(value):
                return a
            return encode(Fraction(function(value)), f) or a & f.sign

        _check(f"cvt.{mode}.{name}.{name} d, a", f, rows, lambda a, r=reference: r(a) | a & f.sign)
    if name == "bf16":
        return
    clamped = lambda a: _saturated(a, f)  # noqa: E731
    _check(f"cvt.sat.{name}.{name} d, a", f, rows, clamped)


def test_tf32() -> None:
    f, short = FORMATS["f32"], Format(8, 10)
    rows = [(pattern,) for pattern in _interesting(f, short)]
    for mode in ("rn", "rz", "rna"):
        if mode == "rna":
            rows = [row for row in rows if not is_nan(row[0], f)]
        _check(f"cvt.{mode}.tf32.f32 d, a", f, rows, lambda a, m=mode: encode(decode(a, f), short, m) << 13)


def test_tf32_of_a_nan_is_truncated_when_ties_round_away() -> None:
    # ptxas folds ``cvt.rna.tf32.f32`` so, and emits FSETP and LOP3 for it.
    folded = {0x7FC12345: 0x7FC12000, 0xFFC12345: 0xFFC12000, 0x7F812345: 0x7F812000, 0x7F7FFFFF: 0x7F800000}
    (result,) = run("cvt.rna.tf32.f32 d, a", np.array(list(folded), np.uint32))
    assert result.tolist() == list(folded.values())


@pytest.mark.parametrize(("kind", "name"), [("e4m3x2", "float8_e4m3fn"), ("e5m2x2", "float8_e5m2")])
def test_eight_bit_floats(kind: str, name: str) -> None:
    import ml_dtypes

    dtype = getattr(ml_dtypes, name)
    every = np.arange(256, dtype=np.uint8)
    values = every.view(dtype).astype(np.float32)
    (half,) = run(f"cvt.rn.f16x2.{kind} d, a", every.astype(np.uint64) | every[::-1].astype(np.uint64) << np.uint64(8))
    decoded = half.view(np.float16).astype(np.float32)
    np.testing.assert_array_equal(decoded[::2], values)
    np.testing.assert_array_equal(decoded[1::2], values[::-1])
    finite = np.sort(values[np.isfinite(values)])
    ties = (finite[1:] + finite[:-1]) / 2
    numbers = np.concatenate(
        [finite, ties, np.nextafter(ties, 1e9), np.nextafter(ties, -1e9), [1e-9, 1e9, -1e9, np.inf, -np.inf]]
    )
    numbers = numbers.astype(np.float32)
    largest = float(finite[-1])
    expected = np.clip(numbers, -largest, largest).astype(dtype).view(np.uint8)
    bits = numbers.view(np.uint32)
    (result,) = run(f"cvt.rn.satfinite.{kind}.f32 d, a, b", bits, bits[::-1])
    assert (result >> np.uint16(8) == expected).all()
    assert (result & np.uint16(255) == expected[::-1]).all()
    (result,) = run(f"cvt.rn.satfinite.relu.{kind}.f32 d, a, b", bits, bits)
    assert (result & np.uint16(255) == np.where(numbers > 0, expected, 0)).all()
    (result,) = run(f"cvt.rn.satfinite.{kind}.f32 d, a, b", np.array([0x7FC00000]), np.array([0x3F800000]))
    assert result[0] >> 8 == 0x7F
    pairs = np.arange(1 << 16, dtype=np.uint16)[::3].astype(np.uint32)
    (result,) = run(f"cvt.rn.satfinite.{kind}.f16x2 d, a", pairs)
    wide = pairs.astype(np.uint16).view(np.float16).astype(np.float32)
    number = ~np.isnan(wide)
    expected = np.clip(np.nan_to_num(wide), -largest, largest).astype(dtype).view(np.uint8)
    assert (result[number] & np.uint16(255) == expected[number]).all()
    assert (result[~number] & np.uint16(255) == 0x7F).all()


@pytest.mark.parametrize(
    ("text", "wide", "canonical"),
    [
        ("cvt.rn.f16.f32 d, a", 32, 0x7FFF), ("cvt.rz.f16.f32 d, a", 32, 0x7FFF), ("cvt.rn.bf16.f32 d, a", 32, 0x7FFF),
        ("cvt.rn.f16.f64 d, a", 64, 0x7FFF), ("cvt.rn.f16x2.f32 d, a, a", 32, 0x7FFF7FFF),
        ("cvt.rn.bf16x2.f32 d, a, a", 32, 0x7FFF7FFF), ("cvt.f32.f16 d, a", 16, 0x7FFFFFFF),
        ("cvt.f32.bf16 d, a", 16, 0x7FFFFFFF), ("cvt.f64.f16 d, a", 16, 0x7FFFFFFFE0000000), ("neg.f16 d, a", 16, 0x7FFF),
        ("abs.f16 d, a", 16, 0x7FFF), ("neg.bf16 d, a", 16, 0x7FFF), ("abs.bf16 d, a", 16, 0x7FFF),
        ("add.f16 d, a, a", 16, 0x7FFF), ("sub.f16 d, a, a", 16, 0x7FFF), ("mul.f16 d, a, a", 16, 0x7FFF),
        ("fma.rn.f16 d, a, a, a", 16, 0x7FFF), ("fma.rn.relu.f16 d, a, a, a", 16, 0x7FFF),
        ("add.bf16 d, a, a", 16, 0x7FFF), ("fma.rn.bf16 d, a, a, a", 16, 0x7FFF), ("min.f16 d, a, a", 16, 0x7FFF),
        ("max.NaN.bf16 d, a, a", 16, 0x7FFF), ("cvt.rni.f16.f16 d, a", 16, 0x7FFF), ("tanh.approx.f16 d, a", 16, 0x7FFF),
        ("ex2.approx.f16 d, a", 16, 0x7FFF),
    ],
)  # fmt: skip
def test_nans_of_half_precision_are_canonical(text: str, wide: int, canonical: int) -> None:
    # Conversions and signs as ptxas folds them for sm_90; the arithmetic as PTX ISA section 9.7.4 has it.
    payloads = {16: [0xFFE1, 0x7FC3], 32: [0x7FC00001, 0xFFC12345, 0x7F800001], 64: [0xFFF8000000000001]}
    values = np.array(payloads[wide], {16: np.uint16, 32: np.uint32, 64: np.uint64}[wide])
    count = text.count(" a") + text.count(",a")
    assert set(run(text, *[values] * count)[0].tolist()) == {canonical}
