"""Triton kernels and launches of a `.py`, read without importing it."""

from __future__ import annotations

from gpuemu_lsp.engine.source.python import read_python

TEXT = """\
import triton
import triton.language as tl
from triton import jit


@triton.jit
def helper(x):
    return x * 2


@triton.autotune(configs=[], key=["n"])
@triton.heuristics({"EVEN": lambda args: args["n"] % 2 == 0})
@triton.jit
def scale(x, y, n, factor: float, EVEN: "tl.constexpr", BLOCK: tl.constexpr = 128, *, extra=None):
    tl.store(y, helper(tl.load(x)))


@jit(debug=True)
def second(x):
    pass


def not_a_kernel(x):
    pass


def run(x, y):
    scale[(triton.cdiv(x.numel(), 128),)](x, y, x.numel(), 2.0, BLOCK=128, num_warps=4)
    table[0](x)


second[1, 2](None)
"""


def test_kernels_have_their_parameters_and_decorators():
    source = read_python("/p/model.py", TEXT)
    assert [kernel.name for kernel in source.triton] == ["helper", "scale", "second"]
    helper, scale, second = source.triton
    assert [(param.name, param.constexpr, param.default) for param in scale.params] == [
        ("x", False, None),
        ("y", False, None),
        ("n", False, None),
        ("factor", False, None),
        ("EVEN", True, None),
        ("BLOCK", True, "128"),
        ("extra", False, "None"),
    ]
    assert scale.autotuned and scale.heuristics and scale.launched
    assert not helper.launched and second.launched and not second.autotuned
    line = TEXT.split("\n")[scale.name_range.start.line]
    assert line[scale.name_range.start.column : scale.name_range.end.column] == "scale"


def test_launches_have_grid_arguments_and_keywords():
    first, second = read_python("/p/model.py", TEXT).launches
    assert (first.kernel, first.grid, first.function) == ("scale", "(triton.cdiv(x.numel(), 128),)", "run")
    assert first.arguments == ("x", "y", "x.numel()", "2.0")
    assert first.keywords == {"BLOCK": "128", "num_warps": "4"}
    assert (second.kernel, second.grid, second.function) == ("second", "1, 2", None)


def test_a_broken_file_still_has_its_other_kernels():
    broken = TEXT + "\n\n@triton.jit\ndef third(x:\n"
    assert {kernel.name for kernel in read_python("/p/model.py", broken).triton} >= {"helper", "scale"}
