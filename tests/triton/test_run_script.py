"""``gpuemu run`` of Python programs: scripts and test suites whose launches are Triton's."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

GPUEMU = (sys.executable, "-m", "gpuemu_lsp.cli.gpuemu", "run", "--format", "json")

KERNEL = """
import sys
import torch
import triton
import triton.language as tl


@triton.jit
def double(x, out, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + i, tl.load(x + i, mask=i < n) * 2, mask=i < n)
"""
SCRIPT = """
x = torch.rand(1000, device="cuda")
out = torch.empty_like(x)
double[(4,)](x, out, 1000, BLOCK=256)
assert torch.equal(out, 2 * x)
print(sys.argv[1:])
sys.exit(3)
"""
SUITE = """
def test_double():
    x = torch.rand(1000, device="cuda")
    out = torch.empty_like(x)
    double[(4,)](x, out, 1000, BLOCK=256)
    assert torch.equal(out, 2 * x)
"""


def run(folder: Path, *words: str) -> tuple[subprocess.CompletedProcess[str], dict]:
    output = folder / "result.json"
    command = [*GPUEMU, "--output", str(output), *words]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=120, check=False)
    return done, json.loads(output.read_text())


def test_a_script_keeps_its_arguments_and_exit_code(tmp_path: Path) -> None:
    (tmp_path / "script.py").write_text(KERNEL + SCRIPT)
    done, result = run(tmp_path, "script.py", "--", "-a", "1")
    assert (done.stdout, done.returncode) == ("['-a', '1']\n", 3), done.stderr
    assert (result["launches"], result["checked"], result["findings"]) == (1, 1, [])


def test_a_load_without_a_mask_is_found_on_its_line(tmp_path: Path) -> None:
    text = (KERNEL + SCRIPT).replace("tl.load(x + i, mask=i < n)", "tl.load(x + i)")
    (tmp_path / "script.py").write_text(text)
    done, result = run(tmp_path, "script.py")
    assert done.returncode == 1, done.stderr
    line = next(number for number, one in enumerate(text.splitlines()) if "tl.load" in one)
    assert {(one["rule"], one["range"]["start"]["line"]) for one in result["findings"]} == {
        ("memory/out-of-bounds", line)
    }


def test_a_suite_runs(tmp_path: Path) -> None:
    (tmp_path / "test_double.py").write_text(KERNEL + SUITE)
    done, result = run(tmp_path, "-m", "pytest", "--", "-q", "test_double.py")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "1 passed" in done.stdout
    assert (result["launches"], result["checked"]) == (1, 1)


def test_a_script_that_raises_has_pythons_exit_code(tmp_path: Path) -> None:
    (tmp_path / "script.py").write_text(KERNEL + SCRIPT.replace("sys.exit(3)", "raise ValueError('no')"))
    done, result = run(tmp_path, "script.py")
    assert (done.returncode, result["exit_status"]) == (1, 1)
    assert "ValueError: no" in done.stderr


def test_cupy_says_what_cannot_run(tmp_path: Path) -> None:
    pytest.importorskip("cupy")
    (tmp_path / "script.py").write_text("import cupy\nx = cupy.arange(3)\n")
    done, result = run(tmp_path, "script.py")
    assert done.returncode == 2
    assert any("CuPy's arrays need CUDA's own runtime" in note for note in result["notes"])
