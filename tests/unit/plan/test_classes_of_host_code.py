"""Programs of forms that the reader of host code has to know: each correct, and with a bug that is found on its line."""

from __future__ import annotations

from pathlib import Path

import pytest

from gpuemu_lsp.engine.check.model import KernelReport
from gpuemu_lsp.engine.check.pipeline import check_kernel
from gpuemu_lsp.engine.findings import Finding, Severity
from gpuemu_lsp.engine.jobs.requests.targets import collect
from gpuemu_lsp.engine.subjects.request import CheckOptions

SIZE_OF_ELEMENT = """
#include <cuda_runtime.h>
#define TILES 5
#define TILE 64
#define TOTAL (TILES * TILE)
__global__ void add(const float* a, const float* b, float* c) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  c[i] = a[i] + b[i BUG];  // wrong
}
int main() {
  float *in[2], *out, *host = new float[TOTAL];
  for (int i = 0; i < 2; i++) {
    cudaMalloc((void**)&in[i], TOTAL * sizeof *in[i]);
    cudaMemcpy(in[i], host, TOTAL * sizeof(*in[i]), cudaMemcpyHostToDevice);
  }
  cudaMalloc(&out, TOTAL * sizeof(out[0]));
  add<<<TILES, TILE>>>(in[0], in[1], out);
}
"""
SIZE_OF_VARIABLE = """
#include <cuda_runtime.h>
__global__ void count(unsigned long long* hits, const double* x) {
  if (x[0] > 0.5) atomicAdd(hits + threadIdx.x BUG, 1ULL);  // wrong
}
double share(double first) {
  unsigned long long *hits, none = 0;
  double* x;
  cudaMalloc(&hits, sizeof(none));
  cudaMalloc(&x, sizeof first);
  cudaMemset(hits, 0, sizeof(none));
  cudaMemcpy(x, &first, sizeof(first), cudaMemcpyHostToDevice);
  count<<<1, 1>>>(hits, x);
  cudaMemcpy(&none, hits, sizeof none, cudaMemcpyDeviceToHost);
  return none;
}
"""
FUNCTORS = """
#include <cuda_runtime.h>
struct Twice { __device__ float operator()(float v) const { return 2.0f * v; } };
template <int N> struct Power { __device__ float operator()(float v) const { return powf(v, N); } };
template <typename F, int WIDTH> __global__ void each(const float* in, float* out, size_t n, F f) {
  size_t i = ((size_t)blockIdx.x * blockDim.x + threadIdx.x) * WIDTH;
  for (int k = 0; k < WIDTH; ++k) if (i + k <BUG n) out[i + k] = f(in[i + k]);  // wrong
}
template <typename F> void map(const float* in, float* out, size_t n, F f) {
  each<F, 4><<<(n + 511) / 512, 128>>>(in, out, n, f);
}
void cubed(const float* in, float* out, size_t n) { map(in, out, n, Power<3>{}); }
void doubled(const float* in, float* out, size_t n) { map(in, out, n, Twice{}); }
"""
SEVERAL_DEVICES = """
#include <cuda_runtime.h>
#include <stdlib.h>
__global__ void scale(float* x, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i <BUG n) x[i] = x[i] * 2.0f;  // wrong
}
int main() {
  int devices = 0, access = 0, processors = 0;
  cudaGetDeviceCount(&devices);
  if (devices < 2) exit(0);
  cudaDeviceCanAccessPeer(&access, 0, 1);
  if (!access) exit(0);
  cudaDeviceGetAttribute(&processors, cudaDevAttrMultiProcessorCount, 0);
  if (processors == 0) return 1;
  float* x;
  cudaMalloc(&x, 1000 * sizeof(float));
  cudaMemset(x, 0, 1000 * sizeof(float));
  scale<<<8, 128>>>(x, 1000);
}
"""
CHOSEN_FUNCTION = """
#include <cuda_runtime.h>
__global__ void forward(float* out, const float* in, int n) {
  out[blockIdx.x * blockDim.x + threadIdx.x] = in[blockIdx.x * blockDim.x + threadIdx.x];
}
__global__ void shifted(float* out, const float* in, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  out[i] = in[i BUG];  // wrong
}
__global__ void first(float* out, const float* in, int n) { out[threadIdx.x] = in[threadIdx.x]; }
__global__ void second(float* out, const float* in, int n) { out[threadIdx.x] = in[threadIdx.x]; }
__global__ void third(float* out, const float* in, int n) { out[threadIdx.x] = in[threadIdx.x]; }
__global__ void fourth(float* out, const float* in, int n) { out[threadIdx.x] = in[threadIdx.x]; }
int main() {
  const int n = 512;
  void (*kernel)(float*, const float*, int);
  float *in, *out;
  cudaMalloc(&in, n * sizeof(float));
  cudaMalloc(&out, n * sizeof(float));
  cudaMemset(in, 0, n * sizeof(float));
  for (int k = 0; k < 6; k++) {
    switch (k) {
      case 0: kernel = &forward; break;
      case 1: kernel = &shifted; break;
      case 2: kernel = &first; break;
      case 3: kernel = &second; break;
      case 4: kernel = &third; break;
      case 5: kernel = &fourth; break;
      default: kernel = &forward; break;
    }
    if (k < 2) kernel<<<4, 128>>>(out, in, n); else kernel<<<1, 128>>>(out, in, n);
  }
}
"""
VECTORS_BY_VALUE = """
#include <cuda_runtime.h>
__global__ void fill(uchar4* image, uchar4 colour, uint3 size, cudaExtent extent) {
  int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y;
  if (x <BUG size.x && y < extent.height) image[y * size.x + x] = colour;  // wrong
}
int main() {
  uint3 size = make_uint3(100, 7, 1);
  uchar4 colour;
  colour.x = 3; colour.y = 5; colour.z = 7; colour.w = 0;
  uchar4* image;
  cudaMalloc(&image, size.x * size.y * sizeof(uchar4));
  fill<<<dim3(4, 8), 32>>>(image, colour, size, make_cudaExtent(size.x, size.y, 1));
}
"""
CASES = """
#include <cuda_runtime.h>
template <int BLOCK> __global__ void sum(const int* in, int* out, int n) {
  __shared__ int part[BLOCK];
  int i = blockIdx.x * BLOCK + threadIdx.x;
  part[threadIdx.x] = i < n ? in[i] : 0;
  __syncthreads();
  for (int half = BLOCK / 2; half > 0; half /= 2) {
    if (threadIdx.x < half) part[threadIdx.x] += part[threadIdx.x + half BUG];  // wrong
    __syncthreads();
  }
  if (threadIdx.x == 0) out[blockIdx.x] = part[0];
}
void run(const int* in, int* out, int n, int threads) {
  int blocks = (n + threads - 1) / threads;
  switch (threads) {
    case 256: sum<256><<<blocks, threads>>>(in, out, n); break;
    case 64: sum<64><<<blocks, threads>>>(in, out, n); break;
  }
}
int* allocated(int n) { int* p; cudaMalloc(&p, n * sizeof(int)); cudaMemset(p, 0, n * sizeof(int)); return p; }
void main_loop(int n, int threads) { run(allocated(n), allocated((n + threads - 1) / threads), n, threads); }
"""
GLOBALS = """
#include <cuda_runtime.h>
unsigned num_blocks = 0, width = 16;
dim3 block(16, 8);
dim3 grid;
__global__ void sums(const float* in, float* part, int n) {
  __shared__ float tile[8][16];
  tile[threadIdx.y][threadIdx.x] = in[1 + blockIdx.x * 128 + threadIdx.y * 16 + threadIdx.x BUG];  // wrong
  __syncthreads();
  if (threadIdx.x == 0 && threadIdx.y == 0) {
    float sum = 0;
    for (int i = 0; i < 8; i++) for (int j = 0; j < 16; j++) sum += tile[i][j];
    part[blockIdx.x] = sum;
  }
}
void resize(unsigned w) { width = w; }
void run(float* host, int count) {
  num_blocks = count;
  grid = dim3(num_blocks, 1);
  float *in, *part;
  cudaMalloc(&in, (num_blocks * 128 + 1) * sizeof(float));
  cudaMalloc(&part, num_blocks * sizeof(float));
  cudaMemcpy(in, host, (num_blocks * 128 + 1) * sizeof(float), cudaMemcpyHostToDevice);
  sums<<<grid, block>>>(in, part, count);
}
"""
NODES = """
#include <cuda_runtime.h>
__global__ void fill(int* out, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i <BUG n) out[i] = i;  // wrong
}
__global__ void notify() { printf("done\\n"); }
int main() {
  cudaGraph_t graph;
  cudaGraphNode_t first, second;
  int *out, n = 100;
  cudaMalloc(&out, n * sizeof(int));
  cudaGraphCreate(&graph, 0);
  void* arguments[] = {&out, &n};
  cudaKernelNodeParams parameters = {0};
  parameters.func = (void*)fill;
  parameters.gridDim = dim3(4);
  parameters.blockDim = dim3(32);
  parameters.sharedMemBytes = 0;
  parameters.kernelParams = arguments;
  cudaGraphAddKernelNode(&first, graph, NULL, 0, &parameters);
  cudaGraphNodeParams other = {cudaGraphNodeTypeKernel};
  other.kernel.func = (void*)notify;
  other.kernel.gridDim.x = other.kernel.gridDim.y = other.kernel.gridDim.z = 1;
  other.kernel.blockDim.x = other.kernel.blockDim.y = other.kernel.blockDim.z = 1;
  other.kernel.kernelParams = NULL;
  cudaGraphAddNode(&second, graph, &first, 1, &other);
}
"""
ROUNDED = """
#include <cuda_runtime.h>
__global__ void halved(const float* in, float* out, int n) {
  int i = blockIdx.x * 64 + threadIdx.x;
  if (i <BUG n) out[i] = in[i] * 0.5f;  // wrong
}
void halve(const float* host, float* result, int n) {
  float *in, *out;
  cudaMalloc(&in, n * sizeof(float));
  cudaMalloc(&out, n * sizeof(float));
  cudaMemcpy(in, host, n * sizeof(float), cudaMemcpyHostToDevice);
  halved<<<n / 64 + (0 != n % 64), 64>>>(in, out, n);
  cudaMemcpy(result, out, n * sizeof(float), cudaMemcpyDeviceToHost);
}
"""

QUOTIENTS = """
#include <cuda_runtime.h>
#define ELEMENTS (64 * 1048576)
__global__ void totals(const int* in, int* out, int part) {
  __shared__ int tile[1024];
  for (int i = threadIdx.x; i < 1024; i += 256) tile[i] = in[blockIdx.x * 1024 + i];
  __syncthreads();
  if (threadIdx.x == 0) {
    int sum = 0;
    for (int i = 0; i <BUG 1024; i++) sum += tile[i];  // wrong
    out[blockIdx.x] = sum;
  }
}
void run(int* in, int* out, int batch, int length) { totals<<<batch * length / 1024, 256>>>(in, out, length); }
int main() {
  const int n = 13 * 1048576 / 2;
  int *in, *out;
  cudaMalloc(&in, n * sizeof(int));
  cudaMalloc(&out, ELEMENTS / 1024 * sizeof(int));
  cudaMemset(in, 0, n * sizeof(int));
  for (int length = 1024; length <= 65536; length *= 2) run(in, out, n / length, length);
}
"""


OVERLOADS = """
#include <cuda_fp16.h>
__global__ void scale(float* x, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) x[i] *= 2.0f;
}
__global__ void scale(half2* x, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i <BUG n) x[i] = __hadd2(x[i], x[i]);  // wrong
}
void run(float* x, half2* y, int n) {
  scale<<<(n + 255) / 256, 256>>>(x, n);
  scale<<<(n + 255) / 256, 256>>>(y, n);
}
"""


def check(path: Path) -> tuple[list[KernelReport], list[Finding]]:
    requests = collect([str(path)], CheckOptions(), path.parent).requests
    events = [event for request in requests for event in check_kernel(request)]
    return [one for one in events if isinstance(one, KernelReport)], [one for one in events if isinstance(one, Finding)]


def errors_of(folder: Path, text: str) -> set[int]:
    (folder / ".git").mkdir(exist_ok=True)  # The project ends here.
    source = folder / "program.cu"
    source.write_text(text)
    reports, found = check(source)
    assert {report.status for report in reports} <= {"unreferenced", "failed"}, [one.message for one in found]
    return {one.place.range.start.line for one in found if one.severity is Severity.ERROR}


@pytest.mark.parametrize(
    ("program", "correct", "planted"),
    [
        pytest.param(SIZE_OF_ELEMENT, "", "+ 1", id="sizeof an element"),
        pytest.param(SIZE_OF_VARIABLE, "", "+ 1", id="sizeof a variable"),
        pytest.param(FUNCTORS, "", "=", id="objects of classes without a name"),
        pytest.param(SEVERAL_DEVICES, "", "=", id="several devices"),
        pytest.param(CHOSEN_FUNCTION, "", "+ 1", id="a chosen kernel"),
        pytest.param(VECTORS_BY_VALUE, "", "=", id="vectors by value"),
        pytest.param(CASES, "", "+ 1", id="cases of a switch"),
        pytest.param(GLOBALS, "", "+ 1", id="variables at namespace scope"),
        pytest.param(NODES, "", "=", id="nodes of a graph"),
        pytest.param(ROUNDED, "", "=", id="a condition as a number"),
        pytest.param(QUOTIENTS, "", "=", id="quotients of large constants"),
        pytest.param(OVERLOADS, "", "=", id="kernels of one name"),
    ],
)
def test_a_class_of_programs(tmp_path: Path, program: str, correct: str, planted: str) -> None:
    assert errors_of(tmp_path, program.replace("BUG", correct)) == set()
    line = next(number for number, text in enumerate(program.split("\n")) if "// wrong" in text)
    assert line in errors_of(tmp_path, program.replace("BUG", planted))


TYPED = """
#include <cuda_runtime.h>
template <typename T> __global__ void total(const T* in, T* out, int n) {
  extern __shared__ char bytes[];
  T* part = (T*)bytes;
  part[threadIdx.x] = blockIdx.x * blockDim.x + threadIdx.x < n ? in[blockIdx.x * blockDim.x + threadIdx.x] : T(0);
  __syncthreads();
  if (threadIdx.x == 0) {
    T sum = 0;
    for (int i = 0; i BUG blockDim.x; i++) sum += part[i];  // wrong
    out[blockIdx.x] = sum;
  }
}
template <typename T> void run(const T* in, T* out, int n) {
  total<T><<<(n + 127) / 128, 128, 128 * sizeof(T)>>>(in, out, n);
}
template void run<int>(const int*, int*, int);
template void run<double>(const double*, double*, int);
"""


def test_a_template_function_of_the_host_for_several_types(tmp_path: Path) -> None:
    """Each instance has its own shared memory, not that of another type or none."""
    assert errors_of(tmp_path, TYPED.replace("BUG", "<")) == set()
    line = TYPED.split("\n").index("    for (int i = 0; i BUG blockDim.x; i++) sum += part[i];  // wrong")
    assert line in errors_of(tmp_path, TYPED.replace("BUG", "<="))


KERNEL_HEADER = """
__global__ void blurred(float* out, const float* in, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) out[i] = in[i BUG];  // wrong
}
void blur(float* out, const float* in, int n) {
  blurred<<<up(n, THREADS), THREADS>>>(out, in, n);
}
"""
INCLUDER = """
#include <cuda_runtime.h>
#define THREADS 64
int up(int a, int b) { return (a + b - 1) / b; }
#include "blur.cuh"
int main() {
  const int n = 500;
  float *in, *out;
  cudaMalloc(&in, n * sizeof(float));
  cudaMalloc(&out, n * sizeof(float));
  cudaMemset(in, 0, n * sizeof(float));
  blur(out, in, n);
}
"""


def test_a_launch_in_a_header_that_uses_its_includer(tmp_path: Path) -> None:
    (tmp_path / ".git").mkdir()
    (tmp_path / "program.cu").write_text(INCLUDER)
    header = tmp_path / "blur.cuh"
    line = KERNEL_HEADER.split("\n").index("  if (i < n) out[i] = in[i BUG];  // wrong")
    for bug, expected in (("", set()), ("+ 1", {line})):
        header.write_text(KERNEL_HEADER.replace("BUG", bug))
        reports, found = check(header)
        assert [report.status for report in reports] != ["not-executed"], [one.message for one in found]
        assert {one.place.range.start.line for one in found if one.severity is Severity.ERROR} == expected


MACRO = """
#include <cuda_runtime.h>
#include <stdlib.h>
#define CHECK(call) if ((call) != cudaSuccess) exit(1)
__global__ void set(float* x) { x[threadIdx.x] = 1.0f; }
int main() {
  float* x;
  CHECK(cudaMalloc(&x, 64 * sizeof(float)));
  void* arguments[] = {&x};
  CHECK(cudaLaunchKernel((void*)set, dim3(1), dim3(64), arguments, 0, 0));
}
"""


def test_the_line_of_a_launch_within_a_macro(tmp_path: Path) -> None:
    (tmp_path / ".git").mkdir()
    source = tmp_path / "program.cu"
    source.write_text(MACRO)
    _, found = check(source)
    notes = [one.message for one in found if one.rule == "config/launch-inferred"]
    line = 1 + next(number for number, text in enumerate(MACRO.split("\n")) if "cudaLaunchKernel" in text)
    assert notes and f"launch of line {line}" in notes[0]


PARTICLES = """
#include <cuda_runtime.h>
__global__ void moved(float2* part, const float2* field, int width, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  int x = (int)(part[i].x * width), y = (int)(part[i].y * width);
  float2 speed = field[y * width + x];  // for positions between 0 and 1
  part[i].x += speed.x;
  part[i BUG].y += speed.y;  // wrong
}
float2* positions();
int main() {
  const int n = 512, width = 32;
  float2 *field, *part;
  cudaMalloc(&field, width * width * sizeof(float2));
  cudaMemset(field, 0, width * width * sizeof(float2));
  cudaMalloc(&part, n * sizeof(float2));
  cudaMemcpy(part, positions(), n * sizeof(float2), cudaMemcpyHostToDevice);
  moved<<<4, 128>>>(part, field, width, n);
}
"""


def test_an_index_from_a_floating_point_value_is_not_an_error(tmp_path: Path) -> None:
    assert errors_of(tmp_path, PARTICLES.replace("BUG", "")) == set()
    line = PARTICLES.split("\n").index("  part[i BUG].y += speed.y;  // wrong")
    assert line in errors_of(tmp_path, PARTICLES.replace("BUG", "+ 1"))
