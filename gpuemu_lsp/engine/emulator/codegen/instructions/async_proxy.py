"""Events of the asynchronous proxy (PTX ISA section 8.6) for the checks in Python: one callback per warp each.

Only kernels with bulk copies or ``wgmma`` have them, whose single instructions move and multiply kilobytes.
"""

from __future__ import annotations

from gpuemu_lsp.engine.emulator.abi.field_access import store_lanes
from gpuemu_lsp.engine.emulator.codegen.core.emitter import Emitter
from gpuemu_lsp.engine.emulator.codegen.instructions.bulk_copy import RANK_SHIFT, ROWS, BulkOperation, call_back
from gpuemu_lsp.engine.emulator.ir.opcodes import GROUP_EVENT
from gpuemu_lsp.engine.emulator.llvm import ir_tools as t
from gpuemu_lsp.engine.emulator.llvm.ir_tools import i64
from gpuemu_lsp.engine.ptx.model import Immediate, Instruction


def supported(instruction: Instruction) -> bool:
    """Return whether this is an event of a warp group."""
    return instruction.opcode == GROUP_EVENT


def emit_group_event(e: Emitter, instruction: Instruction) -> None:
    """Write an event of a warp group, with the descriptors of a product in scratch space."""
    # Behind a product and at a fence there is nothing to do: these events are for the analysis of registers.
    if instruction.modifiers[0] in ("issued", "fence") or not e.unit.checked:
        return
    for row, operand in zip(ROWS, instruction.operands, strict=False):
        for part in range(e.parts):
            if isinstance(operand, Immediate):
                value = t.splat(e.builder, i64(operand.bits), e.lanes)
            else:
                value = e.vector_operand(operand, "b64", part)
            store_lanes(e.builder, value, e.context, row.element(part * e.lanes))
    call_back(e, BulkOperation.GROUP)


def emit_proxy_fence(e: Emitter) -> None:
    """Write the event of a ``fence.proxy.async``."""
    if e.unit.program.has_async_proxy and e.unit.checked:
        call_back(e, BulkOperation.PROXY_FENCE)


def emit_mbarrier_event(e: Emitter, operation: int) -> None:
    """Write the event of an operation on ``mbarrier`` objects, whose operands are in scratch space."""
    if e.unit.checked:
        call_back(e, BulkOperation.MBARRIER | operation << RANK_SHIFT)
