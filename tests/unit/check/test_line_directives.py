"""Findings of files that a generator has marked with the lines of what it read."""

from __future__ import annotations

import pytest
from support.host_programs import bug_line, findings_of

KERNEL = """
// generated
{directive}
__device__ float twice(const float* x, int i) {{
    return 2.0f * x[i];  // bug
}}
__global__ void k(const float* x, float* y, int n) {{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = twice(x, i + 1);
}}
void run(int n) {{
    float *x, *y;
    cudaMalloc(&x, n * sizeof(float));
    cudaMalloc(&y, n * sizeof(float));
    cudaMemset(x, 0, n * sizeof(float));
    k<<<(n + 127) / 128, 128>>>(x, y, n);
}}
"""


@pytest.mark.parametrize("directive", ["", "#line 50", '#line 100 "program.cu"', '#line 10 "k.tmpl"', '# 7 "k.tmpl" 2'])
def test_a_finding_is_on_the_line_of_the_document(tmp_path, directive):
    text = KERNEL.format(directive=directive)
    places = {(finding.place.path, finding.place.range.start.line) for finding in findings_of(tmp_path, text)}
    assert places == {(str(tmp_path / "program.cu"), bug_line(text))}
