"""The daemon: one pool of workers, and one request at a time, run as the command of its client."""

from __future__ import annotations

import contextlib
import fcntl
import io
import os
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TextIO

import gpuemu_lsp
from gpuemu_lsp.cli import main as command
from gpuemu_lsp.cli.commands import check as check  # imported before the first request needs it
from gpuemu_lsp.cli.daemon.address import (
    ACCEPTED,
    STARTED,
    decode,
    identity,
    is_own,
    open_folder,
    path_in,
    receive,
    socket_name,
)
from gpuemu_lsp.engine.jobs.pools import open_pool
from gpuemu_lsp.engine.report.source_lines import forget as forget_lines
from gpuemu_lsp.engine.workers.job_handle import JobHandle
from gpuemu_lsp.engine.workers.model import Event, Job
from gpuemu_lsp.engine.workers.pool import Pool

_IDLE_SECONDS = 600.0
_LOOK_SECONDS = 1.0
"""How often it is looked whether the project's folder is still there."""
_REQUEST_SECONDS = 2.0
_MOST_BYTES = 8 << 20


@dataclass(frozen=True, slots=True)
class ClientCommand:
    """A command of a client: its folder, arguments, environment, and where and how it is written to.

    ``streams`` are descriptors of the client's standard output and error.
    """

    folder: str
    arguments: tuple[str, ...]
    environment: dict[str, str]
    encoding: str
    errors: str
    error_encoding: str
    mask: int
    streams: tuple[int, int]


class LentPool:
    """The daemon's pool for one client, whose jobs are cancelled when the client is gone."""

    def __init__(self, pool: Pool) -> None:
        self._pool = pool
        self._handles: list[JobHandle] = []
        self._lock = threading.Lock()
        self._cancelled = False

    def resize(self, workers: int) -> None:
        """Allow up to this number of workers."""
        self._pool.resize(workers)

    def submit(self, job: Job, on_event: Callable[[Event], None]) -> JobHandle:
        """Queue a job, as :meth:`Pool.submit` does."""
        handle = self._pool.submit(job, on_event)
        with self._lock:
            self._handles.append(handle)
            cancelled = self._cancelled
        if cancelled:
            handle.cancel()
        return handle

    def cancel(self) -> None:
        """Cancel all jobs, and those that are still submitted."""
        with self._lock:
            self._cancelled = True
            handles = list(self._handles)
        for handle in handles:
            handle.cancel()


def serve(project: str) -> int:
    """Serve the clients of a project until nothing keeps the daemon; return 0, also if another one serves them."""
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(0))
    common = identity(project, os.environ)
    name = socket_name(common)
    folder = open_folder()
    with Path(path_in(folder, f"{name}.lock")).open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            return 0
        path = path_in(folder, name)
        with contextlib.suppress(FileNotFoundError):
            Path(path).unlink()  # of a daemon that was killed
        with socket.socket(socket.AF_UNIX) as listener, open_pool(None, lasting=True) as pool:
            listener.bind(path)
            listener.listen()
            os.chdir("/")
            socket_file = _inode(path)
            try:
                _serve(listener, pool, common, lambda: _inode(path) == socket_file)
            finally:
                if _inode(path) == socket_file:
                    Path(path).unlink()
    return 0


def _serve(listener: socket.socket, pool: Pool, common: str, reachable: Callable[[], bool]) -> None:
    project = common.split("\n", 1)[0]
    folder, package = _inode(project), _code_folders()
    code = _stamps(package)
    listener.settimeout(_LOOK_SECONDS)
    last = time.monotonic()
    while time.monotonic() - last < _IDLE_SECONDS and _inode(project) == folder and reachable():
        try:
            connection, _ = listener.accept()
        except TimeoutError:
            continue
        with connection:
            if _stamps(package) != code:
                return  # installed again: the client runs its check itself, the next one starts the new version
            _answer(connection, pool, common)
        last = time.monotonic()


def _answer(connection: socket.socket, pool: Pool, common: str) -> None:
    """Run the command of a client, and send its exit code."""
    if not is_own(connection):
        return
    connection.settimeout(_REQUEST_SECONDS)
    streams: list[int] = []
    try:
        connection.sendall(ACCEPTED)
        request = _request(connection, common, streams)
        if request is None:
            return
        connection.sendall(STARTED)
        connection.settimeout(None)
        lent = LentPool(pool)
        ended = threading.Event()
        watcher = threading.Thread(target=_watch, args=(connection, lent, ended), daemon=True)
        with _as_client(request):
            watcher.start()
            code = command.main(request.arguments, lent)
            ended.set()
        lent.cancel()
        with contextlib.suppress(OSError):
            connection.sendall(bytes((code,)))
            connection.shutdown(socket.SHUT_RD)
        watcher.join()
    except (OSError, ValueError):
        return  # the client is gone, or sent something else
    finally:
        for stream in streams:
            os.close(stream)


def _request(connection: socket.socket, common: str, streams: list[int]) -> ClientCommand | None:
    """Receive a request, whose descriptors are added to ``streams``; None if it is meant for another daemon."""
    head, descriptors, _, _ = socket.recv_fds(connection, 4, 2, socket.MSG_CMSG_CLOEXEC)
    streams += descriptors
    size = int.from_bytes(head + receive(connection, 4 - len(head)), "big")
    if not 0 < size <= _MOST_BYTES:
        return None
    (given, folder, *output), arguments, environment = decode(receive(connection, size))
    if given != common or len(streams) != 2:
        return None
    variables = dict(item.partition("=")[::2] for item in environment)
    encoding, errors, error_encoding, mask = output
    return ClientCommand(
        folder, tuple(arguments), variables, encoding, errors, error_encoding, int(mask), (streams[0], streams[1])
    )


@contextlib.contextmanager
def _as_client(request: ClientCommand) -> Iterator[None]:
    """Have folder, environment, file mode and standard streams of the client for the block."""
    own = [os.dup(1), os.dup(2)]
    before, mask = dict(os.environ), os.umask(request.mask)
    os.chdir(request.folder)
    forget_lines()
    try:
        _set_environment(request.environment)
        for number, given in enumerate(request.streams, start=1):
            os.dup2(given, number)
        sys.stdout = _stream(1, request.encoding, request.errors)
        sys.stderr = _stream(2, request.error_encoding, "backslashreplace")
        yield
    finally:
        for stream in (sys.stdout, sys.stderr):
            with contextlib.suppress(OSError):
                stream.flush()
        sys.stdout, sys.stderr = sys.__stdout__, sys.__stderr__
        for number, kept in enumerate(own, start=1):
            os.dup2(kept, number)
            os.close(kept)
        _set_environment(before)
        os.umask(mask)
        os.chdir("/")


def _stream(descriptor: int, encoding: str, errors: str) -> TextIO:
    return io.TextIOWrapper(io.FileIO(descriptor, "w", closefd=False), encoding, errors, write_through=True)


def _set_environment(variables: dict[str, str]) -> None:
    os.environ.clear()
    os.environ.update(variables)


def _watch(connection: socket.socket, lent: LentPool, ended: threading.Event) -> None:
    """Wait for the end of a client; if it comes before that of its command, cancel the command and write nothing."""
    with contextlib.suppress(OSError):
        connection.recv(1)
    if not ended.is_set():
        null = os.open(os.devnull, os.O_WRONLY)
        os.dup2(null, 1)
        os.dup2(null, 2)
        os.close(null)
        lent.cancel()


def _inode(path: str) -> tuple[int, int] | None:
    try:
        status = Path(path).stat()
    except OSError:
        return None
    return status.st_dev, status.st_ino


def _code_folders() -> list[Path]:
    """Return the folders of the package."""
    package = Path(gpuemu_lsp.__file__).parent
    return [Path(path) for path, _, _ in os.walk(package) if not path.endswith("__pycache__")]


def _stamps(folders: list[Path]) -> list[tuple[int, int] | None]:
    """Return when each folder was changed: an installation replaces the files in it."""
    stamps: list[tuple[int, int] | None] = []
    for folder in folders:
        try:
            status = folder.stat()
        except OSError:
            stamps.append(None)
        else:
            stamps.append((status.st_ino, status.st_mtime_ns))
    return stamps


if __name__ == "__main__":
    sys.exit(serve(sys.argv[1]))
