"""Errors of one mistake: one finding, of which the others are consequences."""

from __future__ import annotations

import pytest
from support.host_programs import bug_line, findings_of

from gpuemu_lsp.engine.findings import Finding, collect

STAGED = """
__global__ void stage(const float4* in, float* out, int n) {{
    extern __shared__ float shared[];
    float4* rows = reinterpret_cast<float4*>(shared + {header});
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) rows[threadIdx.x] = in[i];  // bug
    __syncthreads();
    if (i < n) {{
        out[i] = shared[{header} + 4 * threadIdx.x]
            + rows[threadIdx.x].y;
    }}
}}
void run(const float4* in, float* out, int n) {{
    stage<<<(n + 63) / 64, 64, ({header} + 4 * 64) * sizeof(float)>>>(in, out, n);
}}
"""
SHORT = """
__global__ void smooth(const float* a, const double* w, float* b, int n) {{
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    const float left = a[i];  // bug
    const double weight = w[i];
    b[i] = weight * left;
}}
void run(int n) {{
    float *a, *b;
    double* w;
    cudaMalloc(&a, {floats});
    cudaMalloc(&b, {floats});
    cudaMalloc(&w, {doubles});
    cudaMemset(a, 0, {floats});
    cudaMemset(w, 0, {doubles});
    smooth<<<(n + 127) / 128, 128>>>(a, w, b, n);
}}
"""
EXITED = """
__global__ void total(const float* x, float* y, int n) {{
    __shared__ float part[128];
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    {early}
    part[threadIdx.x] = i < n ? x[i] : 0.0f;
    __syncthreads();  // bug
    for (int step = 64; step > 0; step /= 2) {{
        if (threadIdx.x < step) part[threadIdx.x] += part[threadIdx.x + step];
        __syncthreads();
    }}
    if (threadIdx.x == 0) y[blockIdx.x] = part[0];
}}
void run(const float* x, float* y, int n) {{ total<<<(n + 127) / 128, 128>>>(x, y, n); }}
"""
SHARED = """
__global__ void turned(const float* x, float* y) {{
    __shared__ float first[64], second[64];
    const int i = threadIdx.x;
    first[i + {past}] = x[i];  // bug
    second[i + {past}] = x[i];
    __syncthreads();
    y[i] = first[63 - i] - second[63 - i];
}}
void run(const float* x, float* y) {{ turned<<<1, 64>>>(x, y); }}
"""
TWO = """
__global__ void shift(const float* a, const float* w, float* b, int n) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    const float next = a[i + 1];
    b[i] = next * w[i + 7];
}
void run(int n) {
    float *a, *w, *b;
    cudaMalloc(&a, n * sizeof(float));
    cudaMalloc(&w, (n + 2) * sizeof(float));
    cudaMalloc(&b, n * sizeof(float));
    cudaMemset(a, 0, n * sizeof(float));
    cudaMemset(w, 0, (n + 2) * sizeof(float));
    shift<<<(n + 127) / 128, 128>>>(a, w, b, n);
}
"""


def _found(folder, text, cases=4):
    found: list[Finding] = []
    for finding in findings_of(folder, text, cases):
        collect(found, finding)
    return found


def _lines(findings):
    return {(finding.rule, finding.place.range.start.line) for finding in findings}


def test_what_follows_a_misaligned_store(tmp_path):
    text = STAGED.format(header=1)
    (finding,) = _found(tmp_path, text)
    line = bug_line(text)
    assert (finding.rule, finding.place.range.start.line) == ("memory/misaligned", line)
    assert ("memory/uninitialized-read", line + 3) in _lines(finding.consequences)
    assert not _found(tmp_path, STAGED.format(header=4))


def test_one_index_behind_arrays_of_one_length(tmp_path):
    text = SHORT.format(floats="n", doubles="2 * n")
    (finding,) = _found(tmp_path, text)
    line = bug_line(text)
    assert (finding.rule, finding.place.range.start.line) == ("memory/out-of-bounds", line)
    assert _lines(finding.consequences) == {("memory/out-of-bounds", line + 1), ("memory/out-of-bounds", line + 2)}
    assert not _found(tmp_path, SHORT.format(floats="n * sizeof(float)", doubles="n * sizeof(double)"))


def test_one_index_behind_shared_arrays_of_one_length(tmp_path):
    text = SHARED.format(past=1)
    found = [one for one in _found(tmp_path, text) if one.rule == "memory/out-of-bounds"]
    assert [finding.place.range.start.line for finding in found] == [bug_line(text)]
    assert ("memory/out-of-bounds", bug_line(text) + 1) in _lines(found[0].consequences)
    assert not _found(tmp_path, SHARED.format(past=0))


def test_arrays_of_two_lengths_are_two_mistakes(tmp_path):
    found = _found(tmp_path, TWO)
    assert _lines(found) == {("memory/out-of-bounds", 4), ("memory/out-of-bounds", 5)} or _lines(found) == {
        ("memory/out-of-bounds", 3),
        ("memory/out-of-bounds", 4),
    }
    assert not any(finding.consequences for finding in found)


@pytest.mark.parametrize(("early", "rules"), [("if (i >= n) return;", {"sync/barrier-divergence"}), ("", set())])
def test_the_barriers_after_an_early_return(tmp_path, early, rules):
    text = EXITED.format(early=early)
    divergent = [one for one in _found(tmp_path, text) if one.rule == "sync/barrier-divergence"]
    assert {one.rule for one in divergent} == rules
    assert [one.place.range.start.line for one in divergent] == [bug_line(text)] * len(rules)


SKIPPED = """
#include <math.h>
__global__ void best_of_tiles(const float* weight, float* y, int n) {{
    __shared__ float tile[128], part[128];
    float best = 0.0f;
    for (int first = 0; first < n; first += 128) {{
        {before}
        tile[threadIdx.x] = first + threadIdx.x < n ? weight[blockIdx.x * n + first + threadIdx.x] : -INFINITY;
        __syncthreads();
        bool empty = true;
        for (int i = threadIdx.x % 32; i < 128; i += 32) empty = empty && tile[i] == -INFINITY;
        if (__all_sync(0xffffffff, empty)) continue;
        part[threadIdx.x] = tile[threadIdx.x];
        __syncthreads();
        for (int i = 0; i < 128; ++i) best = fmaxf(best, part[i]);
        __syncthreads();
    }}
    if (threadIdx.x == 0) y[blockIdx.x] = best;
}}
void run(const float* weight, float* y, int blocks, int n) {{ best_of_tiles<<<blocks, 128>>>(weight, y, n); }}
"""


def test_a_race_of_warps_that_skip_a_tile(tmp_path):
    """Warps that skip a tile overwrite what others still read: these may then not skip it, and barriers diverge."""
    found = _found(tmp_path, SKIPPED.format(before=""), 9)
    assert {finding.rule for finding in found} == {"memory/shared-race"}
    assert not _found(tmp_path, SKIPPED.format(before="__syncthreads();"), 9)
