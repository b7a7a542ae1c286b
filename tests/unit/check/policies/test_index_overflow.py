"""32-bit index overflows at declared sizes, and correct code that resembles them."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.check_project import request, run

ROWS = """\
__global__ void twice(const float* x, float* y, INT rows, INT cols) {
    INT row = blockIdx.x;
    for (INT c = threadIdx.x; c < cols; c += blockDim.x)
        y[INDEX] = 2.0f * x[INDEX];
}
"""
TOML = """\
[[kernels]]
name = "twice"
source = "twice.cu"
reference = "twice.py"
dims = { rows = { min = 1, max = 60000 }, cols = { min = 1, max = 60000 } }
args = { x = { in = ["rows", "cols"] }, y = { out = ["rows", "cols"] }, rows = "rows", cols = "cols" }
launch = { grid = ["rows"], block = [128] }
"""


def found(folder: Path, cu: str, toml: str = TOML) -> list[tuple[str, int]]:
    report, findings, _ = run(request(folder, cu, toml=toml, cases=2))
    errors = [(one.rule, one.place.range.start.line) for one in findings if one.severity == "error"]
    # Each case is too small to show it.
    assert report.status == ("failed" if errors else "passed") and report.cases.passed == report.cases.run
    return errors


@pytest.mark.parametrize(
    ("int_", "index", "expected"),
    [
        ("int", "row * cols + c", True),
        ("int", "c + cols * row", True),
        ("unsigned", "row * cols + c", False),  # 3.6e9 fits
        ("int", "(size_t)row * cols + c", False),
        ("long long", "row * cols + c", False),
        ("int", "(unsigned)(row * cols) + (unsigned)c", False),
        ("int", "(long long)(row * cols) + c", True),
    ],
)
def test_a_row_times_columns(tmp_path: Path, int_: str, index: str, expected: bool) -> None:
    cu = ROWS.replace("INT", int_).replace("INDEX", index)
    assert found(tmp_path, cu) == ([("memory/index-overflow", 3)] if expected else [])


@pytest.mark.parametrize(
    "dims",
    [
        "rows = { min = 1, max = 40000 }, cols = { min = 1, max = 40000 }",  # 1.6e9 elements
        "rows = { min = 1, max = 60000 }, cols = { min = 1 }",  # no declared maximum of the columns
        "rows = { min = 1, max = 60000 }, cols = 128",
    ],
)
def test_sizes_without_a_declared_maximum_give_no_finding(tmp_path: Path, dims: str) -> None:
    old = "rows = { min = 1, max = 60000 }, cols = { min = 1, max = 60000 }"
    cu = ROWS.replace("INT", "int").replace("INDEX", "row * cols + c")
    assert found(tmp_path, cu, TOML.replace(old, dims)) == []


FLAT = """\
__global__ void twice(const float* x, float* y, COUNT n) {
    TYPE i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = 2.0f * x[i];
}
"""
FLAT_TOML = """\
[[kernels]]
name = "twice"
source = "twice.cu"
reference = "twice.py"
dims = { n = { min = 1, max = 3000000000 } }
args = { x = { in = ["n"] }, y = { out = ["n"] }, n = "n" }
launch = { grid = ["ceil_div(n, 128)"], block = [128] }
"""


@pytest.mark.parametrize(
    ("count", "type_", "expected"),
    [
        ("long long", "int", True),
        ("size_t", "size_t", False),  # 3e9 fits the unsigned product
        ("long long", "long long", False),
        ("int", "int", False),  # a size is at most what an int holds
    ],
)
def test_a_flat_index(tmp_path: Path, count: str, type_: str, expected: bool) -> None:
    toml = FLAT_TOML.replace("3000000000", "2147483647") if count == "int" else FLAT_TOML
    rules = found(tmp_path, FLAT.replace("COUNT", count).replace("TYPE", type_), toml)
    assert [rule for rule, _ in rules] == (["memory/index-overflow"] if expected else [])


def test_hashes_may_wrap(tmp_path: Path) -> None:
    cu = """\
__global__ void twice(const float* x, float* y, int rows, int cols) {
    size_t row = blockIdx.x;
    for (int c = threadIdx.x; c < cols; c += blockDim.x) {
        unsigned h = (unsigned)(row * cols + c) * 2654435761u + 12345u;
        float far = x[h % (unsigned)cols] + x[(h >> 8) % (unsigned)rows] + x[h & 0u];
        y[row * cols + c] = 2.0f * x[row * cols + c] + (far == 12345.0f ? 0.0f : 0.0f * (float)h);
    }
}
"""
    assert found(tmp_path, cu) == []


def test_a_branch_that_guards_is_followed(tmp_path: Path) -> None:
    cu = """\
__global__ void twice(const float* x, float* y, int rows, int cols) {
    int row = blockIdx.x;
    if ((long long)rows * cols > 2147483647LL) {
        for (int c = threadIdx.x; c < cols; c += blockDim.x)
            y[(long long)row * cols + c] = 2.0f * x[(long long)row * cols + c];
    } else {
        for (int c = threadIdx.x; c < cols; c += blockDim.x)
            y[row * cols + c] = 2.0f * x[row * cols + c];
    }
}
"""
    assert found(tmp_path, cu) == []


def test_an_ignore_comment_makes_it_a_hint(tmp_path: Path) -> None:
    cu = ROWS.replace("INT", "int").replace(
        "INDEX] = 2.0f * x[INDEX];",
        "row * cols + c] = 2.0f * x[row * cols + c];  // gpuemu: ignore[memory/index-overflow]",
    )
    assert found(tmp_path, cu) == []
