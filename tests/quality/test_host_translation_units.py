"""Programs of several files: sizes are in one, the launch in another, the kernel in a header."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from gpuemu_lsp.engine.check.pipeline import check_kernel
from gpuemu_lsp.engine.findings import Finding, Severity
from gpuemu_lsp.engine.jobs.requests.targets import collect
from gpuemu_lsp.engine.subjects.request import CheckOptions

Files = Mapping[str, str]

TILES: Files = {
    "src/kernels/multiply.cuh": """#pragma once
template <const int TILE>
__global__ void multiply(int m, int n, int k, const float* a, const float* b, float* c) {
  __shared__ float left[TILE * TILE], right[TILE * TILE];
  int row = blockIdx.x * TILE + threadIdx.x / TILE, column = blockIdx.y * TILE + threadIdx.x % TILE;
  int i = threadIdx.x / TILE, j = threadIdx.x % TILE;
  float sum = 0;
  for (int t = 0; t < k; t += TILE) {
    left[i * TILE + j] = a[row * k + t + j];
    right[i * TILE + j] = b[(t + i) * n + column];
    __syncthreads();
    for (int l = 0; l < TILE; ++l) sum += left[i * TILE + l] * right[l * TILE + j];  // bug
    __syncthreads();
  }
  c[row * n + column] = sum;
}
""",
    "src/runner.cuh": """#pragma once
void run(int which, int m, int n, int k, float* a, float* b, float* c);
void check(cudaError_t error, const char* file, int line);
""",
    "src/runner.cu": """#include "runner.cuh"
#include "kernels/multiply.cuh"
#include <cstdio>
#define CEIL_DIV(M, N) (((M) + (N) - 1) / (N))
void check(cudaError_t error, const char* file, int line) {
  if (error != cudaSuccess) { printf("%s:%d", file, line); exit(1); }
}
static void multiply_tiles(int m, int n, int k, float* a, float* b, float* c) {
  dim3 grid(CEIL_DIV(m, 16), CEIL_DIV(n, 16)), block(16 * 16);
  multiply<16><<<grid, block>>>(m, n, k, a, b, c);
}
void run(int which, int m, int n, int k, float* a, float* b, float* c) {
  switch (which) {
    case 0: multiply_tiles(m, n, k, a, b, c); break;
    default: throw 1;
  }
}
""",
    "main.cu": """#include "src/runner.cuh"
#include <cstdlib>
#include <vector>
#define check(error) (check(error, __FILE__, __LINE__))
int main(int argc, char** argv) {
  if (argc != 2) exit(1);
  int which = std::stoi(argv[1]);
  std::vector<int> sizes = {128, 512, 1024, 2048};
  long m, n, k, most = sizes[sizes.size() - 1];
  float *a = nullptr, *b = nullptr, *c = nullptr, *host = (float*)malloc(sizeof(float) * most * most);
  for (long i = 0; i < most * most; ++i) host[i] = i % 7;
  check(cudaMalloc((void**)&a, sizeof(float) * most * most));
  check(cudaMalloc((void**)&b, sizeof(float) * most * most));
  check(cudaMalloc((void**)&c, sizeof(float) * most * most));
  check(cudaMemcpy(a, host, sizeof(float) * most * most, cudaMemcpyHostToDevice));
  check(cudaMemcpy(b, host, sizeof(float) * most * most, cudaMemcpyHostToDevice));
  for (int size : sizes) {
    m = n = k = size;
    run(which, m, n, k, a, b, c);
    check(cudaDeviceSynchronize());
  }
}
""",
}
LIBRARY: Files = {
    "lib/smooth.h": """#pragma once
struct Grid { int width, height; float* cells; };
extern const int kBorder;
class Smoother {
 public:
  explicit Smoother(int rounds) : rounds_(rounds) {}
  void run(Grid& from, Grid& to);
 private:
  int rounds_;
};
""",
    "lib/smooth.cu": """#include "smooth.h"
__global__ void smooth(const float* from, float* to, int width, int height, int border) {
  int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y;
  if (x >= border && x < width - border)
    to[y * width + x] = (from[y * width + x - border] + from[y * width + x + border]) / 2;  // bug
}
void Smoother::run(Grid& from, Grid& to) {
  dim3 blocks((from.width + 63) / 64, from.height);
  for (int i = 0; i < rounds_; i++) smooth<<<blocks, 64>>>(from.cells, to.cells, from.width, from.height, kBorder);
}
""",
    "lib/border.cpp": "extern const int kBorder = 2;\n",
    "tests/test_smooth.cpp": """#include "../lib/smooth.h"
#include <cuda_runtime.h>
extern const int kBorder = 2;
static Grid make(int width, int height) {
  Grid grid = {width, height, nullptr};
  cudaMalloc(&grid.cells, sizeof(float) * width * height);
  cudaMemset(grid.cells, 0, sizeof(float) * width * height);
  return grid;
}
int main() {
  Grid from = make(200, 3), to = make(200, 3);
  Smoother smoother(3);
  smoother.run(from, to);
  return cudaDeviceSynchronize();
}
""",
}
OTHER_KERNEL: Files = {
    "fill.h": "#pragma once\nvoid fill(float* x, int n);\n",
    "fill.cu": """#include "fill.h"
__global__ void set(float* x, int n) {
  int i = blockIdx.x * 128 + threadIdx.x;
  if (i < n) x[i] = 1;  // bug
}
void fill(float* x, int n) { set<<<(n + 127) / 128, 128>>>(x, n); }
""",
    "other.cu": """#include "fill.h"
__global__ void set(float* x, int n) { x[threadIdx.x + n] = 0; }
int main() {
  float* x;
  cudaMalloc(&x, 300 * sizeof(float));
  set<<<1, 100>>>(x, 200);
  fill(x, 300);
}
""",
}
SMALL_BRANCH: Files = {
    "reverse.cuh": """#pragma once
template <int TILE>
__global__ void reverse(const float* x, float* y, int n) {
  __shared__ float tile[TILE];
  int base = blockIdx.x * TILE;
  for (int i = threadIdx.x; i < blockDim.x; i += blockDim.x) tile[i] = x[base + i];
  __syncthreads();
  for (int i = threadIdx.x; i < TILE; i += blockDim.x) y[base + i] = tile[TILE - 1 - i];
}
""",
    "runner.h": "void run(float* x, float* y, int rows, int n);\n",
    "runner.cu": """#include "reverse.cuh"
#include "runner.h"
void run(float* x, float* y, int rows, int n) {
  if (rows >= 128 and n >= 128) {
    reverse<128><<<rows * n / 128, 128>>>(x, y, n);
  } else {
    reverse<64><<<rows * n / 64, 32>>>(x, y, n);  // wrong, and never reached
  }
}
""",
    "main.cu": """#include "runner.h"
#include <vector>
int main() {
  std::vector<int> sizes = {128, 256, 512, 1024};
  float *x, *y;
  cudaMalloc(&x, 1024 * 1024 * sizeof(float));
  cudaMalloc(&y, 1024 * 1024 * sizeof(float));
  cudaMemset(x, 0, 1024 * 1024 * sizeof(float));
  for (int size : sizes) run(x, y, size, size);
}
""",
}
PROGRAMS = [
    (TILES, "src/kernels/multiply.cuh", ("    __syncthreads();\n    for", "    for"), "memory/shared-race"),
    (TILES, "src/kernels/multiply.cuh", ("left[TILE * TILE], right", "left[TILE * 12], right"), "memory/out-of-bounds"),
    (TILES, "src/kernels/multiply.cuh", ("right[l * TILE + j]", "b[(row + l) * n * k + j]"), "memory/out-of-bounds"),
    (LIBRARY, "lib/smooth.cu", ("x < width - border", "x < width"), "memory/out-of-bounds"),
    (OTHER_KERNEL, "fill.cu", ("i < n", "i <= n"), "memory/out-of-bounds"),
]
IDS = ["barrier", "shared array", "index", "member function", "kernel of the same name"]


def findings(folder: Path, files: Files, checked: str) -> list[Finding]:
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    requests = collect([str(folder / checked)], CheckOptions(cases=8, store_root=None), folder).requests
    assert requests
    return [event for request in requests for event in check_kernel(request) if isinstance(event, Finding)]


@pytest.mark.parametrize(("files", "checked", "change", "rule"), PROGRAMS, ids=IDS)
def test_a_mistake_is_found_although_the_sizes_are_in_another_file(
    tmp_path: Path, files: Files, checked: str, change: tuple[str, str], rule: str
) -> None:
    text = files[checked]
    assert text.count(change[0]) == 1
    changed = text.replace(*change)
    line = next(number for number, one in enumerate(changed.split("\n")) if one.endswith("// bug"))
    if change[0].startswith("left"):
        line -= 3
    found = findings(tmp_path, {**files, checked: changed}, checked)
    assert (rule, line) in [
        (one.rule, one.place.range.start.line) for one in found if one.severity is Severity.ERROR
    ], found


@pytest.mark.parametrize(
    ("files", "checked"), [(TILES, PROGRAMS[0][1]), (LIBRARY, "lib/smooth.cu"), (OTHER_KERNEL, "fill.cu")]
)
def test_the_correct_programs_have_no_findings(tmp_path: Path, files: Files, checked: str) -> None:
    found = findings(tmp_path, files, checked)
    assert [one for one in found if one.severity in (Severity.ERROR, Severity.WARNING)] == []
    (hint,) = [one for one in found if one.rule == "config/launch-inferred"]
    assert "as the program launches it" in hint.message and "not known" not in hint.message


def test_a_branch_that_no_size_of_the_program_takes_has_no_errors(tmp_path: Path) -> None:
    found = findings(tmp_path, SMALL_BRANCH, "reverse.cuh")
    assert [one for one in found if one.severity in (Severity.ERROR, Severity.WARNING)] == []
    reached = {**SMALL_BRANCH, "main.cu": SMALL_BRANCH["main.cu"].replace("{128, 256", "{64, 256")}
    assert "memory/uninitialized-read" in [
        one.rule for one in findings(tmp_path / "reached", reached, "reverse.cuh") if one.severity is Severity.ERROR
    ]
