"""One host thread of a launch: its launch record, the block that it executes, and its own tables."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from queue import SimpleQueue
from threading import Thread
from typing import NamedTuple

from gpuemu_lsp.engine.emulator.abi.structs import LaunchRecord
from gpuemu_lsp.engine.emulator.devicelib.library import DEVICE_LIBRARY
from gpuemu_lsp.engine.emulator.jit import compile
from gpuemu_lsp.engine.emulator.launch.attendant import BlockAttendant
from gpuemu_lsp.engine.emulator.launch.state import LaunchReport, PreparedLaunch

Blocks = tuple[int, int]
"""The first of some blocks, and the one after the last."""


class Pause(NamedTuple):
    """A thread that executes nothing for now: it has no more blocks, or ``needs_attention``."""

    thread: BlockThread
    needs_attention: bool


class BlockThread:
    """Executes blocks in a thread of its own, in generated code alone; all decisions are those of the main thread.

    ``prepared`` is its own view of the launch, ``next_blocks`` gives blocks to execute, None when there are no more.
    """

    def __init__(
        self,
        prepared: PreparedLaunch,
        attendant: BlockAttendant,
        report: LaunchReport,
        next_blocks: Callable[[], Blocks | None],
        pauses: SimpleQueue[Pause],
    ) -> None:
        self.prepared, self.report = prepared, report
        self._attendant, self._next_blocks, self._pauses = attendant, next_blocks, pauses
        self._go: SimpleQueue[bool] = SimpleQueue()
        self._run_blocks = compile.function(DEVICE_LIBRARY.address("run_blocks"), ctypes.c_void_p)
        self._suspended = False
        self._thread = Thread(target=self._work, name="blocks", daemon=True)
        self._thread.start()

    @property
    def has_reports(self) -> bool:
        """Whether the launch must be repeated in order: there is something to report, or blocks have shared memory."""
        launch = self.prepared.launch
        return bool(launch.get(LaunchRecord.CLAIM_CONFLICT) or launch.get(LaunchRecord.EVENT_COUNT))

    def begin(self) -> None:
        """Begin to execute blocks."""
        self._attendant.use_best_code()
        self._go.put(True)

    def resume(self) -> None:
        """Continue to execute blocks."""
        self._go.put(True)

    def hurry(self) -> None:
        """Let generated code return soon."""
        self._attendant.hurry()

    def attend(self) -> None:
        """Decide how the block goes on at which generated code has returned."""
        resident, number = self.prepared.residents[0], self.prepared.launch.get(LaunchRecord.NEXT_BLOCK)
        if number != resident.number:
            resident.start(number)
        self._attendant.attend(resident)

    @property
    def has_used_up_its_time(self) -> bool:
        """Whether the launch was ended by its time limit or a request, which no repetition would change."""
        return self.report.status == "hung" and self._attendant.limits.have_passed

    def end(self) -> None:
        """End the thread, which executes nothing."""
        self._go.put(False)
        self._thread.join()

    def _work(self) -> None:
        while self._go.get():
            self._pauses.put(Pause(self, self._execute()))

    def _execute(self) -> bool:
        """Execute blocks; return whether the main thread must decide how it goes on."""
        launch = self.prepared.launch
        while True:
            if not self._suspended:
                blocks = self._next_blocks()
                if blocks is None:
                    return False
                launch.set(LaunchRecord.NEXT_BLOCK, blocks[0])
                launch.set(LaunchRecord.BLOCK_END, blocks[1])
            self._suspended = bool(self._run_blocks(launch.address))
            if self._suspended or self.has_reports:
                return True
