"""Sizes that host code states: vectors and structs that callers pass, preconditions, launches through macros.

Each program has a place holder, with a mistake and without it.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from support.host_programs import bug_line, findings_of

from gpuemu_lsp.engine.findings import Severity

GRAPH = """
#include <cuda_runtime.h>
#include <vector>
struct Graph { int n; int m; int* row; int* col; };
Graph upload(const std::vector<int>& row, const std::vector<int>& col) {
  Graph g;
  g.n = (int)row.size() - 1;
  g.m = (int)col.size();
  cudaMalloc(&g.row, row.size() * sizeof(int));
  cudaMalloc(&g.col, col.size() * sizeof(int));
  cudaMemcpy(g.row, row.data(), row.size() * sizeof(int), cudaMemcpyHostToDevice);
  cudaMemcpy(g.col, col.data(), col.size() * sizeof(int), cudaMemcpyHostToDevice);
  return g;
}
__global__ void degree(Graph g, int* deg) {
  int v = blockIdx.x * blockDim.x + threadIdx.x;
  if (v >= g.n) return;
  int d = 0;
  for (int e = g.row[v]; e < g.row[v + 1]; e++) if (g.col[e] != v) d++;
  deg[v] = d;  // bug
}
void run(const std::vector<int>& row, const std::vector<int>& col, std::vector<int>& out) {
  Graph g = upload(row, col); int* deg; cudaMalloc(&deg, (EXTENT) * sizeof(int));
  degree<<<(g.n + 255) / 256, 256>>>(g, deg);
  cudaMemcpy(out.data(), deg, g.n * sizeof(int), cudaMemcpyDeviceToHost);
}
"""
TILES = """
#include <cuda_runtime.h>
#include <cassert>
// M, N, K multiples of the tile, asserted
template <int T>
__global__ void mm(const float* A, const float* B, float* C, int M, int N, int K) {
  __shared__ float a[T][T], b[T][T];
  int r = blockIdx.y * T + threadIdx.y, c = blockIdx.x * T + threadIdx.x; float s = 0;
  for (int k = 0; k < K; k += T) {
    a[threadIdx.y][threadIdx.x] = A[r * K + k + threadIdx.x];
    b[threadIdx.y][threadIdx.x] = B[(k + threadIdx.y) * N + c];
    __syncthreads();
    for (int i = 0; i < T; i++) s += a[threadIdx.y][i] * b[i][threadIdx.x];  // bug
    SYNC
  }
  C[r * N + c] = s;
}
void gemm(const float* hA, const float* hB, float* hC, int M, int N, int K) {
  assert(M % 16 == 0 && N % 16 == 0 && K % 16 == 0);
  float *A, *B, *C; size_t sa = sizeof(float) * M * K, sb = sizeof(float) * K * N, sc = sizeof(float) * M * N;
  cudaMalloc(&A, sa); cudaMalloc(&B, sb); cudaMalloc(&C, sc);
  cudaMemcpy(A, hA, sa, cudaMemcpyHostToDevice);
  cudaMemcpy(B, hB, sb, cudaMemcpyHostToDevice);
  mm<16><<<dim3(N / 16, M / 16), dim3(16, 16)>>>(A, B, C, M, N, K);
  cudaMemcpy(hC, C, sc, cudaMemcpyDeviceToHost);
}
"""
ROTATION = """
#include <cuda_runtime.h>
// the caller relates the sizes by a struct
struct Shape {
  int batch, heads, seq, dim;
  size_t count() const { return (size_t)batch * heads * seq * dim; }
};
__global__ void rope(float* q, int seq, int dim) {
  int h = blockIdx.y, s = blockIdx.x, d = threadIdx.x; int half = dim / 2;
  float* p = q + ((size_t)h * seq + s) * dim + SHIFT;
  if (d >= half) return;
  float a = p[d], b = p[d + half];
  p[d] = a - b;
  p[d + half] = a + b;
}
void apply(float* host, Shape s) {
  float* q;
  cudaMalloc(&q, s.count() * sizeof(float));
  cudaMemcpy(q, host, s.count() * sizeof(float), cudaMemcpyHostToDevice);
  rope<<<dim3(s.seq, s.batch * s.heads), s.dim / 2>>>(q, s.seq, s.dim);
  cudaMemcpy(host, q, s.count() * sizeof(float), cudaMemcpyDeviceToHost);
}
"""
FROM_ONE = """
#include <cuda_runtime.h>
#include <cstdlib>
// padded: 1-based arrays
__global__ void acc(const float* v, float* o, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x + 1;
  if (i <= n) o[i] = v[i] + v[i - 1];  // bug
}
int main(int argc, char** argv) {
  int n = argc > 1 ? std::atoi(argv[1]) : 1000;
  float* h = (float*)calloc(n + 1, sizeof(float));
  float *v, *o;
  cudaMalloc(&v, (n + 1) * sizeof(float));
  cudaMalloc(&o, (n + EXTRA) * sizeof(float));
  cudaMemcpy(v, h, (n + 1) * sizeof(float), cudaMemcpyHostToDevice);
  acc<<<(n + 63) / 64, 64>>>(v, o, n);
  cudaMemcpy(h + 1, o + 1, n * sizeof(float), cudaMemcpyDeviceToHost);
}
"""
MACRO = """
#include <cuda_runtime.h>
#define LAUNCH(k, n, ...) do { int b_ = 128; k<<<((n) + b_ - 1) / b_, b_>>>(__VA_ARGS__); } while (0)
__global__ void clampk(int* x, int lo, int hi, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (GUARD) x[i] = x[i] < lo ? lo : x[i] > hi ? hi : x[i];  // bug
}
int main() {
  int h[333], *d;
  for (int i = 0; i < 333; i++) h[i] = i;
  cudaMalloc(&d, sizeof h);
  cudaMemcpy(d, h, sizeof h, cudaMemcpyHostToDevice);
  LAUNCH(clampk, 333, d, 10, 20, 333);
  cudaMemcpy(h, d, sizeof h, cudaMemcpyDeviceToHost);
}
"""
WINDOW = """
#include <cuda_runtime.h>
// separate sizes, independent parameters: out is as long as the caller says
__global__ void window(const float* x, float* y, int n, int k) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i + k > n + MORE) return;
  float s = 0;
  for (int j = 0; j < k; j++) s += x[i + j];
  y[i] = s;  // bug
}
void moving(const float* hx, float* hy, int n, int k) {
  float *x, *y; int m = n - k + 1;
  cudaMalloc(&x, n * sizeof(float));
  cudaMalloc(&y, m * sizeof(float));
  cudaMemcpy(x, hx, n * sizeof(float), cudaMemcpyHostToDevice);
  window<<<(m + 127) / 128, 128>>>(x, y, n, k);
  cudaMemcpy(hy, y, m * sizeof(float), cudaMemcpyDeviceToHost);
}
"""
PROGRAMS = [
    pytest.param(GRAPH, ("EXTENT", "g.n - 1"), ("EXTENT", "g.n"), "memory/out-of-bounds", id="sizes of vectors"),
    pytest.param(TILES, ("SYNC", ""), ("SYNC", "__syncthreads();"), "memory/shared-race", id="asserted multiples"),
    pytest.param(FROM_ONE, ("EXTRA", "0"), ("EXTRA", "1"), "memory/out-of-bounds", id="indices from one"),
    pytest.param(MACRO, ("GUARD", "true"), ("GUARD", "i < n"), "memory/out-of-bounds", id="macro"),
    pytest.param(WINDOW, ("MORE", "1"), ("MORE", "0"), "memory/out-of-bounds", id="window"),
]
GROWING = """
#include <cuda_runtime.h>
// capacity grows; class resizes
class Pool {
  float* p = nullptr; size_t cap = 0;
 public:
  float* reserve(size_t n) {
    if (n > cap) {
      if (p) cudaFree(p);
      cudaMalloc(&p, n * sizeof(float));
      cap = n;
    }
    return p;
  }
  ~Pool() { cudaFree(p); }
};
__global__ void iota(float* x, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) x[i] = i;
}
int main() {
  Pool pool;
  for (int n = 100; n < 5000; n *= 3) {
    float* x = pool.reserve(n);
    iota<<<(n + 255) / 256, 256>>>(x, n);
  }
  cudaDeviceSynchronize();
}
"""
HALVES = """
#include <cuda_runtime.h>
#include <stdio.h>
// 1-D tree reduction in place with two passes, same buffer passed as in and out of disjoint halves
__global__ void fold(const float* in, float* out, int half) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < half) out[i] = in[i] + in[i + half];
}
int main() {
  int n = 1024;
  float* d;
  cudaMalloc(&d, n * 4);
  cudaMemset(d, 0, n * 4);
  for (int half = n / 2; half > 0; half /= 2) fold<<<(half + 127) / 128, 128>>>(d, d, half);
  float r; cudaMemcpy(&r, d, 4, cudaMemcpyDeviceToHost); printf("%f\\n", r);
}
"""

HARD_CODED_HEIGHT = """
#include <cuda_runtime.h>
__global__ void columns(int* img, int width, int height) {
  int x = blockIdx.x * blockDim.x + threadIdx.x;
  for (int step = 0; step < 135; step++) img[(threadIdx.y + step * 8) * width + x] += 1;
}
int main() {
  int w = 19200, h = 1080;
  int* d;
  cudaMalloc(&d, w * h * sizeof(int));
  cudaMemset(d, 0, w * h * sizeof(int));
  columns<<<w / 32, dim3(32, 8)>>>(d, w, h);
  return cudaDeviceSynchronize();
}
"""


@pytest.mark.parametrize(("text", "wrong", "right", "rule"), PROGRAMS)
def test_a_mistake_is_found_on_its_line(
    tmp_path: Path, text: str, wrong: tuple[str, str], right: tuple[str, str], rule: str
) -> None:
    found = findings_of(tmp_path, text.replace(*wrong), cases=8)
    assert rule in [
        finding.rule
        for finding in found
        if finding.severity is Severity.ERROR and finding.place.range.start.line == bug_line(text)
    ], found


@pytest.mark.parametrize(("text", "wrong", "right", "rule"), PROGRAMS)
def test_the_correct_program_has_no_findings(
    tmp_path: Path, text: str, wrong: tuple[str, str], right: tuple[str, str], rule: str
) -> None:
    assert findings_of(tmp_path, text.replace(*right), cases=8) == []


@pytest.mark.parametrize(
    "text",
    [GROWING, HALVES, ROTATION.replace("SHIFT", "0"), HARD_CODED_HEIGHT],
    ids=["growing", "halves", "struct of a caller", "hard-coded height"],
)
def test_correct_programs_that_look_wrong(tmp_path: Path, text: str) -> None:
    """A buffer that is allocated again, halves of one buffer, a struct whose numbers only a caller has, a kernel for one size."""
    assert findings_of(tmp_path, text, cases=8) == []


PARTS = """
#include <cuda_runtime.h>
#define TOTAL 4 * 1024
#define EACH 2 * 1024
__global__ void copy(int* out, const int* in, size_t bytes) {  // bug
  int count = gridDim.x * blockDim.x;
  for (int i = blockDim.x * blockIdx.x + threadIdx.x; i < bytes / sizeof(int); i += count) out[i] = in[i];
}
int main() {
  int *in, *out, *host = new int[1024];
  cudaMalloc(&in, TOTAL);
  cudaMalloc(&out, TOTAL);
  cudaMemset(in, 0, TOTAL);
  LOOP
  cudaMemcpy(host, out, TOTAL, cudaMemcpyDeviceToHost);
}
"""
LOOPS = {
    "parts": "for (int i = 0; i < TOTAL; i += EACH) { int j = i / 4; copy<<<4, 64>>>(out + j, in + j, EACH); }",
    "advanced": "int* at = out; for (int i = 0; i < TOTAL; i += EACH, at += EACH / 4) copy<<<4, 64>>>(at, in, EACH);",
    "whole": "for (int i = 0; i < 3; i++) copy<<<4, 64>>>(out, in, TOTAL);",
}


@pytest.mark.parametrize("name", LOOPS)
def test_launches_of_a_loop_write_one_part_after_another(tmp_path: Path, name: str) -> None:
    assert findings_of(tmp_path, PARTS.replace("LOOP", LOOPS[name]), cases=6) == []
