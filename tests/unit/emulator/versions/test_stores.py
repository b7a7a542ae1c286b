"""The pointers through which kernels write, by instruction."""

from __future__ import annotations

import pytest
from support.emulator_launch import compile_ptx

from gpuemu_lsp.engine.emulator.versions.compiled_kernel import CompiledKernel
from gpuemu_lsp.engine.ptx import parse

HEAD = """struct Pair { const float* in; float* out; };
__device__ float variable[64];
__device__ float helper(float* p) { return *p; }
"""


@pytest.mark.parametrize(
    ("body", "pointers", "elsewhere"),
    [
        ("y[threadIdx.x] = x[threadIdx.x];", {(1, 0)}, False),
        ("*(float4*)(y + 4 * threadIdx.x) = *(const float4*)x;", {(1, 0)}, False),
        ("atomicAdd(y + int(x[0]), 1.0f);", {(1, 0)}, False),
        ("pair.out[threadIdx.x] = pair.in[threadIdx.x] + helper(y);", {(2, 8)}, False),
        ("variable[threadIdx.x] = x[threadIdx.x];", {"variable"}, False),
        ("table[0][threadIdx.x] = x[threadIdx.x];", set(), True),
        ("table[0][count * threadIdx.x] = x[threadIdx.x];", {(4, 0)}, True),
        ("y[int(x[0])] = x[threadIdx.x];", {(1, 0)}, False),
        ("(x[0] > 0 ? y : pair.out)[threadIdx.x] = 1;", {(1, 0), (2, 8)}, False),
        (
            'asm volatile("{ .reg .f32 r; mov.f32 r, 0f00000000; wmma.store.d.sync.aligned.row.m16n16k16.global.f32 '
            '[%0], {r, r, r, r, r, r, r, r}; }" :: "l"(y));',
            {(1, 0)},
            False,
        ),
        (
            'float r = 0; asm volatile("wmma.load.c.sync.aligned.row.m16n16k16.global.f32 '
            '{%0, %0, %0, %0, %0, %0, %0, %0}, [%1];" : "+f"(r) : "l"(x)); y[threadIdx.x] = r;',
            {(1, 0)},
            False,
        ),
        (
            "__shared__ float s[64]; unsigned at = (unsigned)__cvta_generic_to_shared(s); "
            'asm volatile("cp.async.ca.shared.global [%0], [%1], 16;" :: "r"(at), "l"(x)); y[threadIdx.x] = s[0];',
            {(1, 0)},
            False,
        ),
        ('asm volatile("prefetch.global.L2 [%0];" :: "l"(x));', set(), False),
    ],
)
def test_pointers_through_which_a_kernel_writes(body: str, pointers: set, elsewhere: bool) -> None:
    signature = "const float* x, float* y, Pair pair, float** table, size_t count"
    text = f'{HEAD}extern "C" __global__ void k({signature}) {{ {body} }}'
    stores = CompiledKernel(parse(compile_ptx(text)), "k").stores
    assert (set(stores.pointers), stores.elsewhere) == (pointers, elsewhere)


@pytest.mark.parametrize(
    ("body", "atomic"),
    [
        ("atomicAdd(y + int(x[0]), 1.0f); *pair.out = 1;", {(1, 0)}),
        ("atomicAdd(y, 1.0f); atomicExch(variable, 1.0f); y[1] = 0;", {"variable"}),
        ("atomicAdd_block(y, 1.0f);", set()),
        ("atomicAdd(y, 1.0f); table[0][threadIdx.x] = 1;", set()),
    ],
)
def test_pointers_through_which_a_kernel_writes_by_atomics_only(body: str, atomic: set) -> None:
    text = f'{HEAD}extern "C" __global__ void k(const float* x, float* y, Pair pair, float** table) {{ {body} }}'
    assert CompiledKernel(parse(compile_ptx(text)), "k").stores.atomic == atomic
