"""``// gpuemu: ignore[rule]`` suppresses that rule on that line in ``--check`` too."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from gpuemu_lsp.cli.main import main

KERNEL = """\
extern "C" __global__ void scale(const float* x, float* y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        y[i] = 2.5f * x[i];%s
    }
}
"""
TOML = """\
[[kernels]]
name = "scale"
source = "scale.cu"
reference = "ref.py"
"""


@pytest.mark.parametrize(
    ("comment", "code", "status"),
    [
        ("", 1, "failed"),
        ("  // gpuemu: ignore[numeric/nan]", 1, "failed"),
        ("  // gpuemu: ignore[numeric/tolerance-exceeded]", 0, "passed"),
    ],
)
def test_check_honours_the_comment(tmp_path: Path, comment: str, code: int, status: str):
    (tmp_path / "scale.cu").write_text(KERNEL % comment, encoding="utf-8")
    (tmp_path / "ref.py").write_text('def reference(inputs):\n    return 2 * inputs["x"]\n', encoding="utf-8")
    (tmp_path / "gpuemu.toml").write_text(TOML, encoding="utf-8")
    out = tmp_path / "out.json"
    assert main(["--check", str(tmp_path), "--format", "json", "--output", str(out)]) == code
    result = json.loads(out.read_text(encoding="utf-8"))
    assert [kernel["status"] for kernel in result["kernels"]] == [status]
