"""Whose fault an exception is, what a failed build says, and what a row says of other sizes."""

from __future__ import annotations

from pathlib import Path

import pytest

from gpuemu.judge import judgement
from gpuemu.judge.messages import compiler_error, is_missing_here
from gpuemu.judge.model import Answer, Row, Verdict
from gpuemu.judge.raised import Raised


@pytest.mark.parametrize(
    ("line", "error", "missing"),
    [
        ("cuda.cu:3:10: fatal error: cufft.h: No such file or directory", "", True),
        ("/x/curand_kernel.h:2:2: error: #error the package of its own: pip install x", "/x/", True),
        ("cuda.cu:3:10: fatal error: cutlass/gemm.h: No such file or directory", "", False),
        ('/tmp/y/cuda.cu(7): error: class "uint3" has no member "w"', "/tmp/y/", False),
    ],
)
def test_the_first_error_of_a_compiler(line, error, missing):
    text = f"Error building extension 'x': [1/3] nvcc -c cuda.cu\nFAILED: [code=1]\n{line}\n  at 1\n2 errors\n"
    assert compiler_error(text) == line.removeprefix(error)
    assert is_missing_here(compiler_error(text)) is missing


def test_a_text_without_an_error():
    assert compiler_error("CUDA_HOME is not set") == ""
    assert not is_missing_here("")


@pytest.mark.parametrize(
    ("error", "building", "builds"),
    [("RuntimeError", True, True), ("CompilationError", False, True), ("RuntimeError", False, False)],
)
def test_extensions_that_a_constructor_builds(error, building, builds):
    assert Raised(error, "x", building).is_build_error is builds


def test_what_only_sizes_that_tiles_do_not_divide_show_is_noted():
    answer = Answer("a", Path("a.py"), Path("t.py"))
    small = Row(answer, Verdict.UNSAFE, "memory/global-race at a.py:3: two blocks write y[0]")
    aligned = Row(answer, Verdict.DIFFERS, "y[0] = 1, expected 2")
    row = judgement._confirmed(small, aligned)
    assert (row.verdict, row.reason) == (Verdict.DIFFERS, aligned.reason)
    assert row.notes == (f"at sizes that the tiles of kernels do not divide: {small.reason}",)
