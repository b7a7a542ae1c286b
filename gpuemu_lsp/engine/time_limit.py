"""Time limits that do not count the time for which a process waits for a processor.

A machine whose processors are busy runs the same work in several times the time. A limit of wall-clock time alone would
then end checks that are neither slow nor hung, and which of them would depend on what else the machine does. Linux
records how long each thread has been runnable without running: the run delay (proc(5), ``/proc/PID/schedstat``; the
kernel's ``Documentation/scheduler/sched-stats.rst``). Time asleep counts: a process that waits for ever is hung.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path


class _OwnSchedstat(threading.local):
    """The open file of a thread's own record: opening it takes five times as long as reading it."""

    pid = -1
    file = -1
    others = 0.0

    def descriptor(self) -> int:
        """Return the file descriptor; after a fork it would be the record of the parent's thread."""
        if self.pid != os.getpid():
            self.close()
            self.file, self.pid = os.open("/proc/thread-self/schedstat", os.O_RDONLY | os.O_CLOEXEC), os.getpid()
        return self.file

    def close(self) -> None:
        """Close the file, if it is open."""
        if self.file >= 0:
            os.close(self.file)
        self.file, self.pid = -1, -1

    def __del__(self) -> None:
        # When the thread ends.
        self.close()


_own = _OwnSchedstat()


def run_delay(pid: int | None = None) -> float:
    """Return for how many seconds a thread has waited for a processor: the caller, or the main thread of a process.

    The caller's include those of :func:`count_delay_of`.
    0 where the kernel does not record it, and for a process that has ended.
    """
    try:
        if pid is None:
            fields = os.pread(_own.descriptor(), 128, 0).split()
        else:
            fields = Path(f"/proc/{pid}/schedstat").read_bytes().split()
    except OSError:
        return 0.0
    seconds = int(fields[1]) / 1e9 if len(fields) > 1 else 0.0
    return seconds + _own.others if pid is None else seconds


def count_delay_of(pid: int) -> None:
    """Add the run delay of a process that this thread has waited for to its own; once for each process.

    The process must not be reaped yet.
    """
    _own.others += run_delay(pid)


def scheduled_clock() -> float:
    """Return the monotonic clock in seconds, which stands still while this thread waits for a processor."""
    return time.monotonic() - run_delay()


@dataclass(frozen=True, slots=True)
class TimeLimit:
    """A limit of seconds from now on, for the thread that creates it.

    ``started`` is that time, ``delay`` the run delay of the thread then.
    """

    seconds: float
    started: float = field(default_factory=time.monotonic, kw_only=True)
    delay: float = field(default_factory=run_delay, kw_only=True)

    def left(self) -> float:
        """Return the seconds that are left; 0 or less if the limit has passed."""
        left = self.started + self.seconds - time.monotonic()
        # Reading the run delay takes some microseconds, and can only add to what is left.
        return left if left > 0 else left + run_delay() - self.delay


_LEAST_SECONDS = 1.0
"""Limit of a step that has begun."""


@dataclass(slots=True)
class SharedDeadline:
    """The time after which no further step of a task begins; without a limit there is none.

    ``missed`` is True once a step was left out: repeated, the task may have another result.
    """

    limit: TimeLimit | None = None
    missed: bool = False

    @contextmanager
    def stopped(self) -> Iterator[None]:
        """Let the deadline be later by the time of the body, which is not part of the task."""
        began = scheduled_clock()
        try:
            yield
        finally:
            if self.limit is not None:
                self.limit = replace(self.limit, started=self.limit.started + scheduled_clock() - began)

    def has_passed(self, needed: float = 0.0) -> bool:
        """Return whether the next step, which may take ``needed`` seconds, is to be left out."""
        passed = self.limit is not None and self.limit.left() <= needed
        self.missed = self.missed or passed
        return passed

    def shortened(self, seconds: float) -> float:
        """Return the limit of a step that may otherwise take ``seconds``."""
        return seconds if self.limit is None else min(seconds, max(_LEAST_SECONDS, self.limit.left()))
