"""Sizes of which the program states a relation, strides of tensors of unknown rank, and what does not depend on them."""

from __future__ import annotations

from pathlib import Path

import pytest

from gpuemu_lsp.engine.check.pipeline import check_kernel
from gpuemu_lsp.engine.findings import Finding, Severity
from gpuemu_lsp.engine.jobs.requests.targets import collect
from gpuemu_lsp.engine.subjects.request import CheckOptions

GROUPS = """
#include <torch/extension.h>
__global__ void center(const float* x, const float* bias, float* y, int C, int G) {
  __shared__ float first;
  int size = C / G, at = blockIdx.x * size;
  if (threadIdx.x == 0) first = x[at];
  __syncthreads();
  for (int i = threadIdx.x; i < size; i += blockDim.x) y[at + i] = x[at + i] - first + bias[at % C + i];
}
torch::Tensor forward(torch::Tensor x, torch::Tensor bias, int64_t groups) {
  TORCH_CHECK(x.size(1) % groups == 0);
  auto y = torch::empty_like(x);
  center<<<x.size(0) * groups, 128>>>(x.data_ptr<float>(), bias.data_ptr<float>(), y.data_ptr<float>(), x.size(1), groups);
  return y;
}
"""
TAIL = """
#include <torch/extension.h>
__global__ void scale(const float* x, const float* by, float* y, int N, int V) {
  size_t i = (size_t)blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= (size_t)N * V) return;
  y[i] = x[i] * by[i / V];
}
torch::Tensor forward(torch::Tensor x, torch::Tensor by) {
  auto y = torch::empty_like(x);
  int64_t total = x.size(0) * x.size(1);
  scale<<<(total + 255) / 256, 256>>>(x.data_ptr<float>(), by.data_ptr<float>(), y.data_ptr<float>(), x.size(0), x.size(1));
  return y;
}
"""
BUFFER = """
#include <torch/extension.h>
__global__ void largest(const float* x, float* y, int V) {
  extern __shared__ float buf[];
  float m = -INFINITY;
  for (int i = threadIdx.x; i < V; i += blockDim.x) m = fmaxf(m, x[(size_t)blockIdx.x * V + i]);
  buf[threadIdx.x] = m;
  __syncthreads();
  for (int s = blockDim.x / 2; s > 0; s >>= 1) {
    if (threadIdx.x < s) buf[threadIdx.x] = fmaxf(buf[threadIdx.x], buf[threadIdx.x + s]);
    __syncthreads();
  }
  if (threadIdx.x == 0) y[blockIdx.x] = buf[0];
}
torch::Tensor forward(torch::Tensor x) {
  auto y = torch::empty({x.size(0)}, x.options());
  largest<<<x.size(0), 256, 256 * sizeof(float)>>>(x.data_ptr<float>(), y.data_ptr<float>(), x.size(1));
  return y;
}
"""
ROWS = """
#include <torch/extension.h>
__global__ void halve(float* x, int width, int64_t stride) {
  for (int i = threadIdx.x; i < width; i += blockDim.x) x[blockIdx.x * stride + i] *= 0.5f;
}
void forward(torch::Tensor x) {
  int rows = x.numel() / x.size(-1);
  halve<<<rows, 128>>>(x.data_ptr<float>(), x.size(-1), x.stride(-2));
}
"""


def severities(tmp_path: Path, text: str) -> dict[str, Severity]:
    """Return what is found in a program, by rule."""
    (tmp_path / ".git").mkdir(exist_ok=True)
    source = tmp_path / "program.cu"
    source.write_text(text)
    (request,) = collect([str(source)], CheckOptions(cases=8), tmp_path).requests
    found = [event for event in check_kernel(request) if isinstance(event, Finding)]
    return {finding.rule: finding.severity for finding in found if finding.severity is not Severity.HINT}


@pytest.mark.parametrize(
    ("text", "mistake", "expected"),
    [
        (GROUPS, ("  __syncthreads();\n  for", "  for"), {"memory/shared-race": Severity.ERROR}),
        (GROUPS, ("bias[at % C + i]", "bias[at % C + size + i]"), {}),
        (TAIL, ("(total + 255) / 256, ", "total / 256, "), {"numeric/unwritten-output": Severity.INFORMATION}),
        (BUFFER, ("256 * sizeof(float)", "128 * sizeof(float)"), {"memory/out-of-bounds": Severity.ERROR}),
        (ROWS, ("stride + i] *= ", "stride + i + 1] *= "), {"memory/out-of-bounds": Severity.ERROR}),
    ],
    ids=["divided", "divided, length unknown", "product", "fixed block", "stride from the end"],
)
def test_a_mistake_and_its_correction(
    tmp_path: Path, text: str, mistake: tuple[str, str], expected: dict[str, Severity]
) -> None:
    assert severities(tmp_path, text) == {}
    before, after = mistake
    assert text.count(before) == 1
    assert severities(tmp_path, text.replace(before, after)) == expected


@pytest.mark.parametrize("stride", ["x.stride(0)", "x.stride(-2)"])
@pytest.mark.parametrize("rows", ["x.size(0)", "x.numel() / x.size(-1)"])
def test_rows_of_a_contiguous_tensor_do_not_overlap(tmp_path: Path, rows: str, stride: str) -> None:
    text = ROWS.replace("x.numel() / x.size(-1)", rows).replace("x.stride(-2)", stride)
    assert severities(tmp_path, text) == {}
