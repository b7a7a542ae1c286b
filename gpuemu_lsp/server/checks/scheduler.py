"""Scheduler of checks in the worker pool: debounces requests, and lets a newer batch supersede an older one.

Life of a batch, by its key (kind of work and file):

1. ``debounce`` makes it *pending*. Each further call cancels the pending one and starts the delay again, so that a
   burst of edits is one batch. After the delay ``prepare`` reads what is to be checked; it may await the parser thread,
   and a newer call still cancels it.
2. ``start`` makes it *running*. One job reads and compiles the file and takes the verdicts that are stored; every
   other kernel is then submitted as one job, as soon as it is compiled. A file with one kernel is one job.
3. It ends when every kernel has finished, or earlier: a newer ``start`` of the same key supersedes it, and ``cancel``
   cancels it. Either cancels the jobs of all its kernels, upon which the pool kills the workers that run them. So a
   newer save kills the check of the older one, even if that kernel never terminates.

Newest wins also for results: the pool delivers events from another thread, so an event of a superseded batch may still
be queued on the event loop. ``_receive`` drops it, because the batch is no longer the running one of its key.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import replace
from typing import TypeVar

from gpuemu_lsp.engine.check.model import KernelReport, unfinished_report
from gpuemu_lsp.engine.findings import Finding, Severity, collect
from gpuemu_lsp.engine.jobs.crash_findings import ending_finding, with_case
from gpuemu_lsp.engine.jobs.files.checks import file_payload, shares_program
from gpuemu_lsp.engine.jobs.functions import decode
from gpuemu_lsp.engine.jobs.run import RESTARTS, compile_limit, seconds_for
from gpuemu_lsp.engine.subjects.request import CheckRequest
from gpuemu_lsp.engine.workers.job_handle import JobHandle
from gpuemu_lsp.engine.workers.model import Cancelled, Event, Job, Progress, Restarted
from gpuemu_lsp.engine.workers.pool import Pool
from gpuemu_lsp.engine.workers.wire import to_json
from gpuemu_lsp.server.events import (
    BatchEnded,
    BatchStarted,
    CheckSkipped,
    EventBus,
    KernelCompiled,
    KernelFinished,
    KernelStarted,
    RunErrorFound,
)
from gpuemu_lsp.server.work import Batch, BatchKey, KernelCheck

_MANY_KERNELS = 8
"""Kernels of a file from which on its program takes so much longer to compile than that of one kernel."""
_T = TypeVar("_T")
_log = logging.getLogger(__name__)


class BatchScheduler:
    """Debounces, starts, supersedes and cancels batches. On the event loop's thread only."""

    def __init__(self, pool: Pool, events: EventBus) -> None:
        self._pool = pool
        self._events = events
        self._pending: dict[BatchKey, asyncio.Task[None]] = {}
        self._running: dict[BatchKey, Batch] = {}
        self._idle = asyncio.Event()
        self._idle.set()
        self._closed = False
        self._serial = 0

    def debounce(
        self,
        seconds: float,
        key: BatchKey,
        prepare: Callable[[], Awaitable[_T]],
        begin: Callable[[_T], None],
    ) -> None:
        """Call ``begin(await prepare())`` after a delay without another call for ``key``.

        A newer call cancels this one while it waits or prepares; once ``begin`` is called, it no longer does.
        """
        self.cancel_pending(key)

        async def run() -> None:
            try:
                await asyncio.sleep(seconds)
                prepared = await prepare()
                del self._pending[key]  # before begin(), which may debounce the same key again
                begin(prepared)
            except Exception:
                _log.exception("%s of %s could not begin", key.kind, key.path)
                self._pending.pop(key, None)
                self._events.publish(CheckSkipped(key.path, cancelled=True))
            finally:
                if self._pending.get(key) is asyncio.current_task():
                    del self._pending[key]
                self._update_idle()

        if not self._closed:
            self._pending[key] = asyncio.get_running_loop().create_task(run())
            self._idle.clear()

    def cancel_pending(self, key: BatchKey) -> None:
        """Cancel the pending batch of a key; a running one continues."""
        pending = self._pending.pop(key, None)
        if pending is not None:
            pending.cancel()
            self._update_idle()

    def start(
        self,
        key: BatchKey,
        requests: Sequence[CheckRequest],
        revision: int,
        whole: bool = True,
        deep: bool = False,
        edited: bool = False,
    ) -> None:
        """Start a batch now; it supersedes the running one of the same key. ``edited``: the first kernel was."""
        self._supersede(key)
        if self._closed:
            return
        self._serial += 1
        checks = [KernelCheck(replace(request, batch=str(self._serial))) for request in requests]
        batch = Batch(key, revision, checks, whole, deep)
        self._running[key] = batch
        self._idle.clear()
        self._events.publish(BatchStarted(batch))
        loop = asyncio.get_running_loop()
        if shares_program([check.request for check in checks]):
            # The kernel that was edited does not wait for the file's program.
            alone = checks[:1] if edited and len(checks) >= _MANY_KERNELS else []
            for check in alone:
                check.request = replace(check.request, alone=True)
                self._submit(loop, batch, check)
            batch.handles.append(self._submit_file(loop, batch, checks[len(alone) :]))
        else:
            for check in checks:
                self._submit(loop, batch, check)
        if not checks:
            self._end(batch, completed=True)

    def running(self, key: BatchKey) -> Batch | None:
        """Return the running batch of a key."""
        return self._running.get(key)

    def revalidate(self, key: BatchKey, revision: int) -> None:
        """Record that the running batch of a key checks the text of a newer revision as well."""
        if key in self._running:
            self._running[key].revision = revision

    def cancel(self, keys: Iterable[BatchKey] | None = None) -> int:
        """Cancel pending and running batches, by default all; return their number."""
        chosen = {*self._pending, *self._running} if keys is None else set(keys)
        count = 0
        for key in chosen:
            count += key in self._pending or key in self._running
            self.cancel_pending(key)
            self._supersede(key)
        return count

    def close(self) -> None:
        """Cancel everything and start nothing more."""
        self._closed = True
        self.cancel()

    @property
    def active(self) -> frozenset[BatchKey]:
        """Keys of the pending and running batches."""
        return frozenset({*self._pending, *self._running})

    @property
    def busy(self) -> bool:
        """Whether any batch is pending or running."""
        return bool(self._pending or self._running)

    async def wait_idle(self) -> None:
        """Wait until no batch is pending or running."""
        await self._idle.wait()

    def _submit_file(self, loop: asyncio.AbstractEventLoop, batch: Batch, checks: Sequence[KernelCheck]) -> JobHandle:
        """Submit the part of several checks that takes no launch: one job reads and compiles the file."""
        requests = [check.request for check in checks]
        job = Job("check_file", file_payload(requests), wall_seconds=seconds_for(requests[0]) + len(requests))

        def receive(event: Event) -> None:
            # Called on a thread of the pool.
            if not loop.is_closed():
                loop.call_soon_threadsafe(self._receive_file, loop, batch, checks, event)

        return self._pool.submit(job, receive)

    def _receive_file(
        self, loop: asyncio.AbstractEventLoop, batch: Batch, checks: Sequence[KernelCheck], event: Event
    ) -> None:
        if self._running.get(batch.key) is not batch:
            return
        if isinstance(event, Progress):
            assert isinstance(event.value, dict)
            number = event.value["kernel"]
            assert isinstance(number, int)
            check = checks[number]
            program = event.value.get("pending")
            if isinstance(program, list):
                self._run_cases(loop, batch, check, tuple(map(str, program)))
            else:
                self._receive(batch, check, event)
                if check.report is not None:
                    self._finish(batch, check)
            return
        for check in checks:
            if isinstance(event, Cancelled):
                self._receive(batch, check, event)
            elif not check.finished and not check.submitted:
                # The job failed, perhaps because of one kernel: each of the others has its own chance.
                check.findings.clear()
                self._submit(loop, batch, check)

    def _run_cases(
        self, loop: asyncio.AbstractEventLoop, batch: Batch, check: KernelCheck, program: tuple[str, ...]
    ) -> None:
        """Submit a kernel that the file's job has compiled; its own job reports the same findings again."""
        if not check.compiled:
            check.compiled = True
            self._events.publish(KernelCompiled(batch, check))
        check.findings.clear()
        check.request = replace(check.request, program=program)
        self._submit(loop, batch, check)

    def _submit(self, loop: asyncio.AbstractEventLoop, batch: Batch, check: KernelCheck) -> None:
        request = check.request
        check.submitted = True
        job = Job(
            "check",
            to_json(request),
            wall_seconds=seconds_for(request),
            taint=request.user_code,
            first_stage=compile_limit(request),
            restarts=RESTARTS,
        )

        def receive(event: Event) -> None:
            # Called on a thread of the pool.
            if not loop.is_closed():
                loop.call_soon_threadsafe(self._receive, batch, check, event)

        batch.handles.append(self._pool.submit(job, receive))

    def _receive(self, batch: Batch, check: KernelCheck, event: Event) -> None:
        if self._running.get(batch.key) is not batch or check.finished:
            return  # superseded or cancelled: drop the late event
        if not check.started:
            check.started = True
            self._events.publish(KernelStarted(batch, check))
        if isinstance(event, Restarted):
            check.findings.clear()
            check.report = check.case = None
            return
        if isinstance(event, Progress):
            decoded = decode(event.value)
            if isinstance(decoded, Finding):
                collect(check.findings, decoded)
                if check.compiled and decoded.severity is Severity.ERROR:
                    self._events.publish(RunErrorFound(batch, check))
            elif isinstance(decoded, KernelReport):
                check.report = decoded
            else:
                check.case = decoded.started
                if decoded.stage != "compile" and not check.compiled:
                    check.compiled = True
                    self._events.publish(KernelCompiled(batch, check))
            return
        if check.report is None:
            check.findings.append(with_case(check.request, ending_finding(check.request, event), check.case))
            status = "not-executed" if isinstance(event, Cancelled) else "error"
            check.report = unfinished_report(check.request, status)
        self._finish(batch, check)

    def _finish(self, batch: Batch, check: KernelCheck) -> None:
        check.finished = True
        self._events.publish(KernelFinished(batch, check))
        if batch.finished == len(batch.checks):
            self._end(batch, completed=True)

    def _supersede(self, key: BatchKey) -> None:
        """End the running batch of a key and kill the workers that run its kernels."""
        batch = self._running.get(key)
        if batch is not None:
            # End it first: events that the cancellations cause are then dropped.
            self._end(batch, completed=False)
            for handle in batch.handles:
                handle.cancel()

    def _end(self, batch: Batch, completed: bool) -> None:
        del self._running[batch.key]
        batch.ended.set()
        self._events.publish(BatchEnded(batch, completed))
        self._update_idle()

    def _update_idle(self) -> None:
        if not self.busy:
            self._idle.set()
