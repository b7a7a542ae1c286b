"""Translation of a unit to an LLVM module with one function, ``warp``."""

from __future__ import annotations

from collections.abc import Callable

from llvmlite import ir

from gpuemu_lsp.engine.emulator.codegen.core.emitter import Emitter
from gpuemu_lsp.engine.emulator.codegen.core.instrumentation import (
    count_block,
    count_guarded,
    cover_block,
    cover_lanes,
    cover_uniform,
)
from gpuemu_lsp.engine.emulator.codegen.core.load_groups import find_groups
from gpuemu_lsp.engine.emulator.codegen.core.run_recorder import RunRecorder
from gpuemu_lsp.engine.emulator.codegen.core.translation_unit import TranslationUnit
from gpuemu_lsp.engine.emulator.codegen.instructions import (
    address_conversion,
    arithmetic,
    async_copy,
    async_proxy,
    atomics,
    barriers,
    bulk_copy,
    cluster,
    collectives,
    device_runtime,
    fences_and_hints,
    matrix,
    mbarrier,
    memory,
    recursive_calls,
    textures,
)
from gpuemu_lsp.engine.emulator.codegen.instructions.control_flow import ControlFlow
from gpuemu_lsp.engine.emulator.codegen.instructions.sm90 import register_pool, tensor_maps
from gpuemu_lsp.engine.emulator.codegen.instructions.sm100 import tensor_memory
from gpuemu_lsp.engine.emulator.ir import opcodes
from gpuemu_lsp.engine.emulator.ir.operands import compared_predicate, registers_written
from gpuemu_lsp.engine.emulator.ir.program import Return
from gpuemu_lsp.engine.ptx.model import Instruction, Register

_FAMILIES: tuple[tuple[Callable[[Instruction], bool], Callable[[Emitter, Instruction], None]], ...] = (
    (fences_and_hints.supported, fences_and_hints.emit_fence_or_hint),
    (address_conversion.supported, address_conversion.emit_conversion),
    (cluster.supported, cluster.emit_cluster_address),
    (arithmetic.supported, arithmetic.emit_arithmetic),
    (matrix.supported, matrix.emit_matrix),
    (async_copy.supported, async_copy.emit_copy),
    (bulk_copy.supported, bulk_copy.emit_bulk_copy),
    (async_proxy.supported, async_proxy.emit_group_event),
    (mbarrier.supported, mbarrier.emit_mbarrier),
    (tensor_maps.supported, tensor_maps.emit_tensor_map),
    (register_pool.supported, register_pool.emit_registers),
    (tensor_memory.supported, tensor_memory.emit_tensor_memory),
    (textures.supported, textures.emit_texture),
)
"""(supported, emit) of the families that need only the emitter, and no control flow."""


def runnable(instruction: Instruction) -> bool:
    """Return whether an instruction (not a terminator) is supported."""
    opcode = instruction.opcode
    if opcode in ("ld", "st", "ldu"):
        return memory.supported(instruction)
    if opcode in ("atom", "red"):
        return atomics.supported(instruction)
    if opcodes.is_collective(instruction):
        return collectives.supported(instruction)
    if opcode == "call":
        # The front end inlines functions of the module and refuses unknown ones: what is left is the device runtime.
        return True
    return recursive_calls.supported(instruction) or any(supported(instruction) for supported, _ in _FAMILIES)


def translate(unit: TranslationUnit) -> ir.Module:
    """Write the module for one translation unit."""
    module = ir.Module("kernel")
    e = Emitter(unit, module, "warp")
    control, recorder = ControlFlow(e), RunRecorder(e)
    for number, block in enumerate(unit.program.blocks):
        e.begin_block(number)
        # Found before the first instruction is written: the check of a group precedes its first load.
        e.load_groups = find_groups(e, block.code, memory.supported)
        e.builder.position_at_end(control.entries[number])
        # At the entry and not on the edges: the dispatcher and resumption also lead here.
        cover_block(e)
        count_block(e)
        recorder.begin_block()
        for instruction in block.code:
            if not runnable(instruction):
                _stop_at(e, control, instruction)
            else:
                recorder.note_sources()
                _emit_guarded(e, control, instruction)
                recorder.note_results()
                _cover_comparison(e, instruction)
            e.position += 1
        recorder.end_block()
        if isinstance(block.terminator, Return):
            control.jump_to([recursive_calls.return_targets(e, part) for part in range(e.parts)])
        else:
            control.emit_end(number)
    control.finish()
    return module


def _stop_at(e: Emitter, control: ControlFlow, instruction: Instruction) -> None:
    """Stop the launch when a lane executes this instruction, which is not supported.

    The kernel is translated all the same: many have such an instruction on a path that this launch does not take.
    """
    b = e.builder
    # Loaded before the branch: it is used on both sides.
    e.block_mask()
    after = e.append_block()
    stop = e.append_block("unsupported")
    guard = instruction.guard
    if guard is None:
        # A conditional branch: the code that follows is written all the same, and its block needs a predecessor.
        b.cbranch(ir.Constant(ir.IntType(1), 1), stop, after)
    else:
        bits = e.pack(arithmetic.predicate_parts(e, guard.register, guard.negated))
        executed = b.icmp_unsigned("!=", b.and_(bits, e.block_mask()), ir.Constant(bits.type, 0))
        b.cbranch(executed, stop, after)
    b.position_at_end(stop)
    control.stop_launch()
    b.position_at_end(after)


def _cover_comparison(e: Emitter, instruction: Instruction) -> None:
    """Record the outcomes of a comparison: compilers turn many an ``if`` into ``selp`` or a part of a condition."""
    register = compared_predicate(instruction) if e.unit.coverage else None
    if register is None:
        return
    if e.shape(register).uniform:
        cover_uniform(e, arithmetic.predicate_scalar(e, register, False))
    else:
        cover_lanes(e, arithmetic.predicate_parts(e, register, False))


def _emit_guarded(e: Emitter, control: ControlFlow, instruction: Instruction) -> None:
    guard = instruction.guard
    if guard is None:
        _emit(e, control, instruction)
        return
    register = Register(guard.register.name)
    if not e.shape(register).uniform:
        # A predicate that differs between lanes becomes part of the active mask.
        parts = arithmetic.predicate_parts(e, register, guard.negated)
        cover_lanes(e, parts)
        with e.guarded(parts):
            count_guarded(e)
            _emit(e, control, instruction)
        return
    # A uniform one is a branch around the instruction. What the conditional block computes does not dominate the code
    # after it, so that masks are computed first and all other cached values dropped at the end.
    b = e.builder
    e.materialise_masks()
    condition = arithmetic.predicate_scalar(e, register, guard.negated)
    cover_uniform(e, condition)
    guarded, after = e.append_block(), e.append_block()
    scope = e.snapshot()
    b.cbranch(condition, guarded, after)
    b.position_at_end(guarded)
    count_guarded(e)
    _emit(e, control, instruction)
    b.branch(after)
    b.position_at_end(after)
    e.restore(scope, registers_written(instruction))


def _emit(e: Emitter, control: ControlFlow, instruction: Instruction) -> None:
    opcode = instruction.opcode
    # By opcode first: the families below decide by all modifiers, which takes longer.
    if opcode in ("ld", "st", "ldu"):
        memory.emit_access(e, instruction)
    elif opcode in ("atom", "red"):
        atomics.emit_atomic(e, instruction)
    elif opcodes.is_collective(instruction):
        collectives.emit_collective(e, control, instruction)
    elif opcode == "call":
        device_runtime.emit_call(e, instruction)
    elif opcode == opcodes.BARRIER_RESULT:
        barriers.emit_barrier_result(control, instruction)
    elif recursive_calls.supported(instruction):
        recursive_calls.emit_stack(e, control, instruction)
    else:
        emit = next(emit for supported, emit in _FAMILIES if supported(instruction))
        emit(e, instruction)
