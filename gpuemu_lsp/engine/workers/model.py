"""What goes into the pool and what comes out: jobs, limits, and the events a job ends in."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from gpuemu_lsp.engine.findings import Json

GIB = 1 << 30


@dataclass(frozen=True, slots=True)
class Limits:
    """What a worker may use. Sizes in bytes, times in seconds; None means no limit.

    ``memory_bytes`` limits private writable memory (RLIMIT_DATA), so that an allocation beyond it is a ``MemoryError``
    in the worker instead of an OOM kill on the machine. Reserved address space does not count: a CUDA context reserves
    far more than it uses. A worker is replaced after ``jobs_per_worker`` jobs or when a job left it larger than
    ``resident_bytes``.
    """

    wall_seconds: float | None = 60.0
    memory_bytes: int | None = 8 * GIB
    file_bytes: int | None = 1 * GIB
    output_bytes: int = 64 * 1024
    jobs_per_worker: int = 500
    resident_bytes: int | None = 2 * GIB


@dataclass(frozen=True, slots=True)
class Job:
    """One call of a function of the pool's table.

    ``taint`` names the user code the job runs, None when it runs none. User code may leave anything behind in its
    process (a changed NumPy setting, a patched function), so a worker that has run one taint is only reused for the
    same one; every other job gets a clean process.
    """

    function: str
    payload: Json = None
    wall_seconds: float | None = None
    taint: str | None = None


@dataclass(frozen=True, slots=True)
class Ready:
    """The pool can fork workers. ``missing`` maps modules that could not be preloaded to the reason."""

    milliseconds: float
    missing: dict[str, str]


@dataclass(frozen=True, slots=True)
class Progress:
    """A value the job yielded, streamed as soon as it was yielded."""

    value: Json


@dataclass(frozen=True, slots=True)
class Done:
    """The job ran to its end. ``output`` is the tail of what it printed, by whatever means."""

    output: str = ""
    milliseconds: float = 0.0


@dataclass(frozen=True, slots=True)
class Failed:
    """The job raised. ``kind`` is the exception's class name (``MemoryError``, ``SystemExit``, ...)."""

    kind: str
    message: str
    traceback: str
    stage: str | None = None
    output: str = ""


@dataclass(frozen=True, slots=True)
class TimedOut:
    """The job was killed after ``seconds``; ``stage`` is the last stage it announced.

    ``traceback`` says where its Python code was, innermost first, as far as the process could still tell.
    """

    seconds: float
    stage: str | None = None
    output: str = ""
    traceback: str = ""


@dataclass(frozen=True, slots=True)
class WorkerDied:
    """The process ended under the job.

    ``reason`` is a sentence for the user. ``signal`` or ``exit_code`` says how it ended, where that is known.
    """

    reason: str
    stage: str | None = None
    signal: int | None = None
    exit_code: int | None = None
    output: str = ""


@dataclass(frozen=True, slots=True)
class Cancelled:
    """The caller gave the job up, or the pool was closed."""


Ending: TypeAlias = "Done | Failed | TimedOut | WorkerDied | Cancelled"
Event: TypeAlias = "Progress | Ending"
