"""Sizes that stand for large constants of a program: nothing is claimed that the program itself cannot cause."""

from __future__ import annotations

from pathlib import Path

import pytest

from gpuemu_lsp.engine.check.model import KernelReport
from gpuemu_lsp.engine.check.pipeline import check_kernel
from gpuemu_lsp.engine.findings import Finding, Severity
from gpuemu_lsp.engine.jobs.requests.targets import collect
from gpuemu_lsp.engine.subjects.request import CheckOptions

TILES = """
// Each block computes 128 x 128 elements, eight by eight in a thread; every size is a multiple of 128.
__global__ void product(float* out, const float* left, const float* right, int inner, int columns) {
  left += 128 * blockIdx.x * inner;
  right += 128 * blockIdx.y * inner;
  out += 128 * blockIdx.x * columns + 128 * blockIdx.y;
  for (int i = 0; i < 8; ++i)
    for (int j = 0; j < 8; ++j) {
      float sum = 0;
      for (int k = 0; k < inner; ++k)
        sum += left[(8 * threadIdx.x + i) * inner + k] * right[(8 * threadIdx.y + j) * inner + k];
      out[(8 * threadIdx.x + i) * columns + 8 * threadIdx.y + j] = sum;
    }
}
int ceil_div(int a, int b) { return (a + b - 1) / b; }
void multiply(float* out, const float* left, const float* right, int rows, int inner, int columns, int side) {
  dim3 grid(ceil_div(rows, 8 * side), ceil_div(columns, 8 * side)), block(side, side);
  product<<<grid, block>>>(out, left, right, inner, columns);
}
int main() {
  int rows = 4096, inner = 1536, columns = 1536 * 2;
  float *out, *left, *right;
  cudaMalloc(&out, rows * columns * sizeof(float));
  cudaMalloc(&left, rows * inner * sizeof(float));
  cudaMalloc(&right, inner * columns * sizeof(float));
  cudaMemset(left, 0, rows * inner * sizeof(float));
  cudaMemset(right, 0, inner * columns * sizeof(float));
  multiply(out, left, right, rows, inner, columns, 16);
  cudaDeviceSynchronize();
}
"""
HEADS = """
__global__ void scale(float* x, int width, int heads) {
  int row = blockIdx.x, head = blockIdx.y, size = width / heads;
  __shared__ float part[12];
  if (threadIdx.x == 0) part[head] = 1.0f / size;
  __syncthreads();
  for (int i = threadIdx.x; i < size; i += blockDim.x) x[row * width + head * size + i] *= part[head];
  if (threadIdx.x == 0 && size * heads != width) x[-1] = 0;
}
int main() {
  const int rows = 2048, width = 1536, heads = 12;
  float* x;
  cudaMalloc(&x, rows * width * sizeof(float));
  cudaMemset(x, 0, rows * width * sizeof(float));
  scale<<<dim3(rows, heads), 64>>>(x, width, heads);
  cudaDeviceSynchronize();
}
"""
# Channels and block have no small common multiple: a size of whole blocks is not one of whole heads.
GATHERED_HEADS = """
__global__ void gather(const float* x, float* out, int batch, int time, int heads, int size) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < batch * heads * time * size) {
    int b = i / (heads * time * size), rest = i % (heads * time * size);
    int head = rest / (time * size), t = rest / size % time, k = rest % size;
    out[((b * time + t) * heads + head) * size + k] = x[i];
  }
}
int ceil_div(int a, int b) { return (a + b - 1) / b; }
void gathered(float* out, const float* x, int batch, int time, int channels, int heads, int block) {
  int size = channels / heads;
  gather<<<ceil_div(batch * time * channels, block), block>>>(x, out, batch, time, heads, size);
}
int main() {
  int batch = 4, time = 1024, channels = 768, heads = 12;
  float *out, *x;
  cudaMalloc(&out, batch * time * channels * sizeof(float));
  cudaMalloc(&x, batch * time * channels * sizeof(float));
  cudaMemset(x, 0, batch * time * channels * sizeof(float));
  gathered(out, x, batch, time, channels, heads, 256);
  float* host = (float*)malloc(batch * time * channels * sizeof(float));
  cudaMemcpy(host, out, batch * time * channels * sizeof(float), cudaMemcpyDeviceToHost);
  for (int i = 0; i < batch * time * channels; ++i) if (host[i] != 0) return 1;
}
"""
DEMANDED = """
__global__ void partial(float* sums, const float* x, int n) {
  float sum = 0;
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) sum += x[i];
  for (int step = 16; step > 0; step >>= 1) sum += __shfl_down_sync(0xffffffffu, sum, step);
  if (threadIdx.x == 0) sums[blockIdx.x] = sum;
}
int main() {
  cudaDeviceProp device;
  cudaGetDeviceProperties(&device, 0);
  int n = 5000, blocks = device.multiProcessorCount * device.maxThreadsPerMultiProcessor / 32;
  float *sums, *x;
  cudaMalloc(&sums, 512 * sizeof(float));
  cudaMalloc(&x, n * sizeof(float));
  cudaMemset(x, 0, n * sizeof(float));
  assert(blocks <= 512);
  partial<<<blocks, 32>>>(sums, x, n);
  cudaDeviceSynchronize();
}
"""


def _errors(folder: Path, text: str) -> list[Finding]:
    source = folder / "program.cu"
    source.write_text(text)
    requests = collect([str(source)], CheckOptions(), folder).requests
    events = [event for request in requests for event in check_kernel(request)]
    assert [one.cases.run > 0 for one in events if isinstance(one, KernelReport)] == [True]
    return [one for one in events if isinstance(one, Finding) and one.severity is Severity.ERROR]


@pytest.mark.parametrize("text", [TILES, HEADS, GATHERED_HEADS, DEMANDED])
def test_a_correct_program_of_large_constants_has_no_error(tmp_path: Path, text: str) -> None:
    assert _errors(tmp_path, text) == []


@pytest.mark.parametrize(
    ("text", "right", "wrong"),
    [
        (TILES, "columns * sizeof(float));\n  cudaMalloc(&left", "columns * 2);\n  cudaMalloc(&left"),
        (HEADS, "part[12]", "part[11]"),
        (DEMANDED, "  assert(blocks <= 512);\n", ""),
    ],
)
def test_an_access_that_the_program_itself_makes_is_an_error(tmp_path: Path, text: str, right: str, wrong: str) -> None:
    assert right in text
    found = _errors(tmp_path, text.replace(right, wrong))
    assert "memory/out-of-bounds" in {one.rule for one in found}


CHOSEN_TOGETHER = """
__global__ void halves(float* x, int n) {
  __shared__ float part[64];
  part[threadIdx.x] = x[blockIdx.x * blockDim.x + threadIdx.x];
  __syncthreads();
  if (gridDim.x > 1) x[blockIdx.x * blockDim.x + threadIdx.x] = part[threadIdx.x ^ 32];
}
int main() {
  cudaDeviceProp device;
  int blocks, threads, n = atoi("100");
  if (n < 64) { blocks = 1; threads = 1; } else { blocks = 8; threads = 64; }
  float* x;
  cudaMalloc(&x, blocks * threads * sizeof(float));
  cudaMemset(x, 0, blocks * threads * sizeof(float));
  halves<<<blocks, threads>>>(x, n);
  cudaDeviceSynchronize();
}
"""
OCCUPANCY = """
__global__ void fill(float* x) { x[blockIdx.x * blockDim.x + threadIdx.x] = 1.0f; }
int main() {
  int blocks = 0, threads = 0;
  cudaOccupancyMaxPotentialBlockSize(&blocks, &threads, fill, 0, 0);
  float* x;
  cudaMalloc(&x, blocks * threads * sizeof(float));
  fill<<<blocks, threads>>>(x);
  cudaDeviceSynchronize();
}
"""
NARROW = """
__global__ void clear(char* x, char size) { x[blockIdx.x * blockDim.x + threadIdx.x] = size; }
int main() {
  const int width = 64, height = 64;
  char* x;
  cudaMalloc(&x, width * height);
  clear<<<width * height / 256, 256>>>(x, width * height);
  cudaDeviceSynchronize();
}
"""


GRAPH = """
__global__ void count(char* left) { if (threadIdx.x == 0) --*left; }
int main() {
  char* left;
  cudaStream_t stream;
  cudaGraph_t graph;
  cudaGraphExec_t made;
  cudaMalloc(&left, 1);
  cudaStreamCreate(&stream);
  cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal);
  count<<<1, 32, 0, stream>>>(left);
  cudaStreamEndCapture(stream, &graph);
  cudaGraphInstantiate(&made, graph, 0);
  cudaMemset(left, 10, 1);
  cudaGraphLaunch(made, stream);
}
"""


@pytest.mark.parametrize("text", [CHOSEN_TOGETHER, OCCUPANCY, NARROW, GRAPH])
def test_values_that_belong_together_have_no_error(tmp_path: Path, text: str) -> None:
    assert _errors(tmp_path, text) == []


def test_a_wrong_index_is_an_error_on_values_that_belong_together(tmp_path: Path) -> None:
    found = _errors(tmp_path, CHOSEN_TOGETHER.replace("threadIdx.x ^ 32", "threadIdx.x + 32"))
    assert "memory/out-of-bounds" in {one.rule for one in found}


GUARDED = """
__global__ void scale(float* x, int rows, int columns) {
  int n = rows * columns;
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) x[i] *= 2;
}
int main() {
  const int rows = 2048, columns = 1536;
  float* x;
  cudaMalloc(&x, rows * columns * sizeof(float));
  cudaMemset(x, 0, rows * columns * sizeof(float));
  scale<<<(rows * columns + 255) / 256, 256>>>(x, rows, columns);
  cudaDeviceSynchronize();
}
"""


def test_a_wrong_guard_is_found_where_the_program_s_own_sizes_fill_every_block(tmp_path: Path) -> None:
    assert _errors(tmp_path, GUARDED) == []
    found = _errors(tmp_path, GUARDED.replace("i < n", "i <= n"))
    assert "memory/out-of-bounds" in {one.rule for one in found}
