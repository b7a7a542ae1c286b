"""Units of work in the worker pool: batches of kernel checks, and single jobs."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import Literal, Protocol, TypeAlias

from gpuemu_lsp.engine.check.model import KernelReport, StartedCase
from gpuemu_lsp.engine.findings import Finding
from gpuemu_lsp.engine.subjects.request import CheckRequest
from gpuemu_lsp.engine.workers.job_handle import JobHandle

BatchKind: TypeAlias = Literal["config", "compile", "check"]


@dataclass(frozen=True, slots=True, order=True)
class BatchKey:
    """Kind of work and file of a batch. At most one batch of a key is pending, and at most one is running."""

    kind: BatchKind
    path: str


@dataclass(slots=True)
class KernelCheck:
    """The check, or compilation, of one kernel of a batch.

    ``started``: a worker runs it. ``compiled``: the compile stage has ended, and its findings are published.
    ``submitted``: it has a job of its own. ``case``: what an op runs now.
    """

    request: CheckRequest
    findings: list[Finding] = field(default_factory=list)
    report: KernelReport | None = None
    started: bool = False
    compiled: bool = False
    finished: bool = False
    submitted: bool = False
    case: StartedCase | None = None


@dataclass(slots=True, eq=False)
class Batch:
    """The kernels of one file as of one revision of the session.

    ``whole`` is False where only some kernels of the file were requested.
    """

    key: BatchKey
    revision: int
    checks: list[KernelCheck]
    whole: bool = True
    deep: bool = False
    handles: list[JobHandle] = field(default_factory=list)
    ended: asyncio.Event = field(default_factory=asyncio.Event)

    @property
    def finished(self) -> int:
        """Number of kernels whose check has finished."""
        return sum(check.finished for check in self.checks)

    @property
    def store_root(self) -> str | None:
        """Root of the project that stores failing cases and measurements; None where nothing is stored."""
        return self.checks[0].request.options.store_root if self.checks else None


class Cancellable(Protocol):
    """Work that can be cancelled: a job of the pool, or a program."""

    def cancel(self) -> None:
        """Cancel it; its end follows."""
        ...


@dataclass(slots=True, eq=False)
class RunningJob:
    """A job that is not part of a batch. ``done`` of ``total`` steps, where it reports them.

    A job without ``title`` runs in the background: no progress is shown, and ``gpuemu.cancel`` leaves it alone.
    """

    title: str | None
    done: int = 0
    total: int = 0
    ended: asyncio.Event = field(default_factory=asyncio.Event)
    handle: Cancellable | None = None

    def cancel(self) -> None:
        """Cancel the job; its ending event follows."""
        if self.handle is not None:
            self.handle.cancel()
