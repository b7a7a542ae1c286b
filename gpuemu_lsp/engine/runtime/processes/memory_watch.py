"""A thread that stops a run before the system ends it, or its program, for lack of memory."""

from __future__ import annotations

import threading

from gpuemu_lsp.engine.memory_limit import memory_state, resident_bytes
from gpuemu_lsp.engine.runtime.processes.run_stop import MEMORY_LIMIT, NO_MEMORY, RunStop

_MOST_KEPT = 1 << 30
_PART_KEPT = 8
"""A run stops when so many bytes are left, or this part of the memory: a launch uses more until it looks at that."""

_SCARCE_PART = 4
"""Memory is scarce when less than this part of it is left."""

_BYTES_PER_SECOND = 8e9
"""More than two processes can fill, so that memory does not end between two looks at it."""

_MOST_SECONDS, _LEAST_SECONDS = 1.0, 0.02


class MemoryWatch:
    """Looks at the memory that is left, the more often the less it is.

    It stops the run if this process uses more than ``limit`` bytes, or hardly any are left and much of what is used is
    ours; another process may use the rest.
    """

    def __init__(self, stop: RunStop, limit: int | None) -> None:
        self._stop, self._limit = stop, limit
        self.scarce = False
        threading.Thread(target=self._watch, name="memory", daemon=True).start()

    def _watch(self) -> None:
        seconds = _LEAST_SECONDS
        while not self._stop.wait(seconds):
            state, used = memory_state(), resident_bytes()
            kept = min(state.total // _PART_KEPT, _MOST_KEPT)
            self.scarce = state.available * _SCARCE_PART < state.total
            if self._limit is not None and used > self._limit:
                self._stop.stop(MEMORY_LIMIT)
                return
            if state.available < kept and used > kept:
                self._stop.stop(NO_MEMORY)
                return
            left = max(state.available - kept, 0)
            if self._limit is not None:
                left = min(left, self._limit - used)
            seconds = min(max(left / _BYTES_PER_SECOND, _LEAST_SECONDS), _MOST_SECONDS)
