"""Kernels of languages whose programs launch them, by their decorators."""

from __future__ import annotations

import pytest

from gpuemu_lsp.engine.source.python import may_have_launching, read_python

CUTE = """\
import cutlass.cute as cute


@cute.kernel
def scale(x: cute.Tensor):
    x[0] = 2


class Gemm:
    @cute.kernel
    def kernel(self, a: cute.Tensor):
        pass

    @cute.jit
    def __call__(self, a: cute.Tensor):
        self.kernel(a).launch(grid=(1, 1, 1), block=(1, 1, 1))


def build(n):
    @cute.kernel
    def inner(x: cute.Tensor):
        x[0] = n

    return inner
"""
WARP = "import warp as wp\n\n@wp.kernel(enable_backward=False)\ndef k(x: wp.array(dtype=float)):\n    pass\n"


def kernels(text):
    return [
        (kernel.language, kernel.name, kernel.name_range.start.line) for kernel in read_python("/p", text).launching
    ]


def test_decorated_functions_are_kernels_with_the_names_around_them():
    assert kernels(CUTE) == [("cute", "scale", 4), ("cute", "Gemm.kernel", 10), ("cute", "build.inner", 20)]
    assert kernels(WARP) == [("warp", "k", 3)]


@pytest.mark.parametrize(
    "text",
    [
        CUTE.replace("import cutlass.cute as cute", "import cute"),
        CUTE.replace("@cute.kernel", "@cute.jit"),
        CUTE.replace("@cute.kernel", "@cute.kernel.cached"),
    ],
    ids=["without-the-package", "another-decorator", "an-attribute-of-it"],
)
def test_other_functions_are_not(text):
    assert kernels(text) == []
    assert not may_have_launching(text)
