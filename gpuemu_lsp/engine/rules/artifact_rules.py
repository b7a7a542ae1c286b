"""Rules of the group ``artifact``: limits on the compiled kernel (``[kernels.artifact_checks]``) and regressions."""

from __future__ import annotations

from gpuemu_lsp.engine.findings import Severity
from gpuemu_lsp.engine.rules.model import Example, Rule

RULES = (
    Rule(
        "artifact/registers",
        Severity.ERROR,
        "too many registers",
        "ptxas allocates more registers per thread than `artifact_checks.max_registers`.",
        Example(
            bad="""\
__global__ void window(const float* x, float* y, int n) {  // max_registers = 32
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    float v[40], sum = 0.0f;
    for (int k = 0; k < 40; ++k) v[k] = x[(i + k) % n];
    __syncthreads();
    for (int k = 39; k >= 0; --k) sum = sum * 0.5f + v[k];
    if (i < n) y[i] = sum;
}
""",
            good="""\
__global__ void window(const float* x, float* y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    float sum = 0.0f;
#pragma unroll 1
    for (int k = 39; k >= 0; --k) sum = sum * 0.5f + x[(i + k) % n];
    if (i < n) y[i] = sum;
}
""",
        ),
    ),
    Rule(
        "artifact/spills",
        Severity.ERROR,
        "register spills",
        "The spill stores and loads that ptxas generates exceed `artifact_checks.max_spills`, in bytes.",
        Example(
            bad="""\
// max_spills = 0. Two blocks of 1024 threads leave 32 registers per thread.
__global__ void __launch_bounds__(1024, 2) window(const float* x, float* y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    float v[60], sum = 0.0f;
    for (int k = 0; k < 60; ++k) v[k] = x[(i + k) % n];
    __syncthreads();
    for (int k = 59; k >= 0; --k) sum = sum * 0.5f + v[k];
    if (i < n) y[i] = sum;
}
""",
            good="""\
__global__ void __launch_bounds__(256) window(const float* x, float* y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    float v[60], sum = 0.0f;
    for (int k = 0; k < 60; ++k) v[k] = x[(i + k) % n];
    __syncthreads();
    for (int k = 59; k >= 0; --k) sum = sum * 0.5f + v[k];
    if (i < n) y[i] = sum;
}
""",
        ),
    ),
    Rule(
        "artifact/local-memory",
        Severity.ERROR,
        "too much local memory",
        "The stack of a thread is larger than `artifact_checks.max_local_memory` bytes. Arrays with indices that "
        "are not known at compile time are in local memory.",
        Example(
            bad="""\
__global__ void bins(const float* x, float* y, int n) {  // max_local_memory = 0
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    float bins[8] = {};
    for (int k = 0; k < 8; ++k) bins[(i * k + n) % 8] += x[i];
    y[i] = bins[i % 8];
}
""",
            good="""\
__global__ void bins(const float* x, float* y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    float bin = 0.0f;
    for (int k = 0; k < 8; ++k)
        if ((i * k + n) % 8 == i % 8) bin += x[i];
    y[i] = bin;
}
""",
        ),
    ),
    Rule(
        "artifact/required-pattern",
        Severity.ERROR,
        "required pattern not found",
        "No instruction, called or inlined function, or intrinsic of the kernel matches the pattern.",
        Example(
            bad="""\
__global__ void scale(const float* x, float* y, int n) {  // required_patterns = ["fma.rn.f32"]
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = __fadd_rn(__fmul_rn(2.0f, x[i]), 1.0f);
}
""",
            good="""\
__global__ void scale(const float* x, float* y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = fmaf(2.0f, x[i], 1.0f);
}
""",
        ),
    ),
    Rule(
        "artifact/forbidden-pattern",
        Severity.ERROR,
        "forbidden pattern found",
        "An instruction, function or intrinsic on this line matches a forbidden pattern.",
        Example(
            bad="""\
#include <cstdio>
__global__ void scale(const float* x, float* y, int n) {  // forbidden_patterns = ["printf"]
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i == 0) printf("%d\\n", n);
    if (i < n) y[i] = 2.0f * x[i];
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
        "artifact/regression",
        Severity.WARNING,
        "more resources than the baseline",
        "Registers, spills or local memory rose against the stored baseline by more than "
        "`[policies].warn_threshold`, or from zero. An error in `gpuemu ci` unless "
        "`[policies].fail_on_regression` is false.",
        Example(
            bad="""\
__global__ void total(const float* x, float* y, int n) {  // the baseline has the loop below
    float sum = 0.0f;
#pragma unroll 32
    for (int k = 0; k < n; ++k) sum += x[k] * x[n - 1 - k];
    *y = sum;
}
""",
            good="""\
__global__ void total(const float* x, float* y, int n) {
    float sum = 0.0f;
#pragma unroll 1
    for (int k = 0; k < n; ++k) sum += x[k] * x[n - 1 - k];
    *y = sum;
}
""",
        ),
    ),
)
