"""Long sums in narrow formats, and chains of elementwise operations, which are not sums."""

from __future__ import annotations

import pytest
from support.ptx_text import entry_of, module_of

from gpuemu_lsp.engine.lint.narrow_sums import narrow_sums

HALF = "#include <cuda_fp16.h>\n#include <cuda_bf16.h>\n__global__ void k"
MATRIX = (
    "#include <mma.h>\n__global__ void k(const __half* a, TYPE* c, int n) {{ using namespace nvcuda::wmma;\n"
    " fragment<matrix_a, 16, 16, 16, __half, row_major> fa; fragment<matrix_b, 16, 16, 16, __half, col_major> fb;\n"
    " fragment<accumulator, 16, 16, 16, TYPE> fc; fill_fragment(fc, TYPE(0));\n"
    " for (int i = 0; i < n; ++i) {{ load_matrix_sync(fa, a + i * 256, 16); load_matrix_sync(fb, a, 16);"
    " mma_sync(fc, fa, fb, fc); }}\n store_matrix_sync(c, fc, 16, mem_row_major); }}"
).replace("{{", "{").replace("}}", "}")  # fmt: skip


@pytest.mark.parametrize(
    ("code", "formats"),
    [
        (HALF + "(__half* x, int n) { __half s = x[0]; for (int i = 1; i < n; ++i) s = __hadd(s, x[i]); x[0] = s; }", "f16"),
        (HALF + "(__half2* x, int n) { __half2 s = x[0]; for (int i = 1; i < n; ++i) s = __hfma2(x[i], x[i], s); x[0] = s; }",
         "f16"),
        (HALF + "(__nv_bfloat16* x, int n) { __nv_bfloat16 s = x[0]; for (int i = 1; i < n; ++i)"
         " s = __float2bfloat16(__bfloat162float(s) + __bfloat162float(x[i])); x[0] = s; }", "bf16"),
        (HALF + "(__half* x) { __half s = x[threadIdx.x]; for (int i = 1; i < 4; ++i) s = __hadd(s, x[i * 32 + threadIdx.x]);"
         " for (int i = 16; i; i /= 2) s = __hadd(s, __shfl_xor_sync(~0u, s, i)); x[0] = s; }", "f16"),
        (MATRIX.replace("TYPE", "__half"), "mma.f16"),
        (MATRIX.replace("TYPE", "float"), ""),
        (HALF + "(__half* x, int n) { float s = 0; for (int i = 0; i < n; ++i) s += __half2float(x[i]); x[0] = __float2half(s); }",
         ""),
        # Each term is rounded, the sum is not.
        (HALF + "(__half* x, int n) { float s = 0; for (int i = 0; i < n; ++i) s += __half2float(__hmul(x[i], x[i + n]));"
         " x[0] = __float2half(s); }", ""),
        (HALF + "(__half* x) { __half a = x[threadIdx.x]; x[threadIdx.x] = __hadd(__hfma(a, __hfma(a, a, a), a), a); }", ""),
        # A running maximum is exact.
        (HALF + "(__half* x, int n) { __half s = x[0]; for (int i = 1; i < n; ++i) s = __hmax(s, x[i]); x[0] = s; }", ""),
        (HALF + "(__half* x, int n) { for (int i = 0; i < n; ++i) x[i] = __hadd(x[i], x[i + n]); }", ""),
    ],
)  # fmt: skip
def test_formats_of_long_sums(code: str, formats: str) -> None:
    module = module_of(code, "k")
    assert sorted(narrow_sums(module, entry_of(module).name)) == formats.split()
