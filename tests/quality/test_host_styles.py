"""Host code in several authors' styles: classes that own memory, globals, structs with member functions, PyTorch.

Each program has a place holder, with a mistake and without it.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from support.host_programs import bug_line, findings_of

from gpuemu_lsp.engine.findings import Severity

OWNING_CLASS = """
#include <cuda_runtime.h>
#include <vector>
template <typename T>
class DeviceBuffer {
 public:
  explicit DeviceBuffer(size_t count) : count_(count) { cudaMalloc(&data_, count_ * sizeof(T)); }
  ~DeviceBuffer() { cudaFree(data_); }
  T* get() { return data_; }
  size_t size() const { return count_; }
  void upload(const T* host) { cudaMemcpy(data_, host, count_ * sizeof(T), cudaMemcpyHostToDevice); }
  void download(T* host) const { cudaMemcpy(host, data_, count_ * sizeof(T), cudaMemcpyDeviceToHost); }
 private:
  T* data_ = nullptr;
  size_t count_;
};
__global__ void shift(const float* x, float* y, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) y[i] = x[i + 1];  // bug
}
int main() {
  const int n = 500;
  std::vector<float> host(n + 1, 1.f);
  DeviceBuffer<float> x(EXTENT), y(n);
  x.upload(host.data());
  shift<<<(n + 127) / 128, 128>>>(x.get(), y.get(), n);
  y.download(host.data());
}
"""
GLOBALS = """
#include <stdio.h>
#include <cuda_runtime.h>
#define N 300
#define gpuErrchk(ans) { gpuAssert((ans), __FILE__, __LINE__); }
inline void gpuAssert(cudaError_t code, const char *file, int line) {
  if (code != cudaSuccess) { fprintf(stderr, "%s %s %d", cudaGetErrorString(code), file, line); exit(code); }
}
static int *d_in, *d_out;
static int h[N];
__global__ void square(int *in, int *out) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  GUARD out[i] = in[i] * in[i];  // bug
}
static void init(void) {
  gpuErrchk(cudaMalloc((void **)&d_in, N * sizeof(int)));
  gpuErrchk(cudaMalloc((void **)&d_out, N * sizeof(int)));
  for (int i = 0; i < N; i++) h[i] = i;
  gpuErrchk(cudaMemcpy(d_in, h, sizeof(h), cudaMemcpyHostToDevice));
}
int main(void) {
  init();
  square<<<(N + 63) / 64, 64>>>(d_in, d_out);
  gpuErrchk(cudaDeviceSynchronize());
  gpuErrchk(cudaMemcpy(h, d_out, sizeof(h), cudaMemcpyDeviceToHost));
  return 0;
}
"""
ARRAYS_IN_STRUCT = """
#include <cuda_runtime.h>
struct Particles { float *x, *v; int count; };
static void alloc(Particles* p, int n) {
  p->count = n;
  cudaMalloc((void**)&p->x, n * sizeof(float));
  cudaMalloc((void**)&p->v, n * sizeof(float));
  cudaMemset(p->x, 0, n * sizeof(float));
  cudaMemset(p->v, 0, n * sizeof(float));
}
__global__ void step(Particles p, float dt) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < p.count) p.x[i] += dt * p.v[i + OFFSET];  // bug
}
int main() {
  Particles p;
  alloc(&p, 777);
  for (int it = 0; it < 10; ++it) step<<<(p.count + 255) / 256, 256>>>(p, 0.1f);
  cudaDeviceSynchronize();
}
"""
MEMBER_FUNCTIONS = """
#include <cuda_runtime.h>
struct Conv {
  int h, w, k, pad;
  __host__ __device__ int outH() const { return h + 2 * pad - k + 1; }
  __host__ __device__ int outW() const { return w + 2 * pad - k + 1; }
};
__global__ void conv(const float* x, const float* f, float* y, Conv p) {
  int c = blockIdx.x * blockDim.x + threadIdx.x, r = blockIdx.y * blockDim.y + threadIdx.y;
  if (r >= p.outH() || c OPERATOR p.outW()) return;
  float acc = 0;
  for (int i = 0; i < p.k; i++) for (int j = 0; j < p.k; j++) {
    int yy = r + i - p.pad, xx = c + j - p.pad;
    if (yy >= 0 && yy < p.h && xx >= 0 && xx < p.w) acc += x[yy * p.w + xx] * f[i * p.k + j];
  }
  y[r * p.outW() + c] = acc;  // bug
}
int main() {
  Conv p{33, 47, 3, 1};
  float *x, *f, *y;
  cudaMalloc(&x, p.h * p.w * sizeof(float));
  cudaMalloc(&f, p.k * p.k * sizeof(float));
  cudaMalloc(&y, p.outH() * p.outW() * sizeof(float));
  cudaMemset(x, 0, p.h * p.w * sizeof(float));
  cudaMemset(f, 0, p.k * p.k * sizeof(float));
  dim3 block(16, 16);
  dim3 grid((p.outW() + 15) / 16, (p.outH() + 15) / 16);
  conv<<<grid, block>>>(x, f, y, p);
  cudaDeviceSynchronize();
}
"""
UNIQUE_POINTERS = """
#include <memory>
#include <cuda_runtime.h>
struct CudaDeleter { void operator()(void* p) const { cudaFree(p); } };
template <typename T> using device_ptr = std::unique_ptr<T, CudaDeleter>;
template <typename T> device_ptr<T> make_device(size_t n) {
  T* raw = nullptr;
  cudaMalloc(&raw, n * sizeof(T));
  return device_ptr<T>(raw);
}
__global__ void hist(const unsigned char* p, int* bins, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n + EXTRA) atomicAdd(&bins[p[i]], 1);  // bug
}
int main() {
  constexpr int n = 4096;
  auto pixels = make_device<unsigned char>(n);
  auto bins = make_device<int>(256);
  cudaMemset(pixels.get(), 7, n);
  cudaMemset(bins.get(), 0, 256 * sizeof(int));
  hist<<<n / 256 + 1, 256>>>(pixels.get(), bins.get(), n);
  cudaDeviceSynchronize();
}
"""
PITCHED = """
#include <cuda_runtime.h>
__global__ void add1(float* a, size_t pitch, int w, int h) {
  int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
  if (x < w && y OPERATOR h) { float* row = (float*)((char*)a + y * pitch); row[x] += 1.f; }  // bug
}
int main() {
  const int w = 70, h = 32;
  float host[w * h] = {0}; float* d; size_t pitch;
  cudaMallocPitch(&d, &pitch, w * sizeof(float), h);
  cudaMemcpy2D(d, pitch, host, w * sizeof(float), w * sizeof(float), h, cudaMemcpyHostToDevice);
  dim3 b(16, 16), g;
  g.x = (w + b.x - 1) / b.x; g.y = (h + b.y) / b.y;
  add1<<<g, b>>>(d, pitch, w, h);
  cudaMemcpy2D(host, w * sizeof(float), d, pitch, w * sizeof(float), h, cudaMemcpyDeviceToHost);
}
"""
CARVED = """
#include <cuda_runtime.h>
// one allocation, several arrays in it
__global__ void combine(const float* a, const float* b, float* out, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) out[i] = a[i] + b[i];  // bug
}
int main() {
  const int n = 1000; float h[2 * n]; float* pool;
  for (int i = 0; i < 2 * n; i++) h[i] = i;
  cudaMalloc(&pool, 3 * n * sizeof(float));
  cudaMemcpy(pool, h, 2 * n * sizeof(float), cudaMemcpyHostToDevice);
  combine<<<(n + 127) / 128, 128>>>(pool, pool + n, pool + 2 * n + SHIFT, n);
  cudaMemcpy(h, pool + 2 * n, n * sizeof(float), cudaMemcpyDeviceToHost);
}
"""
RECURSION = """
#include <cuda_runtime.h>
__global__ void block_scan(int* x, int* sums, int n) {
  __shared__ int s[512];
  int t = threadIdx.x, i = blockIdx.x * 512 + t;
  s[t] = i < n ? x[i] : 0; __syncthreads();
  for (int o = 1; o < 512; o <<= 1) { int v = t >= o ? s[t - o] : 0; __syncthreads(); s[t] += v; __syncthreads(); }
  if (i < n) x[i] = s[t];
  if (sums && t == 511) sums[blockIdx.x] = s[t];
}
__global__ void add_base(int* x, const int* sums, int n) {
  int i = blockIdx.x * 512 + threadIdx.x;
  if (blockIdx.x > 0 && i < n) x[i] += sums[blockIdx.x SIGN 1];  // bug
}
void scan(int* d, int n) {
  int blocks = (n + 511) / 512;
  if (blocks == 1) { block_scan<<<1, 512>>>(d, nullptr, n); return; }
  int* sums;
  cudaMalloc(&sums, blocks * sizeof(int));
  block_scan<<<blocks, 512>>>(d, sums, n);
  scan(sums, blocks);
  add_base<<<blocks, 512>>>(d, sums, n);
  cudaFree(sums);
}
int main() {
  const int n = 5000; int h[n], *d;
  for (int i = 0; i < n; i++) h[i] = i % 7;
  cudaMalloc(&d, n * sizeof(int));
  cudaMemcpy(d, h, n * sizeof(int), cudaMemcpyHostToDevice);
  scan(d, n);
  cudaMemcpy(h, d, n * sizeof(int), cudaMemcpyDeviceToHost);
}
"""
TORCH_ROWS = """
#include <torch/extension.h>
__global__ void relu_rows(const float* __restrict__ x, float* __restrict__ y, int rows, int cols) {
  int r = blockIdx.x;
  for (int c = threadIdx.x; c < cols; c += blockDim.x) {
    float v = x[r * cols + c];
    y[r * cols + c + SHIFT] = v > 0 ? v : 0;  // bug
  }
}
torch::Tensor relu_rows_cuda(torch::Tensor x) {
  TORCH_CHECK(x.is_cuda(), "x must be CUDA");
  TORCH_CHECK(x.dim() == 2);
  const int rows = x.size(0), cols = x.size(1);
  auto y = torch::empty_like(x);
  relu_rows<<<rows, 256>>>(x.data_ptr<float>(), y.data_ptr<float>(), rows, cols);
  return y;
}
PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("relu_rows", &relu_rows_cuda); }
"""
TORCH_RACE = """
#include <torch/extension.h>
__global__ void row_sum(const float* x, float* y, int rows, int cols) {
  __shared__ float s[256];
  int r = blockIdx.x, t = threadIdx.x;
  float acc = 0;
  for (int c = t; c < cols; c += 256) acc += x[r * cols + c];
  s[t] = acc;
  __syncthreads();
  for (int h = 128; h > 0; h >>= 1) { if (t < h) s[t] += s[t + h]; SYNC }  // bug
  if (t == 0) y[r] = s[0];
}
at::Tensor row_sum_cuda(const at::Tensor& x) {
  auto rows = x.size(0); auto cols = x.size(1);
  auto y = at::zeros({rows}, x.options());
  row_sum<<<rows, 256, 0, at::cuda::getCurrentCUDAStream()>>>(x.data_ptr<float>(), y.data_ptr<float>(), rows, cols);
  return y;
}
"""
TORCH_EQUAL_SIZES = """
#include <torch/extension.h>
// elementwise over numel, broadcast over the last size
__global__ void bias(const float* x, const float* b, float* y, int n, int d) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) y[i] = x[i] + b[i % (d + MORE)];  // bug
}
torch::Tensor bias_cuda(torch::Tensor x, torch::Tensor b) {
  TORCH_CHECK(x.size(1) == b.size(0));
  auto y = torch::empty_like(x);
  int n = x.numel(), d = x.size(1);
  bias<<<(n + 127) / 128, 128>>>(x.data_ptr<float>(), b.data_ptr<float>(), y.data_ptr<float>(), n, d);
  return y;
}
"""
PROGRAMS = [
    pytest.param(OWNING_CLASS, ("EXTENT", "n"), ("EXTENT", "n + 1"), "memory/out-of-bounds", id="class"),
    pytest.param(GLOBALS, ("GUARD", ""), ("GUARD", "if (i < N)"), "memory/out-of-bounds", id="globals"),
    pytest.param(ARRAYS_IN_STRUCT, ("OFFSET", "1"), ("OFFSET", "0"), "memory/out-of-bounds", id="struct of arrays"),
    pytest.param(MEMBER_FUNCTIONS, ("OPERATOR", ">"), ("OPERATOR", ">="), "memory/out-of-bounds", id="members"),
    pytest.param(UNIQUE_POINTERS, ("EXTRA", "1"), ("EXTRA", "0"), "memory/out-of-bounds", id="unique_ptr"),
    pytest.param(PITCHED, ("OPERATOR", "<="), ("OPERATOR", "<"), "memory/out-of-bounds", id="pitch"),
    pytest.param(CARVED, ("SHIFT", "1"), ("SHIFT", "0"), "memory/out-of-bounds", id="one allocation"),
    pytest.param(RECURSION, ("SIGN", "+"), ("SIGN", "-"), "memory/out-of-bounds", id="recursion"),
    pytest.param(TORCH_ROWS, ("SHIFT", "1"), ("SHIFT", "0"), "memory/out-of-bounds", id="torch sizes"),
    pytest.param(TORCH_RACE, ("SYNC", ""), ("SYNC", "__syncthreads();"), "memory/shared-race", id="torch race"),
    pytest.param(TORCH_EQUAL_SIZES, ("MORE", "1"), ("MORE", "0"), "memory/out-of-bounds", id="torch check"),
]
SWAPPED = """
#include <cuda_runtime.h>
#include <utility>
__global__ void jacobi(const float* a, float* b, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i > 0 && i < n - 1) b[i] = 0.5f * (a[i - 1] + a[i + 1]);
}
int main() {
  int n = 1 << 12;
  float *a, *b;
  cudaMalloc(&a, n * sizeof(float)); cudaMalloc(&b, n * sizeof(float));
  cudaMemset(a, 0, n * sizeof(float)); cudaMemset(b, 0, n * sizeof(float));
  for (int k = 0; k < 100; k++) { jacobi<<<(n + 255) / 256, 256>>>(a, b, n); std::swap(a, b); }
  cudaDeviceSynchronize();
}
"""
SWAPPED_BY_INDEX = """
#include <cuda_runtime.h>
__global__ void jacobi(const float* a, float* b, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i > 0 && i < n - 1) b[i] = 0.5f * (a[i - 1] + a[i + 1]);
}
int main(int argc, char** argv) {
  int n = 3000, cur = 0;
  float* buf[2];
  for (int i = 0; i < 2; i++) { cudaMalloc(&buf[i], n * sizeof(float)); cudaMemset(buf[i], 0, n * sizeof(float)); }
  for (int k = 0; k < 100; k++) { jacobi<<<(n + 255) / 256, 256>>>(buf[cur], buf[1 - cur], n); cur ^= 1; }
  cudaDeviceSynchronize();
}
"""
STREAMS = """
#include <cuda_runtime.h>
#include <algorithm>
template <int BLOCK> __global__ void chunked(float* x, int n) {
  for (int i = blockIdx.x * BLOCK + threadIdx.x; i < n; i += gridDim.x * BLOCK) x[i] = x[i] * 2.f;
}
int main(int argc, char** argv) {
  const int total = 10000, streams = 4, chunk = (total + streams - 1) / streams;
  cudaStream_t s[streams]; float *d, *h;
  cudaMallocHost(&h, total * sizeof(float));
  for (int i = 0; i < total; i++) h[i] = i;
  cudaMalloc(&d, total * sizeof(float));
  for (int i = 0; i < streams; i++) {
    cudaStreamCreate(&s[i]);
    int off = i * chunk, len = std::min(chunk, total - off);
    cudaMemcpyAsync(d + off, h + off, len * sizeof(float), cudaMemcpyHostToDevice, s[i]);
    chunked<128><<<8, 128, 0, s[i]>>>(d + off, len);
    cudaMemcpyAsync(h + off, d + off, len * sizeof(float), cudaMemcpyDeviceToHost, s[i]);
  }
  cudaDeviceSynchronize();
}
"""
SIZES_OF_TWO_TENSORS = """
#include <torch/extension.h>
__global__ void up(const float* x, float* y, int n, int c, int h, int w) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n * c * h * w) y[i] = x[i] * 2;
}
torch::Tensor up_cuda(torch::Tensor x, torch::Tensor like) {
  int n = x.size(0), c = x.size(1), h = like.size(2), w = like.size(3);
  auto y = torch::empty({n, c, h, w}, x.options());
  int total = x.numel();
  up<<<(n * c * h * w + 255) / 256, 256>>>(x.data_ptr<float>(), y.data_ptr<float>(), n, c, h, w);
  return y;
}
"""
LAST_SIZE = """
#include <torch/extension.h>
__global__ void ln(const float* x, float* y, int rows, int cols) {
  int r = blockIdx.x; if (r >= rows) return;
  for (int c = threadIdx.x; c < cols; c += blockDim.x) y[r * cols + c] = x[r * cols + c];
}
torch::Tensor ln_cuda(torch::Tensor x) {
  x = x.contiguous();
  int cols = x.size(-1);
  int rows = x.numel() / cols;
  auto y = torch::empty_like(x);
  ln<<<rows, 128>>>(x.data_ptr<float>(), y.data_ptr<float>(), rows, cols);
  return y;
}
"""


@pytest.mark.parametrize(("text", "wrong", "right", "rule"), PROGRAMS)
def test_a_mistake_is_found_on_its_line(
    tmp_path: Path, text: str, wrong: tuple[str, str], right: tuple[str, str], rule: str
) -> None:
    found = findings_of(tmp_path, text.replace(*wrong), cases=6)
    assert rule in [
        finding.rule
        for finding in found
        if finding.severity is Severity.ERROR and finding.place.range.start.line == bug_line(text)
    ], found


@pytest.mark.parametrize(("text", "wrong", "right", "rule"), PROGRAMS)
def test_the_correct_program_has_no_findings(
    tmp_path: Path, text: str, wrong: tuple[str, str], right: tuple[str, str], rule: str
) -> None:
    assert findings_of(tmp_path, text.replace(*right), cases=6) == []


@pytest.mark.parametrize(
    "text",
    [SWAPPED, SWAPPED_BY_INDEX, STREAMS, SIZES_OF_TWO_TENSORS, LAST_SIZE],
    ids=["swap", "swap by index", "streams", "sizes of two tensors", "last size"],
)
def test_correct_programs_that_look_wrong(tmp_path: Path, text: str) -> None:
    """Buffers that are exchanged are never one buffer; sizes of tensors with ranks that are not known are open."""
    assert findings_of(tmp_path, text, cases=8) == []
