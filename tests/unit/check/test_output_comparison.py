"""How outputs are compared: not at all, in any order, as a set, and integers beyond 2**53."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.check_project import request, run

from gpuemu_lsp.engine.findings import Finding, Severity

HEAD = '[[kernels]]\nname = "twice"\nsource = "twice.cu"\nreference = "twice.py"\n[kernels.dims]\nn = { max = 300 }\n'
LAUNCH = '[kernels.launch]\ngrid = "ceil_div(n, 128)"\nblock = 128\n'


def check(folder: Path, cu: str, args: str, reference: str, launch: str = LAUNCH) -> tuple[str, list[Finding]]:
    """Return the status and the errors and warnings."""
    toml = f'{HEAD}[kernels.args]\nn = "n"\n{args}\n{launch}'
    report, findings, _ = run(request(folder, cu, "import numpy as np\n" + reference, toml, cases=8))
    return report.status, [one for one in findings if one.severity in (Severity.ERROR, Severity.WARNING)]


# ---- workspaces ------------------------------------------------------------------------------------------------------

REVERSE = """\
__global__ void twice(const float* x, float* ws, float* y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    if (x[i] > 0) ws[i] = 2.0f * x[i];
    y[i] = x[i] > 0 ? ws[i] : 0.0f;
}
"""
POSITIVE = "def reference(inputs, **kwargs):\n    return 2 * np.maximum(inputs['x'], 0)\n"
WORKSPACE = 'x = { in = ["n"], range = [-1.0, 1.0] }\nws = { out = ["n"], compare = false }\ny = { out = ["n"] }'


@pytest.mark.parametrize("returned", ["y", "None, y", "{'y': y}", "{'y': y, 'ws': y}"])
def test_a_workspace_is_not_compared_and_need_not_be_returned_or_filled(tmp_path: Path, returned: str) -> None:
    reference = f"def reference(inputs, **kwargs):\n    y = 2 * np.maximum(inputs['x'], 0)\n    return {returned}\n"
    assert check(tmp_path, REVERSE, WORKSPACE, reference) == ("passed", [])


@pytest.mark.parametrize(
    ("old", "new", "rule"),
    [
        ("x[i] > 0 ? ws[i] : 0.0f", "fmaxf(ws[i], 0.0f)", "memory/uninitialized-read"),
        ("ws[i] = 2", "ws[i + 1] = 2", "memory/out-of-bounds"),
        ("ws[i] = 2", "ws[0] = i; ws[i] = 2", "memory/global-race"),
        ("? ws[i] :", "? ws[i] + 1 :", "numeric/tolerance-exceeded"),
    ],
)
def test_a_workspace_keeps_its_other_checks(tmp_path: Path, old: str, new: str, rule: str) -> None:
    assert old in REVERSE
    status, found = check(tmp_path, REVERSE.replace(old, new), WORKSPACE, POSITIVE)
    assert status == "failed" and rule in {one.rule for one in found}


# ---- outputs without an order ----------------------------------------------------------------------------------------

COMPACT = """\
__global__ void twice(const float* x, float* y, int* count, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n && x[i] > 0.25f) {
        int at = atomicAdd(count, 1);
        y[n - 1 - at] = x[i];
    }
}
"""
KEPT = """\
def reference(inputs, **kwargs):
    x = inputs["x"]
    return {"y": x[x > 0.25], "count": inputs["count"] + np.count_nonzero(x > 0.25)}
"""
TICKETS = 'x = { in = ["n"], range = [-1.0, 1.0] }\ny = { out = ["n"], compare = "sorted" }\n'
TICKETS += "count = { inout = [1], range = [0, 1] }"


def test_a_stream_compaction_may_write_its_values_in_any_order(tmp_path: Path) -> None:
    assert check(tmp_path, COMPACT, TICKETS, KEPT) == ("passed", [])


@pytest.mark.parametrize(
    ("old", "new", "says", "line"),
    [
        ("= x[i];", "= at == 3 ? 7.0f : x[i];", "= 7, which is not among the expected values", 4),
        ("= x[i];", "= x[i > 0 && x[i - 1] > 0.25f ? i - 1 : i];", "more often than expected", 4),
        ("x[i] > 0.25f", "x[i] > 0.25f && i != 5", "y lacks 1 of ", 0),
        ("x[i] > 0.25f", "x[i] > 0.0f", "which is not among the expected values", 4),
    ],
)
def test_a_wrong_value_of_a_compaction_is_on_its_store(
    tmp_path: Path, old: str, new: str, says: str, line: int
) -> None:
    assert old in COMPACT
    status, found = check(tmp_path, COMPACT.replace(old, new), TICKETS, KEPT)
    wrong = [one for one in found if one.rule == "numeric/tolerance-exceeded" and one.data["output"] == "y"]
    assert status == "failed" and wrong, found
    assert says in wrong[0].message, wrong[0].message
    assert wrong[0].place.range.start.line == line


ROWS = """\
__global__ void twice(const float* x, float* y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < 4 * n) y[i / 4 * 4 + (i + 1) % 4] = 3.0f * x[i] + 0.1f;
}
"""
ROTATED = 'x = { in = ["n", 4] }\ny = { out = ["n", 4], compare = "sorted" }'
TIMES = "def reference(inputs, **kwargs):\n    return 3 * inputs['x'] + np.float64(np.float32(0.1))\n"
WIDE = '[kernels.launch]\ngrid = "ceil_div(n, 32)"\nblock = 128\n'


def test_rows_are_compared_in_any_order_within_the_error_budget(tmp_path: Path) -> None:
    assert check(tmp_path, ROWS, ROTATED, TIMES, WIDE) == ("passed", [])


def test_values_may_not_move_to_another_row(tmp_path: Path) -> None:
    moved = ROWS.replace("i / 4 * 4 + (i + 1) % 4", "(i + 1) % (4 * n)")
    status, found = check(tmp_path, moved, ROTATED, TIMES, WIDE)
    assert status == "failed" and [one.rule for one in found] == ["numeric/tolerance-exceeded"]


def test_an_element_of_a_full_row_that_is_not_written_is_reported(tmp_path: Path) -> None:
    partial = ROWS.replace("if (i < 4 * n)", "if (i < 4 * n && i != 2)")
    status, found = check(tmp_path, partial, ROTATED, TIMES, WIDE)
    assert status == "failed" and found[0].rule == "numeric/unwritten-output"


DISTINCT = """\
__global__ void twice(const int* x, int* y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[n - 1 - i] = x[i] / 2;
}
"""
SET = 'x = { in = ["n"], range = [0, 8] }\ny = { out = ["n"], compare = "set" }'
HALVES = "def reference(inputs, **kwargs):\n    return np.unique(inputs['x'] // 2)\n"


def test_a_set_ignores_order_and_repetition(tmp_path: Path) -> None:
    assert check(tmp_path, DISTINCT, SET, HALVES) == ("passed", [])


@pytest.mark.parametrize(
    ("new", "says"), [("x[i] / 2 + (i == 3) * 9", "which is not among"), ("min(x[i] / 2, 2)", "y lacks 1 of ")]
)
def test_a_set_has_exactly_the_expected_values(tmp_path: Path, new: str, says: str) -> None:
    status, found = check(tmp_path, DISTINCT.replace("x[i] / 2", new), SET, HALVES)
    assert status == "failed" and any(says in one.message for one in found), found


# ---- integers --------------------------------------------------------------------------------------------------------

LARGE = """\
__global__ void twice(const {T}* x, {T}* y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = x[i] * 3;
}
"""
TRIPLE = "def reference(inputs, **kwargs):\n    return inputs['x'] * 3\n"


@pytest.mark.parametrize("name", ["long long", "unsigned long long"])
def test_integers_of_64_bits_are_compared_exactly(tmp_path: Path, name: str) -> None:
    low = 2**61 if name == "long long" else 3 * 2**60
    args = f'x = {{ in = ["n"], range = [{low}, {low + 1000}] }}\ny = {{ out = ["n"] }}'
    cu = LARGE.replace("{T}", name)
    assert check(tmp_path, cu, args, TRIPLE) == ("passed", [])
    status, found = check(tmp_path, cu.replace("* 3;", "* 3 + (i == 2);"), args, TRIPLE)
    assert status == "failed" and found[0].rule == "numeric/tolerance-exceeded"
    assert found[0].data["actual"] == found[0].data["expected"] + 1
    assert f"{found[0].data['actual']}, expected {found[0].data['expected']}" in found[0].message
