"""Runs checks in the pool: newest wins, older ones are killed and whatever they still say is dropped.

Everything here happens on the event loop's thread; the pool's events are passed on to it.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Literal, TypeAlias, TypeVar

from gpuemu_lsp.engine.check.model import CheckRequest, KernelReport
from gpuemu_lsp.engine.findings import Finding, Severity
from gpuemu_lsp.engine.jobs.crash_findings import ending_finding
from gpuemu_lsp.engine.jobs.functions import decode
from gpuemu_lsp.engine.jobs.run import seconds_for
from gpuemu_lsp.engine.workers import Job, JobHandle, Pool
from gpuemu_lsp.engine.workers.model import Cancelled, Event, Progress
from gpuemu_lsp.engine.workers.wire import to_json

Kind: TypeAlias = Literal["config", "compile", "check"]
_T = TypeVar("_T")
_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, order=True)
class Key:
    """What a batch is for; at most one batch of a key is alive."""

    kind: Kind
    path: str


@dataclass(slots=True)
class Part:
    """One kernel of a batch. ``begun``: a worker has it. ``compiled``: what was found so far has been told already."""

    request: CheckRequest
    findings: list[Finding] = field(default_factory=list)
    report: KernelReport | None = None
    begun: bool = False
    compiled: bool = False
    ended: bool = False


@dataclass(slots=True, eq=False)
class Batch:
    """The kernels of one file as of one revision of the session. ``whole`` says that they are all it has."""

    key: Key
    revision: int
    parts: list[Part]
    whole: bool = True
    deep: bool = False
    tickets: list[JobHandle] = field(default_factory=list)
    ended: asyncio.Event = field(default_factory=asyncio.Event)

    @property
    def done(self) -> int:
        """How many kernels have their verdict."""
        return sum(part.ended for part in self.parts)


@dataclass(frozen=True, slots=True)
class Listener:
    """Whom the scheduler tells of batches and their parts.

    A batch or part of it began, a part is compiled, an error of its run was found, it has its verdict, the batch ended.
    """

    begun: Callable[[Batch], None]
    started: Callable[[Batch, Part], None]
    compiled: Callable[[Batch, Part], None]
    found: Callable[[Batch, Part], None]
    verdict: Callable[[Batch, Part], None]
    ended: Callable[[Batch, bool], None]
    """The flag says that it ended by itself, not because it was cancelled."""


class Scheduler:
    """Debounces, starts, replaces and cancels batches."""

    def __init__(self, pool: Pool, listener: Listener) -> None:
        self._pool = pool
        self._listener = listener
        self._waiting: dict[Key, asyncio.Task[None]] = {}
        self._running: dict[Key, Batch] = {}
        self._idle = asyncio.Event()
        self._idle.set()
        self._closed = False

    def after(
        self, seconds: float, key: Key, prepare: Callable[[], Awaitable[_T]], begin: Callable[[_T], None]
    ) -> None:
        """When nothing more was asked for ``key`` for a while, ``prepare``, and ``begin`` with what that returned.

        What is asked for ``key`` meanwhile takes the place of both.
        """
        self.forget(key)

        async def run() -> None:
            try:
                await asyncio.sleep(seconds)
                prepared = await prepare()
                del self._waiting[key]  # from here on nothing waits: it begins
                begin(prepared)
            except Exception:
                _log.exception("%s of %s could not begin", key.kind, key.path)
            finally:
                if self._waiting.get(key) is asyncio.current_task():
                    del self._waiting[key]
                self._settle()

        if not self._closed:
            self._waiting[key] = asyncio.get_running_loop().create_task(run())
            self._idle.clear()

    def forget(self, key: Key) -> None:
        """Call off what waits for its time."""
        waiting = self._waiting.pop(key, None)
        if waiting is not None:
            waiting.cancel()
            self._settle()

    def start(
        self, key: Key, requests: Sequence[CheckRequest], revision: int, whole: bool = True, deep: bool = False
    ) -> None:
        """Begin a batch now; the older one of the same key is dropped."""
        self._replace(key)
        if self._closed:
            return
        batch = Batch(key, revision, [Part(request) for request in requests], whole, deep)
        self._running[key] = batch
        self._idle.clear()
        self._listener.begun(batch)
        loop = asyncio.get_running_loop()
        for part in batch.parts:
            batch.tickets.append(self._submit(loop, batch, part))
        if not batch.parts:
            self._finish(batch, by_itself=True)

    def running(self, key: Key) -> Batch | None:
        """Return the batch of a key that is alive."""
        return self._running.get(key)

    def confirm(self, key: Key, revision: int) -> None:
        """Note that a running batch is about the text of a newer revision too."""
        if key in self._running:
            self._running[key].revision = revision

    def cancel(self, keys: Iterable[Key] | None = None) -> int:
        """Give up what waits or runs (everything by default); return how many batches that were."""
        chosen = {*self._waiting, *self._running} if keys is None else set(keys)
        count = 0
        for key in chosen:
            count += key in self._waiting or key in self._running
            self.forget(key)
            self._replace(key)
        return count

    def close(self) -> None:
        """Cancel everything and start nothing more."""
        self._closed = True
        self.cancel()

    @property
    def busy(self) -> bool:
        """Whether anything waits or runs."""
        return bool(self._waiting or self._running)

    async def wait_idle(self) -> None:
        """Wait until nothing waits or runs."""
        await self._idle.wait()

    def _submit(self, loop: asyncio.AbstractEventLoop, batch: Batch, part: Part) -> JobHandle:
        request = part.request
        job = Job(
            "check",
            to_json(request),
            wall_seconds=seconds_for(request),
            taint=request.spec.reference if request.options.execute else None,
        )

        def receive(event: Event) -> None:
            if not loop.is_closed():
                loop.call_soon_threadsafe(self._receive, batch, part, event)

        return self._pool.submit(job, receive)

    def _receive(self, batch: Batch, part: Part, event: Event) -> None:
        if self._running.get(batch.key) is not batch or part.ended:
            return  # an older generation: a newer save has taken its place
        if not part.begun:
            part.begun = True
            self._listener.started(batch, part)
        if isinstance(event, Progress):
            decoded = decode(event.value)
            if isinstance(decoded, Finding):
                part.findings.append(decoded)
                if part.compiled and decoded.severity is Severity.ERROR:
                    self._listener.found(batch, part)
            elif isinstance(decoded, KernelReport):
                part.report = decoded
            elif decoded.stage != "compile" and not part.compiled:
                part.compiled = True
                self._listener.compiled(batch, part)
            return
        if part.report is None:
            spec = part.request.spec
            part.findings.append(ending_finding(part.request, event))
            status = "not-executed" if isinstance(event, Cancelled) else "error"
            part.report = KernelReport(spec.name, spec.source, status, False, registered=part.request.registered)
        part.ended = True
        self._listener.verdict(batch, part)
        if batch.done == len(batch.parts):
            self._finish(batch, by_itself=True)

    def _replace(self, key: Key) -> None:
        batch = self._running.get(key)
        if batch is not None:
            self._finish(batch, by_itself=False)
            for ticket in batch.tickets:
                ticket.cancel()

    def _finish(self, batch: Batch, by_itself: bool) -> None:
        del self._running[batch.key]
        batch.ended.set()
        self._listener.ended(batch, by_itself)
        self._settle()

    def _settle(self) -> None:
        if not self.busy:
            self._idle.set()
