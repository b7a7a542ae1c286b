"""Transfer functions of integer instructions on affine values: strides between lanes, and low bits known to be zero.

An affine value is ``base + i * step`` for lane i. Sums, differences and products by a constant of affine values are
affine (Sampaio et al., "Divergence analysis", TOPLAS 35(4), 2013). NVRTC expresses index arithmetic also by shifts,
masks and ``or``. These are not linear, but where the lanes of a warp differ in the low bits of a base only, and those
bits are zero in the base, adding ``i * step`` causes no carry: each lane's bits can then be computed separately.

::

    tid = 32 w + i            base 32 w: five zero bits; step 1      lanes differ in the low five bits
    tid & 31  ->  i           affine, step 1                         the mask keeps all bits in which lanes differ
    tid >> 5  ->  w           uniform                                the shift drops all of them
    tid < 64                  uniform                                64 is a multiple of 32: no warp is split

A rule returns None if it does not apply. The caller then makes the result uniform if all operands are, else
varying.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from gpuemu_lsp.engine.emulator.ir.lattice import VARYING, WARP_SIZE, LatticeValue, VectorShape, join
from gpuemu_lsp.engine.emulator.ir.operands import registers_written
from gpuemu_lsp.engine.ptx.model import Immediate, Instruction, Operand, Register

WINDOW_ZEROS = 8
"""Low bits that are zero in the address at which the window of a state space, or a global variable, begins."""


@dataclass(frozen=True, slots=True)
class AffineContext:
    """Facts that rules share: registers that hold one integer, and the number of lanes per native vector."""

    constants: Mapping[str, int]
    lanes: int

    def constant(self, operand: Operand) -> int | None:
        """Return the integer an operand is known to hold."""
        if isinstance(operand, Immediate) and operand.kind == "int":
            return operand.bits
        return self.constants.get(operand.name) if isinstance(operand, Register) else None

    def extent(self, shape: VectorShape) -> int:
        """Return the distance from the base to the value of the last lane."""
        return shape.step * ((self.lanes if shape.per_part else WARP_SIZE) - 1)


def trailing_zeros(value: int) -> int:
    """Return the number of trailing zero bits; 63 for 0, all bits of which are zero."""
    return 63 if value == 0 else (value & -value).bit_length() - 1


def _any_per_part(values: Sequence[LatticeValue]) -> bool:
    return any(value.shape.per_part for value in values)


def _copy(context: AffineContext, instruction: Instruction, values: list[LatticeValue]) -> LatticeValue | None:
    # A mov that packs or unpacks a vector is not a copy.
    return values[0] if len(values) == 1 and len(registers_written(instruction)) == 1 else None


def _convert_address(
    context: AffineContext, instruction: Instruction, values: list[LatticeValue]
) -> LatticeValue | None:
    # A generic address is an offset plus the start of its window.
    return LatticeValue(values[0].shape, min(values[0].zeros, WINDOW_ZEROS))


def _add(context: AffineContext, instruction: Instruction, values: list[LatticeValue]) -> LatticeValue | None:
    if not _wraps(instruction):
        return None
    sign = -1 if instruction.opcode == "sub" else 1
    step = values[0].shape.step + sign * values[1].shape.step
    return LatticeValue(VectorShape(_any_per_part(values), step), min(values[0].zeros, values[1].zeros))


def _product(context: AffineContext, operands: Sequence[Operand], values: Sequence[LatticeValue]) -> LatticeValue:
    """Return the value of a product."""
    a, b = values[:2]
    zeros = min(a.zeros + b.zeros, 63)
    if a.shape.part_uniform and b.shape.part_uniform:
        return LatticeValue(VectorShape(_any_per_part(values[:2])), zeros)
    for this, other, operand in ((a, b, operands[1]), (b, a, operands[0])):
        factor = context.constant(operand)
        # A uniform factor that is not a constant gives a stride that is not known before the kernel runs.
        if other.shape.part_uniform and factor is not None:
            return LatticeValue(VectorShape(_any_per_part(values[:2]), this.shape.step * _as_signed(factor)), zeros)
    return LatticeValue(VARYING)


def _as_signed(value: int) -> int:
    """Return a literal such as 0xfffffffc as the small negative number that it stands for in 32 bits."""
    return value - (1 << 32) if (1 << 31) <= value < (1 << 32) else value


def _multiply(context: AffineContext, instruction: Instruction, values: list[LatticeValue]) -> LatticeValue | None:
    # The high half of a product is not linear in its factors.
    if not _wraps(instruction) or "hi" in instruction.modifiers:
        return None
    product = _product(context, instruction.operands[1:3], values)
    if "wide" in instruction.modifiers:
        # Conservative: zero bits above the 32-bit factors are not counted.
        product = LatticeValue(product.shape, min(product.zeros, 31))
    if instruction.opcode == "mul" or product.shape.varying:
        return product
    addend = values[2]
    shape = VectorShape(product.shape.per_part or addend.shape.per_part, product.shape.step + addend.shape.step)
    return LatticeValue(shape, min(product.zeros, addend.zeros))


def _shift_left(context: AffineContext, instruction: Instruction, values: list[LatticeValue]) -> LatticeValue | None:
    amount = context.constant(instruction.operands[2])
    # A stride shifted further is not below the largest one kept.
    if amount is None or not 0 <= amount < 24:
        return None
    shape = values[0].shape
    return LatticeValue(VectorShape(shape.per_part, shape.step << amount), min(values[0].zeros + amount, 63))


def _shift_right(context: AffineContext, instruction: Instruction, values: list[LatticeValue]) -> LatticeValue | None:
    amount = context.constant(instruction.operands[2])
    if amount is None or values[0].shape.part_uniform:
        return None
    # The lanes of a part differ in fewer bits than those of a warp: what is not uniform may still be so per part.
    for value in (values[0], _with_base_per_part(context, values[0])):
        bits = _differing_bits(context, value)
        if bits is not None and amount >= bits:
            return LatticeValue(VectorShape(value.shape.per_part), max(value.zeros - amount, 0))
    return None


def _with_base_per_part(context: AffineContext, value: LatticeValue) -> LatticeValue:
    """Return an affine value with one base for each part instead of one for the warp."""
    shape = value.shape
    if shape.per_part:
        return value
    # The bases lie step * lanes apart, which limits the zero bits they have in common.
    distance = trailing_zeros(shape.step * context.lanes)
    return LatticeValue(VectorShape(True, shape.step), min(value.zeros, distance))


def _differing_bits(context: AffineContext, value: LatticeValue) -> int | None:
    """Return the number of low bits in which lanes differ; None if adding ``i * step`` may carry beyond them."""
    if value.shape.step < 0:
        return None
    bits = context.extent(value.shape).bit_length()
    return bits if value.zeros >= bits else None


def _and(context: AffineContext, instruction: Instruction, values: list[LatticeValue]) -> LatticeValue | None:
    for this, other in ((0, 1), (1, 0)):
        mask = context.constant(instruction.operands[1 + other])
        if values[this].shape.part_uniform or mask is None:
            continue
        for value in (values[this], _with_base_per_part(context, values[this])):
            bits = _differing_bits(context, value)
            low = (1 << bits) - 1 if bits is not None else 0
            # A mask that keeps some of the bits in which lanes differ, but not all, leaves no stride.
            if bits is not None and mask & low == low:
                return value
            if bits is not None and mask & low == 0:
                return LatticeValue(VectorShape(value.shape.per_part), value.zeros)
        return None
    return None


def _or(context: AffineContext, instruction: Instruction, values: list[LatticeValue]) -> LatticeValue | None:
    """Treat ``or`` as an addition where no bit is set on both sides, which is how NVRTC writes many sums."""
    for this, other in ((0, 1), (1, 0)):
        value, constant = values[this], context.constant(instruction.operands[1 + other])
        if value.shape.part_uniform or constant is None or constant < 0:
            continue
        # Bits below both the base and the stride are zero in every lane.
        free = min(value.zeros, trailing_zeros(value.shape.step))
        if constant < (1 << free):
            return LatticeValue(value.shape, min(value.zeros, trailing_zeros(constant)))
    return None


def _convert(context: AffineContext, instruction: Instruction, values: list[LatticeValue]) -> LatticeValue | None:
    types = instruction.modifiers
    if len(types) != 2 or types[0][0] not in "sub" or types[1][0] not in "sub":
        return None
    to, source = int(types[0][1:]), int(types[1][1:])
    # A conversion to or from 8 or 16 bits truncates each lane on its own.
    if to < 32 or source < 32:
        return None
    # 32 to 64 bits is linear only if no lane wraps: the generated code checks, and the register is pinned otherwise.
    return values[0]


def _select(context: AffineContext, instruction: Instruction, values: list[LatticeValue]) -> LatticeValue | None:
    # A varying condition mixes two sequences of lanes.
    if not values[2].shape.uniform:
        return None
    return join(values[0], values[1])


_SPLITS_BELOW = {"lt": True, "lo": True, "ge": True, "hs": True, "le": False, "ls": False, "gt": False, "hi": False}
"""Comparisons whose outcome changes just below their second operand (True) or just above it (False)."""
_SWAPPED = {"lt": "gt", "lo": "hi", "ge": "le", "hs": "ls", "le": "ge", "ls": "hs", "gt": "lt", "hi": "lo"}
"""The comparison with operands exchanged."""


def _compare(context: AffineContext, instruction: Instruction, values: list[LatticeValue]) -> LatticeValue | None:
    """Find comparisons that are uniform because the threshold does not fall between two lanes of a warp or part.

    ``tid < 64`` holds for all lanes of a warp or for none, since 64 is a multiple of 32; the base decides.
    """
    if len(instruction.modifiers) != 2 or len(values) != 2 or not _wraps(instruction):
        return None
    comparison = instruction.modifiers[0]
    for this, other, swapped in ((0, 1, False), (1, 0, True)):
        relation = _SWAPPED.get(comparison) if swapped else comparison
        if relation not in _SPLITS_BELOW:
            continue
        if values[this].shape.part_uniform or not values[other].shape.part_uniform:
            continue
        below = _SPLITS_BELOW[relation]
        bits = _differing_bits(context, values[this])
        constant = context.constant(instruction.operands[1 + other])
        # ``x <= c`` changes at c + 1, whose zero bits are known only if c is a constant.
        aligned = values[other].zeros if constant is None or below else trailing_zeros(constant + 1)
        if bits is not None and (constant is not None or below) and aligned >= bits:
            return LatticeValue(VectorShape(_any_per_part(values)))
    return None


def _wraps(instruction: Instruction) -> bool:
    """Whether it is integer arithmetic modulo 2^32 or 2^64, without saturation and carry: only that is linear."""
    kind = instruction.modifiers[-1]
    if kind[0] not in "sub" or kind[1:] not in ("32", "64"):
        return False
    return not {"sat", "cc"} & set(instruction.modifiers)


_AffineRule: TypeAlias = Callable[[AffineContext, Instruction, list[LatticeValue]], "LatticeValue | None"]

AFFINE_RULES: dict[str, _AffineRule] = {
    "mov": _copy,
    "cvta": _convert_address,
    "add": _add,
    "sub": _add,
    "mul": _multiply,
    "mad": _multiply,
    "shl": _shift_left,
    "shr": _shift_right,
    "and": _and,
    "or": _or,
    "cvt": _convert,
    "selp": _select,
    "setp": _compare,
}
"""Transfer functions by opcode."""
