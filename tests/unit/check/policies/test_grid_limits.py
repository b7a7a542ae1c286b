"""Declared sizes with grids beyond the limits of every device."""

from __future__ import annotations

import pytest
from support.check_project import TOML, request, run

from gpuemu_lsp.engine.findings import Severity

LAUNCH = """\
[kernels.dims]
n = {{ min = 1, max = {most} }}
[kernels.launch]
grid = {grid}
block = [1]
"""
CU = """\
__global__ void twice(const float* x, float* y, int n) {
    int i = blockIdx.x + blockIdx.y * gridDim.x;
    if (i < n) y[i] = 2.0f * x[i];
}
"""


@pytest.mark.parametrize(
    ("most", "grid", "shown"),
    [
        (65536, '[1, "n"]', "n = 65536, which is declared: grid.y = 65536 is outside 1 to 65535"),
        (65535, '[1, "n"]', ""),
        (70000, '["n", 1]', ""),
    ],
)
def test_a_declared_size_whose_grid_is_too_large(tmp_path, most, grid, shown):
    report, findings, _ = run(request(tmp_path, CU, toml=TOML + LAUNCH.format(most=most, grid=grid), cases=2))
    assert report.status == "passed"
    messages = [(finding.severity, finding.message) for finding in findings if finding.rule == "api/failed-launch"]
    assert messages == ([(Severity.WARNING, f"'twice' cannot be launched with {shown}")] if shown else [])
