"""What one host thread of a launch has for itself: its launch record, the block that it executes, and its tables."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from enum import Enum, auto

from gpuemu_lsp.engine.emulator.abi.structs import LaunchRecord
from gpuemu_lsp.engine.emulator.devicelib.library import DEVICE_LIBRARY
from gpuemu_lsp.engine.emulator.jit import compile
from gpuemu_lsp.engine.emulator.launch.attendant import BlockAttendant
from gpuemu_lsp.engine.emulator.launch.state import LaunchReport, PreparedLaunch

Blocks = tuple[int, int]
"""The first of some blocks, and the one after the last."""


class BlockProgress(Enum):
    """How far a thread has come: there may be ``MORE`` blocks, or the main thread must decide how it goes on."""

    MORE = auto()
    DONE = auto()
    NEEDS_ATTENTION = auto()


class BlockThread:
    """Executes blocks in generated code alone, in any thread of the host; all decisions are those of the main thread.

    ``prepared`` is its own view of the launch, ``next_blocks`` gives blocks to execute, None when there are no more.
    """

    def __init__(
        self,
        prepared: PreparedLaunch,
        attendant: BlockAttendant,
        report: LaunchReport,
        next_blocks: Callable[[], Blocks | None],
    ) -> None:
        self.prepared, self.report, self.attendant = prepared, report, attendant
        self._next_blocks = next_blocks
        self._run_blocks = compile.function(DEVICE_LIBRARY.address("run_blocks"), ctypes.c_void_p)
        self._suspended = False

    @property
    def has_reports(self) -> bool:
        """Whether the launch must be repeated in order: there is something to report, or blocks have shared memory."""
        launch = self.prepared.launch
        return bool(launch.get(LaunchRecord.CLAIM_CONFLICT) or launch.get(LaunchRecord.EVENT_COUNT))

    @property
    def has_used_up_its_time(self) -> bool:
        """Whether the launch was ended by its time limit or a request, which no repetition would change."""
        return self.report.status == "hung" and self.attendant.limits.have_passed

    def attend(self) -> None:
        """Decide how the block goes on at which generated code has returned."""
        resident, number = self.prepared.residents[0], self.prepared.launch.get(LaunchRecord.NEXT_BLOCK)
        if number != resident.number:
            resident.start(number)
        self.attendant.attend(resident)

    def execute_all(self) -> BlockProgress:
        """Execute blocks until there are none, or attention is needed."""
        progress = BlockProgress.MORE
        while progress is BlockProgress.MORE:
            progress = self.execute_some()
        return progress

    def execute_some(self) -> BlockProgress:
        """Continue with the blocks that were begun, or execute the next ones."""
        launch = self.prepared.launch
        if not self._suspended:
            blocks = self._next_blocks()
            if blocks is None:
                return BlockProgress.DONE
            launch.set(LaunchRecord.NEXT_BLOCK, blocks[0])
            launch.set(LaunchRecord.BLOCK_END, blocks[1])
        self._suspended = bool(self._run_blocks(launch.address))
        return BlockProgress.NEEDS_ATTENTION if self._suspended or self.has_reports else BlockProgress.MORE
