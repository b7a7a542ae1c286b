"""``setmaxnreg`` (PTX ISA section 9.7.19.5): one callback for each warp, and nothing else."""

from __future__ import annotations

from gpuemu_lsp.engine.emulator.codegen.core.emitter import Emitter
from gpuemu_lsp.engine.emulator.codegen.instructions.bulk_copy import BulkOperation, call_back
from gpuemu_lsp.engine.ptx.model import Immediate, Instruction


def supported(instruction: Instruction) -> bool:
    """Return whether this changes the number of registers of a warp."""
    return instruction.opcode == "setmaxnreg" and isinstance(instruction.operands[0], Immediate)


def emit_registers(e: Emitter, instruction: Instruction) -> None:
    """Write the event; there is no limit on registers here."""
    if e.unit.checked:
        call_back(e, BulkOperation.REGISTERS)
