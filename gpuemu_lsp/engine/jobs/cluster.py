"""Jobs on several machines: Dask transports a job, and a worker pool in the Dask worker's process runs it.

Isolation, limits and endings are therefore those of a local check. Jobs of a lost machine or Dask worker run again on
another one; a check is a pure function of its request, so the result is the same.
"""

from __future__ import annotations

import importlib
import logging
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from types import TracebackType
from typing import Any, Self

from gpuemu_lsp.engine.findings import Json
from gpuemu_lsp.engine.jobs.table import FUNCTIONS, PRELOAD
from gpuemu_lsp.engine.workers.model import (
    Cancelled,
    Done,
    Ending,
    Event,
    Failed,
    Job,
    Progress,
    Restarted,
    TimedOut,
    WorkerDied,
)
from gpuemu_lsp.engine.workers.pool import Pool
from gpuemu_lsp.engine.workers.wire import from_json, to_json

LOCAL = "local"
_RETRIES = 2
_SECONDS_TO_CONNECT = 20.0
_ENDINGS: dict[str, type[Ending]] = {kind.__name__: kind for kind in (Done, Failed, TimedOut, WorkerDied, Cancelled)}


class ClusterError(RuntimeError):
    """The cluster is not available; the message has the reason."""


@contextmanager
def connected(address: str, size: int) -> Iterator[Any]:
    """Yield a Dask client of the scheduler at ``HOST:PORT``, or of one of ``size`` processes on this machine.

    Raises
    ------
    ClusterError
        If Dask is not installed or the scheduler does not answer.
    """
    try:
        distributed: Any = importlib.import_module("distributed")
    except ImportError as error:
        raise ClusterError(f"Dask is not installed ({error}); pip install 'gpuemu-lsp[dask]'") from error
    logging.getLogger("distributed").setLevel(logging.CRITICAL)
    with ExitStack() as closing:
        try:
            own: Any = None
            if address == LOCAL:
                own = distributed.LocalCluster(
                    n_workers=size,
                    threads_per_worker=1,
                    host="127.0.0.1",
                    dashboard_address="127.0.0.1:0",
                    silence_logs=50,
                )
                closing.callback(own.close)
            client: Any = distributed.Client(own or address, timeout=_SECONDS_TO_CONNECT, set_as_default=False)
            closing.callback(client.close)
        except (OSError, ValueError, TimeoutError) as error:
            raise ClusterError(f"the Dask scheduler '{address}' does not answer: {error}") from error
        yield client


class Cluster:
    """Counterpart of :class:`~gpuemu_lsp.engine.workers.Pool` for the machines of a Dask scheduler.

    Parameters
    ----------
    address : str
        ``HOST:PORT`` of a scheduler, or ``local`` to start one on this machine with ``size`` worker processes.
    size : int
        Workers of a local cluster.

    Raises
    ------
    ClusterError
        If Dask is not installed or the scheduler does not answer.
    """

    def __init__(self, address: str, size: int) -> None:
        self._connection = ExitStack()
        self._client: Any = self._connection.enter_context(connected(address, size))

    def submit(self, job: Job, on_event: Callable[[Event], None]) -> Any:
        """Queue ``job``; when it has ended, ``on_event`` is called with each of its events."""
        future = self._client.submit(_run, to_json(job), pure=False, retries=_RETRIES)
        future.add_done_callback(lambda done: _deliver(done, on_event))
        return future

    def close(self) -> None:
        """Disconnect; a local cluster is shut down."""
        self._connection.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


_lock = threading.Lock()
_pool: Pool | None = None


def _run(job: Json) -> list[Json]:
    """Run a job in the pool of this Dask worker; return its values and, last, its ending."""
    global _pool  # one for each Dask worker process, until it ends
    with _lock:
        if _pool is None:
            _pool = Pool(FUNCTIONS, size=1, preload=PRELOAD)
            _pool.start()
    values: list[Json] = []

    def receive(event: Event) -> None:
        if isinstance(event, Progress):
            values.append(event.value)
        elif isinstance(event, Restarted):
            values.clear()

    ending = _pool.submit(from_json(Job, job), receive).wait()
    return [*values, to_json(ending)]


def _deliver(future: Any, on_event: Callable[[Event], None]) -> None:
    if future.status == "cancelled":
        on_event(Cancelled())
        return
    if future.status != "finished":
        error = future.exception()
        on_event(WorkerDied(f"the job was lost on the cluster: {error}"))
        return
    try:
        *values, last = future.result()
        ending: Ending = from_json(_ENDINGS[last["$type"]], last)
    except Exception as error:  # a Dask worker may run another version; that must not end the whole run
        on_event(Failed(type(error).__name__, str(error), ""))
        return
    for value in values:
        on_event(Progress(value))
    on_event(ending)
