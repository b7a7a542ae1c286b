"""``mbarrier`` instructions (PTX ISA section 9.7.13.15): operands in scratch space, one call, results from there."""

from __future__ import annotations

from llvmlite import ir

from gpuemu_lsp.engine.emulator.abi.access_flags import RACE_SHIFT, SPACE_SHIFT, SPACES
from gpuemu_lsp.engine.emulator.abi.field_access import load_lanes, store_lanes
from gpuemu_lsp.engine.emulator.abi.structs import Warp
from gpuemu_lsp.engine.emulator.codegen.core.addresses import host_vector
from gpuemu_lsp.engine.emulator.codegen.core.emitter import Emitter
from gpuemu_lsp.engine.emulator.codegen.core.race_calls import emit_acquire, emit_release, race_flags
from gpuemu_lsp.engine.emulator.codegen.instructions.async_proxy import emit_mbarrier_event
from gpuemu_lsp.engine.emulator.codegen.instructions.bulk_copy import emit_delivery
from gpuemu_lsp.engine.emulator.devicelib.library import DEVICE_LIBRARY
from gpuemu_lsp.engine.emulator.devicelib.mbarrier import OPERATIONS
from gpuemu_lsp.engine.emulator.ir.lattice import WARP_SIZE
from gpuemu_lsp.engine.emulator.ir.opcodes import memory_space
from gpuemu_lsp.engine.emulator.llvm import ir_tools as t
from gpuemu_lsp.engine.emulator.llvm.ir_tools import I64, Value, i32, i64
from gpuemu_lsp.engine.ptx.model import Address, Immediate, Instruction, Operand, Register

_KNOWN = frozenset(
    {"init", "inval", "arrive", "arrive_drop", "expect_tx", "complete_tx", "test_wait", "try_wait", "parity",
     "noComplete", "release", "acquire", "relaxed", "cta", "cluster", "shared", "shared::cta", "b64", "pending_count"}
)  # fmt: skip
_ONE = Immediate(1, "int")
_NONE = Immediate(0, "int")


def supported(instruction: Instruction) -> bool:
    """Return whether this is a supported operation on an ``mbarrier`` object of the thread's own block."""
    if instruction.opcode == "cp":
        return _is_copy_arrival(instruction)
    if instruction.opcode != "mbarrier" or not set(instruction.modifiers) <= _KNOWN:
        return False
    if instruction.modifiers[0] == "pending_count":
        return len(instruction.operands) == 2
    return any(isinstance(operand, Address) for operand in instruction.operands[:2])


def _is_copy_arrival(instruction: Instruction) -> bool:
    words = instruction.modifiers
    return words[:3] == ("async", "mbarrier", "arrive") and set(words[3:]) <= {"noinc", "shared", "shared::cta", "b64"}


def emit_mbarrier(e: Emitter, instruction: Instruction) -> None:
    """Write one of these instructions."""
    words = instruction.modifiers
    if instruction.opcode == "cp":
        _arrive_on_copies(e, instruction)
        return
    if words[0] == "pending_count":
        _pending_count(e, instruction)
        return
    operands = list(instruction.operands)
    target: Operand = Register("_")
    if not isinstance(operands[0], Address):
        target = operands.pop(0)
    address, *rest = operands
    assert isinstance(address, Address)
    kind = words[0]
    # The count of an arrival defaults to 1; of a wait, the operand is the phase's state or parity.
    operand: Operand = rest[0] if rest else _ONE
    transactions: Operand = _NONE
    if kind in ("test_wait", "try_wait"):
        # try_wait may suspend the thread for a time limit; returning at once is an allowed outcome.
        kind = "parity" if "parity" in words else "test"
    elif kind in ("expect_tx", "complete_tx"):
        # Transactions alone, without an arrival.
        transactions, operand = operand, _NONE
    elif "expect_tx" in words:
        # arrive.expect_tx: both, in this order, so that the arrival cannot complete the phase early.
        transactions, operand = operand, _ONE
    _call(e, instruction, kind, address, operand, transactions)
    _result(e, target, kind in ("test", "parity"))


def _call(
    e: Emitter, instruction: Instruction, kind: str, address: Address, operand: Operand, transactions: Operand
) -> None:
    b = e.builder
    space = memory_space(instruction)
    for part in range(e.parts):
        for row, value in (
            (Warp.ADDRESSES, host_vector(e, address, space, part)),
            (Warp.VALUES, _wide(e, operand, part, kind == "test")),
            (Warp.VALUES.element(WARP_SIZE), _wide(e, transactions, part, False)),
        ):
            store_lanes(b, value, e.context, row.element(part * e.lanes))
    flags = i32(SPACES[space] << SPACE_SHIFT | race_flags(e, instruction) << RACE_SHIFT)
    arguments = [e.context, i32(e.site), e.active_mask(), i32(OPERATIONS[kind]), flags]
    # By default an arrival is a release and a completed wait an acquire.
    # The release comes before the operation, which may complete the phase for a lane that acquires; the acquire after.
    if kind not in ("test", "parity"):
        emit_release(e)
        emit_mbarrier_event(e, OPERATIONS[kind])
    if kind in ("test", "parity"):
        emit_delivery(e, by_parity=kind == "parity")
    t.call_address(b, DEVICE_LIBRARY.address("mbarrier"), t.VOID, arguments)
    if kind in ("test", "parity"):
        emit_acquire(e)


def _wide(e: Emitter, operand: Operand, part: int, is_state: bool) -> Value:
    if isinstance(operand, Immediate):
        return t.splat(e.builder, i64(operand.bits), e.lanes)
    if is_state:
        return e.vector_operand(operand, "b64", part)
    return e.builder.zext(e.vector_operand(operand, "b32", part), ir.VectorType(I64, e.lanes))


def _result(e: Emitter, target: Operand, is_predicate: bool) -> None:
    b = e.builder
    name = target.name if isinstance(target, Register) else "_"
    for part in e.result_parts(name):
        value = load_lanes(b, e.context, Warp.VALUES.element(2 * WARP_SIZE + part * e.lanes), e.lanes)
        if is_predicate:
            value = b.icmp_unsigned("!=", value, t.splat(b, i64(0), e.lanes))
        e.write(name, part, value, "pred" if is_predicate else "b64")


def _pending_count(e: Emitter, instruction: Instruction) -> None:
    # The state is opaque to programs; here its low 20 bits are the pending count, which has that many (9.7.13.15.2).
    target, state = instruction.operands
    name = target.name if isinstance(target, Register) else "_"
    for part in e.result_parts(name):
        value = e.builder.and_(e.vector_operand(state, "b64", part), t.splat(e.builder, i64((1 << 20) - 1), e.lanes))
        e.write(name, part, e.builder.trunc(value, ir.VectorType(t.I32, e.lanes)), "b32")


def _arrive_on_copies(e: Emitter, instruction: Instruction) -> None:
    """Write ``cp.async.mbarrier.arrive``: arrive when the lane's copies are complete.

    The copies are delivered here, the earliest moment at which it may be observed. Without ``.noinc`` the pending count
    is incremented first, which cancels out with the arrival; with it, only the arrival remains.
    """
    t.call_address(e.builder, DEVICE_LIBRARY.address("copy_wait"), t.VOID, [e.context, e.active_mask(), i32(-1)])
    if "noinc" in instruction.modifiers:
        address = instruction.operands[0]
        assert isinstance(address, Address)
        _call(e, instruction, "arrive", address, _ONE, _NONE)
