"""Rules of the group ``config``: gpuemu.toml and kernels that it does not describe sufficiently."""

from __future__ import annotations

from gpuemu_lsp.engine.findings import Severity
from gpuemu_lsp.engine.rules.model import Example, Rule

RULES = (
    Rule(
        "config/syntax",
        Severity.ERROR,
        "gpuemu.toml is not valid TOML",
        "The file cannot be parsed, so none of it is used. An editor keeps using the last valid version.",
        Example(
            bad="""\
[[kernels]]
name = "gelu
source = "gelu.cu"
""",
            good="""\
[[kernels]]
name = "gelu"
source = "gelu.cu"
""",
            language="toml",
        ),
    ),
    Rule(
        "config/unknown-key",
        Severity.ERROR,
        "unknown key",
        "An unknown key is an error and not ignored, because a misspelt key would silently disable a check. The "
        "message suggests the closest known key.",
        Example(
            bad="""\
[[kernels]]
name = "gelu"
source = "gelu.cu"
dtype = ["float32"]
""",
            good="""\
[[kernels]]
name = "gelu"
source = "gelu.cu"
dtypes = ["float32"]
""",
            language="toml",
        ),
    ),
    Rule(
        "config/unknown-suppression",
        Severity.WARNING,
        "comment that suppresses nothing",
        "A `// gpuemu: ignore[RULE]` comment names a rule that does not exist, or one that no comment can suppress: a "
        "failed compilation, an out-of-bounds access, a run that was not completed. The comment has no effect.",
        Example(
            bad="""\
__global__ void scale(const float* x, float* y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        y[i] = 2.0f * x[i];  // gpuemu: ignore[numeric/tolerance]
    }
}
""",
            good="""\
__global__ void scale(const float* x, float* y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        y[i] = 2.0f * x[i];
    }
}
""",
        ),
    ),
    Rule(
        "config/sizes-not-run",
        Severity.INFORMATION,
        "declared sizes that no case had",
        "`include` lists a size that no case had: the cases of a check have a limited number of elements and a limited "
        "amount of work.",
        Example(
            bad="""\
[kernels.dims]
n = { min = 1, max = 1000000000, include = [1000000000] }
""",
            good="""\
[kernels.dims]
n = { min = 1, max = 1000000000, include = [100000] }
""",
            language="toml",
        ),
    ),
    Rule(
        "config/unused-suppression",
        Severity.HINT,
        "comment that suppressed nothing in the last check",
        "All kernels of the file were checked, and none of them had the finding that this `// gpuemu: ignore[RULE]` "
        "comment suppresses. Reported in editors only, and not for rules that only a deep check or `--counters` "
        "reports: there, the comment may still have an effect.",
        Example(
            bad="""\
__global__ void scale(const float* x, float* y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        y[i] = 2.0f * x[i];  // gpuemu: ignore[numeric/nan]
    }
}
""",
            good="""\
__global__ void scale(const float* x, float* y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        y[i] = 2.0f * x[i];
    }
}
""",
        ),
    ),
    Rule(
        "config/bad-value",
        Severity.ERROR,
        "invalid value",
        "The value has the wrong type or is out of range, or it is an empty range, an unknown dtype, an invalid "
        "expression or a name that is already used.",
        Example(
            bad="""\
[kernels.dims]
n = { min = 4096, max = 1 }
""",
            good="""\
[kernels.dims]
n = { min = 1, max = 4096 }
""",
            language="toml",
        ),
    ),
    Rule(
        "config/missing-key",
        Severity.ERROR,
        "missing key",
        "A required key is absent. A `[[kernels]]` entry needs at least `name`, and `source` or `like`.",
        Example(
            bad="""\
[[kernels]]
name = "gelu"
""",
            good="""\
[[kernels]]
name = "gelu"
source = "gelu.cu"
""",
            language="toml",
        ),
    ),
    Rule(
        "config/missing-file",
        Severity.ERROR,
        "file not found or not readable",
        "A file named in gpuemu.toml does not exist or cannot be read. Paths are relative to the folder of "
        "gpuemu.toml.",
        Example(
            bad="""\
[[kernels]]
name = "gelu"
source = "gleu.cu"
""",
            good="""\
[[kernels]]
name = "gelu"
source = "gelu.cu"
""",
            language="toml",
        ),
    ),
    Rule(
        "config/ambiguous-signature",
        Severity.WARNING,
        "arguments or launch cannot be inferred",
        "The kernel was not run, because its signature does not determine its arguments or its launch. The "
        "message contains the `[kernels.dims]`, `[kernels.args]` and `[kernels.launch]` to add.",
        Example(
            bad="""\
[[kernels]]
name = "scale"
source = "scale.cu"
reference = "ref.py"
dims = { n = { max = 4096 } }
args = { x = { in = ["n"] } }  # the kernel also has a parameter y
launch = { grid = "ceil_div(n, 256)", block = 256 }
""",
            good="""\
[[kernels]]
name = "scale"
source = "scale.cu"
reference = "ref.py"
dims = { n = { max = 4096 } }
args = { x = { in = ["n"] }, y = { out = ["n"] } }
launch = { grid = "ceil_div(n, 256)", block = 256 }
""",
            language="toml",
        ),
    ),
    Rule(
        "config/recording-unused",
        Severity.HINT,
        "a recording is not used",
        "`gpuemu run --record` recorded launches of this kernel which its check does not use: its parameters have "
        "changed since, the contents were too large for the recording, or the file is damaged. Record the program "
        "again.",
        Example(
            bad="""\
__global__ void scale(float* x, float factor, long n) {  // recorded with (float* x, int n)
    long i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) x[i] *= factor;
}
""",
            good="""\
__global__ void scale(float* x, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) x[i] *= 2.0f;
}
""",
        ),
    ),
    Rule(
        "config/launch-inferred",
        Severity.HINT,
        "arguments and launch were inferred",
        "The kernel has no dims, args or launch in gpuemu.toml. The message contains what was assumed from its "
        "signature and from launches in the file, or how many cases ran before the time of such a kernel ended.",
        Example(
            bad="""\
[[kernels]]
name = "scale"
source = "scale.cu"
""",
            good="""\
[[kernels]]
name = "scale"
source = "scale.cu"
dims = { n = { max = 4096 } }
args = { x = { in = ["n"] }, y = { out = ["n"] } }
launch = { grid = "ceil_div(n, 256)", block = 256 }
""",
            language="toml",
        ),
    ),
)
