"""Where an execution stops: lines with conditions, changes of data, the finding. Each is looked up in the recording.

A *hit* is a tick and a thread. Hits are ordered by time, those of one tick by thread; going on searches the first one
after a hit, going back the last one before it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final, NamedTuple, Protocol

import numpy as np

from gpuemu_lsp.engine.debug.access_table import Kind, Table
from gpuemu_lsp.engine.debug.dwarf.model import SourceVariable
from gpuemu_lsp.engine.debug.explain import RecordedBlock
from gpuemu_lsp.engine.debugger.evaluate import decided, evaluate, truth
from gpuemu_lsp.engine.debugger.frames import Frames, StackFrame
from gpuemu_lsp.engine.debugger.names import Names
from gpuemu_lsp.engine.debugger.objects import Moment
from gpuemu_lsp.engine.debugger.syntax import CExpressionError, Node, names_in
from gpuemu_lsp.engine.debugger.templates import Template
from gpuemu_lsp.engine.debugger.timeline import Timeline
from gpuemu_lsp.engine.debugger.views import View

_DATA: Final = "data breakpoint"


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


class Stopper(Protocol):
    """Something that stops the execution, in whatever block of the launch is looked at."""

    def hits(self, debuggee: Debuggee, cursor: Hit, *, back: bool) -> Iterator[Hit]:
        """Yield the hits after a moment in order of time, or those before it, the latest first."""

    def stop(self, debuggee: Debuggee, hit: Hit) -> Stop:
        """Return the stop at a hit."""


@dataclass(frozen=True, slots=True)
class LineBreakpoint:
    """A line, 0-based, at which the thread in focus stops, or ``everywhere`` each thread for which a condition holds.

    Of the hits only the one of the number ``hit`` counts, 0 for each.
    """

    path: str
    line: int
    everywhere: bool = False
    condition: Node | None = None
    hit: int = 0

    def hits(self, debuggee: Debuggee, cursor: Hit, *, back: bool) -> Iterator[Hit]:
        """Yield the executions of the line for which the condition holds."""
        threads = self._threads(debuggee, cursor.thread)
        hits = debuggee.timeline.executions(threads, self.path, self.line)
        if self.hit:
            chosen = list(self._holding(debuggee, hits))[self.hit - 1 : self.hit]
            yield from (one for one in chosen if (one < cursor if back else one > cursor))
            return
        place = int(np.searchsorted(hits["tick"], cursor.tick, side="left"))
        if back:
            while place < len(hits) and _hit(hits[place]) < cursor:
                place += 1
            yield from self._holding(debuggee, hits[:place][::-1])
        else:
            while place < len(hits) and _hit(hits[place]) <= cursor:
                place += 1
            yield from self._holding(debuggee, hits[place:])

    def unknown_name(self, debuggee: Debuggee) -> str | None:
        """Return a name of the condition that nothing has at this line, None if there is none."""
        if self.condition is None:
            return None
        threads = tuple(range(debuggee.block.recording.thread_count))
        rows = debuggee.timeline.executions(threads, self.path, self.line)
        view = debuggee.view(_hit(rows[0])) if len(rows) else None
        if view is None:
            return None
        return next((name for name in names_in(self.condition) if view.lookup(name) is None), None)

    def is_of_other_blocks(self, debuggee: Debuggee) -> bool:
        """Return whether the condition, by indices alone, holds for no thread of the block that is looked at."""
        return self.everywhere and not self._threads(debuggee, 0)

    def stop(self, debuggee: Debuggee, hit: Hit) -> Stop:
        """Return the stop at a hit."""
        index = debuggee.block.thread_index(hit.thread)
        return Stop("breakpoint", "breakpoint", f"thread {index} comes to line {self.line + 1}")

    def _holding(self, debuggee: Debuggee, rows: Table) -> Iterator[Hit]:
        for row in rows:
            hit = _hit(row)
            if self.condition is None or self._holds(debuggee, hit):
                yield hit

    def _holds(self, debuggee: Debuggee, hit: Hit) -> bool:
        view = debuggee.view(hit)
        if view is None or self.condition is None:
            return False
        try:
            return truth(evaluate(self.condition, view.lookup, view.moment), view.moment)
        except CExpressionError:
            # A variable without a value yet.
            return False

    def _threads(self, debuggee: Debuggee, focus: int) -> tuple[int, ...]:
        """Return the threads whose executions may count: the condition is decided as far as indices decide it."""
        if not self.everywhere:
            return (focus,)
        threads = range(debuggee.block.recording.thread_count)
        return tuple(thread for thread in threads if self._may_hold(debuggee, thread))

    def _may_hold(self, debuggee: Debuggee, thread: int) -> bool:
        if self.condition is None:
            return True
        indices = debuggee.names.indices(thread)
        return decided(self.condition, indices.get, Moment(debuggee.block, thread, 0)) is not False


@dataclass(frozen=True, slots=True)
class LogPoint:
    """A line that is reported and does not stop."""

    stopper: LineBreakpoint
    message: Template


def _hit(row: np.void) -> Hit:
    return Hit(int(row["tick"]), int(row["thread"]))


@dataclass(frozen=True, slots=True)
class MemoryPlace:
    """``size`` bytes of memory of a launch, at ``offset`` bytes in the region of a kind and a name."""

    kind: str
    region: str
    offset: int
    size: int

    def address(self, block: RecordedBlock) -> int | None:
        """Return the address in a recording, None if it has no such region."""
        for picture in block.recording.memory:
            if (picture.kind, picture.name) == (self.kind, self.region):
                return picture.address + self.offset
        return None


@dataclass(frozen=True, slots=True)
class MemoryBreakpoint:
    """Bytes of memory, at every access that ``reads`` or ``writes`` them."""

    place: MemoryPlace
    reads: bool = False
    writes: bool = True

    def hits(self, debuggee: Debuggee, cursor: Hit, *, back: bool) -> Iterator[Hit]:
        """Yield the accesses."""
        accesses, address = debuggee.block.accesses, self.place.address(debuggee.block)
        hits: set[Hit] = set()
        if address is not None and self.writes:
            rows = accesses.writers(address, self.place.size)
            hits |= {_accessed(row) for row in rows if row["kind"] != Kind.ISSUE}
        if address is not None and self.reads:
            hits |= {_accessed(row) for row in accesses.readers(address, self.place.size)}
        yield from in_order(hits, cursor, back=back)

    def stop(self, debuggee: Debuggee, hit: Hit) -> Stop:
        """Return the stop at an access, with the value that it reads or leaves."""
        block, first = debuggee.block, self.place.address(debuggee.block) or 0
        who = f"thread {block.thread_index(hit.thread)}"
        for row in block.accesses.between(hit.thread, hit.tick, hit.tick)[::-1]:
            address, size = int(row["address"]), int(row["size"])
            if address < first + self.place.size and first < address + size:
                value = block.names.value(address, size, int(row["value"]), hit.tick)
                verb = "reads" if row["kind"] == Kind.LOAD else "writes"
                text = f"{who} {verb} {block.names.name(address, size)} = {value}"
                written = block.accesses.last_writer(address, size, hit.tick) if row["kind"] == Kind.LOAD else None
                if written is not None and written["kind"] == Kind.EXTERNAL:
                    text = f"{text}, {block.external_writer(address)}"
                return Stop(_DATA, _DATA, text)
        return Stop(_DATA, _DATA, f"{who} accesses it")


def _accessed(row: np.void) -> Hit:
    return Hit(int(row["cause"]), int(row["thread"]))


@dataclass(frozen=True, slots=True)
class VariableBreakpoint:
    """A variable of a thread that is in registers, at every statement that changes its value."""

    variable: SourceVariable
    frame: StackFrame
    thread: int

    def hits(self, debuggee: Debuggee, cursor: Hit, *, back: bool) -> Iterator[Hit]:
        """Yield the statements, by their first tick."""
        timeline, history = debuggee.timeline, debuggee.block.history
        prefix = f"{self.frame.call}:" if self.frame.call else ""
        names = {prefix + storage.name for _, _, storage in self.variable.storages if storage.space == "register"}
        lasts = {
            span[0]: span[1]
            for name in names
            for tick in history.assignments(name, self.thread)
            if (span := timeline.statement(self.thread, tick)) is not None
        }
        for hit in in_order({Hit(first, self.thread) for first in lasts}, cursor, back=back):
            if self._changes(debuggee, hit.tick, lasts[hit.tick]):
                yield hit

    def stop(self, debuggee: Debuggee, hit: Hit) -> Stop:
        """Return the stop before a statement that changes the value."""
        return Stop(_DATA, _DATA, f"thread {debuggee.block.thread_index(hit.thread)} changes {self.variable.name}")

    def _changes(self, debuggee: Debuggee, first: int, last: int) -> bool:
        after = self._value(debuggee, last + 1, last, behind=1)
        return after is not None and after != self._value(debuggee, first, first, behind=0)

    def _value(self, debuggee: Debuggee, tick: int, site: int, *, behind: int) -> bytes | None:
        """Return the value before a tick, where the variable is ``behind`` lines after an instruction."""
        frame = next((one for one in debuggee.frames.at(site) if one.call == self.frame.call), None)
        if frame is None:
            return None
        frame = replace(frame, line=frame.line + behind)
        moment = Moment(debuggee.block, self.thread, tick)
        return moment.load(debuggee.names.variable(moment, frame, self.variable).object)


@dataclass(frozen=True, slots=True)
class FindingBreakpoint:
    """The moment of the finding, in its block."""

    block: int
    hit: Hit
    reported: Stop

    def hits(self, debuggee: Debuggee, cursor: Hit, *, back: bool) -> Iterator[Hit]:
        """Yield the moment."""
        here = debuggee.block.recording.block == self.block and debuggee.block.history.has(self.hit.tick)
        yield from in_order({self.hit} if here else set(), cursor, back=back)

    def stop(self, debuggee: Debuggee, hit: Hit) -> Stop:
        """Return the stop, with the text of the finding."""
        return self.reported


def in_order(hits: set[Hit], cursor: Hit, *, back: bool) -> Sequence[Hit]:
    """Return the hits after a moment, or those before it, the closest first."""
    chosen = [hit for hit in hits if (hit < cursor if back else hit > cursor)]
    return sorted(chosen, reverse=back)
