"""Messages of JSON-RPC, one in a line, over a pair of byte streams."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from typing import BinaryIO

from gpuemu_lsp.engine.findings import Json

PARSE_ERROR, INVALID_REQUEST, METHOD_NOT_FOUND, INVALID_PARAMS, INTERNAL_ERROR = -32700, -32600, -32601, -32602, -32603
MOST_BYTES = 32 << 20
"""Largest message that is read: a source is much smaller."""


class RequestError(Exception):
    """A request that cannot be answered: a code of JSON-RPC, a message and data for the client."""

    def __init__(self, code: int, message: str, data: Json = None) -> None:
        super().__init__(message)
        self.code = code
        self.data = data


def _refuse(constant: str) -> None:
    """Refuse a number that JSON lacks: limits do not hold for ``NaN``."""
    raise ValueError(f"{constant} is not a number of JSON")


class Connection:
    """The streams of one client. Messages may be sent from any thread."""

    def __init__(self, source: BinaryIO, sink: BinaryIO) -> None:
        self._source = source
        self._sink = sink
        self._lock = threading.Lock()

    def receive(self, on_message: Callable[[dict[str, Json]], None]) -> None:
        """Pass each message on until the stream ends; what is not a message gets an error as its answer."""
        while line := self._source.readline(MOST_BYTES):
            if len(line) >= MOST_BYTES and not line.endswith(b"\n"):
                self.fail(None, RequestError(INVALID_REQUEST, f"a message has more than {MOST_BYTES >> 20} MiB"))
                while line and not line.endswith(b"\n"):
                    line = self._source.readline(MOST_BYTES)
                continue
            if not line.strip():
                continue
            try:
                message = json.loads(line, parse_constant=_refuse)
            except (ValueError, RecursionError) as error:
                self.fail(None, RequestError(PARSE_ERROR, f"not JSON: {error}"))
                continue
            if isinstance(message, dict):
                on_message(message)
            else:
                self.fail(None, RequestError(INVALID_REQUEST, "a message is one JSON object; there are no batches"))

    def answer(self, identity: Json, result: Json) -> None:
        """Send the result of a request."""
        self._send({"id": identity, "result": result})

    def fail(self, identity: Json, error: RequestError) -> None:
        """Send the error of a request; ``identity`` None if it could not be read."""
        data: dict[str, Json] = {} if error.data is None else {"data": error.data}
        self._send({"id": identity, "error": {"code": error.code, "message": str(error), **data}})

    def notify(self, method: str, params: Json) -> None:
        """Send a notification."""
        self._send({"method": method, "params": params})

    def _send(self, message: dict[str, Json]) -> None:
        text = json.dumps({"jsonrpc": "2.0", **message}, ensure_ascii=False, allow_nan=False)
        # A lone surrogate of a file's name cannot be encoded.
        line = text.encode("utf-8", "replace") + b"\n"
        with self._lock:
            try:
                self._sink.write(line)
                self._sink.flush()
            except (BrokenPipeError, ValueError):
                return  # the client has gone; the end of its stream ends the server
