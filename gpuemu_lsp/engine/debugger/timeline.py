"""Steps of a thread through its statements, forwards and backwards.

A step over a statement is to the next one that is in the same function or in one that calls it. Statements that a call
interrupts go on after it: the rest is the same statement, at which no step ends. Every step is a look-up.
"""

from __future__ import annotations

from enum import Enum
from typing import Final, NamedTuple

import numpy as np

from gpuemu_lsp.engine.debug.access_table import Table
from gpuemu_lsp.engine.debug.history import History, Numbers
from gpuemu_lsp.engine.debug.instance_cache import kept_results
from gpuemu_lsp.engine.debug.statements import Statements
from gpuemu_lsp.engine.debugger.frames import Frames

_FIRST_LOOK: Final = 64
"""Statements that are looked at first; a thread may have millions of them."""


_DEEPEST: Final = 1 << 30


class StepKind(Enum):
    """A step by statements."""

    OVER = "over"
    IN = "in"
    OUT = "out"
    BACK = "back"
    BACK_OUT = "back out"


class _Track(NamedTuple):
    """The statements of a thread: first tick, last tick, number of the line, number of frames, line of the PTX."""

    firsts: Numbers
    lasts: Numbers
    lines: Numbers
    depths: Numbers
    text: Numbers

    def at(self, tick: int) -> int:
        """Return the statement of a tick, -1 before the first one."""
        return int(np.searchsorted(self.firsts, tick, side="right")) - 1

    def following(self, index: int, depth: int) -> int | None:
        """Return the next statement with at most ``depth`` frames."""
        first, count = index + 1, _FIRST_LOOK
        while first < len(self.firsts):
            there = np.flatnonzero(self.depths[first : first + count] <= depth)
            if len(there):
                return first + int(there[0])
            first, count = first + count, count * 4
        return None

    def preceding(self, index: int, depth: int) -> int | None:
        """Return the previous statement with at most ``depth`` frames."""
        end, count = index, _FIRST_LOOK
        while end > 0:
            first = max(end - count, 0)
            there = np.flatnonzero(self.depths[first:end] <= depth)
            if len(there):
                return first + int(there[-1])
            end, count = first, count * 4
        return None

    def continues(self, index: int) -> int | None:
        """Return the statement of which one is the rest after a call, None for a statement of its own."""
        if index == 0 or self.depths[index - 1] <= self.depths[index]:
            return None
        before = self.preceding(index, int(self.depths[index]))
        same = before is not None and (self.lines[before], self.depths[before]) == (
            self.lines[index],
            self.depths[index],
        )
        # A loop of one line comes back to its begin.
        return before if before is not None and same and self.text[before] <= self.text[index] else None


class Timeline:
    """The statements of all threads of a recorded block."""

    def __init__(self, history: History, statements: Statements, frames: Frames) -> None:
        self._history, self._statements, self._frames = history, statements, frames

    @kept_results(64)
    def _track(self, thread: int) -> _Track:
        firsts, lasts, lines = self._statements.spans(thread)
        return _Track(firsts, lasts, lines, self._frames.depths(firsts), self._frames.text_lines(firsts))

    def ends(self, thread: int) -> tuple[int, int] | None:
        """Return the first ticks of the first and the last statement of a thread, None if it has none."""
        firsts = self._track(thread).firsts
        return (int(firsts[0]), int(firsts[-1])) if len(firsts) else None

    def statement(self, thread: int, tick: int) -> tuple[int, int] | None:
        """Return the first and last tick of the statement that a thread executes at a tick, or comes to first.

        Calls that interrupt it are between them.
        """
        track = self._track(thread)
        if not len(track.firsts):
            return None
        index = max(track.at(tick), 0)
        return int(track.firsts[self._begin(track, index)]), int(track.lasts[self._last_part(track, index)])

    def depth(self, thread: int, tick: int) -> int:
        """Return the number of frames of the statement that a thread executes at a tick, or has executed last."""
        track = self._track(thread)
        index = track.at(tick)
        # Before its first statement a thread steps into it, whatever function that is in.
        return int(track.depths[index]) if index >= 0 else _DEEPEST

    def step(self, thread: int, tick: int, step: StepKind, depth: int | None = None) -> int | None:
        """Return the first tick of the statement at which a step ends, None if the recording ends before.

        ``depth`` is :meth:`depth`, which another window may know that has the tick.
        """
        depth = self.depth(thread, tick) if depth is None else depth
        track = self._track(thread)
        index = track.at(tick)
        limit = {StepKind.IN: _DEEPEST, StepKind.OUT: depth - 1, StepKind.BACK_OUT: depth - 1}.get(step, depth)
        if step in (StepKind.BACK, StepKind.BACK_OUT):
            # Behind all statements that the window has: none of them goes on.
            begin = self._begin(track, index) if index < 0 or tick <= int(track.lasts[index]) else index + 1
            # In the middle of a statement, by instructions, its begin is the previous one.
            if step is StepKind.BACK and 0 <= begin <= index and tick > int(track.firsts[begin]):
                return int(track.firsts[begin])
            before = track.preceding(begin, limit)
            if before is None:
                return None
            begin = self._begin(track, before)
            return None if self._is_cut(track, begin) else int(track.firsts[begin])
        target = track.following(index, limit)
        while step is not StepKind.OUT and target is not None and track.continues(target) is not None:
            target = track.following(target, limit)
        return None if target is None else int(track.firsts[target])

    def _is_cut(self, track: _Track, index: int) -> bool:
        """Return whether a statement may be the rest of one that a call interrupts, which is before the window."""
        if not self._history.recording.window.skipped or index == 0 or track.depths[index - 1] <= track.depths[index]:
            return False
        return track.preceding(index, int(track.depths[index])) is None

    @staticmethod
    def _begin(track: _Track, index: int) -> int:
        while index > 0 and (before := track.continues(index)) is not None:
            index = before
        return index

    @staticmethod
    def _last_part(track: _Track, index: int) -> int:
        depth = int(track.depths[index])
        while (after := track.following(index, depth)) is not None and track.continues(after) == index:
            index = after
        return index

    def instruction_step(self, thread: int, tick: int, *, back: bool) -> int | None:
        """Return the tick of the next or previous instruction of a thread, None at the end of its recording."""
        runs, run = self._history.runs_of(thread), self._history.run_at(tick)
        place, step = int(np.searchsorted(runs, run)), -1 if back else 1
        if place < len(runs) and runs[place] == run:
            tick += step
        else:
            # Something of another thread, or behind the window: the closest run of the thread.
            place -= back
            tick = self._edge(runs, place, back=back)
        while 0 <= place < len(runs):
            first, end = int(self._history.start[runs[place]]), int(self._history.start[runs[place] + 1])
            while first <= tick < end:
                if self._history.instruction(tick) is not None:
                    return tick
                tick += step
            place += step
            tick = self._edge(runs, place, back=back)
        return None

    def _edge(self, runs: Numbers, place: int, *, back: bool) -> int:
        """Return the last tick of one of some runs, or its first one; 0 if there is no such run."""
        if not 0 <= place < len(runs):
            return 0
        return int(self._history.start[runs[place] + 1]) - 1 if back else int(self._history.start[runs[place]])

    @kept_results(64)
    def executions(self, threads: tuple[int, ...], path: str, line: int) -> Table:
        """Return the ticks and threads of executions of a line by some threads, in order."""
        parts = []
        for thread in threads:
            ticks = self._executions(thread, path, line)
            part = np.zeros(len(ticks), dtype=[("tick", "<i8"), ("thread", "<i4")])
            part["tick"], part["thread"] = ticks, thread
            parts.append(part)
        rows = np.concatenate(parts) if parts else np.zeros(0, dtype=[("tick", "<i8"), ("thread", "<i4")])
        ordered: Table = rows[np.lexsort((rows["thread"], rows["tick"]))]
        return ordered

    def _executions(self, thread: int, path: str, line: int) -> Numbers:
        """Return the first ticks of a thread's executions of a line, without what continues one after a call."""
        track = self._track(thread)
        there = np.flatnonzero(np.isin(track.lines, self._statements.numbers_of(path, line)))
        interrupted = [index for index in there.tolist() if track.continues(index) is not None]
        kept: Numbers = track.firsts[np.setdiff1d(there, interrupted)]
        return kept
