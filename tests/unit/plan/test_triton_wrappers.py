"""Launches in methods, of views, with strides of any rank, and with indices that no caller determines."""

from __future__ import annotations

import pytest

from gpuemu_lsp.engine.plan.wrappers.inference import inferred_kernel
from gpuemu_lsp.engine.plan.wrappers.inferred_kernel import InferredKernel
from gpuemu_lsp.engine.project.expressions import evaluate, parse
from gpuemu_lsp.engine.project.model import KernelSpec, PointerSpec, ScalarSpec

HEAD = """\
import torch
import triton
import triton.language as tl


@triton.jit
def rows(x, w, y, pitch, n, eps, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    row = tl.program_id(0) * pitch
    tl.store(y + row + i, tl.load(x + row + i, mask=i < n) * tl.load(w + i, mask=i < n) + eps, mask=i < n)


@triton.jit
def copy(x, y, sxa, sxb, sxc, sya, syb, syc, A, B, C, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    at = tl.program_id(0) * sxa + tl.program_id(1) * sxb + i * sxc
    to = tl.program_id(0) * sya + tl.program_id(1) * syb + i * syc
    tl.store(y + to, tl.load(x + at, mask=i < C), mask=i < C)


@triton.jit
def gather(table, index, y, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    at = tl.load(index + i, mask=i < n)
    tl.store(y + i, tl.load(table + at, mask=i < n), mask=i < n)


@triton.jit
def add(x, y, out, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + i, tl.load(x + i, mask=i < n) + tl.load(y + i, mask=i < n), mask=i < n)


@triton.jit
def negate(x, y, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y + i, -tl.load(x + i))


"""


def infer(body, kernel):
    found = inferred_kernel(
        KernelSpec(kernel, "/p/m.py", None, entry=kernel), HEAD + body, ["rows", "copy", "gather", "add", "negate"]
    )
    assert isinstance(found, InferredKernel), found.reason
    return found


def shape(found, name):
    arg = found.spec.args[name]
    assert isinstance(arg, PointerSpec)
    return "x".join(map(str, arg.shape))


def number(found, name):
    arg = found.spec.args[name]
    assert isinstance(arg, ScalarSpec)
    return str(arg.value)


MODULE = """
class Norm(torch.nn.Module):
    def __init__(self, dim, eps=1e-5):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.ones(dim))
        self.eps = eps

    def forward(self, x):
        y = torch.empty_like(x)
        m, n = x.shape
        rows[(m,)](x, self.weight, y, x.stride(0), n, self.eps, BLOCK=triton.next_power_of_2(n))
        return y
"""


def test_a_method_of_a_module_has_the_attributes_that_its_constructor_sets():
    found = infer(MODULE, "rows")
    assert (shape(found, "x"), shape(found, "y"), number(found, "eps")) == ("mxn", "mxn", "1e-05")
    assert found.uncertain == {"w"}  # the extent of a weight is that of an existing object


AUTOGRAD = """
class Scale(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, weight):
        m, n = x.shape
        assert weight.shape == (n,)
        ctx.save_for_backward(x, weight)
        ctx.eps = 0.25
        return x * weight

    @staticmethod
    def backward(ctx, grad):
        x, weight = ctx.saved_tensors
        m, n = x.shape
        dx = torch.empty_like(x)
        rows[(m,)](grad, weight, dx, grad.stride(0), n, ctx.eps, BLOCK=triton.next_power_of_2(n))
        return dx, None
"""


def test_backward_gets_what_forward_saved_and_gradients_of_the_outputs():
    found = infer(AUTOGRAD, "rows")
    assert [shape(found, name) for name in ("x", "w", "y")] == ["mxn", "n", "mxn"]
    assert number(found, "eps") == "0.25" and not found.uncertain


def test_all_strides_of_tensors_are_passed():
    found = infer(
        """
def f(x):
    a, b, c = x.shape
    y = torch.empty_like(x)
    copy[(a, b)](x, y, *x.stride(), *y.stride(), a, b, c, BLOCK=64)
""",
        "copy",
    )
    assert [number(found, name) for name in ("sxa", "sxb", "sxc", "syb", "C")] == ["b * c", "c", "1", "c", "c"]


def test_a_tensor_of_unknown_rank_has_that_of_the_strides_that_the_kernel_takes():
    found = infer(
        """
def f(x, y):
    a, b, c = x.shape
    copy[(a, b)](x, y, *x.stride(), *y.stride(), a, b, c, BLOCK=64)
""",
        "copy",
    )
    assert shape(found, "y") == "axbxc" and number(found, "sya") == "b * c"
    assert found.uncertain == {"y"}


def test_the_parts_of_a_tensor_are_views_of_its_storage():
    found = infer(
        """
def f(xy):
    x, y = xy.chunk(2, dim=-1)
    m, n = x.shape
    out = torch.empty((m, n))
    copy[(m, 1)](y, out, y.stride(0), 0, 1, n, 0, 1, m, 1, n, BLOCK=64)
""",
        "copy",
    )
    assert shape(found, "x") == "m * xy_1 - (xy_1 // 2)" and number(found, "sxa") == "xy_1"
    assert found.spec.dims["xy_1"].multiple_of == 2


def test_a_slice_is_a_view():
    found = infer(
        """
def f(x, k: int):
    m, n = x.shape
    tail = x[:, 4:]
    y = torch.empty((m, n - 4))
    copy[(m, 1)](tail, y, tail.stride(0), 0, 1, n - 4, 0, 1, m, 1, n - 4, BLOCK=64)
""",
        "copy",
    )
    assert shape(found, "x") == "m * n - 4" and number(found, "sxa") == "n"


def test_indices_without_a_caller_are_within_what_they_index():
    found = infer(
        """
def f(table, index):
    n = index.numel()
    y = torch.empty(n)
    gather[(triton.cdiv(n, 32),)](table, index, y, n, BLOCK=32)
""",
        "gather",
    )
    index = found.spec.args["index"]
    assert index.dtype == "int64" and [str(one) for one in index.range] == ["0", "table_0"]
    assert "table" in found.uncertain  # nothing is claimed about accesses to it


def test_indices_of_a_caller_come_before_assumed_ones():
    found = infer(
        """
def f(table, index):
    n = index.numel()
    y = torch.empty(n)
    gather[(triton.cdiv(n, 32),)](table, index, y, n, BLOCK=32)


def test_f():
    f(torch.randn(50), torch.randint(0, 50, (70,)))
""",
        "gather",
    )
    assert shape(found, "table") == "50" and [str(one) for one in found.spec.args["index"].range] == ["0", "50"]
    assert not found.uncertain


CALLED = """
import pytest

def f(x):
    y = torch.empty_like(x)
    negate[(x.numel() // 128,)](x, y, x.numel(), BLOCK=128)
    return y
"""


def test_sizes_of_calls_in_the_module_are_tried():
    found = infer(CALLED + "\n\ndef test_f():\n    f(torch.randn(1000))\n", "negate")
    assert found.values == {"x_0": {1000}}
    assert found.spec.dims["x_0"].choices == (128, 256, 384, 512, 1000)


def test_sizes_of_parametrized_tests_and_of_loops_are_tried():
    test = """

@pytest.mark.parametrize("n", [128, 640])
def test_f(n):
    for extra in [0, 256]:
        f(torch.randn(n + extra))
"""
    found = infer(CALLED + test, "negate")
    assert found.values == {"x_0": {128, 384, 640, 896}}
    assert found.spec.dims["x_0"].include == (128, 384, 640, 896) and found.spec.dims["x_0"].multiple_of == 128


def test_a_bound_in_the_kernel_allows_sizes_that_a_grid_rounded_down_does_not_cover():
    launch = """
def f(x):
    {check}
    y = torch.empty_like(x)
    add[(x.numel() // 128,)](x, x, y, x.numel(), BLOCK=128)
"""
    found = infer(launch.format(check=""), "add")
    assert found.spec.dims["x_0"].multiple_of == 1 and "x_0" in found.ragged
    stated = infer(launch.format(check="assert x.numel() % 128 == 0"), "add")
    assert stated.spec.dims["x_0"].multiple_of == 128


def test_a_limit_on_a_block_that_a_size_determines_is_understood():
    found = infer(
        """
def f(x, w):
    m, n = x.shape
    y = torch.empty_like(x)
    BLOCK = min(65536 // x.element_size(), triton.next_power_of_2(n))
    if n > BLOCK:
        raise RuntimeError
    rows[(m,)](x, w, y, x.stride(0), n, 0.5, BLOCK=BLOCK)
""",
        "rows",
    )
    assert not found.free and found.ragged >= {"n"}


def test_tensors_that_are_compared_or_saved_are_not_numbers():
    found = infer(
        """
def f(ctx, x, labels, n: int):
    y = torch.empty(n)
    gather[(triton.cdiv(n, 32),)](x, labels, y, n, BLOCK=32)
    return (labels != -100).sum()
""",
        "gather",
    )
    assert isinstance(found.spec.args["index"], PointerSpec)


def test_the_multiprocessors_are_those_of_the_emulated_device():
    found = infer(
        """
def f(x):
    y = torch.empty_like(x)
    count = torch.cuda.get_device_properties("cuda").multi_processor_count
    add[(min(count, x.numel()),)](x, x, y, x.numel(), BLOCK=16)
""",
        "add",
    )
    assert [str(one) for one in found.spec.launch.grid] == ["min(x_0, 108)"]


@pytest.mark.parametrize(
    ("expression", "length"),
    [
        ("x.topk(3, dim=1).values", "3*rows"),
        ("torch.topk(x, 3)[0]", "3*rows"),
        ("x.topk(3, dim=1).values[:, -1].contiguous()", "rows"),
        ("x.sort(dim=0, descending=True).values", "rows*cols"),
        ("x.max(dim=1).values", "rows"),
        ("x.min(1, True)[0]", "rows"),
    ],
)
def test_values_that_are_chosen_along_an_axis(expression, length):
    found = infer(
        f"""
def run(x):
    rows, cols = x.shape
    chosen = {expression}
    out = torch.empty_like(chosen)
    n = chosen.numel()
    negate[(triton.cdiv(n, 64),)](chosen, out, n, BLOCK=64)
    return out
""",
        "negate",
    )
    sizes = {"rows": 7, "cols": 11}
    assert evaluate(found.spec.args["n"].value, sizes) == evaluate(parse(length), sizes)


def test_indices_that_are_chosen_are_those_of_the_axis():
    found = infer(
        """
def run(table, x):
    rows, n = x.shape
    assert table.shape == (n,)
    index = x.topk(4, dim=1).indices
    y = table.new_empty(rows * 4)
    gather[(triton.cdiv(rows * 4, 64),)](table, index, y, rows * 4, BLOCK=64)
    return y
""",
        "gather",
    )
    assert found.spec.args["index"].dtype == "int64" and not found.assumed_indices


def test_a_result_that_the_kernel_gets_and_does_not_write_is_an_output() -> None:
    """Unlike a placeholder for it, of which the function returns nothing."""
    body = (
        HEAD
        + """
@triton.jit
def half(x, y, n, BLOCK: tl.constexpr):
    pass


def f(x):
    y = torch.empty_like(x)
    half[(1,)](x, y, x.numel(), BLOCK=64)
    return RESULT
"""
    )
    for result, direction in (("y", "out"), ("x, y", "out"), ("x", "in")):
        found = inferred_kernel(
            KernelSpec("half", "/p/m.py", None, entry="half"), body.replace("RESULT", result), ["half"]
        )
        assert isinstance(found, InferredKernel), found.reason
        assert found.spec.args["y"].direction == direction, result
