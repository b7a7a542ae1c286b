"""Values of matrix elements by format, and sums of products.

A product of two elements and the sum of those of one instruction are exact, or nearly so, in fp64; the sum with the
accumulator is rounded once, to nearest.
"""

from __future__ import annotations

from typing import Final, TypeAlias

import ml_dtypes
import numpy as np
import numpy.typing as npt

Values: TypeAlias = npt.NDArray[np.float64]
"""Values of matrix elements, of the shape (rows, k) or (rows, columns)."""
Cells: TypeAlias = npt.NDArray[np.uint32]
"""Contents of tensor memory, of the shape (lanes, columns)."""

_TYPES: Final = {
    "f16": np.dtype(np.float16),
    "bf16": np.dtype(ml_dtypes.bfloat16),
}

BITS: Final = {"f16": 16, "bf16": 16}
"""Bits that an element takes in shared memory."""


def element_values(pieces: npt.NDArray[np.uint8], format_: str) -> Values:
    """Return the values of elements that follow one another in the last dimension of some bytes."""
    values: Values = np.ascontiguousarray(pieces).view(_TYPES[format_]).astype(np.float64)
    return values


def result_values(cells: Cells, format_: str) -> Values:
    """Return the values of an accumulator, one element in each cell."""
    if format_ == "f32":
        return cells.view(np.float32).astype(np.float64)
    return (cells & np.uint32(0xFFFF)).astype(np.uint16).view(np.float16).astype(np.float64)


def result_cells(values: Values, format_: str) -> Cells:
    """Return the cells of an accumulator with some values, rounded to nearest; those of f16 are in the low halves."""
    with np.errstate(all="ignore"):
        if format_ == "f32":
            return values.astype(np.float32).view(np.uint32)
        return values.astype(np.float16).view(np.uint16).astype(np.uint32)
