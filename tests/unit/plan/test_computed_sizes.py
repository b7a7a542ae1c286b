"""Sizes of a signature that the program computes from others belong together; rounded ones do not hide a length."""

from __future__ import annotations

from pathlib import Path

import pytest

from gpuemu_lsp.engine.check.pipeline import check_kernel
from gpuemu_lsp.engine.findings import Finding, Severity
from gpuemu_lsp.engine.jobs.requests.targets import collect
from gpuemu_lsp.engine.subjects.request import CheckOptions

PAIRS = """
__global__ void copy(const float2* x, float2* y, int pairs, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < pairs) y[i] = x[i];
  if (i == 0 && (n & 1)) ((float*)y)[n - 1] = ((const float*)x)[n - 1];
}
void run(const float* x, float* y, int n) {
  int pairs = n / 2;
  copy<<<(pairs + 127) / 128 + 1, 128>>>((const float2*)x, (float2*)y, pairs, n);
}
"""
BOUNDARIES = """
__global__ void lengths(const int* begin, float* y, int n, int boundaries) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) y[i] = begin[boundaries - 1] - begin[i];
}
void run(const int* begin, float* y, int n) { lengths<<<(n + 127) / 128, 128>>>(begin, y, n, n + 1); }
"""
HALVES = """
__global__ void halve(const float* x, float* y, int n, int half) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < half) y[i] = x[2 * i] + x[min(2 * i + 1, n - 1)];
}
void run(const float* x, float* y, int n) {
  const int half = (n + 1) / 2;
  halve<<<(half + 127) / 128, 128>>>(x, y, n, half);
}
"""


def _errors(folder: Path, text: str) -> list[tuple[str, int]]:
    source = folder / "program.cu"
    source.write_text(text)
    (request,) = collect([str(source)], CheckOptions(), folder).requests
    found = [event for event in check_kernel(request) if isinstance(event, Finding)]
    assert any("in [" in one.message for one in found if one.rule == "config/launch-inferred"), found
    return [(one.rule, one.place.range.start.line) for one in found if one.severity is Severity.ERROR]


@pytest.mark.parametrize("text", [PAIRS, BOUNDARIES, HALVES])
def test_a_kernel_is_not_tried_with_sizes_that_do_not_belong_together(tmp_path: Path, text: str) -> None:
    assert _errors(tmp_path, text) == []


def test_an_access_outside_is_found_at_sizes_that_belong_together(tmp_path: Path) -> None:
    assert ("memory/out-of-bounds", 4) in _errors(tmp_path, PAIRS.replace("[n - 1]", "[n]"))


MANY = """
__global__ void gather(const float* x, const int* count, const int* at, float* y, int number_of_rows, int other_rows,
                       int number_of_outputs, int number_of_columns, int width, int number_of_all_parts,
                       int number_of_elements) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= number_of_elements || blockIdx.y >= number_of_columns) return;
  int row = at[2 * i], part = at[2 * i + 1];
  float share = 1.0f / max(count[row * number_of_all_parts + part], 1);
  const float* from = x + row * number_of_outputs + part * width;
  atomicAdd(y + row * number_of_columns + blockIdx.y, from[blockIdx.y % width] * share);
}
void run(const float* x, const int* count, const int* at, float* y, int number_of_rows, int other_rows,
         int number_of_outputs, int number_of_columns, int number_of_all_parts, int number_of_elements) {
  const int width = number_of_outputs / number_of_all_parts;
  gather<<<dim3((number_of_elements + 255) / 256, number_of_columns), 256>>>(
      x, count, at, y, number_of_rows, other_rows, number_of_outputs, number_of_columns, width, number_of_all_parts,
      number_of_elements);
}
"""


def test_the_lengths_of_many_computed_sizes_are_not_longer_than_an_expression_may_be(tmp_path: Path) -> None:
    source = tmp_path / "program.cu"
    source.write_text(MANY)
    (request,) = collect([str(source)], CheckOptions(cases=2), tmp_path).requests
    found = [event for event in check_kernel(request) if isinstance(event, Finding)]
    assert [one.rule for one in found if one.rule == "config/launch-inferred"], found
