"""The thread that asks a question about clocks, as the context of its warp shows it."""

from __future__ import annotations

import ctypes
from typing import NamedTuple

from gpuemu_lsp.engine.emulator.abi.fields import Field
from gpuemu_lsp.engine.emulator.abi.structs import Warp


class Caller(NamedTuple):
    """The thread that makes a call, with its warp's context: the warp is executing, so that epochs are current."""

    thread: int
    lane: int
    context: int

    def get(self, field: Field) -> int:
        """Return a field of the warp's context."""
        return ctypes.c_uint32.from_address(self.context + field).value

    @property
    def block(self) -> int:
        """The number of the thread's block."""
        return self.thread >> 10

    @property
    def block_barrier(self) -> int:
        """The epoch of the block's last barrier."""
        return self.get(Warp.BLOCK_BARRIER_EPOCH)

    def remember(self, who: int, until: int) -> None:
        """Let generated code answer the next questions about a thread of the block."""
        for row, value in ((Warp.ORDERED_THREAD, who), (Warp.ORDERED_UNTIL, until)):
            ctypes.c_uint32.from_address(self.context + row.element(self.lane)).value = value

    def fence(self, *, block_scope: bool) -> int:
        """Return the epoch of the thread's last fence, 0 for none: of any scope, or of one that includes other blocks.

        An earlier block's fence, in a context that is used again, is before this block's first epoch.
        """
        epochs = Warp.FENCE_EPOCH if block_scope else Warp.WIDE_FENCE_EPOCH
        epoch = self.get(epochs.element(self.lane))
        return epoch if epoch > self.get(Warp.START_EPOCH) else 0
