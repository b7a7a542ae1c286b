"""Recursive calls, with a stack per thread.

Other calls are inlined. Lanes return to different callers, so that only the scalar-PC version executes them.
"""

from __future__ import annotations

from llvmlite import ir

from gpuemu_lsp.engine.emulator.abi.field_access import load_lanes, store_lanes
from gpuemu_lsp.engine.emulator.abi.structs import STACK_BYTES, Warp
from gpuemu_lsp.engine.emulator.codegen.core.emitter import Emitter
from gpuemu_lsp.engine.emulator.codegen.instructions.control_flow import ControlFlow
from gpuemu_lsp.engine.emulator.ir.opcodes import POP, PUSH
from gpuemu_lsp.engine.emulator.ir.program import RecursiveCall
from gpuemu_lsp.engine.emulator.llvm import gathers
from gpuemu_lsp.engine.emulator.llvm import ir_tools as t
from gpuemu_lsp.engine.emulator.llvm.ir_tools import I32, I64, Value, i64
from gpuemu_lsp.engine.ptx.model import Instruction


def supported(instruction: Instruction) -> bool:
    """Return whether the instruction is a push or pop that the front end has inserted."""
    return instruction.opcode in (PUSH, POP)


def emit_stack(e: Emitter, control: ControlFlow, instruction: Instruction) -> None:
    """Write a push before a call, or the pop behind it."""
    if instruction.opcode == PUSH:
        _push(e, control)
    else:
        _pop(e)


def _saved(e: Emitter, call: RecursiveCall) -> list[str]:
    """Return the registers that must survive a call: those live behind it, except its results."""
    live = e.unit.liveness
    names = live.registers(live.live_in[call.target])
    return [name for name in names if name.rpartition("+")[0] not in call.results]


def _depth(e: Emitter, part: int) -> Value:
    return load_lanes(e.builder, e.context, Warp.STACK_DEPTH.element(part * e.lanes), e.lanes)


def _set_depth(e: Emitter, part: int, value: Value) -> None:
    store_lanes(e.builder, value, e.context, Warp.STACK_DEPTH.element(part * e.lanes))


def _stack_words(e: Emitter, part: int, depth: Value, offset: int) -> tuple[Value, Value]:
    """Return the base, and for each lane the index in bytes, of the words at ``depth + offset`` of the stacks."""
    b = e.builder
    base = e.record_field("stack", "context", Warp.STACK_BASE)
    # Stacks of the lanes are adjacent, and lanes may be at different depths.
    index = b.add(depth, t.iota(I64, e.lanes, STACK_BYTES))
    return t.at(b, base, part * e.lanes * STACK_BYTES + offset), index


def _push(e: Emitter, control: ControlFlow) -> None:
    b = e.builder
    call = e.unit.program.blocks[e.block_number].terminator
    assert isinstance(call, RecursiveCall)
    names = _saved(e, call)
    # A word for each register, and the return address on top of them.
    frame = 8 * (len(names) + 1)
    depths = [_depth(e, part) for part in range(e.parts)]
    full = []
    for part, depth in enumerate(depths):
        over = b.icmp_unsigned(">", depth, t.splat(b, i64(STACK_BYTES - frame), e.lanes))
        active = e.active(part)
        full.append(over if active is None else b.and_(over, active))
    # Before anything is stored: a frame that does not fit must not be written.
    overflow, go_on = e.branch_unlikely(e.any_lane(full), "overflow")
    b.position_at_end(overflow)
    control.stop_launch()
    b.position_at_end(go_on)
    for part, depth in enumerate(depths):
        for index, name in enumerate(names):
            _scatter(e, part, _as_word(e, e.vector(name, part)), _stack_words(e, part, depth, 8 * index))
        target = t.splat(b, i64(call.target), e.lanes)
        _scatter(e, part, target, _stack_words(e, part, depth, frame - 8))
        grown = b.add(depth, t.splat(b, i64(frame), e.lanes))
        active = e.active(part)
        _set_depth(e, part, grown if active is None else b.select(active, grown, depth))


def _pop(e: Emitter) -> None:
    b = e.builder
    # The call that returns here; every call returns to a block of its own.
    callers = [block.terminator for block in e.unit.program.blocks]
    call = next(end for end in callers if isinstance(end, RecursiveCall) and end.target == e.block_number)
    names = _saved(e, call)
    frame = 8 * (len(names) + 1)
    for part in range(e.parts):
        depth = _depth(e, part)
        shrunk = b.sub(depth, t.splat(b, i64(frame), e.lanes))
        for index, name in enumerate(names):
            word = _gather(e, part, _stack_words(e, part, shrunk, 8 * index))
            type_ = e.register_type(name)
            integer = ir.IntType(_width(type_))
            value = b.trunc(word, ir.VectorType(integer, e.lanes)) if integer.width < 64 else word
            value = value if integer == type_ else b.bitcast(value, ir.VectorType(type_, e.lanes))
            # Only active lanes: those that return elsewhere have other frames.
            e.write_vector(name, part, value, e.unit.program.registers[name])
        active = e.active(part)
        _set_depth(e, part, shrunk if active is None else b.select(active, shrunk, depth))


def return_targets(e: Emitter, part: int) -> Value:
    """Return the block that each lane returns to, as i32; the frame is removed by the pop there."""
    b = e.builder
    # The top word of the frame below the depth.
    word = _gather(e, part, _stack_words(e, part, _depth(e, part), -8))
    return b.trunc(word, ir.VectorType(I32, e.lanes))


def _mask(e: Emitter, part: int) -> Value:
    active = e.active(part)
    return gathers.all_lanes(e.builder, e.lanes) if active is None else active


def _scatter(e: Emitter, part: int, value: Value, words: tuple[Value, Value]) -> None:
    gathers.scatter(e.builder, value, *words, _mask(e, part), align=8)


def _gather(e: Emitter, part: int, words: tuple[Value, Value]) -> Value:
    return gathers.gather(e.builder, ir.VectorType(I64, e.lanes), *words, _mask(e, part), align=8)


def _as_word(e: Emitter, value: Value) -> Value:
    b = e.builder
    scalar = value.type.element
    width = _width(scalar)
    if not isinstance(scalar, ir.IntType):
        value = b.bitcast(value, ir.VectorType(ir.IntType(width), e.lanes))
    return b.zext(value, ir.VectorType(I64, e.lanes)) if width < 64 else value


def _width(type_: ir.Type) -> int:
    return int(type_.width) if isinstance(type_, ir.IntType) else {"float": 32, "double": 64}[str(type_)]
