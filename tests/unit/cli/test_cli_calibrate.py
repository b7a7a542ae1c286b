"""``gpuemu calibrate``: tolerances fitted to some cases, validated on others, and written to gpuemu.toml."""

from __future__ import annotations

import re

import pytest
import tomli

from gpuemu_lsp.cli.gpuemu import main as gpuemu
from gpuemu_lsp.engine.jobs.calibration import percentile, rounded_up

KERNEL = """\
template <typename T>
__global__ void third(const T* x, T* y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = T(float(x[i]) / 3.0f * 1.1f);
}
__global__ void copy(const float* x, float* y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = x[i];
}
__global__ void wrong(const float* x, float* y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = x[i] * 0.3f;
}
"""
TOML = """\
# my project   (an unusual   layout, kept)
[[kernels]]
name="third"   # no spaces
source = "scale.cu"
reference = "ref.py"
entry = "third<{T}>"
dtypes = ["float32", "float16"]

  [kernels.tolerances]   # mine
  float32 = 0.5    # far too much

[[kernels]]
name = "copy"
source = "scale.cu"
reference = "ref.py:same"

[[kernels]]
name = "wrong"
source = "scale.cu"
reference = "ref.py"
# the end
"""
REFERENCE = """\
def reference(inputs, **kwargs):
    return inputs["x"] / 3.0 * 1.100000023841858
def same(inputs, **kwargs):
    return inputs["x"]
"""


@pytest.fixture
def here(project, monkeypatch):
    project.write(kernel="#include <cuda_fp16.h>\n" + KERNEL, toml=TOML, reference=REFERENCE)
    monkeypatch.chdir(project.root)
    return project.root


def written(here):
    text = (here / "gpuemu.toml").read_text()
    return text, tomli.loads(text)["kernels"]


def test_tolerances_are_written_and_other_text_is_kept(here, capsys):
    assert gpuemu(["calibrate", "--cases", "12", "-k", "third", "-k", "copy"]) == 0
    out = capsys.readouterr().out
    assert "copy: no tolerance: all its outputs are exact" in out
    text, kernels = written(here)
    found = kernels[0]["tolerances"]
    assert 0 < found["float32"] < 1e-6 < found["float16"] < 1e-2
    lines = [line for line in text.splitlines() if "gpuemu calibrate:" not in line and "float16 =" not in line]
    assert lines == [line.replace("0.5 ", f"{found['float32']:g} ") for line in TOML.splitlines()]
    notes = re.findall(r"# gpuemu calibrate: float\d\d: p95 x 1.5 of \d+ cases \(seed 42\), .*; 0 of 24 other", text)
    assert len(notes) == 2
    assert gpuemu(["test", "third", "--quick"]) == 0
    # A second calibration replaces the evidence of the first.
    assert gpuemu(["calibrate", "--cases", "12", "-k", "third", "--seed", "7"]) == 0
    again, _ = written(here)
    assert len(again.splitlines()) == len(text.splitlines()) and "(seed 7)" in again and "(seed 42)" not in again


def test_a_tolerance_that_held_out_cases_exceed_is_not_written(here, capsys):
    flags = ["-k", "third", "--cases", "8", "--percentile", "0", "--margin", "0.01"]
    assert gpuemu(["calibrate", *flags]) == 1
    assert "not written" in capsys.readouterr().out
    assert written(here)[0] == TOML


def test_a_failing_kernel_gets_no_tolerance(here, capsys):
    assert gpuemu(["calibrate", "--cases", "8", "-k", "wrong"]) == 1
    assert "wrong: no tolerance: it fails" in capsys.readouterr().out
    assert written(here)[0] == TOML


def test_fixed_tables_and_dry_run(here, capsys):
    assert gpuemu(["calibrate", "--cases", "8", "-k", "third", "--profile", "default", "--dry-run"]) == 0
    assert written(here)[0] == TOML
    assert gpuemu(["calibrate", "--cases", "8", "-k", "third", "--profile", "default"]) == 0
    found = written(here)[1][0]["tolerances"]
    assert found == {"float32": {"atol": 1e-5, "rtol": 1e-4}, "float16": {"atol": 1e-3, "rtol": 1e-2}}


def test_nothing_to_calibrate(here, capsys):
    assert gpuemu(["calibrate", "-k", "fourth"]) == 2
    (here / "gpuemu.toml").unlink()
    assert gpuemu(["calibrate"]) == 2


def test_percentile_and_rounding():
    assert [percentile(range(100), percent) for percent in (0, 50, 95, 100)] == [0, 50, 94, 99]
    assert percentile([3.0], 95) == 3.0
    assert [rounded_up(value) for value in (0.0, 1.21e-7, 9.99e-4, 2.0)] == [0.0, 1.3e-7, 1e-3, 2.0]
