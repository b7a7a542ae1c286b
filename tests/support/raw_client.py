"""A client that sends arbitrary messages in any order, and waits for answers by id."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

from support.lsp_editor import COMMAND, PATIENCE

STATES = ("checking", "verdict")
"""Codes of the diagnostic that a client of an agent gets for each version: one without capabilities is one."""


class RawClient:
    """JSON-RPC over the standard streams of a server process, without an LSP library."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self.process = process
        self.received: list[dict[str, Any]] = []
        self.silent = False
        """Whether requests of the server are left unanswered."""
        self._changed = asyncio.Condition()
        self._number = 0
        self._reader = asyncio.ensure_future(self._read())

    @classmethod
    async def start(cls) -> RawClient:
        pipe = asyncio.subprocess.PIPE
        return cls(await asyncio.create_subprocess_exec(*COMMAND, stdin=pipe, stdout=pipe))

    def send(self, message: dict[str, Any] | bytes) -> None:
        body = message if isinstance(message, bytes) else json.dumps({"jsonrpc": "2.0", **message}).encode()
        assert self.process.stdin is not None
        self.process.stdin.write(b"Content-Length: %d\r\n\r\n%s" % (len(body), body))

    def notify(self, method: str, params: Any = None) -> None:
        self.send({"method": method, **({} if params is None else {"params": params})})

    def request(self, method: str, params: Any = None) -> int:
        self._number += 1
        self.send({"id": self._number, "method": method, **({} if params is None else {"params": params})})
        return self._number

    async def ask(self, method: str, params: Any = None) -> dict[str, Any]:
        return await self.answer(self.request(method, params))

    async def answer(self, identity: int) -> dict[str, Any]:
        def found() -> dict[str, Any] | None:
            return next((item for item in self.received if item.get("id") == identity and "method" not in item), None)

        async with asyncio.timeout(PATIENCE), self._changed:
            await self._changed.wait_for(lambda: found() is not None)
        answer = found()
        assert answer is not None
        return answer

    async def begin(self, root: Path | None = None, capabilities: Any = None, **options: Any) -> None:
        uri = None if root is None else root.as_uri()
        given = {"processId": None, "rootUri": uri, "capabilities": capabilities or {}, **options}
        assert "result" in await self.ask("initialize", given)
        self.notify("initialized", {})

    def open(self, uri: str, text: str, version: int = 1) -> None:
        item = {"uri": uri, "languageId": "cuda-cpp", "version": version, "text": text}
        self.notify("textDocument/didOpen", {"textDocument": item})

    def change(self, uri: str, version: int, *changes: dict[str, Any]) -> None:
        document = {"uri": uri, "version": version}
        self.notify("textDocument/didChange", {"textDocument": document, "contentChanges": list(changes)})

    async def codes(self, uri: str) -> set[str]:
        """Wait until the server is idle; return the codes of a file's findings."""
        assert (await self.ask("gpuemu/waitForIdle"))["result"] is None
        published = [
            item["params"] for item in self.received if item.get("method") == "textDocument/publishDiagnostics"
        ]
        last = next((item["diagnostics"] for item in reversed(published) if item["uri"] == uri), [])
        return {item["code"] for item in last if item["severity"] < 4 and item["code"] not in STATES}

    async def end(self) -> int:
        await self.ask("shutdown")
        self.notify("exit")
        return await self.ended()

    async def ended(self) -> int:
        code = await asyncio.wait_for(self.process.wait(), PATIENCE)
        await self._reader
        return code

    async def _read(self) -> None:
        assert self.process.stdout is not None
        try:
            while True:
                head = await self.process.stdout.readuntil(b"\r\n\r\n")
                length = next(int(line[15:]) for line in head.split(b"\r\n") if line.startswith(b"Content-Length:"))
                message = json.loads(await self.process.stdout.readexactly(length))
                if "id" in message and "method" in message and not self.silent:
                    self.send({"id": message["id"], "result": None})
                async with self._changed:
                    self.received.append(message)
                    self._changed.notify_all()
        except asyncio.IncompleteReadError:
            return
