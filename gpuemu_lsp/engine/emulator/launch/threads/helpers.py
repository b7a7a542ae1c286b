"""Threads of this process that execute blocks besides the main thread; they wait from launch to launch."""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import cache
from queue import SimpleQueue
from threading import Thread


class Helper:
    """A thread that calls functions one after another."""

    def __init__(self) -> None:
        self._calls: SimpleQueue[Callable[[], None]] = SimpleQueue()
        # A launch that is interrupted has ended its calls: no thread holds up the end of the process.
        Thread(target=self._work, name="blocks", daemon=True).start()

    def call(self, function: Callable[[], None]) -> None:
        """Call a function in this thread, which returns at once."""
        self._calls.put(function)

    def _work(self) -> None:
        while True:
            self._calls.get()()


@cache
def helper(index: int) -> Helper:
    """Return a thread by its number, which starts when it is asked for first."""
    return Helper()


# A forked process has the thread that forked it, and no others.
os.register_at_fork(after_in_child=helper.cache_clear)
