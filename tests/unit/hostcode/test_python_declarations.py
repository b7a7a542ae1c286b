"""Python modules as programs that launch the kernels in their strings."""

from __future__ import annotations

from dataclasses import replace

import pytest

from gpuemu_lsp.engine.hostcode.assumptions import HostAssumptions
from gpuemu_lsp.engine.hostcode.launches import interpret, roots
from gpuemu_lsp.engine.hostcode.python.declarations import program_of
from gpuemu_lsp.engine.hostcode.values import HostLaunch
from gpuemu_lsp.engine.source import read
from gpuemu_lsp.engine.source.model import EmbeddingModule
from gpuemu_lsp.engine.source.python import read_python

CODE = "'extern \"C\" __global__ void k(float* x, float* y, int n) {}'"
HEAD = f"import math\nimport cupy as cp\nk = cp.RawKernel({CODE}, 'k')\nB = 128\n"
MODULE = f"mod = SourceModule({CODE})\nB = 128\n"


def launches(text: str, string: int = 0) -> list[HostLaunch]:
    """Return the launches of the kernel ``k`` in one string of a module."""
    cuda = read_python("/p/model.py", text).cuda[string]
    program = program_of(replace(read("/p/model.py", cuda.text.text), module=EmbeddingModule(text, string)))
    assert program is not None
    runs = [interpret(program, root, HostAssumptions()) for root in roots(program, ["k"])]
    return [launch for run in runs for launch in run.launches]


def sizes(launch: HostLaunch) -> str:
    """Return grid and block, and the arguments that are numbers."""
    numbers = [value for value in launch.arguments if type(value).__name__ == "Size"]
    return " ".join(map(str, (*launch.grid, *launch.block, *numbers)))


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("k(((n + B - 1) // B,), (B,), (x, y, n))", "ceil_div(n, 128) 128 n"),
        ("k((-(-n // B), 2), (B, 2), (x, y, cp.int32(n)))", "ceil_div(n, 128) 2 128 2 n"),
        ("n = x.size; g = math.ceil(n / B); k((g,), (B,), (x, y, n))", "ceil_div(x_numel, 128) 128 x_numel"),
        ("k((x.shape[0],), (B,), (x, y, int(x.shape[1])))", "x_size_0 128 x_size_1"),
        ("k[(n + 1) // 2, 64](x, y, n)", "ceil_div(n, 2) 64 n"),
        ("args = (x, y, n); k((n,), (32,), args)", "n 32 n"),
        ("k(grid=(n,), block=(32,), args=(x, y, n))", "n 32 n"),
        ("k(x, y, n, grid=(n, 1), block=(32, 1, 1))", "n 32 n"),
        ("[k, None][0]((n,), (32,), (x, y, n))", "n 32 n"),
        ("kernels = {'k': k}; kernels['k']((n,), (32,), (x, y, n))", "n 32 n"),
    ],
)
def test_a_kernel_is_launched_by_calling_it(body: str, expected: str) -> None:
    (launch,) = launches(f"{HEAD}def f(x, y, n):\n    {body}\n")
    assert (launch.kernel, launch.path, launch.line, sizes(launch)) == ("k", "/p/model.py", 5, expected)


@pytest.mark.parametrize(
    "text",
    [
        "f = mod.get_function('k')\ndef g(a, n):\n    f(In(a), a, n, block=(B, 1, 1), grid=((n + B - 1) // B, 1))\n",
        "def g(a, n):\n    mod.get_function('k')(a, Out(a), n, grid=(-(-n // B), 1), block=(B, 1, 1))\n",
        "class C:\n    def __init__(self):\n        self.f = mod.get_function('k')\n        self.b = B\n"
        "    def g(self, a, n):\n        self.f(a, a, n, grid=(-(-n // self.b), 1), block=(self.b, 1, 1))\n",
        "def get(): return mod.get_function('k')\ndef g(a, n):\n    get()((-(-n // B),), (B,), (a, a, n))\n",
    ],
)
def test_a_kernel_of_a_module_is_launched(text: str) -> None:
    (launch,) = launches(MODULE + text)
    assert sizes(launch) == "ceil_div(n, 128) 128 n"


@pytest.mark.parametrize("call", ["k(*launch)", "k((n,), (256,), (x, *others))", "other((n,), (256,), (x, y, n))"])
def test_a_call_whose_arguments_are_not_known_launches_nothing(call: str) -> None:
    assert all(not launch.arguments for launch in launches(f"{HEAD}def f(x, y, n):\n    {call}\n"))


def test_each_string_has_its_own_kernel() -> None:
    """Also if two have one name, in one variable."""
    kernel = "    k = cp.RawKernel({}, 'k')\n    k(({},), (1,), (x, x, n))\n"
    second = CODE.replace("{}", "{ return; }")
    text = f"def f(x, n):\n{kernel.format(CODE, 'n')}def g(x, n):\n{kernel.format(second, '2 * n')}"
    assert [[sizes(launch) for launch in launches(text, string)] for string in (0, 1)] == [["n 1 n"], ["2 * n 1 n"]]


def test_a_variable_of_the_module_has_its_value_in_both_branches() -> None:
    body = "    if n > 4:\n        k((n,), (B,), (x, y, n))\n    else:\n        k((1,), (B,), (x, y, n))\n"
    assert [sizes(launch) for launch in launches(f"{HEAD}def f(x, y, n):\n{body}")] == ["n 128 n", "1 128 n"]


def test_what_a_function_assigns_to_the_module_is_not_known() -> None:
    text = f"{HEAD}def tune():\n    global B\n    B = 64\ndef f(x, y, n):\n    k((n,), (B,), (x, y, n))\n"
    (launch,) = launches(text)
    assert launch.block == (None,)
