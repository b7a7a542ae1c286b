"""The thread that owns all processes of a pool: starts, feeds, times, kills and replaces them.

Every decision is taken on this one thread. Other threads only append to the inbox and wake it.
"""

from __future__ import annotations

import contextlib
import dataclasses
import logging
import os
import selectors
import signal
import socket
import threading
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from gpuemu_lsp.engine.findings import Json
from gpuemu_lsp.engine.workers.frames import FrameError
from gpuemu_lsp.engine.workers.handles import Nursery, Tail, Worker, stage_of
from gpuemu_lsp.engine.workers.model import (
    Cancelled,
    Done,
    Ending,
    Failed,
    Limits,
    Progress,
    Ready,
    TimedOut,
    WorkerDied,
)
from gpuemu_lsp.engine.workers.worker import EXIT_CHANNEL_LOST
from gpuemu_lsp.engine.workers.worker import __file__ as _WORKER_FILE  # noqa: N812

if TYPE_CHECKING:
    from gpuemu_lsp.engine.workers.pool import Ticket

_log = logging.getLogger(__name__)

_START_SECONDS = 60.0
"""How long the nursery may import."""
_RETRY_SECONDS = 5.0
"""After a failed start, jobs fail at once for this long instead of trying again."""
_KILL_SECONDS = 2.0
"""A killed worker that is not gone by then (uninterruptible sleep) gives its place in the pool to another."""
_CLOSE_SECONDS = 0.3
_ATTEMPTS = 3
"""How often a job is handed to a worker that dies before it begins."""
_TRACE_SECONDS = 0.1
"""How long a worker whose time is up may take to write where it is."""


@dataclass(frozen=True, slots=True)
class Settings:
    """What a pool was made with."""

    functions: dict[str, str]
    size: int
    limits: Limits
    preload: tuple[str, ...]
    python: str
    environment: dict[str, str]


class Supervisor:
    """Owns the nursery and the workers; its thread starts with the first job."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._inbox: deque[Callable[[], None]] = deque()
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None
        self._closed = False
        self._started_or_failed = threading.Event()
        self._ready: Ready | None = None
        # Only the thread touches what follows.
        self._selector: selectors.BaseSelector
        self._wake_read = self._wake_write = -1
        self._nursery: Nursery | None = None
        self._nursery_deadline: float | None = None
        self._start_error: tuple[float, str] | None = None
        self._workers: dict[int, Worker] = {}
        self._waiting: deque[Ticket] = deque()
        self._serial = 0

    # ---- from any thread ---------------------------------------------------------------------------------------------

    def warm_up(self) -> None:
        """Start the nursery if it does not run."""
        self._post(self._ensure_nursery)

    def wait_ready(self, timeout: float | None) -> Ready | None:
        """Wait for the nursery's first start to succeed or fail."""
        self._started_or_failed.wait(timeout)
        return self._ready

    def enqueue(self, ticket: Ticket) -> None:
        """Queue a job."""
        if not self._post(lambda: self._waiting.append(ticket)):
            ticket.post(Cancelled())

    def abandon(self, ticket: Ticket) -> None:
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
                self._thread = threading.Thread(target=self._run, name="gpuemu-pool", daemon=True)
                self._thread.start()
            self._wake()
        return True

    def _wake(self) -> None:
        with contextlib.suppress(BlockingIOError, OSError):  # full: it will wake anyway; closed: it has ended
            os.write(self._wake_write, b".")

    # ---- the thread --------------------------------------------------------------------------------------------------

    def _run(self) -> None:
        self._selector = selectors.DefaultSelector()
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
        moments = [worker.deadline for worker in self._workers.values() if worker.deadline is not None]
        killed = [worker.killed_at for worker in self._workers.values() if worker.killed_at is not None]
        moments += [moment + _KILL_SECONDS for moment in killed]
        if self._nursery_deadline is not None:
            moments.append(self._nursery_deadline)
        return max(0.0, min(moments) - time.monotonic()) if moments else None

    def _check_deadlines(self, now: float) -> None:
        for worker in list(self._workers.values()):
            if worker.killed_at is not None:
                if now >= worker.killed_at + _KILL_SECONDS:
                    _log.warning("worker %s does not die; its place is given to another", worker.pid)
                    self._forget(worker)
            elif worker.deadline is not None and now >= worker.deadline:
                self._time_out(worker, now)
        if self._nursery_deadline is not None and now >= self._nursery_deadline:
            assert self._nursery is not None
            self._nursery.process.kill()

    def _time_out(self, worker: Worker, now: float) -> None:
        """End a job whose time is up: first have its process write its stack, then kill it."""
        worker.tail.drain()
        if worker.spoken is None and self._nursery is not None:
            worker.spoken = worker.tail.text()
            worker.tail.clear()
            worker.deadline = now + _TRACE_SECONDS
            self._nursery.tell({"trace": worker.serial})
            return
        self._end(worker, _overrun(worker, now))
        self._kill(worker)

    # ---- the nursery -------------------------------------------------------------------------------------------------

    def _ensure_nursery(self) -> None:
        if self._nursery is not None:
            return
        settings = self._settings
        configuration = {
            "functions": settings.functions,
            "preload": settings.preload,
            "limits": dataclasses.asdict(settings.limits),
        }
        # Worker processes are the parallelism; BLAS threads on top of them would only fight for the same cores, make
        # the order of additions depend on the machine, and have to be torn down round every fork.
        environment = {"OPENBLAS_NUM_THREADS": "1", "MKL_NUM_THREADS": "1", **settings.environment}
        try:
            self._nursery = Nursery(settings.python, environment, configuration)
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
            if worker := self._workers.get(packet["forked"]):
                worker.pid = packet["pid"]
        elif "refused" in packet:
            if worker := self._workers.get(packet["refused"]):
                self._end(worker, WorkerDied(f"no process could be started: {packet['why']}"))
                self._forget(worker)
        elif "exited" in packet and (worker := self._workers.get(packet["exited"])):
            self._worker_gone(worker, packet["status"])

    def _nursery_gone(self) -> None:
        """Its workers have died with it. None of them is to blame, and what they were doing cannot be told apart."""
        nursery = self._nursery
        assert nursery is not None
        nursery.tail.drain()
        self._drop_nursery(nursery)
        for worker in list(self._workers.values()):
            if worker.pid is not None:
                with contextlib.suppress(ProcessLookupError, PermissionError):
                    os.killpg(worker.pid, signal.SIGKILL)
            if not self._hand_back(worker):
                reason = "the process that watches over the workers was killed"
                self._end(worker, WorkerDied(reason, worker.stage, output=worker.tail.text()))
            self._forget(worker)
        if self._nursery_deadline is not None:
            self._nursery_deadline = None
            self._start_failed(nursery.tail.text().strip() or "it ended without a message")

    def _drop_nursery(self, nursery: Nursery) -> None:
        with contextlib.suppress(KeyError):
            self._selector.unregister(nursery.tail.fd)
        self._selector.unregister(nursery.control)
        nursery.close(_CLOSE_SECONDS)
        self._nursery = None

    def _start_failed(self, why: str) -> None:
        self._start_error = (time.monotonic(), why)
        self._started_or_failed.set()
        self._fail_waiting(why)

    def _fail_waiting(self, why: str) -> None:
        while self._waiting:
            self._waiting.popleft().post(WorkerDied(f"workers cannot be started: {why.splitlines()[-1]}", output=why))

    # ---- the workers -------------------------------------------------------------------------------------------------

    def _assign(self) -> None:
        """Give waiting jobs to workers, first come, first served."""
        while self._waiting and self._waiting[0].ended:
            self._waiting.popleft()
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
            ticket = self._waiting[0]
            if ticket.ended:
                self._waiting.popleft()
                continue
            worker = self._worker_for(ticket)
            if worker is None:
                return
            self._waiting.popleft()
            self._hand_over(worker, ticket)

    def _worker_for(self, ticket: Ticket) -> Worker | None:
        """Return an idle worker that ran no other user code, or a new one; None when a place must be freed first."""
        idle = [worker for worker in self._workers.values() if worker.idle]
        for taint in dict.fromkeys((ticket.job.taint, None)):
            for worker in idle:
                if worker.taint == taint:
                    return worker
        if len(self._workers) < self._settings.size:
            return self._fork()
        if idle and all(worker.killed_at is None for worker in self._workers.values()):
            self._kill(idle[0])
        return None

    def _fork(self) -> Worker:
        assert self._nursery is not None
        self._serial += 1
        ours, theirs = socket.socketpair()
        read, write = os.pipe2(os.O_CLOEXEC)
        self._nursery.tell({"fork": self._serial}, (theirs.fileno(), write))
        theirs.close()
        os.close(write)
        ours.setblocking(False)
        worker = Worker(self._serial, ours, Tail(read, self._settings.limits.output_bytes))
        self._workers[worker.serial] = worker
        self._selector.register(ours, selectors.EVENT_READ, lambda: self._on_channel(worker))
        self._selector.register(read, selectors.EVENT_READ, lambda: self._on_output(worker))
        return worker

    def _hand_over(self, worker: Worker, ticket: Ticket) -> None:
        limit = ticket.job.wall_seconds
        try:
            worker.assign(ticket, time.monotonic(), self._settings.limits.wall_seconds if limit is None else limit)
        except (TypeError, ValueError) as error:  # a payload that is not JSON
            self._end(worker, Failed(type(error).__name__, str(error), ""))
            return
        self._flush(worker)

    def _flush(self, worker: Worker) -> None:
        worker.flush()
        if worker.silent:
            return
        events = selectors.EVENT_READ | (selectors.EVENT_WRITE if worker.outgoing else 0)
        key = self._selector.get_key(worker.channel)
        if key.events != events:
            self._selector.modify(worker.channel, events, key.data)

    def _on_channel(self, worker: Worker) -> None:
        if worker.serial not in self._workers or worker.killed_at is not None:
            return
        if worker.outgoing:
            self._flush(worker)
        if self._read(worker):
            # It has died, as the nursery will report, or the job closed the channel: then it dies when it next speaks.
            self._selector.unregister(worker.channel)
            worker.silent = True
            if worker.verdict is not None or worker.ticket is None:
                self._ask_to_kill(worker)

    def _read(self, worker: Worker) -> bool:
        """Take in the worker's messages; True when there will be no more."""
        data, ended = worker.receive()
        try:
            for message in worker.reader.feed(data):
                if not isinstance(message, dict):
                    raise FrameError("a message is not an object")
                self._on_message(worker, message)
        except FrameError as error:
            worker.verdict = f"what it sent makes no sense: {error}"
            return True
        return ended

    def _on_output(self, worker: Worker) -> None:
        if worker.serial in self._workers and not worker.tail.drain():
            self._selector.unregister(worker.tail.fd)

    def _on_message(self, worker: Worker, message: dict[str, Json]) -> None:
        if worker.spoken is not None:
            return  # its time is up; the signal that asked for its stack may have woken it
        if "accepted" in message:
            worker.accepted = True
            return
        if "event" in message:
            event = message["event"]
            worker.stage = stage_of(event) or worker.stage
            worker.retire |= isinstance(event, dict) and event.get("retire") is True
            if worker.ticket is not None:
                worker.ticket.post(Progress(event))
            return
        worker.tail.drain()  # all of it is in the pipe: the worker flushed before it sent this
        output = worker.tail.text()
        if "failed" in message:
            kind, text, trace = (str(message[key]) for key in ("failed", "message", "traceback"))
            self._end(worker, Failed(kind, text, trace, worker.stage, output))
        else:
            self._end(worker, Done(output, (time.monotonic() - worker.started) * 1000))
        limits = self._settings.limits
        resident = message.get("resident")
        too_big = limits.resident_bytes is not None and isinstance(resident, int) and resident > limits.resident_bytes
        if worker.retire or message.get("retire") is True or too_big or worker.jobs >= limits.jobs_per_worker:
            self._kill(worker)

    def _end(self, worker: Worker, ending: Ending) -> None:
        if worker.ticket is not None:
            worker.ticket.post(ending)
        worker.ticket = None
        worker.deadline = None

    def _abandon(self, ticket: Ticket) -> None:
        for worker in self._workers.values():
            if worker.ticket is ticket:
                self._end(worker, Cancelled())
                self._kill(worker)
                return
        with contextlib.suppress(ValueError):
            self._waiting.remove(ticket)

    def _kill(self, worker: Worker) -> None:
        """Have the nursery kill a worker whose job has its ending; the place is free when it reports the exit."""
        worker.killed_at = time.monotonic()
        self._ask_to_kill(worker)

    def _ask_to_kill(self, worker: Worker) -> None:
        if self._nursery is not None:
            self._nursery.tell({"kill": worker.serial})

    def _worker_gone(self, worker: Worker, status: int) -> None:
        """Its process has ended. What it had sent before counts; then the job, if any, ends with it."""
        if worker.killed_at is None:
            while worker.verdict is None and not self._read(worker):
                pass
        worker.tail.drain()
        if worker.spoken is not None:
            self._end(worker, _overrun(worker, time.monotonic()))
        elif worker.ticket is not None and not self._hand_back(worker):
            self._end(worker, _death(worker, os.waitstatus_to_exitcode(status)))
        self._forget(worker)

    def _hand_back(self, worker: Worker) -> bool:
        """Put a job that its dead worker had not begun back to the front of the queue: it is not to blame."""
        ticket = worker.ticket
        if ticket is None or worker.accepted or worker.verdict is not None or ticket.attempts >= _ATTEMPTS:
            return False
        worker.ticket = None
        self._waiting.appendleft(ticket)
        return True

    def _forget(self, worker: Worker) -> None:
        for fileobj in (worker.channel, worker.tail.fd):
            with contextlib.suppress(KeyError):
                self._selector.unregister(fileobj)
        worker.close()
        self._workers.pop(worker.serial, None)

    def _shut_down(self, ending: Ending) -> None:
        with self._lock:
            self._closed = True
        while self._inbox:
            self._inbox.popleft()()
        for worker in list(self._workers.values()):
            self._end(worker, ending)
        while self._waiting:
            self._waiting.popleft().post(ending)
        if self._nursery is not None:
            self._drop_nursery(self._nursery)
        for worker in list(self._workers.values()):
            self._forget(worker)
        self._selector.close()
        self._started_or_failed.set()
        with self._lock:
            os.close(self._wake_read)
            os.close(self._wake_write)
            self._wake_read = self._wake_write = -1


def _overrun(worker: Worker, now: float) -> TimedOut:
    """Describe a job whose time was up. The stack ends where the worker calls the job."""
    frames = worker.tail.text().splitlines(keepends=True)
    end = next((index for index, line in enumerate(frames) if _WORKER_FILE in line), len(frames))
    return TimedOut(now - worker.started, worker.stage, worker.spoken or "", "".join(frames[:end]))


def _death(worker: Worker, code: int) -> WorkerDied:
    """Say how a process ended, from its exit code (negative: a signal) and from what we did to it."""
    output = worker.tail.text()
    if worker.verdict is not None:
        return WorkerDied(worker.verdict, worker.stage, output=output)
    if code == EXIT_CHANNEL_LOST:
        return WorkerDied("it closed the channel it reports on", worker.stage, exit_code=code, output=output)
    if code >= 0:
        return WorkerDied(f"it exited with code {code}", worker.stage, exit_code=code, output=output)
    name = signal.Signals(-code).name
    hint = " (out of memory?)" if -code == signal.SIGKILL else ""
    return WorkerDied(f"it was killed by {name}{hint}", worker.stage, signal=-code, output=output)
