"""What a recording version writes for one execution of a basic block: the layout of its payload.

The layout follows from the translation unit alone, so that the host reads what the code has written, also code that was
loaded from a cache. A register that is uniform or affine takes 8 bytes per base, a varying one a vector per part: the
divergence analysis compresses most of a recording.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from enum import Enum

from llvmlite import ir

from gpuemu_lsp.engine.emulator.codegen.core.register_types import memory_type, part_stride, register_type
from gpuemu_lsp.engine.emulator.codegen.core.translation_unit import TranslationUnit
from gpuemu_lsp.engine.emulator.ir.lattice import VectorShape
from gpuemu_lsp.engine.emulator.ir.opcodes import memory_space
from gpuemu_lsp.engine.emulator.ir.operands import address_operand, flattened, registers_written, split_operands
from gpuemu_lsp.engine.ptx.model import Instruction, Register

_MOST_BITS = 64
"""Bits of the registers that are recorded; ``b128`` is only moved."""


class SlotRole(Enum):
    """What a register is to the instruction of its slot."""

    RESULT = "result"
    GUARD = "guard"
    ADDRESS = "address"
    SOURCE = "source"


@dataclass(frozen=True, slots=True)
class Slot:
    """A register of the instruction at ``position`` of its block: ``count`` bases or vectors, ``stride`` bytes apart.

    ``offset`` is in the payload of the block, ``bits`` the width of one lane, 1 for a predicate.
    """

    position: int
    role: SlotRole
    register: str
    offset: int
    count: int
    stride: int
    bits: int
    shape: VectorShape

    @property
    def size(self) -> int:
        """Bytes in the payload."""
        return -(-self.count * self.stride // 8) * 8


@dataclass(frozen=True, slots=True)
class BlockLayout:
    """The payload of one basic block: its slots in the order in which they are written, and its size in bytes."""

    slots: tuple[Slot, ...]
    size: int


@dataclass(frozen=True, slots=True)
class VersionLayout:
    """What a recording version writes in each basic block, and where a warp's context has the registers meanwhile.

    ``saved`` are the slots of registers that outlive a block, at offsets in the context. Recording versions are
    baseline code, which keeps all of these there. ``divergent`` are the blocks in which lanes may be elsewhere.
    """

    blocks: tuple[BlockLayout, ...] = ()
    saved: Mapping[str, Slot] = field(default_factory=dict)
    divergent: frozenset[int] = frozenset()


def recording_layout(unit: TranslationUnit) -> VersionLayout:
    """Return the layout of a version."""
    blocks = tuple(_layout(unit, number) for number in range(len(unit.program.blocks)))
    slots = (_slot(unit, 0, SlotRole.RESULT, name, offset) for name, offset in unit.context_offsets.items())
    # In a context each part of a predicate has 8 bytes.
    saved = {one.register: replace(one, stride=max(one.stride, 8)) for one in slots if one is not None}
    return VersionLayout(blocks, saved, frozenset(unit.divergence.divergent))


def recorded_sources(instruction: Instruction) -> Iterator[tuple[SlotRole, str]]:
    """Yield the registers of an access that are recorded before it: its guard, address and what it stores."""
    if instruction.opcode not in ("ld", "st", "atom", "red", "ldu") or memory_space(instruction) == "param":
        return
    if instruction.guard is not None:
        yield SlotRole.GUARD, instruction.guard.register.name
    address = address_operand(instruction)
    if address is not None and isinstance(address.base, Register):
        yield SlotRole.ADDRESS, address.base.name
    if instruction.opcode in ("st", "atom", "red"):
        for operand in flattened(split_operands(instruction)[1]):
            if isinstance(operand, Register):
                yield SlotRole.SOURCE, operand.name


def _layout(unit: TranslationUnit, number: int) -> BlockLayout:
    slots: list[Slot] = []
    offset = 0
    for position, instruction in enumerate(unit.program.blocks[number].code):
        results = ((SlotRole.RESULT, name) for name in registers_written(instruction))
        for role, name in (*recorded_sources(instruction), *results):
            slot = _slot(unit, position, role, name, offset)
            if slot is not None:
                slots.append(slot)
                offset += slot.size
    return BlockLayout(tuple(slots), offset)


def _slot(unit: TranslationUnit, position: int, role: SlotRole, name: str, offset: int) -> Slot | None:
    if name not in unit.program.registers:
        return None
    type_ = register_type(unit.program.registers[name])
    bits = type_.width if isinstance(type_, ir.IntType) else {"float": 32, "double": 64}[str(type_)]
    if bits > _MOST_BITS:
        return None
    shape, block = unit.divergence.shapes[name], unit.block_shape
    saved = memory_type(ir.VectorType(type_, block.lanes) if shape.varying else type_)
    # Parts of a vector of predicates are integers with a bit per lane.
    stride = saved.width // 8 if shape.varying and isinstance(saved, ir.IntType) else part_stride(saved)
    count = block.parts if shape.varying or shape.per_part else 1
    return Slot(position, role, name, offset, count, stride, bits, shape)
