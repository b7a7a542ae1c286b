"""Operands that ptxas accepts: sums, vectors, and names of variables without a state space."""

from __future__ import annotations

import numpy as np
import pytest
from support.emulator_launch import launch, ptx_kernel, result

BODY = """.reg .u64 %d<3>; .reg .u32 %r<8>; .reg .u16 %h<6>; .shared .u32 s[4]; .local .u32 l[4];
ld.param.u64 %d0, [y]; mov.u32 %r1, %tid.x; mul.wide.u32 %d1, %r1, 4; add.u64 %d0, %d0, %d1; {code}
st.global.u32 [%d0], %r7; ret;"""


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        ("mov.u32 %r7, %r1+1;", lambda i: i + 1),
        (".reg .u32 temp; mov.u32 temp, 3; add.u32 %r7, %r1, temp + 1;", lambda i: i + 4),
        ("mul.lo.u32 %r7, %r1, %r1+2*3;", lambda i: i * (i + 6)),
        ("add.u32 %r7, %r1, (1<<4)|3;", lambda i: i + 19),
        ("mov.u32 %r2, s; mov.u32 %r3, 7; st.shared.u32 [s+1*4], %r3; ld.shared.u32 %r7, [%r2+(1+1)*2];", lambda i: 7 + 0 * i),
        ("mov.v2.u32 {%r2, %r3}, {%r1, 5}; add.u32 %r7, %r2, %r3;", lambda i: i + 5),
        ("mov.u32 %r2, 1; mov.u32 %r3, 2; mov.v2.u32 {%r2, %r3}, {%r3, %r2}; mad.lo.u32 %r7, %r2, 10, %r3;",
         lambda i: 21 + 0 * i),
        ("cvt.u16.u32 %h1, %r1; mov.v4.u16 {%h2, %h3, %h4, %h5}, {%h1, %h1, %h1, %h1}; cvt.u32.u16 %r7, %h4;", lambda i: i),
        (".reg .v4 .u32 q; mov.v4.u32 q, {1, 2, 3, 4}; add.u32 %r7, q.g, q.w;", lambda i: 6 + 0 * i),
        ("st.u32 [l+4], %r1; ld.u32 %r7, [l+4];", lambda i: i),
        (".reg .u32 %tidX, %lane, %clock_; mov.u32 %tidX, %tid.x; mov.u32 %lane, %laneid; add.u32 %clock_, %tidX, %lane;"
         " mov.u32 %r7, %clock_;", lambda i: 2 * i),
        (".reg .u64 p, q; mov.u64 p, y; ld.param.u64 q, [p]; sub.u64 q, %d0, q; cvt.u32.u64 %r7, q;", lambda i: 4 * i),
        ("mov.u32 %r3, 3; st.volatile.u32 [s], %r3; bar.sync 0; atom.add.u32 %r2, [s], 1; red.relaxed.gpu.add.u32 [s], 1; bar.sync 0;"
         " ld.u32 %r7, [s];", lambda i: 67 + 0 * i),
    ],
)  # fmt: skip
def test_operands_that_ptxas_accepts(code: str, expected: object) -> None:
    outcome = launch(ptx_kernel("y", BODY.replace("{code}", code)), 1, 32, np.zeros(32, np.uint32))
    assert (result(outcome, 0, np.uint32) == expected(np.arange(32, dtype=np.uint32))).all()  # type: ignore[operator]
