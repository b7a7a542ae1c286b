"""Runs of scripts in an interpreter that is started once: :mod:`.script_server` describes the other side.

Starting Python and importing NumPy takes longer than most references, which are evaluated about a dozen times for a
case. A server is kept for all scripts of its interpreter, also between the jobs of a worker, and started again where a
package was installed or removed since, or a call did not return.
"""

from __future__ import annotations

import array
import atexit
import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import IO, Any

from gpuemu_lsp.engine.oracle.scripts import script_server
from gpuemu_lsp.engine.workers import system

_SERVER = Path(__file__).with_name("script_server.py")
_STARTUP = ("PYTHON", "LD_", "OMP_", "OPENBLAS_", "MKL_")
"""Prefixes of environment variables that only the start of an interpreter or an import reads."""


@dataclass(frozen=True, slots=True)
class ScriptRun:
    """How a script ended: exit code, negative for a signal; its standard streams; the report of a traced run."""

    status: int
    output: bytes
    errors: bytes
    report: bytes


class ScriptServerError(Exception):
    """The interpreter cannot be started, or its process has ended; the message is for the user."""


@dataclass(slots=True)
class _Server:
    """The process of an interpreter, from which the processes of scripts are forked."""

    pid: int
    connection: socket.socket
    process: subprocess.Popen[bytes] | None = None
    folders: tuple[str, ...] = ()
    installed: tuple[int, ...] = ()
    received: bytes = b""

    def run(self, request: Mapping[str, Any], document: bytes) -> ScriptRun:
        """Run a script; the process is ended if the run is interrupted."""
        with contextlib.ExitStack() as stack:
            files = [stack.enter_context(_file()) for _ in range(4)]
            files[0].write(document)
            files[0].seek(0)
            descriptors = array.array("i", [file.fileno() for file in files])
            pid, status, seconds = 0, None, 0.0
            try:
                data = json.dumps(request).encode() + b"\n"
                sent = self.connection.sendmsg([data], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, descriptors)])
                self.connection.sendall(data[sent:])
                pid = int(self._answer()["pid"])
                answer = self._answer()
                status, seconds = int(answer["status"]), float(answer["seconds"])
            except OSError as error:
                raise ScriptServerError(f"the process of the interpreter ended: {error}") from error
            finally:
                if status is None:
                    self.end(pid)
            texts = []
            for file in files[1:]:
                file.seek(0)
                texts.append(file.read())
        _spent.seconds += seconds
        return ScriptRun(status, *texts)

    def start(self) -> None:
        """Wait until the interpreter has started."""
        self.folders = tuple(self._answer()["folders"])
        self.installed = _changed(self.folders)

    def is_current(self) -> bool:
        """Return whether the process runs, and no package was installed since it was started."""
        return self._runs() and self.installed == _changed(self.folders)

    def end(self, script: int = 0) -> None:
        """End the process, and that of a script with all that it has started."""
        self.connection.close()
        if not self.pid:
            return  # it has ended; waitpid(0) would wait for any child of this process group
        for stop, pid in ((os.kill, script), (os.killpg, script), (os.kill, self.pid)):
            if pid:
                with contextlib.suppress(ProcessLookupError, PermissionError):
                    stop(pid, signal.SIGKILL)
        with contextlib.suppress(ChildProcessError):
            os.waitpid(self.pid, 0)
        self._forget()

    def _runs(self) -> bool:
        try:
            runs = self.pid != 0 and os.waitpid(self.pid, os.WNOHANG) == (0, 0)
        except ChildProcessError:
            runs = False
        if not runs:
            self._forget()
        return runs

    def _forget(self) -> None:
        system.keep_child(self.pid, kept=False)
        self.pid = 0  # which may be that of another process now
        if self.process is not None:
            self.process.returncode = 0

    def _answer(self) -> dict[str, Any]:
        while b"\n" not in self.received:
            data = self.connection.recv(1 << 16)
            if not data:
                raise ConnectionResetError("no answer")
            self.received += data
        line, _, self.received = self.received.partition(b"\n")
        found: dict[str, Any] = json.loads(line)
        return found


@dataclass(slots=True)
class _Servers:
    """The servers of this process by interpreter, modules and environment; those of a parent are not used."""

    owner: int = 0
    by_key: dict[tuple[Any, ...], _Server] = field(default_factory=dict)
    lock: threading.RLock = field(default_factory=threading.RLock)


_servers = _Servers()


class _Spent(threading.local):
    """Processor time of the scripts that a thread has run."""

    seconds = 0.0


_spent = _Spent()


def processor_seconds() -> float:
    """Return the processor time of this thread and of the scripts that it has run, as of a clock.

    Unlike the time of a clock on the wall it hardly depends on what else the machine does.
    """
    return time.thread_time() + _spent.seconds


def run_script(
    python: str, path: str, document: bytes, modules: tuple[str, ...] = (), traced: Mapping[str, Any] | None = None
) -> ScriptRun:
    """Run a script with a document as its standard input, in its own folder and in a process of its own.

    Parameters
    ----------
    python : str
        The interpreter.
    path : str
        The script.
    document : bytes
        Its standard input.
    modules : tuple of str
        Modules that are imported before, in each process once.
    traced : Mapping, optional
        How :mod:`.traced_scripts` runs it, in place of a plain run.

    Raises
    ------
    ScriptServerError
        If the interpreter cannot be started.
    """
    environment = {**os.environ, "PYTHONDONTWRITEBYTECODE": "1"}
    request = {"path": str(Path(path).absolute()), "environment": environment, "traced": traced}
    with _servers.lock:
        for attempt in range(2):
            key, server = _server(python, modules, environment)
            try:
                return server.run(request, document)
            except ScriptServerError:
                # Such as a process that ended with the thread that had started it.
                if attempt:
                    raise
            finally:
                if not server.pid:
                    _servers.by_key.pop(key, None)
    raise AssertionError


def _server(python: str, modules: tuple[str, ...], environment: Mapping[str, str]) -> tuple[Any, _Server]:
    if _servers.owner != os.getpid():
        # A forked process: the servers are its parent's.
        for one in _servers.by_key.values():
            one.connection.close()
        _servers.owner, _servers.by_key = os.getpid(), {}
    settings = {name: value for name, value in environment.items() if name.startswith(_STARTUP)}
    key = (python, modules, tuple(sorted(settings.items())))
    server = _servers.by_key.get(key)
    if server is not None and not server.is_current():
        server.end()
        server = None
    if server is None:
        server = _servers.by_key[key] = _started(python, modules, environment)
    return key, server


def _started(python: str, modules: tuple[str, ...], environment: Mapping[str, str]) -> _Server:
    ours, theirs = socket.socketpair()
    with theirs:
        try:
            server = _forked(ours, theirs) if modules and _may_fork() else _executed(ours, theirs, python, modules)
        except OSError as error:
            ours.close()
            raise ScriptServerError(f"the interpreter {python} cannot be started: {error.strerror}") from error
    system.keep_child(server.pid)
    try:
        server.start()
    except OSError as error:
        server.end()
        raise ScriptServerError(f"the interpreter {python} cannot be started") from error
    except BaseException:
        server.end()
        raise
    return server


def _executed(ours: socket.socket, theirs: socket.socket, python: str, modules: tuple[str, ...]) -> _Server:
    number = theirs.fileno()
    process = subprocess.Popen(
        [python, str(_SERVER), str(number), *modules],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        pass_fds=(number,),
        start_new_session=True,
        preexec_fn=partial(system.die_with_parent, os.getpid()),
    )
    return _Server(process.pid, ours, process)


def _may_fork() -> bool:
    """Return whether this process can be the server of its own modules, which takes seconds to import.

    Threads do not exist in a forked process, and the locks that they held stay closed there: those of Python, and of
    PyTorch once it has computed.
    """
    return threading.active_count() == 1 and "torch" not in sys.modules


def _forked(ours: socket.socket, theirs: socket.socket) -> _Server:
    parent, pid = os.getpid(), os.fork()
    if pid == 0:
        try:
            ours.close()
            os.setsid()
            system.die_with_parent(parent)
            script_server.main(theirs, [])
        finally:
            os._exit(1)
    return _Server(pid, ours)


def _changed(folders: tuple[str, ...]) -> tuple[int, ...]:
    """Return when entries of some folders were added or removed last, in nanoseconds; 0 for one that is not there."""
    found = []
    for folder in folders:
        try:
            found.append(Path(folder).stat().st_mtime_ns)
        except OSError:
            found.append(0)
    return tuple(found)


def _file() -> IO[bytes]:
    """Return a file in memory where the system has such files."""
    if hasattr(os, "memfd_create"):
        return os.fdopen(os.memfd_create("gpuemu"), "w+b")
    return tempfile.TemporaryFile()


@atexit.register
def _end_all() -> None:
    if _servers.owner == os.getpid():
        for server in _servers.by_key.values():
            server.end()
