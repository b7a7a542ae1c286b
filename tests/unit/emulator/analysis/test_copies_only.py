"""Uninitialised reads of unoptimised code that are copies: padding of objects, and values that no lane reads."""

from __future__ import annotations

import numpy as np
import pytest
from support.emulator_launch import artifact, launch, ptx_kernel, result

from gpuemu_lsp.engine.compile.toolchain import cuda_include_dirs
from gpuemu_lsp.engine.emulator import Emulator
from gpuemu_lsp.engine.execution import Buffer, Request

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


UNUSED_COPY = """struct Head { unsigned a; unsigned long long b; };
extern "C" __global__ void k(unsigned* y, unsigned n) {
    __shared__ Head heads[32];
    heads[threadIdx.x] = Head{n, n + 1ull};
    __syncthreads();
    Head copy = heads[(threadIdx.x > n ? threadIdx.x : 128u) & 31u];
    y[threadIdx.x] = %s;
}
"""


@pytest.mark.parametrize("value", ["7", "copy.a + 7"])
def test_padding_in_shared_memory_may_be_copied_word_by_word(value: str) -> None:
    # The copy reads 32-bit words, one of them padding; NVRTC says so with `.pragma "used_bytes_mask 0"`.
    outcome = launch(UNUSED_COPY % value, 1, 32, np.zeros(32, np.uint32), np.uint32(0), options=("-G",))
    assert not outcome.events
    assert (result(outcome, 0, np.uint32) == 7).all()


MASKED_LOAD = """mov.u32 %r1, %tid.x;
mov.u32 %r2, table;
mad.lo.u32 %r2, %r1, 16, %r2;
st.shared.u32 [%r2], %r1;
st.shared.u32 [%r2+8], %r1;
{pragma}
ld.shared.v4.u32 {{%r3, %r4, %r5, %r6}}, [%r2];
add.u32 %r3, %r3, %r4;
add.u32 %r3, %r3, %r5;
ld.param.u64 %rd1, [y];
mad.wide.u32 %rd1, %r1, 4, %rd1;
st.global.u32 [%rd1], %r3;
ret;"""


@pytest.mark.parametrize(
    ("pragma", "count"),
    [
        ("", 1),
        ('.pragma "used_bytes_mask 0x0f0f";', 0),
        ('.pragma "used_bytes_mask 0x0fff";', 1),
        ('.pragma "nounroll";', 1),
    ],
)
def test_the_used_bytes_mask_of_a_load_decides(pragma: str, count: int) -> None:
    declarations = ".reg .b32 %r<8>; .reg .b64 %rd<2>; .shared .align 16 .b8 table[512];\n"
    text = ptx_kernel("y", declarations + MASKED_LOAD.format(pragma=pragma))
    buffer = Buffer("y", np.zeros(128, np.uint8))
    outcome = Emulator().run(Request(artifact(text), "k", (1, 1, 1), (32, 1, 1), 0, (buffer,)))
    assert [event.rule for event in outcome.events] == ["memory/uninitialized-read"] * count


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
