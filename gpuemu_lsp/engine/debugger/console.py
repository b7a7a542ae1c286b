"""Commands of the debug console: who wrote an element, where a value is from, other threads."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import numpy as np

from gpuemu_lsp.engine.debug.access_table import Kind, Table
from gpuemu_lsp.engine.debug.explain import ChainQuestion
from gpuemu_lsp.engine.debug.explanation import Chain
from gpuemu_lsp.engine.debug.slices import Criterion
from gpuemu_lsp.engine.debugger.breakpoints import Hit, MemoryPlace, Stop, Stopper
from gpuemu_lsp.engine.debugger.evaluate import evaluate
from gpuemu_lsp.engine.debugger.objects import Moment, Object, shown
from gpuemu_lsp.engine.debugger.protocol import DebugRequestError, linear
from gpuemu_lsp.engine.debugger.session import DebugSession
from gpuemu_lsp.engine.debugger.syntax import CExpressionError, parse
from gpuemu_lsp.engine.debugger.templates import value_text
from gpuemu_lsp.engine.debugger.views import View
from gpuemu_lsp.engine.debugger.watches import Data, watch, watchable
from gpuemu_lsp.engine.findings import Json

_MOST_ROWS: Final = 12
COMMANDS: Final = ("who", "readers", "origin", "watch", "lanes", "thread", "block", "why", "help")
_COMMAND: Final = re.compile(rf"({'|'.join(COMMANDS)})\b\s*(.*)", re.DOTALL)
HELP: Final = """\
who X       which statements wrote X, the latest first
readers X   which statements read X after now
origin X    where the value of X is from, statement by statement
watch X     stop where X is written, forwards and backwards
lanes X     X in all lanes of the warp
thread N    look at thread N, or (X, Y, Z), of the block
block N     look at block N, or (X, Y, Z), of the grid
why         why the case fails
Anything else is an expression of C: parts[t] + 1, threadIdx.x, half == 1 && t < n."""


@dataclass(frozen=True, slots=True)
class Said:
    """The answer of a command, and a stop if it has moved the session."""

    text: str
    stop: Stop | None = None


@dataclass(frozen=True, slots=True)
class Console:
    """A command's surroundings: ``add`` adds a breakpoint and returns its number."""

    session: DebugSession
    view: View
    add: Callable[[Stopper], int]

    def answer(self, text: str) -> Said | None:
        """Answer a command, None if the text is not one.

        Raises
        ------
        DebugRequestError, CExpressionError
            If its operand has no answer.
        """
        match = _COMMAND.fullmatch(text.strip())
        if match is None or (match[2] and not match[2][0].isalnum() and match[2][0] not in "_(*&%"):
            return None
        # A variable may have the name of a command.
        if not match[2] and self.view.lookup(match[1]) is not None:
            return None
        handlers: dict[str, Callable[[str], Said]] = {
            "who": self._who,
            "readers": self._readers,
            "origin": self._origin,
            "watch": self._watch,
            "lanes": self._lanes,
            "thread": self._thread,
            "block": self._block,
            "why": lambda _: self._why(),
            "help": lambda _: Said(HELP),
        }
        if not match[2] and match[1] not in ("why", "help"):
            raise DebugRequestError(f"'{match[1]}' is followed by what it is about, e.g. '{_EXAMPLES[match[1]]}'")
        return handlers[match[1]](match[2].strip())

    def _why(self) -> Said:
        subject = self.session.subject
        chains = [chain_text(asked.answer()) for asked in subject.questions()]
        texts = [subject.text, *chains, *subject.notes]
        return Said("\n".join(texts) if subject.rule else "nothing is wrong in this run")

    # ---- accesses ----------------------------------------------------------------------------------------------------

    def _who(self, expression: str) -> Said:
        data = watchable(self.view, expression)
        if data.place is None:
            return Said(self._assignments(data))
        now = self.view.moment.tick
        rows = self.session.block.accesses.writers(self._address(data.place), data.place.size)
        earlier = rows[rows["tick"] < now][::-1]
        block = "the recorded part of the block" if self.session.block.begins_late else "this block"
        head = [f"no statement of {block} has written {data.description} yet"] if not len(earlier) else []
        later = len(rows) - len(earlier)
        tail = [f"written {later} times after now"] if later else []
        return Said("\n".join([*head, *self._rows(earlier), *tail]))

    def _readers(self, expression: str) -> Said:
        data = watchable(self.view, expression)
        if data.place is None:
            raise CExpressionError(f"{expression} is in a register: only reads of memory are recorded")
        now = self.view.moment.tick
        rows = self.session.block.accesses.readers(self._address(data.place), data.place.size)
        later, earlier = rows[rows["tick"] >= now], rows[rows["tick"] < now]
        recorded = self.session.block
        where = " in the recorded part" if recorded.begins_late or recorded.ends_early else ""
        if not len(rows):
            return Said(f"no thread of this block reads {data.description}{where}")
        if not len(later):
            last = "\n".join(self._rows(earlier[::-1][:1]))
            return Said(f"no thread reads {data.description} after now{where}; the last one was\n{last}")
        return Said("\n".join(self._rows(later)))

    def _rows(self, rows: Table) -> list[str]:
        shown_rows = [self._row(row) for row in rows[:_MOST_ROWS]]
        return [*shown_rows, f"... and {len(rows) - _MOST_ROWS} more"] if len(rows) > _MOST_ROWS else shown_rows

    def _row(self, row: np.void) -> str:
        block, thread, cause = self.session.block, int(row["thread"]), int(row["cause"])
        name = block.names.name(int(row["address"]), int(row["size"]))
        value = block.names.value(int(row["address"]), int(row["size"]), int(row["value"]), cause)
        if row["kind"] == Kind.EXTERNAL:
            writer = block.external_writer(int(row["address"]))
            return f"{name} = {value}: {writer}, before {self._where(thread, cause)}"
        verb = "read" if row["kind"] == Kind.LOAD else "copied later" if row["kind"] == Kind.ISSUE else "="
        return f"{name} {verb} {value}: {self._where(thread, cause)}"

    def _where(self, thread: int, tick: int) -> str:
        block = self.session.block
        statement = block.statements.at(thread, tick)
        who = f"thread {block.thread_index(thread)}, time {tick}"
        return who if statement is None else f"line {statement.line + 1}, {who}: {block.source.line(statement.place)}"

    def _assignments(self, data: Data) -> str:
        hits = self._changes(data)[:_MOST_ROWS]
        rows = [self._where(hit.thread, hit.tick) for hit in hits]
        return "\n".join(rows) or f"{data.description} has not changed before now"

    def _changes(self, data: Data) -> list[Hit]:
        """Return where some data was written or changed before now, the latest first."""
        return list(watch(data, "write").hits(self.session.debuggee, self.session.cursor, back=True))

    def _address(self, place: MemoryPlace) -> int:
        address = place.address(self.session.block)
        assert address is not None  # it was looked up in this block
        return address

    # ---- origins -----------------------------------------------------------------------------------------------------

    def _origin(self, expression: str) -> Said:
        data, session = watchable(self.view, expression), self.session
        if data.place is not None:
            address, now = self._address(data.place), self.view.moment.tick
            latest = session.block.accesses.last_writer(address, data.place.size, now)
            if latest is None:
                return Said(f"no statement of this block has written {data.description} yet")
            if latest["kind"] == Kind.EXTERNAL:
                return Said(self._row(latest))
            criterion = Criterion(int(latest["thread"]), int(latest["cause"]))
        else:
            hit = next(iter(self._changes(data)), None)
            if hit is None:
                return Said(f"{data.description} has not changed before now")
            span = session.debuggee.timeline.statement(hit.thread, hit.tick)
            criterion = Criterion(hit.thread, hit.tick if span is None else span[1])
        value = value_text(evaluate(parse(expression), self.view.lookup, self.view.moment), self.view.moment)
        asked = ChainQuestion(session.block, f"{data.description} = {value}; it comes from", (criterion,))
        return Said(chain_text(asked.answer()))

    # ---- threads -----------------------------------------------------------------------------------------------------

    def _watch(self, expression: str) -> Said:
        data = watchable(self.view, expression)
        identity = self.add(watch(data, "write"))
        return Said(f"breakpoint {identity}: {data.description}; continue or reverse to where it is written")

    def _lanes(self, expression: str) -> Said:
        node, view = parse(expression), self.view

        def value(moment: Moment) -> str:
            there = View(moment, view.frame, view.names)
            try:
                found = evaluate(node, there.lookup, moment)
            except CExpressionError as error:
                return f"<{error}>"
            return shown(moment, found) if isinstance(found, Object) else value_text(found, moment)

        return Said(f"{expression} = {view.folded_lanes(value)}")

    def _thread(self, text: str) -> Said:
        session = self.session
        session.focus(linear(_index(text), session.block.recording.threads, "thread"))
        return Said(f"thread {session.block.thread_index(session.thread)}", Stop("goto", "another thread"))

    def _block(self, text: str) -> Said:
        session = self.session
        if not session.enter_block(linear(_index(text), session.block.recording.grid, "block")):
            raise DebugRequestError(f"the launch does not come to block {text}")
        return Said(f"block {session.block.recording.block_index}", Stop("goto", "another block"))


_EXAMPLES: Final = {
    "who": "who y[1]",
    "readers": "readers parts[2]",
    "origin": "origin sum",
    "watch": "watch parts[0]",
    "lanes": "lanes t",
    "thread": "thread 5",
    "block": "block 2",
}


def chain_text(chain: Chain) -> str:
    """Return a chain of statements as text, a statement a line."""
    rows = [chain.question]
    for step in chain.steps:
        values = ", ".join(f"{one.name} = {one.value}" for one in step.values)
        rows.append(f"  {step.place.range.start.line + 1:4} | {step.text}")
        rows.append(f"       | thread {step.thread}, time {step.tick}{', ' if values else ''}{values}")
        for one in step.accesses:
            value = "" if one.value is None else f" = {one.value}"
            rows.append(f"       | {one.access}s {one.name}{value}, {one.origin}".rstrip(", "))
    return "\n".join([*rows, *chain.notes])


def _index(text: str) -> Json:
    numbers = re.findall(r"-?\d+", text)
    if not re.fullmatch(r"\(?\s*-?\d+(?:[\s,]+-?\d+)*\s*\)?", text):
        return text
    return [int(one) for one in numbers] if len(numbers) > 1 else int(numbers[0])
