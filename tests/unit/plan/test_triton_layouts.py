"""Launches of Triton kernels with tensors that are not contiguous, where the function reads their strides."""

from __future__ import annotations

import pytest

from gpuemu_lsp.engine.plan.wrappers.layouts import with_layouts
from gpuemu_lsp.engine.project.model import PointerSpec
from tests.unit.plan.test_triton_launches import infer

PADDED, TRANSPOSED = "padded", "transposed"


def numbers(found):
    """Return the scalars, and the strides of tensors that have some, as texts."""
    args = with_layouts(found).spec.args.items()
    return {
        name: " ".join(map(str, arg.strides)) if isinstance(arg, PointerSpec) else str(arg.value)
        for name, arg in args
        if not isinstance(arg, PointerSpec) or arg.strides
    }


def test_rows_of_a_wider_tensor_are_tried_where_the_function_reads_their_stride():
    found = infer(
        """
def f(x):
    M, N = x.shape
    y = torch.empty(M, N)
    rows[(M,)](x, y, x.stride(0), N, BLOCK=64)
""",
        "rows",
    )
    assert numbers(found) == {"x": "N + 8 * padded 1", "pitch": "N + 8 * padded", "n": "N"}
    assert with_layouts(found).spec.dims[PADDED].choices == (0, 1)
    assert with_layouts(found).notes[-1] == "with padded = 1 the strides of x are (N + 8, 1)"


def test_of_a_function_that_reads_the_last_stride_a_transposed_tensor_is_tried():
    found = infer(
        """
def f(x):
    M, N = x.shape
    y = torch.empty(M, N)
    rows[(M,)](x, y, x.stride(0), x.stride(1), BLOCK=64)
""",
        "rows",
    )
    assert numbers(found)["n"] == "M * transposed + 7 * transposed + 1"
    assert TRANSPOSED in with_layouts(found).spec.dims


def test_the_axes_before_the_last_are_exchanged_too():
    found = infer(
        """
def f(x):
    S, P, N = x.shape
    if x.stride(-1) != 1:
        x = x.contiguous()
    y = torch.empty(S, P, N)
    rows[(S * P,)](x, y, x.stride(-2), N, BLOCK=64)
""",
        "rows",
    )
    assert with_layouts(found).notes[-1] == "with padded = 1 the strides of x are (N + 8, N * S + 8 * S, 1)"


CONTIGUOUS = {
    "copied": "    x = x.contiguous()\n",
    "refused": "    assert x.is_contiguous()\n",
    "refused by a comparison": "    assert x.stride(0) == N\n",
    "refused by its stride": "    if x.stride(0) != N:\n        raise ValueError\n",
    "reshaped": "    x = x.reshape(M * N).view(M, N)\n",
}


@pytest.mark.parametrize("line", CONTIGUOUS.values(), ids=CONTIGUOUS)
def test_nothing_else_is_tried_where_the_kernel_gets_contiguous_tensors_only(line):
    body = f"""
def f(x):
    M, N = x.shape
{line}    y = torch.empty(M, N)
    rows[(M,)](x, y, x.stride(0), N, BLOCK=64)
"""
    found = infer(body, "rows")
    assert with_layouts(found).spec.dims.keys() == {"M", "N"}


def test_a_stride_of_the_last_axis_that_must_be_one_leaves_rows_of_a_wider_tensor():
    found = infer(
        """
def f(x):
    M, N = x.shape
    assert x.stride(-1) == 1
    y = torch.empty(M, N)
    rows[(M,)](x, y, x.stride(0), N, BLOCK=64)
""",
        "rows",
    )
    assert numbers(found) == {"x": "N + 8 * padded 1", "pitch": "N + 8 * padded", "n": "N"}


LIKE = {
    "empty_like": ("torch.empty_like(x)", "M * transposed - transposed + 1"),
    "clone": ("x.clone()", "M * transposed - transposed + 1"),
    "of the shape": ("torch.empty(x.shape)", "1"),
    "of a format": ("torch.empty_like(x, memory_format=torch.contiguous_format)", "1"),
}


@pytest.mark.parametrize(("new", "stride"), LIKE.values(), ids=LIKE)
def test_a_new_tensor_keeps_the_order_of_axes_unless_it_is_of_a_shape(new, stride):
    body = f"""
def f(x):
    M, N = x.shape
    y = {new}
    rows[(M,)](x, y, x.stride(1), y.stride(1), BLOCK=64)
"""
    assert numbers(infer(body, "rows"))["n"] == stride
