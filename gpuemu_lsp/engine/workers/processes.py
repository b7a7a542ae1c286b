"""The pool's side of its child processes: descriptors, buffers, and what is known of each."""

from __future__ import annotations

import contextlib
import json
import os
import socket
import subprocess
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from gpuemu_lsp.engine.findings import Json
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
"""The folder that holds our package: an interpreter of the user's does not have it on its path."""

_CHUNK = 1 << 16
_MAX_DRAIN = 256
"""Chunks taken at a time, so that one flooding process cannot keep the supervisor for itself."""


class OutputTail:
    """The last ``limit`` bytes of what a process printed, read from a pipe without blocking."""

    def __init__(self, fd: int, limit: int) -> None:
        os.set_blocking(fd, False)
        self.fd = fd
        self._limit = limit
        self._data = bytearray()
        self._cut = False

    def drain(self) -> bool:
        """Take in what is there; False once the pipe has ended."""
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
        """Return the tail as text; a note says when the beginning is missing."""
        text = self._data.decode("utf-8", errors="replace")
        return f"[...]\n{text}" if self._cut else text

    def clear(self) -> None:
        """Forget everything, before the next job."""
        self._data.clear()
        self._cut = False

    def close(self) -> None:
        """Close the pipe."""
        os.close(self.fd)


@dataclass(slots=True, eq=False)
class WorkerProcess:
    """One worker process: alive, or told to die and not yet gone."""

    serial: int
    channel: socket.socket
    tail: OutputTail
    reader: FrameReader = field(default_factory=FrameReader)
    outgoing: bytearray = field(default_factory=bytearray)
    pid: int | None = None
    taint: str | None = None
    jobs: int = 0
    ticket: JobHandle | None = None
    stage: str | None = None
    started: float = 0.0
    deadline: float | None = None
    retire: bool = False
    killed_at: float | None = None
    accepted: bool = False
    """Whether it has begun with its job."""
    silent: bool = False
    """Whether its channel has ended: it is about to die, or cannot speak any more."""
    verdict: str | None = None
    """Why we killed it, where that is not the job's own time limit."""
    spoken: str | None = None
    """What the job had printed when its time was up; the tail holds its stack since then."""

    @property
    def idle(self) -> bool:
        """Whether it can be given a job."""
        return self.ticket is None and self.killed_at is None and not self.silent

    def assign(self, ticket: JobHandle, now: float, seconds: float | None) -> None:
        """Hand ``ticket`` to this worker; the bytes leave with :meth:`flush`."""
        job = ticket.job
        ticket.attempts += 1
        self.ticket = ticket
        self.taint = job.taint if job.taint is not None else self.taint
        self.jobs += 1
        self.stage = self.spoken = None
        self.accepted = False
        self.started = now
        self.deadline = None if seconds is None else now + seconds
        self.tail.clear()
        self.outgoing += encode({"function": job.function, "payload": job.payload})

    def flush(self) -> None:
        """Send as much as the socket takes."""
        with contextlib.suppress(BlockingIOError, BrokenPipeError, ConnectionResetError):
            while self.outgoing:
                sent = self.channel.send(self.outgoing[:_CHUNK])
                del self.outgoing[:sent]

    def receive(self) -> tuple[bytes, bool]:
        """Return what the worker sent, at most a few chunks, and whether the stream has ended."""
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
    """The nursery process, seen from the pool. Must be created on a thread that outlives it."""

    def __init__(self, python: str, environment: dict[str, str], configuration: dict[str, Any]) -> None:
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        scratch = tempfile.TemporaryDirectory(prefix="gpuemu-", ignore_cleanup_errors=True)
        with ours, theirs, contextlib.ExitStack() as undo:
            undo.callback(scratch.cleanup)
            self.process = subprocess.Popen(
                [python, "-P", "-c", _BOOT, str(_IMPORT_ROOT), str(theirs.fileno())],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                pass_fds=(theirs.fileno(),),
                start_new_session=True,
                env={**os.environ, **environment},
            )
            undo.pop_all()
            self.control = ours.dup()
        self._scratch = scratch
        assert self.process.stdout is not None
        self.tail = OutputTail(self.process.stdout.fileno(), _CHUNK)
        self.control.setblocking(True)
        self.tell({**configuration, "scratch": self._scratch.name})

    def tell(self, message: dict[str, Any], fds: tuple[int, ...] = ()) -> None:
        """Send one packet; a nursery that is gone is noticed where its packets are read."""
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            socket.send_fds(self.control, [json.dumps(message).encode()], fds)

    def hear(self) -> list[dict[str, Any]] | None:
        """Return the packets that wait, or None when the nursery is gone."""
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
        """Let it end its workers and itself; kill it if that takes longer than ``seconds``."""
        self.control.close()
        try:
            self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        assert self.process.stdout is not None
        self.process.stdout.close()
        self._scratch.cleanup()  # it did this itself, unless it was killed


def stage_of(event: Json) -> str | None:
    """Return the stage an event announces, if it does."""
    stage = event.get("stage") if isinstance(event, dict) else None
    return stage if isinstance(stage, str) else None
