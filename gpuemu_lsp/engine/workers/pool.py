"""The pool as its callers see it: submit a job, get its events, wait or cancel."""

from __future__ import annotations

import atexit
import sys
from collections.abc import Callable, Mapping, Sequence
from types import TracebackType
from typing import Self

from gpuemu_lsp.engine.workers.job_handle import CallbackThread, JobHandle
from gpuemu_lsp.engine.workers.model import Event, Job, Limits, Ready
from gpuemu_lsp.engine.workers.supervisor import PoolSettings, Supervisor

_NAMESPACE = "gpuemu_lsp.engine."
_ONE_THREAD = {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
"""Workers run side by side: a reference's BLAS must not take every core for itself."""


class Pool:
    """Runs jobs in up to ``size`` worker processes at a time, first come, first served.

    Safe to use from any thread, and from an event loop: only :meth:`JobHandle.wait`, :meth:`wait_ready` and
    :meth:`close` block. Callbacks run in order on one thread of the pool's own; a server passes them on with
    ``loop.call_soon_threadsafe``.

    Parameters
    ----------
    functions : Mapping[str, str]
        The jobs there are: name to ``module:function`` below ``gpuemu_lsp.engine``. A function takes the payload and
        is a generator of JSON values. Two keys of a yielded object mean something to the pool: ``stage`` (a name,
        reported when the job ends badly) and ``retire`` (true: replace this worker after the job).
    size : int
        How many workers may live at a time.
    limits : Limits
        What each of them may use.
    preload : Sequence[str]
        Modules to import once, before any worker is forked.
    warm_up : Sequence[str]
        Generator functions, ``module:function``, to run in the process that forks the workers, a step at a time while
        nobody wants one. They must leave no thread behind.
    python : str
        The interpreter.
    environment : Mapping[str, str] or None
        Added to the environment of the workers.
    """

    def __init__(
        self,
        functions: Mapping[str, str],
        *,
        size: int = 2,
        limits: Limits | None = None,
        preload: Sequence[str] = (),
        warm_up: Sequence[str] = (),
        python: str = sys.executable,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        foreign = [
            target
            for target in (*functions.values(), *warm_up)
            if not target.startswith(_NAMESPACE) or ":" not in target
        ]
        if foreign:
            raise ValueError(f"not a module:function of the engine: {', '.join(foreign)}")
        if size < 1:
            raise ValueError(f"a pool needs at least one worker, not {size}")
        self._functions = dict(functions)
        self._delivery = CallbackThread()
        self._supervisor = Supervisor(
            PoolSettings(
                functions=self._functions,
                size=size,
                limits=limits or Limits(),
                preload=tuple(preload),
                warm_up=tuple(warm_up),
                python=python,
                environment={**_ONE_THREAD, **(environment or {})},
            )
        )
        atexit.register(self.close)

    def start(self) -> None:
        """Begin to import the heavy modules now, rather than at the first job. Does not wait."""
        self._supervisor.warm_up()

    def wait_ready(self, timeout: float | None = None) -> Ready | None:
        """Start, and wait until workers can be forked; None when they cannot, or not within ``timeout`` seconds."""
        self._supervisor.warm_up()
        return self._supervisor.wait_ready(timeout)

    def submit(self, job: Job, on_event: Callable[[Event], None] | None = None) -> JobHandle:
        """Queue ``job``; ``on_event`` gets its progress and, last, its ending. Does not wait.

        Raises
        ------
        KeyError
            If the job's function is not in the table.
        """
        if job.function not in self._functions:
            raise KeyError(job.function)
        ticket = JobHandle(job, on_event, self._delivery, self._supervisor.abandon)
        self._supervisor.enqueue(ticket)
        return ticket

    def resize(self, size: int) -> None:
        """Let up to ``size`` workers live from now on; those beyond it end with their jobs' turn, not at once."""
        if size < 1:
            raise ValueError(f"a pool needs at least one worker, not {size}")
        self._supervisor.resize(size)

    def close(self) -> None:
        """End every job as cancelled and every process, in well under a second. May be called again."""
        atexit.unregister(self.close)
        self._supervisor.close()
        self._delivery.close(timeout=0.2)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
