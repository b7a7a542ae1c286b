"""Uninitialised reads of unoptimised code that are copies: padding of objects, and values that no lane reads."""

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


PADDED = """struct Head { unsigned a; unsigned long long b; };
struct Tail { unsigned long long a; short b; };
extern "C" __global__ void k(unsigned long long* y, const unsigned* x, Head* z) {
    __shared__ Head heads[32];
    __shared__ Tail tails[32];
    const unsigned t = threadIdx.x;
    heads[t] = Head{x[t], x[t] + 1ull};
    tails[t] = Tail{x[t], (short)x[t]};
    z[t] = Head{x[t], t};
    __syncthreads();
    const Head h = heads[31 - t];
    const Tail l = tails[31 - t];
    y[t] = h.a + h.b + l.a + (unsigned long long)l.b;
}
"""


@pytest.mark.parametrize("optimisation", [(), ("-G",)], ids=["optimised", "unoptimised"])
def test_padding_may_be_copied_to_any_memory(optimisation: tuple[str, ...]) -> None:
    x = np.arange(32, dtype=np.uint32)
    y, z = np.zeros(32, np.uint64), np.zeros(64, np.uint64)
    outcome = launch(PADDED, 1, 32, y, x, z, options=optimisation)
    assert not outcome.events
    assert (result(outcome, 0, np.uint64) == 4 * x[::-1] + 1).all()


STORED = """__device__ __noinline__ void set(int n, int* p) { if (n > 40) *p = n; }
extern "C" __global__ void k(int* y, int n) {
    int a, b;
    set(n, &a);
    set(n, &b);
    y[2 * threadIdx.x] = a;
    y[2 * threadIdx.x + 1] = b;
}
"""


def test_variables_stored_one_after_the_other_are_not_an_object() -> None:
    outcome = launch(STORED, 1, 32, np.zeros(64, np.int32), np.int32(7), options=("-G",))
    assert len(outcome.events) == 2 and {event.rule for event in outcome.events} == {"memory/uninitialized-read"}
