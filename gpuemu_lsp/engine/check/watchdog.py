"""A deadline for the user's code in this process: an endless reference must not take the verdict with it.

It interrupts Python code; native code that never returns is ended by the pool's wall clock.
"""

from __future__ import annotations

import contextlib
import signal
import threading
from collections.abc import Iterator
from types import FrameType


class DeadlineError(BaseException):
    """Raised in the middle of whatever runs. Not an Exception: the user's ``except Exception`` must not eat it."""


@contextlib.contextmanager
def deadline(seconds: float) -> Iterator[None]:
    """Interrupt the body with :class:`DeadlineError` after ``seconds``, and again every second it goes on."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def ring(number: int, frame: FrameType | None) -> None:
        raise DeadlineError(f"it did not return within {seconds:g} s")

    before = signal.signal(signal.SIGALRM, ring)
    signal.setitimer(signal.ITIMER_REAL, seconds, 1.0)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0.0)
        signal.signal(signal.SIGALRM, before)
