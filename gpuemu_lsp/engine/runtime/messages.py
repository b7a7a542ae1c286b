"""Messages of the program's runtime library: an operation, and words and byte strings in its body.

What needs no message is in a few words at the beginning of device memory, which both sides see.
"""

from __future__ import annotations

import os
import select
import struct
import time
from collections.abc import Iterator
from enum import IntEnum
from pathlib import Path
from socket import socket

import numpy as np

from gpuemu_lsp.engine.execution import Bytes

_MAX_BODY = 1 << 30
_AWAKE_SECONDS = 2e-4
_PROCESSORS = len(os.sched_getaffinity(0))
_HEADER = struct.Struct("<II")


class RuntimeCall(IntEnum):
    """The operations, as in the library's source."""

    MODULE = 1
    FUNCTION = 2
    ALLOCATE = 3
    FREE = 4
    TRANSFER = 5
    LAUNCH = 6
    VARIABLE = 7
    UNSUPPORTED = 8
    FAILED_LAUNCH = 9
    CHECKED = 10
    STREAM = 11
    EVENT = 12
    WAIT = 13
    SYNCHRONIZE = 14
    PRODUCT = 15
    HOST_ACCESS = 16
    TENSOR_MAP = 17
    ALLOCATE_AGAIN = 18
    QUERY = 19
    RESET = 20
    LOST_CAPTURE = 21


_OPERATIONS = frozenset(RuntimeCall)

Frame = tuple[int, str]
"""An offset in a file of machine code, and the path of that file."""


class LibraryHeader:
    """The words at the beginning of ``memory``, as in the library's source (``Header``)."""

    def __init__(self, memory: Bytes) -> None:
        self._owner_and_refused = memory[:8].view(np.int32)
        self._words = memory[8:32].view(np.uint64)

    @property
    def refused_process(self) -> bool:
        """Whether a process other than the one that has the connection made a CUDA call."""
        return bool(self._owner_and_refused[1])

    @property
    def repeats(self) -> int:
        """The launches that the library has not made, because they are proved to do nothing."""
        return int(self._words[1])

    @property
    def library_calls(self) -> int:
        """The calls of libraries' functions that make no launch, but products of matrices."""
        return int(self._words[2])

    def program_has(self, address: int) -> bool:
        """Return whether the program has mapped a page at an address."""
        try:
            lines = Path(f"/proc/{self._owner_and_refused[0]}/maps").read_text(errors="replace").splitlines()
        except OSError:
            return False
        ranges = (line.partition(" ")[0].partition("-") for line in lines)
        return any(int(low, 16) <= address < int(high, 16) for low, _, high in ranges)

    def set_contents(self, generation: int | None) -> None:
        """Tell the library for which contents of memory a launch is proved to do nothing; None if none is."""
        self._words[0] = 0 if generation is None else contents_number(generation)


def contents_number(generation: int) -> int:
    """Return the number by which the library knows the contents of memory; 0 is that of none."""
    return generation + 1


class MessageError(Exception):
    """A message that the library does not send: the program has damaged its memory or uses the connection itself."""


class Message:
    """One message; its fields are read in order."""

    def __init__(self, operation: RuntimeCall, body: bytes) -> None:
        self.operation = operation
        self._body = body
        self._at = 0

    def word(self) -> int:
        """Return the next 64-bit word."""
        return int.from_bytes(self._take(8), "little")

    def data(self) -> bytes:
        """Return the next byte string."""
        return self._take(self.word())

    def text(self) -> str:
        """Return the next byte string as text."""
        return self.data().decode("utf-8", "replace")

    def call_stack(self) -> bytes:
        """Return the call stack, which is the last field, for :func:`frames_of`."""
        return self._take(len(self._body) - self._at)

    def _take(self, size: int) -> bytes:
        if self._at + size > len(self._body):
            raise MessageError(f"a message of operation {self.operation} is too short")
        self._at += size
        return self._body[self._at - size : self._at]


def frames_of(stack: bytes) -> list[Frame]:
    """Return the frames of a call stack, innermost call first."""
    fields = Message(RuntimeCall.LAUNCH, stack)
    return [(fields.word(), os.fsdecode(fields.data())) for _ in range(min(fields.word(), 64))]


def receive(connection: socket) -> Iterator[Message]:
    """Yield the program's messages until it ends.

    Raises
    ------
    MessageError
        If something else arrives.
    TimeoutError
        If the connection's time limit passes.
    """
    arrived = select.poll()
    arrived.register(connection, select.POLLIN)
    with connection.makefile("rb") as stream:
        while True:
            _await_soon(arrived)
            header = stream.read(_HEADER.size)
            if len(header) < _HEADER.size:
                return
            operation, size = _HEADER.unpack(header)
            if operation not in _OPERATIONS or size > _MAX_BODY:
                raise MessageError(f"operation {operation} with {size} bytes is not one of the runtime library")
            body = stream.read(size)
            if len(body) < size:
                return  # it ended while it wrote
            yield Message(RuntimeCall(operation), body)


def _await_soon(arrived: select.poll) -> None:
    """Wait a little for the next message without sleeping: to be woken takes longer than a program's next launch."""
    if _PROCESSORS > 1:
        until = time.monotonic() + _AWAKE_SECONDS
        while not arrived.poll(0) and time.monotonic() < until:
            os.sched_yield()


def reply(connection: socket, *words: int) -> None:
    """Answer the last message."""
    connection.sendall(struct.pack(f"<I{len(words)}Q", len(words), *words))
