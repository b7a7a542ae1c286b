"""A debugging session: the moment that is looked at, the threads in focus, and how both move.

Nothing is executed: the position moves through a recording, forwards and backwards. It is always before a statement of
the thread in focus, or before an instruction. A block that does not fit into one recording is looked at in parts: where
the position leaves one, the next one is recorded, in which every moment has the same time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final, Protocol, TypeAlias

from gpuemu_lsp.engine.debug.explain import ChainQuestion, RecordedBlock
from gpuemu_lsp.engine.debugger.breakpoints import Debuggee, FindingBreakpoint, Hit, LogPoint, Stop, Stopper
from gpuemu_lsp.engine.debugger.frames import Frames, StackFrame
from gpuemu_lsp.engine.debugger.names import Names
from gpuemu_lsp.engine.debugger.objects import Moment
from gpuemu_lsp.engine.debugger.protocol import DebugRequestError
from gpuemu_lsp.engine.debugger.timeline import StepKind, Timeline
from gpuemu_lsp.engine.debugger.views import View
from gpuemu_lsp.engine.emulator.ir.lattice import WARP_SIZE
from gpuemu_lsp.engine.emulator.launch.recorder import RecordedWindow
from gpuemu_lsp.engine.findings import Place

Locate: TypeAlias = Callable[[Place], Place]


class Recordings(Protocol):
    """Records blocks of a launch, each in windows where it does not fit into one."""

    def block(self, number: int) -> RecordedBlock | None:
        """Record a block by its linear number; return None if the launch does not come to it."""

    def window(self, number: int, near: RecordedWindow, position: int, *, back: bool) -> RecordedBlock | None:
        """Record a window before a window of a block, or one behind it, with the run at a position if it is near."""


_FINDING: Final = 0
"""The number of the finding among the breakpoints, which begin at 1; further findings have negative ones."""
MOST_WARPS: Final = 32
"""Warps that are listed as threads."""


@dataclass(frozen=True, slots=True)
class FurtherFinding:
    """Another finding of the case: its rule, its text, and what returns its moment in a recording that has it."""

    rule: str
    text: str
    hit: Callable[[RecordedBlock], Hit | None]


@dataclass(frozen=True, slots=True)
class DebuggedCase:
    """What is debugged: the text of its finding, the finding's rule and moment, and where it comes from.

    ``notes`` are limits of the recording, ``further`` what else the case shows. Without a moment the session begins
    with the first statement of thread 0.
    """

    text: str = ""
    rule: str = ""
    hit: Hit | None = None
    notes: tuple[str, ...] = ()
    questions: Callable[[], Sequence[ChainQuestion]] = tuple
    further: tuple[FurtherFinding, ...] = ()


class DebugSession:
    """The state of a session; ``recordings`` records other blocks of the launch, and other parts of a long one.

    ``located`` returns the place in the user's file of one in the text that was compiled. ``announce`` receives texts
    for the user about what takes long.
    """

    def __init__(
        self,
        block: RecordedBlock,
        recordings: Recordings,
        subject: DebuggedCase,
        located: Locate = lambda place: place,
    ) -> None:
        self._recordings, self.subject, self.located = recordings, subject, located
        self.announce: Callable[[str], None] = lambda _: None
        self._announced = False
        self.stops_at_finding = True
        self._rules: frozenset[str] = frozenset()
        self._further: tuple[FindingBreakpoint, ...] = ()
        self.breakpoints: dict[int, Stopper] = {}
        self.log_points: dict[int, LogPoint] = {}
        self._finding_block = block.recording.block
        self._enter(block)
        hit = subject.hit or self._first(0)
        self._lanes: dict[int, int] = {}
        self.move(hit)

    def _enter(self, block: RecordedBlock) -> None:
        frames = Frames(block)
        self.block = block
        self.debuggee = Debuggee(block, frames, Timeline(block.history, block.statements, frames), Names(block))

    # ---- position ----------------------------------------------------------------------------------------------------

    @property
    def thread(self) -> int:
        """The thread in focus, by its linear number in the block."""
        return self.position.thread

    @property
    def tick(self) -> int:
        """The moment that is looked at."""
        return self.position.tick

    def move(self, hit: Hit, *, exactly: bool = False) -> None:
        """Look at the statement of a thread that has a tick, before it is executed; or exactly at the tick."""
        self.cursor = hit
        span = self.debuggee.timeline.statement(hit.thread, hit.tick)
        first = hit.tick if exactly or span is None or span[0] > hit.tick else span[0]
        self.position = Hit(first, hit.thread)
        self._lanes[hit.thread // WARP_SIZE] = hit.thread % WARP_SIZE

    def focus(self, thread: int) -> None:
        """Look at another thread of the block at the same moment."""
        self.position = Hit(self.tick, thread)
        self.cursor = Hit(self.cursor.tick, thread)
        self._lanes[thread // WARP_SIZE] = thread % WARP_SIZE

    def enter_block(self, number: int) -> bool:
        """Look at the first statement of another block; return False if the launch does not come to it."""
        if number == self.block.recording.block:
            return True
        block = self._recordings.block(number)
        if block is None:
            return False
        self._enter(block)
        self._lanes = {}
        hit = self.subject.hit if number == self._finding_block else None
        self.move(hit if hit is not None and block.history.has(hit.tick) else self._first(0))
        return True

    def enter_window(self, tick: int, *, back: bool) -> bool:
        """Look at the part of the block before the recorded one, or behind it; return False if there is none.

        The two overlap, as far as a tick if it is near.
        """
        window = self.block.recording.window
        if not (window.skipped if back else window.lost):
            return False
        if not self._announced:
            side, steps = ("before", window.skipped) if back else ("behind", window.lost)
            self.announce(f"recording parts of the block {side} this one, which have {steps:,} steps")
        self._announced = True
        number, position = self.block.recording.block, self.block.history.position(tick)
        # Two recordings at a time would need twice the memory.
        del self.block, self.debuggee
        block = self._recordings.window(number, window, position, back=back) or self._recordings.block(number)
        if block is None:
            raise DebugRequestError("the launch could not be recorded again")
        self._enter(block)
        return True

    def _first(self, thread: int) -> Hit:
        ends = self.debuggee.timeline.ends(thread)
        return Hit(ends[0] if ends is not None else 0, thread)

    # ---- threads -----------------------------------------------------------------------------------------------------

    def warps(self) -> list[int]:
        """Return the warps that are listed: the first ones, and always that of the thread in focus."""
        count = -(-self.block.recording.thread_count // WARP_SIZE)
        listed = list(range(min(count, MOST_WARPS)))
        own = self.thread // WARP_SIZE
        return listed if own in listed else [*listed[:-1], own]

    def thread_of(self, warp: int) -> int:
        """Return the thread of a warp that is in focus."""
        return warp * WARP_SIZE + self._lanes.get(warp, 0)

    def lanes_here(self, warp: int) -> int:
        """Return how many lanes of a warp execute its next statement together."""
        history = self.block.history
        return int(history.lanes[history.run_at(self.place(self.thread_of(warp)))]).bit_count()

    def place(self, thread: int) -> int:
        """Return the tick of what a thread executes next."""
        if self._executes(thread):
            return self.tick
        timeline = self.debuggee.timeline
        span = timeline.statement(thread, self.tick)
        if span is None:
            return self.tick
        if self.tick > span[1]:
            return timeline.step(thread, self.tick, StepKind.IN) or span[0]
        return span[0]

    def _executes(self, thread: int) -> bool:
        """Return whether a thread takes part in what is executed at the moment that is looked at."""
        history, (warp, lane) = self.block.history, divmod(thread, WARP_SIZE)
        run = history.run_at(self.tick)
        return int(history.warp[run]) == warp and bool(int(history.lanes[run]) >> lane & 1)

    def stack(self, thread: int) -> tuple[StackFrame, ...]:
        """Return the call stack of a thread."""
        return self.debuggee.frames.at(self.place(thread))

    def view(self, thread: int, frame: StackFrame) -> View:
        """Return what a frame of a thread sees at the moment that is looked at."""
        return View(self.moment(thread), frame, self.debuggee.names)

    def moment(self, thread: int) -> Moment:
        """Return what a thread sees at the moment that is looked at."""
        return Moment(self.block, thread, self.tick)

    # ---- steps -------------------------------------------------------------------------------------------------------

    def step(self, thread: int, step: StepKind) -> Stop:
        """Move a thread by a statement."""
        place, back = self.place(thread), step in (StepKind.BACK, StepKind.BACK_OUT)
        depth = self.debuggee.timeline.depth(thread, place)
        return self._stepped(thread, place, lambda: self.debuggee.timeline.step(thread, place, step, depth), back=back)

    def step_instruction(self, thread: int, *, back: bool) -> Stop:
        """Move a thread by an instruction."""
        place = self.place(thread)
        target = partial(self._instruction, thread, place, back)
        return self._stepped(thread, place, target, back=back, exactly=True)

    def _instruction(self, thread: int, place: int, back: bool) -> int | None:
        return self.debuggee.timeline.instruction_step(thread, place, back=back)

    def _stepped(
        self, thread: int, place: int, target: Callable[[], int | None], *, back: bool, exactly: bool = False
    ) -> Stop:
        self._announced = False
        tick = target()
        while tick is None or (back and tick < self.block.history.floor):
            if not self.enter_window(place if tick is None else tick, back=back):
                break
            tick = target()
        if tick is None:
            return self._end(thread, back=back)
        self.move(Hit(tick, thread), exactly=exactly)
        return Stop("step", "step back" if back else "step")

    def _end(self, thread: int, *, back: bool) -> Stop:
        """Stop at the first or last statement of a thread: the recording has no more of it."""
        ends = self.debuggee.timeline.ends(thread)
        history = self.block.history
        edges = ends if ends is not None else (history.first, max(history.end - 1, history.first))
        self.move(Hit(edges[0 if back else 1], thread))
        if back:
            return Stop("entry", "start of the block", "the recording begins here")
        return Stop("pause", "end of the recording", "the thread executes no further statement")

    # ---- going on ----------------------------------------------------------------------------------------------------

    def go(self, log: Callable[[str], None], *, back: bool) -> tuple[Stop, int | None]:
        """Move to the next stopper, or to the last one before; else to an end of the recording.

        Returns the stop and the number of the breakpoint; ``log`` receives the texts of log points that are passed.
        """
        stoppers = dict(self.breakpoints)
        if self._finding is not None and (self.stops_at_finding or self.subject.rule in self._rules):
            stoppers[_FINDING] = self._finding
        stoppers |= {_FINDING - place: finding for place, finding in enumerate(self._further, 1)}
        self._announced, begun = False, self.cursor
        hits, reached = self._reached(stoppers, begun, log, back=back)
        while reached is None:
            history = self.block.history
            edge = Hit(history.floor if back else history.end - 1, begun.thread)
            if not self.enter_window(edge.tick, back=back):
                break
            hits, reached = self._reached(stoppers, edge, log, back=back)
        if reached is None:
            return self._end(self.thread, back=back), None
        # Of several at one moment the finding says the most.
        number = min((number for hit, number in hits if hit == reached), key=lambda one: (one > _FINDING, abs(one)))
        self.move(reached)
        return stoppers[number].stop(self.debuggee, reached), number if number > _FINDING else None

    def _reached(
        self, stoppers: dict[int, Stopper], begun: Hit, log: Callable[[str], None], *, back: bool
    ) -> tuple[list[tuple[Hit, int]], Hit | None]:
        """Return the closest hit of each stopper in the recorded part with its number, and the closest of them."""
        hits = [
            (hit, number)
            for number, stopper in stoppers.items()
            if (hit := next(iter(stopper.hits(self.debuggee, begun, back=back)), None)) is not None
            and not (back and hit.tick < self.block.history.floor)
        ]
        reached = (max if back else min)((hit for hit, _ in hits), default=None)
        for text in self._logged(begun, reached, back=back):
            log(text)
        return hits, reached

    def stop_at_rules(self, rules: frozenset[str]) -> None:
        """Stop at the findings of some rules."""
        here = self.block.recording.block == self._finding_block
        further = self.subject.further if here else ()
        chosen = ((finding, finding.hit(self.block)) for finding in further if finding.rule in rules)
        self._rules = rules
        self._further = tuple(
            FindingBreakpoint(self._finding_block, hit, Stop("exception", finding.rule, finding.text))
            for finding, hit in chosen
            if hit is not None
        )

    @property
    def _finding(self) -> FindingBreakpoint | None:
        hit = self.subject.hit
        if hit is None:
            return None
        return FindingBreakpoint(self._finding_block, hit, Stop("exception", self.subject.rule, self.subject.text))

    def at_start(self) -> Stop:
        """Return the stop with which the session begins."""
        finding = self._finding
        if finding is None:
            return Stop("entry", "start of the block", self.subject.text)
        return finding.reported

    def _logged(self, begun: Hit, end: Hit | None, *, back: bool) -> Iterator[str]:
        """Yield the texts of the log points between two moments, in the order in which they are passed."""
        passed: list[tuple[Hit, LogPoint]] = []
        for point in self.log_points.values():
            for hit in point.stopper.hits(self.debuggee, begun, back=back):
                if back and hit.tick < self.block.history.floor:
                    break
                if end is not None and (hit < end if back else hit > end):
                    break
                passed.append((hit, point))
        for hit, point in sorted(passed, key=lambda item: item[0], reverse=back):
            view = self.debuggee.view(hit)
            if view is not None:
                yield point.message.text(view)
