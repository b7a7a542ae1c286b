"""Where an execution stops: lines with conditions, changes of data, the finding. Each is looked up in the recording.

A *hit* is a tick and a thread. Hits are ordered by time, those of one tick by thread; going on searches the first one
after a hit, going back the last one before it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import NamedTuple, Protocol

import numpy as np

from gpuemu_lsp.engine.debug.accesses import Kind, Table
from gpuemu_lsp.engine.debug.dwarf.model import SourceVariable
from gpuemu_lsp.engine.debug.explain import RecordedBlock
from gpuemu_lsp.engine.debugger.evaluate import decided, evaluate, truth
from gpuemu_lsp.engine.debugger.frames import Frames, StackFrame
from gpuemu_lsp.engine.debugger.names import Names
from gpuemu_lsp.engine.debugger.objects import Moment
from gpuemu_lsp.engine.debugger.syntax import CExpressionError, Node
from gpuemu_lsp.engine.debugger.templates import Template
from gpuemu_lsp.engine.debugger.timeline import Timeline
from gpuemu_lsp.engine.debugger.views import View


class Hit(NamedTuple):
    """A tick and the thread that executes something there."""

    tick: int
    thread: int


@dataclass(frozen=True, slots=True)
class Stop:
    """Why the execution stands still: ``reason`` is one of the debug adapter protocol, ``text`` is for the user."""

    reason: str
    description: str
    text: str = ""


class Stopper(Protocol):
    """Something that stops the execution."""

    def hits(self, cursor: Hit, *, back: bool) -> Iterator[Hit]:
        """Yield the hits after a moment in order of time, or those before it, the latest first."""

    def stop(self, hit: Hit) -> Stop:
        """Return the stop at a hit."""


@dataclass(frozen=True, slots=True)
class Debuggee:
    """What breakpoints are looked up in."""

    block: RecordedBlock
    frames: Frames
    timeline: Timeline
    names: Names

    def view(self, hit: Hit, frame: int = 0) -> View | None:
        """Return what a thread sees at a hit, None where it executes no code of the user."""
        stack = self.frames.at(hit.tick)
        if frame >= len(stack):
            return None
        return View(Moment(self.block, hit.thread, hit.tick), stack[frame], self.names)


@dataclass(frozen=True, slots=True)
class LineBreakpoint:
    """A line, 0-based, of which every execution by one thread stops, or by any thread for which a condition holds.

    ``thread`` is None for all threads; of the hits only the one of the number ``hit`` counts, 0 for each.
    """

    debuggee: Debuggee = field(repr=False)
    path: str
    line: int
    thread: int | None = None
    condition: Node | None = None
    hit: int = 0

    def hits(self, cursor: Hit, *, back: bool) -> Iterator[Hit]:
        """Yield the executions of the line for which the condition holds."""
        if self.hit:
            chosen = list(self._holding(self._sorted(self._threads())))[self.hit - 1 : self.hit]
            yield from (one for one in chosen if (one < cursor if back else one > cursor))
            return
        hits = self._sorted(self._threads())
        place = int(np.searchsorted(hits["tick"], cursor.tick, side="left"))
        if back:
            while place < len(hits) and _hit(hits[place]) < cursor:
                place += 1
            yield from self._holding(hits[:place][::-1])
        else:
            while place < len(hits) and _hit(hits[place]) <= cursor:
                place += 1
            yield from self._holding(hits[place:])

    def stop(self, hit: Hit) -> Stop:
        """Return the stop at a hit."""
        index = self.debuggee.block.thread_index(hit.thread)
        return Stop("breakpoint", "breakpoint", f"thread {index} comes to line {self.line + 1}")

    def _holding(self, rows: Table) -> Iterator[Hit]:
        for row in rows:
            hit = _hit(row)
            if self.condition is None or self._holds(hit):
                yield hit

    def _holds(self, hit: Hit) -> bool:
        view = self.debuggee.view(hit)
        if view is None or self.condition is None:
            return False
        try:
            return truth(evaluate(self.condition, view.lookup, view.moment), view.moment)
        except CExpressionError:
            # A variable without a value yet.
            return False

    def _threads(self) -> tuple[int, ...]:
        """Return the threads whose executions may count: the condition is decided as far as indices decide it."""
        block = self.debuggee.block
        threads = range(block.recording.thread_count) if self.thread is None else [self.thread]
        if self.condition is None:
            return tuple(threads)
        kept = []
        for thread in threads:
            indices, moment = self.debuggee.names.indices(thread), Moment(block, thread, 0)
            if decided(self.condition, indices.get, moment) is not False:
                kept.append(thread)
        return tuple(kept)

    def _sorted(self, threads: tuple[int, ...]) -> Table:
        return _executions(self.debuggee.timeline, threads, self.path, self.line)


@dataclass(frozen=True, slots=True)
class LogPoint:
    """A line that is reported and does not stop."""

    stopper: LineBreakpoint
    message: Template


@lru_cache(maxsize=64)
def _executions(timeline: Timeline, threads: tuple[int, ...], path: str, line: int) -> Table:
    """Return the executions of a line by some threads, in order."""
    parts = []
    for thread in threads:
        ticks = timeline.executions(thread, path, line)
        part = np.zeros(len(ticks), dtype=[("tick", "<i8"), ("thread", "<i4")])
        part["tick"], part["thread"] = ticks, thread
        parts.append(part)
    rows = np.concatenate(parts) if parts else np.zeros(0, dtype=[("tick", "<i8"), ("thread", "<i4")])
    ordered: Table = rows[np.lexsort((rows["thread"], rows["tick"]))]
    return ordered


def _hit(row: np.void) -> Hit:
    return Hit(int(row["tick"]), int(row["thread"]))


@dataclass(frozen=True, slots=True)
class MemoryBreakpoint:
    """``size`` bytes of memory, at every access that ``reads`` or ``writes`` them."""

    block: RecordedBlock = field(repr=False)
    address: int
    size: int
    reads: bool = False
    writes: bool = True

    def hits(self, cursor: Hit, *, back: bool) -> Iterator[Hit]:
        """Yield the accesses."""
        found: set[Hit] = set()
        if self.writes:
            rows = self.block.accesses.writers(self.address, self.size)
            found |= {_accessed(row) for row in rows if row["kind"] != Kind.ISSUE}
        if self.reads:
            found |= {_accessed(row) for row in self.block.accesses.readers(self.address, self.size)}
        yield from in_order(found, cursor, back=back)

    def stop(self, hit: Hit) -> Stop:
        """Return the stop at an access, with the value before it and the one that it reads or leaves."""
        block = self.block
        rows = [
            row
            for row in block.accesses.between(hit.thread, hit.tick, hit.tick)
            if int(row["address"]) < self.address + self.size and self.address < int(row["address"]) + int(row["size"])
        ]
        who = f"thread {block.thread_index(hit.thread)}"
        if not rows:
            return Stop("data breakpoint", "data breakpoint", f"{who} accesses it")
        address, size = int(rows[-1]["address"]), int(rows[-1]["size"])
        value = block.names.value(address, size, int(rows[-1]["value"]), hit.tick)
        verb = "reads" if rows[-1]["kind"] == Kind.LOAD else "writes"
        return Stop("data breakpoint", "data breakpoint", f"{who} {verb} {block.names.name(address, size)} = {value}")


def _accessed(row: np.void) -> Hit:
    return Hit(int(row["cause"]), int(row["thread"]))


@dataclass(frozen=True, slots=True)
class VariableBreakpoint:
    """A variable of a thread that is in registers, at every statement that changes its value."""

    debuggee: Debuggee = field(repr=False)
    variable: SourceVariable
    frame: StackFrame
    thread: int

    def hits(self, cursor: Hit, *, back: bool) -> Iterator[Hit]:
        """Yield the statements, by their first tick."""
        timeline, history = self.debuggee.timeline, self.debuggee.block.history
        prefix = f"{self.frame.call}:" if self.frame.call else ""
        names = {prefix + storage.name for _, _, storage in self.variable.storages if storage.space == "register"}
        spans = {
            span
            for name in names
            for tick in history.assignments(name, self.thread)
            if (span := timeline.statement(self.thread, tick)) is not None
        }
        lasts = dict(spans)
        for hit in in_order({Hit(first, self.thread) for first in lasts}, cursor, back=back):
            if self._changes(hit.tick, lasts[hit.tick]):
                yield hit

    def stop(self, hit: Hit) -> Stop:
        """Return the stop before a statement that changes the value."""
        who = f"thread {self.debuggee.block.thread_index(hit.thread)}"
        return Stop("data breakpoint", "data breakpoint", f"{who} changes {self.variable.name}")

    def _changes(self, first: int, last: int) -> bool:
        after = self._value(last + 1, last, behind=1)
        return after is not None and after != self._value(first, first, behind=0)

    def _value(self, tick: int, site: int, *, behind: int) -> bytes | None:
        """Return the value before a tick, where the variable is ``behind`` lines after an instruction."""
        frame = next((one for one in self.debuggee.frames.at(site) if one.call == self.frame.call), None)
        if frame is None:
            return None
        frame = replace(frame, line=frame.line + behind)
        moment = Moment(self.debuggee.block, self.thread, tick)
        return moment.load(self.debuggee.names.variable(moment, frame, self.variable).object)


@dataclass(frozen=True, slots=True)
class FindingBreakpoint:
    """The moment of the finding."""

    hit: Hit
    reported: Stop

    def hits(self, cursor: Hit, *, back: bool) -> Iterator[Hit]:
        """Yield the moment."""
        yield from in_order({self.hit}, cursor, back=back)

    def stop(self, hit: Hit) -> Stop:
        """Return the stop, with the text of the finding."""
        return self.reported


def in_order(hits: set[Hit], cursor: Hit, *, back: bool) -> Sequence[Hit]:
    """Return the hits after a moment, or those before it, the closest first."""
    chosen = [hit for hit in hits if (hit < cursor if back else hit > cursor)]
    return sorted(chosen, reverse=back)
