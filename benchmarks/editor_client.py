"""A server process, driven over stdio as an editor does."""

from __future__ import annotations

import asyncio
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from lsprotocol import types
from pytest_lsp import LanguageClient, make_test_lsp_client

COMMAND = [sys.executable, "-m", "gpuemu_lsp", "--stdio"]
TIMEOUT = 120.0


class Editor:
    """An LSP client that records published diagnostics with their times."""

    def __init__(self) -> None:
        self.client: LanguageClient = make_test_lsp_client()
        self.published: list[tuple[float, types.PublishDiagnosticsParams]] = []
        self.versions: dict[str, int] = {}
        features = self.client.protocol.fm._features
        features.pop(types.TEXT_DOCUMENT_PUBLISH_DIAGNOSTICS, None)
        self.ready = asyncio.Event()
        self.pid = 0

        @self.client.feature(types.TEXT_DOCUMENT_PUBLISH_DIAGNOSTICS)
        def publish(params: types.PublishDiagnosticsParams) -> None:
            self.published.append((time.perf_counter(), params))

        for method in ("gpuemu/failuresChanged", "gpuemu/testState", "gpuemu/testsChanged"):
            self.client.feature(method)(lambda params: None)

        @self.client.feature("gpuemu/serverStatus")
        def status(params: Any) -> None:
            if len(params.versions) > 0:
                self.ready.set()

    async def start(self, root: Path) -> float:
        """Start a server; return the seconds until its workers are ready."""
        started = time.perf_counter()
        await self.client.start_io(*COMMAND)
        process = self.client._server
        assert process is not None
        self.pid = process.pid
        params = types.InitializeParams(
            capabilities=types.ClientCapabilities(), process_id=os.getpid(), root_uri=root.as_uri()
        )
        await self.client.initialize_session(params)
        await asyncio.wait_for(self.ready.wait(), TIMEOUT)
        return time.perf_counter() - started

    def open(self, path: Path, text: str) -> None:
        """Open a file."""
        self.versions[path.as_uri()] = 1
        item = types.TextDocumentItem(path.as_uri(), "cuda-cpp", 1, text)
        self.client.text_document_did_open(types.DidOpenTextDocumentParams(item))

    def type(self, path: Path, text: str) -> None:
        """Change the text of a file without saving it."""
        uri = path.as_uri()
        self.versions[uri] += 1
        document = types.VersionedTextDocumentIdentifier(self.versions[uri], uri)
        whole = types.TextDocumentContentChangeWholeDocument(text)
        self.client.text_document_did_change(types.DidChangeTextDocumentParams(document, [whole]))

    def save(self, path: Path) -> None:
        """Notify the server of a save. The file on disk does not change."""
        identifier = types.TextDocumentIdentifier(path.as_uri())
        self.client.text_document_did_save(types.DidSaveTextDocumentParams(identifier))

    async def idle(self) -> None:
        """Wait until the server is idle."""
        await asyncio.wait_for(self.client.protocol.send_request_async("gpuemu/waitForIdle", {}), TIMEOUT)

    async def first(self, since: float, holds: Callable[[types.PublishDiagnosticsParams], bool]) -> float | None:
        """Return the seconds from ``since`` to the first publication that ``holds``; None if none comes."""
        idle = asyncio.ensure_future(self.idle())
        try:
            while True:
                for moment, params in self.published:
                    if moment > since and holds(params):
                        return moment - since
                if idle.done():
                    return None
                await asyncio.sleep(0.001)
        finally:
            await idle
