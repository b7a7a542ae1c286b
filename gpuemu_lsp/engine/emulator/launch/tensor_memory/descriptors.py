"""Instruction descriptors of ``tcgen05.mma`` (PTX ISA section 9.7.16.4.2)."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Final

_FORMATS: Final[dict[str, dict[int, str]]] = {
    "f16": {0: "f16", 1: "bf16"},
}
"""Formats of A and B by kind and code."""

_RESULTS: Final[dict[str, dict[int, str]]] = {
    "f16": {0: "f16", 1: "f32"},
}


@dataclass(frozen=True, slots=True)
class ProductShape:
    """A product as its descriptor says: rows, columns, and formats by name; A and B by a pair.

    ``mn_major`` says of A and of B whether they are stored by rows (columns of B), ``negated`` whether they are
    multiplied by -1.
    """

    rows: int
    columns: int
    result: str
    formats: tuple[str, str]
    negated: tuple[bool, bool]
    mn_major: tuple[bool, bool]


@lru_cache(maxsize=64)
def decoded_shape(bits: int, kind: str, group: int) -> ProductShape | str:
    """Return the product of a descriptor, or what of it cannot be run."""
    if bits & 0b100:
        return "a sparse product"
    if bits >> 30:
        return "reuse of B with a shift"
    formats = [_FORMATS[kind].get(bits >> shift & 7) for shift in (7, 10)]
    result = _RESULTS[kind].get(bits >> 4 & 3)
    if result is None or formats[0] is None or formats[1] is None:
        return f"a type that `.kind::{kind}` does not have, in the instruction descriptor {bits:#x}"
    rows, columns = (bits >> 24 & 31) << 4, (bits >> 17 & 63) << 3
    if rows not in (64, 128) or not 8 <= columns <= 256 or columns % (8 if rows == 64 else 16):
        return f"a product of {rows} rows and {columns} columns, of the instruction descriptor {bits:#x},"
    negated = bool(bits >> 13 & 1), bool(bits >> 14 & 1)
    mn_major = bool(bits >> 15 & 1), bool(bits >> 16 & 1)
    return ProductShape(rows, columns, result, (formats[0], formats[1]), negated, mn_major)
