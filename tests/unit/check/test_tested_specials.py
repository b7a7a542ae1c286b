"""NaN and infinities in one case of an unregistered kernel that tests its inputs for them."""

from __future__ import annotations

import pytest
from support.host_programs import bug_line, findings_of

FLAG = """
#include <math.h>
__global__ void clean_rows(const float* x, float* y, int cols) {{
    __shared__ int spoiled;
    if (threadIdx.x == 0) spoiled = 0;
    __syncthreads();
    const float* row = x + (size_t)blockIdx.x * cols;
    for (int c = threadIdx.x; c < cols; c += blockDim.x) {{
        if ({test}) atomicOr(&spoiled, 1);
    }}
    {barrier}
    const int drop = spoiled;  // bug
    for (int c = threadIdx.x; c < cols; c += blockDim.x) y[(size_t)blockIdx.x * cols + c] = drop ? 0.0f : row[c];
}}
void clean(const float* x, float* y, int rows, int cols) {{ clean_rows<<<rows, 256>>>(x, y, cols); }}
"""
EMPTY_ROW = """
#include <math.h>
__global__ void soft(const float* x, const float* scale, float* y, int rows, int cols) {{
    __shared__ float factor[128];
    const int row = blockIdx.x * 4 + threadIdx.x / 32, lane = threadIdx.x % 32;
    float top = -INFINITY;
    for (int c = lane; row < rows && c < cols; c += 32) top = fmaxf(top, x[row * cols + c]);
    for (int step = 16; step > 0; step /= 2) top = fmaxf(top, __shfl_xor_sync(0xffffffff, top, step));
    const bool empty = row < rows && top == -INFINITY;
    {early}
    factor[threadIdx.x] = scale[threadIdx.x];
    __syncthreads();  // bug
    for (int c = lane; row < rows && c < cols; c += 32) {{
        y[row * cols + c] = empty ? 0.0f : factor[c % 128] * expf(x[row * cols + c] - top);
    }}
}}
void run(const float* x, const float* scale, float* y, int rows, int cols) {{
    soft<<<(rows + 3) / 4, 128>>>(x, scale, y, rows, cols);
}}
"""


def _found(folder, text):
    return {(finding.rule, finding.place.range.start.line) for finding in findings_of(folder, text, cases=9)}


@pytest.mark.parametrize("test", ["isnan(row[c])", "row[c] != row[c]", "row[c] == -INFINITY", "isinf(row[c])"])
def test_a_flag_that_only_special_values_set(tmp_path, test):
    missing = FLAG.format(test=test, barrier="")
    assert ("memory/shared-race", bug_line(missing)) in _found(tmp_path, missing)
    assert not _found(tmp_path, FLAG.format(test=test, barrier="__syncthreads();"))


def test_an_early_return_for_rows_of_minus_infinity(tmp_path):
    early = EMPTY_ROW.format(early="if (empty) return;")
    assert ("sync/barrier-divergence", bug_line(early)) in _found(tmp_path, early)
    assert not _found(tmp_path, EMPTY_ROW.format(early=""))


def test_a_kernel_that_does_not_ask_is_not_given_them(tmp_path):
    """With an infinity a thread would leave early; no caller is known to pass one."""
    text = EMPTY_ROW.format(early="if (row < rows && top < -1e38f) return;").replace("top == -INFINITY", "top < -1e38f")
    assert not _found(tmp_path, text)


def test_indices_computed_from_special_values_are_not_judged(tmp_path):
    text = """
    __global__ void bin(const float* x, const float* edges, float* y, int n) {
        int i = blockIdx.x * blockDim.x + threadIdx.x;
        if (i >= n) return;
        y[i] = isnan(x[i]) ? 0.0f : edges[x[i] > 1e30f ? 1000000 : 0];
    }
    void run(const float* x, float* y, int n) {
        float* edges;
        cudaMalloc(&edges, 64 * sizeof(float));
        cudaMemset(edges, 0, 64 * sizeof(float));
        bin<<<(n + 127) / 128, 128>>>(x, edges, y, n);
    }
    """
    assert not _found(tmp_path, text)
