"""What an extent of a grid says about one size."""

from __future__ import annotations

from gpuemu_lsp.engine.symbolic.size import (
    Size,
    SizeOperation,
    SizeSymbol,
    atoms,
)

_MAX_FEWER, _LEAST_BLOCK = 2, 32


def rounds_up(extent: Size, name: str) -> bool:
    """Return whether a grid has blocks for every value of a size: it is rounded up, or has a block for each."""
    if any(SizeSymbol(name) in factors for factors, _ in extent.terms):
        return True
    for atom in atoms(extent):
        if not isinstance(atom, SizeOperation):
            continue
        if atom.operator in ("min", "max") and any(rounds_up(operand, name) for operand in atom.operands):
            return True
        if atom.operator == "ceil_div" and any(SizeSymbol(name) in factors for factors, _ in atom.left.terms):
            # `(n - 1 + 255) // 256` rounds up the number of rows `n - 1` of `n` row pointers.
            fewer = _MAX_FEWER if (atom.right.constant or 0) >= _LEAST_BLOCK else 0
            if atom.left.offset >= -fewer:
                return True
    return False
