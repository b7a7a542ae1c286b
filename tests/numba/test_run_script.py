"""``gpuemu run`` of Python programs whose kernels are numba-cuda's: a script and a test suite."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

GPUEMU = (sys.executable, "-m", "gpuemu_lsp.cli.gpuemu", "run", "--format", "json")

KERNELS = """
import sys
import numpy as np
from numba import cuda, float32


@cuda.jit
def saxpy(a, x, y):
    i = cuda.grid(1)
    if i < x.size:  # guard
        y[i] = a * x[i] + y[i]


@cuda.jit
def block_sum(x, out):
    part = cuda.shared.array(128, float32)
    t = cuda.threadIdx.x
    part[t] = x[t] if t < x.size else 0
    cuda.syncthreads()
    step = 64
    while step > 0:
        if t < step:
            part[t] += part[t + step]
        cuda.syncthreads()  # barrier
        step //= 2
    if t == 0:
        out[0] = part[0]
"""
SCRIPT = """
def main(n):
    assert cuda.is_available() and len(cuda.gpus) == 1
    x = cuda.to_device(np.arange(n, dtype=np.float32))
    y = cuda.to_device(np.ones(n, np.float32))
    for _ in range(2):
        saxpy[(n + 127) // 128, 128](2, x, y)
    total = cuda.device_array(1, np.float32)
    block_sum[1, 128](y[:100], total)
    print(total.copy_to_host()[0])


if __name__ == "__main__":
    main(int(sys.argv[1]))
    sys.exit(3)
"""
SUITE = """
import pytest

pytestmark = pytest.mark.skipif(not cuda.is_available(), reason="needs a GPU")


@pytest.mark.parametrize("n", [100, 128])
def test_saxpy(n):
    x, y = np.ones(n, np.float32), np.ones(n, np.float32)
    saxpy[1, 128](2, x, y)
    assert (y == 3).all()


def test_block_sum():
    total = np.zeros(1, np.float32)
    block_sum[1, 128](np.ones(100, np.float32), total)
    assert total[0] == 100
"""
BUGS = {
    "guard": ("if i < x.size:", "if i <= x.size:", "y[i] = a * x[i]", "memory/out-of-bounds"),
    "barrier": ("        cuda.syncthreads()  # barrier\n", "", "part[t] += part[t + step]", "memory/shared-race"),
}


def run(folder: Path, *words: str) -> tuple[subprocess.CompletedProcess[str], dict]:
    output = folder / "result.json"
    command = [*GPUEMU, "--output", str(output), *words]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=240, check=False)
    return done, json.loads(output.read_text())


@pytest.mark.parametrize("bug", [None, "barrier"])
def test_a_script(tmp_path: Path, bug: str | None) -> None:
    text = KERNELS + SCRIPT
    if bug is not None:
        text = text.replace(*BUGS[bug][:2])
    (tmp_path / "script.py").write_text(text)
    done, result = run(tmp_path, "script.py", "--", "1000")
    assert result["launches"] == result["checked"] == 3, done.stderr
    if bug is None:
        assert (done.returncode, result["exit_status"], result["findings"]) == (3, 3, []), done.stderr
        assert done.stdout == "19900.0\n"
    else:
        check_findings(done, result, text, bug, "script.py")


@pytest.mark.parametrize("bug", [None, "guard"])
def test_a_suite(tmp_path: Path, bug: str | None) -> None:
    text = KERNELS + SUITE
    if bug is not None:
        text = text.replace(*BUGS[bug][:2])
    (tmp_path / "test_kernels.py").write_text(text)
    done, result = run(tmp_path, "-m", "pytest", "--", "-q", "-p", "no:cacheprovider", "test_kernels.py")
    assert "3 passed" in done.stdout, done.stdout + done.stderr
    assert result["launches"] == result["checked"] == 3
    if bug is None:
        assert (done.returncode, result["findings"]) == (0, []), done.stderr
    else:
        check_findings(done, result, text, bug, "test_kernels.py")


def check_findings(done: subprocess.CompletedProcess[str], result: dict, text: str, bug: str, file: str) -> None:
    *_, where, rule = BUGS[bug]
    line = next(number for number, one in enumerate(text.splitlines()) if where in one)
    assert done.returncode == 1, done.stderr
    assert {(one["rule"], Path(one["path"]).name, one["range"]["start"]["line"]) for one in result["findings"]} == {
        (rule, file, line)
    }
