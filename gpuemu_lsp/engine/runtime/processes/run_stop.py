"""The end of a run from outside: an interrupt, the end of its program during a launch, or lack of memory."""

from __future__ import annotations

import _thread
import contextlib
import signal
import socket
import threading
from collections.abc import Iterator
from types import FrameType

from gpuemu_lsp.engine.emulator.launch.limits.stop_request import StopReason, StopRequest

INTERRUPTED = StopReason("was interrupted", "interrupted")
PROGRAM_ENDED = StopReason("was given up, as the program had ended,", "the program ended during a launch")
NO_MEMORY = StopReason(
    "was stopped for lack of memory",
    "stopped before the system had no memory left: use smaller arguments, or a machine with more memory",
)
MEMORY_LIMIT = StopReason(
    "was stopped at the limit of memory", "stopped at the limit of memory: use smaller arguments, or a larger --memory"
)

_NOTICE_SECONDS = 0.5
"""Time in which a launch ends by itself when its program has ended, or after a request, before it is interrupted."""


@contextlib.contextmanager
def interrupts_stop(request: StopRequest) -> Iterator[None]:
    """Let an interrupt (SIGINT) of the body stop a launch that executes; anything else, and a second one, it ends."""

    def interrupt(_number: int, _frame: FrameType | None) -> None:
        if not request.make(INTERRUPTED):
            raise KeyboardInterrupt

    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGINT, interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


class RunStop:
    """Stops the thread that serves a program, from another thread; nothing happens after :meth:`over`."""

    def __init__(self, request: StopRequest, connection: socket.socket) -> None:
        self._request, self._connection = request, connection
        self._over = threading.Event()
        self._lock = threading.Lock()

    def program_has_ended(self) -> None:
        """End the connection, and soon after a launch.

        A process that the program has left behind may have the connection too, and a launch may take long.
        """
        with contextlib.suppress(OSError):
            self._connection.shutdown(socket.SHUT_RDWR)
        if not self.wait(_NOTICE_SECONDS):
            self.stop(PROGRAM_ENDED)

    def stop(self, reason: StopReason) -> None:
        """Stop a launch, or what else is done for the program; interrupt the main thread until it notices."""
        listens = self._request.make(reason)
        while not self.wait(_NOTICE_SECONDS if listens else 0.0):
            with self._lock:
                if not self._over.is_set():
                    # It is lost if it comes while the emulator's code calls Python.
                    _thread.interrupt_main()
            listens = True

    def wait(self, seconds: float) -> bool:
        """Wait for so long; return whether nothing is served any more."""
        return self._over.wait(seconds)

    def over(self) -> None:
        """Note that nothing is served any more."""
        with self._lock:
            self._over.set()
