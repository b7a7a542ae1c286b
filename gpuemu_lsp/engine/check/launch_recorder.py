"""Recordings of the blocks of one launch: of a block that does not fit, the part in which its finding is.

A block is recorded from its start. Where that does not come to its end, the moment of the finding is that of an event
of the emulator at the finding's line, or else the end of the block. The window that is recorded then ends an eighth of
its size behind that moment, since what was before it is asked for. Windows next to each other overlap by an eighth, so
that a statement at the edge of one is inside of the other.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from gpuemu_lsp.engine.check.plan_run import PlanRun
from gpuemu_lsp.engine.check.replay import HANG_STEPS
from gpuemu_lsp.engine.debug.explain import RecordedBlock
from gpuemu_lsp.engine.debug.memory_names import Format, LaunchArguments
from gpuemu_lsp.engine.debug.source_lines import SourceLines
from gpuemu_lsp.engine.emulator.launch.recorder import DEFAULT_LIMITS, OVERLAP, RecordedWindow, RecordingLimits
from gpuemu_lsp.engine.execution import Buffer, Request
from gpuemu_lsp.engine.findings import Finding
from gpuemu_lsp.engine.fuzz.dtypes import numpy_dtype
from gpuemu_lsp.engine.fuzz.model import Case
from gpuemu_lsp.engine.fuzz.pack import shape_of
from gpuemu_lsp.engine.plan.model import TensorArg

if TYPE_CHECKING:
    from gpuemu_lsp.engine.emulator import Emulator

_HANG_LIMITS: Final = RecordingLimits(10 << 20)
"""Size of the recording of a launch that does not end: one iteration of its loop is like the next."""


class Recorder:
    """Records blocks of one launch, whose ``finding`` is looked for where a block does not fit.

    At most one recording is kept: others of the caller's need their own memory.
    """

    def __init__(self, run: PlanRun, case: Case, finding: Finding | None = None) -> None:
        self._run, self._case, self._finding = run, case, finding
        self._hangs = run.runner.launch.max_steps <= HANG_STEPS
        self._limits = _HANG_LIMITS if self._hangs else DEFAULT_LIMITS
        self._begins: dict[int, int] = {}
        self.latest: RecordedBlock | None = None
        self.problem = ""
        """Why the last block that was asked for is not recorded."""

    def block(self, number: int) -> RecordedBlock | None:
        """Record a block by its linear number, where its finding is; None if the launch does not come to it."""
        begin = self._begins.get(number)
        if begin is None:
            begin = self._begin_at_finding(number)
        if self.latest is not None and (number, begin) == _place(self.latest):
            return self.latest
        return None if begin is None else self._window(number, begin)

    def before(self, number: int) -> RecordedBlock | None:
        """Record the window before that of :meth:`block`, in which the finding was not; None if there is none."""
        if not self._begins.get(number):
            return None
        self._begins[number] = max(self._begins[number] - self._step, 0)
        return self.block(number)

    def window(self, number: int, near: RecordedWindow, position: int, *, back: bool) -> RecordedBlock | None:
        """Record a window before a window of a block, or one behind it.

        It has the run at a position of that window, too, unless this is so far away that little else would be new.
        """
        size = self._limits.bytes
        overlap, most = size // OVERLAP, size - size // 4
        if back:
            begin = near.begin + min(max(position - near.begin, 0) + overlap, most) - size
            # A single run may be larger than that.
            begin = min(begin, near.wanted - size // 4)
        else:
            begin = near.end - min(max(near.end - position, overlap), most)
        return self._window(number, max(begin, 0))

    @property
    def _step(self) -> int:
        return self._limits.bytes - self._limits.bytes // OVERLAP

    def _begin_at_finding(self, number: int) -> int | None:
        """Return where the window of a block begins that has the finding; None if the launch does not come to it."""
        block = self._window(number, 0)
        if block is None:
            return None
        window = block.recording.window
        moment = 0 if self._hangs or not block.ends_early else self._moment(block)
        # The end of the window of which the moment is in the last part.
        end = min(moment + self._limits.bytes // OVERLAP, window.whole)
        self._begins[number] = 0 if moment < window.end else end - self._limits.bytes
        return self._begins[number]

    def _moment(self, block: RecordedBlock) -> int:
        """Return the position of the finding in a block; its end if no event shows it."""
        finding, window = self._finding, block.recording.window
        if finding is None:
            return 0
        index = finding.data.get("thread")
        numbers = [one for one in index if isinstance(one, int)] if isinstance(index, list) else []
        thread = block.linear_thread(numbers) if len(numbers) == 3 else None
        there = [one for one in window.events if block.source.place_of(one.location) == finding.place]
        first = next((one for one in there if one.thread == thread), there[0] if there else None)
        return window.whole if first is None else first.position

    def _window(self, number: int, begin: int) -> RecordedBlock | None:
        """Record a block from a position on; what was recorded before is dropped."""
        self.latest = None
        runner = self._run.runner
        launch = runner.complete(self._case)
        emulator: Emulator = runner.executor  # type: ignore[assignment]
        outcome, recording = emulator.record(launch, number, self._limits, begin=begin)
        if recording is None:
            stopped = outcome.status in ("unsupported", "failed", "hung") and outcome.events
            self.problem = outcome.events[0].message if stopped else "it does not come to the block of the finding"
            return None
        source_map = runner.source_map(self._case, self._run.context.findings.source_map)
        self.latest = RecordedBlock(
            recording,
            launch.artifact.ptx,
            launch.artifact.debug_sections,
            SourceLines(source_map.known, source_map.text_of),
            LaunchArguments(formats(self._run, self._case, launch), self._case.scalars),
            outcome,
        )
        return self.latest


def _place(block: RecordedBlock) -> tuple[int, int]:
    """Return the number of a block and where its window was to begin."""
    return block.recording.block, block.recording.window.wanted


def formats(run: PlanRun, case: Case, launch: Request) -> dict[str, Format]:
    """Return how the buffers of a launch are read."""
    buffers = {one.name: one for one in launch.buffers if isinstance(one, Buffer)}
    by_name = {}
    for arg in run.plan.args:
        if isinstance(arg, TensorArg) and arg.param in buffers:
            start = buffers[arg.param].pointer_offset
            by_name[arg.param] = Format(numpy_dtype(arg.dtype), tuple(shape_of(case, arg.param)), start)
    return by_name
