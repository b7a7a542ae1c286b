"""Values of matrix elements by format, and sums of products.

A product of two elements and the sum of those of one instruction are exact, or nearly so, in fp64; the sum with the
accumulator is rounded once, to nearest.
"""

from __future__ import annotations

from functools import cache
from typing import Final, TypeAlias

import ml_dtypes
import numpy as np
import numpy.typing as npt

Values: TypeAlias = npt.NDArray[np.float64]
"""Values of matrix elements, of the shape (rows, k) or (rows, columns)."""
Cells: TypeAlias = npt.NDArray[np.uint32]
"""Contents of tensor memory, of the shape (lanes, columns)."""
Pieces: TypeAlias = npt.NDArray[np.uint8]
"""Bytes of elements, those of a row in the last dimension: of the shape (rows, bytes)."""

_WIDE: Final = {"f16": np.dtype(np.float16), "bf16": np.dtype(ml_dtypes.bfloat16), "tf32": np.dtype(np.float32)}
_NARROW: Final = {
    "e4m3": np.dtype(ml_dtypes.float8_e4m3fn),
    "e5m2": np.dtype(ml_dtypes.float8_e5m2),
    "e2m3": np.dtype(ml_dtypes.float6_e2m3fn),
    "e3m2": np.dtype(ml_dtypes.float6_e3m2fn),
    "e2m1": np.dtype(ml_dtypes.float4_e2m1fn),
    "e2m1 packed": np.dtype(ml_dtypes.float4_e2m1fn),
    "u8": np.dtype(np.uint8),
    "s8": np.dtype(np.int8),
    "ue8m0": np.dtype(ml_dtypes.float8_e8m0fnu),
    "ue4m3": np.dtype(ml_dtypes.float8_e4m3fn),
}
_BITS: Final = {"e2m3": 6, "e3m2": 6, "e2m1": 4, "e2m1 packed": 4, "ue4m3": 7}
"""Bits of the formats that have fewer than eight."""

_TF32 = np.uint32(0xFFFFE000)
"""Bits of an f32 that a product of tf32 reads."""


def element_bits(format_: str) -> int:
    """Return the bits that an element takes in shared memory; those of 4 and 6 bits are padded to 8."""
    return _WIDE[format_].itemsize * 8 if format_ in _WIDE else 4 if format_ == "e2m1 packed" else 8


def padded(format_: str) -> bool:
    """Return whether elements are padded in shared memory: 16 of them, and their padding, take 16 bytes."""
    return format_ in ("e2m3", "e3m2", "e2m1")


def used_bytes(format_: str) -> int:
    """Return the bytes of 16 in shared memory that hold elements."""
    return 2 * _BITS[format_] if padded(format_) else 16


@cache
def _table(format_: str) -> npt.NDArray[np.float64]:
    """Return the value of each code of a narrow format: of the shape (256,)."""
    codes = (np.arange(256) & (1 << _BITS.get(format_, 8)) - 1).astype(np.uint8)
    values: npt.NDArray[np.float64] = codes.view(_NARROW[format_]).astype(np.float64)
    return values


def narrow_values(codes: Pieces, format_: str) -> npt.NDArray[np.float64]:
    """Return the values of codes, one in each byte, in an array of the same shape."""
    return _table(format_)[codes]


def element_values(pieces: Pieces, format_: str) -> Values:
    """Return the values of the elements of each row."""
    if format_ in _WIDE:
        words = np.ascontiguousarray(pieces)
        if format_ == "tf32":
            words = words.view(np.uint32) & _TF32
        values: Values = words.view(_WIDE[format_]).astype(np.float64)
        return values
    if format_ == "e2m1 packed":
        return narrow_values(_split(pieces, 4), format_)
    if padded(format_):
        bits = _BITS[format_]
        used = pieces.reshape(len(pieces), -1, 16)[:, :, : used_bytes(format_)]
        return narrow_values(_split(used, bits).reshape(len(pieces), -1), format_)
    return narrow_values(pieces, format_)


def _split(pieces: Pieces, bits: int) -> Pieces:
    """Return the codes of some bits each that follow one another in the last dimension."""
    single = np.unpackbits(pieces, axis=-1, bitorder="little")
    return np.packbits(single.reshape(*pieces.shape[:-1], -1, bits), axis=-1, bitorder="little")[..., 0]


def result_values(cells: Cells, format_: str) -> Values:
    """Return the values of an accumulator, one element in each cell."""
    if format_ == "f16":
        return (cells & np.uint32(0xFFFF)).astype(np.uint16).view(np.float16).astype(np.float64)
    return cells.view(np.float32 if format_ == "f32" else np.int32).astype(np.float64)


def result_cells(values: Values, format_: str, *, saturating: bool = False) -> Cells:
    """Return the cells of an accumulator with some values, rounded to nearest; those of f16 are in the low halves."""
    if format_ == "s32":
        exact = values.astype(np.int64)
        if saturating:
            exact = np.clip(exact, -(1 << 31), (1 << 31) - 1)
        return exact.astype(np.uint64).astype(np.uint32)
    with np.errstate(all="ignore"):
        if format_ == "f32":
            return values.astype(np.float32).view(np.uint32)
        return values.astype(np.float16).view(np.uint16).astype(np.uint32)
