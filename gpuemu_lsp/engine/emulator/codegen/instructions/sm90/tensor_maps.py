"""Tensor maps that the kernel changes: ``tensormap`` (PTX ISA sections 9.7.9.28 and 9.7.13.7), and their fence."""

from __future__ import annotations

from llvmlite import ir

from gpuemu_lsp.engine.emulator.abi.field_access import store_lanes
from gpuemu_lsp.engine.emulator.codegen.core.addresses import host_vector
from gpuemu_lsp.engine.emulator.codegen.core.emitter import Emitter
from gpuemu_lsp.engine.emulator.codegen.instructions.bulk_copy import (
    RANK_SHIFT,
    REDUCTION_SHIFT,
    ROWS,
    BulkOperation,
    call_back,
)
from gpuemu_lsp.engine.emulator.ir.opcodes import TENSOR_MAP
from gpuemu_lsp.engine.emulator.llvm import ir_tools as t
from gpuemu_lsp.engine.emulator.llvm.ir_tools import I64, Value, i64
from gpuemu_lsp.engine.ptx.model import Address, Immediate, Instruction, Operand
from gpuemu_lsp.engine.tensor_map import MAP_FIELDS

_SPACES = {"global": "global", "shared::cta": "shared"}
_COPY = ("cp_fenceproxy", "global", "shared::cta", "tensormap::generic", "release")
_OF_DIMENSION = frozenset({"box_dim", "global_dim", "global_stride", "element_stride"})


def supported(instruction: Instruction) -> bool:
    """Return whether this changes or copies a tensor map."""
    return instruction.opcode == TENSOR_MAP and (_is_copy(instruction) or _field(instruction) is not None)


def _is_copy(instruction: Instruction) -> bool:
    return instruction.modifiers[: len(_COPY)] == _COPY and _addresses(instruction) == 2


def _addresses(instruction: Instruction) -> int:
    return sum(isinstance(operand, Address) for operand in instruction.operands)


def _field(instruction: Instruction) -> tuple[str, int] | None:
    """Return the field that this changes and its ordinal, None if it is not a ``tensormap.replace`` that can be run."""
    words, operands = instruction.modifiers, instruction.operands
    if words[:2] != ("replace", "tile") or len(words) < 3 or words[2] not in MAP_FIELDS or _addresses(instruction) != 1:
        return None
    if words[2] not in _OF_DIMENSION:
        return (words[2], 0) if len(operands) == 2 else None
    ordinal = operands[1] if len(operands) == 3 else None
    return (words[2], ordinal.bits) if isinstance(ordinal, Immediate) and ordinal.bits < 5 else None


def emit_tensor_map(e: Emitter, instruction: Instruction) -> None:
    """Write one of these instructions: the address of the map, and the new value or the address of the source."""
    if _is_copy(instruction):
        target, source = instruction.operands[:2]
        for part in range(e.parts):
            _store(e, 0, part, _host(e, target, "global", part))
            _store(e, 1, part, _host(e, source, "shared", part))
        call_back(e, BulkOperation.COPY_MAP)
        return
    found = _field(instruction)
    assert found is not None
    field, ordinal = found
    space = next((_SPACES[word] for word in instruction.modifiers if word in _SPACES), "generic")
    for part in range(e.parts):
        _store(e, 0, part, _host(e, instruction.operands[0], space, part))
        _store(e, 1, part, _value(e, instruction.operands[-1], instruction.modifiers[-1], part))
    call_back(e, BulkOperation.REPLACE_MAP | MAP_FIELDS.index(field) << RANK_SHIFT | ordinal << REDUCTION_SHIFT)


def emit_map_fence(e: Emitter, instruction: Instruction) -> None:
    """Write the event of a ``fence.proxy.tensormap::generic.acquire``, which names a map."""
    if "acquire" not in instruction.modifiers or not e.unit.program.has_bulk_copies or not _addresses(instruction):
        return
    for part in range(e.parts):
        _store(e, 0, part, _host(e, instruction.operands[0], "generic", part))
    call_back(e, BulkOperation.MAP_FENCE)


def _host(e: Emitter, operand: Operand, space: str, part: int) -> Value:
    assert isinstance(operand, Address)
    return host_vector(e, operand, space, part)


def _value(e: Emitter, operand: Operand, type_: str, part: int) -> Value:
    if isinstance(operand, Immediate):
        return t.splat(e.builder, i64(operand.bits), e.lanes)
    value = e.vector_operand(operand, type_, part)
    wide = ir.VectorType(I64, e.lanes)
    return value if value.type == wide else e.builder.zext(value, wide)


def _store(e: Emitter, row: int, part: int, value: Value) -> None:
    store_lanes(e.builder, value, e.context, ROWS[row].element(part * e.lanes))
