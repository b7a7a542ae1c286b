"""Handle of a submitted job: ordered delivery of its events, exactly one ending."""

from __future__ import annotations

import logging
import queue
import threading
import traceback
from collections.abc import Callable

from gpuemu_lsp.engine.workers.model import Cancelled, Done, Ending, Event, Failed, Job, Progress, Restarted

_log = logging.getLogger(__name__)


class JobHandle:
    """One submitted job. Every handle gets exactly one ending, whatever happens to the worker."""

    def __init__(
        self,
        job: Job,
        on_event: Callable[[Event], None] | None,
        callbacks: CallbackThread,
        on_cancel: Callable[[JobHandle], None],
    ) -> None:
        self.job = job
        self.attempts = 0
        self.restarts = 0
        self._on_event = on_event
        self._callbacks = callbacks
        self._on_cancel = on_cancel
        self._lock = threading.Lock()
        self._ending: Ending | None = None
        self._callback_error: Failed | None = None  # a job whose events got lost must not end as done
        self._delivered = threading.Event()

    @property
    def ended(self) -> bool:
        """Whether the ending is decided. Its callback may not have run yet."""
        return self._ending is not None

    def cancel(self, reason: str = "") -> None:
        """Cancel the job. Its ending is decided when this returns; the worker is killed in the background."""
        self.post(Cancelled(reason))
        self._on_cancel(self)

    def wait(self, timeout: float | None = None) -> Ending | None:
        """Return the ending, after all callbacks of this job have run; None after ``timeout`` seconds.

        Raises
        ------
        RuntimeError
            If called from an event callback, which would deadlock.
        """
        if self._callbacks.is_current():
            raise RuntimeError("wait() was called from an event callback")
        return self._ending if self._delivered.wait(timeout) else None

    def post(self, event: Event) -> None:
        """Queue an event for the callback, unless the job has ended. Called by the supervisor."""
        with self._lock:
            if self._ending is not None:
                return
            if not isinstance(event, Progress | Restarted):
                self._ending = event
            self._callbacks.put(self, event)

    def deliver(self, event: Event) -> None:
        """Run the callback. Called on the callback thread."""
        if isinstance(event, Done) and self._callback_error is not None:
            event = self._ending = self._callback_error
        try:
            if self._on_event is not None:
                self._on_event(event)
        except Exception as error:  # a caller's mistake must not cost the other jobs their events
            _log.exception("the event callback of job %s failed", self.job.function)
            trace = "".join(traceback.format_exception(error))
            self._callback_error = Failed(type(error).__name__, f"the event callback failed: {error}", trace)
        finally:
            if not isinstance(event, Progress | Restarted):
                self._delivered.set()


class CallbackThread:
    """The thread that runs event callbacks, so that a slow one delays neither time limits nor kills."""

    def __init__(self) -> None:
        self._queue: queue.SimpleQueue[tuple[JobHandle, Event] | None] = queue.SimpleQueue()
        self._lock = threading.Lock()
        self._closed = False
        self._thread = threading.Thread(target=self._run, name="gpuemu-events", daemon=True)
        self._thread.start()

    def put(self, handle: JobHandle, event: Event) -> None:
        """Queue an event; after :meth:`close` its callback runs at once."""
        with self._lock:
            if not self._closed:
                self._queue.put((handle, event))
                return
        handle.deliver(event)

    def is_current(self) -> bool:
        """Return whether the caller runs on this thread."""
        return threading.current_thread() is self._thread

    def close(self, timeout: float) -> None:
        """Run the callbacks that are queued, for at most ``timeout`` seconds."""
        with self._lock:
            self._closed = True
            self._queue.put(None)
        if not self.is_current():
            self._thread.join(timeout)

    def _run(self) -> None:
        while (item := self._queue.get()) is not None:
            handle, event = item
            handle.deliver(event)
