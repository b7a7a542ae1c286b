"""The workers of a pool: dispatch of jobs, events, deadlines, and the ending of each job.

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
from gpuemu_lsp.engine.workers.model import (
    Cancelled,
    Done,
    Ending,
    Failed,
    Limits,
    Progress,
    Restarted,
    TimedOut,
    WorkerDied,
)
from gpuemu_lsp.engine.workers.processes import OutputTail, WorkerProcess, stage_of
from gpuemu_lsp.engine.workers.worker import EXIT_CHANNEL_LOST
from gpuemu_lsp.engine.workers.worker import __file__ as _WORKER_FILE  # noqa: N812

_log = logging.getLogger(__name__)

_KILL_SECONDS = 2.0
"""Time after which a killed worker that has not exited (uninterruptible sleep) no longer counts towards the size."""
_ATTEMPTS = 3
"""Workers that may die before they begin a job until the job itself fails."""
_TRACE_SECONDS = 0.1
"""Time in which a worker whose job has timed out may write its stack."""


class PoolHost(Protocol):
    """The supervisor, as seen from the worker set."""

    def send_control(self, message: dict[str, Any], fds: tuple[int, ...] = ()) -> None:
        """Send a packet to the fork server."""

    def requeue(self, handle: JobHandle) -> None:
        """Return a job to the front of the queue."""


class WorkerSet:
    """The live workers, and those killed and not yet reaped."""

    def __init__(self, host: PoolHost, selector: selectors.BaseSelector, limits: Limits) -> None:
        self._host = host
        self._selector = selector
        self._limits = limits
        self._workers: dict[int, WorkerProcess] = {}
        self._serial = 0

    def __iter__(self) -> Iterator[WorkerProcess]:
        return iter(list(self._workers.values()))

    def __len__(self) -> int:
        return len(self._workers)

    # ---- dispatch ----------------------------------------------------------------------------------------------------

    def fork(self) -> WorkerProcess:
        """Request a worker. It can be assigned a job at once: the bytes wait in its socket."""
        self._serial += 1
        ours, theirs = socket.socketpair()
        read, write = os.pipe2(os.O_CLOEXEC)
        self._host.send_control({"fork": self._serial}, (theirs.fileno(), write))
        theirs.close()
        os.close(write)
        ours.setblocking(False)
        worker = WorkerProcess(self._serial, ours, OutputTail(read, self._limits.output_bytes))
        self._workers[worker.serial] = worker
        self._selector.register(ours, selectors.EVENT_READ, lambda: self._on_channel(worker))
        self._selector.register(read, selectors.EVENT_READ, lambda: self._on_output(worker))
        return worker

    def assign(self, worker: WorkerProcess, handle: JobHandle) -> None:
        """Give an idle worker a job."""
        job = handle.job
        limit = self._limits.wall_seconds if job.wall_seconds is None else job.wall_seconds
        try:
            worker.assign(handle, time.monotonic(), None if job.interactive else limit)
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

    # ---- messages ----------------------------------------------------------------------------------------------------

    def _on_output(self, worker: WorkerProcess) -> None:
        if worker.serial in self._workers and not worker.tail.drain():
            self._selector.unregister(worker.tail.fd)

    def _on_channel(self, worker: WorkerProcess) -> None:
        if worker.serial not in self._workers or worker.channel_closed:
            return
        if worker.outgoing:
            self._flush(worker)
        if self._read(worker):
            # Either the worker has died, which the fork server will report, or its job closed the channel; then it
            # exits at its next attempt to send.
            self._close_channel(worker)
            if worker.handle is None:
                self.kill(worker)
            elif worker.kill_reason is not None:
                self._host.send_control({"kill": worker.serial})

    def _read(self, worker: WorkerProcess) -> bool:
        """Handle the worker's messages; return True at the end of the stream."""
        data, ended = worker.receive()
        try:
            for message in worker.reader.feed(data):
                if not isinstance(message, dict):
                    raise FrameError("a message is not an object")
                self._on_message(worker, message)
        except FrameError as error:
            worker.kill_reason = f"malformed message from worker: {error}"
            return True
        return ended

    def _on_message(self, worker: WorkerProcess, message: dict[str, Json]) -> None:
        if worker.output_at_timeout is not None:
            return  # it has timed out; the signal that requested its stack may have interrupted a sleep
        if "accepted" in message:
            worker.accepted = True
        elif "event" in message:
            event = message["event"]
            worker.stage = stage_of(event) or worker.stage
            worker.retire |= isinstance(event, dict) and event.get("retire") is True
            if worker.handle is not None:
                worker.handle.post(Progress(event))
        else:
            self._on_last_message(worker, message)

    def _on_last_message(self, worker: WorkerProcess, message: dict[str, Json]) -> None:
        worker.tail.drain()  # complete: the worker flushes its streams before it sends this message
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

    def _close_channel(self, worker: WorkerProcess) -> None:
        if not worker.channel_closed:
            worker.channel_closed = True
            self._selector.unregister(worker.channel)

    # ---- deadlines ---------------------------------------------------------------------------------------------------

    def deadlines(self) -> Iterator[float]:
        """Yield the times at which :meth:`check_deadlines` has something to do."""
        for worker in self._workers.values():
            if worker.killed_at is not None:
                yield worker.killed_at + _KILL_SECONDS
            elif worker.deadline is not None:
                yield worker.deadline

    def check_deadlines(self, now: float) -> None:
        """End jobs whose time limit has passed, and forget killed workers that do not exit."""
        for worker in self:
            if worker.killed_at is not None:
                if now >= worker.killed_at + _KILL_SECONDS:
                    _log.warning("worker %s does not exit after SIGKILL; it is replaced", worker.pid)
                    self._forget(worker)
            elif worker.deadline is not None and now >= worker.deadline:
                self._time_out(worker, now)

    def _time_out(self, worker: WorkerProcess, now: float) -> None:
        """Request the stack of a worker whose time limit has passed; at the second call, end its job and kill it."""
        worker.tail.drain()
        if worker.output_at_timeout is None:
            if worker.extend(now):
                return
            worker.output_at_timeout = worker.tail.text()
            worker.tail.clear()
            worker.deadline = now + _TRACE_SECONDS
            self._host.send_control({"trace": worker.serial})
        else:
            _end(worker, _timed_out(worker, now))
            self.kill(worker)

    # ---- endings -----------------------------------------------------------------------------------------------------

    def kill(self, worker: WorkerProcess) -> None:
        """Kill a worker without a job; it counts towards the size until the fork server reports its exit."""
        worker.killed_at = time.monotonic()
        self._close_channel(worker)
        self._host.send_control({"kill": worker.serial})

    def cancel(self, handle: JobHandle) -> None:
        """Kill the worker that runs a cancelled job, if any."""
        for worker in self:
            if worker.handle is handle:
                _end(worker, Cancelled())
                self.kill(worker)

    def on_forked(self, serial: int, pid: int) -> None:
        """Record the pid of a new worker."""
        if worker := self._workers.get(serial):
            worker.pid = pid

    def on_fork_failed(self, serial: int, reason: str) -> None:
        """Fail the job of a worker that could not be forked."""
        if worker := self._workers.get(serial):
            _end(worker, WorkerDied(f"no process could be started: {reason}"))
            self._forget(worker)

    def on_exit(self, serial: int, status: int) -> None:
        """Handle the exit of a worker: first the messages it sent before, then its job, if it still has one."""
        worker = self._workers.get(serial)
        if worker is None:
            return
        if worker.killed_at is None:
            while worker.kill_reason is None and not self._read(worker):
                pass
        worker.tail.drain()
        code = os.waitstatus_to_exitcode(status)
        if worker.output_at_timeout is not None:
            _end(worker, _timed_out(worker, time.monotonic()))
        elif not self._requeue(worker, killed=code == -signal.SIGKILL):
            _end(worker, _died(worker, code))
        self._forget(worker)

    def on_fork_server_exit(self) -> None:
        """Handle the death of the fork server, and of all workers with it. The cause is unknown."""
        for worker in self:
            if worker.pid is not None:
                with contextlib.suppress(ProcessLookupError, PermissionError):
                    os.killpg(worker.pid, signal.SIGKILL)  # the workers' own children have no subreaper left
            if not self._requeue(worker, killed=True):
                reason = "the worker pool's fork server was killed"
                _end(worker, WorkerDied(reason, worker.stage, output=worker.tail.text()))
            self._forget(worker)

    def drop_all(self, ending: Ending) -> None:
        """End every job with ``ending`` and forget every worker; the fork server kills the processes."""
        for worker in self:
            _end(worker, ending)
            self._forget(worker)

    def _requeue(self, worker: WorkerProcess, killed: bool) -> bool:
        """Requeue a job that its dead worker had not begun, or that may begin again; return False if it ends instead.

        ``killed`` says that the worker did not end by what it did.
        """
        handle = worker.handle
        if handle is None or worker.kill_reason is not None:
            return False
        if worker.accepted:
            if not killed or handle.restarts >= handle.job.restarts:
                return False
            handle.restarts += 1
            handle.post(Restarted())
        elif handle.attempts >= _ATTEMPTS:
            return False
        worker.handle = None
        self._host.requeue(handle)
        return True

    def _forget(self, worker: WorkerProcess) -> None:
        self._close_channel(worker)
        with contextlib.suppress(KeyError):  # unregistered already if its output pipe has ended
            self._selector.unregister(worker.tail.fd)
        worker.close()
        del self._workers[worker.serial]


def _end(worker: WorkerProcess, ending: Ending) -> None:
    if worker.handle is not None:
        worker.handle.post(ending)
    worker.handle = None
    worker.deadline = None


def _timed_out(worker: WorkerProcess, now: float) -> TimedOut:
    """Return the ending of a job whose time limit has passed. The stack is cut where the worker calls the job."""
    frames = worker.tail.text().splitlines(keepends=True)
    end = next((index for index, line in enumerate(frames) if _WORKER_FILE in line), len(frames))
    return TimedOut(now - worker.started, worker.stage, worker.output_at_timeout or "", "".join(frames[:end]))


def _died(worker: WorkerProcess, code: int) -> WorkerDied:
    """Return the ending of a job whose process exited with ``code``; negative codes are signals."""
    output = worker.tail.text()
    if worker.kill_reason is not None:
        return WorkerDied(worker.kill_reason, worker.stage, output=output)
    if code == EXIT_CHANNEL_LOST:
        return WorkerDied("it closed the channel it reports on", worker.stage, exit_code=code, output=output)
    if code >= 0:
        return WorkerDied(f"it exited with code {code}", worker.stage, exit_code=code, output=output)
    name = signal.Signals(-code).name
    hint = " (out of memory?)" if -code == signal.SIGKILL else ""
    return WorkerDied(f"it was killed by {name}{hint}", worker.stage, signal=-code, output=output)
