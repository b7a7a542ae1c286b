"""Processes that never outlive this one: each is started by a supervisor, which also ends what it has started."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType

_SUPERVISOR = Path(__file__).with_name("supervisor.py")
_NO_REPORT = -1
_END_SECONDS = 5.0

_folders: list[str] = []
"""Temporary folders in use, which a supervisor removes if this process is killed."""

_running: set[subprocess.Popen[str]] = set()


@contextlib.contextmanager
def temporary_folder(prefix: str, parent: Path | None = None) -> Iterator[str]:
    """Make a folder, which is removed at the end, or by the supervisors of the body if this process is killed."""
    with tempfile.TemporaryDirectory(prefix=prefix, dir=parent, ignore_cleanup_errors=True) as folder:
        _folders.append(folder)
        try:
            yield folder
        finally:
            _folders.remove(folder)


def run_supervised(
    command: Sequence[str],
    *,
    capture: bool = False,
    source: str | None = None,
    folder: str | None = None,
    environment: Mapping[str, str] = MappingProxyType({}),
    seconds: float | None = None,
) -> subprocess.CompletedProcess[str]:
    """Run a command to its end as ``subprocess.run`` does; exit status 127 if it cannot be started.

    ``capture`` captures its standard error, ``source`` is its input, ``folder`` its working directory, and
    ``environment`` is added to that of this process. An interrupt ends it.

    Raises
    ------
    subprocess.TimeoutExpired
        If it takes longer than ``seconds``; it has ended then.
    """
    pipe = subprocess.PIPE if capture else None
    with _started(
        _words(command, _NO_REPORT),
        stdin=subprocess.PIPE if source is not None else None,
        stderr=pipe,
        text=True,
        cwd=folder,
        env={**os.environ, **environment},
    ) as process:
        try:
            _, errors = process.communicate(source, seconds)
        except BaseException:
            _end(process)
            raise
        finally:
            _running.discard(process)
    return subprocess.CompletedProcess(command, process.returncode, "", errors)


def end_all() -> None:
    """End the commands that threads of this process run."""
    for process in tuple(_running):
        _end(process)


class SupervisedProgram:
    """A program that runs: ``status`` is what ``wait`` returned for it, None until it has ended.

    ``on_end`` is called in a thread when it ends. ``left`` counts the processes that it had left running.

    Raises
    ------
    OSError
        If the program cannot be started.
    """

    def __init__(
        self,
        command: Sequence[str],
        environment: Mapping[str, str],
        descriptors: Sequence[int],
        on_end: Callable[[], None],
    ) -> None:
        self.status: int | None = None
        self.left = 0
        self._on_end = on_end
        self._error: int | None = None
        reader, writer = os.pipe()
        try:
            self._process = _started(_words(command, writer), env=dict(environment), pass_fds=(*descriptors, writer))
        except BaseException:
            os.close(reader)
            raise
        finally:
            os.close(writer)
        self._thread = threading.Thread(target=self._watch, args=(reader,), name="program's end", daemon=True)
        self._thread.start()

    def wait(self, seconds: float) -> None:
        """Wait until everything has ended.

        Raises
        ------
        subprocess.TimeoutExpired
            If it takes longer.
        OSError
            If the program could not be started.
        """
        self._process.wait(seconds)
        self._thread.join(_END_SECONDS)
        if self._error is not None:
            raise OSError(self._error, os.strerror(self._error))

    def end(self) -> None:
        """End the program and all that it has started, if it has not ended."""
        _end(self._process)
        _running.discard(self._process)
        self._thread.join(_END_SECONDS)

    def _watch(self, reader: int) -> None:
        with os.fdopen(reader) as reports:
            for report in reports:
                kind, _, number = report.partition(" ")
                if kind == "error":
                    self._error = int(number)
                elif kind == "ended":
                    self.status = int(number)
                    self._on_end()
                else:
                    self.left = int(number)
        self._on_end()


def _words(command: Sequence[str], report: int) -> list[str]:
    own = [sys.executable, "-I", "-S", str(_SUPERVISOR), str(os.getpid()), str(report)]
    return [*own, str(len(_folders)), *_folders, *command]


def _started(words: list[str], **options: object) -> subprocess.Popen[str]:
    # An interrupt must not end the supervisor, whose Python has a handler for it until the script runs.
    held = (signal.SIGINT, signal.SIGHUP, signal.SIGQUIT, signal.SIGTERM)
    before = signal.pthread_sigmask(signal.SIG_BLOCK, held)
    try:
        process: subprocess.Popen[str] = subprocess.Popen(words, **options)  # type: ignore[call-overload]
        _running.add(process)
        return process
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _end(process: subprocess.Popen[str]) -> None:
    if process.poll() is None:
        process.terminate()
        try:
            process.wait(_END_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
