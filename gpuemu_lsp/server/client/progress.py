"""Work-done progress (LSP 3.17, ``$/progress``): begins late, can be cancelled, always ends."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable, Iterable
from concurrent.futures import Future
from dataclasses import dataclass, field
from pathlib import Path

from lsprotocol import types
from pygls.exceptions import JsonRpcException
from pygls.lsp.server import LanguageServer

from gpuemu_lsp.server.events import BatchEnded, BatchStarted, JobStarted, ServerEvent
from gpuemu_lsp.server.work import Batch, BatchKey, RunningJob

_DELAY_SECONDS = 0.5
"""Work that ends sooner shows no progress."""
_PERIOD_SECONDS = 0.5


@dataclass(frozen=True, slots=True)
class TrackedWork:
    """Work whose progress is shown. ``measure`` returns the steps done and their total, 0 where it is unknown.

    ``title`` is called when the bar begins; ``unit`` names the steps.
    """

    title: Callable[[], str]
    measure: Callable[[], tuple[int, int]]
    ended: asyncio.Event
    cancel: Callable[[], object]
    unit: str = ""


@dataclass(slots=True, eq=False)
class ChecksProgress:
    """Checks of files that run at the same time. They share one bar, which counts their kernels."""

    batches: list[Batch] = field(default_factory=list)
    ended: asyncio.Event = field(default_factory=asyncio.Event)

    def title(self) -> str:
        """Return the title of the bar, which cannot change once it has begun."""
        verb = "Fuzzing" if any(batch.deep for batch in self.batches) else "Checking"
        files = {batch.key.path for batch in self.batches}
        return f"{verb} {Path(files.pop()).name if len(files) == 1 else f'{len(files)} files'}"

    def measure(self) -> tuple[int, int]:
        """Return the number of kernels finished, and of all."""
        done = sum(len(batch.checks) if batch.ended.is_set() else batch.finished for batch in self.batches)
        return done, sum(len(batch.checks) for batch in self.batches)


class ProgressBars:
    """One progress bar for all checks, and one for each job with a title, that last."""

    def __init__(self, server: LanguageServer, cancel: Callable[[Iterable[BatchKey]], object]) -> None:
        self.supported = False
        self._server = server
        self._cancel = cancel
        self._tasks: set[asyncio.Task[None]] = set()
        self._numbers = itertools.count(1)
        self._checks: ChecksProgress | None = None

    def on_event(self, event: ServerEvent) -> None:
        """Track checks and jobs; the ending of a job is read from the job itself."""
        match event:
            case BatchStarted(batch) if batch.key.kind == "check":
                self._add(batch)
            case BatchEnded(batch) if batch.key.kind == "check":
                self._end_checks()
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

    def _add(self, batch: Batch) -> None:
        """Add a check to those that run, or begin with it."""
        if self._checks is not None:
            self._checks.batches.append(batch)
            return
        checks = self._checks = ChecksProgress([batch])

        def cancel() -> None:
            self._cancel([one.key for one in checks.batches if not one.ended.is_set()])

        self._track(TrackedWork(checks.title, checks.measure, checks.ended, cancel, "kernels"))

    def _end_checks(self) -> None:
        """End the bar of the checks once all of them have ended."""
        if self._checks is not None and all(batch.ended.is_set() for batch in self._checks.batches):
            self._checks.ended.set()
            self._checks = None

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
            bars.begin(token, types.WorkDoneProgressBegin(title=work.title(), cancellable=True, percentage=0))
            self._cancel_with(token, work)
            percentage = 0
            while not await _ends_within(work, _PERIOD_SECONDS):
                done, total = work.measure()
                message = f"{done} of {total} {work.unit}".rstrip() if total else None
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
    return TrackedWork(lambda: title, lambda: (job.done, job.total), job.ended, job.cancel)


async def _ends_within(work: TrackedWork, seconds: float) -> bool:
    try:
        await asyncio.wait_for(work.ended.wait(), seconds)
    except TimeoutError:
        return False
    return True
