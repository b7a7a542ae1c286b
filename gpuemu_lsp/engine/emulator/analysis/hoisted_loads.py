"""Speculative loads: loads that the compiler may have hoisted above the branch that guards them in the source.

``if (t == 0) v += s[0];`` becomes a load by every lane and a ``selp``. The value that the other lanes load is dropped,
so it is neither a race nor an uninitialised read of the source. A finding at such a load is confirmed on unoptimised
code, which loads exactly where the source does.
"""

from __future__ import annotations

from collections.abc import Iterable

from gpuemu_lsp.engine.emulator.analysis.value_flow import ValueFlow
from gpuemu_lsp.engine.emulator.ir.operands import registers_read, registers_written
from gpuemu_lsp.engine.ptx.model import Function, Instruction, Label

_ENDS = frozenset({"bra", "brx", "ret", "exit", "trap"})
_SPECULATED_SPACES = frozenset({"shared", "local"})
"""State spaces in which the compiler knows addresses to be valid, so that it may execute a load without need."""


def possibly_hoisted_loads(functions: Iterable[Function]) -> frozenset[tuple[int, int]]:
    """Return file and line of the loads whose value some lanes may not need.

    Such a value is an operand of a select, directly or not, or is not used before the next branch. This finds more
    loads than were hoisted: the caller must check what the source does.
    """
    return frozenset(place for function in functions if function.body is not None for place in _in_function(function))


def _in_function(function: Function) -> Iterable[tuple[int, int]]:
    body = function.body or ()
    instructions = [item for item in body if isinstance(item, Instruction)]
    flow = ValueFlow(instructions)
    selected = {name for item in instructions if item.opcode == "selp" for name in registers_read(item)}
    # Loaded in this basic block, not used so far.
    pending: dict[str, Instruction] = {}
    for item in body:
        # A label or a branch ends the basic block: what is loaded and not used yet may be dropped on one side.
        if isinstance(item, Label):
            yield from _places(pending.values())
            pending = {}
        elif isinstance(item, Instruction):
            for name in registers_read(item):
                pending.pop(name, None)
            if item.opcode == "ld" and _SPECULATED_SPACES & set(item.modifiers):
                if flow.reached(registers_written(item)) & selected:
                    yield from _places([item])
                pending.update(dict.fromkeys(registers_written(item), item))
            if item.opcode in _ENDS:
                yield from _places(pending.values())
                pending = {}
    yield from _places(pending.values())


def _places(loads: Iterable[Instruction]) -> Iterable[tuple[int, int]]:
    return ((load.location.file, load.location.line) for load in loads if load.location is not None)
