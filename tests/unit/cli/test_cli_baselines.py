"""``gpuemu baseline`` and ``gpuemu diff`` on a real project: exit codes, what is told, and what is not."""

from __future__ import annotations

import json

import pytest
from support.passing_project import KERNEL, REFERENCE, told

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


def test_an_unchanged_kernel_is_silent_also_after_moving_its_lines(here, capsys):
    assert told(capsys, "baseline", "v1")[0] == 0
    here.write(kernel="// a comment\n\n" + KERNEL.replace("int i ", "int  i  "))
    code, text, _ = told(capsys, "diff", "--baseline", "v1", "--fail-on-regression")
    assert (code, text) == (0, "Against the baseline 'v1': 1 unchanged.\n")


def test_a_numeric_regression(here, capsys):
    assert told(capsys, "baseline", "v1", "--cases", "8")[0] == 0
    here.write(kernel=KERNEL.replace("2.0f * x[i]", "2.0002f * x[i]"))
    code, text, _ = told(capsys, "diff", "--baseline", "v1", "--fail-on-regression")
    assert code == 1
    assert "passed -> failed  (regression)" in text
    assert "scale.cu:4: y[i] = 2.0002f * x[i];" in text
    assert "f32:2.0002" in text
    assert told(capsys, "diff", "--baseline", "v1")[0] == 0
    code, text, _ = told(capsys, "diff", "--baseline", "v1", "--fail-on-regression", "--format", "json")
    document = json.loads(text)
    assert code == 1
    assert document["kernels"][0]["changed_lines"] == [{"path": "scale.cu", "line": 3}]
    assert {"numeric/regression"} <= {finding["rule"] for finding in document["findings"]}


def test_a_register_regression_of_a_correct_kernel(here, capsys):
    assert told(capsys, "baseline", "v1", "--cases", "4")[0] == 0
    here.write(kernel=HEAVY)
    code, text, _ = told(capsys, "diff", "--baseline", "v1", "--fail-on-regression", "--format", "json")
    (kernel,) = json.loads(text)["kernels"]
    deltas = {delta["name"]: delta for delta in kernel["resources"]}
    assert code == 1
    assert deltas["registers"]["verdict"] == "regression"
    assert deltas["registers"]["after"] > deltas["registers"]["before"]


def test_an_improvement_is_none(here, capsys):
    here.write(kernel=HEAVY)
    assert told(capsys, "baseline", "v1", "--cases", "4")[0] in (0, 1)
    here.write(kernel=KERNEL)
    code, text, _ = told(capsys, "diff", "--baseline", "v1", "--fail-on-regression")
    assert code == 0
    assert "(improvement)" in text


def test_kernels_come_and_go(here, capsys):
    assert told(capsys, "baseline", "v1", "--cases", "4")[0] == 0
    toml = (here.root / "gpuemu.toml").read_text()
    here.write(toml=toml + toml.replace('name = "scale"', 'name = "again"\nentry = "scale"'))
    code, text, _ = told(capsys, "diff", "--baseline", "v1")
    assert code == 0
    assert "again (float32, sm_80): appeared" in text
    assert told(capsys, "baseline", "v2", "--cases", "4")[0] == 0
    here.write(toml=toml)
    assert "again (float32, sm_80): vanished" in told(capsys, "diff", "--baseline", "v2")[1]


def test_a_kernel_that_does_not_compile_any_more(here, capsys):
    assert told(capsys, "baseline", "v1", "--cases", "4")[0] == 0
    here.write(kernel=KERNEL.replace("y[i] =", "y[i] ="[:-1]))
    code, text, _ = told(capsys, "diff", "--baseline", "v1", "--fail-on-regression")
    assert code == 1
    assert "passed -> error" in text
    assert told(capsys, "diff", "--baseline", "v1")[0] == 0
    assert told(capsys, "baseline", "broken")[0] == 1


def test_no_such_baseline(here, capsys):
    code, _, errors = told(capsys, "diff", "--baseline", "v1")
    assert code == 2
    assert "gpuemu baseline v1" in errors
    assert told(capsys, "baseline", "v0", "--cases", "1")[0] == 0
    code, text, errors = told(capsys, "diff", "--baseline", "v1", "--format", "json")
    assert (code, text) == (2, "")
    assert "There are: v0." in errors
    assert told(capsys, "baseline", "@saved")[0] == 2


def test_outside_of_a_project(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("GPUEMU_CONFIG", raising=False)
    assert told(capsys, "baseline", "v1")[0] == 2
    assert told(capsys, "diff", "--baseline", "v1")[0] == 2
