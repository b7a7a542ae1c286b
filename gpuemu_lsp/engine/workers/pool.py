"""Public interface of the worker pool: submit a job, receive its events, wait or cancel."""

from __future__ import annotations

import atexit
import sys
from collections.abc import Callable, Mapping, Sequence
from types import TracebackType
from typing import Self

from gpuemu_lsp.engine.workers.job_handle import CallbackThread, JobHandle
from gpuemu_lsp.engine.workers.model import Event, Job, Limits, Ready
from gpuemu_lsp.engine.workers.supervisor import PoolSettings, Supervisor

_ONE_THREAD = {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
"""Workers run in parallel: BLAS in one of them must not occupy every core."""


class Pool:
    """Pool of worker processes, up to ``size`` of which run jobs, first come, first served.

    Safe to use from any thread, and from an event loop: only :meth:`JobHandle.wait`, :meth:`wait_ready` and
    :meth:`close` block. Callbacks run in order on a thread of the pool; a server with an event loop passes
    them on with ``loop.call_soon_threadsafe``.

    Parameters
    ----------
    functions : Mapping[str, str]
        Job name to ``module:function``. A function takes the payload and is a generator of
        JSON values. Two keys of a yielded object have a meaning for the pool: ``stage`` (a name, reported if the job
        fails) and ``retire`` (true: replace this worker after the job).
    size : int
        Largest number of jobs at a time.
    spare : int
        Number of workers in addition to ``size`` that are kept while they are idle. A worker has imported the modules
        of the user code that it ran, which may take a second; without spare workers a job without user code ends it.
    limits : Limits
        Resource limits of each worker.
    preload : Sequence[str]
        Modules that the fork server imports before it forks a worker.
    warm_up : Sequence[str]
        Generator functions, ``module:function``, that the fork server runs one step at a time while it is idle. They
        must leave no thread behind.
    python : str
        The interpreter of the fork server and its workers.
    environment : Mapping[str, str] or None
        Added to the environment of the workers.
    """

    def __init__(
        self,
        functions: Mapping[str, str],
        *,
        size: int = 2,
        spare: int = 0,
        limits: Limits | None = None,
        preload: Sequence[str] = (),
        warm_up: Sequence[str] = (),
        python: str = sys.executable,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        malformed = [target for target in (*functions.values(), *warm_up) if ":" not in target]
        if malformed:
            raise ValueError(f"not a module:function: {', '.join(malformed)}")
        if size < 1:
            raise ValueError(f"a pool needs at least one worker, not {size}")
        self._functions = dict(functions)
        self._callbacks = CallbackThread()
        self._supervisor = Supervisor(
            PoolSettings(
                functions=self._functions,
                size=size,
                spare=spare,
                limits=limits or Limits(),
                preload=tuple(preload),
                warm_up=tuple(warm_up),
                python=python,
                environment={**_ONE_THREAD, **(environment or {})},
            )
        )
        atexit.register(self.close)

    def start(self) -> None:
        """Start the fork server now instead of at the first job. Does not wait."""
        self._supervisor.warm_up()

    def wait_ready(self, timeout: float | None = None) -> Ready | None:
        """Start the fork server and wait for it; return None if it fails or takes longer than ``timeout`` seconds."""
        self._supervisor.warm_up()
        return self._supervisor.wait_ready(timeout)

    def submit(self, job: Job, on_event: Callable[[Event], None] | None = None) -> JobHandle:
        """Queue ``job``; ``on_event`` is called with its progress and, last, its ending. Does not wait.

        Raises
        ------
        KeyError
            If the job's function is not in the table.
        """
        if job.function not in self._functions:
            raise KeyError(job.function)
        handle = JobHandle(job, on_event, self._callbacks, self._supervisor.cancel)
        self._supervisor.enqueue(handle)
        return handle

    def resize(self, size: int) -> None:
        """Allow up to ``size`` processes from now on; surplus ones are not killed, but not replaced when they end."""
        if size < 1:
            raise ValueError(f"a pool needs at least one worker, not {size}")
        self._supervisor.resize(size)

    def close(self) -> None:
        """End every job as cancelled, and every process, in less than a second. May be called again."""
        atexit.unregister(self.close)
        self._supervisor.close()
        self._callbacks.close(timeout=0.2)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
