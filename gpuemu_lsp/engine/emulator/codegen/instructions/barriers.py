"""Barriers of the thread block (PTX ISA section 9.7.13.1)."""

from __future__ import annotations

from collections.abc import Sequence

from llvmlite import ir

from gpuemu_lsp.engine.emulator.abi.field_access import load_field, load_lanes, store_field, store_lanes
from gpuemu_lsp.engine.emulator.abi.states import EXITED_PC, BarrierKind, Status
from gpuemu_lsp.engine.emulator.abi.structs import Warp
from gpuemu_lsp.engine.emulator.codegen.core.dispatch import Dispatcher
from gpuemu_lsp.engine.emulator.codegen.core.emitter import Emitter
from gpuemu_lsp.engine.emulator.codegen.instructions.arithmetic import predicate_parts
from gpuemu_lsp.engine.emulator.ir.opcodes import CLUSTER_BARRIER, is_cluster_barrier
from gpuemu_lsp.engine.emulator.ir.program import BarrierSync
from gpuemu_lsp.engine.emulator.llvm import ir_tools as t
from gpuemu_lsp.engine.emulator.llvm.ir_tools import I32, Value, i32
from gpuemu_lsp.engine.ptx.model import Immediate, Instruction, Negated, Operand, Register


def emit_barrier(control: Dispatcher, end: BarrierSync) -> None:
    """Write a barrier, the only instruction of its block: suspend the warp, or let its executing lanes wait."""
    e, b = control.e, control.e.builder
    number = e.block_number
    operands, kind = _barrier_operands(end.instruction)
    if control.scalar_pc:
        _lanes_wait(control, end, operands, kind)
        return
    # The specialised versions suspend whole warps, at one barrier: lanes with different barriers, or lanes of which
    # others wait elsewhere, need the scalar-PC version. The block holds nothing else, so that nothing executes twice.
    if not all(e.shape(operand).uniform for operand in operands[:2]):
        b.branch(control.restart_in_scalar_pc(number))
        return
    if number in control.unit.divergence.divergent:
        converged = e.append_block()
        is_converged = b.icmp_unsigned("==", b.load(control.lowest_waiting_slot, typ=I32), i32(EXITED_PC))
        b.cbranch(is_converged, converged, control.diverged_at(number))
        b.position_at_end(converged)
    barrier, count = (e.scalar_operand(operand, "b32", 0) for operand in operands[:2])
    store_field(b, e.block_mask(), e.context, Warp.BARRIER_MASK)
    # bar.red: the barrier resolver combines the lanes' predicates over the block.
    predicate = e.pack(_predicates(e, operands[2])) if len(operands) > 2 else i32(0)
    store_field(b, predicate, e.context, Warp.BARRIER_RESULT)
    for field, value in (
        (Warp.BARRIER_ID, barrier),
        (Warp.BARRIER_COUNT, count),
        (Warp.BARRIER_KIND, i32(kind)),
        (Warp.BARRIER_SITE, i32(e.site)),
    ):
        store_field(b, value, e.context, field)
    b.branch(control.suspend(end.target, Status.BARRIER))


def _lanes_wait(control: Dispatcher, end: BarrierSync, operands: Sequence[Operand], kind: int) -> None:
    """Let the executing lanes wait, and others execute: a barrier is per thread since compute capability 7."""
    e, b = control.e, control.e.builder
    lanes = e.block_mask()
    store_field(b, b.or_(load_field(b, e.context, Warp.BARRIER_MASK), lanes), e.context, Warp.BARRIER_MASK)
    predicates = _predicates(e, operands[2]) if len(operands) > 2 else None
    # Rows per lane, blended with what other lanes of the warp, which wait at other barriers, have stored.
    for part in range(e.parts):
        executing = e.unpack(lanes, part)
        kinds = control.pc_vector(kind)
        if predicates is not None:
            wide = b.zext(predicates[part], ir.VectorType(I32, e.lanes))
            kinds = b.or_(kinds, b.shl(wide, control.pc_vector(8)))
        for field, value in (
            (Warp.BARRIER_ID, e.vector_operand(operands[0], "b32", part)),
            (Warp.BARRIER_COUNT, e.vector_operand(operands[1], "b32", part)),
            (Warp.BARRIER_KIND, kinds),
            (Warp.BARRIER_SITE, control.pc_vector(e.site)),
        ):
            lanes_of_part = field.element(part * e.lanes)
            old = load_lanes(b, e.context, lanes_of_part, e.lanes)
            store_lanes(b, b.select(executing, value, old), e.context, lanes_of_part)
    # Behind the barrier already: when the scheduler clears BARRIER_MASK, the dispatcher continues there.
    control.set_pcs(end.target)
    b.branch(control.dispatch_block())


def emit_barrier_result(control: Dispatcher, instruction: Instruction) -> None:
    """Write the pseudo-instruction behind ``bar.red``, which reads the result that the barrier resolver has stored."""
    e, b = control.e, control.e.builder
    name = instruction.operands[0]
    assert isinstance(name, Register)
    type_ = "b32" if "popc" in instruction.modifiers else "pred"
    shape = control.unit.divergence.shapes[name.name]
    for part in e.result_parts(name.name):
        if shape.varying and control.scalar_pc:
            # Lanes of one warp may have been at different barriers.
            value = load_lanes(b, e.context, Warp.BARRIER_COUNT.element(part * e.lanes), e.lanes)
            zero = control.pc_vector(0)
        else:
            value = load_field(b, e.context, Warp.BARRIER_COUNT)
            zero = i32(0)
        e.write(name.name, part, value if type_ == "b32" else b.icmp_unsigned("!=", value, zero), type_)


def _predicates(e: Emitter, operand: Operand) -> list[Value]:
    negated = isinstance(operand, Negated)
    register = operand.register if isinstance(operand, Negated) else operand
    if not isinstance(register, Register):
        return [t.splat(e.builder, e.literal(register, "pred"), e.lanes)] * e.parts
    return predicate_parts(e, register, negated)


def _barrier_operands(instruction: Instruction) -> tuple[tuple[Operand, ...], int]:
    """Return (barrier number, expected threads or 0 for all, predicate if any), and a ``BarrierKind``."""
    zero = Immediate(0, "int")
    operands = instruction.operands
    modifiers = instruction.modifiers
    if is_cluster_barrier(instruction):
        # A count that is not 0 leaves the release to Python, which knows the other blocks.
        kind = BarrierKind.ARRIVE if "arrive" in modifiers else BarrierKind.SYNC
        return (Immediate(CLUSTER_BARRIER, "int"), Immediate(1, "int")), kind
    if "red" in modifiers:
        kinds = {"popc": BarrierKind.RED_POPC, "and": BarrierKind.RED_AND, "or": BarrierKind.RED_OR}
        kind = next(kinds[m] for m in modifiers if m in kinds)
        number, *count, predicate = operands
        return (number, count[0] if count else zero, predicate), kind
    # Without a count all threads of the block take part; barrier 0 is the default (section 9.7.13.1).
    kind = BarrierKind.ARRIVE if "arrive" in modifiers else BarrierKind.SYNC
    return (operands[0] if operands else zero, operands[1] if len(operands) > 1 else zero), kind
