"""Interruption of Python code that exceeds a time limit."""

from __future__ import annotations

import contextlib
import signal
import sys
import threading
from collections.abc import Iterator
from types import FrameType

from gpuemu_lsp.engine.time_limit import TimeLimit

IMPORT_SECONDS = 60.0
"""Limit of the import of a user's module: packages such as PyTorch take several seconds, and more from a cold disk."""
_RETRY_SECONDS = 0.01
"""Delay of an interruption that arrives in a finaliser, or in a callback whose exceptions Python discards."""


class DeadlineError(BaseException):
    """A deadline has passed. Not an Exception, so that ``except Exception`` in the user's code does not catch it."""


@contextlib.contextmanager
def deadline(seconds: float) -> Iterator[None]:
    """Raise :class:`DeadlineError` in the body after ``seconds``, and again every second while it continues.

    Time in which the thread waits for a processor does not count. It interrupts Python code; a native function that
    does not return is ended by the worker pool's own time limit.
    Deadlines do not nest. Outside of the main thread, to which signals are delivered, there is no limit.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def interrupt(number: int, frame: FrameType | None) -> None:
        if _in_finalizer(frame):
            signal.setitimer(signal.ITIMER_REAL, _RETRY_SECONDS, 1.0)
            return
        left = limit.left()
        if left > 0:
            signal.setitimer(signal.ITIMER_REAL, left, 1.0)
            return
        raise DeadlineError(f"it did not return within {seconds:g} s")

    def discarded(unraisable: sys.UnraisableHookArgs) -> None:
        # The callback of a weak reference, for instance, whose frame is like that of any function.
        if unraisable.exc_type is DeadlineError:
            signal.setitimer(signal.ITIMER_REAL, _RETRY_SECONDS, 1.0)
        else:
            report(unraisable)

    limit = TimeLimit(seconds)
    report = sys.unraisablehook
    sys.unraisablehook = discarded
    before = signal.signal(signal.SIGALRM, interrupt)
    # Repeated, as a `finally` or bare `except` in the user's code may swallow the first one.
    signal.setitimer(signal.ITIMER_REAL, seconds, 1.0)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0.0)
        signal.signal(signal.SIGALRM, before)
        sys.unraisablehook = report


def _in_finalizer(frame: FrameType | None) -> bool:
    """Return whether ``frame`` or a caller of it is a ``__del__`` method, in which Python discards any exception."""
    while frame is not None:
        if frame.f_code.co_name == "__del__":
            return True
        frame = frame.f_back
    return False
