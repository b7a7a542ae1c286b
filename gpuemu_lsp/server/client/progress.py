"""Work-done progress (LSP 3.17, ``$/progress``): begins late, can be cancelled, always ends."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable, Iterable
from concurrent.futures import Future
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from lsprotocol import types
from pygls.exceptions import JsonRpcException
from pygls.lsp.server import LanguageServer

from gpuemu_lsp.server.events import BatchStarted, JobStarted, ServerEvent
from gpuemu_lsp.server.work import Batch, BatchKey, RunningJob

_DELAY_SECONDS = 0.5
"""Work that ends sooner shows no progress."""
_PERIOD_SECONDS = 0.5


@dataclass(frozen=True, slots=True)
class TrackedWork:
    """Work whose progress is shown. ``measure`` returns the steps done and their total, 0 where it is unknown."""

    title: str
    measure: Callable[[], tuple[int, int]]
    ended: asyncio.Event
    cancel: Callable[[], object]


class ProgressBars:
    """One progress bar for each check and each job with a title that lasts."""

    def __init__(self, server: LanguageServer, cancel: Callable[[Iterable[BatchKey]], object]) -> None:
        self.supported = False
        self._server = server
        self._cancel = cancel
        self._tasks: set[asyncio.Task[None]] = set()
        self._numbers = itertools.count(1)

    def on_event(self, event: ServerEvent) -> None:
        """Track checks and jobs; their ending is read from the work itself."""
        match event:
            case BatchStarted(batch) if batch.key.kind == "check":
                self._track(self._batch(batch))
            case JobStarted(job) if job.title is not None:
                self._track(_job(job, job.title))

    @property
    def count(self) -> int:
        """Number of tokens in use."""
        return len(self._server.work_done_progress.tokens)

    def close(self) -> None:
        """End every bar."""
        for task in self._tasks:
            task.cancel()

    def _batch(self, batch: Batch) -> TrackedWork:
        verb = "Fuzzing" if batch.deep else "Checking"
        return TrackedWork(
            f"{verb} {Path(batch.key.path).name}",
            lambda: (batch.finished, len(batch.checks)),
            batch.ended,
            partial(self._cancel, [batch.key]),
        )

    def _track(self, work: TrackedWork) -> None:
        if self.supported:
            task = asyncio.get_running_loop().create_task(self._show(work))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _show(self, work: TrackedWork) -> None:
        if await _ends_within(work, _DELAY_SECONDS):
            return
        token = f"gpuemu-{next(self._numbers)}"
        bars = self._server.work_done_progress
        try:
            await bars.create_async(token)
        except JsonRpcException:
            return  # the client refused
        try:
            bars.begin(token, types.WorkDoneProgressBegin(title=work.title, cancellable=True, percentage=0))
            self._cancel_with(token, work)
            percentage = 0
            while not await _ends_within(work, _PERIOD_SECONDS):
                done, total = work.measure()
                message = f"{done}/{total}" if total else None
                percentage = max(percentage, 100 * min(done, total) // total if total else 0)
                bars.report(token, types.WorkDoneProgressReport(message=message, percentage=percentage))
        finally:
            bars.end(token, types.WorkDoneProgressEnd())
            bars.tokens.pop(token, None)  # pygls never removes them

    def _cancel_with(self, token: str, work: TrackedWork) -> None:
        """Cancel the work when the client cancels the token."""

        def on_done(future: Future[None]) -> None:
            if future.cancelled():
                work.cancel()

        self._server.work_done_progress.tokens[token].add_done_callback(on_done)


def _job(job: RunningJob, title: str) -> TrackedWork:
    return TrackedWork(title, lambda: (job.done, job.total), job.ended, job.cancel)


async def _ends_within(work: TrackedWork, seconds: float) -> bool:
    try:
        await asyncio.wait_for(work.ended.wait(), seconds)
    except TimeoutError:
        return False
    return True
