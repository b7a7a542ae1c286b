"""What the code of a kernel says about its rounding and its special values."""

from __future__ import annotations

from gpuemu_lsp.engine.lint import arithmetic_precisions, ignores_nan, linear_only, narrow_sums
from gpuemu_lsp.engine.oracle import Numerics
from gpuemu_lsp.engine.ptx.model import Module


def numerics_of_code(module: Module, entry: str) -> Numerics:
    """Return the numerics of an entry of a module."""
    return Numerics(
        arithmetic_precisions(module, entry),
        linear=linear_only(module, entry),
        narrow_sums=narrow_sums(module, entry),
        ignores_nan=ignores_nan(module, entry),
    )
