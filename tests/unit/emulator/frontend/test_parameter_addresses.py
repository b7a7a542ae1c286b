"""Parameters at addresses in registers, which may have 32 bits in .param space (PTX ISA section 6.4.1)."""

from __future__ import annotations

import numpy as np
import pytest
from support.emulator_launch import launch, ptx_kernel, result

# LLVM makes one load of two in the branches of an `if`.
SELECTED = """.reg .pred %p<2>; .reg .u64 %d<4>; .reg .b32 %r<8>;
ld.param.u64 %d0, [y]; mov.u32 %r1, %tid.x; mul.wide.u32 %d1, %r1, 4; add.u64 %d0, %d0, %d1;
ld.param.u32 %r2, [choice]; {condition} mov.b32 %r3, first; mov.b32 %r4, second; selp.b32 %r5, %r3, %r4, %p1;
ld.param.b32 %r6, [%r5]; ld.param.b32 %r7, [%r5+4]; mad.lo.u32 %r6, %r7, 1000, %r6; st.global.u32 [%d0], %r6; ret;"""


@pytest.mark.parametrize("condition", ["uniform", "per thread"])
@pytest.mark.parametrize("choice", [0, 7])
def test_a_load_from_one_of_two_parameters(condition: str, choice: int) -> None:
    test = {"uniform": "setp.ne.u32 %p1, %r2, 0;", "per thread": "setp.lt.u32 %p1, %r1, %r2;"}[condition]
    source = ptx_kernel("y first:u32 n:u32 second:u32 m:u32 choice:u32", SELECTED.replace("{condition}", test))
    scalars = [np.uint32(value) for value in (3, 5, 4, 6, choice)]
    outcome = launch(source, 1, 40, np.zeros(40, np.uint32), *scalars)
    takes_first = np.arange(40) < choice if condition == "per thread" else np.full(40, choice != 0)
    assert not outcome.events
    assert result(outcome, 0, np.uint32).tolist() == np.where(takes_first, 5003, 6004).tolist()


def test_a_pointer_from_one_of_two_parameters() -> None:
    body = """.reg .pred %p<2>; .reg .u64 %d<4>; .reg .b32 %r<8>;
    mov.u32 %r1, %ctaid.x; setp.eq.u32 %p1, %r1, 0; mov.b32 %r3, x; mov.b32 %r4, y; selp.b32 %r5, %r3, %r4, %p1;
    ld.param.b64 %d1, [%r5]; mov.u32 %r2, %tid.x; mul.wide.u32 %d2, %r2, 4; add.u64 %d1, %d1, %d2;
    st.global.u32 [%d1], %r2; ret;"""
    x, y = np.full(40, 99, np.uint32), np.full(32, 99, np.uint32)
    outcome = launch(ptx_kernel("x y", body), 2, 32, x, y)
    assert not outcome.events
    assert result(outcome, 0, np.uint32).tolist() == [*range(32), *[99] * 8]
    assert result(outcome, 1, np.uint32).tolist() == list(range(32))
