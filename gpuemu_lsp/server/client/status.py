"""``gpuemu/serverStatus``: health, whether anything runs, and what a verdict depends on. Never a toast."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from gpuemu_lsp.engine.workers import Job, Pool
from gpuemu_lsp.engine.workers.model import Done, Event, Progress

METHOD = "gpuemu/serverStatus"


class Status:
    """Tells the client whenever something of it changes."""

    def __init__(self, pool: Pool, notify: Callable[[str, Any], None]) -> None:
        self._pool = pool
        self._notify = notify
        self._busy = 0
        self._versions: dict[str, str] = {}
        self._problem: str | None = None
        self._warning: str | None = None
        self._wanted = "auto"
        self.executor = "emulator"
        self._sent: dict[str, Any] | None = None

    def ask(self) -> None:
        """Find out in a worker what is installed."""
        loop = asyncio.get_running_loop()

        def receive(event: Event) -> None:
            if not loop.is_closed():
                loop.call_soon_threadsafe(self._learn, event)

        self._pool.submit(Job("describe"), receive)

    @property
    def versions(self) -> dict[str, str]:
        """Name and version of everything a verdict depends on, once that is known."""
        return dict(self._versions)

    def wants(self, executor: str) -> None:
        """Note what the settings ask for: only a GPU that is there is one."""
        gpu = self._versions.get("GPU", "")
        there = bool(gpu) and not gpu.startswith("none")
        self._wanted = executor
        self.executor = "gpu" if executor == "gpu" and there else "emulator"
        self._warning = None
        if executor == "gpu" and gpu and not there:
            why = gpu.removeprefix("none").strip(": ")
            self._warning = f"There is no GPU ({why}); the emulator runs the kernels."
        self._tell()

    def begun(self) -> None:
        """Count one more batch."""
        self._busy += 1
        self._tell()

    def ended(self) -> None:
        """Count one less."""
        self._busy -= 1
        self._tell()

    def _learn(self, event: Event) -> None:
        if isinstance(event, Progress) and isinstance(event.value, dict):
            self._versions = {name: str(value) for name, value in event.value.items()}
            compiler = self._versions.get("NVRTC", "")
            self._problem = f"NVRTC is {compiler}" if compiler.startswith("not usable") else None
        elif not isinstance(event, Done):
            self._problem = "The worker processes do not start; nothing can be checked."
        self.wants(self._wanted)

    def _tell(self) -> None:
        status = {
            "health": "error" if self._problem is not None else "warning" if self._warning is not None else "ok",
            "quiescent": self._busy == 0,
            "message": self._problem or self._warning,
            "executor": self.executor,
            "versions": dict(self._versions),
        }
        if status != self._sent:
            self._sent = status
            self._notify(METHOD, status)
