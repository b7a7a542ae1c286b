"""A client of the debug adapter: requests are answered in order, events are kept."""

from __future__ import annotations

import contextlib
import socket
import subprocess
import sys
import threading
import time
from contextlib import ExitStack
from itertools import count
from pathlib import Path
from queue import Empty, Queue
from typing import Any, BinaryIO, cast

from gpuemu_lsp.debug_adapter.messages import read_message, write_message

SECONDS = 120.0


class RefusedError(Exception):
    """A response without success."""


class DebugClient:
    """Starts ``gpuemu-lsp --debug-adapter`` and speaks to it, or to an adapter of the server at the path of a socket."""

    def __init__(self, path: str | None = None) -> None:
        self._open = ExitStack()
        if path is None:
            command = [sys.executable, "-m", "gpuemu_lsp", "--debug-adapter"]
            self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
            self._output = cast("BinaryIO", self.process.stdin)
            self._input = cast("BinaryIO", self.process.stdout)
        else:
            channel = self._open.enter_context(socket.socket(socket.AF_UNIX, socket.SOCK_STREAM))
            channel.connect(path)
            self._output = cast("BinaryIO", channel.makefile("wb"))
            self._input = cast("BinaryIO", channel.makefile("rb"))
            self._open.callback(channel.shutdown, socket.SHUT_RDWR)
        self._numbers = count(1)
        self._messages: Queue[dict[str, Any] | None] = Queue()
        self._responses: dict[int, dict[str, Any]] = {}
        self.events: list[dict[str, Any]] = []
        threading.Thread(target=self._read, daemon=True).start()

    def __enter__(self) -> DebugClient:
        return self

    def __exit__(self, *_: object) -> None:
        with contextlib.suppress(OSError):
            self._open.close()
        process = getattr(self, "process", None)
        if process is not None:
            if process.poll() is None:
                process.kill()
            process.wait()
        for stream in (self._output, self._input):
            stream.close()

    def _read(self) -> None:
        try:
            while (message := read_message(self._input)) is not None:
                self._messages.put(message)
        except (ValueError, OSError):  # closed
            pass
        self._messages.put(None)

    def _receive(self) -> None:
        try:
            message = self._messages.get(timeout=SECONDS)
        except Empty:
            raise TimeoutError(f"no message for {SECONDS} s") from None
        if message is None:
            raise EOFError("the adapter has ended")
        if message["type"] == "response":
            self._responses[message["request_seq"]] = message
        else:
            self.events.append(message)

    def send(self, command: str, **arguments: Any) -> int:
        """Send a request and return its number."""
        number = next(self._numbers)
        request = {"seq": number, "type": "request", "command": command, "arguments": arguments}
        write_message(self._output, request)
        return number

    def result(self, number: int) -> dict[str, Any]:
        """Return the body of the response to a request."""
        while number not in self._responses:
            self._receive()
        response = self._responses.pop(number)
        if not response["success"]:
            raise RefusedError(response["message"])
        body: dict[str, Any] = response.get("body", {})
        return body

    def request(self, command: str, **arguments: Any) -> dict[str, Any]:
        """Send a request and return the body of its response."""
        return self.result(self.send(command, **arguments))

    def event(self, name: str) -> dict[str, Any]:
        """Return the body of the next event with a name."""
        while True:
            for place, event in enumerate(self.events):
                if event["event"] == name:
                    body: dict[str, Any] = self.events.pop(place)["body"]
                    return body
            self._receive()

    # ---- sessions ----------------------------------------------------------------------------------------------------

    def start(self, root: Path, case: str, **more: Any) -> dict[str, Any]:
        """Launch a stored case as clients do, and return the body of the first stop."""
        self.request("initialize", adapterID="gpuemu", linesStartAt1=True, columnsStartAt1=True)
        launched = self.send("launch", root=str(root), case=case, **more)
        self.event("initialized")
        configured = self.send("configurationDone")
        self.result(launched)
        self.result(configured)
        return self.event("stopped")

    def move(self, command: str, **more: Any) -> dict[str, Any]:
        """Step or go on, and return the body of the stop."""
        self.request(command, threadId=self.thread, **more)
        self.last = self.event("stopped")
        return self.last

    last: dict[str, Any]

    @property
    def thread(self) -> int:
        """The thread in focus."""
        return 1

    def evaluate(self, expression: str, context: str = "watch") -> str:
        """Return the value of an expression in the top frame."""
        result: str = self.request("evaluate", expression=expression, context=context)["result"]
        return result

    def frames(self, thread: int = 1) -> list[dict[str, Any]]:
        """Return the call stack."""
        rows: list[dict[str, Any]] = self.request("stackTrace", threadId=thread)["stackFrames"]
        return rows

    def scope(self, name: str, frame: int | None = None) -> dict[str, str]:
        """Return the variables of a scope by name."""
        frame = self.frames()[0]["id"] if frame is None else frame
        scopes = self.request("scopes", frameId=frame)["scopes"]
        reference = next(one["variablesReference"] for one in scopes if one["name"] == name)
        rows = self.request("variables", variablesReference=reference)["variables"]
        return {row["name"]: row["value"] for row in rows}

    def seconds(self, command: str, **arguments: Any) -> float:
        """Return how long a request takes."""
        began = time.perf_counter()
        self.request(command, **arguments)
        return time.perf_counter() - began
