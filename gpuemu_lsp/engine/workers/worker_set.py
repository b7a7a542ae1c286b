"""The workers of a pool: feeds them, listens to them, times them, and says how each job ended.

Everything here runs on the supervisor's thread.
"""

from __future__ import annotations

import contextlib
import logging
import os
import selectors
import signal
import socket
import time
from collections.abc import Iterator
from typing import Any, Protocol

from gpuemu_lsp.engine.findings import Json
from gpuemu_lsp.engine.workers.frames import FrameError
from gpuemu_lsp.engine.workers.job_handle import JobHandle
from gpuemu_lsp.engine.workers.model import Cancelled, Done, Ending, Failed, Limits, Progress, TimedOut, WorkerDied
from gpuemu_lsp.engine.workers.processes import OutputTail, WorkerProcess, stage_of
from gpuemu_lsp.engine.workers.worker import EXIT_CHANNEL_LOST
from gpuemu_lsp.engine.workers.worker import __file__ as _WORKER_FILE  # noqa: N812

_log = logging.getLogger(__name__)

_KILL_SECONDS = 2.0
"""A killed worker that is not gone by then (uninterruptible sleep) gives its place in the pool to another."""
_ATTEMPTS = 3
"""How often a job is handed to a worker that dies before it begins."""
_TRACE_SECONDS = 0.1
"""How long a worker whose time is up may take to write where it is."""


class PoolHost(Protocol):
    """What the crew needs of the supervisor."""

    def tell_nursery(self, message: dict[str, Any], fds: tuple[int, ...] = ()) -> None:
        """Send a packet to the nursery."""

    def hand_back(self, ticket: JobHandle) -> None:
        """Put a job back to the front of the queue."""


class WorkerSet:
    """The live workers, and those told to die and not yet gone."""

    def __init__(self, office: PoolHost, selector: selectors.BaseSelector, limits: Limits) -> None:
        self._office = office
        self._selector = selector
        self._limits = limits
        self._workers: dict[int, WorkerProcess] = {}
        self._serial = 0

    def __iter__(self) -> Iterator[WorkerProcess]:
        return iter(list(self._workers.values()))

    def __len__(self) -> int:
        return len(self._workers)

    # ---- giving work -------------------------------------------------------------------------------------------------

    def fork(self) -> WorkerProcess:
        """Have the nursery fork a worker. It can be given a job at once: the bytes wait in its socket."""
        self._serial += 1
        ours, theirs = socket.socketpair()
        read, write = os.pipe2(os.O_CLOEXEC)
        self._office.tell_nursery({"fork": self._serial}, (theirs.fileno(), write))
        theirs.close()
        os.close(write)
        ours.setblocking(False)
        worker = WorkerProcess(self._serial, ours, OutputTail(read, self._limits.output_bytes))
        self._workers[worker.serial] = worker
        self._selector.register(ours, selectors.EVENT_READ, lambda: self._on_channel(worker))
        self._selector.register(read, selectors.EVENT_READ, lambda: self._on_output(worker))
        return worker

    def hand_over(self, worker: WorkerProcess, ticket: JobHandle) -> None:
        """Give an idle worker a job."""
        limit = ticket.job.wall_seconds
        try:
            worker.assign(ticket, time.monotonic(), self._limits.wall_seconds if limit is None else limit)
        except (TypeError, ValueError) as error:  # a payload that is not JSON
            _end(worker, Failed(type(error).__name__, str(error), ""))
            return
        self._flush(worker)

    def _flush(self, worker: WorkerProcess) -> None:
        worker.flush()
        events = selectors.EVENT_READ | (selectors.EVENT_WRITE if worker.outgoing else 0)
        key = self._selector.get_key(worker.channel)
        if key.events != events:
            self._selector.modify(worker.channel, events, key.data)

    # ---- listening ---------------------------------------------------------------------------------------------------

    def _on_output(self, worker: WorkerProcess) -> None:
        if worker.serial in self._workers and not worker.tail.drain():
            self._selector.unregister(worker.tail.fd)

    def _on_channel(self, worker: WorkerProcess) -> None:
        if worker.serial not in self._workers or worker.silent:
            return
        if worker.outgoing:
            self._flush(worker)
        if self._read(worker):
            # It has died, as the nursery will report, or the job closed the channel: then it dies when it next speaks.
            self._stop_listening(worker)
            if worker.ticket is None:
                self.kill(worker)
            elif worker.verdict is not None:
                self._office.tell_nursery({"kill": worker.serial})

    def _read(self, worker: WorkerProcess) -> bool:
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

    def _on_message(self, worker: WorkerProcess, message: dict[str, Json]) -> None:
        if worker.spoken is not None:
            return  # its time is up; the signal that asked for its stack may have woken it
        if "accepted" in message:
            worker.accepted = True
        elif "event" in message:
            event = message["event"]
            worker.stage = stage_of(event) or worker.stage
            worker.retire |= isinstance(event, dict) and event.get("retire") is True
            if worker.ticket is not None:
                worker.ticket.post(Progress(event))
        else:
            self._on_last_message(worker, message)

    def _on_last_message(self, worker: WorkerProcess, message: dict[str, Json]) -> None:
        worker.tail.drain()  # all of it is in the pipe: the worker flushed before it sent this
        output = worker.tail.text()
        if "failed" in message:
            kind, text, trace = (str(message.get(key)) for key in ("failed", "message", "traceback"))
            _end(worker, Failed(kind, text, trace, worker.stage, output))
        else:
            _end(worker, Done(output, (time.monotonic() - worker.started) * 1000))
        limit, resident = self._limits.resident_bytes, message.get("resident")
        too_big = limit is not None and isinstance(resident, int) and resident > limit
        if worker.retire or message.get("retire") is True or too_big or worker.jobs >= self._limits.jobs_per_worker:
            self.kill(worker)

    def _stop_listening(self, worker: WorkerProcess) -> None:
        if not worker.silent:
            worker.silent = True
            self._selector.unregister(worker.channel)

    # ---- time --------------------------------------------------------------------------------------------------------

    def deadlines(self) -> Iterator[float]:
        """Yield the moments at which :meth:`check_deadlines` has something to do."""
        for worker in self._workers.values():
            if worker.killed_at is not None:
                yield worker.killed_at + _KILL_SECONDS
            elif worker.deadline is not None:
                yield worker.deadline

    def check_deadlines(self, now: float) -> None:
        """End what has run too long, and stop waiting for what does not die."""
        for worker in self:
            if worker.killed_at is not None:
                if now >= worker.killed_at + _KILL_SECONDS:
                    _log.warning("worker %s does not die; its place is given to another", worker.pid)
                    self._forget(worker)
            elif worker.deadline is not None and now >= worker.deadline:
                self._time_out(worker, now)

    def _time_out(self, worker: WorkerProcess, now: float) -> None:
        """End a job whose time is up: first have its process write its stack, then kill it."""
        worker.tail.drain()
        if worker.spoken is None:
            worker.spoken = worker.tail.text()
            worker.tail.clear()
            worker.deadline = now + _TRACE_SECONDS
            self._office.tell_nursery({"trace": worker.serial})
        else:
            _end(worker, _overrun(worker, now))
            self.kill(worker)

    # ---- ending ------------------------------------------------------------------------------------------------------

    def kill(self, worker: WorkerProcess) -> None:
        """Have a worker killed whose job has its ending; its place is free when the nursery reports the exit."""
        worker.killed_at = time.monotonic()
        self._stop_listening(worker)
        self._office.tell_nursery({"kill": worker.serial})

    def abandon(self, ticket: JobHandle) -> None:
        """Kill the worker that runs a cancelled job, if one does."""
        for worker in self:
            if worker.ticket is ticket:
                _end(worker, Cancelled())
                self.kill(worker)

    def forked(self, serial: int, pid: int) -> None:
        """Note the pid of a new worker."""
        if worker := self._workers.get(serial):
            worker.pid = pid

    def refused(self, serial: int, why: str) -> None:
        """Take note that the nursery could not fork."""
        if worker := self._workers.get(serial):
            _end(worker, WorkerDied(f"no process could be started: {why}"))
            self._forget(worker)

    def exited(self, serial: int, status: int) -> None:
        """Take note of a death. What the worker had sent before counts; then its job, if any, ends with it."""
        worker = self._workers.get(serial)
        if worker is None:
            return
        if worker.killed_at is None:
            while worker.verdict is None and not self._read(worker):
                pass
        worker.tail.drain()
        if worker.spoken is not None:
            _end(worker, _overrun(worker, time.monotonic()))
        elif not self._hand_back(worker):
            _end(worker, _death(worker, os.waitstatus_to_exitcode(status)))
        self._forget(worker)

    def orphaned(self) -> None:
        """Take note that the nursery has died, and all workers with it; which of them was to blame cannot be told."""
        for worker in self:
            if worker.pid is not None:
                with contextlib.suppress(ProcessLookupError, PermissionError):
                    os.killpg(worker.pid, signal.SIGKILL)  # what the worker started has no one else to end it
            if not self._hand_back(worker):
                reason = "the process that watches over the workers was killed"
                _end(worker, WorkerDied(reason, worker.stage, output=worker.tail.text()))
            self._forget(worker)

    def dismiss(self, ending: Ending) -> None:
        """End every job in the same way and let go of every worker. The processes are the nursery's business."""
        for worker in self:
            _end(worker, ending)
            self._forget(worker)

    def _hand_back(self, worker: WorkerProcess) -> bool:
        """Return a job that its dead worker had not begun to the queue: it is not to blame."""
        ticket = worker.ticket
        if ticket is None or worker.accepted or worker.verdict is not None or ticket.attempts >= _ATTEMPTS:
            return False
        worker.ticket = None
        self._office.hand_back(ticket)
        return True

    def _forget(self, worker: WorkerProcess) -> None:
        self._stop_listening(worker)
        with contextlib.suppress(KeyError):  # its pipe may have ended before
            self._selector.unregister(worker.tail.fd)
        worker.close()
        del self._workers[worker.serial]


def _end(worker: WorkerProcess, ending: Ending) -> None:
    if worker.ticket is not None:
        worker.ticket.post(ending)
    worker.ticket = None
    worker.deadline = None


def _overrun(worker: WorkerProcess, now: float) -> TimedOut:
    """Describe a job whose time was up. The stack ends where the worker calls the job."""
    frames = worker.tail.text().splitlines(keepends=True)
    end = next((index for index, line in enumerate(frames) if _WORKER_FILE in line), len(frames))
    return TimedOut(now - worker.started, worker.stage, worker.spoken or "", "".join(frames[:end]))


def _death(worker: WorkerProcess, code: int) -> WorkerDied:
    """Say how a process ended, from its exit code (negative: a signal) and from what it did before."""
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
