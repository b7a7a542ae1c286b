"""32-bit indices in PTX as Triton writes it: sums without carries are an ``or``."""

from __future__ import annotations

import pytest

from gpuemu_lsp.engine.ptx import parse
from gpuemu_lsp.engine.ptx.index_overflow import overflow_in_launch

PTX = """
.version 8.0
.target sm_80
.address_size 64

.visible .entry k(.param .u64 k_param_0)
{
    .reg .b32 %r<9>;
    .reg .b64 %rd<5>;
    ld.param.u64 %rd1, [k_param_0];
    mov.u32 %r1, %ctaid.x;
    shl.b32 %r2, %r1, 10;
    mov.u32 %r3, %tid.x;
    OR
    mad.wide.s32 %rd2, %r4, 4, %rd1;
    st.global.b32 [%rd2], %r3;
    ret;
}
"""


BLOCKS = 4_000_000


@pytest.mark.parametrize(
    ("instruction", "index"), [("or.b32 %r4, %r2, %r3;", (BLOCKS - 2) * 1024), ("xor.b32 %r4, %r2, 5;", None)]
)
def test_a_sum_without_carries_keeps_the_overflow(instruction, index):
    function = parse(PTX.replace("OR", instruction)).functions["k"]
    found = overflow_in_launch(function, {"k_param_0": 1 << 44}, (BLOCKS, 1, 1), (128, 1, 1))
    assert (found and found[0].index) == index
    assert overflow_in_launch(function, {"k_param_0": 1 << 44}, (1 << 20, 1, 1), (128, 1, 1)) is None
