"""cuBLAS as Triton exposes it, computed by PyTorch on the CPU: programs compare with it and time it."""

from __future__ import annotations

from typing import Any


class CublasLt:
    """Matrix products of row-major tensors, the second factor transposed.

    The library's other operations, on matrices with block scales, need ``sm_100`` and are not there.
    """

    def __init__(self, workspace: Any) -> None:
        """Take the workspace, which is not needed."""

    def matmul(self, a: Any, b: Any, c: Any) -> None:
        """Compute ``c = a @ b.T``, summed in fp32."""
        c.copy_(a.float() @ b.float().T)

    def gemm(self, a: Any, b: Any, c: Any, d: Any, alpha: float = 1.0, beta: float = 0.0) -> None:
        """Compute ``d = alpha * a @ b.T + beta * c``, summed in fp32."""
        product = alpha * (a.float() @ b.float().T)
        d.copy_(product + beta * c.float() if beta else product)
