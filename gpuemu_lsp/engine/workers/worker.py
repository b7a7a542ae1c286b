"""The worker process: receives jobs on its channel, runs them, and streams the values they yield.

User code runs here and may do anything: print, fork, exit, close descriptors. Therefore the channel is a descriptor
with a high number that forked children close, standard output is a pipe that is never parsed, and changes of process
state by a job are reverted or make the worker request its own replacement.
"""

from __future__ import annotations

import contextlib
import faulthandler
import fcntl
import importlib
import locale
import os
import resource
import signal
import sys
import threading
import traceback
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, NoReturn

from gpuemu_lsp.engine import host_threads
from gpuemu_lsp.engine.findings import Json
from gpuemu_lsp.engine.workers import system
from gpuemu_lsp.engine.workers.frames import FrameReader, encode
from gpuemu_lsp.engine.workers.model import Limits

EXIT_CHANNEL_LOST = 71
"""Exit code of a worker whose job closed the channel."""
TRACE_SIGNAL = signal.SIGUSR2
"""Makes a worker write its Python stack to standard error, even while it runs C code (faulthandler)."""

_TRACEBACK_LIMIT = 40


def serve(channel: int, output: int, functions: Mapping[str, str], limits: Limits, parent: int) -> NoReturn:
    """Run jobs from ``channel`` until it ends; never returns. Called in the newly forked process.

    Parameters
    ----------
    channel, output : int
        Descriptors: the framed stream to the pool, and the pipe for standard output and error.
    functions : Mapping[str, str]
        Job name to ``module:function``.
    limits : Limits
        Resource limits of this process.
    parent : int
        Pid of the process that forked this one.
    """
    os.setsid()
    system.die_with_parent(parent)
    system.become_subreaper()
    system.prefer_as_oom_victim()
    for number in (1, 2):
        os.dup2(output, number)
    os.close(output)
    channel = _move_up(channel)
    os.register_at_fork(after_in_child=lambda: _close_quietly(channel))
    system.limit(resource.RLIMIT_DATA, limits.memory_bytes)
    system.limit(resource.RLIMIT_FSIZE, limits.file_bytes)
    system.limit(resource.RLIMIT_CORE, 0)
    host_threads.choose(limits.threads)
    faulthandler.enable(2)
    faulthandler.register(TRACE_SIGNAL, file=2, all_threads=False)
    _JobLoop(channel, functions).run()


def _move_up(fd: int) -> int:
    """Move ``fd`` to a high number, where code that closes all low descriptors does not reach it."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    high = fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, max(3, min(soft, 1024) - 32))
    os.close(fd)
    return high


def _close_quietly(fd: int) -> None:
    with contextlib.suppress(OSError):
        os.close(fd)


class _JobLoop:
    def __init__(self, channel: int, functions: Mapping[str, str]) -> None:
        self._channel = channel
        self._functions = functions
        self._reader = FrameReader()
        self._pid = os.getpid()

    def run(self) -> NoReturn:
        state = _ProcessState.take()
        for message in self._messages():
            assert isinstance(message, dict)
            self._send({"accepted": True})
            ending = self._run(str(message["function"]), message["payload"])
            state.flush()
            left_threads = threading.active_count() > 1
            left_children = system.has_children() and system.kill_children(spare=system.kept_children())
            restored = state.restore()
            ending["retire"] = left_threads or left_children or not restored
            ending["resident"] = system.resident_bytes()
            self._send(ending)
        os._exit(0)

    def _messages(self) -> Iterator[Json]:
        while data := self._receive():
            yield from self._reader.feed(data)

    def _receive(self) -> bytes:
        try:
            return os.read(self._channel, 1 << 16)
        except OSError:
            os._exit(EXIT_CHANNEL_LOST)

    def _run(self, name: str, payload: Json) -> dict[str, Json]:
        try:
            for event in self._resolve(name)(payload):
                self._leave_if_forked()
                self._send({"event": event})
        except BaseException as error:  # user code may raise SystemExit and KeyboardInterrupt too
            self._leave_if_forked()
            return {
                "failed": type(error).__name__,
                "message": str(error),
                "traceback": "".join(traceback.format_exception(error, limit=-_TRACEBACK_LIMIT)),
            }
        self._leave_if_forked()
        return {"done": True}

    def _resolve(self, name: str) -> Callable[[Json], Iterator[Json]]:
        module, _, function = self._functions[name].partition(":")
        job_function: Callable[[Json], Iterator[Json]] = getattr(importlib.import_module(module), function)
        return job_function

    def _leave_if_forked(self) -> None:
        """Exit if this is a child that user code forked and that returned into the loop: it must not send messages."""
        if os.getpid() != self._pid:
            os._exit(0)

    def _send(self, message: Json) -> None:
        rest = memoryview(encode(message))
        while rest:
            try:
                rest = rest[os.write(self._channel, rest) :]
            except OSError:
                os._exit(EXIT_CHANNEL_LOST)


@dataclass(frozen=True, slots=True)
class _ProcessState:
    """The parts of a process' state that user code commonly changes and that can be restored."""

    directory: int
    umask: int
    environment: dict[str, str]
    path: list[str]
    arguments: list[str]
    streams: tuple[Any, Any, Any]
    descriptors: tuple[int, int, int]
    locale: str
    handlers: dict[int, Any]
    recursion: int

    @staticmethod
    def take() -> _ProcessState:
        umask = os.umask(0o077)
        os.umask(umask)
        return _ProcessState(
            directory=_move_up(os.open(".", os.O_RDONLY | os.O_DIRECTORY)),
            umask=umask,
            environment=dict(os.environ),
            path=list(sys.path),
            arguments=list(sys.argv),
            streams=(sys.stdin, sys.stdout, sys.stderr),
            descriptors=(_move_up(os.dup(0)), _move_up(os.dup(1)), _move_up(os.dup(2))),
            locale=locale.setlocale(locale.LC_ALL),
            handlers={number: signal.getsignal(number) for number in signal.valid_signals()},
            recursion=sys.getrecursionlimit(),
        )

    def flush(self) -> None:
        """Write buffered output of Python and C to the current standard output and error."""
        for stream in self.streams[1:]:
            with contextlib.suppress(OSError, ValueError):  # closed, as a descriptor or as an object
                stream.flush()
        system.flush_c_streams()

    def restore(self) -> bool:
        """Restore the state; return False if a closed stream cannot be reopened."""
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.pthread_sigmask(signal.SIG_SETMASK, ())
        for number, handler in self.handlers.items():
            if handler is not None and signal.getsignal(number) is not handler:
                signal.signal(number, handler)
        for number, saved in enumerate(self.descriptors):
            os.dup2(saved, number)
        sys.stdin, sys.stdout, sys.stderr = self.streams
        os.fchdir(self.directory)
        os.umask(self.umask)
        if dict(os.environ) != self.environment:
            os.environ.clear()
            os.environ.update(self.environment)
        sys.path[:] = self.path
        sys.argv[:] = self.arguments
        locale.setlocale(locale.LC_ALL, self.locale)
        sys.setrecursionlimit(self.recursion)
        return not any(stream.closed for stream in self.streams)
