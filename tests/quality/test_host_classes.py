"""Classes of mistakes that follow from host code: short buffers, aliases, offsets of pointers, index arrays.

Each program has a place holder, with a mistake and without it.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from support.host_programs import bug_line, findings_of

from gpuemu_lsp.engine.findings import Severity

PARTIAL = """
#include <cuda_runtime.h>
#include <vector>
__global__ void partial(const float* x, float* part, int n) {
  __shared__ float s[256];
  int t = threadIdx.x, i = blockIdx.x * 256 + t;
  s[t] = i < n ? x[i] : 0.f;
  __syncthreads();
  for (int h = 128; h > 0; h /= 2) { if (t < h) s[t] += s[t + h]; __syncthreads(); }
  if (t == 0) part[blockIdx.x] = s[0];  // bug
}
float sum(const float* host, int n) {
  int blocks = (n + 255) / 256;
  float *x, *part;
  cudaMalloc(&x, n * sizeof(float));
  cudaMalloc(&part, (EXTENT) * sizeof(float));
  cudaMemcpy(x, host, n * sizeof(float), cudaMemcpyHostToDevice);
  partial<<<blocks, 256>>>(x, part, n);
  std::vector<float> p(blocks);
  cudaMemcpy(p.data(), part, (EXTENT) * sizeof(float), cudaMemcpyDeviceToHost);
  float s = 0; for (float v : p) s += v;
  return s;
}
"""
FROM_MAIN = """
#include <cuda_runtime.h>
#include <cstdlib>
__global__ void scale(const float* x, float* y, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i OPERATOR n) y[i] = 2.f * x[i];  // bug
}
void run(const float* x, float* y, int n) {
  scale<<<(n + 127) / 128, 128>>>(x, y, n);
}
int main(int argc, char** argv) {
  int n = atoi(argv[1]);
  float *x, *y, *h = (float*)malloc(n * sizeof(float));
  for (int i = 0; i < n; i++) h[i] = i;
  cudaMalloc(&x, n * sizeof(float));
  cudaMalloc(&y, n * sizeof(float));
  cudaMemcpy(x, h, n * sizeof(float), cudaMemcpyHostToDevice);
  run(x, y, n);
  cudaMemcpy(h, y, n * sizeof(float), cudaMemcpyDeviceToHost);
}
"""
IN_PLACE = """
#include <cuda_runtime.h>
__global__ void smooth(const float* in, float* out, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i > 0 && i < n - 1) out[i] = (in[i - 1] + in[i] + in[i + 1]) / 3.f;  // bug
}
int main() {
  const int n = 1000;
  float h[n], *x, *y;
  for (int i = 0; i < n; i++) h[i] = i * 0.5f;
  cudaMalloc(&x, n * sizeof(float));
  cudaMalloc(&y, n * sizeof(float));
  cudaMemcpy(x, h, n * sizeof(float), cudaMemcpyHostToDevice);
  cudaMemcpy(y, h, n * sizeof(float), cudaMemcpyHostToDevice);
  smooth<<<(n + 255) / 256, 256>>>(x, OUT, n);
  cudaMemcpy(h, x, n * sizeof(float), cudaMemcpyDeviceToHost);
}
"""
REVERSED = """
#include <cuda_runtime.h>
__global__ void rev(const int* in, int* out, int n) {
  int i = threadIdx.x;
  if (i < n) out[i] = in[n - 1 - i];  // bug
}
int main() {
  int *x;
  int h[200] = {1, 2, 3}, *z;
  cudaMalloc(&z, sizeof(h));
  cudaMalloc(&x, sizeof(h));
  cudaMemcpy(x, h, sizeof(h), cudaMemcpyHostToDevice);
  int* y = OUT;
  rev<<<1, 200>>>(x, y, 200);
  cudaMemcpy(h, y, sizeof(h), cudaMemcpyDeviceToHost);
}
"""
ROW_POINTERS = """
#include <cuda_runtime.h>
#include <vector>
__global__ void spmv(int rows, const int* rowptr, const int* col, const float* val, const float* x, float* y) {
  int r = blockIdx.x * blockDim.x + threadIdx.x;
  if (r >= rows) return;
  float acc = 0;
  for (int k = rowptr[r]; k < rowptr[r + 1]; k++) acc += val[k] * x[col[k]];  // bug
  y[r] = acc;
}
void multiply(const std::vector<int>& hrow, const std::vector<int>& hcol, const std::vector<float>& hval,
              const std::vector<float>& hx, std::vector<float>& hy, int rows, int nnz) {
  int *rowptr, *col; float *val, *x, *y;
  cudaMalloc(&rowptr, (ROWS) * sizeof(int));
  cudaMalloc(&col, nnz * sizeof(int));
  cudaMalloc(&val, nnz * sizeof(float));
  cudaMalloc(&x, rows * sizeof(float));
  cudaMalloc(&y, rows * sizeof(float));
  cudaMemcpy(rowptr, hrow.data(), (ROWS) * sizeof(int), cudaMemcpyHostToDevice);
  cudaMemcpy(col, hcol.data(), nnz * sizeof(int), cudaMemcpyHostToDevice);
  cudaMemcpy(val, hval.data(), nnz * sizeof(float), cudaMemcpyHostToDevice);
  cudaMemcpy(x, hx.data(), rows * sizeof(float), cudaMemcpyHostToDevice);
  spmv<<<(rows + 127) / 128, 128>>>(rows, rowptr, col, val, x, y);
  cudaMemcpy(hy.data(), y, rows * sizeof(float), cudaMemcpyDeviceToHost);
}
"""
MISALIGNED_OFFSET = """
#include <cuda_runtime.h>
__global__ void copy4(const float* x, float* y, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n / 4) ((float4*)y)[i] = ((const float4*)x)[i];  // bug
}
int main() {
  const int n = 1024;
  float *x, *y, h[n] = {0};
  cudaMalloc(&x, n * sizeof(float));
  cudaMalloc(&y, (n + 4) * sizeof(float));
  cudaMemcpy(x, h, n * sizeof(float), cudaMemcpyHostToDevice);
  copy4<<<1, 256>>>(x, y + OFFSET, n);
  cudaMemcpy(h, y + OFFSET, n * sizeof(float), cudaMemcpyDeviceToHost);
}
"""
PAST_THE_END = """
#include <cuda_runtime.h>
__global__ void fillv(float* y, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) y[i] = i;  // bug
}
int main() {
  const int n = 1000;
  float *y, h[n];
  cudaMalloc(&y, n * sizeof(float));
  fillv<<<4, 256>>>(&y[4], COUNT);
  cudaMemcpy(h, y, n * sizeof(float), cudaMemcpyDeviceToHost);
}
"""
HALO = """
#include <cuda_runtime.h>
// reads the halo in front of its argument
__global__ void diff(const float* x, float* y, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) y[i] = x[i] - x[i - 1];  // bug
}
void run(int n, const float* h) {
  float *x, *y;
  cudaMalloc(&x, (n + 1) * sizeof(float));
  cudaMalloc(&y, n * sizeof(float));
  cudaMemcpy(x, h, (n + 1) * sizeof(float), cudaMemcpyHostToDevice);
  diff<<<(n + 255) / 256, 256>>>(x + OFFSET, y, n);
}
"""
PROGRAMS = [
    pytest.param(PARTIAL, ("EXTENT", "blocks - 1"), ("EXTENT", "blocks"), "memory/out-of-bounds", id="blocks"),
    pytest.param(FROM_MAIN, ("OPERATOR", "<="), ("OPERATOR", "<"), "memory/out-of-bounds", id="caller"),
    pytest.param(IN_PLACE, ("OUT", "x"), ("OUT", "y"), "memory/global-race", id="alias of neighbours"),
    pytest.param(REVERSED, ("OUT", "x"), ("OUT", "z"), "memory/global-race", id="alias by a copy"),
    pytest.param(ROW_POINTERS, ("ROWS", "rows"), ("ROWS", "rows + 1"), "memory/out-of-bounds", id="row pointers"),
    pytest.param(MISALIGNED_OFFSET, ("OFFSET", "1"), ("OFFSET", "4"), "memory/misaligned", id="offset of a vector"),
    pytest.param(PAST_THE_END, ("COUNT", "n"), ("COUNT", "n - 4"), "memory/out-of-bounds", id="offset of an output"),
    pytest.param(HALO, ("OFFSET", "0"), ("OFFSET", "1"), "memory/out-of-bounds", id="offset of an input"),
]
ELEMENTWISE_IN_PLACE = """
#include <cuda_runtime.h>
__global__ void axpy(const float* in, float* out, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) out[i] = in[i] * 3.f + 1.f;
}
void go(int n) {
  float *x;
  cudaMalloc(&x, n * sizeof(float));
  cudaMemset(x, 0, n * sizeof(float));
  axpy<<<(n + 255) / 256, 256>>>(x, x, n);
  cudaFree(x);
}
"""
CAPACITY = """
#include <cuda_runtime.h>
__global__ void put(float* y, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) y[i] = i;
}
void run(int n, int capacity) {
  float* y;
  cudaMalloc(&y, capacity * sizeof(float));
  put<<<(n + 127) / 128, 128>>>(y, n);
  cudaFree(y);
}
"""
GATHER = """
#include <cuda_runtime.h>
#include <cassert>
__global__ void gather(const float* table, const int* idx, float* y, int n, int d) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n * d) y[i] = table[idx[i / d] * d + i % d];
}
void run(const float* htable, const int* hidx, float* hy, int n, int d, int vocab) {
  float *t, *y; int* ix;
  cudaMalloc(&t, vocab * d * sizeof(float));
  cudaMalloc(&y, n * d * sizeof(float));
  cudaMalloc(&ix, n * sizeof(int));
  cudaMemcpy(t, htable, vocab * d * sizeof(float), cudaMemcpyHostToDevice);
  cudaMemcpy(ix, hidx, n * sizeof(int), cudaMemcpyHostToDevice);
  gather<<<(n * d + 255) / 256, 256>>>(t, ix, y, n, d);
  cudaMemcpy(hy, y, n * d * sizeof(float), cudaMemcpyDeviceToHost);
}
"""


@pytest.mark.parametrize(("text", "wrong", "right", "rule"), PROGRAMS)
def test_a_mistake_of_a_class_is_found_on_its_line(
    tmp_path: Path, text: str, wrong: tuple[str, str], right: tuple[str, str], rule: str
) -> None:
    found = findings_of(tmp_path, text.replace(*wrong), cases=6)
    assert rule in [
        finding.rule
        for finding in found
        if finding.severity is Severity.ERROR and finding.place.range.start.line == bug_line(text)
    ], found


@pytest.mark.parametrize(("text", "wrong", "right", "rule"), PROGRAMS)
def test_the_correct_program_of_a_class_has_no_findings(
    tmp_path: Path, text: str, wrong: tuple[str, str], right: tuple[str, str], rule: str
) -> None:
    assert findings_of(tmp_path, text.replace(*right), cases=6) == []


@pytest.mark.parametrize("text", [ELEMENTWISE_IN_PLACE, CAPACITY, GATHER], ids=["in place", "capacity", "gather"])
def test_correct_programs_that_look_wrong(tmp_path: Path, text: str) -> None:
    """One buffer is passed twice, an extent is a number that only callers relate to the kernel's, an index is loaded."""
    assert findings_of(tmp_path, text, cases=12) == []
