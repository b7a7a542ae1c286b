"""Messages on the socket that a program's runtime library has: an operation, a size, and the bytes of a request."""

from __future__ import annotations

import os
import select
import struct
import time
from collections.abc import Iterator
from socket import socket

from gpuemu_lsp.engine.runtime.protocol.messages import MESSAGES, Answer, Message
from gpuemu_lsp.engine.runtime.protocol.records import MessageError, decode, encode

_MAX_BODY = 1 << 30
_RECEIVED = 1 << 16
_AWAKE_SECONDS = 2e-4
_PROCESSORS = len(os.sched_getaffinity(0))
_HEADER = struct.Struct("<II")
_SIZE = struct.Struct("<I")


def receive(connection: socket) -> Iterator[Message]:
    """Yield the program's requests until it ends.

    Raises
    ------
    MessageError
        If something else arrives.
    TimeoutError
        If the connection's time limit passes.
    """
    arrived = select.poll()
    arrived.register(connection, select.POLLIN)
    stream = _Buffered(connection)
    while True:
        if stream.empty:
            _await_soon(arrived)
        header = stream.read(_HEADER.size)
        if len(header) < _HEADER.size:
            return
        operation, size = _HEADER.unpack(header)
        if operation >= len(MESSAGES) or size > _MAX_BODY:
            raise MessageError(f"operation {operation} with {size} bytes is not one of the runtime library")
        body = stream.read(size)
        if len(body) < size:
            return  # it ended while it wrote
        yield decode(MESSAGES[operation], body)


class _Buffered:
    """Bytes of a socket, of which several requests may arrive together: the library posts some without waiting."""

    def __init__(self, connection: socket) -> None:
        self._connection = connection
        self._buffer, self._at = b"", 0

    @property
    def empty(self) -> bool:
        """Whether nothing has arrived that was not read."""
        return self._at == len(self._buffer)

    def read(self, size: int) -> bytes:
        """Return ``size`` bytes, less at the end."""
        while len(self._buffer) - self._at < size:
            more = self._connection.recv(max(_RECEIVED, size))
            if not more:
                break
            self._buffer, self._at = self._buffer[self._at :] + more, 0
        part = self._buffer[self._at : self._at + size]
        self._at += len(part)
        return part


def _await_soon(arrived: select.poll) -> None:
    """Wait a little for the next message without sleeping: to be woken takes longer than a program's next launch."""
    if _PROCESSORS > 1:
        until = time.monotonic() + _AWAKE_SECONDS
        while not arrived.poll(0) and time.monotonic() < until:
            os.sched_yield()


def reply(connection: socket, answer: Answer) -> None:
    """Answer the last request."""
    body = encode(answer)
    connection.sendall(_SIZE.pack(len(body)) + body)
