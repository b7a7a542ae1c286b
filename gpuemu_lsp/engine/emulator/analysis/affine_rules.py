"""What an integer instruction does to the step between lanes, and to the low bits known to be zero.

A rule gives None where it has nothing to say: uniform in, uniform out.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from gpuemu_lsp.engine.emulator.ir.lattice import VARYING, WARP_SIZE, LatticeValue, VectorShape, join
from gpuemu_lsp.engine.emulator.ir.operands import registers_written
from gpuemu_lsp.engine.ptx.model import Immediate, Instruction, Operand, Register


@dataclass(frozen=True, slots=True)
class Context:
    """What rules know beside their operands: registers that hold one integer, and the lanes of a native vector."""

    constants: Mapping[str, int]
    lanes: int

    def constant(self, operand: Operand) -> int | None:
        """Return the integer an operand is known to hold."""
        if isinstance(operand, Immediate) and operand.kind == "int":
            return operand.bits
        return self.constants.get(operand.name) if isinstance(operand, Register) else None

    def extent(self, shape: VectorShape) -> int:
        """Return how far the last lane lies above the base."""
        return shape.step * ((self.lanes if shape.per_part else WARP_SIZE) - 1)


def trailing_zeros(value: int) -> int:
    """Return how many low bits of a number are zero; 63 for 0, of which all are."""
    return 63 if value == 0 else (value & -value).bit_length() - 1


def _both(facts: Sequence[LatticeValue]) -> bool:
    return any(fact.shape.per_part for fact in facts)


def _copy(context: Context, instruction: Instruction, facts: list[LatticeValue]) -> LatticeValue | None:
    return facts[0] if len(facts) == 1 and len(registers_written(instruction)) == 1 else None


def _add(context: Context, instruction: Instruction, facts: list[LatticeValue]) -> LatticeValue | None:
    if not _plain_integer(instruction):
        return None
    sign = -1 if instruction.opcode == "sub" else 1
    step = facts[0].shape.step + sign * facts[1].shape.step
    return LatticeValue(VectorShape(_both(facts), step), min(facts[0].zeros, facts[1].zeros))


def _scaled(context: Context, operands: Sequence[Operand], facts: Sequence[LatticeValue]) -> LatticeValue | None:
    """Return the fact about a product: a step survives only a constant factor."""
    a, b = facts[:2]
    zeros = min(a.zeros + b.zeros, 63)
    if a.shape.part_uniform and b.shape.part_uniform:
        return LatticeValue(VectorShape(_both(facts[:2])), zeros)
    for this, other, operand in ((a, b, operands[1]), (b, a, operands[0])):
        factor = context.constant(operand)
        if other.shape.part_uniform and factor is not None:
            return LatticeValue(VectorShape(_both(facts[:2]), this.shape.step * _signed(factor)), zeros)
    return LatticeValue(VARYING)


def _signed(value: int) -> int:
    """Read a literal such as 0xfffffffc as the small negative number it stands for in 32 bits."""
    return value - (1 << 32) if (1 << 31) <= value < (1 << 32) else value


def _multiply(context: Context, instruction: Instruction, facts: list[LatticeValue]) -> LatticeValue | None:
    if not _plain_integer(instruction) or "hi" in instruction.modifiers:
        return None
    product = _scaled(context, instruction.operands[1:3], facts)
    if "wide" in instruction.modifiers and product is not None:
        # The product of 32-bit bases is widened: its low bits are those of the factors as before.
        product = LatticeValue(product.shape, min(product.zeros, 31))
    if instruction.opcode == "mul" or product is None or product.shape.varying:
        return product
    addend = facts[2]
    shape = VectorShape(product.shape.per_part or addend.shape.per_part, product.shape.step + addend.shape.step)
    return LatticeValue(shape, min(product.zeros, addend.zeros))


def _shift_left(context: Context, instruction: Instruction, facts: list[LatticeValue]) -> LatticeValue | None:
    amount = context.constant(instruction.operands[2])
    if amount is None or not 0 <= amount < 24:
        return None
    shape = facts[0].shape
    return LatticeValue(VectorShape(shape.per_part, shape.step << amount), min(facts[0].zeros + amount, 63))


def _shift_right(context: Context, instruction: Instruction, facts: list[LatticeValue]) -> LatticeValue | None:
    amount = context.constant(instruction.operands[2])
    if amount is None or facts[0].shape.part_uniform:
        return None
    for fact in (facts[0], _parted_base(context, facts[0])):
        bits = _spread(context, fact)
        if bits is not None and amount >= bits:
            return LatticeValue(VectorShape(fact.shape.per_part), max(fact.zeros - amount, 0))
    return None


def _parted_base(context: Context, fact: LatticeValue) -> LatticeValue:
    """Return a stepping value as one with a base per part: fewer lanes share a base, and differ in fewer bits."""
    shape = fact.shape
    if shape.per_part:
        return fact
    apart = trailing_zeros(shape.step * context.lanes)
    return LatticeValue(VectorShape(True, shape.step), min(fact.zeros, apart))


def _spread(context: Context, fact: LatticeValue) -> int | None:
    """Return the number of low bits in which lanes differ, if adding the lane's step never carries out of them."""
    if fact.shape.step < 0:
        return None
    bits = context.extent(fact.shape).bit_length()
    return bits if fact.zeros >= bits else None


def _and(context: Context, instruction: Instruction, facts: list[LatticeValue]) -> LatticeValue | None:
    for this, other in ((0, 1), (1, 0)):
        mask = context.constant(instruction.operands[1 + other])
        if facts[this].shape.part_uniform or mask is None:
            continue
        for fact in (facts[this], _parted_base(context, facts[this])):
            bits = _spread(context, fact)
            low = (1 << bits) - 1 if bits is not None else 0
            if bits is not None and mask & low == low:
                return fact
            if bits is not None and mask & low == 0:
                return LatticeValue(VectorShape(fact.shape.per_part), fact.zeros)
        return None
    return None


def _or(context: Context, instruction: Instruction, facts: list[LatticeValue]) -> LatticeValue | None:
    """Treat ``or`` as an addition where the bits cannot overlap, which is how NVRTC writes many sums."""
    for this, other in ((0, 1), (1, 0)):
        fact, value = facts[this], context.constant(instruction.operands[1 + other])
        if fact.shape.part_uniform or value is None or value < 0:
            continue
        room = min(fact.zeros, trailing_zeros(fact.shape.step))
        if value < (1 << room):
            return LatticeValue(fact.shape, trailing_zeros(value))
    return None


def _convert(context: Context, instruction: Instruction, facts: list[LatticeValue]) -> LatticeValue | None:
    types = instruction.modifiers
    if len(types) != 2 or types[0][0] not in "sub" or types[1][0] not in "sub":
        return None
    to, source = int(types[0][1:]), int(types[1][1:])
    if to < 32 or source < 32:
        return None
    return facts[0]


def _select(context: Context, instruction: Instruction, facts: list[LatticeValue]) -> LatticeValue | None:
    if not facts[2].shape.uniform:
        return None
    return join(facts[0], facts[1])


_BELOW = {"lt": True, "lo": True, "ge": True, "hs": True, "le": False, "ls": False, "gt": False, "hi": False}
"""Comparisons that split the integers just below their second operand (True) or just above it."""
_TURNED = {"lt": "gt", "lo": "hi", "ge": "le", "hs": "ls", "le": "ge", "ls": "hs", "gt": "lt", "hi": "lo"}


def _compare(context: Context, instruction: Instruction, facts: list[LatticeValue]) -> LatticeValue | None:
    """Find comparisons all lanes agree in: where values split, between two runs of lanes, no run is split.

    ``tid < 64`` holds for whole warps or not at all; the base says which.
    """
    if len(instruction.modifiers) != 2 or len(facts) != 2 or not _plain_integer(instruction):
        return None
    comparison = instruction.modifiers[0]
    for this, other, turned in ((0, 1, False), (1, 0, True)):
        way = _TURNED.get(comparison) if turned else comparison
        if way not in _BELOW or facts[this].shape.part_uniform or not facts[other].shape.part_uniform:
            continue
        bits = _spread(context, facts[this])
        constant = context.constant(instruction.operands[1 + other])
        border = facts[other].zeros if constant is None or _BELOW[way] else trailing_zeros(constant + 1)
        known = constant is not None or _BELOW[way]
        if bits is not None and known and border >= bits:
            return LatticeValue(VectorShape(_both(facts)))
    return None


def _plain_integer(instruction: Instruction) -> bool:
    kind = instruction.modifiers[-1]
    if kind[0] not in "sub" or kind[1:] not in ("32", "64"):
        return False
    return not {"sat", "cc"} & set(instruction.modifiers)


_Rule = Callable[[Context, Instruction, list[LatticeValue]], "LatticeValue | None"]

RULES: dict[str, _Rule] = {
    "mov": _copy,
    "cvta": _copy,
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
"""Rules by opcode."""
