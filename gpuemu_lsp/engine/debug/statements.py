"""The statements that a thread executed, in order: stretches of instructions of one line of the source."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
import numpy.typing as npt

from gpuemu_lsp.engine.debug.history import History, Numbers
from gpuemu_lsp.engine.debug.instance_cache import kept_results
from gpuemu_lsp.engine.findings import Place
from gpuemu_lsp.engine.ptx.model import Instruction, Location

_MOST_EXECUTIONS: Final = 1000


@dataclass(frozen=True, slots=True)
class Statement:
    """One execution of a line by a thread: ticks ``first`` to ``last``.

    ``call`` is the inlined call that the line is in; calls of functions that are not the user's belong to it.
    """

    thread: int
    place: Place
    call: int
    first: int
    last: int

    @property
    def line(self) -> int:
        """The 0-based line."""
        return self.place.range.start.line


class Statements:
    """The statements of a history; ``place_of`` returns the user's place of a location, None if it has none."""

    def __init__(self, history: History, place_of: Callable[[Location | None], Place | None]) -> None:
        self._history = history
        self._place_of = place_of
        self._calls_of_user = self._with_user_lines()
        lines: dict[tuple[str, int, int], int] = {}
        self._places: list[tuple[Place, int]] = []
        self._line_of_site: list[Numbers] = []
        self._is_own: list[npt.NDArray[np.bool_]] = []
        for block in history.program.blocks:
            row = [*block.code, getattr(block.terminator, "instruction", None)]
            self._line_of_site.append(np.array([self._number(one, lines) for one in row], dtype=np.int64))
            self._is_own.append(np.array([one is not None and self._is_of_user(one) for one in row], dtype=np.bool_))
        self._first_sites = np.cumsum([0, *(len(row) for row in self._line_of_site)])

    def _number(
        self,
        instruction: Instruction | None,
        lines: dict[tuple[str, int, int], int],
    ) -> int:
        """Return the number of an instruction's line, -1 for one that is not the user's."""
        location = instruction.location if instruction is not None else None
        # Column 0 is the head of a function, where parameters are not loaded yet; line 0 code of the compiler's own.
        if instruction is None or location is None or not location.line or not location.column:
            return -1
        place = self._place_of(location)
        if place is None:
            return -1
        call = self._owner(instruction.call)
        key = place.path, place.range.start.line, call
        if key not in lines:
            lines[key] = len(self._places)
            self._places.append((place, call))
        return lines[key]

    def _with_user_lines(self) -> frozenset[int]:
        """Return the calls of functions of the user."""
        code = (one for block in self._history.program.blocks for one in block.code)
        found: set[int] = set()
        for one in code:
            if one.call not in found and self._is_of_user(one):
                found.add(one.call)
        return frozenset(found)

    def _is_of_user(self, instruction: Instruction) -> bool:
        """Return whether an instruction is of a line of the user, not of a function that the line calls."""
        own = self._history.program.own_location(instruction)
        return own is not None and self._place_of(replace(own, inlined_at=None)) is not None

    def _owner(self, call: int) -> int:
        """Return a call, or the closest one around it that is of a function of the user."""
        calls = self._history.program.calls
        while call not in self._calls_of_user and call in calls:
            call = calls[call].caller
        return call

    def line_in_call(self, tick: int, call: int) -> int | None:
        """Return the line of the PTX, in the function of a call, at which the instruction of a tick is executed."""
        instruction, calls = self._history.instruction(tick), self._history.program.calls
        if instruction is None:
            return None
        line, inner = instruction.text_line, instruction.call
        while inner != call and inner in calls:
            line, inner = calls[inner].text_line, calls[inner].caller
        return line

    @kept_results(64)
    def spans(self, thread: int) -> tuple[Numbers, Numbers, Numbers]:
        """Return the first tick and last tick of each statement of a thread, and the numbers of their lines."""
        history, runs = self._history, self._history.runs_of(thread)
        if not len(runs):
            nothing = np.zeros(0, dtype=np.int64)
            return nothing, nothing, nothing
        blocks = history.block[runs]
        lines = np.concatenate([self._line_of_site[number] for number in blocks])
        counts = np.array([len(self._line_of_site[number]) for number in blocks])
        firsts = np.concatenate([[0], np.cumsum(counts)[:-1]])
        ticks = np.repeat(history.start[runs] - firsts, counts) + np.arange(len(lines))
        sites = np.repeat(self._first_sites[blocks] - firsts, counts) + np.arange(len(lines))
        is_own = np.concatenate([self._is_own[number] for number in blocks])[lines >= 0]
        ticks, lines, sites = ticks[lines >= 0], lines[lines >= 0], sites[lines >= 0]
        if not len(lines):
            return ticks, ticks, lines
        new = np.ones(len(lines), dtype=np.bool_)
        new[1:] = lines[1:] != lines[:-1]
        # A loop of one line comes back to the line's own code at each iteration. A loop of a library's function that
        # the line calls does not: behind it the line goes on.
        own, stretch = np.flatnonzero(is_own), np.cumsum(new)
        before, after = own[:-1], own[1:]
        new[after[(sites[after] <= sites[before]) & (stretch[after] == stretch[before])]] = True
        begins = np.flatnonzero(new)
        ends = np.concatenate([begins[1:], [len(lines)]]) - 1
        return ticks[begins], ticks[ends], lines[begins]

    def numbers_of(self, path: str, line: int) -> list[int]:
        """Return the numbers of a line, one for each call that it is in."""
        return [
            number
            for number, (place, _) in enumerate(self._places)
            if (place.path, place.range.start.line) == (path, line)
        ]

    @property
    def places(self) -> list[Place]:
        """The places of all lines with code."""
        return [place for place, _ in self._places]

    def at(self, thread: int, tick: int) -> Statement | None:
        """Return the statement that a thread executes at a tick."""
        firsts, lasts, lines = self.spans(thread)
        index = int(np.searchsorted(firsts, tick, side="right")) - 1
        if index < 0:
            return None
        place, call = self._places[int(lines[index])]
        return Statement(thread, place, call, int(firsts[index]), max(int(lasts[index]), tick))

    def last(self, thread: int, count: int) -> list[Statement]:
        """Return the last statements of a thread, the latest first."""
        firsts = self.spans(thread)[0][::-1][:count]
        return [one for one in (self.at(thread, int(tick)) for tick in firsts) if one is not None]

    def executions(self, thread: int, path: str, line: int) -> list[Statement]:
        """Return the executions of a line by a thread, in order; of very many the last ones."""
        firsts, _, lines = self.spans(thread)
        there = firsts[np.isin(lines, self.numbers_of(path, line))][-_MOST_EXECUTIONS:]
        return [one for one in (self.at(thread, int(tick)) for tick in there) if one is not None]
