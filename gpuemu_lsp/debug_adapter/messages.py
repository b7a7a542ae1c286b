"""Messages of the Debug Adapter Protocol on a byte stream: a header with the length, then JSON."""

from __future__ import annotations

import json
from typing import BinaryIO, cast

from gpuemu_lsp.engine.findings import Json

_MOST_BYTES = 64 << 20
_LONGEST_HEADER = 4096


class FramingError(Exception):
    """Bytes that are not a message."""


def read_message(stream: BinaryIO) -> dict[str, Json] | None:
    """Return the next message, None at the end of the stream.

    Raises
    ------
    FramingError
        If the stream has something else.
    """
    length: int | None = None
    while True:
        line = stream.readline(_LONGEST_HEADER)
        if not line:
            return None
        if not line.strip():
            if length is not None:
                break
            continue
        name, _, value = line.decode("latin-1").partition(":")
        if name.strip().lower() == "content-length":
            if not value.strip().isdecimal() or int(value) > _MOST_BYTES:
                raise FramingError(f"Content-Length is {value.strip()[:40]!r}")
            length = int(value)
    body = stream.read(length)
    if len(body) < length:
        return None
    try:
        message = json.loads(body)
    except ValueError as error:
        raise FramingError(f"a message is not JSON: {error}") from error
    if not isinstance(message, dict):
        raise FramingError("a message is not an object")
    return cast("dict[str, Json]", message)


def write_message(stream: BinaryIO, message: dict[str, Json]) -> None:
    """Write a message."""
    body = json.dumps(message, separators=(",", ":"), ensure_ascii=False).encode()
    stream.write(b"Content-Length: %d\r\n\r\n" % len(body) + body)
    stream.flush()
