"""Jobs on many machines: Dask carries a job to a machine, and a pool of ours there runs it as everywhere else.

So isolation, limits and endings are those of a local check. A machine or Dask worker that is lost has its jobs run
again on another: a check is a function of its request, and says the same a second time.
"""

from __future__ import annotations

import importlib
import logging
import threading
from collections.abc import Callable
from types import TracebackType
from typing import Any, Self

from gpuemu_lsp.engine.findings import Json
from gpuemu_lsp.engine.jobs.functions import FUNCTIONS, PRELOAD
from gpuemu_lsp.engine.workers import Job, Pool
from gpuemu_lsp.engine.workers.model import Cancelled, Done, Ending, Event, Failed, Progress, TimedOut, WorkerDied
from gpuemu_lsp.engine.workers.wire import from_json, to_json

LOCAL = "local"
_RETRIES = 2
_SECONDS_TO_CONNECT = 20.0
_ENDINGS: dict[str, type[Ending]] = {kind.__name__: kind for kind in (Done, Failed, TimedOut, WorkerDied, Cancelled)}


class ClusterError(RuntimeError):
    """The cluster cannot be had; the message says why."""


class Cluster:
    """What :class:`~gpuemu_lsp.engine.workers.Pool` is for this machine, for the machines of a Dask scheduler.

    Parameters
    ----------
    address : str
        ``HOST:PORT`` of a scheduler, or ``local`` for one of our own with ``size`` worker processes.
    size : int
        Workers of a local cluster.

    Raises
    ------
    ClusterError
        If Dask is not installed or the scheduler does not answer.
    """

    def __init__(self, address: str, size: int) -> None:
        try:
            distributed: Any = importlib.import_module("distributed")
        except ImportError as error:
            raise ClusterError(f"Dask is not installed ({error}); pip install 'gpuemu-lsp[dask]'") from error
        logging.getLogger("distributed").setLevel(logging.CRITICAL)
        self._own: Any = None
        try:
            if address == LOCAL:
                self._own = distributed.LocalCluster(
                    n_workers=size,
                    threads_per_worker=1,
                    host="127.0.0.1",
                    dashboard_address="127.0.0.1:0",
                    silence_logs=50,
                )
            self._client: Any = distributed.Client(
                self._own or address, timeout=_SECONDS_TO_CONNECT, set_as_default=False
            )
        except (OSError, ValueError, TimeoutError) as error:
            raise ClusterError(f"the Dask scheduler '{address}' does not answer: {error}") from error

    def submit(self, job: Job, on_event: Callable[[Event], None]) -> Any:
        """Queue ``job``; ``on_event`` gets what it yielded and its ending, when it has ended."""
        future = self._client.submit(_run, to_json(job), pure=False, retries=_RETRIES)
        future.add_done_callback(lambda done: _deliver(done, on_event))
        return future

    def close(self) -> None:
        """Leave the cluster; a local one ends."""
        self._client.close()
        if self._own is not None:
            self._own.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


_lock = threading.Lock()
_pool: Pool | None = None


def _run(job: Json) -> list[Json]:
    """Run a job in the pool of this Dask worker; return its values and, last, its ending with its class."""
    global _pool  # one per process of Dask's, as long as that lives
    with _lock:
        if _pool is None:
            _pool = Pool(FUNCTIONS, size=1, preload=PRELOAD)
            _pool.start()
    told: list[Json] = []

    def receive(event: Event) -> None:
        if isinstance(event, Progress):
            told.append(event.value)

    ending = _pool.submit(from_json(Job, job), receive).wait()
    return [*told, to_json(ending)]


def _deliver(future: Any, on_event: Callable[[Event], None]) -> None:
    if future.status == "cancelled":
        on_event(Cancelled())
        return
    if future.status != "finished":
        error = future.exception()
        on_event(WorkerDied(f"no machine of the cluster finished it: {error}"))
        return
    try:
        *values, last = future.result()
        ending: Ending = from_json(_ENDINGS[last["$type"]], last)
    except Exception as error:  # what comes from another version of ours must not end the campaign
        on_event(Failed(type(error).__name__, str(error), ""))
        return
    for value in values:
        on_event(Progress(value))
    on_event(ending)
