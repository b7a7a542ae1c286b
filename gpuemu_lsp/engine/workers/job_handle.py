"""One job on its way: its events are delivered in order, its ending once."""

from __future__ import annotations

import logging
import queue
import threading
import traceback
from collections.abc import Callable

from gpuemu_lsp.engine.workers.model import Cancelled, Done, Ending, Event, Failed, Job, Progress

_log = logging.getLogger(__name__)


class JobHandle:
    """One submitted job. Every ticket gets exactly one ending, whatever happens to the worker."""

    def __init__(
        self,
        job: Job,
        on_event: Callable[[Event], None] | None,
        delivery: CallbackThread,
        abandon: Callable[[JobHandle], None],
    ) -> None:
        self.job = job
        self.attempts = 0
        self._on_event = on_event
        self._delivery = delivery
        self._abandon = abandon
        self._lock = threading.Lock()
        self._ending: Ending | None = None
        self._callback_error: Failed | None = None  # a job whose events got lost must not end as done
        self._delivered = threading.Event()

    @property
    def ended(self) -> bool:
        """Whether the ending is decided. Its callback may still be on its way."""
        return self._ending is not None

    def cancel(self) -> None:
        """Give the job up. Its ending is decided when this returns; the worker is killed in the background."""
        self.post(Cancelled())
        self._abandon(self)

    def wait(self, timeout: float | None = None) -> Ending | None:
        """Return the ending, after all callbacks of this job have run; None when ``timeout`` seconds were not enough.

        Raises
        ------
        RuntimeError
            When called from a callback: it would wait for itself.
        """
        if self._delivery.on_this_thread():
            raise RuntimeError("wait() was called from an event callback")
        return self._ending if self._delivered.wait(timeout) else None

    def post(self, event: Event) -> None:
        """Queue an event for the callback, unless the job has ended. For the supervisor."""
        with self._lock:
            if self._ending is not None:
                return
            if not isinstance(event, Progress):
                self._ending = event
            self._delivery.put(self, event)

    def deliver(self, event: Event) -> None:
        """Run the callback. On the delivery thread only."""
        if isinstance(event, Done) and self._callback_error is not None:
            event = self._ending = self._callback_error
        try:
            if self._on_event is not None:
                self._on_event(event)
        except Exception as error:  # an edge: a caller's mistake must not cost the other jobs their events
            _log.exception("the event callback of job %s failed", self.job.function)
            trace = "".join(traceback.format_exception(error))
            self._callback_error = Failed(type(error).__name__, f"an event could not be taken in: {error}", trace)
        finally:
            if not isinstance(event, Progress):
                self._delivered.set()


class CallbackThread:
    """The thread that runs callbacks, so that a slow one cannot delay time limits and kills."""

    def __init__(self) -> None:
        self._queue: queue.SimpleQueue[tuple[JobHandle, Event] | None] = queue.SimpleQueue()
        self._lock = threading.Lock()
        self._closed = False
        self._thread = threading.Thread(target=self._run, name="gpuemu-events", daemon=True)
        self._thread.start()

    def put(self, ticket: JobHandle, event: Event) -> None:
        """Queue an event; after :meth:`close` its callback runs at once."""
        with self._lock:
            if not self._closed:
                self._queue.put((ticket, event))
                return
        ticket.deliver(event)

    def on_this_thread(self) -> bool:
        """Say whether a callback is what asks."""
        return threading.current_thread() is self._thread

    def close(self, timeout: float) -> None:
        """Let the queue run empty, for at most ``timeout`` seconds."""
        with self._lock:
            self._closed = True
            self._queue.put(None)
        if not self.on_this_thread():
            self._thread.join(timeout)

    def _run(self) -> None:
        while (item := self._queue.get()) is not None:
            ticket, event = item
            ticket.deliver(event)
