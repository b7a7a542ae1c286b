"""The pool as its callers see it: submit a job, get its events, wait or cancel."""

from __future__ import annotations

import atexit
import logging
import queue
import sys
import threading
import traceback
from collections.abc import Callable, Mapping, Sequence
from types import TracebackType
from typing import Self

from gpuemu_lsp.engine.workers.model import Cancelled, Done, Ending, Event, Failed, Job, Limits, Progress, Ready
from gpuemu_lsp.engine.workers.supervisor import Settings, Supervisor

_log = logging.getLogger(__name__)

_NAMESPACE = "gpuemu_lsp.engine."
_ONE_THREAD = {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
"""Workers run side by side: a reference's BLAS must not take every core for itself."""


class Ticket:
    """One submitted job. Every ticket gets exactly one ending, whatever happens to the worker."""

    def __init__(self, job: Job, on_event: Callable[[Event], None] | None, pool: Pool) -> None:
        self.job = job
        self.attempts = 0
        self._on_event = on_event
        self._pool = pool
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
        self._pool._supervisor.abandon(self)

    def wait(self, timeout: float | None = None) -> Ending | None:
        """Return the ending, after all callbacks of this job have run; None when ``timeout`` seconds were not enough.

        Raises
        ------
        RuntimeError
            When called from a callback: it would wait for itself.
        """
        if self._pool._delivery.on_this_thread():
            raise RuntimeError("wait() was called from an event callback")
        return self._ending if self._delivered.wait(timeout) else None

    def post(self, event: Event) -> None:
        """Queue an event for the callback, unless the job has ended. For the supervisor."""
        with self._lock:
            if self._ending is not None:
                return
            if not isinstance(event, Progress):
                self._ending = event
            self._pool._delivery.put(self, event)

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


class _Delivery:
    """The thread that runs callbacks, so that a slow one cannot delay time limits and kills."""

    def __init__(self) -> None:
        self._queue: queue.SimpleQueue[tuple[Ticket, Event] | None] = queue.SimpleQueue()
        self._lock = threading.Lock()
        self._closed = False
        self._thread = threading.Thread(target=self._run, name="gpuemu-events", daemon=True)
        self._thread.start()

    def put(self, ticket: Ticket, event: Event) -> None:
        with self._lock:
            if not self._closed:
                self._queue.put((ticket, event))
                return
        ticket.deliver(event)

    def on_this_thread(self) -> bool:
        return threading.current_thread() is self._thread

    def close(self, timeout: float) -> None:
        with self._lock:
            self._closed = True
            self._queue.put(None)
        if not self.on_this_thread():
            self._thread.join(timeout)

    def _run(self) -> None:
        while (item := self._queue.get()) is not None:
            ticket, event = item
            ticket.deliver(event)


class Pool:
    """Runs jobs in up to ``size`` worker processes at a time, first come, first served.

    Safe to use from any thread, and from an event loop: only :meth:`Ticket.wait`, :meth:`wait_ready` and :meth:`close`
    block. Callbacks run in order on one thread of the pool's own; a server passes them on with
    ``loop.call_soon_threadsafe``.

    Parameters
    ----------
    functions : Mapping[str, str]
        The jobs there are: name to ``module:function`` below ``gpuemu_lsp.engine``. A function takes the payload and
        is a generator of JSON values. Two keys of a yielded object mean something to the pool: ``stage`` (a name,
        reported when the job ends badly) and ``retire`` (true: replace this worker after the job).
    size : int
        How many workers may live at a time.
    limits : Limits
        What each of them may use.
    preload : Sequence[str]
        Modules to import once, before any worker is forked.
    python : str
        The interpreter.
    environment : Mapping[str, str] or None
        Added to the environment of the workers.
    """

    def __init__(
        self,
        functions: Mapping[str, str],
        *,
        size: int = 2,
        limits: Limits | None = None,
        preload: Sequence[str] = (),
        python: str = sys.executable,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        foreign = [target for target in functions.values() if not target.startswith(_NAMESPACE) or ":" not in target]
        if foreign:
            raise ValueError(f"not a module:function of the engine: {', '.join(foreign)}")
        if size < 1:
            raise ValueError(f"a pool needs at least one worker, not {size}")
        self._functions = dict(functions)
        self._delivery = _Delivery()
        self._supervisor = Supervisor(
            Settings(
                functions=self._functions,
                size=size,
                limits=limits or Limits(),
                preload=tuple(preload),
                python=python,
                environment={**_ONE_THREAD, **(environment or {})},
            )
        )
        atexit.register(self.close)

    def start(self) -> None:
        """Begin to import the heavy modules now, rather than at the first job. Does not wait."""
        self._supervisor.warm_up()

    def wait_ready(self, timeout: float | None = None) -> Ready | None:
        """Start, and wait until workers can be forked; None when they cannot, or not within ``timeout`` seconds."""
        self._supervisor.warm_up()
        return self._supervisor.wait_ready(timeout)

    def submit(self, job: Job, on_event: Callable[[Event], None] | None = None) -> Ticket:
        """Queue ``job``; ``on_event`` gets its progress and, last, its ending. Does not wait.

        Raises
        ------
        KeyError
            If the job's function is not in the table.
        """
        if job.function not in self._functions:
            raise KeyError(job.function)
        ticket = Ticket(job, on_event, self)
        self._supervisor.enqueue(ticket)
        return ticket

    def close(self) -> None:
        """End every job as cancelled and every process, in well under a second. May be called again."""
        atexit.unregister(self.close)
        self._supervisor.close()
        self._delivery.close(timeout=0.2)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
