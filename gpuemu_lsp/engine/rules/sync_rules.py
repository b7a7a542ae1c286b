"""Rules of the group ``sync``: barriers, warp intrinsics (synccheck), and kernels that do not terminate."""

from __future__ import annotations

from gpuemu_lsp.engine.findings import Severity
from gpuemu_lsp.engine.rules.async_rules import SYNC_RULES
from gpuemu_lsp.engine.rules.model import Example, Rule

RULES = (
    Rule(
        "sync/barrier-divergence",
        Severity.ERROR,
        "barrier not reached by all threads",
        "Some threads of the block wait at this barrier while others have exited or wait at another one. On a GPU "
        "the kernel hangs, or the barrier does not order memory accesses.",
        Example(
            bad="""\
__global__ void first(const float* x, float* y, int n) {
    __shared__ float s[256];
    int i = blockIdx.x * 256 + threadIdx.x;
    if (i >= n) return;
    s[threadIdx.x] = x[i];
    __syncthreads();
    y[i] = s[0];
}
""",
            good="""\
__global__ void first(const float* x, float* y, int n) {
    __shared__ float s[256];
    int i = blockIdx.x * 256 + threadIdx.x;
    if (i < n) s[threadIdx.x] = x[i];
    __syncthreads();
    if (i < n) y[i] = s[0];
}
""",
        ),
    ),
    Rule(
        "sync/deadlock",
        Severity.ERROR,
        "deadlock",
        "No thread can make progress: each one that has not exited waits for another one.",
        Example(
            bad="""\
__global__ void copy(const float* x, float* y, int n) {
    int i = blockIdx.x * 256 + threadIdx.x;
    if (i < n) y[i] = x[i];
    if (threadIdx.x < 128) asm volatile("bar.sync 1, 256;");
}
""",
            good="""\
__global__ void copy(const float* x, float* y, int n) {
    int i = blockIdx.x * 256 + threadIdx.x;
    if (i < n) y[i] = x[i];
    if (threadIdx.x < 128) asm volatile("bar.sync 1, 128;");
}
""",
        ),
    ),
    Rule(
        "sync/missing-warp-mask",
        Severity.ERROR,
        "wrong mask of a warp intrinsic",
        "The mask of a `_sync` intrinsic contains lanes that do not execute it, or lacks the calling lane.",
        Example(
            bad="""\
__global__ void halves(const float* x, float* y, int n) {
    int lane = threadIdx.x % 32;
    float v = x[threadIdx.x];
    if (lane < 16) v += __shfl_down_sync(0xffffffff, v, 8);
    y[threadIdx.x] = v;
}
""",
            good="""\
__global__ void halves(const float* x, float* y, int n) {
    int lane = threadIdx.x % 32;
    float v = x[threadIdx.x];
    if (lane < 16) v += __shfl_down_sync(0x0000ffff, v, 8);
    y[threadIdx.x] = v;
}
""",
        ),
    ),
    Rule(
        "sync/hang",
        Severity.ERROR,
        "the kernel does not terminate",
        "The step limit was reached in this loop, or it waits for a change that no thread makes: a flag that is not "
        "set, an arrival at an `mbarrier` that is missing. A loop that counts to a bound is not reported, however long "
        "it is: it was not executed (`engine/not-executed`).",
        Example(
            bad="""\
__global__ void halvings(const float* x, float* y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x, steps = 0;
    if (i >= n) return;
    for (int v = i; v > 0; v = (v + 1) / 2) ++steps;
    y[i] = steps + x[i];
}
""",
            good="""\
__global__ void halvings(const float* x, float* y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x, steps = 0;
    if (i >= n) return;
    for (int v = i; v > 0; v = v / 2) ++steps;
    y[i] = steps + x[i];
}
""",
        ),
    ),
    Rule(
        "sync/trap",
        Severity.ERROR,
        "the kernel trapped",
        "`__trap()`, a failed `assert` or an illegal instruction ended the launch.",
        Example(
            bad="""\
#include <cassert>
__global__ void scale(const float* x, float* y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    assert(i < n);
    y[i] = 2.0f * x[i];
}
""",
            good="""\
__global__ void scale(const float* x, float* y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = 2.0f * x[i];
}
""",
        ),
    ),
    *SYNC_RULES,
)
