"""Rules of the group ``perf``: inefficient memory access and divergence, from the emulator's counters."""

from __future__ import annotations

from gpuemu_lsp.engine.findings import Severity
from gpuemu_lsp.engine.rules.model import Example, Rule

RULES = (
    Rule(
        "perf/uncoalesced",
        Severity.HINT,
        "uncoalesced global memory access",
        "Global memory is transferred in sectors of 32 bytes. The accesses of the warps on this line take at "
        "least twice as many sectors as the bytes they access would fill: neighbouring lanes should access "
        "neighbouring addresses. Counted without caches, for the largest clean case, and reported for lines with "
        "at least 5 % of the kernel's traffic. With counters only (`--counters`).",
        Example(
            bad="""\
__global__ void first(const float* x, float* y, int n) {  // x has n rows of 32 elements
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = x[32 * i];
}
""",
            good="""\
__global__ void first(const float* x, float* y, int n) {  // x has 32 rows of n elements
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = x[i];
}
""",
        ),
    ),
    Rule(
        "perf/bank-conflict",
        Severity.HINT,
        "shared memory bank conflict",
        "Lanes of a warp access different words in the same bank of shared memory. Each of the 32 banks delivers "
        "one word of 4 bytes at a time, so the accesses on this line take at least twice as long as without "
        "conflicts. Pad the rows of the array by a word, or swizzle its columns. With counters only "
        "(`--counters`).",
        Example(
            bad="""\
__global__ void transpose(const float* x, float* y, int n) {  // 32 x 32 threads
    __shared__ float s[32][32];
    int i = threadIdx.y * 32 + threadIdx.x;
    s[threadIdx.y][threadIdx.x] = i < n ? x[i] : 0.0f;
    __syncthreads();
    if (i < n) y[i] = s[threadIdx.x][threadIdx.y];
}
""",
            good="""\
__global__ void transpose(const float* x, float* y, int n) {
    __shared__ float s[32][33];
    int i = threadIdx.y * 32 + threadIdx.x;
    s[threadIdx.y][threadIdx.x] = i < n ? x[i] : 0.0f;
    __syncthreads();
    if (i < n) y[i] = s[threadIdx.x][threadIdx.y];
}
""",
        ),
    ),
    Rule(
        "perf/divergence",
        Severity.HINT,
        "warp divergence",
        "On average at most half of the lanes that start the kernel are active on this line, and the inactive "
        "ones are at least a tenth of the kernel's work. Branch per warp instead of per lane. With counters only "
        "(`--counters`).",
        Example(
            bad="""\
__global__ void power(const float* x, float* y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    float v = x[i];
    if (i % 4 == 0) {
        for (int k = 0; k < 64; ++k) v = v * 0.5f + x[i];
    }
    y[i] = v;
}
""",
            good="""\
__global__ void power(const float* x, float* y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    float v = x[i];
    if (i / 32 % 4 == 0) {
        for (int k = 0; k < 64; ++k) v = v * 0.5f + x[i];
    }
    y[i] = v;
}
""",
        ),
    ),
)
