"""What is asked of a recording, by the rule of a finding: where a value, an index or a decision comes from."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from gpuemu_lsp.engine.check.plan_run import PlanRun
from gpuemu_lsp.engine.debug.explain import ChainQuestion, RecordedBlock
from gpuemu_lsp.engine.debug.slices import Criterion
from gpuemu_lsp.engine.debug.statements import Statement
from gpuemu_lsp.engine.execution import Watch
from gpuemu_lsp.engine.findings import Finding, Json, Place, Role
from gpuemu_lsp.engine.fuzz.model import Case

RecordBlock: TypeAlias = Callable[[int], RecordedBlock | None]
"""Records a block of the launch by its linear number; None if the launch does not come to it."""
Answer: TypeAlias = tuple[tuple[ChainQuestion, ...], tuple[str, ...]]
"""What the chains of statements are about, and remarks about the whole."""

_NEIGHBOURS = 64
"""Elements on each side of an unwritten one in which a written one is looked for."""


@dataclass(frozen=True, slots=True)
class Question:
    """A finding that a run shows for a case."""

    finding: Finding
    case: Case
    run: PlanRun

    def index(self, key: str) -> tuple[int, int, int] | None:
        """Return an index of a thread or block from the finding's data."""
        return _index(self.finding.data.get(key))

    def block(self, key: str = "block") -> int:
        """Return the linear number of a block, or of a program of Triton, of the finding's data; 0 if it names none."""
        x, y, z = self.index(key) or self.index("program") or (0, 0, 0)
        grid = self.case.grid
        return x + grid[0] * (y + grid[1] * z)


def ask(question: Question, record: RecordBlock) -> Answer:
    """Return what answers a finding; the chains are found when they are asked for."""
    rule = question.finding.rule
    if rule == "numeric/unwritten-output":
        return _unwritten(question, record)
    if rule.startswith("numeric/"):
        return _wrong_value(question, record)
    if rule.endswith("-race"):
        return _race(question, record)
    if rule.startswith("memory/"):
        return _access(question, record)
    return _waiting(question, record)


# ---- values ----------------------------------------------------------------------------------------------------------


def _wrong_value(question: Question, record: RecordBlock) -> Answer:
    """Return where the value of the wrong element comes from."""
    block = record(question.block())
    snapshot = question.run.snapshots.get(question.finding.rule)
    if block is None or snapshot is None:
        return (), ()
    mismatch = snapshot.mismatch
    address = block.buffer_address(mismatch.param)
    if address is None:
        return (), (f"{mismatch.param} is not in the memory of the launch",)
    writes = block.accesses.own_writers(address + mismatch.offset, mismatch.size)
    if not len(writes):
        return (), (f"what was recorded of the block does not write {mismatch.param}",)
    latest = writes[-1]
    name = block.names.name(int(latest["address"]), int(latest["size"]))
    question_text = f"{name} = {_text(mismatch.actual)}, expected {_text(mismatch.expected)}; it comes from"
    criterion = Criterion(int(latest["thread"]), int(latest["tick"]))
    return (ChainQuestion(block, question_text, (criterion,), block.unread()),), ()


def _unwritten(question: Question, record: RecordBlock) -> Answer:
    """Return who writes the neighbours of an element that is not written, and why no thread writes it."""
    snapshot = question.run.snapshots.get(question.finding.rule)
    if snapshot is None:
        return (), ()
    mismatch = snapshot.mismatch
    for offset in _near(mismatch.offset, mismatch.size):
        watched = question.run.runner.run(question.case, Watch(mismatch.param, offset, mismatch.size)).watched
        if watched is None:
            continue
        x, y, z = watched.block
        block = record(x + question.case.grid[0] * (y + question.case.grid[1] * z))
        address = block.buffer_address(mismatch.param) if block is not None else None
        if block is None or address is None:
            return (), ()
        return _next_to(block, address + mismatch.offset, address + offset, mismatch.size)
    block = record(0)
    name = mismatch.param if block is None else _name(block, mismatch.param, mismatch.offset, mismatch.size)
    note = f"no thread writes {name}, nor one of the {_NEIGHBOURS} elements on each side of it"
    return () if block is None else _decisions(block, f"nothing writes {name}; the last decision of thread 0"), (note,)


def _next_to(block: RecordedBlock, wanted: int, neighbour: int, size: int) -> Answer:
    """Explain an element that is not written by the store that writes one near it."""
    writes = block.accesses.own_writers(neighbour, size)
    if not len(writes):
        return (), ()
    latest = Criterion(int(writes[-1]["thread"]), int(writes[-1]["tick"]))
    name, other = block.names.name(wanted, size), block.names.name(neighbour, size)
    chains: list[ChainQuestion] = []
    notes: list[str] = []
    thread = block.thread_that_would_write(latest, wanted)
    if thread is not None and block.runs_thread(thread):
        decisions = block.decisions_against(thread, latest.tick)
        index = block.thread_index(thread)
        if decisions:
            chains.append(
                ChainQuestion(
                    block, f"thread {index} would write {name}, and does not, as decided here", tuple(decisions)
                )
            )
        else:
            notes.append(f"thread {index} would write {name}, and does not")
    elif thread is not None:
        notes.append(
            f"{name} would be written by thread {thread} of this block, which has {block.recording.thread_count}"
        )
    chains.append(ChainQuestion(block, f"no thread writes {name}; {other}, which is near, is written here", (latest,)))
    return tuple(chains), tuple(notes)


def _near(offset: int, size: int) -> Iterator[int]:
    for distance in range(1, _NEIGHBOURS + 1):
        yield from (place for place in (offset - distance * size, offset + distance * size) if place >= 0)


# ---- accesses --------------------------------------------------------------------------------------------------------


def _access(question: Question, record: RecordBlock) -> Answer:
    """Return where the index of a wrong access comes from, and what else is known of the element."""
    index, block, finding = question.index("thread"), record(question.block()), question.finding
    if block is None:
        return (), ()
    uninitialised = finding.rule == "memory/uninitialized-read"
    # A program of Triton names no thread.
    threads = range(block.recording.thread_count) if index is None else [block.linear_thread(index)]
    found = (block.wrong_access(thread, finding.place, uninitialised=uninitialised) for thread in threads)
    access = next((one for one in found if one is not None), None)
    if access is None:
        return _statement(block, threads[0], finding.place)
    thread = int(access["thread"])
    index = block.thread_index(thread)
    name = block.names.name(int(access["address"]), int(access["size"]))
    criterion, declared = Criterion(thread, int(access["tick"])), block.declaration(access)
    if not uninitialised:
        return (ChainQuestion(block, f"thread {index} accesses {name}", (criterion,), declared=declared),), ()
    chain = ChainQuestion(block, f"thread {index} reads {name}, which has no value", (criterion,), declared=declared)
    copy = block.pending_copy(access)
    if copy is not None:
        return (chain, _last_wait(block, copy, criterion)), ()
    address, size = int(access["address"]), int(access["size"])
    for place in _near(address, size):
        if block.names.array(place, size) == block.names.array(address, size) and len(
            block.accesses.own_writers(place, size)
        ):
            chains, notes = _next_to(block, address, place, size)
            return (chain, *chains), notes
    recorded = "the recorded part of the block" if block.begins_late else "the block"
    return (chain,), (f"no thread of {recorded} writes an element near {name}",)


def _last_wait(block: RecordedBlock, copy: Criterion, read: Criterion) -> ChainQuestion:
    """Return the last wait for copies by the thread that has issued one, before another thread reads its target."""
    index = block.thread_index(copy.thread)
    wait = block.last_wait(copy.thread, read.tick)
    if wait is None:
        return ChainQuestion(block, f"thread {index} issues the copy here, and waits for none before the read", (copy,))
    return ChainQuestion(block, f"thread {index} waits last here, which does not cover the copy", (wait, copy))


def _race(question: Question, record: RecordBlock) -> Answer:
    """Return what each of the two threads of a race did before its access."""
    finding = question.finding
    chains: list[ChainQuestion] = []
    other_place = next((one.place for one in finding.related if one.role is Role.OTHER_ACCESS), finding.place)
    for thread_key, block_key, place in (
        ("other_thread", "other_block", other_place),
        ("thread", "block", finding.place),
    ):
        index = question.index(thread_key) or question.index("thread")
        block = record(question.block(block_key if question.index(block_key) is not None else "block"))
        if block is None or index is None:
            continue
        thread = block.linear_thread(index)
        text = f"thread {index} of block {block.recording.block_index}"
        found = _statement(block, thread, place, text, _offset(finding))
        chains += found[0]
    blocks = {tuple(question.index(key) or ()) for key in ("block", "other_block")} - {()}
    note = "the blocks of a grid are executed in any order" if len(blocks) > 1 else "no barrier orders the two accesses"
    return tuple(chains), (note,)


def _offset(finding: Finding) -> tuple[str, int, int] | None:
    """Return the buffer, offset and size of a finding's bytes."""
    buffer, offset, size = (finding.data.get(key) for key in ("buffer", "offset", "size"))
    if isinstance(buffer, str) and isinstance(offset, int) and isinstance(size, int):
        return buffer, offset, size
    return None


def _statement(
    block: RecordedBlock,
    thread: int,
    place: Place,
    who: str = "",
    memory: tuple[str, int, int] | None = None,
) -> Answer:
    """Return the chain of a thread's execution of a line: of the one that accesses some bytes, else the last."""
    who = who or f"thread {block.thread_index(thread)}"
    executions = block.statements.executions(thread, place.path, place.range.start.line)
    if not executions and block.begins_late:
        return (), ()
    if not executions:
        return _decisions(block, f"{who} does not come to line {place.range.start.line + 1}", thread), ()
    chosen = block.accessing(executions, memory) if memory is not None else None
    tick = executions[-1].last if chosen is None else chosen
    return (ChainQuestion(block, f"{who} at line {place.range.start.line + 1}", (Criterion(thread, tick),)),), ()


# ---- synchronisation -------------------------------------------------------------------------------------------------


def _waiting(question: Question, record: RecordBlock) -> Answer:
    """Return how a thread comes to where it waits, and where one that it waits for is instead."""
    index, block = question.index("thread"), record(question.block())
    if block is None:
        return (), ()
    thread, place = block.linear_thread(index or (0, 0, 0)), question.finding.place
    chains = list(_statement(block, thread, place)[0])
    absent = _absent(block, thread, place)
    if absent is not None:
        other, last = absent
        text = f"thread {block.thread_index(other)}, which is not there, is last at line {last.line + 1}"
        chains += _decisions(block, text, other)
    return tuple(chains), ()


def _absent(block: RecordedBlock, thread: int, place: Place) -> tuple[int, Statement] | None:
    """Return a thread that is not where ``thread`` waits, with its last statement: one that came there least often."""
    line, fewest, found = place.range.start.line, 0, None
    for other in range(block.recording.thread_count):
        last = block.statements.last(other, 1)
        if other == thread or not last or last[0].line == line:
            continue
        times = len(block.statements.executions(other, place.path, line))
        if found is None or times < fewest:
            fewest, found = times, (other, last[0])
        if times == 0:
            break
    return found


def _decisions(block: RecordedBlock, text: str, thread: int = 0) -> tuple[ChainQuestion, ...]:
    """Return the chain of the last statement of a thread."""
    last: Sequence[Statement] = block.statements.last(thread, 1)
    return tuple(ChainQuestion(block, text, (Criterion(thread, one.last),)) for one in last)


def _index(value: Json) -> tuple[int, int, int] | None:
    if not isinstance(value, list) or len(value) != 3:
        return None
    x, y, z = (number if isinstance(number, int) else 0 for number in value)
    return x, y, z


def _name(block: RecordedBlock, param: str, offset: int, size: int) -> str:
    address = block.buffer_address(param)
    return param if address is None else block.names.name(address + offset, size)


def _text(value: float | int | None) -> str:
    return "?" if value is None else f"{value:.7g}" if isinstance(value, float | np.floating) else str(value)
