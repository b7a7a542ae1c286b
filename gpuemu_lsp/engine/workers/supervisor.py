"""The thread that owns all processes of a pool: starts, feeds, times, kills and replaces them.

Every decision is taken on this one thread. Other threads only append to the inbox and wake it.
"""

from __future__ import annotations

import contextlib
import dataclasses
import logging
import os
import selectors
import threading
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from gpuemu_lsp.engine.workers.job_handle import JobHandle
from gpuemu_lsp.engine.workers.model import (
    Cancelled,
    Ending,
    Limits,
    Ready,
    WorkerDied,
)
from gpuemu_lsp.engine.workers.processes import ForkServerProcess, WorkerProcess
from gpuemu_lsp.engine.workers.worker_set import WorkerSet

_log = logging.getLogger(__name__)

_START_SECONDS = 60.0
"""How long the nursery may import."""
_RETRY_SECONDS = 5.0
"""After a failed start, jobs fail at once for this long instead of trying again."""
_CLOSE_SECONDS = 0.3
"""How long the nursery may take to end everything before it is killed itself."""


@dataclass(frozen=True, slots=True)
class PoolSettings:
    """What a pool was made with."""

    functions: dict[str, str]
    size: int
    limits: Limits
    preload: tuple[str, ...]
    warm_up: tuple[str, ...]
    python: str
    environment: dict[str, str]


class Supervisor:
    """Owns the nursery and the workers; its thread starts with the first job."""

    def __init__(self, settings: PoolSettings) -> None:
        self._settings = settings
        self._inbox: deque[Callable[[], None]] = deque()
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None
        self._closed = False
        self._started_or_failed = threading.Event()
        self._ready: Ready | None = None
        # Only the thread touches what follows.
        self._selector: selectors.BaseSelector
        self._crew: WorkerSet
        self._wake_read = self._wake_write = -1
        self._nursery: ForkServerProcess | None = None
        self._nursery_deadline: float | None = None
        self._start_error: tuple[float, str] | None = None
        self._waiting: deque[JobHandle] = deque()

    # ---- from any thread ---------------------------------------------------------------------------------------------

    def resize(self, size: int) -> None:
        """Let up to ``size`` workers live from now on."""
        self._settings = replace(self._settings, size=size)

    def warm_up(self) -> None:
        """Start the nursery if it does not run."""
        self._post(self._ensure_nursery)

    def wait_ready(self, timeout: float | None) -> Ready | None:
        """Wait for the nursery's first start to succeed or fail."""
        self._started_or_failed.wait(timeout)
        return self._ready

    def enqueue(self, ticket: JobHandle) -> None:
        """Queue a job."""
        if not self._post(lambda: self._waiting.append(ticket)):
            ticket.post(Cancelled())

    def abandon(self, ticket: JobHandle) -> None:
        """Drop a job that has its ending already, and kill the worker that runs it."""
        self._post(lambda: self._abandon(ticket))

    def close(self) -> None:
        """End the thread, which ends everything else."""
        with self._lock:
            self._closed = True
            thread = self._thread
        self._started_or_failed.set()
        if thread is not None and thread is not threading.current_thread():
            self._wake()
            thread.join()

    def _post(self, action: Callable[[], None]) -> bool:
        with self._lock:
            if self._closed:
                return False
            self._inbox.append(action)
            if self._thread is None:
                self._wake_read, self._wake_write = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
                self._selector = selectors.DefaultSelector()
                self._crew = WorkerSet(self, self._selector, self._settings.limits)
                self._thread = threading.Thread(target=self._run, name="gpuemu-pool", daemon=True)
                self._thread.start()
            self._wake()
        return True

    def _wake(self) -> None:
        with contextlib.suppress(BlockingIOError, OSError):  # full: it will wake anyway; closed: it has ended
            os.write(self._wake_write, b".")

    # ---- the thread --------------------------------------------------------------------------------------------------

    def _run(self) -> None:
        self._selector.register(self._wake_read, selectors.EVENT_READ, self._on_wake)
        try:
            while not self._closed:
                for key, _ in self._selector.select(self._patience()):
                    key.data()
                while self._inbox:
                    self._inbox.popleft()()
                self._check_deadlines(time.monotonic())
                self._assign()
        except Exception as error:  # an edge: no caller may wait for ever because of a mistake of ours
            _log.exception("the worker pool failed")
            self._shut_down(WorkerDied(f"the worker pool failed: {type(error).__name__}: {error}"))
        else:
            self._shut_down(Cancelled())

    def _on_wake(self) -> None:
        os.read(self._wake_read, 4096)

    def _patience(self) -> float | None:
        """Seconds until the next deadline, None when there is none."""
        moments = [*self._crew.deadlines()]
        if self._nursery_deadline is not None:
            moments.append(self._nursery_deadline)
        return max(0.0, min(moments) - time.monotonic()) if moments else None

    def _check_deadlines(self, now: float) -> None:
        self._crew.check_deadlines(now)
        if self._nursery_deadline is not None and now >= self._nursery_deadline:
            assert self._nursery is not None
            self._nursery.process.kill()

    # ---- the nursery -------------------------------------------------------------------------------------------------

    def _ensure_nursery(self) -> None:
        if self._nursery is not None:
            return
        settings = self._settings
        configuration = {
            "functions": settings.functions,
            "preload": settings.preload,
            "warm_up": settings.warm_up,
            "limits": dataclasses.asdict(settings.limits),
        }
        # Worker processes are the parallelism; BLAS threads on top of them would only fight for the same cores, make
        # the order of additions depend on the machine, and have to be torn down round every fork.
        environment = {"OPENBLAS_NUM_THREADS": "1", "MKL_NUM_THREADS": "1", **settings.environment}
        try:
            self._nursery = ForkServerProcess(settings.python, environment, configuration)
        except OSError as error:
            self._start_failed(f"{settings.python}: {error.strerror}")
            return
        self._nursery_deadline = time.monotonic() + _START_SECONDS
        self._selector.register(self._nursery.control, selectors.EVENT_READ, self._on_nursery)
        self._selector.register(self._nursery.tail.fd, selectors.EVENT_READ, self._on_nursery_output)

    def _on_nursery_output(self) -> None:
        if self._nursery is not None and not self._nursery.tail.drain():
            self._selector.unregister(self._nursery.tail.fd)

    def _on_nursery(self) -> None:
        assert self._nursery is not None
        packets = self._nursery.hear()
        if packets is None:
            self._nursery_gone()
            return
        for packet in packets:
            self._on_packet(packet)

    def _on_packet(self, packet: dict[str, Any]) -> None:
        if "ready" in packet:
            self._ready = Ready(packet["ready"], packet["missing"])
            self._nursery_deadline = None
            self._start_error = None
            self._started_or_failed.set()
        elif "forked" in packet:
            self._crew.forked(packet["forked"], packet["pid"])
        elif "refused" in packet:
            self._crew.refused(packet["refused"], packet["why"])
        elif "exited" in packet:
            self._crew.exited(packet["exited"], packet["status"])

    def _nursery_gone(self) -> None:
        nursery = self._nursery
        assert nursery is not None
        nursery.tail.drain()
        self._drop_nursery(nursery)
        self._settings = replace(self._settings, warm_up=())  # it may have died of that
        self._crew.orphaned()
        if self._nursery_deadline is not None:
            self._nursery_deadline = None
            self._start_failed(nursery.tail.text().strip() or "it ended without a message")

    def _drop_nursery(self, nursery: ForkServerProcess) -> None:
        with contextlib.suppress(KeyError):
            self._selector.unregister(nursery.tail.fd)
        self._selector.unregister(nursery.control)
        nursery.close(_CLOSE_SECONDS)
        self._nursery = None

    def _start_failed(self, why: str) -> None:
        self._start_error = (time.monotonic(), why)
        self._started_or_failed.set()
        self._fail_waiting(why)

    def tell_nursery(self, message: dict[str, Any], fds: tuple[int, ...] = ()) -> None:
        """Send a packet to the nursery, if there is one."""
        if self._nursery is not None:
            self._nursery.tell(message, fds)

    # ---- the queue ---------------------------------------------------------------------------------------------------

    def hand_back(self, ticket: JobHandle) -> None:
        """Put a job back to the front of the queue."""
        self._waiting.appendleft(ticket)

    def _abandon(self, ticket: JobHandle) -> None:
        with contextlib.suppress(ValueError):
            self._waiting.remove(ticket)
        self._crew.abandon(ticket)

    def _assign(self) -> None:
        """Give waiting jobs to workers, first come, first served."""
        if not self._waiting:
            return
        if self._nursery is None:
            if self._start_error is not None and time.monotonic() - self._start_error[0] < _RETRY_SECONDS:
                self._fail_waiting(self._start_error[1])
                return
            self._ensure_nursery()
        if self._nursery is None or self._nursery_deadline is not None:
            return
        while self._waiting:
            worker = self._worker_for(self._waiting[0])
            if worker is None:
                return
            self._crew.hand_over(worker, self._waiting.popleft())

    def _worker_for(self, ticket: JobHandle) -> WorkerProcess | None:
        """Return an idle worker that ran no other user code, or a new one; None when a place must be freed first."""
        idle = [worker for worker in self._crew if worker.idle]
        for taint in dict.fromkeys((ticket.job.taint, None)):
            for worker in idle:
                if worker.taint == taint:
                    return worker
        if len(self._crew) < self._settings.size:
            return self._crew.fork()
        if idle and all(worker.killed_at is None for worker in self._crew):
            self._crew.kill(idle[0])
        return None

    def _fail_waiting(self, why: str) -> None:
        while self._waiting:
            self._waiting.popleft().post(WorkerDied(f"workers cannot be started: {why.splitlines()[-1]}", output=why))

    def _shut_down(self, ending: Ending) -> None:
        with self._lock:
            self._closed = True
        while self._inbox:
            self._inbox.popleft()()
        while self._waiting:
            self._waiting.popleft().post(ending)
        self._crew.dismiss(ending)
        if self._nursery is not None:
            self._drop_nursery(self._nursery)
        self._selector.close()
        self._started_or_failed.set()
        with self._lock:
            os.close(self._wake_read)
            os.close(self._wake_write)
            self._wake_read = self._wake_write = -1
