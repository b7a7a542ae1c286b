"""A client that sends whatever a test says, in whatever order, and waits for answers by their id."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

from support.lsp_editor import COMMAND, PATIENCE


class RawClient:
    """JSON-RPC over the standard streams of a server process, with nothing in between."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self.process = process
        self.received: list[dict[str, Any]] = []
        self.silent = False
        """Whether it leaves the server's requests without an answer."""
        self._news = asyncio.Condition()
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

    def tell(self, method: str, params: Any = None) -> None:
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

        async with asyncio.timeout(PATIENCE), self._news:
            await self._news.wait_for(lambda: found() is not None)
        answer = found()
        assert answer is not None
        return answer

    async def begin(self, root: Path | None = None, capabilities: Any = None, **options: Any) -> None:
        uri = None if root is None else root.as_uri()
        given = {"processId": None, "rootUri": uri, "capabilities": capabilities or {}, **options}
        assert "result" in await self.ask("initialize", given)
        self.tell("initialized", {})

    def open(self, uri: str, text: str, version: int = 1) -> None:
        item = {"uri": uri, "languageId": "cuda-cpp", "version": version, "text": text}
        self.tell("textDocument/didOpen", {"textDocument": item})

    def change(self, uri: str, version: int, *changes: dict[str, Any]) -> None:
        document = {"uri": uri, "version": version}
        self.tell("textDocument/didChange", {"textDocument": document, "contentChanges": list(changes)})

    async def codes(self, uri: str) -> set[str]:
        """Wait until nothing runs; what stands in a file then."""
        assert (await self.ask("gpuemu/waitForIdle"))["result"] is None
        said = [item["params"] for item in self.received if item.get("method") == "textDocument/publishDiagnostics"]
        last = next((item["diagnostics"] for item in reversed(said) if item["uri"] == uri), [])
        return {item["code"] for item in last if item["severity"] < 4}

    async def end(self) -> int:
        await self.ask("shutdown")
        self.tell("exit")
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
                async with self._news:
                    self.received.append(message)
                    self._news.notify_all()
        except asyncio.IncompleteReadError:
            return
