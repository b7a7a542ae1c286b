"""The generic address of shared memory, from which programs compute where a swizzle puts an element."""

from __future__ import annotations

import numpy as np
from support.emulator_launch import launch, out, ptx_kernel, result


def test_generic_addresses_have_the_alignment_of_the_variable():
    body = """
    .shared .align 1024 .b8 tile[2048];
    .reg .b64 %d<4>; .reg .b32 %r<2>;
    ld.param.u64 %d0, [y];
    cvta.to.global.u64 %d0, %d0;
    mov.u64 %d1, tile;
    cvta.shared.u64 %d1, %d1;
    and.b64 %d1, %d1, 1023;
    cvt.u32.u64 %r0, %d1;
    mov.u32 %r1, %ctaid.x;
    mul.wide.u32 %d2, %r1, 4;
    add.u64 %d0, %d0, %d2;
    st.global.b32 [%d0], %r0;
    ret;"""
    outcome = launch(ptx_kernel("y", body), 3, 1, out(np.ones(3, np.uint32)))
    assert not result(outcome, 0, np.uint32).any()
