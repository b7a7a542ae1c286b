"""Device runtime: the heap, grid barriers, clusters, module variables."""

from __future__ import annotations

import numpy as np
from support.emulator_launch import launch, out, ptx_kernel, result, rules


def test_malloc_allocates_per_thread() -> None:
    source = """extern "C" __global__ void k(int* y, int n) {
        int* p = (int*)malloc(n * sizeof(int));
        for (int i = 0; i < n; ++i) p[i] = threadIdx.x * 100 + i;
        int sum = 0; for (int i = 0; i < n; ++i) sum += p[i];
        y[threadIdx.x] = sum; free(p); }"""
    outcome = launch(source, 1, 48, out(np.zeros(48, np.int32)), np.int32(7))
    assert not outcome.events
    assert np.array_equal(result(outcome, 0, np.int32), np.arange(48) * 700 + 21)


def test_the_heap_is_checked() -> None:
    body = """extern "C" __global__ void k(int* y, int n) {{ volatile int* p = (int*)malloc(16); {} y[threadIdx.x] = p[n]; {} }}"""
    assert rules(launch(body.format("p[0] = 1;", ""), 1, 1, out(np.zeros(1, np.int32)), np.int32(4))) == [
        "memory/out-of-bounds"
    ]
    assert rules(launch(body.format("", ""), 1, 1, out(np.zeros(1, np.int32)), np.int32(0))) == [
        "memory/uninitialized-read"
    ]
    freed = body.format("p[0] = 1; free((void*)p);", "")
    assert rules(launch(freed, 1, 1, out(np.zeros(1, np.int32)), np.int32(0))) == ["memory/out-of-bounds"]
    assert not launch(body.format("p[0] = 1;", "free((void*)p);"), 1, 1, out(np.zeros(1, np.int32)), np.int32(0)).events


def test_malloc_beyond_the_heap_returns_null() -> None:
    source = 'extern "C" __global__ void k(int* y, unsigned long long n) { void* p = malloc(n); y[0] = p == nullptr; y[1] = malloc(0) == nullptr; }'
    outcome = launch(source, 1, 1, out(np.zeros(2, np.int32)), np.uint64(1 << 40))
    assert list(result(outcome, 0, np.int32)) == [1, 1]


# What cooperative_groups::this_grid().sync() compiles to, without its headers.
_GRID_SYNC = """
__device__ void grid_sync() {
    unsigned low, high;
    asm volatile("mov.u32 %0, %%envreg2; mov.u32 %1, %%envreg1;" : "=r"(low), "=r"(high));
    unsigned* place = (unsigned*)((unsigned long long)high << 32 | low) + 1;
    if (place == (unsigned*)4) __trap();
    __syncthreads();
    if (threadIdx.x == 0) {
        const unsigned mine = blockIdx.x == 0 ? 0x80000000u - (gridDim.x - 1) : 1u;
        __threadfence();
        const unsigned old = atomicAdd(place, mine);
        while ((((*(volatile unsigned*)place) ^ old) & 0x80000000u) == 0) {}
        __threadfence();
    }
    __syncthreads();
}
"""


def test_blocks_wait_for_the_whole_grid() -> None:
    source = (
        _GRID_SYNC
        + """extern "C" __global__ void k(int* x, int* y) {
        const int i = blockIdx.x * blockDim.x + threadIdx.x, n = gridDim.x * blockDim.x;
        for (int round = 0; round < 3; ++round) {
            x[i] = i + round; grid_sync();
            y[i] = x[n - 1 - i]; grid_sync();
        } }"""
    )
    outcome = launch(source, 9, 64, out(np.zeros(576, np.int32)), out(np.zeros(576, np.int32)), max_seconds=120.0)
    assert not outcome.events, outcome.events[0]
    assert np.array_equal(result(outcome, 1, np.int32), np.arange(575, -1, -1) + 2)


def test_a_block_is_a_cluster_of_its_own() -> None:
    body = """\
.reg .b64 %out; .reg .b32 %v<6>; .reg .pred %p;
ld.param.u64 %out, [q];
mov.u32 %v0, %cluster_ctaid.x; mov.u32 %v1, %cluster_nctaid.y; mov.u32 %v2, %clusterid.x; mov.u32 %v3, %nclusterid.x;
mov.u32 %v4, %cluster_nctarank; mov.pred %p, %is_explicit_cluster; selp.b32 %v5, 1, 0, %p;
setp.ne.u32 %p, %v2, 2; @%p bra L;
st.global.v4.b32 [%out], {%v0, %v1, %v2, %v3}; st.global.v2.b32 [%out+16], {%v4, %v5};
L: ret;"""
    outcome = launch(ptx_kernel("q", body), 3, 1, out(np.zeros(6, np.int32)))
    assert list(result(outcome, 0, np.int32)) == [0, 1, 2, 3, 1, 0]
    single = ptx_kernel("q", body, ".reqnctapercluster 1, 1, 1")
    assert launch(single, 3, 1, out(np.zeros(6, np.int32))).status == "completed"


def test_initialisers_of_module_variables() -> None:
    source = """
    struct Pair { int a; float b; };
    __device__ Pair pairs[2] = {{3, 1.5f}, {4, 2.5f}};
    __constant__ int table[4] = {10, 20, 30, 40};
    __device__ int* middle = (int*)&pairs[1];
    __device__ int zero[3];
    extern "C" __global__ void k(float* y, int n) {
        y[0] = pairs[n].a + pairs[n].b; y[1] = table[n + 2]; y[2] = *middle; y[3] = zero[n];
        pairs[n].a = 7; y[4] = *middle; }"""
    outcome = launch(source, 1, 1, out(np.zeros(5, np.float32)), np.int32(1))
    assert not outcome.events
    assert list(result(outcome, 0, np.float32)) == [6.5, 40, 4, 0, 7]


_RESERVED = """extern "C" __global__ void k(int* y) {
  unsigned offset;
  asm("mov.u32 %0, %%reserved_smem_offset_1;" : "=r"(offset));
  int v = threadIdx.x;
  WRITE asm volatile("st.shared.b32 [%0], %1;" ::"r"(offset + 4 * threadIdx.x), "r"(v) : "memory");
  asm volatile("ld.shared.b32 %0, [%1];" : "=r"(v) : "r"(offset + 4 * threadIdx.x) : "memory");
  y[threadIdx.x] = v;
}"""


def test_reserved_shared_memory_has_no_other_content() -> None:
    y = np.full(32, -1, np.int32)
    outcome = launch(_RESERVED.replace("WRITE", ""), 1, 32, y)
    assert result(outcome, 0, np.int32).tolist() == list(range(32)) and not outcome.events
    outcome = launch(_RESERVED.replace("WRITE", "if (v < 0)"), 1, 32, y)
    assert outcome.status == "unsupported"
    assert rules(outcome) == ["engine/unsupported-instruction"]
