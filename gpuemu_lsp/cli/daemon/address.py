"""Address of a project's daemon, and the messages between it and a client."""

from __future__ import annotations

import os
import socket
import stat
import sys
import zlib
from collections.abc import Mapping, Sequence

from gpuemu_lsp import __version__

ACCEPTED, STARTED = b"a", b"s"
"""The daemon's bytes before the exit code: it listens, and the command runs. Only then is the command sent: the streams
in it would stay open in the queue of a busy daemon, and the process that reads them would wait for it."""
_CREDENTIALS = 12
"""Size of ``struct ucred``: pid, uid and gid (unix(7))."""
_VARYING = frozenset({"_", "SHLVL", "PWD", "OLDPWD", "COLUMNS", "LINES", "TERM", "NO_COLOR", "FORCE_COLOR"})
"""Variables that differ between commands of one shell and that no worker reads: each client sends its own."""


class UnsafeError(Exception):
    """The folder of the sockets, or the process behind one, is not this user's."""


def project_folder(folder: str) -> str:
    """Return the nearest folder with a gpuemu.toml, else the folder itself."""
    current = folder
    while not os.path.exists(os.path.join(current, "gpuemu.toml")):
        parent = os.path.dirname(current)
        if parent == current:
            return folder
        current = parent
    return current


def identity(folder: str, environment: Mapping[str, str]) -> str:
    """Return what all clients of a daemon have in common."""
    variables = sorted(f"{name}={value}" for name, value in environment.items() if name not in _VARYING)
    return "\n".join((folder, __version__, os.path.dirname(__file__), os.path.normpath(sys.executable), *variables))


def socket_name(common: str) -> str:
    """Return the name of a daemon's socket. Daemons whose names collide refuse each other's clients."""
    return f"{zlib.crc32(common.encode('utf-8', 'surrogateescape')):08x}"


def open_folder() -> int:
    """Return a descriptor of the folder of this user's sockets, which only the user can open.

    Raises
    ------
    UnsafeError
        If another user could have made it, or can open it.
    OSError
        If it cannot be made.
    """
    base = os.environ.get("XDG_RUNTIME_DIR") or os.environ.get("TMPDIR") or "/tmp"
    path = os.path.join(base, f"gpuemu-daemon-{os.getuid()}")
    if not os.path.lexists(path):
        os.mkdir(path, 0o700)
    folder = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    status = os.fstat(folder)
    if status.st_uid != os.getuid() or stat.S_IMODE(status.st_mode) != 0o700:
        os.close(folder)
        raise UnsafeError(f"{path} is not a folder that only this user can open")
    return folder


def path_in(folder: int, name: str) -> str:
    """Return a path in an opened folder; it is short, as the address of a socket has to be, and no link leads away."""
    return f"/proc/self/fd/{folder}/{name}"


def peer(connection: socket.socket) -> tuple[int, int]:
    """Return process and user at the other end."""
    credentials = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS)
    return int.from_bytes(credentials[:4], sys.byteorder), int.from_bytes(credentials[4:8], sys.byteorder)


def is_own(connection: socket.socket) -> bool:
    """Return whether the process at the other end is this user's."""
    return peer(connection)[1] == os.getuid()


def daemons() -> list[tuple[int, str]]:
    """Return process and socket's name of each daemon of this user that runs."""
    folder = open_folder()
    running = []
    try:
        for name in sorted(os.listdir(folder)):
            with socket.socket(socket.AF_UNIX) as connection:
                try:
                    connection.connect(path_in(folder, name))
                except OSError:
                    continue  # a lock, or the socket of one that was killed
                if is_own(connection):
                    running.append((peer(connection)[0], name))
    finally:
        os.close(folder)
    return running


def encode(*lists: Sequence[str]) -> bytes:
    """Return lists of strings without NUL as a message."""
    counts = [" ".join(str(len(items)) for items in lists)]
    body = "\0".join([*counts, *(item for items in lists for item in items)]).encode("utf-8", "surrogateescape")
    return len(body).to_bytes(4, "big") + body


def decode(message: bytes) -> list[list[str]]:
    """Return the lists of a message without its length."""
    counts, *items = message.decode("utf-8", "surrogateescape").split("\0")
    lists = []
    for count in map(int, counts.split()):
        lists.append(items[:count])
        items = items[count:]
    return lists


def receive(connection: socket.socket, size: int) -> bytes:
    """Receive ``size`` bytes, fewer if the other end has closed the connection."""
    data = b""
    while len(data) < size:
        part = connection.recv(size - len(data))
        if not part:
            break
        data += part
    return data
