"""Values of the failing thread at the line of a finding, by the names in the source."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.check_project import CU, TOML, request, run

from gpuemu_lsp.engine.findings import Finding, Severity
from gpuemu_lsp.engine.report.text import values_text

SIZES = (
    TOML
    + """[kernels.dims]
n = { min = 1, max = 300 }
[kernels.args]
x = { in = ["n"], range = [-8, 8] }
y = { out = ["n"] }
n = "n"
[kernels.launch]
grid = "ceil_div(n, 128)"
block = 128
"""
)
HEAD = "__global__ void twice(const float* x, float* y, int n) {\n    int i = blockIdx.x * blockDim.x + threadIdx.x;\n"


def error(folder: Path, cu: str, rule: str) -> Finding:
    made = request(folder, cu, toml=SIZES, store_root=str(folder))
    found = [one for one in run(made)[1] if one.rule == rule and one.severity is Severity.ERROR]
    assert found, run(made)[1]
    return found[-1]


def values(finding: Finding) -> dict[str, dict]:
    listed = finding.data["values"]
    assert isinstance(listed, list)
    return {one["name"]: one for one in listed}


def test_loads_the_stored_value_the_subscript_and_scalars_are_named_as_in_the_source(tmp_path: Path) -> None:
    finding = error(tmp_path, CU.replace("2.0f * x[i]", "3.0f * x[i] + (n - n)"), "numeric/tolerance-exceeded")
    (index,) = finding.data["index"]
    shown = values(finding)
    assert list(shown) == [f"x[{index}]", f"y[{index}]", "i", "n"]
    assert shown["i"]["value"] == index and shown["n"]["value"] == finding.dims["n"]
    assert shown[f"y[{index}]"] == {
        "name": f"y[{index}]",
        "value": finding.data["actual"],
        "expected": finding.data["expected"],
    }
    assert shown[f"x[{index}]"]["value"] == pytest.approx(finding.data["actual"] / 3, rel=1e-6)


@pytest.mark.parametrize(
    ("body", "rule", "undefined"),
    [
        ("    if (i <= n) y[i] = 2.0f * x[i];\n}\n", "memory/out-of-bounds", "x"),
        (
            "    __shared__ float s[1024];\n    if (threadIdx.x > 0) s[threadIdx.x] = 1.0f;\n    __syncthreads();\n"
            "    if (i < n) y[i] = 2.0f * x[i] * s[threadIdx.x];\n}\n",
            "memory/uninitialized-read",
            "s",
        ),
    ],
)
def test_an_element_without_a_defined_value_has_none(tmp_path: Path, body: str, rule: str, undefined: str) -> None:
    finding = error(tmp_path, HEAD + body, rule)
    shown = values(finding)
    missing = [name for name, one in shown.items() if one["value"] is None]
    assert any(name.startswith(f"{undefined}[") for name in missing)
    assert f"{missing[0]} = undefined" in values_text(finding.data)


def test_a_pointer_that_was_moved_does_not_give_the_value_of_its_subscript(tmp_path: Path) -> None:
    body = "    x += i;\n    y += i;\n    const int zero = 0;\n    if (i < n) y[zero] = 3.0f * x[zero];\n}\n"
    shown = values(error(tmp_path, HEAD + body, "numeric/tolerance-exceeded"))
    assert "zero" not in shown and any(name.startswith("x[") for name in shown)


def test_predicated_accesses_are_logged_only_where_they_are_executed(tmp_path: Path) -> None:
    body = "    if (i >= n) return;\n    float v = i % 2 ? x[i] : 0.0f; y[i] = 3.0f * v;\n}\n"
    finding = error(tmp_path, HEAD + body, "numeric/tolerance-exceeded")
    loaded = [name for name in values(finding) if name.startswith("x[")]
    (index,) = finding.data["index"]
    assert loaded == ([f"x[{index}]"] if index % 2 else [])
