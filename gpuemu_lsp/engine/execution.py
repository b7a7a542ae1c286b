"""The one interface between the pipeline and whatever runs a kernel: the emulator or a real GPU.

Arguments go in as raw bytes, come out as raw bytes; dtypes and shapes are the pipeline's business. Each run gets fresh
memory with guard zones round every buffer.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol, TypeAlias

import numpy as np
import numpy.typing as npt

from gpuemu_lsp.engine.compile.model import Artifact
from gpuemu_lsp.engine.findings import Json
from gpuemu_lsp.engine.ptx.model import Location

Bytes: TypeAlias = npt.NDArray[np.uint8]


@dataclass(frozen=True, slots=True)
class Buffer:
    """A pointer argument: ``data`` is a 1-D uint8 array, copied before the run.

    ``initialized`` False marks every byte as not yet written (a read of it is a finding). ``element_size`` and ``name``
    only serve messages. ``offset`` bytes are added to the 256-byte aligned base to try other alignments.
    ``alias_of`` names an earlier buffer whose memory this one shares.
    """

    name: str
    data: Bytes
    initialized: bool = True
    element_size: int = 4
    offset: int = 0
    alias_of: str | None = None


@dataclass(frozen=True, slots=True)
class Scalar:
    """A by-value argument as its little-endian bytes."""

    name: str
    data: bytes


Argument: TypeAlias = "Buffer | Scalar"
Dim3: TypeAlias = tuple[int, int, int]


@dataclass(frozen=True, slots=True)
class Checks:
    """Which checkers run. Off means: not looked at, and the access is still contained."""

    bounds: bool = True
    uninitialized: bool = True
    races: bool = True
    sync: bool = True
    contained: bool = True
    """Off: code with no checks at all, and an access that is wrong may end the process. Only to measure with."""


@dataclass(frozen=True, slots=True)
class Watch:
    """A place in a buffer whose last writer is wanted: ``Outcome.watched`` then says which store it was."""

    buffer: str
    offset: int
    size: int


@dataclass(frozen=True, slots=True)
class Request:
    """One launch. ``entry`` is the mangled PTX name. ``max_steps`` bounds executed basic blocks of one warp."""

    artifact: Artifact
    entry: str
    grid: Dim3
    block: Dim3
    shared_bytes: int
    arguments: tuple[Argument, ...]
    checks: Checks = Checks()
    watch: Watch | None = None
    max_steps: int = 20_000_000
    max_seconds: float = 10.0
    max_events: int = 16
    coverage: bool = False
    """Whether :attr:`Outcome.coverage` is wanted; an executor that cannot tell leaves it None."""
    counting: bool = False
    """Whether :attr:`Outcome.counted` is wanted; likewise. Counting is slow: it is for one launch, not for all."""
    guard_bytes: int = 4096
    """Unaddressable bytes round every buffer, at least; large when it must be known whose overrun a far access is."""


LOCAL_MEMORY = "local memory"
"""The ``buffer`` of an event in what a thread has for itself."""


@dataclass(frozen=True, slots=True)
class Event:
    """Something a checker saw, before it becomes a Finding.

    ``rule`` is a rule name (``memory/out-of-bounds``). ``location`` is the innermost source place. ``message`` is a
    sentence for the user. ``count`` is how often the same rule fired at the same instruction. ``other`` is the second
    party of a race.
    """

    rule: str
    message: str
    location: Location | None
    instruction: str
    thread: Dim3 | None = None
    block: Dim3 | None = None
    buffer: str | None = None
    offset: int | None = None
    size: int | None = None
    count: int = 1
    other: Location | None = None
    data: Mapping[str, Json] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Writer:
    """The store that last wrote a watched place, and by whom."""

    location: Location | None
    instruction: str
    thread: Dim3
    block: Dim3


@dataclass(frozen=True, slots=True)
class Goal:
    """Something of a kernel's code that a launch can reach: a line, or one way a branch, guard or comparison can go.

    ``at`` is where the instruction or branch stands. ``way`` tells the two ways apart and is 0 for a line. ``to`` is
    where a branch leads this way, None for a way out of the kernel, and of guards and comparisons.
    ``acts`` says that the line stores, calls or waits here; compilers compute other parts of a line ahead of time.
    ``against`` are the numbers a branch's condition compares with.
    """

    site: int
    way: int
    at: Location | None
    to: Location | None = None
    acts: bool = False
    against: tuple[float, ...] = ()


@dataclass(frozen=True, slots=True)
class Coverage:
    """Which goals of a kernel a launch reached. The goals are the same in every launch of one kernel."""

    goals: tuple[Goal, ...]
    hit: npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Activity:
    """How often one instruction was run by a warp, and by how many lanes in all."""

    location: Location | None
    executions: int
    lanes: int


@dataclass(frozen=True, slots=True)
class Traffic:
    """What the requests of one instruction to global or to shared memory came to. A request is that of one warp.

    ``bytes`` is what lanes asked for. ``units`` is what memory had to do: sectors of 32 bytes moved, or passes over the
    32 banks made. ``least`` is the fewest that could have held the same bytes.
    """

    location: Location | None
    instruction: str
    space: str
    requests: int
    bytes: int
    units: int
    least: int


@dataclass(frozen=True, slots=True)
class Counters:
    """What one launch did, as a GPU's counters would have it.

    ``operations`` are additions and multiplications of floating-point numbers, a fused one two. ``touched`` bytes are
    the distinct sectors of global memory: what would be moved if every byte had to come and go but once.
    """

    activity: tuple[Activity, ...]
    traffic: tuple[Traffic, ...]
    operations: int
    touched: int


@dataclass(frozen=True, slots=True)
class Outcome:
    """What one launch did.

    ``status`` is ``completed`` (all threads ran to the end; there may still be events), ``trapped`` (trap, failed
    assert, or a fault that stops a GPU), ``hung`` (deadlock or budget), ``unsupported`` (an instruction we cannot run
    was *reached* or translation refused it) or ``failed`` (the executor itself). Only ``completed`` outputs may be
    compared. ``buffers`` are the bytes after the run, ``written`` a per-byte bool mask of what the kernel stored to
    (None where the executor cannot know). ``approximate`` names executed instruction kinds with a documented error.
    """

    status: str
    executor: str
    buffers: Mapping[str, Bytes]
    written: Mapping[str, npt.NDArray[np.bool_]] | None = None
    events: tuple[Event, ...] = ()
    watched: Writer | None = None
    printed: str = ""
    approximate: tuple[str, ...] = ()
    steps: int = 0
    translate_ms: float = 0.0
    execute_ms: float = 0.0
    launch_ms: float = 0.0
    """The part of ``execute_ms`` in which the kernel ran: memory laid out, results not yet copied."""
    counters: Mapping[str, int] = field(default_factory=dict)
    coverage: Coverage | None = None
    counted: Counters | None = None


class Executor(Protocol):
    """Runs requests. Implementations keep translated or loaded code warm between runs of one artifact."""

    name: str

    def run(self, request: Request) -> Outcome:
        """Run one launch. Never raises for what the kernel does; raises only on a programming error of ours."""
        ...
