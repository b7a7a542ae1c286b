"""Differential test against NVRTC: the compiler folds an expression of literals, the emulator executes it."""

from __future__ import annotations

import re

import numpy as np
import pytest
from support.emulator_launch import compile_ptx, launch, out, result

_FLOATS = [
    0.0,
    -0.0,
    1.0,
    -1.5,
    3.25e-3,
    7.0e37,
    -2.9e38,
    1.1754944e-38,
    1.0e-45,
    5.9604645e-8,
    16777217.0,
    0.1,
    -0.3333333,
    65520.0,
]
_INTEGERS = [0, 1, -1, 2, -7, 31, 32, 255, 65535, 123456789, 2**31 - 1, -(2**31)]
_DOUBLES = [0.0, -0.0, 1.0, -1.5, 5e-324, 2.2250738585072014e-308, 1e300, -3.3e-200, 0.1, 123456789.987654321]

# Expressions that NVRTC folds. Minima are left out: of two zeros it takes +0 for the smaller one, the manual -0.
_EXPRESSIONS = {
    "float": [
        "a + b", "a - b", "a * b", "fabsf(a)", "-a", "sqrtf(fabsf(a))",
        "floorf(a)", "ceilf(a)", "copysignf(a, b)", "(float)(double)a", "(float)((double)a * b)",
        "a < b ? a : b", "(float)(a == b)", "(float)__float_as_int(a)", "__int_as_float(__float_as_int(a) ^ 1)",
    ],
    "int": [
        "a + b", "a - b", "a * b", "b == 0 || b == -1 ? 0 : a / b", "b == 0 || b == -1 ? 0 : a % b", "a << (b & 31)", "a >> (b & 31)",
        "(int)((unsigned)a >> (b & 31))", "a & b", "a | b", "a ^ b", "~a", "-a", "min(a, b)", "max(a, b)", "abs(a)", "__popc(a)",
        "__clz(a)", "__brev(a)",
        "(int)(((long long)a * b) >> 16)", "(int)((unsigned)a / (b ? (unsigned)b : 1u))",
        "(int)((unsigned)a % (b ? (unsigned)b : 1u))", "(short)a * (short)b", "(signed char)a", "a < b", "(unsigned)a < (unsigned)b",
    ],
    "double": ["a + b", "a - b", "a * b", "sqrt(fabs(a))", "floor(a)", "(double)(float)a", "a < b"],
}  # fmt: skip
_VALUES = {"float": (_FLOATS, np.float32), "int": (_INTEGERS, np.int32), "double": (_DOUBLES, np.float64)}


def _literal(value: float, type_: str) -> str:
    if type_ == "int":
        return f"(int){value & 0xFFFFFFFF}u"
    bits = np.array(value, _VALUES[type_][1])
    if type_ == "float":
        return f"__int_as_float({int(bits.view(np.int32))})"
    return f"__longlong_as_double({int(bits.view(np.int64))}ll)"


def _folded(expression: str, type_: str, pairs: list[tuple[float, float]]) -> str:
    lines = "\n".join(
        f"{{ const {type_} a = {_literal(a, type_)}, b = {_literal(b, type_)}; y[{i}] = {expression}; }}"
        for i, (a, b) in enumerate(pairs)
    )
    return f'extern "C" __global__ void k({type_}* y) {{ {lines} }}'


@pytest.mark.parametrize(("type_", "expression"), [(t, e) for t, found in _EXPRESSIONS.items() for e in found])
def test_execution_agrees_with_constant_folding(type_: str, expression: str) -> None:
    values, dtype = _VALUES[type_]
    pairs = [(a, b) for a in values for b in values]
    source = _folded(expression, type_, pairs)
    computing = set(re.findall(r"(?m)^\s+([a-z]\w*)[.\w:]*\s", compile_ptx(source).split("{", 1)[1]))
    assert computing <= {"ld", "st", "mov", "cvta"}, computing  # all of it was folded
    folded = result(launch(source, 1, 1, out(np.zeros(len(pairs), dtype))), 0, dtype)
    a, b = (np.array([pair[i] for pair in pairs]).astype(dtype) for i in range(2))
    general = f"""extern "C" __global__ void k(const {type_}* p, const {type_}* q, {type_}* y, int n) {{
        const int i = blockIdx.x * blockDim.x + threadIdx.x; if (i < n) {{ const {type_} a = p[i], b = q[i]; y[i] = {expression}; }} }}"""
    run = result(
        launch(general, -(-len(pairs) // 64), 64, a, b, out(np.zeros(len(pairs), dtype)), np.int32(len(pairs))),
        2,
        dtype,
    )
    if type_ == "int":
        assert np.array_equal(run, folded)
        return
    nans = np.isnan(run) & np.isnan(folded)
    bits = {"float": np.uint32, "double": np.uint64}[type_]
    assert np.array_equal(run.view(bits)[~nans], folded.view(bits)[~nans])
