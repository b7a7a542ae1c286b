"""Precision analysis, exactness on integers, normal form, and demangling."""

from __future__ import annotations

import random

import pytest
from support.ptx_text import compiled, entry_of, module_of

from gpuemu_lsp.engine.ptx import arithmetic_precisions, linear_only, normalise, parse
from gpuemu_lsp.engine.ptx.demangle import demangled_name

HALF = "#include <cuda_fp16.h>\n#include <cuda_bf16.h>\n"
_MMA = (
    "__global__ void k(unsigned* x) {{ unsigned a = x[0], b = x[1], c = x[2]; {{ unsigned r, s, t, u;"
    ' asm volatile("mma.sync.aligned.{form} {{%0,%1,%2,%3}}, {{{left}}}, {{{right}}}, {{%0,%1,%2,%3}};"'
    ' : "=r"(r), "=r"(s), "=r"(t), "=r"(u) : "r"(a), "r"(b), "r"(c)); x[3] = r + s + t + u; }} }}'
)


@pytest.mark.parametrize(
    ("code", "precisions", "linear"),
    [
        ("__global__ void k(float* x, int n) { float s = 0; for (int i = 0; i < n; ++i) s += x[i]; x[0] = s; }", "f32", True),
        ("__global__ void k(double* x) { x[0] = x[1] * x[2] + x[3]; }", "f64", True),
        ("__global__ void k(int* x) { x[0] = x[1] / 3; }", "", True),
        ("__global__ void k(float* x, int* i) { x[0] = x[i[0]]; }", "", True),
        ("__global__ void k(float* x) { x[0] = fmaxf(x[1], 0.f) - 2 * x[2]; }", "f32", True),
        ("__global__ void k(float* x) { float m = -INFINITY; for (int i = 0; i < 5; ++i) m = fmaxf(m, x[i]); x[0] = m; }",
         "", True),
        ("__global__ void k(float* x) { x[0] = x[1] * 0.1f; }", "f32", False),
        ("__global__ void k(float* x) { x[0] = x[1] / x[2]; }", "f32", False),
        ("__global__ void k(float* x) { x[0] = sqrtf(x[1]); }", "f32", False),
        ("__global__ void k(float* x) { x[0] = expf(x[1]); }", "f32", False),
        ("__global__ void k(float* x) { atomicAdd(x, x[1]); }", "f32", True),
        ("__constant__ float c[2] = {0.1f, 3}; __global__ void k(float* x, int i) { x[0] = x[1] * c[i]; }", "f32", False),
        ("__device__ __noinline__ float f(float x) { return x / 7; } __global__ void k(float* x) { x[0] = f(x[1]); }",
         "f32", False),
        ("__device__ __noinline__ float f(float x) { return x / 7; } __global__ void k(float* x) { x[0] = x[1] + x[2]; }",
         "f32", True),
        ('__global__ void k(float* x) { x[0] = x[1] + 1; if (x[0] < 0) printf("%f\\n", x[0]); }', "f32", True),
        (HALF + "__global__ void k(__half* x) { x[0] = __hadd(x[1], x[2]); }", "f16", True),
        (HALF + "__global__ void k(__half* x) { x[0] = __hmul(x[1], __float2half(0.3f)); }", "f16", False),
        (HALF + "__global__ void k(__nv_bfloat16* x) { x[0] = __hfma(x[1], x[2], x[3]); }", "bf16", True),
        # A narrowing conversion before the final store rounds the output; before further arithmetic it is a precision.
        (HALF + "__global__ void k(const float* x, __half* y) { y[0] = __float2half(x[0] + x[1]); }", "f32", True),
        (HALF + "__global__ void k(const float* x, __half2* y) { y[0] = __floats2half2_rn(x[0] + x[1], x[2]); }", "f32", True),
        (HALF + "__global__ void k(float* x) { x[0] = __half2float(__float2half(x[1])) + x[2]; }", "f16 f32", True),
        (HALF + "__global__ void k(float* x) { __shared__ __half s[32]; s[threadIdx.x] = __float2half(x[threadIdx.x]);"
         " __syncthreads(); x[0] = __half2float(s[1]) + 1; }", "f16 f32", True),
        ("#include <mma.h>\n__global__ void k(const __half* a, float* c) { using namespace nvcuda::wmma;\n"
         " fragment<matrix_a, 16, 16, 16, __half, row_major> fa; fragment<matrix_b, 16, 16, 16, __half, col_major> fb;\n"
         " fragment<accumulator, 16, 16, 16, float> fc; fill_fragment(fc, 0.f); load_matrix_sync(fa, a, 16);\n"
         " load_matrix_sync(fb, a, 16); mma_sync(fc, fa, fb, fc); store_matrix_sync(c, fc, 16, mem_row_major); }",
         "mma", True),
        ("#include <mma.h>\n__global__ void k(const __half* a, __half* c) { using namespace nvcuda::wmma;\n"
         " fragment<matrix_a, 16, 16, 16, __half, row_major> fa; fragment<matrix_b, 16, 16, 16, __half, col_major> fb;\n"
         " fragment<accumulator, 16, 16, 16, __half> fc; fill_fragment(fc, __half(0)); load_matrix_sync(fa, a, 16);\n"
         " load_matrix_sync(fb, a, 16); mma_sync(fc, fa, fb, fc); store_matrix_sync(c, fc, 16, mem_row_major); }",
         "f16", True),
        (_MMA.format(form="m16n8k8.row.col.f32.bf16.bf16.f32", left="%4,%5", right="%6"), "mma", True),
        (_MMA.format(form="m16n8k4.row.col.f32.tf32.tf32.f32", left="%4,%5", right="%6"), "mma tf32", True),
        (_MMA.format(form="m16n8k16.row.col.s32.s8.s8.s32", left="%4,%5", right="%6"), "", True),
    ],
)  # fmt: skip
def test_arithmetic(code: str, precisions: str, linear: bool) -> None:
    module = module_of(code, "k")
    name = entry_of(module).name
    assert sorted(arithmetic_precisions(module, name)) == precisions.split()
    assert linear_only(module, name) is linear


@pytest.mark.parametrize(
    ("before", "after", "same"),
    [
        ("x[0] = x[1] * 2.0f;", "\n\n  x[0] = x[1] * 2.0f; // a comment\n", True),
        ("float a = x[1]; x[0] = a * 3.0f;", "float renamed = x[1]; x[0] = renamed * 3.0f;", True),
        ("x[0] = x[1] * 2.5f;", "x[0] = x[1] * 2.25f;", False),
        ("x[0] = x[1] + x[2];", "x[0] = x[1] - x[2];", False),
        ("if (x[0] > 1) x[0] = 1;", "if (x[0] >= 1) x[0] = 1;", False),
        ('if (x[0] > 1) printf("a");', 'if (x[0] > 1) printf("b");', False),
    ],
)
def test_normal_form_changes_only_with_the_code(before: str, after: str, same: bool) -> None:
    first, second = (parse(compiled(f"__global__ void k(float* x) {{ {code} }}", "k")) for code in (before, after))
    assert (normalise(first) == normalise(second)) is same


def test_a_string_elsewhere_does_not_change_a_kernel() -> None:
    kernel = '__global__ void k(float* x) { printf("value %f\\n", x[0]); }\n'
    other = '__global__ void a(float* x) { printf("another %f\\n", x[1]); }\n'
    from gpuemu_lsp.engine.ptx.normal_form import normalise_function

    forms = set()
    for module in (module_of(kernel, "k"), module_of(other + kernel, "a", "k")):
        forms.add(normalise_function(module, module.functions["_Z1kPf"]))
    assert len(forms) == 1


@pytest.mark.parametrize(
    ("symbol", "name"),
    [
        ("vprintf", "vprintf"),
        ("_Z12gelu_forwardf", "gelu_forward"),
        ("_ZL4slowf", "slow"),
        ("_ZN2nn4reluIfEET_S1_", "nn::relu"),
        ("_ZNK6TensorIfEixEi", "Tensor::operator"),
        ("_ZN6TensorIfEC1EPf", "Tensor::Tensor"),
        ("_ZSt3maxIfERKT_S2_S2_", "std::max"),
        ("_ZN4cuda3std3__43minIiEERKT_S5_S5_", "cuda::std::min"),
        ("_ZN18cooperative_groups4__v412thread_block4syncEv", "cooperative_groups::thread_block::sync"),
        ("_ZN3cub17CUB_200802_800_NS11BlockReduceIfLi256ELNS0_20BlockReduceAlgorithmE1ELi1ELi1ELi0EE3SumEf",
         "cub::BlockReduce::Sum"),
        ("_ZN31_INTERNAL_00000000_4_a_cu_table5tex2DIfEET_yff", "tex2D"),
        ("_ZZ2k1IfLi4EEvPKT_PS0_1PE4tile", "tile"),
        ("_ZZ3fooPfENKUlfE_clEf", "lambda::operator"),
        ("_Z1fILi3EXadL_Z3foovEEEvv", "f"),
        ("_ZN5outer5innerIJifEE3runEv", "outer::inner::run"),
        ("_Z", "_Z"),
        ("_ZN", "_ZN"),
    ],
)  # fmt: skip
def test_demangled_names(symbol: str, name: str) -> None:
    assert demangled_name(symbol) == name


def test_demangled_names_of_compiled_symbols() -> None:
    code = (
        "namespace nn { template <typename T, int N> struct Op { __device__ __noinline__ T apply(T x) const { return x / N; } }; }\n"
        "template <typename F> __device__ __noinline__ float call(F f, float x) { return f(x) / 3; }\n"
        "template <typename T> __global__ void k(T* x) { x[0] = nn::Op<T, 3>().apply(x[1]);"
        " x[1] = call([=] (float v) { return v + x[2]; }, x[3]); }"
    )
    names = {demangled_name(name) for name in module_of(code, "k<float>").functions}
    assert {"nn::Op::apply", "call", "k"} <= names


def test_malformed_symbols() -> None:
    generator = random.Random(3)
    for _ in range(5000):
        length = generator.randrange(40)
        assert demangled_name("_Z" + "".join(generator.choice("NISLEZUTDAl_t0123456789abKXFC") for _ in range(length)))
    assert demangled_name("_Z" + "N" * 5000)
    assert demangled_name("_Z" + "Z" * 5000)
