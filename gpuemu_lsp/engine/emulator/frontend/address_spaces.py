"""Where variables lie in the windows of parameters, shared and local memory."""

from __future__ import annotations

from collections.abc import Mapping

from gpuemu_lsp.engine.emulator.ir.opcodes import type_bytes
from gpuemu_lsp.engine.emulator.ir.program import VariableSlot
from gpuemu_lsp.engine.ptx.model import Module, Variable

_RED_ZONE = 128
"""Unaddressable bytes between neighbouring shared variables, so that an overrun of one is seen."""


RESERVED_SHARED = Variable("%reserved_smem_offset_1", "shared", "b8", 1024, 16)
"""Shared memory that the system keeps for cooperative groups (section 10.31): here a variable like any other.

Its address may be taken and what is written to it read; what the system puts there before a launch is not known.
"""


def _align(offset: int, alignment: int) -> int:
    return -(-offset // alignment) * alignment


def _natural(variable: Variable) -> int:
    return variable.alignment or type_bytes(variable.type)


def lay_out_variables(variables: Mapping[str, Variable], minimum: int, gap: int) -> tuple[dict[str, VariableSlot], int]:
    """Place variables one after another, ``gap`` bytes apart; return their slots and the size of all, in bytes.

    The size is a multiple of ``minimum``.
    """
    slots: dict[str, VariableSlot] = {}
    offset = 0
    for name, variable in variables.items():
        offset = _align(offset, max(_natural(variable), 1))
        slots[name] = VariableSlot(offset, variable.size)
        offset += variable.size + gap
    return slots, _align(offset, minimum)


def lay_out_shared(module: Module, declared: Mapping[str, Variable]) -> tuple[dict[str, VariableSlot], int]:
    """Lay out static shared variables with gaps between them; dynamic ones all start at the end (section 5.1.6)."""
    everything = {v.name: v for v in module.variables if v.space == "shared"} | dict(declared)
    static = {name: v for name, v in everything.items() if v.size}
    slots, size = lay_out_variables(static, 128, _RED_ZONE)
    slots.update({name: VariableSlot(size, 0) for name, v in everything.items() if not v.size})
    return slots, size
