"""Small programs with one mistake each: found in the files as they are, on their line, and nothing without it."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.host_programs import bug_line, findings_of

from gpuemu_lsp.engine.findings import Severity

MISALIGNED = """
#include <cstdio>
#include <cuda_runtime.h>
#define CHECK(call) do { cudaError_t e = (call); if (e != cudaSuccess) { printf("%d", e); return 1; } } while (0)
__device__ int bytes_read;
__global__ void widen(const char* packed, int* values) {
  const char* at = packed + 4 * threadIdx.x + OFFSET;
  values[threadIdx.x] = *reinterpret_cast<const int*>(at);  // bug
}
int main() {
  char host[260] = {0}, *packed;
  int* values;
  CHECK(cudaMalloc((void**)&packed, sizeof(host)));
  CHECK(cudaMalloc((void**)&values, 64 * sizeof(int)));
  CHECK(cudaMemcpy(packed, host, sizeof(host), cudaMemcpyHostToDevice));
  widen<<<1, 64>>>(packed, values);
  CHECK(cudaDeviceSynchronize());
}
"""
WILD = """
#include <cuda_runtime.h>
static const int Length = 128;
struct Range { int first; int step; };
__global__ void scatter(float* out, Range range) {
  long index = range.first + (long)threadIdx.x * range.step;
  out[index] = 1.0f;  // bug
}
int main() {
  float* out = nullptr;
  cudaMallocManaged(&out, Length * sizeof(float));
  Range range = {0, STEP};
  scatter<<<1, dim3(Length, 1, 1)>>>(out, range);
  cudaDeviceSynchronize();
  return out[0] > 0 ? 0 : 1;
}
"""
BLOCK_RACE = """
#include <cstdlib>
#include <cuda_runtime.h>
constexpr int kThreads = 128;
constexpr int kBlocks = 4;
__global__ void rotate(const int* in, int* out) {
  __shared__ int tile[kThreads];
  int t = threadIdx.x, base = blockIdx.x * kThreads;
  tile[t] = in[base + t];
  SYNC
  out[base + t] = tile[(t + 37) % kThreads];  // bug
}
int main(int argc, char** argv) {
  size_t bytes = kThreads * kBlocks * sizeof(int);
  int* host = static_cast<int*>(malloc(bytes));
  for (int i = 0; i < kThreads * kBlocks; ++i) host[i] = i;
  int *in, *out;
  cudaMalloc(&in, bytes);
  cudaMalloc(&out, bytes);
  cudaMemcpy(in, host, bytes, cudaMemcpyHostToDevice);
  rotate<<<kBlocks, kThreads>>>(in, out);
  cudaMemcpy(host, out, bytes, cudaMemcpyDeviceToHost);
  free(host);
}
"""
WARP_RACE = """
#include <cuda_runtime.h>
#define WARPS 2
__global__ void lane_sum(int* total) {
  __shared__ int part[WARPS * 32];
  int t = threadIdx.x;
  part[t] = t;
  for (int step = 16; step > 0; step /= 2) {
    SYNC
    if (t % 32 < step) part[t] += part[t + step];  // bug
  }
  if (t % 32 == 0) atomicAdd(total, part[t]);
}
int main() {
  int* total;
  cudaMalloc(&total, sizeof(int));
  cudaMemset(total, 0, sizeof(*total));
  lane_sum<<<1, WARPS * 32>>>(total);
  cudaFree(total);
}
"""
NO_MEMSET = """
#include <vector>
#include <cuda_runtime.h>
const int N = 1000, BINS = 16;
__global__ void histogram(const unsigned char* data, unsigned* bins, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) atomicAdd(&bins[data[i] % BINS], 1u);  // bug
}
void run(const std::vector<unsigned char>& data) {
  unsigned char* d_data;
  unsigned *d_bins, bins[BINS];
  cudaMalloc(&d_data, data.size());
  cudaMalloc(&d_bins, sizeof(bins));
  MEMSET
  cudaMemcpy(d_data, data.data(), data.size(), cudaMemcpyHostToDevice);
  const int threads = 256;
  histogram<<<(N + threads - 1) / threads, threads>>>(d_data, d_bins, N);
  cudaMemcpy(bins, d_bins, sizeof(bins), cudaMemcpyDeviceToHost);
}
int main() {
  std::vector<unsigned char> data(N);
  for (int i = 0; i < N; i++) data[i] = i & 255;
  run(data);
}
"""
DIVERGENT_BARRIER = """
#include <cuda_runtime.h>
enum { SIZE = 200, BLOCK = 128 };
__global__ void neighbours(const float* x, float* y, int n) {
  __shared__ float tile[BLOCK];
  int i = blockIdx.x * BLOCK + threadIdx.x;
  EARLY
  tile[threadIdx.x] = i < n ? x[i] : 0;
  __syncthreads();  // bug
  if (i < n) y[i] = tile[threadIdx.x] + tile[threadIdx.x ^ 1];
}
int main() {
  float x[SIZE], *dx, *dy;
  for (int i = 0; i < SIZE; i++) x[i] = 0.5f * i;
  cudaMalloc(&dx, sizeof x);
  cudaMalloc(&dy, sizeof x);
  cudaMemcpy(dx, x, sizeof x, cudaMemcpyHostToDevice);
  dim3 threads(BLOCK);
  dim3 blocks((SIZE + threads.x - 1) / threads.x);
  neighbours<<<blocks, threads>>>(dx, dy, SIZE);
  cudaMemcpy(x, dy, sizeof x, cudaMemcpyDeviceToHost);
}
"""
WARP_MASK = """
#include <cuda_runtime.h>
template <int Threads>
__global__ void broadcast(int* out) {
  int lane = threadIdx.x % 32, value = lane;
  if (lane < 16) value = __shfl_sync(MASK, value, 0);  // bug
  out[threadIdx.x] = value;
}
int main() {
  int* out;
  cudaMalloc(&out, 64 * sizeof(int));
  broadcast<64><<<1, 64>>>(out);
  int host[64];
  cudaMemcpy(host, out, sizeof(host), cudaMemcpyDeviceToHost);
}
"""
SHARED_TOO_SMALL = """
#include <cuda_runtime.h>
__global__ void reverse(float* x) {
  extern __shared__ float buffer[];
  buffer[threadIdx.x] = x[threadIdx.x];  // bug
  __syncthreads();
  x[threadIdx.x] = buffer[blockDim.x - 1 - threadIdx.x];
}
float* made(int n) {
  float* x;
  cudaMalloc(&x, n * sizeof(float));
  cudaMemset(x, 0, n * sizeof(float));
  return x;
}
int main() {
  const int n = 256;
  float* x = made(n);
  reverse<<<1, n, n * BYTES>>>(x);
  cudaFree(x);
}
"""
LAST_BLOCK = """
#include <cuda_runtime.h>
__global__ void total(const int* x, int* sums, unsigned* arrived, int* out, int n) {
  __shared__ int own;
  __shared__ bool last;
  if (threadIdx.x == 0) own = 0;
  __syncthreads();
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) atomicAdd(&own, x[i]);
  __syncthreads();
  if (threadIdx.x == 0) {
    sums[blockIdx.x] = own;
    FENCE
    last = atomicAdd(arrived, 1u) == gridDim.x - 1;
  }
  __syncthreads();
  if (!last || threadIdx.x > 0) return;
  int all = 0;
  for (int b = 0; b < gridDim.x; b++) all += sums[b];  // bug
  *out = all;
}
void launch(const int* x, int* out, int n) {
  const int blocks = (n + 63) / 64;
  int* sums;
  unsigned* arrived;
  cudaMalloc(&sums, blocks * sizeof(int));
  cudaMalloc(&arrived, sizeof(unsigned));
  cudaMemset(arrived, 0, sizeof(unsigned));
  total<<<blocks, 64>>>(x, sums, arrived, out, n);
}
"""
PROGRAMS = [
    pytest.param(MISALIGNED, ("OFFSET", "1"), ("OFFSET", "0"), "memory/misaligned", id="misaligned"),
    pytest.param(WILD, ("STEP", "1 << 20"), ("STEP", "1"), "memory/out-of-bounds", id="wild"),
    pytest.param(BLOCK_RACE, ("SYNC", ""), ("SYNC", "__syncthreads();"), "memory/shared-race", id="block race"),
    pytest.param(WARP_RACE, ("SYNC", ""), ("SYNC", "__syncwarp();"), "memory/shared-race", id="warp race"),
    pytest.param(
        NO_MEMSET,
        ("MEMSET", ""),
        ("MEMSET", "cudaMemset(d_bins, 0, sizeof(bins));"),
        "memory/uninitialized-read",
        id="no memset",
    ),
    pytest.param(
        DIVERGENT_BARRIER, ("EARLY", "if (i >= n) return;"), ("EARLY", ""), "sync/barrier-divergence", id="barrier"
    ),
    pytest.param(WARP_MASK, ("MASK", "0xffffffffu"), ("MASK", "0xffffu"), "sync/missing-warp-mask", id="warp mask"),
    pytest.param(LAST_BLOCK, ("FENCE", ""), ("FENCE", "__threadfence();"), "memory/global-race", id="last block"),
    pytest.param(SHARED_TOO_SMALL, ("BYTES", "2"), ("BYTES", "sizeof(float)"), "memory/out-of-bounds", id="shared"),
]


@pytest.mark.parametrize(("text", "wrong", "right", "rule"), PROGRAMS)
def test_a_mistake_in_a_program_is_found_on_its_line(
    tmp_path: Path, text: str, wrong: tuple[str, str], right: tuple[str, str], rule: str
) -> None:
    """Sizes are those of ``main``; the line is that of the comment."""
    line = bug_line(text)
    found = [finding for finding in findings_of(tmp_path, text.replace(*wrong)) if finding.severity is Severity.ERROR]
    assert rule in [finding.rule for finding in found if finding.place.range.start.line == line], found


@pytest.mark.parametrize(("text", "wrong", "right", "rule"), PROGRAMS)
def test_the_correct_program_has_no_findings(
    tmp_path: Path, text: str, wrong: tuple[str, str], right: tuple[str, str], rule: str
) -> None:
    """The same program without the mistake."""
    assert findings_of(tmp_path, text.replace(*right)) == []
