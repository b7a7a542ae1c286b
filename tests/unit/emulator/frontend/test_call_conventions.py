"""Calls whose formal and actual parameters are registers, ``.param`` variables or constants (PTX ISA section 7.1)."""

from __future__ import annotations

import numpy as np
import pytest
from support.emulator_launch import launch, ptx_kernel, result

REGISTERS = (
    """.func (.reg .u32 r) f(.reg .u32 x, .reg .u32 y) { .reg .u32 t; mul.lo.u32 t, x, 10; add.u32 r, t, y; ret; }"""
)
PARAMS = """.func (.param .u32 r) f(.param .u32 x, .param .u32 y) { .reg .u32 t, u; ld.param.u32 t, [x];
ld.param.u32 u, [y]; mad.lo.u32 t, t, 10, u; st.param.u32 [r], t; ret; }"""
MIXED = """.func (.reg .u32 r) f(.param .u32 x, .reg .u32 y) { .reg .u32 t; ld.param.u32 t, [x]; mad.lo.u32 r, t, 10, y; ret; }"""
BODY = """.reg .u64 %d<3>; .reg .u32 %r<8>; ld.param.u64 %d0, [y]; mov.u32 %r1, %tid.x; mul.wide.u32 %d1, %r1, 4;
add.u64 %d0, %d0, %d1; {call} st.global.u32 [%d0], %r7; ret;"""
CALLS = {
    "registers": "call (%r7), f, (%r1, %r1);",
    "a constant": "call (%r7), f, (%r1, 5);",
    "the result is an argument": "mov.u32 %r7, %r1; call (%r7), f, (%r7, 5);",
    "two calls": "call (%r2), f, (%r1, 1); call (%r7), f, (%r2, %r1);",
    "variables": "{ .param .u32 a; .param .u32 b; .param .u32 c; st.param.u32 [a], %r1; st.param.u32 [b], 3;"
    " call (c), f, (a, b); ld.param.u32 %r7, [c]; }",
    "a guard": ".reg .pred p; setp.gt.u32 p, %r1, 7; mov.u32 %r7, 1; @p call (%r7), f, (%r1, 2);",
}
EXPECTED = {
    "registers": lambda i: 11 * i,
    "a constant": lambda i: 10 * i + 5,
    "the result is an argument": lambda i: 10 * i + 5,
    "two calls": lambda i: 10 * (10 * i + 1) + i,
    "variables": lambda i: 10 * i + 3,
    "a guard": lambda i: np.where(i > 7, 10 * i + 2, 1),
}


@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize("function", [REGISTERS, PARAMS, MIXED], ids=["reg", "param", "mixed"])
def test_parameters_in_registers_and_variables(function: str, call: str) -> None:
    kernel = ptx_kernel("y", BODY.replace("{call}", CALLS[call]))
    head, entry = kernel.split(".visible", 1)
    outcome = launch(f"{head}{function}\n.visible{entry}", 1, 32, np.zeros(32, np.uint32))
    expected = EXPECTED[call](np.arange(32, dtype=np.uint32))
    assert (result(outcome, 0, np.uint32) == expected).all()


def test_a_predicate_and_a_float_as_parameters() -> None:
    function = (
        ".func (.reg .f32 r, .reg .pred q) f(.reg .f32 x) { setp.gt.f32 q, x, 0f40000000; add.f32 r, x, x; ret; }"
    )
    body = """.reg .u64 %d<3>; .reg .u32 %r<8>; .reg .f32 %f<3>; .reg .pred p; ld.param.u64 %d0, [y]; mov.u32 %r1, %tid.x;
mul.wide.u32 %d1, %r1, 4; add.u64 %d0, %d0, %d1; cvt.rn.f32.u32 %f1, %r1; call (%f2, p), f, (%f1);
@!p mov.f32 %f2, 0f00000000; st.global.f32 [%d0], %f2; ret;"""
    head, entry = ptx_kernel("y", body).split(".visible", 1)
    got = result(launch(f"{head}{function}\n.visible{entry}", 1, 32, np.zeros(32, np.float32)), 0, np.float32)
    i = np.arange(32)
    assert (got == np.where(i > 2, 2 * i, 0)).all()
