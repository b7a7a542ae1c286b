"""A client of ``gpuemu mcp`` that sends arbitrary messages, in either form of the protocol."""

from __future__ import annotations

import contextlib
import json
import queue
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

PATIENCE = 120.0
"""Seconds that a test waits for a message."""
REVISION = "2026-07-28"


class McpClient:
    """One server process. ``stateless``: requests state their revision; else the client has to initialize first."""

    def __init__(self, folder: Path, *, stateless: bool = True, environment: dict[str, str] | None = None) -> None:
        command = [sys.executable, "-m", "gpuemu_lsp.cli.gpuemu", "mcp"]
        pipe = subprocess.PIPE
        self.process = subprocess.Popen(command, stdin=pipe, stdout=pipe, cwd=folder, env=environment)
        self.stateless = stateless
        self.received: list[dict[str, Any]] = []
        self._queue: queue.SimpleQueue[dict[str, Any] | None] = queue.SimpleQueue()
        self._number = 0
        threading.Thread(target=self._read, daemon=True).start()
        if not stateless:
            given = {
                "protocolVersion": "2025-11-25",
                "capabilities": {},
                "clientInfo": {"name": "test", "version": "1"},
            }
            self.initialized = self.ask("initialize", given)["result"]
            self.notify("notifications/initialized")

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self._queue.put(json.loads(line))
        self._queue.put(None)

    def send(self, line: bytes) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(line + b"\n")
        self.process.stdin.flush()

    def notify(self, method: str, params: Any = None) -> None:
        more = {} if params is None else {"params": params}
        self.send(json.dumps({"jsonrpc": "2.0", "method": method, **more}).encode())

    def request(self, method: str, params: dict[str, Any] | None = None, **meta: Any) -> int:
        """Send a request and return its id; ``meta`` are further keys of ``_meta``."""
        self._number += 1
        if self.stateless:
            meta |= {
                "io.modelcontextprotocol/protocolVersion": REVISION,
                "io.modelcontextprotocol/clientInfo": {"name": "test", "version": "1"},
                "io.modelcontextprotocol/clientCapabilities": {},
            }
        given = {**(params or {}), **({"_meta": meta} if meta else {})}
        message = {"jsonrpc": "2.0", "id": self._number, "method": method, **({"params": given} if given else {})}
        self.send(json.dumps(message).encode())
        return self._number

    def next(self) -> dict[str, Any]:
        """Return the next message of the server."""
        message = self._queue.get(timeout=PATIENCE)
        assert message is not None, "the server has ended"
        self.received.append(message)
        return message

    def answer(self, identity: Any) -> dict[str, Any]:
        """Return the answer of a request; what comes before it is in ``received``."""
        for message in self.received:
            if message.get("id") == identity and "method" not in message:
                return message
        while (message := self.next()).get("id") != identity or "method" in message:
            pass
        return message

    def ask(self, method: str, params: dict[str, Any] | None = None, **meta: Any) -> dict[str, Any]:
        return self.answer(self.request(method, params, **meta))

    def begin(self, tool: str, arguments: dict[str, Any], **meta: Any) -> int:
        return self.request("tools/call", {"name": tool, "arguments": arguments}, **meta)

    def call(self, tool: str, **arguments: Any) -> dict[str, Any]:
        """Return the structured result of a tool."""
        result = self.ask("tools/call", {"name": tool, "arguments": arguments})["result"]
        assert not result["isError"], result["content"]
        assert json.loads(result["content"][0]["text"]) == result["structuredContent"]
        return result["structuredContent"]

    def refusal(self, tool: str, **arguments: Any) -> str:
        """Return the text of a call that has no result."""
        result = self.ask("tools/call", {"name": tool, "arguments": arguments})["result"]
        assert result["isError"] and "structuredContent" not in result
        return result["content"][0]["text"]

    def close(self) -> int:
        """Close the server's input, and return its exit code."""
        assert self.process.stdin is not None
        self.process.stdin.close()
        return self.process.wait(PATIENCE)

    def __enter__(self) -> McpClient:
        return self

    def __exit__(self, *error: object) -> None:
        assert self.process.stdin is not None
        with contextlib.suppress(OSError):
            self.process.stdin.close()
        try:
            # A server that ends by itself removes its folder.
            self.process.wait(10)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
