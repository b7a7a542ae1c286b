"""Launches of unregistered Triton kernels, read from the functions that make them."""

from __future__ import annotations

import pytest

from gpuemu_lsp.engine.plan.wrappers.inference import inferred_kernel
from gpuemu_lsp.engine.plan.wrappers.inferred_kernel import InferredKernel, MissingLaunch
from gpuemu_lsp.engine.project.model import KernelSpec, PointerSpec, ScalarSpec

HEAD = """\
import numpy as np
import torch
import triton
import triton.language as tl

TILE = 64


@triton.jit
def k(x, y, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y + i, tl.load(x + i, mask=i < n), mask=i < n)


@triton.jit
def rows(x, y, pitch, n, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    row = tl.program_id(0) * pitch
    tl.store(y + row + i, tl.load(x + row + i, mask=i < n), mask=i < n)


@triton.jit
def gather(table, index, y, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    at = tl.load(index + i, mask=i < n)
    tl.store(y + i, tl.load(table + at, mask=i < n), mask=i < n)


"""


def infer(body, kernel="k"):
    text = HEAD + body
    return inferred_kernel(KernelSpec(kernel, "/p/m.py", None, entry=kernel), text, ["k", "rows", "gather"])


def shown(found):
    """Return the tensors, scalars, compile-time values and grid of an entry as one text."""
    assert isinstance(found, InferredKernel), found.reason
    parts = []
    for name, arg in found.spec.args.items():
        if isinstance(arg, PointerSpec):
            parts.append(f"{name} {arg.direction} {'x'.join(map(str, arg.shape))} {arg.dtype or ''}".strip())
        elif isinstance(arg, ScalarSpec):
            parts.append(f"{name}={arg.value}")
    parts += [f"{name}={values[0]}" for name, values in found.spec.constexprs.items()]
    return ", ".join([*parts, f"grid {' '.join(map(str, found.spec.launch.grid))}"])


VECTOR = "x in x_0, y out x_0, n=x_0, BLOCK=128, grid ceil_div(x_0, 128)"
FORMS = {
    "lambda": """
def f(x):
    y = torch.empty_like(x)
    n = x.numel()
    k[lambda meta: (triton.cdiv(n, meta["BLOCK"]),)](x, y, n, BLOCK=128)
""",
    "grid in a variable": """
def f(x):
    y = torch.empty_like(x)
    grid = lambda META: (triton.cdiv(y.numel(), META["BLOCK"]), )
    k[grid](x, y, x.numel(), BLOCK=128)
""",
    "grid of a function": """
def f(x):
    y = torch.empty_like(x)
    n = y.numel()
    def grid(meta):
        return (triton.cdiv(n, meta["BLOCK"]),)
    k[grid](x, y, n, 128)
""",
    "rounded by hand": """
def f(x):
    y = torch.empty(x.numel(), device=x.device, dtype=x.dtype)
    n = x.numel()
    BLOCK = 128
    k[((n + BLOCK - 1) // BLOCK,)](x, y, n, BLOCK)
""",
    "constant of the module": """
def f(x):
    y = torch.empty_like(x)
    n = x.numel()
    k[((n + TILE * 2 - 1) // (TILE * 2),)](x, y, n, BLOCK=2 * TILE)
""",
    "contiguous": """
def f(x):
    x = x.contiguous()
    y = torch.empty_like(x)
    n = y.numel()
    k[(triton.cdiv(n, 128),)](x, y, n, BLOCK=128, num_warps=4)
""",
    "default of a parameter": """
def f(x, block_size=128):
    y = torch.empty_like(x)
    n = x.numel()
    k[(triton.cdiv(n, block_size),)](x, y, n, BLOCK=block_size)
""",
    "keywords": """
def f(x: torch.Tensor) -> torch.Tensor:
    y = torch.empty_like(x)
    n = x.numel()
    k[(triton.cdiv(n, 128),)](x=x, y=y, n=n, BLOCK=128)
    return y
""",
    "asserted": """
def f(x):
    assert x.is_cuda and x.is_contiguous(), "no"
    if not x.is_contiguous():
        raise ValueError("no")
    y = torch.empty_like(x)
    n = x.numel()
    with torch.cuda.device(x.device):
        k[(triton.cdiv(n, 128),)](x, y, n, BLOCK=128)
""",
    "two functions": """
def launch(x, y):
    n = x.numel()
    k[(triton.cdiv(n, 128),)](x, y, n, BLOCK=128)


def f(x):
    y = torch.empty_like(x)
    launch(x, y)
""",
    "autograd": """
class F(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        y = torch.empty_like(x)
        n = x.numel()
        k[(triton.cdiv(n, 128),)](x, y, n, BLOCK=128)
        ctx.save_for_backward(x)
        return y
""",
    "conditional": """
def f(x, out=None):
    y = torch.empty_like(x) if out is None else out
    n = x.numel()
    k[(triton.cdiv(n, 128),)](x, y, n, BLOCK=128)
""",
}


def test_a_parameter_that_the_kernel_multiplies_is_a_number():
    found = infer(
        """
def f(x, y, a, n):
    rows[(4,)](x, y, a, n, BLOCK=128)
""",
        "rows",
    )
    assert shown(found) == "x in n, y inout n, pitch=a, n=n, BLOCK=128, grid 4"
    assert found.uncertain == {"x", "y"}


@pytest.mark.parametrize("form", FORMS)
def test_forms_of_one_launch_have_the_same_entry(form):
    found = infer(FORMS[form])
    expected = VECTOR
    if form == "two functions":  # the function that launches has no allocation; its caller does
        expected = VECTOR.replace("y out x_0", "y inout x_0")
    assert shown(found) == expected


OTHERS = {
    "limit of a block": (
        """
def f(x):
    M, N = x.shape
    y = torch.empty_like(x)
    LIMIT = 65536 // x.element_size()
    rows[(M,)](x, y, N, N, BLOCK=min(LIMIT, triton.next_power_of_2(N)))
""",
        "rows",
        "x in MxN, y out MxN, pitch=N, n=N, BLOCK=min(next_pow2(N), 16384), grid M",
    ),
    "from NumPy": (
        """
def f(x):
    x = torch.from_numpy(np.ascontiguousarray(x)).to("cuda")
    y = torch.empty_like(x)
    n = x.numel()
    k[(triton.cdiv(n, 64),)](x, y, n, BLOCK=64)
""",
        "k",
        "x in x_0, y out x_0, n=x_0, BLOCK=64, grid ceil_div(x_0, 64)",
    ),
    "rows": (
        """
def f(x):
    M, N = x.shape
    y = torch.empty_like(x)
    rows[(M,)](x, y, x.stride(0), N, BLOCK=triton.next_power_of_2(N))
""",
        "rows",
        "x in MxN, y out MxN, pitch=N, n=N, BLOCK=next_pow2(N), grid M",
    ),
    "size of an axis": (
        """
def f(x):
    m, n = x.size(0), x.size(1)
    y = torch.zeros((m, n), device="cuda")
    rows[(m, 1)](x, y, y.stride(0), n, BLOCK=max(16, triton.next_power_of_2(n)))
""",
        "rows",
        "x in mxn, y inout mxn float32, pitch=n, n=n, BLOCK=max(next_pow2(n), 16), grid m",
    ),
    "unpacked with a star": (
        """
def f(x):
    b, *_, n = x.shape
    assert x.dim() == 3
    y = torch.empty_like(x)
    rows[(x.numel() // n,)](x, y, n, n, BLOCK=1024)
""",
        "rows",
        "x in bxx_1xn, y out bxx_1xn, pitch=n, n=n, BLOCK=1024, grid b * x_1",
    ),
    "reshaped": (
        """
def f(x):
    flat = x.reshape(-1, x.shape[-1])
    y = torch.empty_like(flat)
    rows[(flat.shape[0],)](flat, y, flat.stride(0), flat.shape[1], BLOCK=256)
""",
        "rows",
        "x in x_0xx_1, y out x_0xx_1, pitch=x_1, n=x_1, BLOCK=256, grid x_0",
    ),
    "transposed": (
        """
def f(x):
    m, n = x.shape
    t = x.t()
    y = torch.empty((n, m), dtype=torch.float16)
    rows[(n,)](t, y, t.stride(1), m, BLOCK=64)
""",
        "rows",
        "x in mxn, y out nxm float16, pitch=n, n=m, BLOCK=64, grid n",
    ),
    "dtype": (
        """
def f(x):
    h = x.to(torch.float16)
    n = x.numel()
    y = torch.empty(n, dtype=torch.int32, device=x.device)
    k[triton.cdiv(n, 64),](h, y, n, 64)
""",
        "k",
        "x in x_0 float16, y out x_0 int32, n=x_0, BLOCK=64, grid ceil_div(x_0, 64)",
    ),
    "new_empty": (
        """
def f(x):
    n = x.nelement()
    y = x.new_empty(n)
    k[(triton.cdiv(n, 64), 1, 1)](x, y, n, BLOCK=64)
""",
        "k",
        "x in x_0, y out x_0, n=x_0, BLOCK=64, grid ceil_div(x_0, 64)",
    ),
    "in place": (
        """
def f(x):
    n = x.numel()
    k[(triton.cdiv(n, 64),)](x, x, n, BLOCK=64)
""",
        "k",
        "x in x_0, y inout x_0, n=x_0, BLOCK=64, grid ceil_div(x_0, 64)",
    ),
    "without rounding": (
        """
def f(x):
    n = x.numel()
    y = torch.empty_like(x)
    k[(n // 64,)](x, y, n, BLOCK=64)
""",
        "k",
        "x in x_0, y out x_0, n=x_0, BLOCK=64, grid x_0 // 64",
    ),
    "script": (
        """
if __name__ == "__main__":
    size = 1000
    x = torch.randn(size, device="cuda")
    y = torch.empty_like(x)
    k[(triton.cdiv(size, 64),)](x, y, size, BLOCK=64)
""",
        "k",
        "x in 1000 float32, y out 1000 float32, n=1000, BLOCK=64, grid 16",
    ),
    "indices with bounds": (
        """
def test_gather():
    table = torch.randn(50, device="cuda")
    index = torch.randint(0, 50, (20,), device="cuda")
    y = torch.empty(20, device="cuda")
    gather[(1,)](table, index, y, 20, BLOCK=32)
""",
        "gather",
        "table in 50 float32, index in 20 int64, y out 20 float32, n=20, BLOCK=32, grid 1",
    ),
}


@pytest.mark.parametrize("form", OTHERS)
def test_extents_are_expressions_of_the_sizes_of_parameters(form):
    body, kernel, expected = OTHERS[form]
    assert shown(infer(body, kernel)) == expected


MISSING = {
    "keywords of a dictionary": (
        """
def f(x, **options):
    k[(1,)](x, x, 5, **options)
""",
        "k",
        "the arguments that the launch passes with `**`",
    ),
    "result of another library": (
        """
def f(x):
    y = library.allocate(x)
    k[(1,)](x, y, x.numel(), BLOCK=16)
""",
        "k",
        "`library.allocate(x)`, which is passed as `y`",
    ),
}


@pytest.mark.parametrize("form", MISSING)
def test_what_is_missing_is_stated(form):
    body, kernel, expected = MISSING[form]
    found = infer(body, kernel)
    assert isinstance(found, MissingLaunch)
    assert found.reason == expected
