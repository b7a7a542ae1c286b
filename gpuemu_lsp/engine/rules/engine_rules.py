"""Rules of the group ``engine``: kernels that were not run, or not to the end."""

from __future__ import annotations

from gpuemu_lsp.engine.findings import Severity
from gpuemu_lsp.engine.rules.model import Example, Rule

RULES = (
    Rule(
        "engine/unsupported-instruction",
        Severity.WARNING,
        "unsupported instruction",
        "The emulator does not support this instruction. The kernel was not executed past it, so it is not verified.",
        Example(
            bad="""\
__global__ void scale(const float* x, float* y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) asm volatile("multimem.st.weak.global.f32 [%0], %1;" :: "l"(y + i), "f"(2.0f * x[i]) : "memory");
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
        "engine/timeout",
        Severity.ERROR,
        "the check timed out",
        "The worker process was ended at the time limit of the check, or the kernel's translation to machine code at "
        "its own: 30 seconds per dtype, for cases, replays and minimisation alike. Translation grows with the number "
        "of PTX instructions, which inlining and unrolling multiply. Results found before are kept. In a run of a "
        "program it is a launch that was stopped: at the time limit while its loops were still changing registers, by "
        "an interrupt, or for lack of memory.",
        Example(
            bad="""\
[kernels.dims]
n = { min = 50_000_000 }
""",
            good="""\
[kernels.dims]
n = { max = 4096 }
""",
            language="toml",
        ),
    ),
    Rule(
        "engine/worker-crashed",
        Severity.ERROR,
        "the worker process crashed",
        "The kernel or its reference ended the process that it ran in. Other kernels are not affected.",
        Example(
            bad="""\
import ctypes


def reference(inputs):
    return ctypes.string_at(0)
""",
            good="""\
def reference(inputs):
    return 2.0 * inputs["x"]
""",
            language="python",
        ),
    ),
    Rule(
        "engine/not-executed",
        Severity.WARNING,
        "the kernel was not run",
        "A kernel that was not run is not verified, and never reported as clean. The message contains the reason "
        "and what to add.",
        Example(
            bad="""\
struct Size { int n; };
__global__ void scale(const float* x, float* y, Size size) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < size.n) y[i] = 2.0f * x[i];
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
        "engine/not-stored",
        Severity.WARNING,
        "failing cases cannot be stored",
        "The folder `.gpuemu` next to `gpuemu.toml` cannot be read or written. Failing cases of earlier checks "
        "were not run again, and `gpuemu reproduce` will not find those of this one.",
        Example(
            bad="""\
chmod -R a-w .gpuemu
""",
            good="""\
chmod -R u+w .gpuemu
""",
            language="sh",
        ),
    ),
    Rule(
        "engine/no-gpu",
        Severity.HINT,
        "no GPU found",
        'The executor is set to "gpu", and there is none. The emulator ran instead where possible.',
        Example(
            bad="""\
[validation]
executor = "gpu"
""",
            good="""\
[validation]
executor = "auto"
""",
            language="toml",
        ),
    ),
    Rule(
        "engine/internal-error",
        Severity.ERROR,
        "internal error",
        "This is a bug in gpuemu-lsp. Please report it with the debug information.",
    ),
)
