"""Votes and reductions whose member mask differs between lanes, and ``activemask`` under a guard."""

from __future__ import annotations

import numpy as np
import pytest
from support.emulator_launch import artifact, compile_ptx, launch, ptx_kernel, result

from gpuemu_lsp.engine.emulator import Emulator
from gpuemu_lsp.engine.execution import Buffer, Request

# The lanes of a native vector have one mask, or each lane has its own: 16, 8 and 4 lanes, or 1.
GROUPS = {"half": "lane & 16u", "quarter": "lane & 8u", "alternate": "lane & 1u"}
SOURCE = """extern "C" __global__ void k(int* y) {
  const unsigned lane = threadIdx.x & 31u;
  const unsigned here = __ballot_sync(~0u, CONDITION), mask = (CONDITION) ? here : ~here;
  int* o = y + threadIdx.x * 6;
  o[0] = __reduce_max_sync(mask, 7);
  o[1] = (int)__reduce_add_sync(mask, 3u);
  o[2] = (int)__ballot_sync(mask, 1);
  o[3] = __any_sync(mask, blockDim.x > 32u);
  o[4] = __all_sync(mask, blockDim.x > 64u);
  o[5] = (int)((long long)__reduce_min_sync(mask, -9) * 2); }"""


@pytest.mark.parametrize("optimised", [False, True])
@pytest.mark.parametrize("group", GROUPS)
def test_uniform_values_over_masks_that_differ(group: str, optimised: bool) -> None:
    ptx = compile_ptx(SOURCE.replace("CONDITION", f"({GROUPS[group]}) != 0u"))
    out = Buffer("y", np.zeros(64 * 24, np.uint8))
    outcome = Emulator(optimised=optimised).run(Request(artifact(ptx), "k", (1, 1, 1), (64, 1, 1), 0, (out,)))
    assert outcome.status == "completed", outcome.events
    got = outcome.buffers["y"].view(np.int32).reshape(64, 6)
    bit = {"half": 16, "quarter": 8, "alternate": 1}[group]
    members = [sum(1 << i for i in range(32) if (i & bit) == (lane & bit)) for lane in range(32)]
    for thread in range(64):
        mask = members[thread % 32]
        signed = mask - (1 << 32) if mask >> 31 else mask
        assert got[thread].tolist() == [7, 3 * mask.bit_count(), signed, 1, 0, -18]


@pytest.mark.parametrize(
    ("guard", "expected"),
    [("", 0xFFFFFFFF), ("@p ", 0xFFFFFFC0), ("@!p ", 0x3F), ("@u ", 0xFFFFFFFF), ("@!u ", 0)],
)
def test_activemask_under_a_guard_has_the_lanes_for_which_it_holds(guard: str, expected: int) -> None:
    # ptxas emits ``@P0 VOTE.ANY R5, PT, PT``.
    body = f""".reg .u64 %d<3>; .reg .u32 %r<4>; .reg .pred p, u; ld.param.u64 %d0, [y]; mov.u32 %r1, %tid.x;
mul.wide.u32 %d1, %r1, 4; add.u64 %d0, %d0, %d1; setp.gt.u32 p, %r1, 5; mov.u32 %r2, %ctaid.x; setp.eq.u32 u, %r2, 0; mov.u32 %r2, 0;
{guard}activemask.b32 %r2; st.global.u32 [%d0], %r2; ret;"""
    got = result(launch(ptx_kernel("y", body), 1, 32, np.zeros(32, np.uint32)), 0, np.uint32)
    holds = {"": range(32), "@p ": range(6, 32), "@!p ": range(6), "@u ": range(32), "@!u ": range(0)}[guard]
    assert got.tolist() == [expected if lane in holds else 0 for lane in range(32)]
