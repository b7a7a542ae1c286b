"""Placement of variables in the windows of parameter, shared and local memory."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from gpuemu_lsp.engine.emulator.ir.opcodes import type_bytes
from gpuemu_lsp.engine.emulator.ir.program import VariableSlot
from gpuemu_lsp.engine.ptx.model import Module, Variable
from gpuemu_lsp.engine.ptx.slicing import module_text

_RED_ZONE = 128
"""Unaddressable bytes between shared variables, in which an overrun of one variable is detected."""

_SWIZZLING = ("cp.async.bulk.tensor", "wgmma")
_TILE = 1024

RESERVED_SHARED = Variable("%reserved_smem_offset_1", "shared", "b8", 1024, 16)
"""Shared memory reserved for the system (PTX ISA section 10.31), a variable like any other here.

Its address can be taken, and it can be written and read back; the content before a launch is undocumented, and counts
as uninitialised.
"""


def _align(offset: int, alignment: int) -> int:
    return -(-offset // alignment) * alignment


def _natural(variable: Variable) -> int:
    return variable.alignment or type_bytes(variable.type)


def lay_out_variables(variables: Mapping[str, Variable], minimum: int, gap: int) -> tuple[dict[str, VariableSlot], int]:
    """Place variables one after another, at least ``gap`` bytes apart; return their slots and the size of the window.

    The size, in bytes, is rounded up to a multiple of ``minimum``.
    """
    slots: dict[str, VariableSlot] = {}
    offset = 0
    for name, variable in variables.items():
        offset = _align(offset, max(_natural(variable), 1))
        slots[name] = VariableSlot(offset, variable.size)
        offset += variable.size + gap
    return slots, _align(offset, minimum)


def lay_out_shared(module: Module, entry: str, declared: Mapping[str, Variable]) -> tuple[dict[str, VariableSlot], int]:
    """Return the slots of shared variables, and the offset of dynamic shared memory after the static variables.

    Separately compiled modules declare those of all kernels outside of functions: only what ``entry`` needs counts.
    """
    outside = {v.name: v for v in module.variables if v.space == "shared"}
    if outside:
        needed = module_text(module.text).needed_names([entry])
        outside = {name: v for name, v in outside.items() if name in needed}
    everything = outside | dict(declared)
    static = {name: v for name, v in everything.items() if v.size}
    minimum = 128
    if any(name in module.text for name in _SWIZZLING):
        # Swizzled tiles lie at multiples of 1024 bytes. Kernels that declare less rely on ptxas, which begins shared
        # memory there and leaves no gaps between tiles of whole kilobytes.
        minimum = _TILE
        static = {n: replace(v, alignment=_TILE) if v.size % _TILE == 0 else v for n, v in static.items()}
    slots, size = lay_out_variables(static, minimum, _RED_ZONE)
    # All extern arrays without a size start at the same address (CUDA C++ Programming Guide, ``__shared__``).
    slots.update({name: VariableSlot(size, 0) for name, v in everything.items() if not v.size})
    return slots, size
