"""``gpuemu baseline`` and ``gpuemu diff`` on a real project: exit codes and output."""

from __future__ import annotations

import json

import pytest
from support.passing_project import KERNEL, REFERENCE, gpuemu_output

HEAVY = KERNEL.replace(
    "        y[i] = 2.0f * x[i];\n",
    "        float kept[48];\n#pragma unroll\n        for (int k = 0; k < 48; ++k) kept[k] = x[(i + k * 7) % n];\n"
    "        float sum = 0.0f;\n#pragma unroll\n        for (int k = 47; k >= 0; --k) sum += kept[k] * kept[(k * 5) % 48];\n"
    "        y[i] = 2.0f * x[i] + 0.0f * sum;\n",
)


@pytest.fixture
def here(project, monkeypatch):
    project.write(kernel=KERNEL, reference=REFERENCE)
    monkeypatch.chdir(project.root)
    return project


def test_a_kernel_with_moved_lines_is_unchanged(here, capsys):
    assert gpuemu_output(capsys, "baseline", "v1")[0] == 0
    here.write(kernel="// a comment\n\n" + KERNEL.replace("int i ", "int  i  "))
    code, text, _ = gpuemu_output(capsys, "diff", "--baseline", "v1", "--fail-on-regression")
    assert (code, text) == (0, "Against the baseline 'v1': 1 unchanged.\n")


def test_a_numeric_regression(here, capsys):
    assert gpuemu_output(capsys, "baseline", "v1", "--cases", "8")[0] == 0
    here.write(kernel=KERNEL.replace("2.0f * x[i]", "2.0002f * x[i]"))
    code, text, _ = gpuemu_output(capsys, "diff", "--baseline", "v1", "--fail-on-regression")
    assert code == 1
    assert "passed -> failed  (regression)" in text
    assert "scale.cu:4: y[i] = 2.0002f * x[i];" in text
    assert "f32:2.0002" in text
    assert gpuemu_output(capsys, "diff", "--baseline", "v1")[0] == 0
    code, text, _ = gpuemu_output(capsys, "diff", "--baseline", "v1", "--fail-on-regression", "--format", "json")
    document = json.loads(text)
    assert code == 1
    assert document["kernels"][0]["changed_lines"] == [{"path": "scale.cu", "line": 3}]
    assert {"numeric/regression"} <= {finding["rule"] for finding in document["findings"]}


def test_a_register_regression_of_a_correct_kernel(here, capsys):
    assert gpuemu_output(capsys, "baseline", "v1", "--cases", "4")[0] == 0
    here.write(kernel=HEAVY)
    code, text, _ = gpuemu_output(capsys, "diff", "--baseline", "v1", "--fail-on-regression", "--format", "json")
    (kernel,) = json.loads(text)["kernels"]
    deltas = {delta["name"]: delta for delta in kernel["resources"]}
    assert code == 1
    assert deltas["registers"]["verdict"] == "regression"
    assert deltas["registers"]["after"] > deltas["registers"]["before"]


def test_an_improvement_is_not_a_regression(here, capsys):
    here.write(kernel=HEAVY)
    assert gpuemu_output(capsys, "baseline", "v1", "--cases", "4")[0] in (0, 1)
    here.write(kernel=KERNEL)
    code, text, _ = gpuemu_output(capsys, "diff", "--baseline", "v1", "--fail-on-regression")
    assert code == 0
    assert "(improvement)" in text


def test_kernels_appear_and_vanish(here, capsys):
    assert gpuemu_output(capsys, "baseline", "v1", "--cases", "4")[0] == 0
    toml = (here.root / "gpuemu.toml").read_text()
    here.write(toml=toml + toml.replace('name = "scale"', 'name = "again"\nentry = "scale"'))
    code, text, _ = gpuemu_output(capsys, "diff", "--baseline", "v1")
    assert code == 0
    assert "again (float32, sm_80): appeared" in text
    assert gpuemu_output(capsys, "baseline", "v2", "--cases", "4")[0] == 0
    here.write(toml=toml)
    assert "again (float32, sm_80): vanished" in gpuemu_output(capsys, "diff", "--baseline", "v2")[1]


def test_a_kernel_that_no_longer_compiles(here, capsys):
    assert gpuemu_output(capsys, "baseline", "v1", "--cases", "4")[0] == 0
    here.write(kernel=KERNEL.replace("y[i] =", "y[i] ="[:-1]))
    code, text, _ = gpuemu_output(capsys, "diff", "--baseline", "v1", "--fail-on-regression")
    assert code == 1
    assert "passed -> error" in text
    # Without the option a regression is not a failure, but a kernel that did not run is not clean.
    assert gpuemu_output(capsys, "diff", "--baseline", "v1")[0] == 2
    assert gpuemu_output(capsys, "baseline", "broken")[0] == 1


def test_unknown_baseline(here, capsys):
    code, _, errors = gpuemu_output(capsys, "diff", "--baseline", "v1")
    assert code == 2
    assert "gpuemu baseline v1" in errors
    assert gpuemu_output(capsys, "baseline", "v0", "--cases", "1")[0] == 0
    code, text, errors = gpuemu_output(capsys, "diff", "--baseline", "v1", "--format", "json")
    assert (code, text) == (2, "")
    assert "Known baselines: v0." in errors
    assert gpuemu_output(capsys, "baseline", "@saved")[0] == 2


def test_outside_of_a_project(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("GPUEMU_CONFIG", raising=False)
    assert gpuemu_output(capsys, "baseline", "v1")[0] == 2
    assert gpuemu_output(capsys, "diff", "--baseline", "v1")[0] == 2
