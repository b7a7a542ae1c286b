"""Sizes that gpuemu.toml declares: they run where they can, and are named where they do not."""

from __future__ import annotations

import pytest
from support.check_project import TOML, request, run

from gpuemu_lsp.engine.findings import Severity

LIMITED = """\
__global__ void twice(const float* x, float* y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n && i < 600000) y[i] = 2.0f * x[i];
}
"""


def _sizes_not_run(folder, dim, **options):
    report, findings, _ = run(request(folder, toml=f"{TOML}[kernels.dims]\nn = {dim}\n", **options))
    assert report.status == "passed"
    return [(one.severity, one.message) for one in findings if one.rule == "config/sizes-not-run"]


def test_a_limit_below_the_largest_declared_size_is_found(tmp_path):
    report, findings, _ = run(
        request(tmp_path, LIMITED, toml=f"{TOML}[kernels.dims]\nn = {{ min = 1, max = 700000 }}\n")
    )
    assert report.status == "failed"
    assert "numeric/unwritten-output" in {finding.rule for finding in findings}


@pytest.mark.parametrize("dim", ["{ min = 1, max = 5000 }", "{ min = 1, max = 4096, include = [4000] }"])
def test_sizes_that_ran_are_not_named(tmp_path, dim):
    assert _sizes_not_run(tmp_path, dim) == []


def test_a_size_that_is_always_tried_is_named_where_it_was_not(tmp_path):
    ((severity, message),) = _sizes_not_run(tmp_path, "{ min = 1, max = 90000000, include = [300, 90000000] }")
    assert severity is Severity.INFORMATION
    assert message.startswith("'twice' was not run with n = 90000000. ")
