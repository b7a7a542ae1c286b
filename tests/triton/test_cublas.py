"""cuBLAS, with which Triton's programs compare."""

from __future__ import annotations

import pytest
import torch
from triton._C.libtriton import nvidia

from gpuemu.triton import emulated


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32])
def test_matrix_products(dtype):
    with emulated():
        a, b = torch.randn(16, 32, device="cuda").to(dtype), torch.randn(24, 32, device="cuda").to(dtype)
        c, d = torch.ones(16, 24, device="cuda").to(dtype), torch.empty(16, 24, device="cuda", dtype=dtype)
        library = nvidia.cublas.CublasLt(torch.empty(1024, device="cuda", dtype=torch.uint8))
        library.gemm(a, b, c, d, 2.0, 3.0)
        library.matmul(a, b, c)
        expected = a.double() @ b.double().T
        torch.testing.assert_close(c, expected.to(dtype))
        torch.testing.assert_close(d, (2 * expected + 3).to(dtype))
