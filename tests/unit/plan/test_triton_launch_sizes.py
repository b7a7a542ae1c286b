"""What the functions that launch unregistered Triton kernels say of sizes: limits, relations, and what is uncertain."""

from __future__ import annotations

import pytest

from gpuemu_lsp.engine.plan.wrappers.inference import inferred_kernel
from gpuemu_lsp.engine.plan.wrappers.inferred_kernel import InferredKernel
from gpuemu_lsp.engine.project.model import KernelSpec
from tests.unit.plan.test_triton_launches import infer, shown


def test_a_tensor_whose_shape_is_not_read_is_uncertain():
    found = infer("""
def f(x, y):
    n = x.numel()
    k[(triton.cdiv(n, 64),)](x, y, n, BLOCK=64)
""")
    assert found.uncertain == {"y"}


def test_equal_shapes_are_certain():
    found = infer("""
def f(x, y):
    assert x.shape == y.shape
    n = x.numel()
    k[(triton.cdiv(n, 64),)](x, y, n, BLOCK=64)
""")
    assert not found.uncertain


def test_sizes_have_the_limits_that_assertions_state():
    found = infer(
        """
def f(x):
    M, N = x.shape
    assert N % 16 == 0 and N <= 512
    assert M > 1
    y = torch.empty_like(x)
    rows[(M,)](x, y, N, N, BLOCK=512)
""",
        "rows",
    )
    dims = found.spec.dims
    assert (dims["N"].multiple_of, dims["N"].minimum) == (16, 16)
    assert dims["M"].minimum == 2
    # M has a program for each value, and the kernel compares columns with N.
    assert found.ragged == {"M", "N"}


def test_a_number_that_no_extent_is_equal_to_is_free():
    body = """
def f(x, n):
    m = x.numel()
    y = torch.empty_like(x)
    k[(triton.cdiv(n, 64),)](x, y, n, BLOCK=64)
"""
    assert infer(body).free == {"n"}
    assert not infer(body.replace("m = x.numel()", "assert x.numel() == n")).free


def test_a_branch_has_the_limits_of_its_condition():
    body = """
def f(x):
    M, N = x.shape
    y = torch.empty_like(x)
    if CONDITION:
        rows[(M,)](x, y, N, N, BLOCK=64)
    else:
        k[(1,)](x, y, M * N, BLOCK=1024)
"""
    small = infer(body.replace("CONDITION", "N <= 64"), "rows")
    assert small.spec.dims["N"].maximum == 64 and not small.free
    assert infer(body.replace("CONDITION", "N <= 64")).spec.dims["N"].minimum == 65
    assert infer(body.replace("CONDITION", "fits(M, N)"), "rows").free == {"M", "N"}
    assert infer(body.replace("CONDITION", "N <= 64 or M > 9"), "rows").free == {"M", "N"}


def test_a_parameter_of_which_sizes_are_computed_is_a_number():
    found = infer(
        """
def f(x, w):
    n = x.numel() - w
    y = torch.empty(n)
    rows[(1,)](x, y, w, n, BLOCK=64)
""",
        "rows",
    )
    assert str(found.spec.args["pitch"].value) == "w" and found.free == {"w"}


def test_numbers_of_the_function_are_extents_and_their_comparisons_hold():
    found = infer("""
def f(x, k_largest):
    m, n = x.shape
    assert k_largest <= n
    y = torch.empty((m, k_largest), dtype=x.dtype)
    rows[(m,)](x, y, k_largest, n, BLOCK=triton.next_power_of_2(n))
    """, "rows")  # fmt: skip
    assert "y out mxk_largest" in shown(found)
    assert [(sign, str(left), str(right)) for sign, left, right in found.conditions] == [("<=", "k_largest", "n")]
    assert not found.free
    assert "k_largest" in found.ragged


def test_elements_of_an_index_are_below_an_extent_that_is_a_number():
    found = infer("""
def f(index, size):
    table = torch.zeros((size, 4))
    y = torch.empty(index.shape[0])
    gather[(triton.cdiv(index.shape[0], 64),)](table, index, y, index.shape[0], BLOCK=64)
    """, "gather")  # fmt: skip
    assert str(found.spec.args["index"].range[1]) == "size"


_GROUPED = """
import torch
import triton
import triton.language as tl


@triton.jit
def means(x, y, n, groups, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y + i // (groups // 4), tl.load(x + i, mask=i < n), mask=(i < n) & (i % (groups // 4) == 0))


def apply(x, groups):
    y = torch.zeros_like(x)
    means[(triton.cdiv(x.numel(), 128),)](x, y, x.numel(), groups, BLOCK=128)
    return y
"""


@pytest.mark.parametrize(
    ("callers", "choices", "include"),
    [
        ("def one(x):\n    return apply(x, 32)\n", (32,), (32,)),
        ("def one(x):\n    return apply(x, 32)\n\ndef other(x):\n    return apply(x, 8)\n", (8, 32), (8, 32)),
        # A test has a few values of many, and a number of a caller may be any.
        ("def test_apply():\n    apply(torch.randn(64), 32)\n", (), (32,)),
        ("def one(x):\n    return apply(x, 32)\n\ndef other(x, groups):\n    return apply(x, groups)\n", (), (32,)),
        ("", (), ()),
    ],
)
def test_a_number_that_every_call_fixes_has_no_other_values(
    callers: str, choices: tuple[int, ...], include: tuple[int, ...]
) -> None:
    """One that the kernel compares with an index has them: its other values show what the comparison misses."""
    spec = KernelSpec("means", "/p/m.py", None, entry="means")
    found = inferred_kernel(spec, f"{_GROUPED}\n\n{callers}", ["means"])
    assert isinstance(found, InferredKernel)
    dims = found.spec.dims or {}
    assert (dims["groups"].choices, dims["groups"].include) == (choices, include)
    assert dims["x_0"].choices == ()
