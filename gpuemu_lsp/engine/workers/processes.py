"""The pool's end of its child processes: descriptors, buffers and state of each."""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import signal
import socket
import subprocess
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from gpuemu_lsp.engine.findings import Json
from gpuemu_lsp.engine.time_limit import run_delay
from gpuemu_lsp.engine.workers import system
from gpuemu_lsp.engine.workers.fork_server import MAX_CONTROL
from gpuemu_lsp.engine.workers.frames import FrameReader, encode
from gpuemu_lsp.engine.workers.job_handle import JobHandle

_BOOT = """\
import sys
root, control = sys.argv[1:]
if root not in sys.path:
    sys.path.insert(0, root)
from gpuemu_lsp.engine.workers.fork_server import main
main(int(control))
"""
_IMPORT_ROOT = Path(__file__).parents[3]
"""The folder that contains our package; the user's interpreter may not have it on its path."""

_MARK = "GPUEMU_POOL"
"""Environment variable with a random value by which the processes of a pool are found."""

_CHUNK = 1 << 16
_MAX_DRAIN = 256
"""Chunks read at a time, so that a process that floods its pipe cannot starve the others."""


class OutputTail:
    """The last ``limit`` bytes that a process printed, read from a pipe without blocking."""

    def __init__(self, fd: int, limit: int) -> None:
        os.set_blocking(fd, False)
        self.fd = fd
        self._limit = limit
        self._data = bytearray()
        self._cut = False

    def drain(self) -> bool:
        """Read what is available; return False at the end of the pipe."""
        for _ in range(_MAX_DRAIN):
            try:
                data = os.read(self.fd, _CHUNK)
            except BlockingIOError:
                return True
            if not data:
                return False
            self._data += data
            if len(self._data) > self._limit:
                del self._data[: -self._limit]
                self._cut = True
        return True

    def text(self) -> str:
        """Return the tail as text, marked with ``[...]`` if the beginning is missing."""
        text = self._data.decode("utf-8", errors="replace")
        return f"[...]\n{text}" if self._cut else text

    def clear(self) -> None:
        """Discard the output of the last job."""
        self._data.clear()
        self._cut = False

    def close(self) -> None:
        """Close the pipe."""
        os.close(self.fd)


@dataclass(slots=True, eq=False)
class WorkerProcess:
    """One worker process, alive or killed and not yet reaped."""

    serial: int
    channel: socket.socket
    tail: OutputTail
    reader: FrameReader = field(default_factory=FrameReader)
    outgoing: bytearray = field(default_factory=bytearray)
    pid: int | None = None
    taint: str | None = None
    jobs: int = 0
    handle: JobHandle | None = None
    stage: str | None = None
    started: float = 0.0
    deadline: float | None = None
    seconds: float | None = None
    """Time limit of its job."""
    delay: float = 0.0
    """Its run delay when it was given the job."""
    retire: bool = False
    killed_at: float | None = None
    accepted: bool = False
    """Whether it has begun its job."""
    channel_closed: bool = False
    """Whether its channel has ended: the process is about to die or can no longer report."""
    kill_reason: str | None = None
    """The reason for killing it, if that is not the job's time limit."""
    output_at_timeout: str | None = None
    """The job's output when its time limit passed; since then the tail receives the stack trace."""

    @property
    def idle(self) -> bool:
        """Whether it can be given a job."""
        return self.handle is None and self.killed_at is None and not self.channel_closed

    def assign(self, handle: JobHandle, now: float, seconds: float | None) -> None:
        """Make ``handle`` this worker's job; :meth:`flush` sends it."""
        job = handle.job
        handle.attempts += 1
        self.handle = handle
        self.taint = job.taint if job.taint is not None else self.taint
        self.jobs += 1
        self.retire |= job.interactive
        self.stage = self.output_at_timeout = None
        self.accepted = False
        self.started = now
        self.seconds, self.delay = seconds, 0.0 if self.pid is None else run_delay(self.pid)
        self.deadline = None if seconds is None else now + self._limit(seconds)
        self.tail.clear()
        self.outgoing += encode({"function": job.function, "payload": job.payload})

    def extend(self, now: float) -> bool:
        """Extend the time limit of its job by the time for which it waited for a processor; False if it has passed."""
        if self.pid is None or self.seconds is None:
            return False
        self.deadline = self.started + self._limit(self.seconds) + run_delay(self.pid) - self.delay
        return self.deadline > now

    def _limit(self, seconds: float) -> float:
        """Return the limit that holds in the job's current stage."""
        first = None if self.handle is None else self.handle.job.first_stage
        return seconds if first is None or self.stage not in (None, first[0]) else min(first[1], seconds)

    def flush(self) -> None:
        """Send as much as the socket accepts without blocking."""
        with contextlib.suppress(BlockingIOError, BrokenPipeError, ConnectionResetError):
            while self.outgoing:
                sent = self.channel.send(self.outgoing[:_CHUNK])
                del self.outgoing[:sent]

    def receive(self) -> tuple[bytes, bool]:
        """Return what the worker sent, at most ``_MAX_DRAIN`` chunks, and whether the stream has ended."""
        data = bytearray()
        for _ in range(_MAX_DRAIN):
            try:
                chunk = self.channel.recv(_CHUNK)
            except BlockingIOError:
                return bytes(data), False
            except ConnectionResetError:
                return bytes(data), True
            if not chunk:
                return bytes(data), True
            data += chunk
        return bytes(data), False

    def close(self) -> None:
        """Close both descriptors."""
        self.channel.close()
        self.tail.close()


class ForkServerProcess:
    """The fork server: its process, control socket and output."""

    def __init__(self, python: str, environment: dict[str, str], configuration: dict[str, Any]) -> None:
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        scratch = tempfile.TemporaryDirectory(prefix="gpuemu-", ignore_cleanup_errors=True)
        self._mark = secrets.token_hex(16)
        with ours, theirs, contextlib.ExitStack() as undo:
            undo.callback(scratch.cleanup)
            self.process = subprocess.Popen(
                [python, "-P", "-c", _BOOT, str(_IMPORT_ROOT), str(theirs.fileno())],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                pass_fds=(theirs.fileno(),),
                start_new_session=True,
                env={**os.environ, **environment, _MARK: self._mark},
            )
            undo.pop_all()
            self.control = ours.dup()
        self._scratch = scratch
        assert self.process.stdout is not None
        self.tail = OutputTail(self.process.stdout.fileno(), _CHUNK)
        self.control.setblocking(True)
        self.send({**configuration, "scratch": self._scratch.name})

    def send(self, message: dict[str, Any], fds: tuple[int, ...] = ()) -> None:
        """Send one control packet; that the fork server is gone is noticed in :meth:`receive`."""
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            socket.send_fds(self.control, [json.dumps(message).encode()], fds)

    def receive(self) -> list[dict[str, Any]] | None:
        """Return the packets available, or None when the fork server is gone."""
        packets: list[dict[str, Any]] = []
        while True:
            try:
                data = self.control.recv(MAX_CONTROL, socket.MSG_DONTWAIT)
            except BlockingIOError:
                return packets
            except ConnectionResetError:
                data = b""
            if not data:
                return packets or None
            packets.append(json.loads(data))

    def close(self, seconds: float) -> None:
        """Let it end its workers and itself; kill it with all its descendants after ``seconds``."""
        self.control.close()
        try:
            killed = self.process.wait(seconds) < 0
        except subprocess.TimeoutExpired:
            # While it exists, it inherits every descendant whose parent ends. Stopped, it starts no others.
            self.process.send_signal(signal.SIGSTOP)
            system.kill_all(lambda: system.descendants(self.process.pid))
            self.process.kill()
            self.process.wait()
            killed = True
        if killed:
            # Processes of jobs have left their sessions and lost their parents. They keep the environment.
            mark = f"{_MARK}={self._mark}".encode()
            system.kill_all(lambda: system.marked(mark))
        assert self.process.stdout is not None
        self.process.stdout.close()
        self._scratch.cleanup()  # the fork server does this itself unless it is killed


def stage_of(event: Json) -> str | None:
    """Return the stage that an event announces, None for any other event."""
    stage = event.get("stage") if isinstance(event, dict) else None
    return stage if isinstance(stage, str) else None
