"""``gpuemu coverage``: lines and branch outcomes reached and not reached."""

from __future__ import annotations

import json

import pytest

from gpuemu_lsp.cli.gpuemu import main as gpuemu

KERNEL = """\
__global__ void scale(const float* x, float* y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        y[i] = 2.0f * x[i];
        if (n == 4000)
            y[0] = 1.0f;
    }
}
"""
CLEAN = "def reference(inputs, **kwargs):\n    return 2.0 * inputs['x']\n"


@pytest.fixture
def here(project, monkeypatch):
    project.write(kernel=KERNEL, reference=CLEAN)  # n is 300 at most
    monkeypatch.chdir(project.root)
    return project


def test_unreachable_lines_are_listed(here, capsys):
    assert gpuemu(["coverage", "--cases", "12", "--fail-under", "50"]) == 0
    text = capsys.readouterr().out
    assert "6: not reached: y[0] = 1.0f;" in text
    assert "5: never goes to line 6: if (n == 4000)" in text
    assert "Reached " in text and "in 12 cases" in text
    assert gpuemu(["coverage", "--cases", "12", "--fail-under", "100"]) == 1
    assert "less than 100 %" in capsys.readouterr().err


def test_formats_agree(here, capsys):
    assert gpuemu(["coverage", "--cases", "4", "--format", "json"]) == 0
    (file,) = json.loads(capsys.readouterr().out)["files"]
    assert file["path"] == "scale.cu" and file["uncovered"] == [5] and file["reached"] == file["lines"] - 1
    target = here.root / "coverage.info"
    assert gpuemu(["coverage", "--cases", "4", "--format", "lcov", "--output", str(target)]) == 0
    lines = target.read_text().splitlines()
    assert f"SF:{here.root / 'scale.cu'}" in lines and lines[-1] == "end_of_record"
    counts = dict(line.removeprefix("DA:").split(",") for line in lines if line.startswith("DA:"))
    assert [line for line, hit in counts.items() if hit == "0"] == ["6"]
    assert f"LF:{file['lines']}" in lines and f"LH:{file['reached']}" in lines
    assert gpuemu(["coverage", "--cases", "4", "--format", "codecov"]) == 0
    hits = json.loads(capsys.readouterr().out)["coverage"]["scale.cu"]
    assert hits["6"] == 0 and hits["4"] == 1 and hits["5"] == "1/2"


def test_a_kernel_that_does_not_run_is_not_covered(here, capsys):
    here.write(reference="raise SystemExit\n")
    assert gpuemu(["coverage"]) != 0
    captured = capsys.readouterr()
    assert "scale: no case ran" in captured.out and "No line was covered." in captured.out
    assert gpuemu(["coverage", "--executor", "gpu"]) == 2
    assert gpuemu(["coverage", "nothing.cu"]) == 2
