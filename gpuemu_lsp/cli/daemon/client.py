"""The client of the daemon: hands a command over, and ends with its exit code."""

from __future__ import annotations

import array
import os
import socket
import sys
import time
from collections.abc import Sequence

from gpuemu_lsp.cli.daemon.address import (
    ACCEPTED,
    STARTED,
    UnsafeError,
    encode,
    identity,
    is_own,
    open_folder,
    path_in,
    project_folder,
    receive,
    socket_name,
)

FLAG = "--daemon"
_INTERNAL = 3
"""As in :mod:`gpuemu_lsp.engine.report.exit_codes`, whose import would load the engine's package."""
_ANSWER_SECONDS = 1.0
"""A daemon that does not accept within this time runs the check of another client."""
_START_SECONDS = 20.0
_POLL_SECONDS = 0.01


def run_in_daemon(arguments: Sequence[str]) -> int | None:
    """Run a command in the daemon of the current folder's project, which is started if there is none.

    Returns
    -------
    int or None
        The exit code; None if the command has to run in this process: the daemon is busy or does not start.
    """
    try:
        folder = os.getcwd()
        project = project_folder(folder)
        common = identity(project, os.environ)
        connection = _connect(project, socket_name(common))
    except UnsafeError as error:
        print(f"gpuemu: no daemon is used: {error}.", file=sys.stderr)
        return None
    except OSError:
        return None
    if connection is None:
        return None
    with connection:
        return _ask(connection, encode([common, folder, *_streams()], arguments, _environment()))


def _streams() -> list[str]:
    """Return the encodings of standard output and error, and the mode of new files."""
    mask = os.umask(0o077)
    os.umask(mask)
    return [sys.stdout.encoding, sys.stdout.errors or "strict", sys.stderr.encoding, str(mask)]


def _environment() -> list[str]:
    return [f"{name}={value}" for name, value in os.environ.items()]


def _ask(connection: socket.socket, request: bytes) -> int | None:
    """Send a request with the standard streams, and wait for the exit code."""
    try:
        connection.settimeout(_ANSWER_SECONDS)
        if receive(connection, 1) != ACCEPTED:
            return None
        connection.settimeout(None)
        descriptors = array.array("i", (sys.stdout.fileno(), sys.stderr.fileno()))
        sent = connection.sendmsg([request], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, descriptors)])
        connection.sendall(request[sent:])
        if receive(connection, 1) != STARTED:
            return None
    except OSError:  # busy, or ended in this moment: nothing has run
        return None
    try:
        code = receive(connection, 1)
    except OSError:
        code = b""
    if not code:
        print("gpuemu: the daemon ended during the check; nothing is known. Check again.", file=sys.stderr)
        return _INTERNAL
    return code[0]


def _connect(project: str, name: str) -> socket.socket | None:
    folder = open_folder()
    try:
        connection = _connected(folder, name)
        if connection is None:
            _start(project)
            ends = time.monotonic() + _START_SECONDS
            while connection is None and time.monotonic() < ends:
                time.sleep(_POLL_SECONDS)
                connection = _connected(folder, name)
    finally:
        os.close(folder)
    if connection is not None and not is_own(connection):
        connection.close()
        raise UnsafeError("the process behind its socket is another user's")
    return connection


def _connected(folder: int, name: str) -> socket.socket | None:
    """Return a connection; None if no daemon listens."""
    connection = socket.socket(socket.AF_UNIX)
    try:
        connection.connect(path_in(folder, name))
    except (FileNotFoundError, ConnectionRefusedError):
        connection.close()
        return None
    return connection


def _start(project: str) -> None:
    """Start the daemon in a session of its own, so that the terminal's signals do not reach it."""
    import subprocess

    command = [sys.executable, "-P", "-m", "gpuemu_lsp.cli.daemon.serve", project]
    null = subprocess.DEVNULL
    subprocess.Popen(command, cwd=project, stdin=null, stdout=null, stderr=null, start_new_session=True)
