"""numba-cuda launches in the emulator: results, and findings on the `.py`."""

from __future__ import annotations

import inspect
import subprocess
import sys

import numpy as np
import pytest
from numba import cuda, float32

from gpuemu.numba import KernelError, emulated


def line_of(kernel, text):
    """Return the 1-based line of this file on which `text` stands in a kernel."""
    lines, first = inspect.getsourcelines(kernel.py_func)
    return first + next(index for index, line in enumerate(lines) if text in line)


def found(session):
    return [(finding.rule, finding.place.range.start.line + 1) for finding in session.findings]


@cuda.jit(device=True)
def doubled(values, index):
    return values[index] * 2


@cuda.jit
def add(x, y, out):
    i = cuda.grid(1)
    if i < out.size:
        out[i] = x[i] + doubled(y, i)


@cuda.jit
def add_too_far(x, y, out):
    i = cuda.grid(1)
    if i <= out.size:
        a = x[min(i, x.size - 1)]
        out[i] = a + y[min(i, y.size - 1)]


@pytest.mark.parametrize("n", [1, 255, 256, 1000])
@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int32, np.int8, np.complex64])
def test_results_are_those_of_the_formula(n, dtype):
    x, y = np.arange(n).astype(dtype), (np.arange(n) * 3).astype(dtype)
    out = np.zeros_like(x)
    with emulated() as session:
        add[-(-n // 256), 256](x, y, out)
    assert np.array_equal(out, x + (y * 2).astype(dtype))
    assert [record.status for record in session.launches] == ["completed"] and not session.findings


def test_a_store_past_the_end_is_out_of_bounds_on_its_line():
    x = np.zeros(1000, np.float32)
    with emulated(on_finding="collect") as session:
        add_too_far[4, 256](x, x, np.zeros_like(x))
    assert found(session) == [("memory/out-of-bounds", line_of(add_too_far, "out[i] ="))]
    (finding,) = session.findings
    assert "out[1000]" in finding.message and finding.data["thread"] == [232, 0, 0]


def test_an_error_raises_from_the_launch():
    x = np.zeros(1000, np.float32)
    with emulated(), pytest.raises(KernelError, match="is out of bounds"):
        add_too_far[4, 256](x, x, np.zeros_like(x))


def test_elements_of_a_device_array_are_uninitialised_until_they_are_written():
    n = 512
    with emulated(on_finding="collect") as session:
        x, y = cuda.device_array(n, np.float32), cuda.to_device(np.ones(n, np.float32))
        out = cuda.device_array(n, np.float32)
        add[2, 256](y, y, out)  # writes all of `out`
        add[2, 256](out, y, y)
        assert not session.findings
        x[: n // 2].copy_to_device(np.ones(n // 2, np.float32))
        add[1, 256](x[: n // 2], y, out)  # reads the half that was copied
        assert not session.findings
        add[2, 256](x, y, out)
    assert found(session) == [("memory/uninitialized-read", line_of(add, "out[i] ="))]
    assert "x[256]" in session.findings[0].message


@cuda.jit
def reverse(values, out):
    tile = cuda.shared.array(128, dtype=float32)
    i = cuda.threadIdx.x
    tile[i] = values[i]
    cuda.syncthreads()
    out[i] = tile[127 - i]


@cuda.jit
def reverse_without_barrier(values, out):
    tile = cuda.shared.array(128, dtype=float32)
    i = cuda.threadIdx.x
    tile[i] = values[i]
    out[i] = tile[127 - i]


def test_shared_memory_without_a_barrier_is_a_race_on_its_line():
    x = np.arange(128, dtype=np.float32)
    out = np.zeros_like(x)
    with emulated(on_finding="collect") as session:
        reverse[1, 128](x, out)
        assert np.array_equal(out, x[::-1]) and not session.findings
        reverse_without_barrier[1, 128](x, out)
    assert found(session)
    lines = {line_of(reverse_without_barrier, text) for text in ("tile[i] =", "out[i] =")}
    assert {line for _, line in found(session)} <= lines
    assert {rule for rule, _ in found(session)} <= {"memory/shared-race", "memory/uninitialized-read"}
    assert "memory/shared-race" in dict(found(session)) or "memory/uninitialized-read" in dict(found(session))
    assert {finding.kernel for finding in session.findings} == {"reverse_without_barrier"}
    assert all(" tile" in finding.message for finding in session.findings)


@cuda.jit
def two_arrays(values, out):
    first = cuda.shared.array(32, dtype=float32)
    second = cuda.shared.array(64, dtype=float32)
    i = cuda.threadIdx.x
    first[i % 32] = values[i]
    second[i] = values[i]
    out[i] = first[i % 32] + second[63 - i]


def test_shared_arrays_have_the_names_of_the_source():
    out = np.zeros(64, np.float32)
    with emulated(on_finding="collect") as session:
        two_arrays[1, 64](np.arange(64, dtype=np.float32), out)
    named = {name for finding in session.findings for name in ("first", "second") if f" {name}" in finding.message}
    assert named == {"first", "second"}
    assert not any("_cudapy" in finding.message for finding in session.findings)


@cuda.jit
def histogram(values, counts):
    i = cuda.grid(1)
    if i < values.size:
        cuda.atomic.add(counts, values[i], 1)


@cuda.jit
def histogram_without_atomics(values, counts):
    i = cuda.grid(1)
    if i < values.size:
        counts[values[i]] += 1


def test_an_increment_that_is_not_atomic_is_a_race():
    values = np.random.default_rng(1).integers(0, 8, 1000).astype(np.int32)
    counts = np.zeros(8, np.int32)
    with emulated(on_finding="collect") as session:
        histogram[4, 256](values, counts)
        assert np.array_equal(counts, np.bincount(values, minlength=8)) and not session.findings
        histogram_without_atomics[4, 256](values, counts)
    assert found(session) == [("memory/global-race", line_of(histogram_without_atomics, "+= 1"))]


SUITE = """
import numpy as np
from numba import cuda, types

@cuda.jit("void(float32[::1])")
def fill(x):
    i = cuda.grid(1)
    if i {COMPARISON} x.size:
        x[i] = i

def test_fill():
    x = np.zeros(100, np.float32)
    fill[1, 128](x)
    assert np.array_equal(x, np.arange(100))
"""


@pytest.mark.parametrize(("comparison", "code"), [("<", 0), ("<=", 1)])
def test_the_pytest_option_fails_the_test_that_made_the_launch(tmp_path, comparison, code):
    (tmp_path / "test_suite.py").write_text(SUITE.replace("{COMPARISON}", comparison))
    command = [sys.executable, "-m", "pytest", "-q", "--gpuemu-numba", "-p", "no:cacheprovider", "test_suite.py"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=280)
    assert done.returncode == code, done.stdout + done.stderr
    assert "1 launches" in done.stdout
    assert ("x[100] is out of bounds" in done.stdout) == bool(code)
