"""Worker jobs other than checks (minimisation, disassembly, reading the store): awaited, counted, cancellable."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Coroutine
from contextlib import asynccontextmanager
from typing import Any

from gpuemu_lsp.engine.findings import Json
from gpuemu_lsp.engine.jobs.run_one import JobResult
from gpuemu_lsp.engine.workers.model import Cancelled, Event, Job, Progress, Restarted
from gpuemu_lsp.engine.workers.pool import Pool
from gpuemu_lsp.server.events import EventBus, JobEnded, JobStarted
from gpuemu_lsp.server.work import Cancellable, RunningJob

_log = logging.getLogger(__name__)


class JobRunner:
    """Runs jobs in the pool for coroutines on the event loop, and keeps background coroutines alive."""

    def __init__(self, pool: Pool, events: EventBus) -> None:
        self.pool = pool
        self._events = events
        self._running: set[RunningJob] = set()
        self._background: set[asyncio.Task[None]] = set()
        self._closed = False

    async def run(self, job: Job, title: str | None = None) -> JobResult:
        """Run a job to its end; cancelling the coroutine cancels the job."""
        if self._closed:
            return JobResult((), Cancelled())
        loop = asyncio.get_running_loop()
        running = RunningJob(title)
        values: list[dict[str, Json]] = []
        result: asyncio.Future[JobResult] = loop.create_future()

        def take(event: Event) -> None:
            if isinstance(event, Progress):
                if isinstance(event.value, dict):
                    values.append(event.value)
                    _update_progress(running, event.value)
            elif isinstance(event, Restarted):
                values.clear()
            elif not result.done():
                result.set_result(JobResult(tuple(values), event))

        def receive(event: Event) -> None:
            if not loop.is_closed():
                loop.call_soon_threadsafe(take, event)

        running.handle = self.pool.submit(job, receive)
        self._running.add(running)
        self._events.publish(JobStarted(running))
        try:
            return await result
        finally:
            running.cancel()
            self._running.discard(running)
            running.ended.set()
            self._events.publish(JobEnded(running))

    @asynccontextmanager
    async def tracked(self, title: str, work: Cancellable) -> AsyncIterator[RunningJob]:
        """Show progress of work that is not a job of the pool, and cancel it with the jobs, until the block ends."""
        running = RunningJob(title, handle=work)
        self._running.add(running)
        self._events.publish(JobStarted(running))
        try:
            yield running
        finally:
            self._running.discard(running)
            running.ended.set()
            self._events.publish(JobEnded(running))

    def background(self, work: Coroutine[Any, Any, None]) -> None:
        """Run a coroutine that no caller awaits; its exception, if any, is logged."""
        task = asyncio.get_running_loop().create_task(work)
        self._background.add(task)
        task.add_done_callback(self._discard)

    def _discard(self, task: asyncio.Task[None]) -> None:
        self._background.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            _log.error("a background task failed", exc_info=error)

    def cancel(self) -> int:
        """Cancel the jobs that show progress; return their number."""
        chosen = [job for job in self._running if job.title is not None]
        for job in chosen:
            job.cancel()
        return len(chosen)

    def close(self) -> None:
        """Cancel everything and start nothing more."""
        self._closed = True
        for job in list(self._running):
            job.cancel()
        for task in list(self._background):
            task.cancel()

    @property
    def busy(self) -> bool:
        """Whether a background coroutine runs."""
        return bool(self._background)

    async def wait_idle(self) -> None:
        """Wait until no background coroutine runs."""
        while self._background:
            await asyncio.wait(self._background)


def _update_progress(job: RunningJob, value: dict[str, Json]) -> None:
    progress = value.get("progress")
    if isinstance(progress, dict):
        done, total = progress.get("done"), progress.get("total")
        if isinstance(done, int) and isinstance(total, int) and total:
            job.done, job.total = done, total
