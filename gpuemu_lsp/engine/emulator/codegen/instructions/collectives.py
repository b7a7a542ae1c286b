"""Warp collectives (``.sync``): the members of the mask wait for each other and execute together."""

from __future__ import annotations

from collections.abc import Callable

from gpuemu_lsp.engine.emulator.codegen.core.emitter import Emitter
from gpuemu_lsp.engine.emulator.codegen.core.member_mask import check_caller, mask_operand, members_of
from gpuemu_lsp.engine.emulator.codegen.core.race_calls import emit_warp_sync
from gpuemu_lsp.engine.emulator.codegen.instructions import shuffles, votes
from gpuemu_lsp.engine.emulator.codegen.instructions.control_flow import ControlFlow
from gpuemu_lsp.engine.ptx.model import Instruction


def supported(instruction: Instruction) -> bool:
    """Return whether a collective is supported."""
    opcode, modifiers = instruction.opcode, set(instruction.modifiers)
    if opcode == "shfl":
        return "b32" in modifiers
    if opcode == "redux":
        if "f32" in modifiers:
            return modifiers <= {"sync", "min", "max", "abs", "NaN", "f32"} and bool(modifiers & {"min", "max"})
        return bool(modifiers & votes.REDUCTIONS) and bool(modifiers & {"u32", "s32", "b32"})
    return opcode in ("vote", "match", "elect", "bar", "barrier")


def emit_collective(e: Emitter, control: ControlFlow, instruction: Instruction) -> None:
    """Write a collective, the first instruction of its block."""
    # Waiting comes first: what follows must see the mask of the lanes that execute the collective in the end.
    members = members_of(e, instruction)
    control.wait_for_members(e.block_number, members)
    # Reported, and executed with the lanes there are.
    check_caller(e, instruction)
    emit_warp_sync(e, mask_operand(instruction))
    _EMIT.get(instruction.opcode, _nothing)(e, instruction)


def _nothing(e: Emitter, instruction: Instruction) -> None:
    """``bar.warp.sync`` (PTX ISA section 9.7.13.2): the lanes have waited, and memory is in order."""


_EMIT: dict[str, Callable[[Emitter, Instruction], None]] = {
    "shfl": shuffles.emit_shuffle,
    "vote": votes.emit_vote,
    "match": votes.emit_match,
    "redux": votes.emit_redux,
    "elect": votes.emit_elect,
}
