"""Whose fault an exception is, and what a failed build says."""

from __future__ import annotations

import pytest

from gpuemu.judge.messages import compiler_error, is_missing_here
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
