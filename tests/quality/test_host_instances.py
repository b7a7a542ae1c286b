"""Instances and arguments that macros, class templates and switches decide: mistakes are found, nothing without them."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.host_programs import bug_line, findings_of

from gpuemu_lsp.engine.check.pipeline import check_kernel
from gpuemu_lsp.engine.findings import Finding, Severity
from gpuemu_lsp.engine.jobs.requests.targets import collect
from gpuemu_lsp.engine.subjects.request import CheckOptions

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


UNSTATED_RANK = """
#include <torch/extension.h>
__global__ void scale_rows(const float* x, const float* w, float* y, int rows, int cols) {
  for (int c = threadIdx.x; c < cols; c += blockDim.x)
    y[blockIdx.x * cols + c] = x[blockIdx.x * cols + c] * w[INDEX];  // bug
}
torch::Tensor scale(torch::Tensor x, torch::Tensor w) {
  TORCH_CHECK(x.dim() == 2 && w.size(0) == x.size(1));
  auto y = torch::empty_like(x);
  scale_rows<<<x.size(0), 64>>>(
      x.data_ptr<float>(), w.data_ptr<float>(), y.data_ptr<float>(), x.size(0), x.size(1));
  return y;
}
"""


@pytest.mark.parametrize(("index", "found"), [("c * rows", True), ("c", False), ("c * 3 + 2", False)])
def test_an_access_that_no_shape_explains_is_an_information(tmp_path: Path, index: str, found: bool) -> None:
    """A tensor of which one size is checked may have further dimensions."""
    path = tmp_path / "scale.cu"
    path.write_text(UNSTATED_RANK.lstrip().replace("INDEX", index))
    (request,) = collect([str(path)], CheckOptions(cases=6, store_root=None), tmp_path).requests
    events = [event for event in check_kernel(request) if isinstance(event, Finding) and event.rule.startswith("mem")]
    assert [event.severity for event in events[:1]] == ([Severity.INFORMATION] if found else []), events
    assert {event.place.range.start.line for event in events} <= {bug_line(UNSTATED_RANK)}


LENGTH_OF_THE_PROGRAM = """
#include <torch/extension.h>
__global__ void finish(float* partial, float* total, int chunks, volatile int* skip) {
  if (*skip) return;
  float value = threadIdx.x < 320 ? partial[threadIdx.x] : 0.f;
  for (int offset = 16; offset > 0; offset >>= 1) value += __shfl_down_sync(0xffffffffu, value, offset);
  if (threadIdx.x == 0) *total = value + chunks;
}
at::Tensor norm(std::vector<at::Tensor> listed, at::Tensor flag) {
  auto partial = at::zeros({320}, listed[0].options());
  auto total = at::empty({1}, listed[0].options());
  finish<<<listed.size(), 512>>>(
      partial.data_ptr<float>(), total.data_ptr<float>(), listed.size(), flag.data_ptr<int>());
  return total;
}
"""


def test_a_length_of_the_program_counts_before_an_inferred_one(tmp_path: Path) -> None:
    """With a flag that is set, a launch shows nothing of the lengths that the program has."""
    assert findings_of(tmp_path, LENGTH_OF_THE_PROGRAM, cases=6) == []


HALF_OF_PYTORCH = """
#define __CUDA_NO_HALF_CONVERSIONS__
#include <ATen/ATen.h>
#include <ATen/AccumulateType.h>
#define DISPATCH(TYPE, ...) \\
  switch (TYPE) { \\
    case at::ScalarType::Float: { using scalar_t = float; __VA_ARGS__; break; } \\
    case at::ScalarType::Half: { using scalar_t = at::Half; __VA_ARGS__; break; } \\
  }
template <typename scalar_t>
__global__ void double_up(const scalar_t* x, scalar_t* y, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  ACC sum = (ACC)x[i < n ? i : 0];
  if (GUARD) y[i] = sum * 2.0;  // bug
}
at::Tensor run(at::Tensor x) {
  auto y = at::empty_like(x);
  int n = x.numel();
  DISPATCH(x.scalar_type(),
    double_up<scalar_t><<<(n + 127) / 128, 128>>>(x.data_ptr<scalar_t>(), y.data_ptr<scalar_t>(), n))
  return y;
}
"""


@pytest.mark.parametrize("accumulator", ["double", "at::acc_type<scalar_t, true>"])
def test_half_of_pytorch_is_not_that_of_cuda(tmp_path: Path, accumulator: str) -> None:
    """A double converts to PyTorch's type, not to `__half`; without PyTorch's names its header is not included."""
    text = HALF_OF_PYTORCH.replace("ACC", accumulator)
    found = findings_of(tmp_path, text.replace("GUARD", "i <= n"), cases=8)
    assert {one.place.range.start.line for one in found if one.severity is Severity.ERROR} == {bug_line(text)}, found
    assert findings_of(tmp_path, text.replace("GUARD", "i < n"), cases=8) == []
