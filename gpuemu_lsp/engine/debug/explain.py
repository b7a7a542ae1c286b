"""Chains of statements from a slice: one step for each line of the source, with names and values."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from gpuemu_lsp.engine.debug.access_table import Kind
from gpuemu_lsp.engine.debug.accesses import Accesses
from gpuemu_lsp.engine.debug.copies import is_async_copy, unfollowed_writers
from gpuemu_lsp.engine.debug.dependences import Element, RuntimeDependences, distinct
from gpuemu_lsp.engine.debug.dwarf.entries import scopes_of
from gpuemu_lsp.engine.debug.dwarf.model import all_scopes
from gpuemu_lsp.engine.debug.dwarf.sections import assembled
from gpuemu_lsp.engine.debug.explanation import Chain, ShownAccess, ShownValue, Step
from gpuemu_lsp.engine.debug.history import History
from gpuemu_lsp.engine.debug.memory_names import LaunchArguments, MemoryNames, number_of
from gpuemu_lsp.engine.debug.slices import Criterion, SlicedStatement, slice_of
from gpuemu_lsp.engine.debug.source_lines import SourceLines
from gpuemu_lsp.engine.debug.statements import Statement, Statements
from gpuemu_lsp.engine.debug.variables import Variables, mentioned
from gpuemu_lsp.engine.emulator.launch.recorder import BlockRecording
from gpuemu_lsp.engine.execution import Outcome
from gpuemu_lsp.engine.findings import Json, Place

MOST_STEPS: Final = 16
_CLOSEST: Final = 8
"""Lines that are shown whatever function they are in."""
_MOST_EARLIER: Final = 5
_INDEXED: Final = re.compile(r"\b([A-Za-z_]\w*)\s*\[")
_MOST_ACCESSES: Final = 6
_OUTSIDE: Final = "out of bounds"
_UNWRITTEN: Final = "never written"
_BEFORE: Final = "from before the recorded part"


@dataclass(frozen=True, slots=True)
class ChainQuestion:
    """What a chain is about: the statements on which ``criteria`` depend. To find them may take seconds.

    ``declared`` is a declaration that belongs to the answer.
    """

    block: RecordedBlock
    text: str
    criteria: tuple[Criterion, ...]
    notes: tuple[str, ...] = ()
    declared: Step | None = None

    def answer(self) -> Chain:
        """Return the statements, at most :data:`MOST_STEPS` lines."""
        return self.block.chain(self)

    def place(self) -> Place | None:
        """Return the place of the statement with the first criterion."""
        first = self.criteria[0]
        statement = self.block.statements.at(first.thread, first.tick)
        return None if statement is None else statement.place


class RecordedBlock:
    """A recording with everything that answers questions about it.

    Parameters
    ----------
    recording : BlockRecording
        What the block did.
    code, debug : str
        The PTX and its debug sections, "" if it has none.
    source : SourceLines
        The source.
    arguments : LaunchArguments
        The arguments of the launch.
    outcome : Outcome
        The outcome of the recorded launch.
    """

    def __init__(
        self,
        recording: BlockRecording,
        code: str,
        debug: str,
        source: SourceLines,
        arguments: LaunchArguments,
        outcome: Outcome,
    ) -> None:
        self.recording, self.source, self.outcome = recording, source, outcome
        self.code, self.formats, self.scalars = code, arguments.formats, arguments.scalars
        self.history = History(recording)
        self.accesses = Accesses(self.history)
        self.statements = Statements(self.history, source.place_of)
        self.dependences = RuntimeDependences(self.history, self.accesses)
        scopes = scopes_of(assembled(code, debug)) if debug else ()
        self.names = MemoryNames(self.history, self.accesses, self.formats, scopes)
        self.variables = Variables(self.history, self.accesses, scopes, self.names)
        self.scopes = scopes
        self.named = bool(scopes)

    @property
    def begins_late(self) -> bool:
        """Whether the block did something before the part that is recorded."""
        return self.recording.window.skipped > 0

    @property
    def ends_early(self) -> bool:
        """Whether the block did something behind the part that is recorded."""
        return self.recording.window.lost > 0

    def thread_index(self, thread: int) -> tuple[int, int, int]:
        """Return the index of a thread in the block from its linear number."""
        x, y, _ = self.recording.threads
        return thread % x, thread // x % y, thread // (x * y)

    def linear_thread(self, index: Sequence[int]) -> int:
        """Return the linear number of a thread from its index in the block."""
        x, y, _ = self.recording.threads
        return int(index[0] + x * (index[1] + y * index[2]))

    # ---- places ------------------------------------------------------------------------------------------------------

    def buffer_address(self, name: str) -> int | None:
        """Return the address of a buffer, None if the launch has none of this name."""
        return next((one.address for one in self.recording.memory if (one.kind, one.name) == ("buffer", name)), None)

    def runs_thread(self, thread: int) -> bool:
        """Return whether the block has a thread."""
        return 0 <= thread < self.recording.thread_count

    def wrong_access(self, thread: int, place: Place, *, uninitialised: bool) -> np.void | None:
        """Return the first access of a thread at a line that is not allowed, or of bytes without a value; or the last.

        None if the thread has no access there.
        """
        latest = None
        for access in self._at_line(thread, place):
            latest = access
            address, size, tick = int(access["address"]), int(access["size"]), int(access["tick"])
            picture = self.accesses.picture(address)
            if picture is None or access["refused"] or address % size:
                return access
            if (
                uninitialised
                and access["kind"] != Kind.STORE
                and not self.accesses.memory(address, size, tick)[1].all()
            ):
                return access
        return latest

    def accessing(self, executions: Sequence[Statement], memory: tuple[str, int, int]) -> int | None:
        """Return the tick at which one of a thread's executions of a line accesses some bytes, None if none does."""
        name, offset, size = memory
        starts = [
            one.address for one in self.recording.memory if name in (one.name, "shared memory") or one.kind == "shared"
        ]
        for statement in executions:
            for access in self.accesses.between(statement.thread, statement.first, statement.last):
                first = int(access["address"])
                if any(
                    start + offset < first + int(access["size"]) and first < start + offset + size for start in starts
                ):
                    return int(access["tick"])
        return None

    def _at_line(self, thread: int, place: Place) -> Iterator[np.void]:
        for statement in self.statements.executions(thread, place.path, place.range.start.line):
            yield from self.accesses.between(thread, statement.first, statement.last)

    # ---- what did not happen -----------------------------------------------------------------------------------------

    def thread_that_would_write(self, store: Criterion, wanted: int) -> int | None:
        """Return the thread whose store would hit an address, by the stride of the store over the threads.

        It may be behind the last thread of the block; None if the store has no stride, or none that leads there.
        """
        run = self.history.run_at(store.tick)
        site = self.history.block[run], store.tick - int(self.history.start[run])
        writes = self.accesses.writes[self.accesses.writes["kind"] != Kind.EXTERNAL]
        runs = np.searchsorted(self.history.start, writes["tick"], side="right") - 1
        there = (self.history.block[runs] == site[0]) & (writes["tick"] - self.history.start[runs] == site[1])
        places = {int(one["thread"]): int(one["address"]) for one in writes[there]}
        following = places.get(store.thread + 1, places.get(store.thread - 1))
        if following is None:
            return None
        sign = 1 if store.thread + 1 in places else -1
        stride = (following - places[store.thread]) * sign
        distance = wanted - places[store.thread]
        return store.thread + distance // stride if stride and distance % stride == 0 else None

    def decisions_against(self, thread: int, tick: int) -> list[Criterion]:
        """Return the comparisons for which a thread did not execute the instruction that another executed at a tick."""
        return [Criterion(thread, one.tick) for one in self.dependences.decisions(thread, tick)]

    def unread(self) -> tuple[str, ...]:
        """Return remarks about elements of shared memory that no thread read after they were last written."""
        if self.ends_early:
            return ()
        shared = self.recording.shared
        writes = self.accesses.writes
        size = next((len(one.data) for one in self.recording.memory if one.address == shared), 0)
        there = writes[(writes["address"] >= shared) & (writes["address"] < shared + size)]
        unread = []
        for address in np.unique(there["address"]).tolist():
            last = there[there["address"] == address][-1]
            if not len(self.accesses.readers(address, int(last["size"]), int(last["tick"]))):
                unread.append(last)
        if not 0 < len(unread) <= len(np.unique(there["address"])) // 2:
            return ()
        first = min(unread, key=lambda one: -int(one["tick"]))
        name = self.names.name(int(first["address"]), int(first["size"]))
        statement = self.statements.at(int(first["thread"]), int(first["tick"]))
        where = f" at line {statement.line + 1}" if statement is not None else ""
        who = _index(self.thread_index(int(first["thread"])))
        others = f", nor {len(unread) - 1} others" if len(unread) > 1 else ""
        return (f"no thread reads {name}, which thread {who} wrote{where}{others}",)

    def pending_copy(self, access: np.void) -> Criterion | None:
        """Return the asynchronous copy whose target an access reads before it has been waited for."""
        latest = self.accesses.last_writer(int(access["address"]), int(access["size"]), int(access["tick"]))
        if latest is None or latest["kind"] != Kind.ISSUE:
            return None
        return Criterion(int(latest["thread"]), int(latest["tick"]))

    def last_wait(self, thread: int, tick: int) -> Criterion | None:
        """Return the last wait for asynchronous copies by a thread before a tick."""
        waits = {
            number: place
            for number, block in enumerate(self.history.program.blocks)
            for place, one in enumerate(block.code)
            if one.opcode == "cp" and one.modifiers[1:2] in (("wait_group",), ("wait_all",))
        }
        run = self.history.latest_run(thread, waits, self.history.run_at(tick))
        if run is None:
            return None
        return Criterion(thread, int(self.history.start[run]) + waits[int(self.history.block[run])])

    # ---- chains ------------------------------------------------------------------------------------------------------

    def chain(self, asked: ChainQuestion) -> Chain:
        """Return the statements on which the criteria of a question depend."""
        groups: dict[tuple[str, int], list[SlicedStatement]] = {}
        for one in slice_of(asked.criteria, self.statements, self.dependences):
            groups.setdefault((one.statement.place.path, one.statement.line), []).append(one)
        steps = [self._step(group) for group in _chosen(list(groups.values()))]
        left = len(groups) - len(steps)
        more = (f"{left} further lines are not shown",) if left > 0 else ()
        declared = asked.declared
        last = () if declared is None or any(one.place == declared.place for one in steps) else (declared,)
        return Chain(asked.text, (*steps, *last), (*asked.notes, *more))

    def declaration(self, access: np.void) -> Step | None:
        """Return the declaration of the array that an access is meant for, None if it is not in the file.

        The array is the one in shared or local memory that the access is in or next to; where local memory has no
        names, the one that its line indexes.
        """
        thread, tick = int(access["thread"]), int(access["tick"])
        statement = self.statements.at(thread, tick)
        name = self.names.name(int(access["address"]), int(access["size"]))
        if statement is None:
            return None
        indexed = _INDEXED.findall(self.source.line(statement.place))
        for array in dict.fromkeys([*_INDEXED.findall(name), *(indexed if name.startswith("local memory") else [])]):
            place = self.source.declaration(array, statement.place)
            if place is not None:
                text = self.source.line(place)
                return Step(place, text, "declaration", self.thread_index(thread), tick)
        return None

    def _step(self, group: list[SlicedStatement]) -> Step:
        closest = group[0]
        statement = closest.statement
        executions = {(one.statement.thread, one.statement.first): one.statement for one in group}
        elements = [element for one in group if _same(one.statement, statement) for element in one.elements]
        own = sorted(
            (one for one in executions.values() if one.thread == statement.thread and one.first < statement.first),
            key=lambda one: one.first,
        )
        return Step(
            place=statement.place,
            text=self.source.line(statement.place),
            reason=closest.reason.name.lower(),
            thread=self.thread_index(statement.thread),
            tick=statement.first,
            times=len(executions),
            threads=len({one.thread for one in executions.values()}),
            values=tuple(self._values(statement, own)),
            accesses=tuple(self._accesses(elements, statement))[:_MOST_ACCESSES],
        )

    # ---- values ------------------------------------------------------------------------------------------------------

    def _values(self, statement: Statement, earlier: Sequence[Statement]) -> list[ShownValue]:
        now = self.values_of(statement)
        before = [self.values_of(one) for one in earlier[-_MOST_EARLIER:]]
        shown = []
        for name, value in now.items():
            series = tuple(values[name] for values in before if name in values)
            shown.append(ShownValue(name, value, series if len({*map(str, series), str(value)}) > 1 else ()))
        return shown

    def values_of(self, statement: Statement) -> dict[str, Json]:
        """Return the variables that a statement's line mentions, and their values: after it, or else before it."""
        first = self.statements.line_in_call(statement.first, statement.call)
        last = self.statements.line_in_call(statement.last, statement.call)
        if first is None or last is None:
            return {}
        words = mentioned(self.source.line(statement.place))
        found: dict[str, Json] = {}
        if not self.named:
            mentioned_scalars = {name: value for name, value in self.scalars.items() if name in words}
            found |= {name: number_of(value) for name, value in mentioned_scalars.items()}
        for line, tick in ((first, statement.first), (last + 1, statement.last + 1)):
            for variable in self.variables.visible(line):
                if variable.name in words:
                    value = self.variables.value(variable, statement.call, line, statement.thread, tick)
                    # A pointer to the first element of its own array says nothing.
                    if value is not None and value != f"&{variable.name}[0]":
                        found[variable.name] = value
        return found

    def _accesses(self, elements: Sequence[Element], statement: Statement) -> Iterator[ShownAccess]:
        """Yield the accesses of a statement, without those of memory that only the compiler has names for."""
        for element in distinct(elements):
            access = self._access(element, statement)
            if not (self.named and access.name.startswith("local memory")):
                yield access

    def _access(self, element: Element, statement: Statement) -> ShownAccess:
        name = self.names.name(element.address, element.size)
        value = self.names.value(element.address, element.size, element.bits, element.tick)
        if element.is_write:
            return ShownAccess(name, value, "write")
        access = "update" if element.is_update else "read"
        origin = self.origin(element, statement.thread)
        return ShownAccess(name, None if origin in (_OUTSIDE, _UNWRITTEN) else value, access, origin)

    def external_writer(self, address: int) -> str:
        """Return in words what may have written memory that no thread of the block has written."""
        picture = self.accesses.picture(address)
        shared = picture is not None and picture.kind == "shared"
        units = unfollowed_writers(self.recording.program)
        others = [] if shared and units else ["another block"]
        return f"written by {' or '.join([*others, *units])}"

    def _is_argument(self, element: Element) -> bool:
        """Return whether an element is of a parameter, which code without a line copies to a function's memory."""
        name = re.split(r"[.\[]", self.names.name(element.address, element.size), maxsplit=1)[0]
        variables = (variable for scope in all_scopes(self.scopes) for variable in scope.variables)
        return any(variable.is_parameter and variable.name == name for variable in variables)

    def origin(self, element: Element, reader: int) -> str:
        """Return in words who wrote the value of an element that a thread reads."""
        if element.is_external:
            return self.external_writer(element.address)
        if element.writer is None:
            picture = self.accesses.picture(element.address)
            if picture is None:
                return _OUTSIDE
            first = element.address - picture.address
            if not picture.initialised[first : first + element.size].all():
                return _UNWRITTEN
            if self.begins_late:
                return _BEFORE
            return "an input" if picture.kind == "buffer" else "from before the block"
        thread, tick = element.writer
        statement = self.statements.at(thread, tick)
        if statement is None and self._is_argument(element):
            return "an argument"
        where = f"line {statement.line + 1}" if statement is not None else "code of no line"
        who = "" if thread == reader else f", thread {_index(self.thread_index(thread))}"
        instruction = self.history.instruction(tick)
        copied = instruction is not None and is_async_copy(instruction)
        if copied and not self.accesses.memory(element.address, element.size, element.tick)[1].all():
            return f"to be copied by {where}{who}, which was not waited for"
        return f"written at {where}{who}"


def _index(index: tuple[int, int, int]) -> str:
    return f"({', '.join(map(str, index))})"


def _chosen(groups: list[list[SlicedStatement]]) -> list[list[SlicedStatement]]:
    """Return the lines to show: the closest, then those of the kernel itself before those of functions it calls."""
    if len(groups) <= MOST_STEPS:
        return groups
    closest, others = groups[:_CLOSEST], groups[_CLOSEST:]
    preferred = sorted(others, key=lambda group: group[0].statement.call > 0)[: MOST_STEPS - _CLOSEST]
    return [*closest, *(group for group in others if any(group is one for one in preferred))]


def _same(one: Statement, other: Statement) -> bool:
    return (one.thread, one.first) == (other.thread, other.first)
