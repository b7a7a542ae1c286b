"""Sizes with a block for each: what the program says of them, and of the tensors that have them."""

from __future__ import annotations

from pathlib import Path

import pytest

from gpuemu_lsp.engine.check.pipeline import check_kernel
from gpuemu_lsp.engine.findings import Finding, Severity
from gpuemu_lsp.engine.jobs.requests.targets import collect
from gpuemu_lsp.engine.subjects.request import CheckOptions

ROTATED = """
#include <torch/extension.h>
__global__ void rotated(float* q, const float* cosine, const float* sine, int positions, int heads, int dim) {
  int half = dim / 2;
  float* row = q + (((size_t)blockIdx.z * positions + blockIdx.x) * heads + blockIdx.y) * dim;
  for (int i = threadIdx.x; i < half; i += blockDim.x) {
    float a = row[i], b = row[i + half], c = cosine[blockIdx.x * half + i], s = sine[blockIdx.x * half + i];
    row[i] = a * c - b * s;
    row[i + half] = a * s + b * c;
  }
}
void rotate(torch::Tensor q, torch::Tensor cosine, torch::Tensor sine) {
  TORCH_CHECK(q.dim() == 4 && q.is_contiguous() && q.size(3) % 2 == 0);
  TORCH_CHECK(cosine.sizes() == sine.sizes() && cosine.is_contiguous() && sine.is_contiguous());
  TORCH_CHECK(cosine.size(0) >= q.size(1) && cosine.size(1) == q.size(3) / 2);
  rotated<<<dim3(q.size(1), q.size(2), q.size(0)), 64>>>(q.data_ptr<float>(), cosine.data_ptr<float>(),
      sine.data_ptr<float>(), q.size(1), q.size(2), q.size(3));
}
"""
READ = """
#include <cstdlib>
__global__ void first(const float* x, float* y, int rows) {
  int at = AT;
  y[threadIdx.x * rows + blockIdx.x] = x[at];
}
int main(int argc, char** argv) {
  size_t rows = strtoull(argv[1], nullptr, 10);
  float *x, *y;
  cudaMalloc(&x, rows * 32 * sizeof(float));
  cudaMalloc(&y, rows * 32 * sizeof(float));
  cudaMemset(x, 0, rows * 32 * sizeof(float));
  first<<<rows, 32>>>(x, y, rows);
}
"""


def found(tmp_path: Path, text: str) -> set[tuple[str, Severity]]:
    """Return the rules and severities of what is found in a kernel that no gpuemu.toml has."""
    (tmp_path / ".git").mkdir(parents=True)
    source = tmp_path / "source.cu"
    source.write_text(text)
    (request,) = collect([str(source)], CheckOptions(cases=8), tmp_path).requests
    findings = [one for one in check_kernel(request) if isinstance(one, Finding)]
    assert not any(one.rule == "engine/not-executed" for one in findings)
    return {(one.rule, one.severity) for one in findings if one.rule.startswith(("memory/", "sync/"))}


@pytest.mark.parametrize(
    ("old", "new"),
    [("half = dim / 2", "half = dim / 2 + 1"), ("blockIdx.z * positions", "blockIdx.z * heads")],
)
def test_an_address_that_is_wrong_for_some_block_is_an_error(tmp_path: Path, old: str, new: str) -> None:
    assert Severity.ERROR in {severity for _, severity in found(tmp_path, ROTATED.replace(old, new, 1))}


def test_tensors_of_equal_sizes_are_as_large_as_the_sizes_of_one_say(tmp_path: Path) -> None:
    assert found(tmp_path, ROTATED) == set()


def test_a_number_from_the_command_line_may_be_any(tmp_path: Path) -> None:
    at = "blockIdx.x * 32 + threadIdx.x"
    assert found(tmp_path, READ.replace("AT", at)) == set()
    wrong = found(tmp_path / "wrong", READ.replace("AT", f"{at} + 1"))
    assert wrong == {("memory/out-of-bounds", Severity.ERROR)}
