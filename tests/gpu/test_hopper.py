"""Kernels with tensor maps and warp-group products, and clusters, on a GPU of compute capability 9.0. Skipped without one."""

from __future__ import annotations

import numpy as np
import pytest
from support.emulator_launch import artifact
from support.hopper_kernels import Variant, compiled

from gpuemu_lsp.engine.device import Device, available
from gpuemu_lsp.engine.execution import Buffer, Request

_PRESENT, _REASON = available()
pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(
        not _PRESENT or "sm_90" not in _REASON, reason=f"not a GPU of compute capability 9.0: {_REASON}"
    ),
]

_RANKS = """
extern "C" __global__ void k(unsigned* y) {
  unsigned rank, blocks;
  asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
  asm volatile("mov.u32 %0, %%cluster_nctarank;" : "=r"(blocks));
  if (threadIdx.x == 0) y[blockIdx.x] = 16 * rank + blocks;
}
"""


@pytest.mark.parametrize("kernel", ["pipelined", "stored"])
def test_products_of_operands_that_tensor_maps_load(kernel):
    outcome, found, wanted = Variant(kernel).run(Device())
    assert (outcome.status, outcome.events) == ("completed", ())
    np.testing.assert_array_equal(found, wanted)


def test_a_launch_in_clusters():
    y = Buffer("y", np.zeros(32, np.uint8), initialized=False)
    request = Request(artifact(compiled(_RANKS)), "k", (8, 1, 1), (32, 1, 1), 0, (y,), cluster=(4, 1, 1))
    outcome = Device().run(request)
    assert (outcome.status, outcome.events) == ("completed", ())
    assert outcome.buffers["y"].view(np.uint32).tolist() == [16 * rank + 4 for rank in range(4)] * 2
