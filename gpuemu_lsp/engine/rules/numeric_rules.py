"""Rules of the group ``numeric``: outputs compared with the reference, with the declaration and with a baseline."""

from __future__ import annotations

from gpuemu_lsp.engine.findings import Severity
from gpuemu_lsp.engine.rules.model import Example, Rule

RULES = (
    Rule(
        "numeric/tolerance-exceeded",
        Severity.ERROR,
        "wrong output element",
        "The result differs from the fp64 reference by more than the tolerance or, where none is configured, by "
        "more than rounding explains. The finding is on the store of the worst element and contains the failing "
        "input.",
        Example(
            bad="""\
__global__ void mean_share(const float* x, float* y, int n) {  // the reference is x / n
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = (1 / n) * x[i];
}
""",
            good="""\
__global__ void mean_share(const float* x, float* y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = x[i] / n;
}
""",
        ),
    ),
    Rule(
        "numeric/changed-output",
        Severity.INFORMATION,
        "other output than in the recorded run",
        "A launch that `gpuemu run --record` recorded leaves other values since the file was edited, with the same "
        "inputs. Differences of rounding are not reported. If the edit was meant to change results, record the program "
        "again.",
        Example(
            bad="""\
__global__ void scale(float* x, int n) {  // recorded with 2.0f
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) x[i] *= 2.5f;
}
""",
            good="""\
__global__ void scale(float* x, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) x[i] = x[i] + x[i];  // the same values
}
""",
        ),
    ),
    Rule(
        "numeric/nan",
        Severity.ERROR,
        "unexpected or missing NaN",
        "The output has NaN where the reference has none, or the reverse. NaN at the same position in both is not "
        "an error. A NaN of the input that is not in the output is an error where a reduction loses it in a "
        "comparison; where `fmaxf` or a clamp of single elements drops it, only a check with `nan_injected` says so.",
        Example(
            bad="""\
__global__ void sign(const float* x, float* y, int n) {  // the reference is np.sign(x)
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = x[i] / fabsf(x[i]);
}
""",
            good="""\
__global__ void sign(const float* x, float* y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = (x[i] > 0.0f) - (x[i] < 0.0f);
}
""",
        ),
    ),
    Rule(
        "numeric/inf",
        Severity.ERROR,
        "unexpected or missing infinity",
        "The output is infinite where the reference is finite, or the reverse, or has the other sign.",
        Example(
            bad="""\
__global__ void softplus(const float* x, float* y, int n) {  // the reference is np.logaddexp(0, x)
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = logf(1.0f + expf(x[i]));
}
""",
            good="""\
__global__ void softplus(const float* x, float* y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = fmaxf(x[i], 0.0f) + log1pf(expf(-fabsf(x[i])));
}
""",
        ),
    ),
    Rule(
        "numeric/unwritten-output",
        Severity.ERROR,
        "output element never written",
        "An element of an output was not written. Outputs are uninitialized before the launch, so on a GPU it has "
        "the value that was in memory before.",
        Example(
            bad="""\
__global__ void copy(const float* x, float* y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n - 1) y[i] = x[i];
}
""",
            good="""\
__global__ void copy(const float* x, float* y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = x[i];
}
""",
        ),
    ),
    Rule(
        "numeric/input-modified",
        Severity.ERROR,
        "input buffer modified",
        "An argument declared `in` has other bits after the launch than before. Declare it `inout` if the kernel "
        "may write to it.",
        Example(
            bad="""\
__global__ void scale(float* x, float* y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = x[i] *= 2.0f;
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
        "numeric/shape-mismatch",
        Severity.ERROR,
        "output buffer too short",
        "The buffer that was returned after the launch has fewer bytes than the declared shape needs, so it was "
        "not compared with the reference. (A reference that returns another shape is `reference/wrong-shape`.)",
    ),
    Rule(
        "numeric/dtype-mismatch",
        Severity.ERROR,
        "pointer of another dtype than declared",
        "The kernel's pointer type and the dtype in gpuemu.toml differ. `dtype` is only needed for `void*`.",
        Example(
            bad="""\
args = { x = { in = ["n"], dtype = "float64" }, y = { out = ["n"] } }  # const float* x
""",
            good="""\
args = { x = { in = ["n"] }, y = { out = ["n"] } }
""",
            language="toml",
        ),
    ),
    Rule(
        "numeric/invariant",
        Severity.ERROR,
        "violated invariant",
        "An output contradicts a claim of `[kernels.invariants]`.",
        Example(
            bad="""\
__global__ void variance(const float* x, float* y, int n) {  // non_negative = true
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = x[i] * x[i] - 1.0f;
}
""",
            good="""\
__global__ void variance(const float* x, float* y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = fmaxf(x[i] * x[i] - 1.0f, 0.0f);
}
""",
        ),
    ),
    Rule(
        "numeric/narrow-sum",
        Severity.WARNING,
        "long sum accumulated in a narrow format",
        "Partial results of a long sum are rounded to fp16, bfloat16 or fp8, and the result is less accurate than that "
        "of a sum in fp32, with inputs and outputs of the same dtypes. Errors grow with the number of terms, and terms "
        "below half a unit in the last place of the running sum are lost. Information where the accumulator of tensor "
        "cores has that format. Not reported for outputs with a tolerance in `gpuemu.toml`.",
        Example(
            bad="""\
#include <cuda_fp16.h>

__global__ void row_sum(const __half* x, __half* y, int n) {
    __half sum = __float2half(0.0f);
    for (int i = 0; i < n; ++i) sum = __hadd(sum, x[blockIdx.x * n + i]);
    y[blockIdx.x] = sum;
}
""",
            good="""\
#include <cuda_fp16.h>

__global__ void row_sum(const __half* x, __half* y, int n) {
    float sum = 0.0f;
    for (int i = 0; i < n; ++i) sum += __half2float(x[blockIdx.x * n + i]);
    y[blockIdx.x] = __float2half(sum);
}
""",
        ),
    ),
    Rule(
        "numeric/regression",
        Severity.WARNING,
        "larger error than the baseline",
        "On the cases of the stored baseline the kernel fails and did not before, or its error rose by more than "
        "`[policies].warn_threshold` and a unit in the last place. An error in `gpuemu ci` unless "
        "`[policies].fail_on_regression` is false.",
        Example(
            bad="""\
__global__ void exponential(const float* x, float* y, int n) {  // the baseline has expf
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = __expf(x[i]);
}
""",
            good="""\
__global__ void exponential(const float* x, float* y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = expf(x[i]);
}
""",
        ),
    ),
)
