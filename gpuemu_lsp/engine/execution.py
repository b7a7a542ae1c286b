"""Interface between the check and the executors of kernels, the emulator and a GPU.

Arguments are raw bytes in and raw bytes out; dtypes and shapes are known to the check only. Each launch gets fresh
memory with guard zones around every buffer.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Protocol, TypeAlias

import numpy as np
import numpy.typing as npt

from gpuemu_lsp.engine.cause import Cause
from gpuemu_lsp.engine.compile.model import Artifact
from gpuemu_lsp.engine.findings import Json, Severity
from gpuemu_lsp.engine.ptx.model import Location

Bytes: TypeAlias = npt.NDArray[np.uint8]


@dataclass(frozen=True, slots=True)
class Buffer:
    """A pointer argument and its contents.

    ``data`` is a 1-D uint8 array, which is copied before the launch. ``initialized`` False marks every byte as
    unwritten: reading it is an uninitialised read; ``initialized_bytes``, of the shape of ``data``, then excepts some.
    ``padding``, of the same shape, are the bytes between the elements of a tensor with gaps: a store to one of them
    misses the tensor.
    ``element_size``, in bytes, and ``name`` appear in messages only. ``offset`` bytes are added to the base, which is
    aligned to 256 bytes, to test other alignments. ``alias_of`` names an earlier buffer whose memory this one shares.
    The kernel gets the address of the byte ``pointer_offset`` of ``data``: a view need not begin where its allocation
    does. ``host_address`` is the address of ``data`` by which the memory of the launch refers to it, in buffers that
    ``holds_addresses``; the executor replaces it by its own address there, and back in the results. ``variable`` is the
    name of the module variable whose memory this is: ``data`` then takes the place of its initialiser. Of a ``freed``
    buffer no byte may be accessed, and there is no result. ``pointers`` are pairs of an offset in ``data`` and a buffer
    whose address the kernel finds there: tables of pointers, and the records of textures. ``resident`` says that the
    executor has ``data`` in its own memory, which lasts, at ``host_address``: nothing is copied, and it is not among
    the results.
    """

    name: str
    data: Bytes
    initialized: bool = True
    element_size: int = 4
    offset: int = 0
    alias_of: str | None = None
    pointer_offset: int = 0
    initialized_bytes: npt.NDArray[np.bool_] | None = None
    padding: npt.NDArray[np.bool_] | None = None
    host_address: int | None = None
    holds_addresses: bool = False
    variable: str | None = None
    freed: bool = False
    resident: bool = False
    pointers: tuple[tuple[int, Buffer], ...] = ()

    def is_padding(self, offset: int, size: int) -> bool:
        """Return whether one of the bytes from ``offset`` on is between the elements of the tensor."""
        return self.padding is not None and bool(self.padding[max(offset, 0) : max(offset + size, 0)].any())

    def with_unwritten(self, fill: int) -> Buffer:
        """Return the buffer with another value of the bytes that are not initialised."""
        if self.initialized:
            return self
        data = np.full_like(self.data, fill)
        if self.initialized_bytes is not None:
            data[self.initialized_bytes] = self.data[self.initialized_bytes]
        return replace(self, data=data)


@dataclass(frozen=True, slots=True)
class Scalar:
    """A by-value argument as its little-endian bytes."""

    name: str
    data: bytes


@dataclass(frozen=True, slots=True)
class StructArgument:
    """A by-value argument with pointers: its bytes, and the buffers whose addresses replace eight of them each.

    ``pointers`` are pairs of an offset in ``data`` and a buffer.
    """

    name: str
    data: bytes
    pointers: tuple[tuple[int, Buffer], ...]


Argument: TypeAlias = "Buffer | Scalar | StructArgument"


def buffers_of(arguments: Iterable[Argument]) -> Iterator[Buffer]:
    """Yield the buffers of a launch in parameter order, those that structs and tables point to included."""
    for argument in arguments:
        if isinstance(argument, Scalar):
            continue
        if isinstance(argument, Buffer):
            yield argument
        if argument.pointers:
            yield from buffers_of(buffer for _, buffer in argument.pointers)


def parameter_bytes(argument: Argument, addresses: Mapping[str, int]) -> bytes:
    """Return the little-endian bytes of an argument, given the addresses of buffers by name."""
    if isinstance(argument, Buffer):
        return (addresses[argument.name] + argument.pointer_offset).to_bytes(8, "little")
    if isinstance(argument, Scalar):
        return argument.data
    data = bytearray(argument.data)
    for offset, buffer in argument.pointers:
        data[offset : offset + 8] = parameter_bytes(buffer, addresses)
    return bytes(data)


Dim3: TypeAlias = tuple[int, int, int]


@dataclass(frozen=True, slots=True)
class Checks:
    """Checkers of a launch. With one switched off, accesses are still kept inside the emulated memory."""

    bounds: bool = True
    uninitialized: bool = True
    races: bool = True
    block_races: bool = True
    """Races between threads of one block, those in shared memory included. False for a language whose blocks are one
    sequential program: its compiler then divides the work, and races between blocks are the author's. Of those within
    a block, weak loads of what another warp stored in global memory are: no compiler inserts a barrier there."""
    sync: bool = True
    strict_fences: bool = False
    """Report what the asynchronous proxy reads without a ``fence.proxy.async`` also in programs that hand nothing over
    with one, as published kernels do that rely on barriers alone."""
    contained: bool = True
    """False compiles no checks at all: a wrong access may crash the process. For measurements only."""


ALL_CHECKS = Checks()


@dataclass(frozen=True, slots=True)
class Watch:
    """Bytes of a buffer whose last writer is returned in ``Outcome.watched``; ``offset`` and ``size`` in bytes."""

    buffer: str
    offset: int
    size: int


@dataclass(frozen=True, slots=True)
class Request:
    """One launch.

    ``entry`` is the mangled PTX name. ``max_steps`` limits the basic blocks that one warp executes, ``max_seconds`` the
    wall time of the execution, ``translate_seconds`` that of all translation before and during it, ``max_events`` the
    events that are returned. ``reachable`` has buffers that are not arguments, but whose addresses are in memory.
    """

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
    translate_seconds: float = 30.0
    max_events: int = 16
    max_printed: int = 1 << 20
    """Bytes of output that are returned: as on a GPU, whose buffer has 1 MiB, more is lost."""
    coverage: bool = False
    """Return :attr:`Outcome.coverage`, if the executor can measure it."""
    counting: bool = False
    """Return :attr:`Outcome.counted`, if the executor can count. Counting is slow: it is for single launches."""
    fill: int = 0xCB
    """Byte that uninitialised shared and local memory holds: large in magnitude in every format, so that it shows."""
    descending: bool = False
    """Execute blocks, and the warps of each, from the last to the first. CUDA leaves the order open."""
    in_place: bool = False
    """Write the results to the ``data`` of the buffers: ``Outcome.buffers`` then has these arrays, and
    ``Outcome.written`` is None. For callers of the emulator that need neither what the buffers held before nor which
    bytes were stored."""
    guard_bytes: int = 4096
    """Minimum of unaddressable bytes around every buffer; large values attribute even a far overrun to its buffer."""
    reachable: tuple[Buffer, ...] = ()
    aliased: bool = False
    """Several arguments may point to the same memory, though the buffers do not show it."""
    cluster: Dim3 | None = None
    """Blocks of a cluster, where the launch has an attribute for it; None is what the kernel requires, if anything."""

    buffers: tuple[Buffer, ...] = field(init=False, repr=False, compare=False)
    """All buffers of the launch: the arguments in parameter order, then the reachable ones."""

    def __post_init__(self) -> None:
        # Once: every stage of a launch uses them, and launches of Triton kernels are short.
        object.__setattr__(self, "buffers", (*buffers_of(self.arguments), *buffers_of(self.reachable)))


LOCAL_MEMORY = "local memory"
"""``buffer`` of an event in a thread's local memory."""


class Access(StrEnum):
    """What an instruction does with memory; the values are those in the data of findings."""

    READ = "reads"
    WRITE = "writes"
    ATOMIC = "updates atomically"

    @property
    def noun(self) -> str:
        """The access as a noun."""
        return {Access.READ: "read", Access.WRITE: "write", Access.ATOMIC: "atomic update"}[self]


@dataclass(frozen=True, slots=True)
class Event:
    """Report of a checker about one instruction, before it becomes a finding.

    ``rule`` is a rule name such as ``memory/out-of-bounds``, ``message`` a sentence for the user. ``location`` is the
    innermost source location of the instruction, ``other`` that of the second access of a race. ``offset`` and ``size``
    are bytes in ``buffer``. ``count`` is the number of times the rule was broken at the instruction. ``severity`` None
    is that of the rule. ``furthest`` is the end of the furthest of these accesses, in bytes from the start of
    ``buffer``; None if it is not known. ``cause`` has what the rule leaves open, None where it leaves nothing open.
    ``access`` is the access that the rule is about, None if it is not about one, ``other_access`` the second of a race.
    ``extent`` is the number of bytes of ``buffer``, None if there is none or the rule is not about an access.
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
    severity: Severity | None = None
    data: Mapping[str, Json] = field(default_factory=dict)
    furthest: int | None = None
    cause: Cause | None = None
    access: Access | None = None
    other_access: Access | None = None
    extent: int | None = None

    @property
    def accesses(self) -> tuple[tuple[Location | None, str], ...]:
        """The location and the instruction of the access, or of both accesses of a race."""
        first = (self.location, self.instruction)
        second = (self.other, str(self.data.get("other_instruction", "")))
        return (first, second) if self.rule.endswith("-race") else (first,)


@dataclass(frozen=True, slots=True)
class Writer:
    """The store that last wrote the watched bytes, and its thread."""

    location: Location | None
    instruction: str
    thread: Dim3
    block: Dim3


@dataclass(frozen=True, slots=True)
class Solution:
    """A value of an argument, or of an element of it, at which the two sides of a comparison are equal.

    The value is ``offset``, plus ``scale`` times the scalar argument ``other`` if there is one. ``argument`` and
    ``other`` are numbers of kernel parameters; ``argument`` is None if the parameter is not known.
    """

    argument: int | None
    offset: float
    other: int | None = None
    scale: float = 0.0


@dataclass(frozen=True, slots=True)
class Goal:
    """Coverage goal: a line, or one outcome of a branch, predicate or comparison.

    ``at`` is the location of the instruction. ``way`` distinguishes the two outcomes and is 0 for a line. ``to`` is the
    location at which the outcome continues, None for the exit of the kernel, a predicate or a comparison. ``acts`` is
    True if the line has a side effect here, a store, call or barrier; compilers may hoist its other parts. ``against``
    has the constants that a branch's condition compares with, ``solutions`` values that make its sides equal.
    """

    site: int
    way: int
    at: Location | None
    to: Location | None = None
    acts: bool = False
    against: tuple[float, ...] = ()
    solutions: tuple[Solution, ...] = ()


@dataclass(frozen=True, slots=True)
class Coverage:
    """Coverage goals of a kernel, the same in every launch, and the mask of those that one launch reached.

    ``hit`` has the shape (goals,).
    """

    goals: tuple[Goal, ...]
    hit: npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Activity:
    """Executions of one instruction by a warp, and the active lanes summed over them."""

    location: Location | None
    executions: int
    lanes: int


@dataclass(frozen=True, slots=True)
class Traffic:
    """Memory traffic of one instruction to global or shared memory, with one request per warp.

    ``bytes`` is the number of bytes that lanes requested. ``units`` is the number of 32-byte sectors moved (global) or
    of passes over the 32 banks (shared), ``least`` the smallest number that holds the same bytes.
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
    """Performance counters of one launch, as a GPU's profiler defines them.

    ``operations`` are floating-point additions and multiplications; a fused multiply-add counts as two. ``touched`` is
    the size of the distinct sectors of global memory in bytes: the traffic with perfect caches.
    """

    activity: tuple[Activity, ...]
    traffic: tuple[Traffic, ...]
    operations: int
    touched: int


@dataclass(frozen=True, slots=True)
class Outcome:
    """Result of one launch.

    ``status`` is ``completed`` (all threads exited; there may still be events), ``trapped`` (trap, failed assert, or a
    fault that stops a GPU), ``hung`` (deadlock, or a limit of the request), ``unsupported`` (an instruction without an
    implementation was reached, or the kernel was rejected at translation) or ``failed`` (error of the executor).
    Outputs may be compared only if it is ``completed``.

    ``buffers`` has the bytes after the launch by buffer name, ``variables`` those of the module's writable global
    variables, which begin each launch with their initialiser. ``written`` has a bool mask of the bytes that the kernel
    stored, None if the executor does not record stores. ``approximate`` names executed instructions with a documented
    maximum error.
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
    """The part of ``execute_ms`` in which the kernel itself ran, without preparing memory and copying results."""
    counters: Mapping[str, int] = field(default_factory=dict)
    coverage: Coverage | None = None
    counted: Counters | None = None
    variables: Mapping[str, Bytes] = field(default_factory=dict)


class Executor(Protocol):
    """Executes launches. Implementations keep compiled or loaded code between launches of one artifact."""

    name: str

    def run(self, request: Request) -> Outcome:
        """Execute one launch. Errors of the kernel are part of the outcome; exceptions are bugs of the executor."""
        ...
