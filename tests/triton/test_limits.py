"""Limits of time, autotuners and benchmarks: what runs, and what a launch that does not finish says."""

from __future__ import annotations

import subprocess
import sys

import pytest
import torch
import triton
import triton.language as tl

from gpuemu.triton import KernelError, emulated


@triton.jit
def repeat(x, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    value = tl.load(x + offsets)
    for index in range(n):
        value = value * 0.999 + index
    tl.store(x + offsets, value)


def test_a_launch_beyond_its_time_is_a_timeout_and_not_a_hang():
    x = torch.ones(64 * 1024)
    with emulated(seconds=2) as session, pytest.raises(KernelError, match=r"did not finish within 2 s.*engine/timeout"):
        repeat[(64,)](x, 2**31 - 1, BLOCK=1024)
    assert [finding.rule for finding in session.findings] == ["engine/timeout"]


def scaled(configs):
    @triton.autotune(configs=configs, key=["n"])
    @triton.jit
    def scale(x, n, BLOCK: tl.constexpr):
        offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
        tl.store(x + offsets, tl.load(x + offsets, mask=offsets < n) * 2, mask=offsets < n)

    return scale


SIZES = [triton.Config({"BLOCK": size}) for size in (64, 128, 256)]


@pytest.mark.parametrize("which, launches", [("once", [3 + 1, 1 + 1]), ("all", [3 + 1, 3 + 1]), ("first", [2, 2])])
def test_configurations_of_an_autotuner(which, launches):
    scale = scaled(SIZES)
    with emulated(configurations=which) as session:
        counts = []
        for n in (100, 300):
            before = len(session.launches)
            scale[lambda meta, n=n: (triton.cdiv(n, meta["BLOCK"]),)](torch.ones(n), n)
            counts.append(len(session.launches) - before)
    assert counts == launches


def test_a_configuration_that_does_not_fit_is_not_chosen():
    @triton.autotune(configs=[triton.Config({}, num_stages=stages) for stages in (60, 2)], key=["n"])
    @triton.jit
    def product(x, out, n, N: tl.constexpr):
        rows, columns = tl.arange(0, N), tl.arange(0, N)
        total = tl.zeros((N, N), tl.float32)
        for start in range(0, n, N):
            a = tl.load(x + rows[:, None] * n + start + columns[None, :])
            b = tl.load(x + columns[None, :] * n + start + rows[:, None])
            total = tl.dot(a, b, total)
        tl.store(out + rows[:, None] * N + columns[None, :], total)

    with emulated(configurations="first") as session:
        x, out = torch.ones(32, 64, dtype=torch.float16), torch.zeros(32, 32)
        product[(1,)](x, out, 64, N=32)
    assert (out == 64).all() and {record.status for record in session.launches} == {"completed"}
    assert len(session.launches) == 2


def test_benchmarks_run_once():
    x = torch.ones(1024)
    with emulated() as session:
        assert triton.testing.do_bench(lambda: repeat[(1,)](x, 1, BLOCK=1024)) > 0
        assert len(triton.testing.do_bench(lambda: repeat[(1,)](x, 1, BLOCK=1024), quantiles=[0.5, 0.2, 0.8])) == 3
    assert len(session.launches) == 2


def test_constexprs_at_the_end_of_a_compiled_kernels_arguments_may_be_left_out():
    x = torch.ones(1024)
    with emulated() as session:
        compiled = repeat[(1,)](x, 3, BLOCK=1024)
        compiled[(1, 1, 1)](x, 3)
        with pytest.raises(TypeError, match="a launch with 1 arguments of a kernel with 3"):
            compiled[(1, 1, 1)](x)
    assert len(session.launches) == 2


def test_registers_of_a_compiled_kernel_are_a_number_to_divide_by():
    with emulated():
        compiled = repeat.warmup(torch.ones(1024), 3, BLOCK=1024, grid=(1,))
        compiled._init_handles()
    assert compiled.n_regs > 0 and compiled.n_spills == 0


SUITE = """
import pytest, torch, triton, triton.language as tl

@triton.jit
def double(x, n, BLOCK: tl.constexpr):
    offsets = tl.arange(0, BLOCK)
    tl.store(x + offsets, tl.load(x + offsets, mask=offsets < n) * 2)

def test_double():
    x = torch.ones(100, device="cuda")
    try:
        double[(1,)](x, 100, BLOCK=128)
    except Exception:
        pass

def test_nothing():
    pass
"""


def test_a_test_that_handles_the_exception_fails_nevertheless(tmp_path):
    (tmp_path / "test_suite.py").write_text(SUITE)
    command = [sys.executable, "-m", "pytest", "-q", "--gpuemu-triton", "-p", "no:cacheprovider", "test_suite.py"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=280)
    assert done.returncode == 1 and "1 failed, 1 passed" in done.stdout, done.stdout + done.stderr
    assert "x[100] is out of bounds" in done.stdout and "1 launches of 1 kernels" in done.stdout
    command += ["-k", "nothing"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=280)
    assert "no test launched a Triton kernel: nothing was checked" in done.stdout


def test_kernels_are_released_after_their_session():
    with emulated():
        compiled = repeat.warmup(torch.ones(1024), 3, BLOCK=1024, grid=(1,))
        compiled._init_handles()
    compiled.__del__()
