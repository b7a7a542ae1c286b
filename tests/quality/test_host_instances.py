"""Instances and arguments that macros, class templates and switches decide: mistakes are found, nothing without them."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.host_programs import bug_line, findings_of

from gpuemu_lsp.engine.findings import Severity

LAUNCHING_MACROS = """
#include <cuda_runtime.h>
#define ARGS in, out, n
template <int WIDTH, bool SCALED>
__global__ void scale(const float* in, float* out, int n) {
  int i = blockIdx.x * WIDTH + threadIdx.x;
  if (GUARD) out[i] = SCALED ? in[i] * 2 : in[i];  // bug
}
#define LAUNCH(WIDTH, SCALED) \\
  if (width == WIDTH && scaled == SCALED) { \\
    scale<WIDTH, SCALED><<<blocks, WIDTH, 0, stream>>>(ARGS); \\
  }
void run(const float* in, float* out, int n, int width, bool scaled, cudaStream_t stream) {
  dim3 blocks((n + width - 1) / width);
  LAUNCH(64, true)
  else LAUNCH(64, false)
  else LAUNCH(128, true)
}
#undef ARGS
#define ARGS out, count
__global__ void clear(float* out, int count) {
  if (threadIdx.x < count) out[threadIdx.x] = 0;
}
int main() {
  float *a, *b;
  cudaMalloc(&a, 1000 * sizeof(float));
  cudaMalloc(&b, 1000 * sizeof(float));
  cudaMemset(a, 0, 1000 * sizeof(float));
  run(a, b, 1000, 64, true, 0);
  run(a, b, 1000, 64, false, 0);
  run(a, b, 1000, 128, true, 0);
  float* out = b;
  int count = 100;
  clear<<<1, 128>>>(ARGS);
  cudaDeviceSynchronize();
}
"""
TRAITS = """
#include <cuda_runtime.h>
#define FLAG_SWITCH(CONDITION, NAME, ...) \\
  [&] { \\
    if (CONDITION) { constexpr bool NAME = true; return __VA_ARGS__(); } \\
    else { constexpr bool NAME = false; return __VA_ARGS__(); } \\
  }()
struct Sizes { using index_t = unsigned; int rows, columns; index_t stride; };
struct Params : public Sizes { float* __restrict__ x; float scale; };
template <int kThreads_, bool kPadded_, typename T>
struct Traits {
  using type = T;
  static constexpr int kThreads = kThreads_;
  static constexpr int kValues = sizeof(T) == 4 ? 4 : 8;
  static constexpr bool kPadded = kPadded_;
  static constexpr int kTile = kThreads * (kPadded ? kValues + 1 : kValues);
};
template <typename Traits>
__global__ __launch_bounds__(Traits::kThreads) void rescale(Params params) {
  __shared__ typename Traits::type tile[Traits::kTile];
  for (int c = threadIdx.x; c < params.columns; c += Traits::kThreads) {
    tile[threadIdx.x] = params.x[blockIdx.x * params.stride + c LATER];  // bug
    params.x[blockIdx.x * params.stride + c] = tile[threadIdx.x] * params.scale;
  }
}
template <int kThreads, typename T>
void launch(Params& params, cudaStream_t stream) {
  FLAG_SWITCH(params.columns % 4 == 0, kPadded, [&] {
    using Chosen = Traits<kThreads, kPadded, T>;
    auto kernel = &rescale<Chosen>;
    kernel<<<params.rows, Chosen::kThreads, 0, stream>>>(params);
  });
}
template <typename T>
void fill(Params& params) {
  if (params.rows > 1000) launch<256, T>(params, 0);
  else launch<128, T>(params, 0);
}
int main() {
  Params params;
  params.rows = 5;
  params.columns = 300;
  params.stride = 300;
  params.scale = 2;
  cudaMalloc(&params.x, 5 * 300 * sizeof(float));
  cudaMemset(params.x, 0, 5 * 300 * sizeof(float));
  fill<float>(params);
  return cudaDeviceSynchronize();
}
"""
PROGRAMS = [(LAUNCHING_MACROS, "GUARD", "i <= n", "i < n"), (TRAITS, " LATER", " + 300", "")]


@pytest.mark.parametrize(("text", "mark", "wrong", "right"), PROGRAMS, ids=["macros", "traits"])
def test_a_mistake_is_found_and_the_correct_program_is_clean(
    tmp_path: Path, text: str, mark: str, wrong: str, right: str
) -> None:
    found = findings_of(tmp_path, text.replace(mark, wrong), cases=8)
    lines = [one.place.range.start.line for one in found if one.severity is Severity.ERROR]
    assert bug_line(text) in lines, found
    assert findings_of(tmp_path, text.replace(mark, right), cases=8) == []
