"""References that change the arrays they are given."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.check_project import CU, TOML, request, run

from gpuemu_lsp.engine.findings import Severity

DOUBLED = (
    "import numpy as np\n\n\ndef reference(inputs, **kwargs):\n    x = inputs['x']\n    {change}\n    return {result}\n"
)


def reported(folder: Path, change: str, result: str):
    report, findings, _ = run(request(folder, reference=DOUBLED.format(change=change, result=result), cases=6))
    found = [one for one in findings if one.rule == "reference/changes-input"]
    return report, found, [one.rule for one in findings if one.severity is Severity.ERROR]


@pytest.mark.parametrize(
    "change", ["x *= 2.0", "np.multiply(x, 2.0, out=x)", "x[...] = 2 * x", "helper = x[:]; helper += x"]
)
def test_a_changed_input_that_makes_a_correct_kernel_wrong_is_reported_on_its_line(tmp_path: Path, change: str) -> None:
    report, found, errors = reported(tmp_path, change, "2 * inputs['x']")
    assert report.status == "failed" and errors
    (warning,) = found
    assert warning.severity is Severity.WARNING and "`x`" in warning.message
    assert (Path(warning.place.path).name, warning.place.range.start.line) == ("twice.py", 5)


def test_a_change_that_makes_no_difference_is_a_hint(tmp_path: Path) -> None:
    report, (hint,), errors = reported(tmp_path, "x *= 2.0", "x")
    assert (report.status, hint.severity, errors) == ("passed", Severity.HINT, [])


@pytest.mark.parametrize("change", ["x = 2 * x", "x = x.copy(); x *= 2", "y = np.sort(x)"])
def test_a_reference_that_works_on_a_copy_is_not_reported(tmp_path: Path, change: str) -> None:
    assert reported(tmp_path, change, "2 * inputs['x']")[1:] == ([], [])


def test_an_inout_array_may_be_changed_in_place(tmp_path: Path) -> None:
    cu = CU.replace("const float* x, float* y", "float* x").replace("y[i]", "x[i]")
    toml = TOML + '[kernels.dims]\nn = { max = 300 }\n[kernels.args]\nx = { inout = ["n"] }\nn = "n"\n'
    toml += '[kernels.launch]\ngrid = "ceil_div(n, 128)"\nblock = 128\n'
    reference = "def reference(inputs, **kwargs):\n    inputs['x'] *= 2\n"
    report, findings, _ = run(request(tmp_path, cu, reference, toml, cases=6))
    assert (report.status, findings) == ("passed", [])


SORTED = """\
import numpy as np


def reference(inputs, **kwargs):
    y = 2.0 * inputs["x"]
    inputs["x"].sort()
    return y
"""


def test_perturbed_and_traced_evaluations_get_their_own_copies(tmp_path: Path) -> None:
    cu = CU.replace("2.0f * x[i]", "expf(x[i])")
    reference = SORTED.replace('2.0 * inputs["x"]', 'np.exp(inputs["x"])')
    report, findings, _ = run(request(tmp_path, cu, reference, cases=12))
    assert report.status == "passed", findings
    (hint,) = [one for one in findings if one.rule == "reference/changes-input"]
    assert (hint.severity, hint.place.range.start.line) == (Severity.HINT, 5)
