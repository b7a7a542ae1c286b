"""Launches in Python of kernels in strings, as host code."""

from __future__ import annotations

import pytest

from gpuemu_lsp.engine.source import read
from gpuemu_lsp.engine.source.python import read_python

HEAD = "import math\nk = cp.RawKernel('extern \"C\" __global__ void k(float* x, float* y, int n) {}', 'k')\nB = 128\n"
MODULE = "mod = SourceModule('__global__ void k(float* x, float* y, int n) {}')\nB = 128\n"


def launch(text):
    (cuda,) = read_python("/p/model.py", text).cuda
    found = read("/p/model.py", cuda.text.text + "\n" + "".join(one.text for one in cuda.launches)).launches
    return found[0] if found else None


@pytest.mark.parametrize(
    ("text", "grid", "block", "arguments"),
    [
        ("def f(x, y, n):\n    k(((n + B - 1) // B,), (B,), (x, y, n))", ("((((n + B) - 1)) / B)",), ("B",), "x y n"),
        (
            "def f(x, y, n):\n    k((-(-n // B), 2), (B, 2), (x, y, cp.int32(n)))",
            ("ceil_div(n, B)", "2"),
            ("B", "2"),
            "x y n",
        ),
        (
            "def f(x, y):\n    n = x.size\n    g = math.ceil(n / B)\n    k((g,), (B,), (x, y, n))",
            ("g",),
            ("B",),
            "x y n",
        ),
        (
            "def f(x, y):\n    k((x.shape[0],), (B,), (x, y, np.int32(x.shape[1])))",
            ("x.size(0)",),
            ("B",),
            "x y x.size(1)",
        ),
        ("def f(x, y, n):\n    k[(n + 1) // 2, 64](x, y, n)", ("(((n + 1)) / 2)",), ("64",), "x y n"),
    ],
)
def test_launches_of_raw_kernels(text, grid, block, arguments):
    found = launch(HEAD + text + "\n")
    assert found is not None and found.kernel == "k"
    assert found.grid == grid and found.block == block and " ".join(found.arguments) == arguments


@pytest.mark.parametrize(
    "text",
    [
        "f = mod.get_function('k')\ndef g(a, n):\n    f(drv.In(a), a, np.int32(n), block=(B, 1, 1), grid=((n + B - 1) // B, 1))\n",
        "def g(a, n):\n    mod.get_function('k')(a, drv.Out(a), np.int32(n), grid=(-(-n // B), 1), block=(B, 1, 1))\n",
    ],
)
def test_launches_of_pycuda(text):
    found = launch(MODULE + text)
    assert found is not None and found.kernel == "k" and found.block == ("B", "1", "1") and found.arguments[2] == "n"


@pytest.mark.parametrize(
    "text",
    [
        "k((4,), (256,), (x, y, 1000))",
        "k((cfg.grid,), (256,), (x, y, n))",
        "k(*launch)",
        "k((math.floor(n / 2),), (256,), (x, y, n))",
        "other((n,), (256,), (x, y, n))",
    ],
)
def test_launches_that_say_nothing_are_left_out(text):
    assert launch(f"{HEAD}def f(x, y, n):\n    {text}\n") is None


def test_a_variable_of_two_kernels_says_nothing():
    text = "def f(x, n):\n    k = cp.RawKernel('a', 'a')\n    k((n,), (1,), (x, n))\ndef g(x, n):\n    k = cp.RawKernel('b', 'b')\n"
    assert not [one for cuda in read_python("/p/model.py", text).cuda for one in cuda.launches]
