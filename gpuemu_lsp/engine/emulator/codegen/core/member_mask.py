"""Member masks of warp collectives, and the events that report misuse of them."""

from __future__ import annotations

from enum import IntEnum

from llvmlite import ir

from gpuemu_lsp.engine.emulator.abi.states import EventKind
from gpuemu_lsp.engine.emulator.codegen.core.emitter import Emitter
from gpuemu_lsp.engine.emulator.devicelib.library import DEVICE_LIBRARY
from gpuemu_lsp.engine.emulator.llvm import ir_tools as t
from gpuemu_lsp.engine.emulator.llvm.ir_tools import I1, I32, Value, i32, i64
from gpuemu_lsp.engine.ptx.model import Instruction, Operand


class MaskMisuse(IntEnum):
    """Kinds of misuse, stored in the size field of an event."""

    CALLER_NOT_MEMBER = 1
    INACTIVE_SOURCE = 2
    INCOMPLETE_WARP = 3


def mask_operand(instruction: Instruction) -> Operand:
    """Return the member mask operand, the last one of every collective."""
    return instruction.operands[-1]


def members_of(e: Emitter, instruction: Instruction) -> Value:
    """Return the union of the active lanes' member masks as bits."""
    operand = mask_operand(instruction)
    # Lanes at one collective may belong to different groups, as the tiles of a cooperative group with masks of their
    # own: all of them wait for the union.
    if e.shape(operand).uniform:
        return e.scalar_operand(operand, "b32", 0)
    b = e.builder
    result = None
    for part in range(e.parts):
        masks = e.vector_operand(operand, "b32", part)
        active = e.active(part)
        if active is not None:
            masks = b.select(active, masks, t.splat(b, i32(0), e.lanes))
        one = t.intrinsic(b, f"llvm.vector.reduce.or.{t.mangled(masks.type)}", I32, [masks])
        result = one if result is None else b.or_(result, one)
    return result


def lane_bits(e: Emitter, part: int) -> Value:
    """Return, for each lane of a part, its bit in a mask."""
    values = [1 << (part * e.lanes + lane) for lane in range(e.lanes)]
    return ir.Constant(ir.VectorType(I32, e.lanes), values)


def lane_numbers(e: Emitter, part: int) -> Value:
    """Return the lane numbers of a part."""
    return ir.Constant(ir.VectorType(I32, e.lanes), [part * e.lanes + lane for lane in range(e.lanes)])


def check_caller(e: Emitter, instruction: Instruction) -> None:
    """Report lanes that execute a collective whose mask omits them: undefined behaviour (PTX ISA section 9.7.13)."""
    operand = mask_operand(instruction)
    if e.constant(operand) in (-1, 0xFFFFFFFF):
        # The usual mask contains every caller.
        return
    b = e.builder
    bad = []
    for part in range(e.parts):
        masks = e.vector_operand(operand, "b32", part)
        omitted = b.icmp_unsigned("==", b.and_(masks, lane_bits(e, part)), t.splat(b, i32(0), e.lanes))
        active = e.active(part)
        bad.append(omitted if active is None else b.and_(omitted, active))
    report_first(e, bad, MaskMisuse.CALLER_NOT_MEMBER)


def report_first(e: Emitter, bad: list[Value], misuse: MaskMisuse) -> None:
    """Record an event for the first set lane of ``bad``, if any."""
    report_lanes(e, e.any_lane(bad), e.pack(bad), misuse)


def report_lanes(e: Emitter, condition: Value, lanes: Value, misuse: MaskMisuse) -> None:
    """Record an event for the first of ``lanes`` (bits, not all zero) if ``condition`` holds."""
    b = e.builder
    scope = e.snapshot()
    some, none = e.branch_unlikely(condition, "mask")
    b.position_at_end(some)
    # The flag promises LLVM an argument that is not zero, which the condition ensures.
    lane = t.intrinsic(b, "llvm.cttz.i32", I32, [lanes, ir.Constant(I1, 1)])
    arguments = [e.context, i32(e.site), i32(EventKind.WARP_MASK), lane, i64(0), i32(misuse), i32(0)]
    t.call_address(b, DEVICE_LIBRARY.address("record_event"), t.VOID, arguments)
    b.branch(none)
    b.position_at_end(none)
    e.restore(scope)
