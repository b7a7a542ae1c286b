"""``gpuemu/serverStatus``: health, activity, executor, and the versions that results depend on."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from gpuemu_lsp.engine.workers.model import Done, Event, Job, Progress
from gpuemu_lsp.engine.workers.pool import Pool
from gpuemu_lsp.server.events import (
    BatchEnded,
    BatchStarted,
    JobEnded,
    JobStarted,
    PauseChanged,
    ServerEvent,
    SettingsChanged,
    SubscriberFailed,
)
from gpuemu_lsp.server.settings import default_workers

METHOD = "gpuemu/serverStatus"


class ServerStatus:
    """Notifies the client when its status changes."""

    def __init__(
        self, pool: Pool, notify: Callable[[str, Any], None], failing: Callable[[], int], log: Callable[[str], None]
    ) -> None:
        self._pool = pool
        self._notify = notify
        self._failing = failing
        self._log = log
        self._busy = 0
        self._versions: dict[str, str] = {}
        self._problem: str | None = None
        self._warning: str | None = None
        self._failure: str | None = None
        """An internal error since the last batch began."""
        self._restricted = False
        self._paused = False
        self._workers = default_workers()
        self._requested_executor = "auto"
        self.executor = "emulator"
        self._sent: dict[str, Any] | None = None

    def query_versions(self) -> None:
        """Query in a worker what is installed; imports of CuPy and llvmlite do not belong in this process."""
        loop = asyncio.get_running_loop()

        def receive(event: Event) -> None:
            if not loop.is_closed():
                loop.call_soon_threadsafe(self._on_versions, event)

        self._pool.submit(Job("describe"), receive)

    @property
    def versions(self) -> dict[str, str]:
        """Name and version of everything a result depends on; empty until the worker has answered."""
        return dict(self._versions)

    def on_event(self, event: ServerEvent) -> None:
        """Count batches and jobs with a title as activity; follow the executor of the settings."""
        match event:
            case BatchStarted():
                self._failure = None
                self._count(1)
            case SubscriberFailed(error):
                self._failure = f"Internal error, results may be missing: {type(error).__name__}: {error}"
                self._send()
            case BatchEnded():
                self._count(-1)
            case JobStarted(job) if job.title is not None:
                self._count(1)
            case JobEnded(job) if job.title is not None:
                self._count(-1)
            case PauseChanged(paused):
                self._paused = paused
                self._send()
            case SettingsChanged():
                self._restricted = not event.new.trusted
                self._workers = event.new.jobs or default_workers()
                self._select_executor(event.new.executor)

    def _count(self, change: int) -> None:
        self._busy += change
        self._send()

    def _select_executor(self, requested: str) -> None:
        gpu = self._versions.get("GPU", "")
        available = bool(gpu) and not gpu.startswith("none")
        self._requested_executor = requested
        self.executor = "gpu" if requested == "gpu" and available else "emulator"
        self._warning = None
        if requested == "gpu" and gpu and not available:
            reason = gpu.removeprefix("none").strip(": ")
            self._warning = f"There is no GPU ({reason}); the emulator runs the kernels."
        self._send()

    def _on_versions(self, event: Event) -> None:
        if isinstance(event, Progress) and isinstance(event.value, dict):
            self._versions = {name: str(value) for name, value in event.value.items()}
            compiler = self._versions.get("NVRTC", "")
            self._problem = f"NVRTC is {compiler}" if compiler.startswith("not usable") else None
        elif not isinstance(event, Done):
            self._problem = "The worker processes do not start; nothing can be checked."
        self._select_executor(self._requested_executor)
        if isinstance(event, Progress):
            versions = (f"{name} {version}" for name, version in self._shown_versions().items())
            self._log(f"Ready: executor {self.executor}, {self._workers} workers, {', '.join(versions)}.")

    def _shown_versions(self) -> dict[str, str]:
        """Return the versions for the user. A missing GPU needs no reason unless the settings ask for one."""
        gpu = self._versions.get("GPU", "")
        plain = {"GPU": "none"} if gpu.startswith("none") and self._warning is None else {}
        return {**self._versions, **plain}

    def _send(self) -> None:
        failing = self._failing()
        problem = self._problem or self._failure
        message = problem or self._warning
        if message is None and self._restricted:
            message = "Restricted mode: kernels are compiled, but not run."
        elif message is None and failing:
            message = f"{failing} kernel{' fails' if failing == 1 else 's fail'}."
        if self._paused and problem is None:
            message = " ".join(filter(None, ("Checks are paused.", message)))
        status = {
            "health": "error" if problem is not None else "warning" if self._warning is not None else "ok",
            "quiescent": self._busy == 0,
            "message": message,
            "failing": failing,
            "restricted": self._restricted,
            "paused": self._paused,
            "executor": self.executor,
            "versions": self._shown_versions(),
        }
        if status != self._sent:
            self._sent = status
            self._notify(METHOD, status)
