"""Sizes that a user of a program chooses: what a kernel says about them decides what may be claimed at each."""

from __future__ import annotations

from pathlib import Path

import pytest

from gpuemu_lsp.engine.check.pipeline import check_kernel
from gpuemu_lsp.engine.findings import Finding, Severity
from gpuemu_lsp.engine.jobs.requests.targets import collect
from gpuemu_lsp.engine.subjects.request import CheckOptions

PROGRAM = """
#include <cstdlib>
__global__ void k(const int* index, const float* x, float* y, int cols) {{
  __shared__ float tile[64];
  const int t = threadIdx.x;
  const float* row = x + blockIdx.x * cols;
  {body}
}}
int main(int argc, char** argv) {{
  int rows = atoi(argv[1]), cols = atoi(argv[2]), entries = atoi(argv[3]);
  int *index, *values = (int*)malloc(rows * cols * sizeof(int));
  float *x, *y, *host = (float*)malloc(rows * cols * sizeof(float));
  for (int i = 0; i < rows * cols; ++i) {{ host[i] = rand() / (float)RAND_MAX; values[i] = {value}; }}
  cudaMalloc(&index, rows * cols * sizeof(int));
  cudaMalloc(&x, {length} * sizeof(float));
  cudaMalloc(&y, rows * cols * sizeof(float));
  cudaMemcpy(x, host, {length} * sizeof(float), cudaMemcpyHostToDevice);
  cudaMemcpy(index, values, rows * cols * sizeof(int), cudaMemcpyHostToDevice);
  k<<<rows, 64>>>(index, x, y, cols);
}}
"""
TILES = """for (int from = 0; from < cols; from += 64) {
    tile[t] = row[from + t];
    __syncthreads();
    y[blockIdx.x * cols + from + t] = tile[63 - t];
    __syncthreads();
  }"""
FOUR = "for (int i = t * 4; i < cols; i += 256) for (int j = 0; j < 4; ++j) y[blockIdx.x * cols + i + j] = row[i + j];"
STRIDED = """for (int i = t; i < cols; i += 64) {
    const int count = min(64, cols - (i - t));
    tile[t] = row[i];
    __syncthreads();
    y[blockIdx.x * cols + i] = tile[count - 1 - t];
    __syncthreads();
  }"""
EXIT = """if (t >= cols) return;
  y[blockIdx.x * cols + t] = __shfl_down_sync(0xffffffffu, row[t], 1);"""
PAIRS = """for (int j = t; j < (cols + 1) / 2; j += blockDim.x) {
    y[blockIdx.x * cols + 2 * j] = row[2 * j];
    y[blockIdx.x * cols + 2 * j + 1] = row[2 * j + 1];
  }"""
GATHER = "for (int j = t; j < cols; j += 64) y[blockIdx.x * cols + j] = x[index[blockIdx.x * cols + j] + 1];"


def found(tmp_path: Path, body: str, value: str = "0", length: str = "rows * cols") -> set[tuple[str, Severity]]:
    """Return the rules and severities of what is found in the program with a kernel of some body."""
    (tmp_path / ".git").mkdir()
    source = tmp_path / "program.cu"
    source.write_text(PROGRAM.format(body=body, value=value, length=length))
    (request,) = collect([str(source)], CheckOptions(cases=8), tmp_path).requests
    findings = [one for one in check_kernel(request) if isinstance(one, Finding)]
    assert not any(one.rule == "engine/not-executed" for one in findings)
    return {(one.rule, one.severity) for one in findings if one.rule.startswith(("memory/", "sync/"))}


@pytest.mark.parametrize(
    ("body", "rule"),
    [
        (STRIDED, "sync/barrier-divergence"),
        (EXIT, "sync/missing-warp-mask"),
        (PAIRS, "memory/out-of-bounds"),
        (PAIRS.replace("(cols + 1) / 2", "(cols + 2 - 1) / 2"), "memory/out-of-bounds"),
    ],
    ids=["threads begin at their own", "threads without an element return", "rounded up", "written out"],
)
def test_a_kernel_that_is_for_any_size_is_wrong_at_each(tmp_path: Path, body: str, rule: str) -> None:
    assert (rule, Severity.ERROR) in found(tmp_path, body)


@pytest.mark.parametrize("body", [TILES, FOUR], ids=["tiles", "four elements of a thread"])
def test_a_kernel_may_demand_multiples_of_its_tile(tmp_path: Path, body: str) -> None:
    rules = found(tmp_path, body)
    assert rules and {severity for _, severity in rules} == {Severity.INFORMATION}


@pytest.mark.parametrize(
    "body",
    [
        STRIDED.replace("i < cols; i += 64", "i - t < cols; i += 64")
        .replace("tile[t] = row[i]", "if (i < cols) tile[t] = row[i]")
        .replace("y[blockIdx", "if (i < cols) y[blockIdx"),
        "const unsigned here = __ballot_sync(0xffffffffu, t < cols);\n  "
        + EXIT.replace("0xffffffffu, row[t], 1", "here, row[t], 0"),
        PAIRS.replace("y[blockIdx.x * cols + 2 * j + 1]", "if (2 * j + 1 < cols) y[blockIdx.x * cols + 2 * j + 1]"),
    ],
    ids=["barriers for all", "mask of those with an element", "rest"],
)
def test_correct_counterparts_are_clean(tmp_path: Path, body: str) -> None:
    assert found(tmp_path, body) == set()


def test_a_kernel_demands_nothing_of_a_length_that_it_never_gets(tmp_path: Path) -> None:
    """Indices are below the number of entries, and the kernel reads the entry after each."""
    wrong = found(tmp_path, GATHER, "rand() % entries", "entries")
    assert wrong == {("memory/out-of-bounds", Severity.ERROR)}


def test_indices_below_the_length_are_in_bounds(tmp_path: Path) -> None:
    assert found(tmp_path, GATHER.replace(" + 1];", "];"), "rand() % entries", "entries") == set()
