"""The call stack at a moment: the user's functions, inlined or called, the innermost first."""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple

import numpy as np

from gpuemu_lsp.engine.debug.explain import RecordedBlock
from gpuemu_lsp.engine.debug.history import Numbers
from gpuemu_lsp.engine.debug.instance_cache import kept_results
from gpuemu_lsp.engine.findings import Place
from gpuemu_lsp.engine.ptx.demangle import demangled_name
from gpuemu_lsp.engine.ptx.model import Instruction, Location, inlining_chain


@dataclass(frozen=True, slots=True)
class StackFrame:
    """A function of the user that is being executed, and where.

    ``call`` is the number of the inlined call of a PTX function, 0 for the kernel, and ``line`` the line of the PTX in
    that function. Compilers inline functions into a PTX function, too: ``level`` counts these from the outside.
    """

    function: str
    place: Place
    call: int
    line: int
    level: int = 0


class Frames:
    """The call stacks of a recorded block."""

    def __init__(self, block: RecordedBlock) -> None:
        self._block, self._history = block, block.history
        self._located: dict[int, list[tuple[int, Location]]] = {}
        for basic in self._history.program.blocks:
            for one in basic.code:
                location = self._history.program.own_location(one)
                if location is not None:
                    self._located.setdefault(one.call, []).append((one.text_line, location))
        for lines in self._located.values():
            lines.sort(key=lambda item: item[0])

    def at(self, tick: int) -> tuple[StackFrame, ...]:
        """Return the call stack at a tick; empty where no code of the user is executed."""
        instruction = self._history.instruction(tick)
        return () if instruction is None else self._stack_of(instruction)

    def _stack_of(self, instruction: Instruction) -> tuple[StackFrame, ...]:
        location = self._history.program.own_location(instruction)
        return self._of(instruction.call, instruction.text_line, location)

    @kept_results(4096)
    def _of(self, call: int, line: int, location: Location | None) -> tuple[StackFrame, ...]:
        calls, frames = self._history.program.calls, []
        while True:
            chain = inlining_chain(location)
            for number, one in enumerate(chain):
                place = self._block.source.place_of(replace(one, inlined_at=None))
                if place is not None:
                    name = one.function or (calls[call].function if call in calls else self._history.program.name)
                    frames.append(StackFrame(demangled_name(name), place, call, line, len(chain) - 1 - number))
            if call not in calls:
                return tuple(frames)
            line, call = calls[call].text_line, calls[call].caller
            location = self._before(call, line)

    def _before(self, call: int, line: int) -> Location | None:
        """Return the location of a call instruction: that of the last instruction before it in its function."""
        lines = self._located.get(call, [])
        index = bisect_left(lines, line, key=lambda item: item[0]) - 1
        return lines[index][1] if index >= 0 else None

    def depths(self, ticks: Numbers) -> Numbers:
        """Return the number of frames at each of some ticks."""
        counts: Numbers = self._sites.depths[self._site_of(ticks)]
        return counts

    def text_lines(self, ticks: Numbers) -> Numbers:
        """Return the line of the PTX at each of some ticks, -1 at the end of a basic block without an instruction."""
        lines: Numbers = self._sites.lines[self._site_of(ticks)]
        return lines

    def _site_of(self, ticks: Numbers) -> Numbers:
        runs = np.searchsorted(self._history.start, ticks, side="right") - 1
        sites: Numbers = self._sites.firsts[self._history.block[runs]] + ticks - self._history.start[runs]
        return sites

    @cached_property
    def _sites(self) -> _Sites:
        firsts: list[int] = []
        depths: list[int] = []
        lines: list[int] = []
        for basic in self._history.program.blocks:
            firsts.append(len(depths))
            end: Instruction | None = getattr(basic.terminator, "instruction", None)
            for one in (*basic.code, end):
                depths.append(0 if one is None else len(self._stack_of(one)))
                lines.append(-1 if one is None else one.text_line)
        return _Sites(*(np.array(values, dtype=np.int64) for values in (firsts, depths, lines)))


class _Sites(NamedTuple):
    """The first site of each basic block; of each site the number of frames, and the line of the PTX."""

    firsts: Numbers
    depths: Numbers
    lines: Numbers
