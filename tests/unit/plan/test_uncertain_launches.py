"""Launches of a program of which some numbers are not known: nothing is claimed that these would decide."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from gpuemu_lsp.engine.check.model import KernelReport
from gpuemu_lsp.engine.check.pipeline import check_kernel
from gpuemu_lsp.engine.findings import Finding, Severity
from gpuemu_lsp.engine.jobs.requests.targets import collect
from gpuemu_lsp.engine.plan.model import PlanResult
from gpuemu_lsp.engine.subjects.request import CheckOptions

INSTANCES = """
#include <stdio.h>
template <int TILE> __global__ void product(float* c, const float* a, const float* b, int wide, int other) {
  __shared__ float left[TILE][TILE], right[TILE][TILE];
  float sum = 0;
  int begin = wide * TILE * blockIdx.y;
  for (int from = begin, at = TILE * blockIdx.x; from <= begin + wide - 1; from += TILE, at += TILE * other) {
    left[threadIdx.y][threadIdx.x] = a[from + wide * threadIdx.y + threadIdx.x];
    right[threadIdx.y][threadIdx.x] = b[at + other * threadIdx.y + threadIdx.x];
    __syncthreads();
    for (int k = 0; k < TILE; ++k) sum += left[threadIdx.y][k] * right[k][threadIdx.x];
    __syncthreads();
  }
  c[other * TILE * blockIdx.y + TILE * blockIdx.x + other * threadIdx.y + threadIdx.x] = sum;
}
extern float *device_a, *device_b, *device_c;
int multiply(int argc, char** argv, int block_size, const dim3& a, const dim3& b) {
  dim3 threads(block_size, block_size), grid(b.x / threads.x, a.y / threads.y);
  if (block_size == 16) product<16><<<grid, threads>>>(device_c, device_a, device_b, a.x, b.x);
  else product<32><<<grid, threads>>>(device_c, device_a, device_b, a.x, b.x);
  return 0;
}
int main(int argc, char** argv) {
  int block_size = 32;
  dim3 a(5 * 2 * block_size, 5 * 2 * block_size, 1), b(5 * 4 * block_size, 5 * 2 * block_size, 1);
  return multiply(argc, argv, block_size, a, b);
}
"""
OPAQUE_ELEMENTS = """
#include <time.h>
__global__ void spin(clock_t* out, clock_t count) { out[0] = count; }
__global__ void total(clock_t* clocks, int n) {
  clock_t sum = 0;
  for (int i = threadIdx.x; i < n; i += 32) sum += clocks[i];
  clocks[threadIdx.x] = sum;
}
int main() {
  int streams = 32;
  clock_t* device;
  cudaMalloc((void**)&device, 2 * streams * sizeof(clock_t));
  for (int i = 0; i < streams; ++i) {
    spin<<<1, 1>>>(&device[2 * i], 10);
    spin<<<1, 1>>>(&device[2 * i + 1], 10);
  }
  total<<<1, 32>>>(device, 2 * streams);
  cudaDeviceSynchronize();
}
"""
STATIC_LOCAL = """
__global__ void fill(float* x, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) x[i] = 1.0f;
}
void once(float* x, int n) {
  static bool first = true;
  int blocks = (n + 255) / 256;
  if (first) fill<<<blocks, 256>>>(x, n);
  first = false;
}
void chosen(int which, float* x, int n) {
  switch (which) {
    case 1: fill<<<(n + 63) / 64, 64>>>(x, n); break;
    case 2: once(x, n); break;
    default: once(x, n);
  }
  bool skip = which == 1;
  if (!skip || which > 4) once(x, n);
}
int main(int argc, char** argv) {
  float* x;
  cudaMalloc(&x, 1000 * sizeof(float));
  int which = argc > 1 ? atoi(argv[1]) : 2;
  chosen(which, x, 1000);
  for (int i = 0; i < 3; ++i) chosen(which, x, 1000);
}
"""


NEIGHBOURS = """
#include <stdlib.h>
__global__ void difference(const int* above, const int* order, const float* in, float* out, int rows, int cols) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= rows * cols) return;
  int row = i % rows, col = i / rows;
  out[order[i]] = in[above[row] + rows * col] - in[i];
}
void run(const float* image, float* result, int rows, int cols) {
  int *above = (int*)malloc(rows * sizeof(int)), *order = (int*)malloc(rows * cols * sizeof(int));
  for (int i = 0; i < rows; i++) above[i] = i - 1;
  above[0] = 0;
  for (int i = 0; i < rows * cols; i++) order[i] = i;
  int *d_above, *d_order;
  float *d_in, *d_out;
  cudaMalloc(&d_above, rows * sizeof(int));
  cudaMalloc(&d_order, rows * cols * sizeof(int));
  cudaMalloc(&d_in, rows * cols * sizeof(float));
  cudaMalloc(&d_out, rows * cols * sizeof(float));
  cudaMemcpy(d_above, above, rows * sizeof(int), cudaMemcpyHostToDevice);
  cudaMemcpy(d_order, order, rows * cols * sizeof(int), cudaMemcpyHostToDevice);
  cudaMemcpy(d_in, image, rows * cols * sizeof(float), cudaMemcpyHostToDevice);
  difference<<<(rows * cols + 255) / 256, 256>>>(d_above, d_order, d_in, d_out, rows, cols);
  cudaMemcpy(result, d_out, rows * cols * sizeof(float), cudaMemcpyDeviceToHost);
}
"""


SYMBOLS = """
struct Frame { float* values; int count; };
__constant__ Frame frame;
__global__ void scale() {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < 100 + frame.count) frame.values[i] *= 2;
}
int main() {
  Frame host;
  host.count = 28;
  cudaMalloc(&host.values, 128 * sizeof(float));
  cudaMemset(host.values, 0, 128 * sizeof(float));
  cudaMemcpyToSymbol(frame, &host, sizeof(Frame));
  scale<<<1, 128>>>();
}
"""


# The callers' sizes are multiples of four: other rows overlap.
VECTOR_ROWS = """
__global__ void gate(float* out, const float* coef, int hidden) {
  float4* row = reinterpret_cast<float4*>(out + blockIdx.x * hidden);
  for (int i = threadIdx.x * 4; i < hidden; i += blockDim.x * 4) {
    float4 v = row[i / 4];
    v.x *= coef[0]; v.y *= coef[0]; v.z *= coef[0]; v.w *= coef[0];
    row[i / 4] = v;
  }
}
void launch_gate(float* out, const float* coef, int rows, int hidden, cudaStream_t stream) {
  gate<<<rows, 128, 0, stream>>>(out, coef, hidden);
}
"""


@pytest.mark.parametrize("text", [INSTANCES, OPAQUE_ELEMENTS, STATIC_LOCAL, NEIGHBOURS, SYMBOLS, VECTOR_ROWS])
def test_a_correct_program_has_no_error(tmp_path: Path, text: str) -> None:
    source = tmp_path / "program.cu"
    source.write_text(text)
    requests = collect([str(source)], CheckOptions(), tmp_path).requests
    events = [event for request in requests for event in check_kernel(request)]
    assert [one for one in events if isinstance(one, Finding) and one.severity is Severity.ERROR] == []
    assert sum(isinstance(one, KernelReport) for one in events) == len(requests) >= 1


def test_a_grid_that_divides_by_zero_for_the_usual_size_is_read(compiled: Callable[[str], PlanResult]) -> None:
    """The usual value of an unknown number is 1,024."""
    result = compiled(
        """__global__ void k(float* x, int n) { if (threadIdx.x < n) x[threadIdx.x] = 1; }
void f(float* x, int n, int m) { k<<<n / (m - 1024), 32>>>(x, n); }
"""
    )
    (plan,) = result.plans
    assert [str(one) for one in plan.grid] == ["n // (m - 1024)"]
