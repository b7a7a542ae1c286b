"""Rules of the group ``memory``: invalid accesses (memcheck), uninitialized reads (initcheck), races (racecheck)."""

from __future__ import annotations

from gpuemu_lsp.engine.findings import Severity
from gpuemu_lsp.engine.rules.async_rules import MEMORY_RULES
from gpuemu_lsp.engine.rules.model import Example, Rule

RULES = (
    Rule(
        "memory/out-of-bounds",
        Severity.ERROR,
        "out-of-bounds access",
        "The kernel read or wrote outside every buffer, or across the end of one. On a GPU such an access often "
        "has no visible effect, or it corrupts a neighbouring allocation.",
        Example(
            bad="""\
__global__ void scale(const float* x, float* y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
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
    Rule(
        "memory/texture-bounds",
        Severity.INFORMATION,
        "texel outside of the texture",
        "`tex1Dfetch` was given an index outside of the memory that the texture describes. The hardware returns 0 and "
        "reports nothing: where that is not what the kernel relies on, the result is wrong. Coordinates in floats are "
        "not subject to this rule, since the texture's address mode says what they stand for.",
        Example(
            bad="""\
__global__ void gradient(cudaTextureObject_t image, float* y, int n) {  // n texels
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = tex1Dfetch<float>(image, i + 1) - tex1Dfetch<float>(image, i);
}
""",
            good="""\
__global__ void gradient(cudaTextureObject_t image, float* y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = tex1Dfetch<float>(image, min(i + 1, n - 1)) - tex1Dfetch<float>(image, i);
}
""",
        ),
    ),
    Rule(
        "memory/misaligned",
        Severity.ERROR,
        "misaligned access",
        "The address is not a multiple of the size of the access. A GPU stops with CUDA error 716 (misaligned "
        "address). Vector types such as `float4` need an alignment of 16 bytes. A box of a bulk tensor copy begins at "
        "a multiple of 16 bytes in the contiguous dimension, also outside of the tensor: otherwise a GPU stops with "
        "error 715 (illegal instruction).",
        Example(
            bad="""\
__global__ void sums(const float* x, float* y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    float4 v = *reinterpret_cast<const float4*>(x + 4 * i + 1);  // x has 4 * n + 4 elements
    y[i] = v.x + v.y + v.z + v.w;
}
""",
            good="""\
__global__ void sums(const float* x, float* y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    const float* v = x + 4 * i + 1;
    y[i] = v[0] + v[1] + v[2] + v[3];
}
""",
        ),
    ),
    Rule(
        "memory/use-after-free",
        Severity.ERROR,
        "access to freed memory",
        "The kernel accessed memory that the program had freed before the launch. On a GPU the bytes may belong to "
        "another allocation by then. Found by `gpuemu run`, which knows the allocations.",
        Example(
            bad="cudaFree(x);\nscale<<<grid, block>>>(x, y, n);\n",
            good="scale<<<grid, block>>>(x, y, n);\ncudaFree(x);\n",
        ),
    ),
    Rule(
        "memory/uninitialized-read",
        Severity.ERROR,
        "uninitialized read",
        "The kernel read memory that was never written: shared memory before a store or beyond a partial tile, an "
        "output used as an accumulator, an element of a local array, or, in `gpuemu run`, a local variable that has "
        "no value, or an element of a constant array without an initialiser of which the program has copied others.",
        Example(
            bad="""\
__global__ void reverse(const float* x, float* y, int n) {
    __shared__ float s[256];
    int i = blockIdx.x * 256 + threadIdx.x;
    if (i < n) s[threadIdx.x] = x[i];
    __syncthreads();
    if (i < n) y[i] = s[255 - threadIdx.x];
}
""",
            good="""\
__global__ void reverse(const float* x, float* y, int n) {
    __shared__ float s[256];
    int i = blockIdx.x * 256 + threadIdx.x;
    s[threadIdx.x] = i < n ? x[i] : 0.0f;
    __syncthreads();
    if (i < n) y[i] = s[255 - threadIdx.x];
}
""",
        ),
    ),
    Rule(
        "memory/null-pointer",
        Severity.ERROR,
        "null pointer access",
        "The address of the access is in the first page of memory.",
        Example(
            bad="""\
__global__ void copy(const float* x, float* y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    const float* source = nullptr;
    if (n > 64) source = x;
    if (i < n) y[i] = source[i];
}
""",
            good="""\
__global__ void copy(const float* x, float* y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    const float* source = x;
    if (i < n) y[i] = source[i];
}
""",
        ),
    ),
    Rule(
        "memory/index-overflow",
        Severity.ERROR,
        "32-bit index overflow before address computation",
        "At the largest sizes of `[kernels.dims]`, a 32-bit product or sum overflows and is then widened to an "
        "address, so the access is to a wrong element. Such sizes are too large to run; only the integer "
        "arithmetic of a few threads is evaluated. Widen an operand first (`(size_t)row * cols`), or declare "
        "smaller sizes. `gpuemu judge` reports it at the own sizes of a task, also where a number of elements is "
        "passed in 32 bits.",
        Example(
            bad="""\
__global__ void fill(float* y, int rows, int cols) {
    int row = blockIdx.y, col = blockIdx.x * blockDim.x + threadIdx.x;
    if (col < cols) y[row * cols + col] = 1.0f;
}
""",
            good="""\
__global__ void fill(float* y, int rows, int cols) {
    int row = blockIdx.y, col = blockIdx.x * blockDim.x + threadIdx.x;
    if (col < cols) y[(size_t)row * cols + col] = 1.0f;
}
""",
        ),
    ),
    Rule(
        "memory/shared-race",
        Severity.ERROR,
        "data race on shared memory",
        "Two threads of a block access the same bytes of shared memory, at least one of them writes, and no "
        "barrier orders the accesses. Usually a `__syncthreads()` or `__syncwarp()` is missing. Two threads that "
        "write the same value never race. A plain read that only decides if an atomic operation is needed, such as "
        "`if (v > *m) atomicMax(m, v)`, is a warning.",
        Example(
            bad="""\
__global__ void reverse(const float* x, float* y, int n) {
    __shared__ float s[256];
    int i = blockIdx.x * 256 + threadIdx.x;
    s[threadIdx.x] = i < n ? x[i] : 0.0f;
    if (i < n) y[i] = s[255 - threadIdx.x];
}
""",
            good="""\
__global__ void reverse(const float* x, float* y, int n) {
    __shared__ float s[256];
    int i = blockIdx.x * 256 + threadIdx.x;
    s[threadIdx.x] = i < n ? x[i] : 0.0f;
    __syncthreads();
    if (i < n) y[i] = s[255 - threadIdx.x];
}
""",
        ),
    ),
    Rule(
        "memory/global-race",
        Severity.ERROR,
        "data race on global memory",
        "Two threads access the same bytes of global memory, at least one of them writes, and nothing orders the "
        "accesses. Blocks execute concurrently and in no particular order; use an atomic operation. Atomics and "
        "fences of block scope (`atomicAdd_block`, `__threadfence_block`) do not order blocks. Two threads that "
        "write the same value never race: kernels set flags that way. A plain read that only decides if an atomic "
        "operation is needed, such as `if (v > *m) atomicMax(m, v)`, is a warning. In a Triton kernel a load of what "
        "another warp of the same program has stored is one too: `tl.debug_barrier()` orders the two.",
        Example(
            bad="""\
__global__ void sum(const float* x, float* total, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) *total += x[i];
}
""",
            good="""\
__global__ void sum(const float* x, float* total, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) atomicAdd(total, x[i]);
}
""",
        ),
    ),
    Rule(
        "memory/autotuned-in-place",
        Severity.ERROR,
        "autotuned kernel that computes from its own results",
        "An autotuner runs each configuration many times for a new key, all of them on the arguments of the launch. A "
        "Triton kernel that adds to its output, or changes its input, then begins the launch that counts with what "
        "those runs left, so that the first result of each key is wrong. Found by a second run on the results of the "
        "first. `reset_to_zero` and `restore_value` name the arguments that the autotuner sets to zero or restores; "
        "with hooks of the program's own nothing is reported.",
        Example(
            bad="""\
@triton.autotune(configs=[triton.Config({"BLOCK": 256}), triton.Config({"BLOCK": 128})], key=["n"])
@triton.jit
def total(x, out, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.atomic_add(out, tl.sum(tl.load(x + at, mask=at < n, other=0.0)))
""",
            good="""\
@triton.autotune(
    configs=[triton.Config({"BLOCK": 256}), triton.Config({"BLOCK": 128})], key=["n"], reset_to_zero=["out"]
)
@triton.jit
def total(x, out, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.atomic_add(out, tl.sum(tl.load(x + at, mask=at < n, other=0.0)))
""",
            language="python",
        ),
    ),
    *MEMORY_RULES,
)
