"""Kernels of PyTorch extensions without gpuemu.toml: what every caller may pass, and only that, is an error."""

from __future__ import annotations

from pathlib import Path

import pytest

from gpuemu_lsp.engine.check.model import KernelReport
from gpuemu_lsp.engine.check.pipeline import check_kernel
from gpuemu_lsp.engine.findings import Finding, Severity
from gpuemu_lsp.engine.jobs.requests.targets import collect
from gpuemu_lsp.engine.subjects.request import CheckOptions

NORM = """
#include <torch/extension.h>
#include <cuda_fp16.h>
template <int THREADS>
__global__ void norm(const half2* x, const half2* weight, half2* y, int hidden2) {
  const half2* row = x + (size_t)blockIdx.x * hidden2;
  for (int i = threadIdx.x; i < hidden2; i += THREADS) y[(size_t)blockIdx.x * hidden2 + i] = __hmul2(row[i], weight[i]);
}
torch::Tensor normed(torch::Tensor x, torch::Tensor weight) {
  const int hidden = x.size(-1);
  TORCH_CHECK(hidden % 2 == 0 && weight.numel() == hidden);
  auto y = torch::empty_like(x);
  norm<128><<<x.numel() / hidden, 128>>>((half2*)x.data_ptr(), (half2*)weight.data_ptr(), (half2*)y.data_ptr(), hidden / 2);
  return y;
}
"""
SCAN = """
#include <torch/extension.h>
__global__ void scan(const float* in, float* out, int cols) {
  __shared__ float last;
  float carry = 0;
  for (int base = 0; base < cols; base += 64) {
    int c = base + threadIdx.x;
    float value = c < cols ? in[blockIdx.x * (size_t)cols + c] : 0;
    if (threadIdx.x == 63) last = value;
    __syncthreads();
    if (c < cols) out[blockIdx.x * (size_t)cols + c] = carry + value;
    carry += last;
    __syncthreads();
  }
}
torch::Tensor scanned(torch::Tensor x) {
  TORCH_CHECK(x.dim() == 2);
  auto y = torch::empty_like(x);
  scan<<<x.size(0), 64>>>(x.data_ptr<float>(), y.data_ptr<float>(), x.size(1));
  return y;
}
"""
SELECTED = """
#include <torch/extension.h>
template <int PER>
__global__ void scale(float* y, const float* x, int cols) {
  for (int i = 0; i < PER; ++i) {
    int c = i * 32 + threadIdx.x;
    if (c < cols) y[blockIdx.x * cols + c] = x[blockIdx.x * cols + c] * 2;
  }
}
using Kernel = void (*)(float*, const float*, int);
static const Kernel kernels[] = {scale<1>, scale<2>, scale<3>};
torch::Tensor scaled(torch::Tensor x) {
  TORCH_CHECK(x.dim() == 2);
  int rows = x.size(0), cols = x.size(1), per = (cols + 31) / 32;
  TORCH_CHECK(per >= 1 && per <= 3);
  auto y = torch::empty({rows, cols}, x.options());
  kernels[per - 1]<<<rows, 32>>>(y.data_ptr<float>(), x.data_ptr<float>(), cols);
  return y;
}
"""
GROUPS = """
#include <torch/extension.h>
__global__ void grouped(float* y, const float* x, const float* scale, const float* zero, int k) {
  int groups = k / 64;
  for (int i = threadIdx.x; i < k; i += blockDim.x) {
    size_t at = (size_t)blockIdx.x * groups + i / 64;
    y[(size_t)blockIdx.x * k + i] = x[(size_t)blockIdx.x * k + i] * scale[at] + zero[at];
  }
}
torch::Tensor dequantise(torch::Tensor x, torch::Tensor scale, torch::Tensor zero) {
  TORCH_CHECK(x.dim() == 3);
  int64_t n = x.size(0), k = x.size(1) * 8;
  TORCH_CHECK(x.size(2) == 8 && k % 64 == 0);
  TORCH_CHECK(scale.sizes() == at::IntArrayRef({n, k / 64}) && zero.sizes() == scale.sizes());
  auto y = torch::empty({n, k}, x.options());
  grouped<<<n, 128>>>(y.data_ptr<float>(), x.data_ptr<float>(), scale.data_ptr<float>(), zero.data_ptr<float>(), k);
  return y;
}
"""
SEGMENTS = """
#include <torch/extension.h>
template <typename T, typename I>
__global__ void sums(const T* src, const I* ptr, T* out, I segments, int dim) {
  I s = (blockIdx.x * (I)blockDim.x + threadIdx.x) / 32;
  if (s >= segments) return;
  for (int d = threadIdx.x % 32; d < dim; d += 32) out[s * dim + d] = ptr[s + 1] > ptr[s] ? src[d] : T(0);
}
torch::Tensor segment(torch::Tensor src, torch::Tensor ptr) {
  TORCH_CHECK(src.dim() == 2 && ptr.dim() == 1);
  auto segments = ptr.size(0) - 1;
  auto out = torch::empty({segments, src.size(1)}, src.options());
  AT_DISPATCH_FLOATING_TYPES(src.scalar_type(), "segment", [&] {
    AT_DISPATCH_INDEX_TYPES(ptr.scalar_type(), "index", [&] {
      sums<scalar_t, index_t><<<(segments * 32 + 255) / 256, 256>>>(src.data_ptr<scalar_t>(), ptr.data_ptr<index_t>(),
          out.data_ptr<scalar_t>(), segments, src.size(1));
    });
  });
  return out;
}
"""
LARGEST = """
#include <torch/extension.h>
__global__ void largest(const float* x, float* y, int cols, int k) {
  for (int j = threadIdx.x; j < k; j += blockDim.x) y[blockIdx.x * k + j] = x[(size_t)blockIdx.x * cols + j];
}
torch::Tensor top(torch::Tensor x, int64_t k) {
  TORCH_CHECK(x.dim() == 2 && k >= 1 && k <= 8 && k <= x.size(1));
  auto y = torch::empty({x.size(0), k}, x.options());
  largest<<<x.size(0), 32>>>(x.data_ptr<float>(), y.data_ptr<float>(), x.size(1), k);
  return y;
}
"""

LENGTHS = """
#include <torch/extension.h>
__global__ void share(float* out, const float* x, const int* lens, const int* table, int pages, int heads) {
  __shared__ float warps[4];
  int len = lens[blockIdx.x];
  float most = 0, sum = 0;
  for (int t = threadIdx.x; t < len; t += blockDim.x) most = fmaxf(most, x[table[blockIdx.x * pages + t] * heads]);
  for (int o = 16; o; o >>= 1) most = fmaxf(most, __shfl_xor_sync(~0u, most, o));
  if (threadIdx.x % 32 == 0) warps[threadIdx.x / 32] = most;
  __syncthreads();
  for (int w = 0; w < blockDim.x / 32; ++w) most = fmaxf(most, warps[w]);
  __syncthreads();
  for (int t = threadIdx.x; t < len; t += blockDim.x) sum += x[table[blockIdx.x * pages + t] * heads] - most;
  for (int o = 16; o; o >>= 1) sum += __shfl_xor_sync(~0u, sum, o);
  if (threadIdx.x % 32 == 0) warps[threadIdx.x / 32] = sum;
  __syncthreads();
  out[blockIdx.x] = most + warps[0] + warps[blockDim.x / 32 - 1];
}
void shares(torch::Tensor out, torch::Tensor x, torch::Tensor lens, torch::Tensor table) {
  TORCH_CHECK(out.dim() == 1 && x.dim() == 3 && lens.sizes() == out.sizes() && table.size(0) == out.size(0));
  share<<<out.size(0), 128>>>(out.data_ptr<float>(), x.data_ptr<float>(), lens.data_ptr<int>(), table.data_ptr<int>(),
                              table.size(1), x.size(1));
}
"""
CONVOLUTION = """
#include <torch/extension.h>
__global__ void convolved(const float* x, const float* w, const float* bias, float* y, int dim, int len) {
  __shared__ float s[131];
  const float* in = x + (size_t)blockIdx.y * len;
  int first = blockIdx.x * 128, t = first + threadIdx.x;
  s[threadIdx.x + 3] = t < len ? in[t] : 0.f;
  int before = first + (int)threadIdx.x - 3;
  if (threadIdx.x < 3) s[threadIdx.x] = before >= 0 ? in[before] : 0.f;
  __syncthreads();
  if (t >= len) return;
  float sum = bias ? bias[blockIdx.y % dim] : 0.f;
  for (int k = 0; k < 4; ++k) sum += w[blockIdx.y % dim * 4 + k] * s[threadIdx.x + k];
  y[(size_t)blockIdx.y * len + t] = sum;
}
torch::Tensor convolve(torch::Tensor x, torch::Tensor w, c10::optional<torch::Tensor> bias) {
  TORCH_CHECK(x.dim() == 3);
  int batch = x.size(0), dim = x.size(1), len = x.size(2);
  TORCH_CHECK(w.size(0) == dim && w.size(1) == 4);
  auto y = torch::empty_like(x);
  convolved<<<dim3((len + 127) / 128, batch * dim), 128>>>(
      x.data_ptr<float>(), w.data_ptr<float>(), bias.has_value() ? bias->data_ptr<float>() : nullptr,
      y.data_ptr<float>(), dim, len);
  return y;
}
"""
PACKED = """
#include <torch/extension.h>
__global__ void packed(const int8_t* a, const int8_t* b, int* c, int m, int n, int k) {
  int row = blockIdx.y, column = blockIdx.x * 64 + threadIdx.x, sum = 0;
  if (column >= n) return;
  for (int i = 0; i < k; i += 4)
    sum = __dp4a(*(const int*)(a + (size_t)row * k + i), *(const int*)(b + (size_t)column * k + i), sum);
  c[(size_t)row * n + column] = sum;
}
torch::Tensor product(torch::Tensor a, torch::Tensor b) {
  TORCH_CHECK(a.size(1) == b.size(1));
  int m = a.size(0), n = b.size(0), k = a.size(1);
  TORCH_CHECK(k % 4 == 0);
  auto c = torch::empty({m, n}, a.options().dtype(torch::kInt));
  packed<<<dim3((n + 63) / 64, m), 64>>>(a.data_ptr<int8_t>(), b.data_ptr<int8_t>(), c.data_ptr<int>(), m, n, k);
  return c;
}
"""

SCALED = """
#include <torch/extension.h>
__global__ void scaled(const float* x, const float* weight, float* y, int cols) {
  __shared__ float part[4];
  const float* row = x + (size_t)blockIdx.x * cols;
  float sum = 0;
  for (int i = threadIdx.x; i < cols; i += blockDim.x) sum += row[i];
  for (int o = 16; o; o >>= 1) sum += __shfl_xor_sync(~0u, sum, o);
  if (threadIdx.x % 32 == 0) part[threadIdx.x / 32] = sum;
  __syncthreads();
  float all = part[0] + part[1] + part[2] + part[3];
  for (int i = threadIdx.x; i < cols; i += blockDim.x) y[(size_t)blockIdx.x * cols + i] = row[i] * weight[i] / all;
}
torch::Tensor scale(torch::Tensor x, torch::Tensor weight) {
  auto y = torch::empty_like(x);
  scaled<<<x.size(0), 128>>>(x.data_ptr<float>(), weight.data_ptr<float>(), y.data_ptr<float>(), x.size(1));
  return y;
}
"""

MAXIMA = """
#include <torch/extension.h>
__global__ void maxima(const float* scores, const float* scale, float* best, int* where, int boxes, int classes) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= boxes) return;
  const float* row = scores + ((size_t)blockIdx.y * boxes + i) * classes;
  size_t out = (size_t)blockIdx.y * boxes + i;
  float top = row[0];
  int at = 0;
  for (int c = 1; c < classes; ++c)
    if (row[c] > top) { top = row[c]; at = c; }
  best[out] = top * scale[blockIdx.y];
  where[out] = at;
}
std::vector<torch::Tensor> best_class(torch::Tensor scores, torch::Tensor scale) {
  TORCH_CHECK(scores.size(0) == scale.size(0));
  int batch = scores.size(0), boxes = scores.size(1), classes = scores.size(2);
  auto best = torch::empty({batch, boxes}, scores.options());
  auto where = torch::empty({batch, boxes}, scores.options().dtype(torch::kInt));
  maxima<<<dim3((boxes + 63) / 64, batch), 64>>>(
      scores.data_ptr<float>(), scale.data_ptr<float>(), best.data_ptr<float>(), where.data_ptr<int>(), boxes, classes);
  return {best, where};
}
"""
"""The number of dimensions of both inputs is not checked."""

CENTRES = """
#include <torch/extension.h>
__global__ void centres(int n, const float* boxes, float* out) {
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += blockDim.x * gridDim.x) {
    out[2 * i] = boxes[4 * i] + boxes[4 * i + 2];
    out[2 * i + 1] = boxes[4 * i + 1] + boxes[4 * i + 3];
  }
}
void centres_of(torch::Tensor boxes, torch::Tensor out) {
  const int total = out.numel();
  centres<<<(total + 255) / 256, 256>>>(boxes.size(0), boxes.data_ptr<float>(), out.data_ptr<float>());
}
"""
"""Only callers relate the sizes of the tensors."""
FILL = """
#include <torch/extension.h>
__global__ void fill(float* out, float value, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) out[i] = value;
}
void filled(torch::Tensor out, double value) {
  fill<<<(out.numel() + 255) / 256, 256>>>(out.data_ptr<float>(), value, out.numel());
}
"""


def findings(tmp_path: Path, text: str) -> list[Finding]:
    """Return what is reported about accesses and values, of a kernel that runs."""
    folder = tmp_path / "project" / "csrc"
    folder.mkdir(parents=True)
    (tmp_path / "project" / ".git").mkdir()
    source = folder / "extension.cu"
    source.write_text(text)
    (request,) = collect([str(source)], CheckOptions(cases=8), tmp_path).requests
    events = list(check_kernel(request))
    (report,) = [one for one in events if isinstance(one, KernelReport)]
    found = [one for one in events if isinstance(one, Finding)]
    assert report.compiled
    assert not [one.message for one in found if one.rule in ("engine/not-executed", "engine/unsupported-instruction")]
    return [one for one in found if one.rule.startswith(("memory/", "sync/", "numeric/"))]


@pytest.mark.parametrize(
    "text", [NORM, SCAN, SELECTED, GROUPS, SEGMENTS, LARGEST, LENGTHS, CONVOLUTION, PACKED, SCALED, MAXIMA, FILL]
)
def test_correct_kernels_are_silent(tmp_path: Path, text: str) -> None:
    """Sizes that the host's checks exclude are not claimed anything about."""
    assert findings(tmp_path, text) == []


@pytest.mark.parametrize(
    ("text", "before", "after", "rule"),
    [
        (SCAN, "    carry += last;\n    __syncthreads();\n", "    carry += last;\n", "memory/shared-race"),
        (SELECTED, "(cols + 31) / 32", "(cols + 30) / 32", "numeric/unwritten-output"),
        (GROUPS, "const float* zero, int k) {\n  int groups = k / 64;",
         "const float* zero, int k) {\n  int groups = k / 64 + 1;", "memory/out-of-bounds"),
        (SEGMENTS, "s >= segments", "s > segments", "memory/out-of-bounds"),
        (LENGTHS, "warps[w]);\n  __syncthreads();\n", "warps[w]);\n", "memory/shared-race"),
        (CONVOLUTION, "before >= 0 ? in[before] : 0.f", "in[before]", "memory/out-of-bounds"),
        # The length of `weight` is not shown; the race follows from the number of columns alone.
        (SCALED, "= sum;\n  __syncthreads();\n", "= sum;\n", "memory/shared-race"),
        # Further dimensions of `scores` do not change which elements of the outputs the threads write.
        (MAXIMA, "best[out] = top", "best[i] = top", "memory/global-race"),
        (LARGEST, "y[blockIdx.x * k + j]", "y[blockIdx.x * k + j + 1]", "memory/out-of-bounds"),
        (FILL, "  if (i < n) out", "  out", "memory/out-of-bounds"),
        (FILL, "i < n", "i <= n", "memory/out-of-bounds"),
    ],
)  # fmt: skip
def test_planted_bugs_are_errors(tmp_path: Path, text: str, before: str, after: str, rule: str) -> None:
    """A kernel that compares each index with a size is for any size."""
    assert text.count(before) == 1
    found = findings(tmp_path, text.replace(before, after))
    assert rule in {one.rule for one in found if one.severity is Severity.ERROR}


def test_sizes_that_only_callers_relate_are_assumptions(tmp_path: Path) -> None:
    """The kernel does not get the size of its output, whose elements are two for each box."""
    found = findings(tmp_path, CENTRES)
    assert {one.severity for one in found} == {Severity.INFORMATION}
    assert all(
        "assumes that the size of 'out' does not depend on those of other arguments" in one.message for one in found
    )
