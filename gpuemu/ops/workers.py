"""Worker processes in which a program evaluates references and ops of gpuemu.toml: they may hang, crash, or exit."""

from __future__ import annotations

import os
import tempfile
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from gpuemu.ops.transfer import saved
from gpuemu.verifier.recorded_calls import encoded
from gpuemu_lsp.engine.findings import Json
from gpuemu_lsp.engine.jobs.run_one import run_job
from gpuemu_lsp.engine.jobs.table import FUNCTIONS, PRELOAD
from gpuemu_lsp.engine.workers.model import Done, Ending, Failed, Job, Limits, TimedOut, WorkerDied
from gpuemu_lsp.engine.workers.pool import Pool

_SPARE = 3
"""Workers that are kept, each for the code of one reference, whose imports may take seconds."""
_SECONDS, _ELEMENTS = 30.0, 1 << 22
"""Time for this many elements, or a part of them; one evaluation in fp64 takes about 2 s of a free processor."""
_MODULE = "gpuemu.ops.evaluations"
_EVALUATIONS = {name: f"{_MODULE}:{name}" for name in ("judge", "reference", "gradients")}
_pools: dict[int, Pool] = {}
"""The pool by process: the threads of a pool do not exist in a forked child."""
_lock = threading.Lock()


class EvaluationError(Exception):
    """A reference or an op ended its worker, or did not return. ``stage`` is ``op`` or ``reference``."""

    def __init__(self, message: str, stage: str) -> None:
        super().__init__(message)
        self.message = message
        self.stage = stage


@dataclass(frozen=True, slots=True)
class Evaluator:
    """Evaluations in worker processes, each of at most ``seconds`` of wall time.

    Without ``seconds``, the limit grows with the arguments, see :func:`time_limit`.
    """

    seconds: float | None = None

    def run(
        self, function: str, payload: Mapping[str, Json], inputs: Mapping[str, Mapping[str, Any] | None], code: str
    ) -> Iterator[dict[str, Json]]:
        """Yield what a function of :mod:`gpuemu.ops.evaluations` yields.

        Parameters
        ----------
        function : str
            Its name there.
        payload : Mapping
            JSON.
        inputs : Mapping
            Arguments with arrays, by the key of the payload; None where there are none.
        code : str
            Path of the user's code. A worker runs that of one file only.

        Raises
        ------
        EvaluationError
            If the user's code ends the worker, or does not return.
        RuntimeError
            If the evaluation fails otherwise.
        """
        with _message(inputs) as (described, folder):
            request = {**payload, **described, "folder": str(Path.cwd()), "results": folder}
            limit = time_limit(inputs) if self.seconds is None else self.seconds
            job = Job(function, request, wall_seconds=limit, taint=code)
            gathered = run_job(_pool(), job)
            if not isinstance(gathered.ending, Done):
                raise _error(gathered.ending, limit)
            yield from gathered.values


def time_limit(arguments: Mapping[str, Mapping[str, Any] | None]) -> float:
    """Return the seconds that an evaluation with these arguments may take unless the program states a limit."""
    values = [value for given in arguments.values() for value in (given or {}).values()]
    elements = sum(value.size for value in values if isinstance(value, np.ndarray))
    return _SECONDS * max(-(-elements // _ELEMENTS), 1)


def _error(ending: Ending, limit: float) -> Exception:
    stage = getattr(ending, "stage", None) or "op"
    who = "the reference" if stage == "reference" else "the op"
    match ending:
        case TimedOut():
            return EvaluationError(f"{who} did not return within {limit:g} s", stage)
        case WorkerDied():
            return EvaluationError(f"{who} ended its worker process: {ending.reason}", stage)
        case Failed(kind="ReferenceFailure" | "MemoryError"):
            return EvaluationError(f"{who} failed: {ending.message or ending.kind}", stage)
        case Failed():
            return RuntimeError(f"the evaluation failed: {ending.kind}: {ending.message}\n{ending.traceback}")
        case _:
            return RuntimeError("the evaluation was cancelled")


@contextmanager
def _message(inputs: Mapping[str, Mapping[str, Any] | None]) -> Iterator[tuple[dict[str, Json], str]]:
    """Write the arrays of arguments to files for the time of an evaluation."""
    with tempfile.TemporaryDirectory(prefix="gpuemu-") as name:
        found: dict[str, Json] = {}
        for key, arguments in inputs.items():
            if arguments is None:
                found[key] = None
                continue
            values, arrays = encoded(arguments)
            found[key] = {"values": values, "arrays": saved(Path(name), f"{key}-", arrays)}
        yield found, name


@contextmanager
def check_pool() -> Iterator[Pool]:
    """Start a pool for checks of a project, as the commands have."""
    with Pool(FUNCTIONS, size=os.cpu_count() or 1, preload=PRELOAD) as pool:
        yield pool


def _pool() -> Pool:
    with _lock:
        pool = _pools.get(os.getpid())
        if pool is None:
            preload = ("numpy", "ml_dtypes", _MODULE)
            pool = Pool(_EVALUATIONS, size=1, spare=_SPARE, limits=Limits(), preload=preload)
            _pools[os.getpid()] = pool
        return pool
