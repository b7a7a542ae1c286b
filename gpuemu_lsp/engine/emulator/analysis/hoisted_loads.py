"""Loads that a compiler may have put where the source has none: before the branch that decides whether to read.

``if (t == 0) v += s[0];`` becomes a load by every lane and a select. What the other lanes read goes nowhere, so it is
neither a race nor a read of something unset.
"""

from __future__ import annotations

from collections.abc import Iterable

from gpuemu_lsp.engine.emulator.analysis.value_flow import ValueFlow
from gpuemu_lsp.engine.emulator.ir.operands import registers_read, registers_written
from gpuemu_lsp.engine.ptx.model import Function, Instruction, Label

_ENDS = frozenset({"bra", "brx", "ret", "exit", "trap"})
_SAFE = frozenset({"shared", "local"})
"""Where an address is known to be good without a look at it: only there do compilers load ahead."""


def possibly_hoisted_loads(functions: Iterable[Function]) -> frozenset[tuple[int, int]]:
    """Return the lines, with their file, of loads of which some lanes may not need the value.

    Such a value goes through a select, or is not used before the next branch. There are more of these than of loads
    that were really moved: whoever asks must look at what the source does.
    """
    return frozenset(place for function in functions if function.body is not None for place in _in_function(function))


def _in_function(function: Function) -> Iterable[tuple[int, int]]:
    body = function.body or ()
    instructions = [item for item in body if isinstance(item, Instruction)]
    flow = ValueFlow(instructions)
    selected = {name for item in instructions if item.opcode == "selp" for name in registers_read(item)}
    pending: dict[str, Instruction] = {}
    for item in body:
        if isinstance(item, Label):
            yield from _places(pending.values())
            pending = {}
        elif isinstance(item, Instruction):
            for name in registers_read(item):
                pending.pop(name, None)
            if item.opcode == "ld" and _SAFE & set(item.modifiers):
                if flow.reached(registers_written(item)) & selected:
                    yield from _places([item])
                pending.update(dict.fromkeys(registers_written(item), item))
            if item.opcode in _ENDS:
                yield from _places(pending.values())
                pending = {}
    yield from _places(pending.values())


def _places(loads: Iterable[Instruction]) -> Iterable[tuple[int, int]]:
    return ((load.location.file, load.location.line) for load in loads if load.location is not None)
