"""``cp.async.bulk``, ``cp.reduce.async.bulk`` and ``st.async`` (PTX ISA section 9.7.9.25.4-5): operands, a callback.

The copies are executed by :mod:`~gpuemu_lsp.engine.emulator.launch.tma`, in Python: one instruction moves
kilobytes.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from typing import Final

from llvmlite import ir

from gpuemu_lsp.engine.emulator.abi.field_access import load_pointer, store_lanes
from gpuemu_lsp.engine.emulator.abi.structs import LaunchRecord, Warp
from gpuemu_lsp.engine.emulator.codegen.core.addresses import address_vector
from gpuemu_lsp.engine.emulator.codegen.core.emitter import Emitter
from gpuemu_lsp.engine.emulator.ir.lattice import WARP_SIZE
from gpuemu_lsp.engine.emulator.ir.opcodes import SEND
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
    SEND = 27  # from the own shared memory to another block's
    SEND_VALUES = 28  # from registers to another block's shared memory: st.async
    REPLACE_MAP = 29
    COPY_MAP = 30
    MAP_FENCE = 31
    REGISTERS = 32
    TENSOR_MEMORY = 33


RANK_SHIFT: Final = 8
"""Position of the number of dimensions in the callback's operation."""

REDUCTION_SHIFT: Final = 12
"""Position of the number of the reduction in the callback's operation, 0 for a copy."""

REDUCTIONS: Final = ("", "add", "min", "max", "inc", "dec", "and", "or", "xor")
"""Reductions by number (section 9.7.9.25.4.2)."""

TYPE_SHIFT: Final = 16
"""Position of the number of the element type of a reduction without a map, of values that are sent their bytes."""

TYPES: Final = ("", "u32", "s32", "u64", "s64", "f16", "bf16", "f32", "f64", "b32", "b64")

MULTICAST: Final = 1 << 20
"""Bit of the callback's operation: the copy is to several blocks of the cluster."""

PAIR: Final = 1 << 21
"""Bit of the callback's operation: the ``mbarrier`` object may be in the other block of a pair (``.cta_group::2``)."""

ROWS: Final = (Warp.ADDRESSES, *(Warp.VALUES.element(row * WARP_SIZE) for row in range(4)))
"""Rows of the scratch space: the shared address with that of the ``mbarrier`` above it, the tensor map or the address
in global memory, and pairs of coordinates (of a copy without a map, its bytes); above the last coordinate the blocks of
a multicast."""

_HINT = "L2::cache_hint"
_ARRIVAL = "mbarrier::complete_tx::bytes"
_MULTICAST = "multicast::cluster"
_PAIR = "cta_group::2"
_IGNORED = frozenset({_HINT, _MULTICAST, _PAIR, "cta_group::1", "tile", "noftz"})
_DIMENSIONS = {f"{rank}d": rank for rank in range(1, 6)}
_FORMS: dict[tuple[str, ...], BulkOperation] = {
    ("shared::cluster", "global", _ARRIVAL): BulkOperation.LOAD,
    ("shared::cta", "global", _ARRIVAL): BulkOperation.LOAD,
    ("global", "shared::cta", "bulk_group"): BulkOperation.STORE,
    ("shared::cluster", "shared::cta", _ARRIVAL): BulkOperation.SEND,
}
_OPERANDS = {BulkOperation.LOAD: 4, BulkOperation.STORE: 3, BulkOperation.SEND: 4}
_OF_TENSOR = {BulkOperation.LOAD: BulkOperation.TENSOR_LOAD, BulkOperation.STORE: BulkOperation.TENSOR_STORE}
LOADS: Final = frozenset({BulkOperation.TENSOR_LOAD, BulkOperation.LOAD, BulkOperation.SEND})
"""Copies that complete on an ``mbarrier`` object."""


@dataclass(frozen=True, slots=True)
class _Form:
    """What a copy does: its operation, the dimensions of the tensor or 0, the reduction and its element type."""

    operation: BulkOperation
    rank: int
    multicast: bool
    reduction: int = 0
    type: int = 0
    pair: bool = False

    @property
    def number(self) -> int:
        """The callback's operation."""
        number = self.operation | self.rank << RANK_SHIFT | self.reduction << REDUCTION_SHIFT | self.type << TYPE_SHIFT
        return number | (MULTICAST if self.multicast else 0) | (PAIR if self.pair else 0)


def _decoded(instruction: Instruction) -> _Form | None:
    """Return what a copy does, None if it cannot be run."""
    words = instruction.modifiers
    start = 1 if words[:1] == ("reduce",) else 0
    if instruction.opcode != "cp" or words[start : start + 2] != ("async", "bulk"):
        return None
    words = words[start + 2 :]
    # A mask of blocks and a cache policy are operands of their own.
    count = len(instruction.operands) - (_HINT in words) - (_MULTICAST in words)
    is_tensor = words[:1] == ("tensor",)
    rank = _DIMENSIONS.get(words[1], 0) if is_tensor and len(words) > 1 else 0
    rest = [word for word in words[2 if is_tensor else 0 :] if word not in _IGNORED]
    if is_tensor and not rank:
        return None
    reduction = type_ = 0
    if start:
        found = [word for word in rest if word in REDUCTIONS]
        if len(found) != 1:
            return None
        reduction = REDUCTIONS.index(found[0])
        rest.remove(found[0])
        if not is_tensor:
            if rest[-1] not in TYPES:
                return None
            type_ = TYPES.index(rest.pop())
    operation = _FORMS.get(tuple(rest))
    if operation is None or (operation is BulkOperation.LOAD and reduction):
        return None
    if count != _OPERANDS[operation] - is_tensor or (_MULTICAST in words and operation is not BulkOperation.LOAD):
        return None
    if is_tensor:
        if operation not in _OF_TENSOR:
            return None
        operation = _OF_TENSOR[operation]
    return _Form(operation, rank, _MULTICAST in words, reduction, type_, _PAIR in words)


def _is_prefetch(instruction: Instruction) -> bool:
    return instruction.opcode == "cp" and instruction.modifiers[:3] == ("async", "bulk", "prefetch")


def _is_group(instruction: Instruction) -> bool:
    words = instruction.modifiers
    return instruction.opcode == "cp" and words[:3] in (
        ("async", "bulk", "commit_group"),
        ("async", "bulk", "wait_group"),
    )


def supported(instruction: Instruction) -> bool:
    """Return whether this is a supported bulk copy, or a commit of or wait for a group of them."""
    if _is_group(instruction) or _is_prefetch(instruction):
        return True
    if _is_sending(instruction):
        return True
    return _decoded(instruction) is not None and _operands(instruction) is not None


def _is_sending(instruction: Instruction) -> bool:
    """Return whether this is a supported ``st.async`` or ``red.async`` (section 9.7.9.12 and 9.7.13.8)."""
    words = instruction.modifiers
    if instruction.opcode != SEND or len(instruction.operands) != 3 or _ARRIVAL not in words:
        return False
    address, _, barrier = instruction.operands
    known = words[-1][1:] in ("32", "64") and isinstance(address, Address) and isinstance(barrier, Address)
    if words[0] == "st":
        return known and words[-1][0] in "busf"
    return known and words[-1] in ("u32", "s32", "u64", "b32") and any(word in REDUCTIONS[1:] for word in words)


def _emit_sending(e: Emitter, instruction: Instruction) -> None:
    """Write a ``st.async`` or ``red.async``: its values are in the rows after the first."""
    words = instruction.modifiers
    address, values, barrier = instruction.operands
    assert isinstance(address, Address) and isinstance(barrier, Address)
    bits = words[-1][1:]
    items = elements(values)
    for part in range(e.parts):
        near, arrival = address_vector(e, address, part), address_vector(e, barrier, part)
        store_lanes(e.builder, _packed(e, near, arrival), e.context, ROWS[0].element(part * e.lanes))
        for row, item in zip(ROWS[1:], items, strict=False):
            value = e.vector_operand(item, f"b{bits}", part)
            wide = ir.VectorType(I64, e.lanes)
            value = value if bits == "64" else e.builder.zext(value, wide)
            store_lanes(e.builder, value, e.context, row.element(part * e.lanes))
    reduction = next((REDUCTIONS.index(word) for word in words if word in REDUCTIONS[1:]), 0)
    type_ = words[-1] if reduction and words[-1] in TYPES else f"b{bits}"
    number = BulkOperation.SEND_VALUES | len(items) << RANK_SHIFT | reduction << REDUCTION_SHIFT
    call_back(e, number | TYPES.index(type_) << TYPE_SHIFT)


def _operands(
    instruction: Instruction,
) -> tuple[Address, Address, Address | None, tuple[Operand, ...], Operand | None] | None:
    """Return (shared address, map or global address, mbarrier, coordinates or bytes, mask of a multicast).

    The result is None if the operands are malformed.
    """
    found = _decoded(instruction)
    assert found is not None
    operation, rank = found.operation, found.rank
    first, second, *rest = instruction.operands
    loads = operation in LOADS
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
    barrier = rest.pop(0) if loads else None
    mask = rest.pop(0) if found.multicast else None
    if not isinstance(shared, Address) or not isinstance(far, Address):
        return None
    if loads and not isinstance(barrier, Address):
        return None
    return shared, far, barrier if isinstance(barrier, Address) else None, numbers, mask


def emit_bulk_copy(e: Emitter, instruction: Instruction) -> None:
    """Write one of these instructions."""
    if _is_group(instruction):
        commits = "commit_group" in instruction.modifiers
        call_back(e, BulkOperation.COMMIT if commits else BulkOperation.WAIT)
        return
    # A prefetch changes nothing.
    if _is_prefetch(instruction):
        return
    if _is_sending(instruction):
        _emit_sending(e, instruction)
        return
    found, operands = _decoded(instruction), _operands(instruction)
    assert found is not None and operands is not None
    shared, far, barrier, numbers, mask = operands
    slots: list[Operand] = [*numbers, *[Immediate(0, "int")] * (5 - len(numbers))]
    slots.append(Immediate(0, "int") if mask is None else mask)
    for part in range(e.parts):
        near = address_vector(e, shared, part)
        arrival = address_vector(e, barrier, part) if barrier is not None else _zeros(e)
        pairs = [_pair(e, tuple(slots[at : at + 2]), part) for at in range(0, len(slots), 2)]
        for row, value in zip(ROWS, (_packed(e, near, arrival), address_vector(e, far, part), *pairs), strict=True):
            store_lanes(e.builder, value, e.context, row.element(part * e.lanes))
    call_back(e, found.number)


def emit_delivery(e: Emitter, *, by_parity: bool) -> None:
    """Write the delivery of copies before the tests of ``mbarrier`` objects.

    Their addresses, and the states or parities tested for, are in scratch space.
    """
    program = e.unit.program
    if program.has_bulk_copies or program.spans_blocks or program.has_tensor_memory:
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
    # A mask of blocks has 16 bits.
    type_ = e.unit.program.registers.get(operand.name, "b32") if isinstance(operand, Register) else "b32"
    narrow = "b16" if type_[1:] == "16" else "b32"
    return e.builder.zext(e.vector_operand(operand, narrow, part), ir.VectorType(I64, e.lanes))
