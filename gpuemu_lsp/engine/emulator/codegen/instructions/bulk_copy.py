"""``cp.async.bulk`` and its tensor forms (PTX ISA section 9.7.9.25.4-5): operands in scratch space, and a callback.

The copies are executed by :mod:`~gpuemu_lsp.engine.emulator.launch.bulk_copies`, in Python: one instruction moves
kilobytes.
"""

from __future__ import annotations

from enum import IntEnum
from typing import Final

from llvmlite import ir

from gpuemu_lsp.engine.emulator.abi.field_access import load_pointer, store_lanes
from gpuemu_lsp.engine.emulator.abi.structs import LaunchRecord, Warp
from gpuemu_lsp.engine.emulator.codegen.core.addresses import address_vector
from gpuemu_lsp.engine.emulator.codegen.core.emitter import Emitter
from gpuemu_lsp.engine.emulator.ir.lattice import WARP_SIZE
from gpuemu_lsp.engine.emulator.ir.operands import elements
from gpuemu_lsp.engine.emulator.llvm import ir_tools as t
from gpuemu_lsp.engine.emulator.llvm.ir_tools import I64, Value, i32, i64
from gpuemu_lsp.engine.ptx.model import Address, Immediate, Instruction, Operand, Register, Symbol, Vector


class BulkOperation(IntEnum):
    """Operations of the callback; above the numbers of the device runtime's functions."""

    TENSOR_LOAD = 16
    TENSOR_STORE = 17
    LOAD = 18
    STORE = 19
    DELIVER_STATE = 20
    DELIVER_PARITY = 21
    GROUP = 22
    PROXY_FENCE = 23
    MBARRIER = 24
    COMMIT = 25
    WAIT = 26


RANK_SHIFT: Final = 8
"""Position of the number of dimensions in the callback's operation."""

ROWS: Final = (Warp.ADDRESSES, *(Warp.VALUES.element(row * WARP_SIZE) for row in range(4)))
"""Rows of the scratch space: the shared address with that of the ``mbarrier`` above it, the tensor map or the address
in global memory, and pairs of coordinates (of a copy without a map, its bytes)."""

_HINT = "L2::cache_hint"
_ARRIVAL = "mbarrier::complete_tx::bytes"
_DIMENSIONS = {f"{rank}d": rank for rank in range(1, 6)}
_LOADS = frozenset({("shared::cluster", "global", _ARRIVAL), ("shared::cta", "global", _ARRIVAL)})
_STORE = ("global", "shared::cta", "bulk_group")


def _decoded(instruction: Instruction) -> tuple[BulkOperation, int] | None:
    """Return (operation, dimensions or 0) of a copy, None if it cannot be run."""
    words = instruction.modifiers
    if instruction.opcode != "cp" or words[:2] != ("async", "bulk"):
        return None
    count = len(instruction.operands) - (_HINT in words)
    is_tensor = words[2:3] == ("tensor",)
    rank = _DIMENSIONS.get(words[3], 0) if is_tensor and len(words) > 3 else 0
    rest = tuple(word for word in words[4 if is_tensor else 2 :] if word not in (_HINT, "tile"))
    if is_tensor and not rank:
        return None
    if rest in _LOADS and count == (3 if is_tensor else 4):
        return (BulkOperation.TENSOR_LOAD if is_tensor else BulkOperation.LOAD), rank
    if rest == _STORE and count == (2 if is_tensor else 3):
        return (BulkOperation.TENSOR_STORE if is_tensor else BulkOperation.STORE), rank
    return None


def _is_group(instruction: Instruction) -> bool:
    words = instruction.modifiers
    return instruction.opcode == "cp" and words[:3] in (
        ("async", "bulk", "commit_group"),
        ("async", "bulk", "wait_group"),
    )


def supported(instruction: Instruction) -> bool:
    """Return whether this is a supported bulk copy, or a commit of or wait for a group of them."""
    return _is_group(instruction) or (_decoded(instruction) is not None and _operands(instruction) is not None)


def _operands(instruction: Instruction) -> tuple[Address, Address, Address | None, tuple[Operand, ...]] | None:
    """Return (shared address, map or global address, mbarrier, coordinates or bytes); None if they are malformed."""
    found = _decoded(instruction)
    assert found is not None
    operation, rank = found
    first, second, *rest = instruction.operands
    loads = operation in (BulkOperation.TENSOR_LOAD, BulkOperation.LOAD)
    shared, far = (first, second) if loads else (second, first)
    numbers: tuple[Operand, ...] = ()
    if rank:
        pair = elements(far)
        numbers = elements(pair[1]) if len(pair) == 2 and isinstance(pair[1], Vector) else ()
        base = pair[0]
        if len(numbers) != rank or not isinstance(base, Register | Symbol):
            return None
        far = Address(base)
    else:
        numbers = (rest.pop(0),)
    barrier = rest[0] if loads else None
    if not isinstance(shared, Address) or not isinstance(far, Address):
        return None
    if loads and not isinstance(barrier, Address):
        return None
    return shared, far, barrier if isinstance(barrier, Address) else None, numbers


def emit_bulk_copy(e: Emitter, instruction: Instruction) -> None:
    """Write one of these instructions."""
    if _is_group(instruction):
        commits = "commit_group" in instruction.modifiers
        call_back(e, BulkOperation.COMMIT if commits else BulkOperation.WAIT)
        return
    found, operands = _decoded(instruction), _operands(instruction)
    assert found is not None and operands is not None
    shared, far, barrier, numbers = operands
    for part in range(e.parts):
        near = address_vector(e, shared, part)
        arrival = address_vector(e, barrier, part) if barrier is not None else _zeros(e)
        pairs = [_pair(e, numbers[at : at + 2], part) for at in range(0, len(numbers), 2)]
        for row, value in zip(ROWS, (_packed(e, near, arrival), address_vector(e, far, part), *pairs), strict=False):
            store_lanes(e.builder, value, e.context, row.element(part * e.lanes))
    operation, rank = found
    call_back(e, operation | rank << RANK_SHIFT)


def emit_delivery(e: Emitter, *, by_parity: bool) -> None:
    """Write the delivery of copies before the tests of ``mbarrier`` objects.

    Their addresses, and the states or parities tested for, are in scratch space.
    """
    if e.unit.program.has_bulk_copies:
        call_back(e, BulkOperation.DELIVER_PARITY if by_parity else BulkOperation.DELIVER_STATE)


def call_back(e: Emitter, operation: int) -> None:
    """Call the device runtime for all active lanes."""
    b = e.builder
    callback = load_pointer(b, load_pointer(b, e.context, Warp.LAUNCH), LaunchRecord.CALLBACK)
    t.call_pointer(b, t.VOID, callback, [e.context, i32(e.site), e.active_mask(), i32(operation)])


def _zeros(e: Emitter) -> Value:
    return t.splat(e.builder, i64(0), e.lanes)


def _packed(e: Emitter, low: Value, high: Value) -> Value:
    b = e.builder
    lower = b.and_(low, t.splat(b, i64(0xFFFFFFFF), e.lanes))
    return b.or_(lower, b.shl(high, t.splat(b, i64(32), e.lanes)))


def _pair(e: Emitter, numbers: tuple[Operand, ...], part: int) -> Value:
    wide = [_wide(e, one, part) for one in numbers]
    return _packed(e, wide[0], wide[1] if len(wide) > 1 else _zeros(e))


def _wide(e: Emitter, operand: Operand, part: int) -> Value:
    if isinstance(operand, Immediate):
        return t.splat(e.builder, i64(operand.bits), e.lanes)
    return e.builder.zext(e.vector_operand(operand, "b32", part), ir.VectorType(I64, e.lanes))
