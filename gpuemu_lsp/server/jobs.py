"""Jobs that are no checks (a minimisation, a disassembly, a look into the store): awaited, counted, cancellable."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from typing import Any

from gpuemu_lsp.engine.findings import Json
from gpuemu_lsp.engine.jobs.run_one import JobResult
from gpuemu_lsp.engine.workers import Job, JobHandle, Pool
from gpuemu_lsp.engine.workers.model import Cancelled, Event, Progress

_log = logging.getLogger(__name__)


@dataclass(slots=True, eq=False)
class Task:
    """One job under way. ``done`` of ``total`` steps, where it tells; ``title`` None shows no progress."""

    title: str | None
    done: int = 0
    total: int = 0
    ended: asyncio.Event = field(default_factory=asyncio.Event)
    ticket: JobHandle | None = None

    @property
    def message(self) -> str:
        """How far it is."""
        return f"{self.done}/{self.total}" if self.total else ""

    def cancel(self) -> None:
        """Give it up; its ending follows."""
        if self.ticket is not None:
            self.ticket.cancel()


class Tasks:
    """Runs jobs in the pool for coroutines on the event loop."""

    def __init__(self, pool: Pool, begun: Callable[[Task], None], ended: Callable[[Task], None]) -> None:
        self._pool = pool
        self._begun = begun
        self._ended = ended
        self._running: set[Task] = set()
        self._background: set[asyncio.Task[None]] = set()
        self._closed = False

    async def run(self, job: Job, title: str | None = None) -> JobResult:
        """Run a job to its end; cancelling the coroutine ends the job."""
        if self._closed:
            return JobResult((), Cancelled())
        loop = asyncio.get_running_loop()
        task = Task(title)
        values: list[dict[str, Json]] = []
        result: asyncio.Future[JobResult] = loop.create_future()

        def take(event: Event) -> None:
            if isinstance(event, Progress):
                if isinstance(event.value, dict):
                    values.append(event.value)
                    _advance(task, event.value)
            elif not result.done():
                result.set_result(JobResult(tuple(values), event))

        def receive(event: Event) -> None:
            if not loop.is_closed():
                loop.call_soon_threadsafe(take, event)

        task.ticket = self._pool.submit(job, receive)
        self._running.add(task)
        self._begun(task)
        try:
            return await result
        finally:
            task.cancel()
            self._running.discard(task)
            task.ended.set()
            self._ended(task)

    def background(self, work: Coroutine[Any, Any, None]) -> None:
        """Run a coroutine that nobody waits for; what it raises is logged."""
        task = asyncio.get_running_loop().create_task(work)
        self._background.add(task)
        task.add_done_callback(self._forget)

    def _forget(self, task: asyncio.Task[None]) -> None:
        self._background.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            _log.error("a background task failed", exc_info=error)

    def cancel(self) -> int:
        """Give up what runs and shows progress; return how many jobs that were."""
        chosen = [task for task in self._running if task.title is not None]
        for task in chosen:
            task.cancel()
        return len(chosen)

    def close(self) -> None:
        """Give up everything and start nothing more."""
        self._closed = True
        for task in list(self._running):
            task.cancel()
        for work in list(self._background):
            work.cancel()

    @property
    def busy(self) -> bool:
        """Whether anything that was asked for in the background is under way."""
        return bool(self._background)

    async def wait_idle(self) -> None:
        """Wait until nothing runs in the background."""
        while self._background:
            await asyncio.wait(self._background)


def _advance(task: Task, value: dict[str, Json]) -> None:
    progress = value.get("progress")
    if isinstance(progress, dict):
        done, total = progress.get("done"), progress.get("total")
        if isinstance(done, int) and isinstance(total, int) and total:
            task.done, task.total = done, total
