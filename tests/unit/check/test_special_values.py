"""NaN and infinities in the default cases of a registered kernel, with the real compiler and emulator."""

from __future__ import annotations

import pytest
from support.check_project import request, run

from gpuemu_lsp.engine.findings import Severity

ROWS = """\
__global__ void twice(const float* x, float* y, int rows, int cols) {{
    const float* row = x + size_t(blockIdx.x) * cols;
    float best = -INFINITY;
    for (int c = 0; c < cols; ++c) {statement}
    {result}
}}
"""
TOML = """\
[[kernels]]
name = "twice"
source = "twice.cu"
reference = "twice.py"
[kernels.dims]
rows = {{ min = 1, max = 12 }}
cols = {{ min = 1, max = 300 }}
[kernels.args]
x = {{ in = ["rows", "cols"]{range} }}
y = {{ out = ["rows"] }}
rows = "rows"
cols = "cols"
[kernels.launch]
grid = ["rows"]
block = [1]
"""
LARGEST = "def reference(inputs):\n    return inputs['x'].max(axis=1)\n"


def _severities(folder, statement, result="y[blockIdx.x] = best;", reference=LARGEST, limits=""):
    cu = ROWS.format(statement=statement, result=result)
    _, findings, _ = run(request(folder, cu, reference, TOML.format(range=limits)))
    return {(finding.rule, finding.severity) for finding in findings}


@pytest.mark.parametrize(
    ("statement", "severity"),
    [
        ("if (row[c] > best) best = row[c];", Severity.ERROR),
        # Documented to return the number where one is NaN: it may be meant.
        ("best = fmaxf(best, row[c]);", None),
        ("best = row[c] > best || isnan(row[c]) ? row[c] : best;", None),
    ],
)
def test_a_nan_that_a_reduction_loses(tmp_path, statement, severity):
    if "isnan" in statement:
        statement = f"if (!isnan(best)) {statement}"
    expected = set() if severity is None else {("numeric/nan", severity)}
    assert _severities(tmp_path, statement) == expected


def test_no_special_values_are_tried_where_a_range_excludes_them(tmp_path):
    assert _severities(tmp_path, "if (row[c] > best) best = row[c];", limits=", range = [-9, 9]") == set()


@pytest.mark.parametrize(("guard", "rules"), [("", {"numeric/nan"}), ("best == -INFINITY ? 0.0f : ", set())])
def test_a_row_that_is_masked_whole(tmp_path, guard, rules):
    """Minus infinity less minus infinity is NaN."""
    reference = (
        "import numpy as np\n\ndef reference(inputs):\n    x = inputs['x']\n    top = x.max(axis=1)\n"
        "    return np.where(top == -np.inf, 0.0, np.exp(x[:, 0] - top))\n"
    )
    statement = "if (!isnan(best)) best = row[c] > best || isnan(row[c]) ? row[c] : best;"
    result = f"y[blockIdx.x] = {guard}expf(row[0] - best);"
    found = _severities(tmp_path, statement, result, reference)
    assert {rule for rule, _ in found} == rules


@pytest.mark.parametrize(("odd", "rules"), [("2.0f", set()), ("3.0f", {"numeric/tolerance-exceeded"})])
def test_finite_results_that_depend_on_how_a_nan_compares_are_not_compared(tmp_path, odd, rules):
    """NumPy's largest element is a NaN, that of the kernel a number."""
    reference = "import numpy as np\n\ndef reference(inputs):\n    return 1.0 + np.argmax(inputs['x'], axis=1) % 2\n"
    statement = "if (row[c] > best) best = row[c], at = c;"
    cu = ROWS.format(statement=statement, result=f"y[blockIdx.x] = at % 2 ? {odd} : 1.0f;")
    cu = cu.replace("float best", "int at = 0;\n    float best")
    _, findings, _ = run(request(tmp_path, cu, reference, TOML.format(range="")))
    assert {finding.rule for finding in findings} == rules


def test_invariants_are_about_numbers(tmp_path):
    toml = f"{TOML.format(range='')}[kernels.invariants]\nno_nan = true\nno_inf = true\n"
    statement = "if (!isnan(best)) best = row[c] > best || isnan(row[c]) ? row[c] : best;"
    cu = ROWS.format(statement=statement, result="y[blockIdx.x] = best;")
    report, findings, _ = run(request(tmp_path, cu, LARGEST, toml))
    assert (report.status, findings) == ("passed", [])
