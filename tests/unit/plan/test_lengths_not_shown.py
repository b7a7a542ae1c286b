"""Buffers whose lengths the program computes in a way that is not known, such as those of vectors that it fills."""

from __future__ import annotations

from pathlib import Path

import pytest

from gpuemu_lsp.engine.check.pipeline import check_kernel
from gpuemu_lsp.engine.findings import Finding, Severity
from gpuemu_lsp.engine.jobs.requests.targets import collect
from gpuemu_lsp.engine.subjects.request import CheckOptions

SPARSE = """
#include <cuda_runtime.h>
#include <cstdlib>
#include <vector>
__global__ void product(const int* rows, const int* columns, const float* v, const float* x, float* y, int n) {
  int r = blockIdx.x * blockDim.x + threadIdx.x;
  if (r < n) {
    float sum = 0.0f;
    for (int k = rows[r]; k < rows[r + 1]; ++k) sum += v[k] * x[columns[k]];
    y[r] = sum;
  }
}
int main() {
  int n = 1000;
  std::vector<int> rows, columns;
  std::vector<float> v;
  rows.push_back(0);
  for (int r = 0; r < n; ++r) {
    for (int c = 0; c < n; ++c)
      if (rand() % 10 == 0) { columns.push_back(c); v.push_back(1.0f); }
    rows.push_back(columns.size());
  }
  std::vector<float> x(n, 1.0f), y(n);
  int *d_rows, *d_columns;
  float *d_v, *d_x, *d_y;
  cudaMalloc(&d_rows, rows.size() * sizeof(int));
  cudaMalloc(&d_columns, columns.size() * sizeof(int));
  cudaMalloc(&d_v, v.size() * sizeof(float));
  cudaMalloc(&d_x, n * sizeof(float));
  cudaMalloc(&d_y, n * sizeof(float));
  cudaMemcpy(d_rows, rows.data(), rows.size() * sizeof(int), cudaMemcpyHostToDevice);
  cudaMemcpy(d_columns, columns.data(), columns.size() * sizeof(int), cudaMemcpyHostToDevice);
  cudaMemcpy(d_v, v.data(), v.size() * sizeof(float), cudaMemcpyHostToDevice);
  cudaMemcpy(d_x, x.data(), n * sizeof(float), cudaMemcpyHostToDevice);
  product<<<(n + 127) / 128, 128>>>(d_rows, d_columns, d_v, d_x, d_y, n);
  cudaMemcpy(y.data(), d_y, n * sizeof(float), cudaMemcpyDeviceToHost);
}
"""
KEPT = """
#include <cuda_runtime.h>
#include <cstdlib>
#include <vector>
__global__ void negated(const float* x, float* y, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) y[i] = -x[i];
}
int main() {
  std::vector<float> kept;
  for (int i = 0; i < 1000; ++i)
    if (rand() % 10 == 0) kept.push_back(1.0f);
  float *x, *y;
  int n = kept.size();
  cudaMalloc(&x, n * sizeof(float));
  cudaMalloc(&y, n * sizeof(float));
  cudaMemcpy(x, kept.data(), n * sizeof(float), cudaMemcpyHostToDevice);
  negated<<<(n + 127) / 128, 128>>>(x, y, n);
  cudaMemcpy(kept.data(), y, n * sizeof(float), cudaMemcpyDeviceToHost);
}
"""


def findings(folder: Path, text: str) -> list[Finding]:
    """Return what is found in a program with one kernel."""
    (folder / "program.cu").write_text(text)
    (request,) = collect([str(folder / "program.cu")], CheckOptions(cases=8), folder).requests
    return [event for event in check_kernel(request) if isinstance(event, Finding)]


def test_nothing_is_claimed_behind_a_buffer_of_computed_length(tmp_path: Path) -> None:
    """The kernel gets another size, which the program may have related to the length; a hint names the buffers."""
    found = findings(tmp_path, SPARSE)
    assert [one.rule for one in found] == ["config/launch-inferred"]
    (hint,) = found
    assert "lengths of 'columns', 'rows', 'v' is not known" in hint.message
    assert "rows: in [rows_size" in hint.message


@pytest.mark.parametrize(
    ("text", "right", "wrong", "severity"),
    [
        (SPARSE, "rows[r + 1]", "rows[r - 1]", Severity.INFORMATION),
        (SPARSE, "y[r]", "y[r + 1]", Severity.ERROR),
        (KEPT, "i < n", "i <= n", Severity.INFORMATION),
        (KEPT, "x[i]", "x[i]", None),
    ],
    ids=["before", "another", "guard", "right"],
)
def test_what_does_not_rest_on_such_a_length_is_claimed(
    tmp_path: Path, text: str, right: str, wrong: str, severity: Severity | None
) -> None:
    """An access before a buffer, one of another buffer, and one of a buffer whose length the kernel gets."""
    assert right in text
    found = [one for one in findings(tmp_path, text.replace(right, wrong)) if one.severity is not Severity.HINT]
    rules = {one.severity for one in found if one.rule == "memory/out-of-bounds"}
    assert (severity in rules) if severity else not found
