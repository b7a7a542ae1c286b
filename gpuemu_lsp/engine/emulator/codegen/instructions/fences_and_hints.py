"""Fences, hints, and ``activemask``: instructions that cost little or nothing here."""

from __future__ import annotations

from gpuemu_lsp.engine.emulator.codegen.core.emitter import Emitter
from gpuemu_lsp.engine.emulator.codegen.core.race_calls import emit_fence
from gpuemu_lsp.engine.emulator.codegen.instructions.async_proxy import emit_proxy_fence
from gpuemu_lsp.engine.emulator.codegen.instructions.sm90.tensor_maps import emit_map_fence
from gpuemu_lsp.engine.emulator.codegen.instructions.votes import emit_activemask
from gpuemu_lsp.engine.emulator.ir.accesses import has_block_scope
from gpuemu_lsp.engine.emulator.ir.opcodes import BARRIER_RESULT
from gpuemu_lsp.engine.ptx.model import Instruction

_FENCES = frozenset({"membar", "fence"})

_HINTS = frozenset(
    {
        "nanosleep",
        "prefetch",
        "prefetchu",
        "discard",
        "applypriority",
        "pmevent",
        "griddepcontrol",
    }
)
"""Instructions without effect: there are no caches, no clocks, and no limits on registers."""


def supported(instruction: Instruction) -> bool:
    """Return whether this is a fence, a hint, or another instruction without operands to compute."""
    return instruction.opcode in _FENCES | _HINTS or instruction.opcode in ("activemask", BARRIER_RESULT)


def emit_fence_or_hint(e: Emitter, instruction: Instruction) -> None:
    """Write one of these instructions; hints write nothing."""
    if instruction.opcode == "activemask":
        emit_activemask(e, instruction)
    elif instruction.opcode in _FENCES:
        # Memory is sequentially consistent: warps of a launch execute one after another, lanes in program order. Only
        # the race detector distinguishes accesses with a fence between them.
        emit_fence(e, block_scope=has_block_scope(instruction))
        if "proxy" in instruction.modifiers and "async" in "".join(instruction.modifiers):
            emit_proxy_fence(e)
        if "tensormap::generic" in instruction.modifiers:
            emit_map_fence(e, instruction)
