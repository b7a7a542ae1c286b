"""Uninitialised reads of unoptimised code that are copies: values that a shuffle passes and no lane reads."""

from __future__ import annotations

import numpy as np
import pytest
from support.emulator_launch import launch, result

from gpuemu_lsp.engine.compile.toolchain import cuda_include_dirs

# NVIDIA's idiom to reserve space for a warp: only the value of the first lane is read.
AGGREGATED = """#include <cooperative_groups.h>
namespace cg = cooperative_groups;
extern "C" __global__ void k(int* count, int* y, int n) {
    auto g = cg::coalesced_threads();
    int first;
    if (g.thread_rank() == 0) first = atomicAdd(count, (int)g.size());
    first = g.shfl(first, 0);
    y[threadIdx.x] = first + g.thread_rank() + n;
}
"""


@pytest.mark.parametrize("optimisation", [(), ("-G",)], ids=["optimised", "unoptimised"])
def test_a_shuffle_reads_its_source_lane_only(optimisation: tuple[str, ...]) -> None:
    options = (*(f"-I{folder}" for folder in cuda_include_dirs()), "-default-device", *optimisation)
    outcome = launch(AGGREGATED, 1, 32, np.zeros(1, np.int32), np.zeros(32, np.int32), np.int32(7), options=options)
    assert not outcome.events
    assert (result(outcome, 1, np.int32) == np.arange(32) + 7).all()
