"""Launches of kernels that the host code selects among several: by an index, a switch, or a function."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from support.plan_facts import is_read, is_selected

from gpuemu_lsp.engine.plan.model import Plan, PlanResult, TensorArg
from gpuemu_lsp.engine.plan.resolve import resolve, unregistered
from gpuemu_lsp.engine.source import read

KERNEL = """
template <int BITS>
__global__ void pack(unsigned* out, const unsigned* in) {
  int row = blockIdx.x;
  if (threadIdx.x < BITS) out[row * BITS + threadIdx.x] = in[row * 32 + threadIdx.x];
}
"""
RUN = """
void run(int bits, int rows) {{
  unsigned *in, *out;
  cudaMalloc(&in, rows * 32 * 4);
  cudaMalloc(&out, rows * bits * 4);
  {launch}
}}
"""
TABLE = "constexpr auto packs = std::array{ pack<1>, pack<2>, pack<4> };"


def instances(plans: tuple[Plan, ...]) -> dict[str, str]:
    """Return the length of `out` by instance."""
    return {
        plan.entry: str(arg.shape[0])
        for plan in plans
        for arg in plan.args
        if isinstance(arg, TensorArg) and arg.param == "out" and arg.shape
    }


@pytest.mark.parametrize(
    ("table", "launch"),
    [
        ("constexpr auto packs = std::array{ pack<1>, pack<2>, pack<4> };", "packs[bits - 2]<<<rows, 32>>>(out, in);"),
        ("static const std::array<F, 3> packs {{ pack<1>, pack<2>, pack<4> }};", "packs[bits - 2]<<<rows, 32>>>(out, in);"),
        ("typedef void (*F)(unsigned*, const unsigned*);\nF packs[] = { nullptr, pack<1>, pack<2>, pack<4> };",
         "auto kernel = packs[bits - 1]; if (!kernel) return; kernel<<<rows, 32>>>(out, in);"),
        ("static void (*const packs[])(unsigned*, const unsigned*) = { &pack<1>, &pack<2>, &pack<4> };",
         "(*packs[bits - 2])<<<rows, 32>>>(out, in);"),
        ("#define ONE(b) pack<b>\nconstexpr auto packs = std::array{ ONE(1), ONE(2), ONE(4) };\n#undef ONE",
         "void* kernel = (void*) packs[bits - 2]; void* args[] = { &out, &in };"
         " cudaLaunchKernel(kernel, dim3(rows), dim3(32), args, 0, 0);"),
        ("const F packs[2][2] = { { pack<1>, pack<2> }, { pack<3>, pack<4> } };",
         "packs[0][bits - 2]<<<rows, 32>>>(out, in); packs[1][bits - 2]<<<rows, 32>>>(out, in);"),
    ],
    ids=["std::array", "braces of its member", "null", "function pointers", "macro", "two dimensions"],
)  # fmt: skip
def test_elements_of_a_table(bare: Callable[[str], PlanResult], table: str, launch: str) -> None:
    """Each instance is checked with the sizes for which the program selects it."""
    result = bare(KERNEL + table + RUN.format(launch=launch))
    found = instances(result.plans)
    assert found["pack<1>"] == "2 * rows"
    assert found["pack<2>"] == "3 * rows"
    assert {"pack<4>"} <= found.keys()
    assert all(is_read(plan) and is_selected(plan) for plan in result.plans)


@pytest.mark.parametrize(
    "launch",
    [
        "switch (bits) { case 2: pack<2><<<rows, 32>>>(out, in); break; case 4: pack<4><<<rows, 32>>>(out, in); }",
        "auto kernel = select(bits); kernel<<<rows, 32>>>(out, in);",
        "auto kernel = bits == 2 ? pack<2> : pack<4>; if (bits != 2 && bits != 4) return;"
        " if (bits == 2) pack<2><<<rows, 32>>>(out, in); else if (bits == 4) pack<4><<<rows, 32>>>(out, in);",
    ],
    ids=["switch", "function", "if"],
)
def test_a_condition_on_a_size_selects(bare: Callable[[str], PlanResult], launch: str) -> None:
    """The condition under which an instance is launched determines the sizes of its buffers."""
    select = """
F select(int bits) {
  if (bits == 2) return pack<2>;
  if (bits == 4) return pack<4>;
  return nullptr;
}
"""
    found = instances(bare(KERNEL + select + RUN.format(launch=launch)).plans)
    assert found == {"pack<2>": "2 * rows", "pack<4>": "4 * rows"}


def test_an_index_that_is_not_understood(bare: Callable[[str], PlanResult]) -> None:
    """The sizes that belong to an instance are then not known, and nothing is claimed about accesses."""
    launch = "int index = bits - 1; if (flag()) index += 8; packs[index]<<<rows, 32>>>(out, in);"
    plans = bare(KERNEL + TABLE + RUN.format(launch=launch)).plans
    assert plans
    assert all(is_read(plan) and not is_selected(plan) for plan in plans)


def test_a_table_in_a_header(tmp_path: Path) -> None:
    """A file that includes the table launches its elements, without the name of the kernel."""
    header, main = tmp_path / "pack.cuh", tmp_path / "main.cu"
    header.write_text(KERNEL + TABLE)
    launch = "packs[bits - 1]<<<rows, 32>>>(out, in);"
    main.write_text('#include "pack.cuh"\n' + RUN.format(launch=launch))
    source = read(str(header), header.read_text(), ())
    found = instances(resolve(unregistered(source, source.kernels[-1]), source).plans)
    assert found == {"pack<1>": "rows", "pack<2>": "2 * rows", "pack<4>": "3 * rows"}


def test_a_tensor_is_at_least_as_large_as_a_check_demands(bare: Callable[[str], PlanResult]) -> None:
    """A caller may pass the smallest tensor."""
    plan = bare("""
#include <torch/extension.h>
__global__ void scale(float* out, const float* weight, int n) { out[threadIdx.x] = weight[threadIdx.x] * n; }
void run(at::Tensor out, at::Tensor weight) {
  TORCH_CHECK(out.dim() == 1);
  TORCH_CHECK(weight.numel() >= out.size(0));
  scale<<<1, out.size(0)>>>(out.data_ptr<float>(), weight.data_ptr<float>(), out.size(0));
}
""").plans[0]
    assert {str(arg.shape[0]) for arg in plan.args if isinstance(arg, TensorArg)} == {"out_size_0"}


def test_a_function_with_many_callers(bare: Callable[[str], PlanResult]) -> None:
    """Callers may show no pointers. The function with the launch is read too, and says which types it launches with."""
    callers = "\n".join(
        f"void middle{i}(int n) {{ scale(member(), n); }}\nvoid outer{i}(int n) {{ middle{i}(n); }}" for i in range(16)
    )
    plans = bare(f"""
template <int BY, typename T> __global__ void scaled(T* out, int n) {{ if (threadIdx.x < n) out[threadIdx.x] *= BY; }}
void scale(int* out, int n) {{ scaled<2><<<1, n>>>(out, n); }}
{callers}
""").plans
    assert [plan.entry for plan in plans] == ["scaled<2, int>"]
