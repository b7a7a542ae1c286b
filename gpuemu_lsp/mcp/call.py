"""One tool call: its arguments, its jobs, its end by budget or cancellation, and its progress."""

from __future__ import annotations

import contextlib
import queue
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, NoReturn, Protocol, TypeVar

from gpuemu_lsp.engine.findings import Json
from gpuemu_lsp.engine.workers.model import Event, Job
from gpuemu_lsp.mcp.long_results import with_rest
from gpuemu_lsp.mcp.schemas import Schema, shortened

if TYPE_CHECKING:
    from collections.abc import Iterator

    from gpuemu_lsp.engine.workers.job_handle import JobHandle
    from gpuemu_lsp.engine.workers.pool import Pool
    from gpuemu_lsp.mcp.session import AgentSession

CANCELLED = "the client cancelled the call"
_POLL_SECONDS = 0.1
_LITTLE = 1e-4

Result = TypeVar("Result")


class ToolError(Exception):
    """A call that has no result; the message says why, and what to do."""


class CancellableWork(Protocol):
    """Work in progress that can be ended."""

    def cancel(self) -> None:
        """End the work. Does not wait."""


def _raise(error: Exception) -> NoReturn:
    raise error


@dataclass(frozen=True, slots=True)
class Tool:
    """A tool: what it takes and returns, as JSON Schema, and the function that a call runs.

    ``writes``: it changes files of the user.
    """

    name: str
    title: str
    description: str
    arguments: Schema
    result: Schema
    run: Callable[[ToolCall], dict[str, Json]]
    writes: bool = False

    @property
    def output(self) -> Schema:
        """The schema of what the client gets: lists of the result may be cut."""
        return shortened(with_rest(self.result))


class ToolCall:
    """A call of a tool. Its thread runs the tool; :meth:`end` may be called from any thread.

    ``arguments`` have been checked against the tool's schema. It submits jobs as a pool does, for all functions of the
    engine that take one.
    """

    def __init__(
        self,
        session: AgentSession,
        arguments: Mapping[str, Json],
        on_progress: Callable[[float, float | None, str], None],
    ) -> None:
        self.session = session
        self.arguments = arguments
        self.reason = ""
        """Why the call was ended; empty as long as it was not."""
        self._on_progress = on_progress
        self._progress, self._step = -1.0, ""
        self._handles: list[JobHandle] = []
        self._work: list[CancellableWork] = []
        self._lock = threading.Lock()
        self._began = time.monotonic()

    @property
    def seconds(self) -> float:
        """Time since the call began."""
        return time.monotonic() - self._began

    @property
    def pool(self) -> Pool:
        """The workers of the server."""
        return self.session.pool

    def submit(self, job: Job, on_event: Callable[[Event], None] | None = None) -> JobHandle:
        """Queue a job; one of a call that was ended is cancelled at once."""
        handle = self.pool.submit(job, on_event)
        with self._lock:
            self._handles.append(handle)
        if self.reason:
            handle.cancel(self.reason)
        return handle

    def end(self, reason: str) -> None:
        """End all jobs of the call, now and later; the first reason counts."""
        with self._lock:
            self.reason = self.reason or reason
            handles, work = tuple(self._handles), tuple(self._work)
        for handle in handles:
            handle.cancel(self.reason)
        for item in work:
            item.cancel()

    @contextmanager
    def ending_with_call(self, work: CancellableWork) -> Iterator[None]:
        """End ``work`` with the call, as long as the block runs."""
        with self._lock:
            self._work.append(work)
        if self.reason:
            work.cancel()
        try:
            yield
        finally:
            with self._lock:
                self._work.remove(work)

    def budget(self, seconds: float) -> AbstractContextManager[None]:
        """Return a context that ends the call's jobs ``seconds`` after the call began."""
        return self._limited(seconds)

    @contextmanager
    def _limited(self, seconds: float) -> Iterator[None]:
        reason = f"the budget of {seconds:g} s was used up"
        timer = threading.Timer(max(0.0, seconds - self.seconds), self.end, (reason,))
        timer.daemon = True
        timer.start()
        try:
            yield
        finally:
            timer.cancel()

    def read(self, work: Callable[[], Result]) -> Result:
        """Return what ``work`` returns, which reads files and runs nothing, unless the call ends before.

        Raises
        ------
        ToolError
            If it does; ``work`` then ends by itself, and its result is dropped.
        """
        done: queue.SimpleQueue[Callable[[], Result]] = queue.SimpleQueue()

        def run() -> None:
            try:
                result = work()
            except Exception as error:
                done.put(partial(_raise, error))
            else:
                done.put(lambda: result)

        threading.Thread(target=run, daemon=True).start()
        while not self.reason:
            with contextlib.suppress(queue.Empty):
                return done.get(timeout=_POLL_SECONDS)()
        raise ToolError(f"Not done: {self.reason} while files were read. Name fewer of them.")

    def report(self, progress: float, total: float | None, step: str) -> None:
        """Send progress, if the client wants it. Values only grow: a new step without progress adds a little."""
        with self._lock:
            if progress <= self._progress:
                if step == self._step:
                    return
                progress = self._progress + _LITTLE
            self._progress, self._step = progress, step
        self._on_progress(progress, total, step)
