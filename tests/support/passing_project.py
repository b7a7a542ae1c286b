"""A kernel and a reference that print nothing, and the output of a command run in this process."""

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


def gpuemu_output(capsys, *arguments: str) -> tuple[int, str, str]:
    code = gpuemu(list(arguments))
    captured = capsys.readouterr()
    return code, captured.out, captured.err
