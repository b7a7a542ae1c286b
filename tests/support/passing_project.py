"""A kernel and a reference that print nothing, and what a command run in this process tells."""

from __future__ import annotations

from gpuemu_lsp.cli.gpuemu import main as gpuemu

KERNEL = """\
__global__ void scale(const float* x, float* y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        y[i] = 2.0f * x[i];
    }
}
"""
REFERENCE = "def reference(inputs, **kwargs):\n    return 2.0 * inputs['x']\n"


def told(capsys, *arguments: str) -> tuple[int, str, str]:
    code = gpuemu(list(arguments))
    captured = capsys.readouterr()
    return code, captured.out, captured.err
