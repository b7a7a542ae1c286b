"""Instruction descriptors of ``tcgen05.mma`` (PTX ISA section 9.7.16.4.2)."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Final

from gpuemu_lsp.engine.emulator.matrix.tensor_memory import TensorForm

_NARROW: Final = {0: "e4m3", 1: "e5m2", 3: "e2m3", 4: "e3m2", 5: "e2m1"}
_FORMATS: Final[dict[str, dict[int, str]]] = {
    "f16": {0: "f16", 1: "bf16"},
    "tf32": {2: "tf32"},
    "f8f6f4": _NARROW,
    "i8": {0: "u8", 1: "s8"},
    "mxf8f6f4": _NARROW,
    "mxf4": {1: "e2m1 packed"},
    "mxf4nvf4": {1: "e2m1 packed"},
}
"""Formats of A and B by kind and code."""

_RESULTS: Final[dict[str, dict[int, str]]] = {
    "f16": {0: "f16", 1: "f32"},
    "tf32": {1: "f32"},
    "f8f6f4": {0: "f16", 1: "f32"},
    "i8": {2: "s32"},
}

_ROWS: Final = {(1, False): (64, 128), (1, True): (32, 64, 128), (2, False): (128, 256)}
"""Rows of a product by the number of blocks and whether weights are stationary."""


@dataclass(frozen=True, slots=True)
class ProductShape:
    """A product as its descriptor says: rows, columns, and formats by name; A and B by a pair.

    ``mn_major`` says of A and of B whether they are stored by rows (columns of B), ``negated`` whether they are
    multiplied by -1. ``saturating``: sums of integers are clamped. ``scale_format`` is that of scale factors, and
    ``scale_ids`` are the numbers of the bytes of a cell that they begin at.
    """

    rows: int
    columns: int
    result: str
    formats: tuple[str, str]
    negated: tuple[bool, bool]
    mn_major: tuple[bool, bool]
    saturating: bool = False
    scale_format: str = ""
    scale_ids: tuple[int, int] = (0, 0)


@lru_cache(maxsize=64)
def decoded_shape(bits: int, form: TensorForm) -> ProductShape | str:
    """Return the product of a descriptor, or what of it cannot be run."""
    if bits & 0b100:
        return "a sparse product"
    scaled = bool(form.scales)
    if bits >> 31 or (not scaled and bits >> 30):
        return "a product with k = 96" if scaled else "reuse of B with a shift"
    a, b = (_FORMATS[form.kind].get(bits >> shift & 7) for shift in (7, 10))
    result = "f32" if scaled else _RESULTS[form.kind].get(bits >> 4 & 3)
    if result is None or a is None or b is None:
        return f"a type that `.kind::{form.kind}` does not have, in the instruction descriptor {bits:#x},"
    rows, columns = (bits >> 24 & 31) << 4, (bits >> 17 & 63) << 3
    allowed = _ROWS[form.group, form.weights]
    if rows not in (allowed[-1:] if scaled else allowed) or not 8 <= columns <= 256 or columns % (8 * form.group):
        return f"a product of {rows} rows and {columns} columns, of the instruction descriptor {bits:#x},"
    return ProductShape(
        rows,
        columns,
        result,
        (a, b),
        (bool(bits >> 13 & 1), bool(bits >> 14 & 1)),
        (bool(bits >> 15 & 1), bool(bits >> 16 & 1)),
        not scaled and bool(bits >> 3 & 1),
        ("ue8m0" if bits >> 23 & 1 else "ue4m3") if scaled else "",
        (bits >> 29 & 3, bits >> 4 & 3) if scaled else (0, 0),
    )
