"""Small projects that tests write into their workspace."""

from __future__ import annotations

import re
from pathlib import Path

TOML = """\
[[kernels]]
name = "scale"
source = "scale.cu"
reference = "ref.py"

[kernels.dims]
n = { min = 1, max = 600 }
[kernels.args]
x = { in = ["n"] }
y = { out = ["n"] }
n = "n"
[kernels.launch]
grid = "ceil_div(n, 128)"
block = 128
"""

REFERENCE = """\
def reference(inputs, **kwargs):
    return 2.0 * inputs["x"]
"""

GOOD = """\
extern "C" __global__ void scale(const float* x, float* y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        y[i] = 2.0f * x[i];
    }
}
"""
WRONG = GOOD.replace("2.0f * x[i]", "2.5f * x[i]")
OUT_OF_BOUNDS = GOOD.replace("i < n", "i <= n")
STORE_LINE = 3
PASSED = re.compile(r"passed, 16 of 16 cases")
"""Eight cases and, because these kernels are cheap, eight more."""
SPIN = GOOD.replace("if (i < n) {", "while (((volatile float*)y)[0] != 12345.0f) {\n    }\n    if (i < n) {")


def write(root: Path, source: str = GOOD) -> None:
    (root / "gpuemu.toml").write_text(TOML, encoding="utf-8")
    (root / "ref.py").write_text(REFERENCE, encoding="utf-8")
    (root / "scale.cu").write_text(source, encoding="utf-8")
