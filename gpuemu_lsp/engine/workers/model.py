"""Jobs, limits and events: the input and output of the pool."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from gpuemu_lsp.engine.findings import Json

GIB = 1 << 30


@dataclass(frozen=True, slots=True)
class Limits:
    """Resource limits of a worker. Sizes in bytes, times in seconds; None means no limit.

    ``memory_bytes`` limits private writable memory (RLIMIT_DATA), so that an allocation beyond it is a ``MemoryError``
    in the worker instead of an OOM kill on the machine. Reserved address space does not count: a CUDA context reserves
    far more than it uses. A worker is replaced after ``jobs_per_worker`` jobs, or when its resident set exceeds
    ``resident_bytes`` after a job. ``threads`` is how many of its threads execute blocks of one launch.
    """

    wall_seconds: float | None = 60.0
    memory_bytes: int | None = 8 * GIB
    file_bytes: int | None = 1 * GIB
    output_bytes: int = 64 * 1024
    jobs_per_worker: int = 500
    resident_bytes: int | None = 2 * GIB
    threads: int = 1


@dataclass(frozen=True, slots=True)
class Job:
    """One call of a function of the pool's table.

    ``taint`` identifies the user code that the job runs (a reference's path), None for none. User code may change its
    process for good (a NumPy setting, a patched function), so a worker that has run code of one taint is reused for
    that taint only; every other job gets a clean process.

    ``first_stage`` is the first stage that it announces, and a limit in seconds until it announces another one.

    ``restarts`` is how often it begins again, in another worker, after its worker was killed from outside: by the
    system when memory is short, or with the fork server. Who sets it handles :class:`Restarted`.

    An ``interactive`` job lasts as long as its user looks at it: it has a worker of its own at once, besides those of
    the pool's size, and no time limit.
    """

    function: str
    payload: Json = None
    wall_seconds: float | None = None
    taint: str | None = None
    first_stage: tuple[str, float] | None = None
    restarts: int = 0
    interactive: bool = False


@dataclass(frozen=True, slots=True)
class Ready:
    """The fork server has started. ``missing`` maps modules that could not be preloaded to the reason."""

    milliseconds: float
    missing: dict[str, str]


@dataclass(frozen=True, slots=True)
class Progress:
    """A value that the job yielded, sent as soon as it was yielded."""

    value: Json


@dataclass(frozen=True, slots=True)
class Restarted:
    """The worker was killed, and the job begins again: what it has yielded so far will be yielded again."""


@dataclass(frozen=True, slots=True)
class Done:
    """The job ran to its end. ``output`` is the tail of standard output and error, including that of C code."""

    output: str = ""
    milliseconds: float = 0.0


@dataclass(frozen=True, slots=True)
class Failed:
    """The job raised an exception. ``kind`` is the exception's class name (``MemoryError``, ``SystemExit``, ...)."""

    kind: str
    message: str
    traceback: str
    stage: str | None = None
    output: str = ""


@dataclass(frozen=True, slots=True)
class TimedOut:
    """The job was killed after ``seconds``; ``stage`` is the last stage it announced.

    ``traceback`` is its Python stack, innermost frame first; empty if the process could not write it.
    """

    seconds: float
    stage: str | None = None
    output: str = ""
    traceback: str = ""


@dataclass(frozen=True, slots=True)
class WorkerDied:
    """The worker process ended during the job.

    ``reason`` is a sentence for the user; ``signal`` or ``exit_code`` is set where known.
    """

    reason: str
    stage: str | None = None
    signal: int | None = None
    exit_code: int | None = None
    output: str = ""


@dataclass(frozen=True, slots=True)
class Cancelled:
    """The caller cancelled the job, or the pool was closed; ``reason`` is a clause for the user, empty without one."""

    reason: str = ""


Ending: TypeAlias = "Done | Failed | TimedOut | WorkerDied | Cancelled"
Event: TypeAlias = "Progress | Restarted | Ending"
