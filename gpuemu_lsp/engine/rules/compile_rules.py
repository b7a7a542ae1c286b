"""Rules of the group ``compile``: messages of NVRTC, and kernels that cannot be compiled as configured."""

from __future__ import annotations

from gpuemu_lsp.engine.findings import Severity
from gpuemu_lsp.engine.rules.model import Example, Rule

RULES = (
    Rule(
        "compile/error",
        Severity.ERROR,
        "NVRTC error",
        "The compiler's message, on its line and token.",
        Example(
            bad="""\
__global__ void copy(const float* x, float* y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x
    if (i < n) y[i] = x[i];
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
        "compile/warning",
        Severity.WARNING,
        "NVRTC warning",
        "The compiler's warning, on its line and token.",
        Example(
            bad="""\
__global__ void copy(const float* x, float* y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x, unused;
    if (i < n) y[i] = x[i];
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
        "compile/missing-header",
        Severity.ERROR,
        "header not found",
        "Device code needs a header that is not on the include path. Add its folder to `include_dirs`. (An `#include` "
        "of an unknown header is first left out, since only host code may need it. A kernel that does not compile "
        "without it is `engine/not-executed`, with the names that are unknown; if it compiles, the missing header is a "
        "warning, or a hint if no gpuemu.toml registers the kernel or the header is in angle brackets.)",
        Example(
            bad="""\
[[kernels]]
name = "scale"
source = "scale.cu"  # includes tile.cuh
""",
            good="""\
[[kernels]]
name = "scale"
source = "scale.cu"
include_dirs = ["include"]
""",
            language="toml",
        ),
    ),
    Rule(
        "compile/missing-entry",
        Severity.ERROR,
        "kernel not found in the file",
        "No `__global__` function of the source has the name in `entry` (or, without `entry`, the kernel's name). "
        "The message lists the kernels of the file.",
        Example(
            bad="""\
[[kernels]]
name = "scale"
source = "scale.cu"
entry = "scale_kernel"
""",
            good="""\
[[kernels]]
name = "scale"
source = "scale.cu"
entry = "scale"
""",
            language="toml",
        ),
    ),
)
