"""A folder whose modules write a file when one of them is imported, with kernels of every kind in Python files."""

from __future__ import annotations

from pathlib import Path

from support.model_pairs import BIAS

IMPORTED = "imported.txt"
SHADOWS = (
    "numpy",
    "cupy",
    "triton",
    "torch",
    "llvmlite",
    "ml_dtypes",
    "pygls",
    "lsprotocol",
    "sitecustomize",
    "conftest",
)
"""Modules that the server or Python would import from its own environment, and from the folder if that were searched."""
_TRAP = f"""\
import pathlib

with pathlib.Path(__file__).with_name("{IMPORTED}").open("a") as _file:
    print(__name__, file=_file)
"""
_TRITON = """\
import triton
import triton.language as tl


@triton.jit
def scale(x, y, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y + i, 2.0 * tl.load(x + i, mask=i < n), mask=i <= n)


@triton.jit
def launched(x, y, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y + i, tl.load(x + i, mask=i < n), mask=i < n)


def run(x, y):
    launched[(triton.cdiv(x.numel(), 64),)](x, y, x.numel(), BLOCK=64)


def reference(inputs):
    return 2.0 * inputs["x"]
"""
_STRINGS = '''\
import cupy as cp
from helper import BLOCK

double = cp.RawKernel(r"""
extern "C" __global__ void twice(const float* x, float* y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = 2.0f * x[i];
}
""", "twice")
'''
_CONFIG = """\
[[kernels]]
name = "scale"
source = "triton_kernels.py"
reference = "triton_kernels.py:reference"
[kernels.dims]
n = { min = 1, max = 300 }
[kernels.args]
x = { in = ["n"] }
y = { out = ["n"] }
n = "n"
[kernels.constexprs]
BLOCK = 64
[kernels.launch]
grid = ["ceil_div(n, 64)"]

[[kernels]]
name = "twice"
source = "strings.py"
reference = "helper.py"
"""
KERNELS = {
    "triton_kernels.py": ("scale", "launched"),
    "strings.py": ("twice",),
    "pair.py": ("bias_relu_kernel",),
}
"""Kernels of each Python file; the second one of a file is not registered, nor is that of ``pair.py``."""


def make_untrusted(root: Path, *, shadows: bool = True) -> Path:
    """Write the folder; return the path of the file that an import writes."""
    root.mkdir(exist_ok=True)
    texts = {"triton_kernels": _TRITON, "strings": _STRINGS, "pair": BIAS, "helper": "BLOCK = 64\n"}
    for name in (*texts, *(SHADOWS if shadows else ())):
        (root / f"{name}.py").write_text(_TRAP + texts.get(name, ""), encoding="utf-8")
    (root / "gpuemu.toml").write_text(_CONFIG, encoding="utf-8")
    return root / IMPORTED
