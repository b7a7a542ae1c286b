"""The supervisor thread, which owns all processes of a pool: starts, feeds, times, kills and replaces them.

Every decision is taken on this thread. Other threads only append to the inbox and wake it.
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
"""Time limit of the fork server's imports."""
_RETRY_SECONDS = 5.0
"""Time after a failed start during which jobs fail at once instead of starting the fork server again."""
_CLOSE_SECONDS = 0.3
"""Time in which the fork server must end all its children before it is killed itself."""


@dataclass(frozen=True, slots=True)
class PoolSettings:
    """The parameters of a pool: ``size`` processes at most, ``spare`` more that wait for a job."""

    functions: dict[str, str]
    size: int
    spare: int
    limits: Limits
    preload: tuple[str, ...]
    warm_up: tuple[str, ...]
    python: str
    environment: dict[str, str]


class Supervisor:
    """Owner of the fork server and the workers; its thread starts with the first job."""

    def __init__(self, settings: PoolSettings) -> None:
        self._settings = settings
        self._inbox: deque[Callable[[], None]] = deque()
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None
        self._closed = False
        self._started_or_failed = threading.Event()
        self._ready: Ready | None = None
        # The attributes below belong to the supervisor thread.
        self._selector: selectors.BaseSelector
        self._workers: WorkerSet
        self._wake_read = self._wake_write = -1
        self._fork_server: ForkServerProcess | None = None
        self._start_deadline: float | None = None
        self._start_error: tuple[float, str] | None = None
        self._queue: deque[JobHandle] = deque()

    # ---- from any thread ---------------------------------------------------------------------------------------------

    def resize(self, size: int) -> None:
        """Allow up to ``size`` processes from now on."""
        self._settings = replace(self._settings, size=size)

    def warm_up(self) -> None:
        """Start the fork server if it does not run."""
        self._post(self._ensure_fork_server)

    def wait_ready(self, timeout: float | None) -> Ready | None:
        """Wait until the first start of the fork server has succeeded or failed."""
        self._started_or_failed.wait(timeout)
        return self._ready

    def enqueue(self, handle: JobHandle) -> None:
        """Queue a job."""
        if not self._post(lambda: self._append(handle)):
            handle.post(Cancelled())

    def cancel(self, handle: JobHandle) -> None:
        """Remove a job that has its ending already from the queue, or kill the worker that runs it."""
        self._post(lambda: self._cancel(handle))

    def close(self) -> None:
        """End the thread, which ends all jobs and processes."""
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
                self._workers = WorkerSet(self, self._selector, self._settings.limits)
                self._thread = threading.Thread(target=self._run, name="gpuemu-pool", daemon=True)
                self._thread.start()
            self._wake()
        return True

    def _wake(self) -> None:
        with contextlib.suppress(BlockingIOError, OSError):  # a full pipe wakes it anyway; a closed one: it has ended
            os.write(self._wake_write, b".")

    # ---- the thread --------------------------------------------------------------------------------------------------

    def _run(self) -> None:
        self._selector.register(self._wake_read, selectors.EVENT_READ, self._on_wake)
        try:
            while not self._closed:
                for key, _ in self._selector.select(self._timeout()):
                    key.data()
                while self._inbox:
                    self._inbox.popleft()()
                self._check_deadlines(time.monotonic())
                self._assign()
        except Exception as error:  # no caller may wait for ever because of an internal error
            _log.exception("the worker pool failed")
            self._shut_down(WorkerDied(f"the worker pool failed: {type(error).__name__}: {error}"))
        else:
            self._shut_down(Cancelled())

    def _on_wake(self) -> None:
        os.read(self._wake_read, 4096)

    def _timeout(self) -> float | None:
        """Return the seconds until the next deadline, None if there is none."""
        moments = [*self._workers.deadlines()]
        if self._start_deadline is not None:
            moments.append(self._start_deadline)
        return max(0.0, min(moments) - time.monotonic()) if moments else None

    def _check_deadlines(self, now: float) -> None:
        self._workers.check_deadlines(now)
        if self._start_deadline is not None and now >= self._start_deadline:
            assert self._fork_server is not None
            self._fork_server.process.kill()

    # ---- the fork server ---------------------------------------------------------------------------------------------

    def _ensure_fork_server(self) -> None:
        if self._fork_server is not None:
            return
        settings = self._settings
        configuration = {
            "functions": settings.functions,
            "preload": settings.preload,
            "warm_up": settings.warm_up,
            "limits": dataclasses.asdict(settings.limits),
        }
        # Worker processes are the parallelism. BLAS threads in addition would compete for the same cores, make the
        # order of additions depend on the machine, and have to be stopped and restarted around every fork.
        environment = {"OPENBLAS_NUM_THREADS": "1", "MKL_NUM_THREADS": "1", **settings.environment}
        try:
            self._fork_server = ForkServerProcess(settings.python, environment, configuration)
        except OSError as error:
            self._start_failed(f"{settings.python}: {error.strerror}")
            return
        self._start_deadline = time.monotonic() + _START_SECONDS
        self._selector.register(self._fork_server.control, selectors.EVENT_READ, self._on_control)
        self._selector.register(self._fork_server.tail.fd, selectors.EVENT_READ, self._on_fork_server_output)

    def _on_fork_server_output(self) -> None:
        if self._fork_server is not None and not self._fork_server.tail.drain():
            self._selector.unregister(self._fork_server.tail.fd)

    def _on_control(self) -> None:
        assert self._fork_server is not None
        packets = self._fork_server.receive()
        if packets is None:
            self._on_fork_server_exit()
            return
        for packet in packets:
            self._on_packet(packet)

    def _on_packet(self, packet: dict[str, Any]) -> None:
        if "ready" in packet:
            self._ready = Ready(packet["ready"], packet["missing"])
            self._start_deadline = None
            self._start_error = None
            self._started_or_failed.set()
        elif "forked" in packet:
            self._workers.on_forked(packet["forked"], packet["pid"])
        elif "fork_failed" in packet:
            self._workers.on_fork_failed(packet["fork_failed"], packet["reason"])
        elif "exited" in packet:
            self._workers.on_exit(packet["exited"], packet["status"])

    def _on_fork_server_exit(self) -> None:
        server = self._fork_server
        assert server is not None
        server.tail.drain()
        self._drop_fork_server(server)
        self._settings = replace(self._settings, warm_up=())  # a warm-up step may have crashed it
        self._workers.on_fork_server_exit()
        if self._start_deadline is not None:
            self._start_deadline = None
            self._start_failed(server.tail.text().strip() or "it ended without a message")

    def _drop_fork_server(self, server: ForkServerProcess) -> None:
        with contextlib.suppress(KeyError):
            self._selector.unregister(server.tail.fd)
        self._selector.unregister(server.control)
        server.close(_CLOSE_SECONDS)
        self._fork_server = None

    def _start_failed(self, reason: str) -> None:
        self._start_error = (time.monotonic(), reason)
        self._started_or_failed.set()
        self._fail_queue(reason)

    def send_control(self, message: dict[str, Any], fds: tuple[int, ...] = ()) -> None:
        """Send a packet to the fork server, if it runs."""
        if self._fork_server is not None:
            self._fork_server.send(message, fds)

    # ---- the queue ---------------------------------------------------------------------------------------------------

    def requeue(self, handle: JobHandle) -> None:
        """Return a job to the front of the queue."""
        self._queue.appendleft(handle)

    def _append(self, handle: JobHandle) -> None:
        """Queue a job: one that waits for no other before those that do."""
        if handle.job.interactive:
            self._queue.appendleft(handle)
        else:
            self._queue.append(handle)

    def _cancel(self, handle: JobHandle) -> None:
        with contextlib.suppress(ValueError):
            self._queue.remove(handle)
        self._workers.cancel(handle)

    def _assign(self) -> None:
        """Assign queued jobs to workers, first come, first served."""
        if not self._queue:
            return
        if self._fork_server is None:
            if self._start_error is not None and time.monotonic() - self._start_error[0] < _RETRY_SECONDS:
                self._fail_queue(self._start_error[1])
                return
            self._ensure_fork_server()
        if self._fork_server is None or self._start_deadline is not None:
            return
        while self._queue:
            worker = self._worker_for(self._queue[0])
            if worker is None:
                return
            self._workers.assign(worker, self._queue.popleft())

    def _worker_for(self, handle: JobHandle) -> WorkerProcess | None:
        """Return an idle worker that has run no other user code, or a new one; None if the pool is full.

        An interactive job has a new one in any case.

        If only workers with other user code are idle, that of the oldest job is killed, and a new one can be forked
        after its exit.
        """
        if handle.job.interactive:
            return self._workers.fork()
        counted = [worker for worker in self._workers if worker.handle is None or not worker.handle.job.interactive]
        if sum(worker.handle is not None for worker in counted) >= self._settings.size:
            return None
        idle = [worker for worker in counted if worker.idle]
        for taint in dict.fromkeys((handle.job.taint, None)):
            for worker in idle:
                if worker.taint == taint:
                    return worker
        if len(counted) < self._settings.size + self._settings.spare:
            return self._workers.fork()
        if idle and all(worker.killed_at is None for worker in counted):
            self._workers.kill(min(idle, key=lambda worker: worker.started))
        return None

    def _fail_queue(self, reason: str) -> None:
        ending = WorkerDied(f"workers cannot be started: {reason.splitlines()[-1]}", output=reason)
        while self._queue:
            self._queue.popleft().post(ending)

    def _shut_down(self, ending: Ending) -> None:
        with self._lock:
            self._closed = True
        while self._inbox:
            self._inbox.popleft()()
        while self._queue:
            self._queue.popleft().post(ending)
        self._workers.drop_all(ending)
        if self._fork_server is not None:
            self._drop_fork_server(self._fork_server)
        self._selector.close()
        self._started_or_failed.set()
        with self._lock:
            os.close(self._wake_read)
            os.close(self._wake_write)
            self._wake_read = self._wake_write = -1
