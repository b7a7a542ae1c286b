"""The services of a server on a scripted pool: no process, no client."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from support.scripted_pool import ScriptedJob, ScriptedPool
from support.server_kernels import GOOD, write

from gpuemu_lsp.engine.check.model import CaseCount, KernelReport
from gpuemu_lsp.server.client.protocol import GpuemuProtocol, GpuemuServer
from gpuemu_lsp.server.documents.document import ContentChange
from gpuemu_lsp.server.documents.locations import uri_from_path
from gpuemu_lsp.server.services import Services, build_services


@dataclass
class Harness:
    """The services, their pool, and the notifications they send, in a project with one kernel, ``scale``."""

    root: Path
    services: Services
    pool: ScriptedPool
    sent: list[tuple[str, Any]] = field(default_factory=list)

    @property
    def path(self) -> str:
        return (self.root / "scale.cu").as_posix()

    def open(self, text: str = GOOD) -> None:
        self.services.sync.opened(uri_from_path(self.path), self.path, 1, text)

    def edit(self, text: str) -> None:
        version = self.services.session.documents[self.path].version + 1
        self.services.sync.changed(self.path, version, [ContentChange(text)])

    def save(self, text: str) -> None:
        self.services.sync.saved(self.path, text)

    async def until(self, count: int) -> list[ScriptedJob]:
        """Wait for a number of submitted checks and compilations."""
        async with asyncio.timeout(10):
            while len(self.pool.checks()) < count:
                await asyncio.sleep(0.005)
        return self.pool.checks()

    async def settle(self) -> None:
        """Wait until no request is pending; a running check stays."""
        await asyncio.sleep(0.1)
        await self.services.session.parsed_files.run_in_thread(int)
        await asyncio.sleep(0)

    def report(self, status: str = "passed") -> KernelReport:
        return KernelReport("scale", self.path, status, True, cases=CaseCount(8, 8))

    def published(self) -> list[list[str]]:
        """The rules of each publication for the kernel's file."""
        return [
            [item.code for item in params.diagnostics]
            for method, params in self.sent
            if method == "textDocument/publishDiagnostics" and params.uri == uri_from_path(self.path)
        ]


@pytest_asyncio.fixture
async def harness(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Harness]:
    monkeypatch.delenv("GPUEMU_CONFIG", raising=False)
    write(tmp_path)
    server, pool = GpuemuServer("test", "1", protocol_cls=GpuemuProtocol), ScriptedPool()
    sent: list[tuple[str, Any]] = []
    monkeypatch.setattr(server.protocol, "notify", lambda method, params=None: sent.append((method, params)))
    services = build_services(server, pool.as_pool())
    yield Harness(tmp_path, services, pool, sent)
    services.scheduler.close()
    services.session.jobs.close()
    services.session.parsed_files.close()
