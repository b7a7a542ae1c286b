"""What the host code demands of sizes holds for a kernel whose buffers have lengths that only launches of it show."""

from __future__ import annotations

from pathlib import Path

import pytest

from gpuemu_lsp.engine.check.pipeline import check_kernel
from gpuemu_lsp.engine.findings import Finding
from gpuemu_lsp.engine.jobs.requests.targets import collect
from gpuemu_lsp.engine.subjects.request import CheckOptions

TILE = """
__global__ void row_max(const float* x, float* y, int rows, int cols) {
  __shared__ float tile[4 * 24];
  int row = blockIdx.x * 4 + threadIdx.x;
  if (row < rows) for (int c = 0; c < cols; ++c) tile[threadIdx.x * 24 + c] = x[row * cols + c];
  __syncthreads();
  if (row < rows) {
    float most = tile[threadIdx.x * 24];
    for (int c = 1; c < cols; ++c) most = fmaxf(most, tile[threadIdx.x * 24 + c]);
    y[row] = most;
  }
}
void run(const float* x, float* y, int rows, int cols, cudaStream_t stream) {
  GUARD
  row_max<<<(rows + 3) / 4, 4, 0, stream>>>(x, y, rows, cols);
}
"""


def errors(folder: Path, text: str) -> list[tuple[str, int]]:
    path = folder / "k.cu"
    path.write_text(text)
    (request,) = collect([str(path)], CheckOptions(), folder).requests
    findings = [event for event in check_kernel(request) if isinstance(event, Finding)]
    return [(one.rule, one.place.range.start.line + 1) for one in findings if one.severity in ("error", "information")]


@pytest.mark.parametrize("guard", ["if (cols > 24) return;", "assert(cols <= 24);"])
def test_a_size_that_the_host_function_refuses_is_not_tried(tmp_path: Path, guard: str) -> None:
    assert errors(tmp_path, TILE.replace("GUARD", guard)) == []


def test_a_smaller_bound_than_that_of_the_array_hides_nothing(tmp_path: Path) -> None:
    """The bound is one too large for the array, of which the last thread leaves its row."""
    found = errors(tmp_path, TILE.replace("GUARD", "if (cols > 25) return;"))
    assert ("memory/out-of-bounds", 5) in found


def test_a_bound_leaves_other_mistakes(tmp_path: Path) -> None:
    text = TILE.replace("GUARD", "if (cols > 24) return;").replace("if (row < rows) {", "if (row <= rows) {")
    assert ("memory/out-of-bounds", 10) in errors(tmp_path, text)
