"""Messages on a byte stream: a 4-byte little-endian length, then that many bytes of JSON."""

from __future__ import annotations

import json
import struct
from collections.abc import Iterator
from typing import cast

from gpuemu_lsp.engine.findings import Json

MAX_FRAME = 256 << 20
"""Largest message in bytes. A larger length means a corrupt stream."""

_HEADER = struct.Struct("<I")


class FrameError(Exception):
    """Bytes that are not a sequence of frames."""


def encode(message: Json) -> bytes:
    """Return ``message`` as one frame.

    Raises
    ------
    TypeError, ValueError
        If the message is not JSON or exceeds :data:`MAX_FRAME`.
    """
    body = json.dumps(message, separators=(",", ":")).encode("ascii")
    if len(body) > MAX_FRAME:
        raise ValueError(f"a message of {len(body)} bytes is over the limit of {MAX_FRAME}")
    return _HEADER.pack(len(body)) + body


class FrameReader:
    """Incremental decoder of a byte stream."""

    def __init__(self) -> None:
        self._buffer = bytearray()

    def feed(self, data: bytes) -> Iterator[Json]:
        """Append ``data`` and yield every message that is now complete.

        Raises
        ------
        FrameError
            If the bytes are not frames.
        """
        self._buffer += data
        while len(self._buffer) >= _HEADER.size:
            (length,) = _HEADER.unpack_from(self._buffer)
            if length > MAX_FRAME:
                raise FrameError(f"a frame of {length} bytes exceeds the limit of {MAX_FRAME}")
            end = _HEADER.size + length
            if len(self._buffer) < end:
                return
            body = bytes(self._buffer[_HEADER.size : end])
            del self._buffer[:end]
            try:
                message = json.loads(body)
            except ValueError as error:
                raise FrameError(f"a frame is not JSON: {error}") from error
            yield cast("Json", message)
