"""Registers with which a kernel computes before a value is assigned, and the values that they get."""

import numpy as np
import pytest
from support.emulator_launch import artifact, launch, out, ptx_kernel, result

from gpuemu_lsp.engine.emulator import Emulator
from gpuemu_lsp.engine.emulator.abi.memory import POISON
from gpuemu_lsp.engine.execution import Checks, Request

HEAD = """
    .reg .pred %p, %q; .reg .f32 %f; .reg .f64 %d; .reg .b16 %h; .reg .b32 %r, %s; .reg .b64 %x, %y;
    ld.param.u64 %x, [x];
    mov.u32 %s, %tid.x;
    mad.wide.u32 %y, %s, 4, %x;
"""
CASES = {
    "add.f32 %f, %f, 0f3F800000; st.global.f32 [%y], %f;": True,
    "max.f64 %d, %d, 0d3FF0000000000000; cvt.rn.f32.f64 %f, %d; st.global.f32 [%y], %f;": True,
    "add.s16 %h, %h, 1; cvt.s32.s16 %r, %h; st.global.u32 [%y], %r;": True,
    "mov.u32 %r, 0; @%q add.u32 %r, %r, 1; st.global.u32 [%y], %r;": True,
    # Only a first iteration reads it, or a branch on the same condition.
    "setp.ge.u32 %p, %s, 0; @%p mov.u32 %r, 5; add.u32 %r, %r, 1; st.global.u32 [%y], %r;": False,
}


@pytest.mark.parametrize(("body", "depends"), CASES.items())
def test_results_that_depend_on_such_a_register_change_with_the_fill_byte(body: str, depends: bool) -> None:
    text = ptx_kernel("x", HEAD + body + "ret;")
    results = [
        result(launch(text, 1, 32, out(np.zeros(32, np.uint32)), fill=fill), 0, np.uint32) for fill in (POISON, 0x00)
    ]
    assert np.array_equal(*results) != depends
    request = Request(artifact(text), "k", (1, 1, 1), (32, 1, 1), 0, (), Checks())
    assert [one.opcode for one in Emulator().undefined_uses(request)] == [
        next(word for word in ("max", "add") if word in body)
    ]


def test_values_that_are_only_passed_on_are_the_same_always() -> None:
    text = ptx_kernel("x", HEAD + "and.b32 %s, %r, 0xffff; st.global.u32 [%y], %s; ret;")
    found = [result(launch(text, 1, 32, out(np.zeros(32, np.uint32)), fill=fill), 0, np.uint32) for fill in (POISON, 0)]
    assert np.array_equal(*found)
    assert not Emulator().undefined_uses(Request(artifact(text), "k", (1, 1, 1), (32, 1, 1), 0, (), Checks()))
