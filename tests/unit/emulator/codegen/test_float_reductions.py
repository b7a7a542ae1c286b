"""``redux.sync`` of f32 (PTX ISA section 9.7.13.12)."""

from __future__ import annotations

import numpy as np
import pytest
from support.emulator_launch import launch, out, ptx_kernel, result

VALUES = np.array(
    [[1.5, -2.0, 3.0, -0.0], [np.nan, 7.0, -np.inf, 2.0], [np.nan] * 4, [0.0, -0.0, -0.0, 0.0], [-5.0, 4.0, np.inf, 0]],
    np.float32,
)


def _wanted(values, which, absolute, propagate):
    values = np.abs(values) if absolute else values
    numbers = values[~np.isnan(values)]
    if not numbers.size or (propagate and numbers.size < values.size):
        return 0x7FFFFFFF
    # -0 is less than +0.
    order = sorted(numbers, key=lambda one: (one, not np.signbit(one)))
    return int(np.float32(order[0] if which == "min" else order[-1]).view(np.uint32))


@pytest.mark.parametrize("propagate", [False, True])
@pytest.mark.parametrize("absolute", [False, True])
@pytest.mark.parametrize("which", ["min", "max"])
def test_reductions_over_a_mask(which, absolute, propagate):
    words = which + ".abs" * absolute + ".NaN" * propagate
    body = f"""
    .reg .b32 %r<6>; .reg .b64 %rd<4>; .reg .f32 %f<3>;
    ld.param.u64 %rd1, [x]; ld.param.u64 %rd2, [y];
    mov.u32 %r1, %tid.x; mul.wide.u32 %rd3, %r1, 4; add.u64 %rd1, %rd1, %rd3; add.u64 %rd2, %rd2, %rd3;
    ld.global.f32 %f1, [%rd1];
    and.b32 %r2, %r1, 28; mov.b32 %r3, 15; shl.b32 %r3, %r3, %r2;
    redux.sync.{words}.f32 %f2, %f1, %r3;
    st.global.f32 [%rd2], %f2;
    """
    # Groups of four lanes reduce on their own.
    rows = np.resize(VALUES, (8, 4))
    outcome = launch(ptx_kernel("x y", body), 1, 32, rows, out(np.zeros(32, np.float32)))
    found = result(outcome, 1, np.uint32).reshape(8, 4)
    for row, got in zip(rows, found, strict=True):
        assert set(got.tolist()) == {_wanted(row, which, absolute, propagate)}, (row, words)
