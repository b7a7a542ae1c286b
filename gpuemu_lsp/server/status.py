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
        self._sent: dict[str, Any] | None = None

    def ask(self) -> None:
        """Find out in a worker what is installed."""
        loop = asyncio.get_running_loop()

        def receive(event: Event) -> None:
            if not loop.is_closed():
                loop.call_soon_threadsafe(self._learn, event)

        self._pool.submit(Job("describe"), receive)

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
        self._tell()

    def _tell(self) -> None:
        status = {
            "health": "ok" if self._problem is None else "error",
            "quiescent": self._busy == 0,
            "message": self._problem,
            "versions": dict(self._versions),
        }
        if status != self._sent:
            self._sent = status
            self._notify(METHOD, status)
