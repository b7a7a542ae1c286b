"""Launch configurations from host code, and those assumed without any."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from gpuemu_lsp.engine.plan.facts import Source
from gpuemu_lsp.engine.plan.launch import divisible
from gpuemu_lsp.engine.plan.model import PlanResult
from gpuemu_lsp.engine.project.expressions import evaluate, parse
from gpuemu_lsp.engine.project.model import DimSpec

_FLAT = "__global__ void k(const float* x, float* y, int n) { int i = threadIdx.x; if (i < n) y[i] = x[i]; }\n"
_SHARED = _FLAT.replace("{ int", "{ extern __shared__ float s[]; int")
_FLAT_2D = "__global__ void k(const float* x, float* y, int r, int c) { y[threadIdx.y] = x[threadIdx.x]; }\n"


@pytest.mark.parametrize(
    ("code", "grid", "block", "shared"),
    [
        (_FLAT, (1,), (256,), 0),
        (_FLAT + "void f(float* a, int m) { k<<<(m + 127) / 128, 128>>>(a, a, m); }", (8,), (128,), 0),
        (
            _FLAT + "void f(float* a, int m, int b) { k<<<(m + b - 1) / b, b, b * sizeof(float)>>>(a, a, m); }",
            (4,),
            (256,),
            1024,
        ),
        (_FLAT + "int main() { const int N = 999; float* a; k<<<(N + 63) / 64, 64>>>(a, a, N); }", (16,), (64,), 0),
        (
            _FLAT
            + "void f(Tensor a) { int blocks = (a.numel() + 99) / 100; k<<<blocks, 100>>>(a.p(), a.p(), a.numel()); }",
            (10,),
            (100,),
            0,
        ),
        (
            _FLAT_2D
            + "void f(float* a, int r, int c) { dim3 t(16, 8); dim3 g((c + t.x - 1) / t.x, (r + t.y - 1) / t.y);"
            " k<<<g, t>>>(a, a, r, c); }",
            (2, 125),
            (16, 8),
            0,
        ),
        (
            _SHARED + "void f(float* a, int m, int b) { int s = b * 4; k<<<(m + b - 1) / b, b, s>>>(a, a, m); }",
            (4,),
            (256,),
            1024,
        ),
        (_SHARED + "void f(float* a, int m, int b) { b = 32; k<<<m / b, b, b * 4>>>(a, a, m); }", (31,), (32,), 128),
        (
            _FLAT_2D
            + "#define T 32\nvoid f(float* a, int r, int c) { k<<<dim3(c / T, r / T), dim3(T, T)>>>(a, a, r, c); }",
            (1, 31),
            (32, 32),
            0,
        ),
    ],
)
def test_geometry(
    compiled: Callable[[str], PlanResult], code: str, grid: tuple[int, ...], block: tuple[int, ...], shared: int
) -> None:
    """Grid, block and shared memory, as numbers for n = m = r = 1000 and c = 32."""
    (plan,) = compiled(code).plans
    env = {"n": 1000, "m": 1000, "r": 1000, "c": 32}
    assert tuple(evaluate(value, env) for value in plan.grid) == grid
    assert tuple(evaluate(value, env) for value in plan.block) == block
    assert evaluate(plan.shared, env) == shared


_LOOP = (
    "__global__ void k(const float* x, float* y, int n) {{ for (int i = {first}; i < n; i += {step}) y[i] = x[i]; }}"
)
_ANY = "#define B 64\n" + _LOOP


@pytest.mark.parametrize(
    ("code", "grid", "block", "fixed"),
    [
        (_LOOP.format(first="0", step="1"), 1, 1, False),
        (_LOOP.format(first="blockIdx.x", step="gridDim.x"), 1000, 1, False),
        (_LOOP.format(first="threadIdx.x", step="blockDim.x"), 1, 256, False),
        (_LOOP.format(first="threadIdx.x", step="32"), 1, 32, True),
        (_ANY.format(first="blockIdx.x * B + threadIdx.x", step="n"), 16, 64, False),
        (_ANY.format(first="blockIdx.x * 4 + threadIdx.x / 32", step="n"), 4, 256, True),
        (_LOOP.format(first="blockIdx.x * blockDim.x + threadIdx.x", step="n"), 4, 256, False),
        (
            "__global__ void other() { int i = blockIdx.x * blockDim.x; }\n" + _LOOP.format(first="0", step="1"),
            1,
            1,
            False,
        ),
    ],
)
def test_a_kernel_that_never_reads_an_index_has_a_fixed_launch(
    compiled: Callable[[str], PlanResult], code: str, grid: int, block: int, fixed: bool
) -> None:
    (plan,) = compiled(code).plans
    assert [evaluate(value, {"n": 1000}) for value in (*plan.grid, *plan.block)] == [grid, block]
    assert (plan.facts.block.source, plan.facts.own_block) == (Source.ASSUMED, fixed)


def test_macros_of_a_header_may_read_any_index(tmp_path: Path, compiled: Callable[[str], PlanResult]) -> None:
    (tmp_path / "loop.h").write_text(
        "#define FOR(i, n) for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; ++i)\n"
    )
    (plan,) = compiled('#include "loop.h"\n__global__ void k(float* y, int n) { FOR(i, n) y[i] = 1; }').plans
    assert [evaluate(value, {"n": 1000}) for value in (*plan.grid, *plan.block)] == [4, 256]


@pytest.mark.parametrize(
    ("loop", "is_tree"),
    [
        ("int d = n >> 1; d > 0; d >>= 1", True),
        ("int d = n / 2; d; d /= 2", True),
        ("int d = n / 2; d; --d", False),
        ("int d = 1; d < n; d *= 2", False),
        ("int d = blockDim.x / 2; d > 0; d >>= 1", False),
    ],
)
def test_a_size_that_a_loop_halves_is_a_power_of_two(
    compiled: Callable[[str], PlanResult], loop: str, is_tree: bool
) -> None:
    code = f"__global__ void k(float* x, int n) {{ for ({loop}) if (threadIdx.x < d) x[threadIdx.x] += x[threadIdx.x + d]; }}"
    (plan,) = compiled(code).plans
    sizes = plan.dims[0].choices
    assert bool(sizes) == is_tree
    assert all(size & (size - 1) == 0 for size in sizes)


def test_a_size_in_the_launch_alone_becomes_a_dim(bare: Callable[[str], PlanResult]) -> None:
    """One block per row, and no parameter for the number of rows."""
    code = "__global__ void k(float* x, int cols) { x[blockIdx.x * cols] = 0; }\n"
    (plan,) = bare(code + "void f(float* x, int rows, int cols) { k<<<rows, 64>>>(x, cols); }").plans
    assert [dim.name for dim in plan.dims] == ["cols", "rows"]
    assert str(plan.grid[0]) == "rows"


@pytest.mark.parametrize(
    ("body", "host", "step"),
    [
        ("", "k<<<n / 256, 256>>>(x, n);", 256),
        ("", "k<<<(n + 255) / 256, 256>>>(x, n);", 1),
        ("for (int i = 0; i < n / 32; i++) x[i] = 1;", "k<<<(n + 255) / 256, 256>>>(x, n);", 32),
        ("const int w = 16; x[1] = n / w;", "k<<<1, 32>>>(x, n);", 16),
        ("x[1] = n / blockDim.x;", "k<<<1, 64>>>(x, n);", 64),
        ("x[1] = n / 4; x[2] = n % 4;", "k<<<1, 32>>>(x, n);", 1),
        ("x[1] = 2 * n / 32; /* n / 8 */", "k<<<1, 32>>>(x, n);", 16),
        ("x[1] = 3 * n / 32; /* n / 8 */", "k<<<1, 32>>>(x, n);", 1),
    ],
)
def test_rounding_down_means_multiples(compiled: Callable[[str], PlanResult], body: str, host: str, step: int) -> None:
    """A size whose remainder is dropped is restricted to multiples."""
    code = f"__global__ void k(float* x, int n) {{ {body} x[threadIdx.x] = 0; }}\nvoid f(float* x, int n) {{ {host} }}"
    (plan,) = compiled(code).plans
    assert plan.dims[0].multiple_of == step


@pytest.mark.parametrize(
    "host",
    [
        "void f(float* a, int r, int c, int b) { if (c > 9) b = 32; k<<<r, plan(b)>>>(a, a, r, c); }",
        "",
    ],
)
def test_an_unsupported_launch_is_reported(bare: Callable[[str], PlanResult], host: str) -> None:
    """With two sizes no launch can be assumed: a hint, and the kernel is not run."""
    result = bare(_FLAT_2D + host)
    assert not result.plans
    assert [(finding.rule, finding.severity) for finding in result.findings] == [("engine/not-executed", "hint")]


def test_a_grid_that_the_program_computes_is_a_size_of_its_own(bare: Callable[[str], PlanResult]) -> None:
    """Whatever depends on it is not an error: the program may relate it to the others."""
    (plan,) = bare(_FLAT_2D + "void f(float* a, int r, int c) { k<<<plan(r), 64>>>(a, a, r, c); }").plans
    assert str(plan.grid[0]) == "blocks_x"
    assert "blocks_x" in plan.facts.assumed_sizes


@pytest.mark.parametrize(
    ("grid", "multiples"),
    [("w // 1024", (1024, 1)), ("w * h // 1024", (32, 32)), ("w * h // 96", (96, 96)), ("w * h // 8", (4, 4))],
)
def test_a_product_is_a_multiple_if_its_factors_share_the_divisor(grid: str, multiples: tuple[int, int]) -> None:
    """A probe with both sizes multiples of 1024 would launch millions of threads."""
    dims = divisible((DimSpec("w"), DimSpec("h")), (parse(grid),))
    assert tuple(dim.multiple_of for dim in dims) == multiples
