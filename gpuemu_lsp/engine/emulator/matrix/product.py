"""Shape, types and fragment layout of ``mma`` (PTX ISA section 9.7.14.5).

All fragments follow one rule. With g = lane / 4, t = lane % 4 and p elements per 32-bit register::

    A, register r:       row g + 8 (r % 2), columns p t + 4 p (r / 2) + 0 .. p - 1
    B, register r:       column g, rows p t + 4 p r + 0 .. p - 1
    C and D, element i:  row g + 8 (i / 2), column 2 t + i % 2

So the 32 lanes of one register of A or B, in order, are an 8 x 4p tile in row-major order.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from gpuemu_lsp.engine.emulator.ir.operands import elements
from gpuemu_lsp.engine.ptx.model import Instruction

ELEMENT_BITS = {
    "f16": 16, "bf16": 16, "tf32": 32, "f64": 64, "e4m3": 8, "e5m2": 8, "s8": 8, "u8": 8, "s4": 4, "u4": 4, "b1": 1,
}  # fmt: skip
"""Width in bits of an element of A or B, by type."""

_SHAPES = {
    "f16": {"m16n8k8", "m16n8k16"},
    "bf16": {"m16n8k8", "m16n8k16"},
    "tf32": {"m16n8k4", "m16n8k8"},
    "f64": {"m8n8k4", "m16n8k4", "m16n8k8", "m16n8k16"},
    "e4m3": {"m16n8k16", "m16n8k32"},
    "e5m2": {"m16n8k16", "m16n8k32"},
    "s8": {"m8n8k16", "m16n8k16", "m16n8k32"},
    "s4": {"m8n8k32", "m16n8k32", "m16n8k64"},
    "b1": {"m8n8k128", "m16n8k128", "m16n8k256"},
}
_SHAPES |= {"u8": _SHAPES["s8"], "u4": _SHAPES["s4"]}
_MIXED = ({"s8", "u8"}, {"s4", "u4"}, {"e4m3", "e5m2"})
_ACCUMULATORS = {
    "f16": {"f16", "f32"}, "bf16": {"f32"}, "tf32": {"f32"}, "f64": {"f64"}, "e4m3": {"f16", "f32"},
    "e5m2": {"f16", "f32"}, "s8": {"s32"}, "u8": {"s32"}, "s4": {"s32"}, "u4": {"s32"}, "b1": {"s32"},
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class MatrixProduct:
    """``D = A B + C``: sizes, element types, and the bitwise operation that replaces the product of single bits."""

    m: int
    n: int
    k: int
    a: str
    b: str
    c: str
    d: str
    bitwise: str | None = None
    saturating: bool = False

    @property
    def per_register(self) -> int:
        """Elements of A or B per register."""
        return max(32 // ELEMENT_BITS[self.a], 1)

    @property
    def registers(self) -> tuple[int, int, int, int]:
        """Numbers of registers of A, B, C and D per lane."""
        steps = self.k // (4 * self.per_register)
        rows = self.m // 8
        pairs = {name: rows * (1 if name == "f16" else 2) for name in (self.c, self.d)}
        return rows * steps, steps, pairs[self.c], pairs[self.d]

    @property
    def wide(self) -> bool:
        """Whether registers are 64 bits wide."""
        return self.a == "f64"


def sizes(name: str) -> tuple[int, int, int] | None:
    """Return (m, n, k) of a shape such as ``m16n8k16``."""
    found = re.fullmatch(r"m(\d+)n(\d+)k(\d+)", name)
    return (int(found[1]), int(found[2]), int(found[3])) if found else None


def product_of(instruction: Instruction) -> MatrixProduct | None:
    """Return the product that an ``mma`` computes, or None if it cannot be run."""
    words = [word for word in instruction.modifiers if word not in ("sync", "aligned")]
    bitwise = None
    if words[-1:] == ["popc"]:
        bitwise, words = words[-2], words[:-2]
    if not words or words[1:3] != ["row", "col"]:
        return None
    shape, rest = words[0], words[3:]
    saturating = rest[:1] == ["satfinite"]
    types = rest[saturating:]
    size = sizes(shape)
    if len(types) != 4 or size is None:
        return None
    d, a, b, c = types
    if a not in ELEMENT_BITS or shape not in _SHAPES[a] or not {c, d} <= _ACCUMULATORS[a]:
        return None
    if a != b and {a, b} not in _MIXED:
        return None
    if (a == "b1") != (bitwise in ("xor", "and")) or (saturating and ELEMENT_BITS[a] not in (4, 8)):
        return None
    # Hand-written PTX may have vectors of the wrong length.
    product = MatrixProduct(*size, a, b, c, d, bitwise, saturating)
    given = tuple(len(elements(operand)) for operand in instruction.operands)
    wanted = product.registers
    return product if given == (wanted[3], *wanted[:3]) else None
