"""Macros that are the head of a loop, with the block behind them: ``EACH(i, n) { ... }``."""

from __future__ import annotations

from dataclasses import replace

from gpuemu_lsp.engine.hostcode import ir
from gpuemu_lsp.engine.source.preprocessor.macros import Macro

_LOOP = "for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < (n); i += blockDim.x * gridDim.x)"
LOOPS_OF_PYTORCH = {
    name: (Macro(name, parameters, _LOOP),)
    for name, parameters in (("CUDA_KERNEL_LOOP", ("i", "n")), ("CUDA_KERNEL_LOOP_TYPE", ("i", "n", "type")))
}
"""Macros of ATen/cuda/detail/KernelUtils.h, which is not a header of the user's: one thread takes each element."""


def with_body(head: ir.Statement | None, body: ir.Block) -> ir.Statement | None:
    """Return a loop or a branch with the block behind it, None for any other statement; others may be before it."""
    match head:
        case ir.Block(statements=(*before, last)):
            whole = with_body(last, body)
            return None if whole is None else replace(head, statements=(*before, whole))
        case ir.Loop(body=ir.Block(statements=())):
            return replace(head, body=body)
        case ir.IfStatement(then=ir.Block(statements=()), other=None):
            return replace(head, then=body)
    return None
