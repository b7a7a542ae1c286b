"""The one way to read files that are not ours: regular files only, up to a size, and without waiting.

A source, header or configuration may become a FIFO, a link to a device, or a file of 10 GB between two looks at it. To
open a FIFO waits for a writer, and a device may have no end. So a file is opened without waiting, and what was opened
is examined, not what the path named before.
"""

from __future__ import annotations

import contextlib
import os
import stat
from collections.abc import Iterator
from errno import EFBIG, EINVAL, EWOULDBLOCK
from pathlib import Path
from typing import BinaryIO

MAX_BYTES = 64 << 20
"""Size of the largest source that is read."""


@contextlib.contextmanager
def open_regular(path: str | Path) -> Iterator[BinaryIO]:
    """Open a regular file to read bytes.

    Raises
    ------
    OSError
        If it cannot be opened, or is something else: a folder, FIFO, socket or device.
    """
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except ValueError as error:  # a NUL character, or one that the locale's encoding lacks
        raise OSError(EINVAL, "not a possible file name", str(path)) from error
    with os.fdopen(descriptor, "rb") as stream:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise OSError(EINVAL, "not a regular file", str(path))
        yield stream


def file_bytes(path: str | Path, limit: int = MAX_BYTES) -> bytes:
    """Return the content of a regular file of at most ``limit`` bytes.

    Raises
    ------
    OSError
        If it cannot be read, is not a regular file, is larger, or has no content yet (some files of ``/proc``).
    """
    with open_regular(path) as stream:
        data: bytes | None = stream.read(limit + 1)
    if data is None:
        raise OSError(EWOULDBLOCK, os.strerror(EWOULDBLOCK), str(path))
    if len(data) > limit:
        raise OSError(EFBIG, f"larger than {limit:,} bytes", str(path))
    return data


def file_text(path: str | Path, errors: str = "strict", limit: int = MAX_BYTES) -> str:
    """Return the text of a regular file as Python's text files have it: UTF-8, no byte order mark, lines end in LF.

    Raises
    ------
    OSError
        As for :func:`file_bytes`.
    UnicodeDecodeError
        If the file is not UTF-8 and ``errors`` is ``"strict"``.
    """
    return file_bytes(path, limit).decode("utf-8-sig", errors).replace("\r\n", "\n").replace("\r", "\n")


def readable_text(path: str | Path) -> str | None:
    """Return a file's text as :func:`file_text`, invalid UTF-8 as replacement characters; None if it is not read."""
    try:
        return file_text(path, errors="replace")
    except OSError:
        return None
