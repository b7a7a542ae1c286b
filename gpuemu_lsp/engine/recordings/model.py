"""Records of a recording. Paths are absolute once it has been read; lines are 1-based."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

Dim3: TypeAlias = tuple[int, int, int]


class RecordingError(Exception):
    """A recording cannot be written or read. The message names the file, and is for the user."""


@dataclass(frozen=True, slots=True)
class Site:
    """A line of the program."""

    path: str
    line: int


@dataclass(frozen=True, slots=True)
class RecordedParameter:
    """A parameter of a kernel and its place in the parameter block, in bytes."""

    name: str
    offset: int
    size: int


@dataclass(frozen=True, slots=True)
class RecordedKernel:
    """A kernel: its mangled name, its name, the file that defines it, and its parameters.

    ``source`` is None if the program has no line table. ``digest`` is that of the file's text when it was recorded,
    ``code`` that of the PTX of its module, which is stored for a kernel in Python.
    """

    symbol: str
    name: str
    source: str | None
    digest: str
    parameters: tuple[RecordedParameter, ...]
    code: str | None = None


@dataclass(frozen=True, slots=True)
class LaunchGroup:
    """The launches of one kernel at one site with one shape; ``kernel`` is a number of :attr:`Recording.kernels`.

    ``checked`` of the ``count`` launches were executed with all checkers, ``repeated`` were proved to do nothing new.
    ``findings`` counts the events of the checkers, ``seconds`` is the wall time.
    """

    kernel: int
    site: Site | None
    grid: Dim3
    block: Dim3
    shared_bytes: int
    count: int
    checked: int
    repeated: int
    findings: int
    seconds: float


@dataclass(frozen=True, slots=True)
class RecordedAllocation:
    """Memory that a launch could reach, as it was before and after.

    ``before`` and ``after`` are digests of contents; ``before`` is None if no byte was written yet, ``after`` if the
    launch left the contents as they were. ``initialised`` is the digest of a mask with a byte for each byte, None if
    all or none are. ``addresses``: words of it are addresses of device memory. ``variable`` is the mangled name of a
    module variable.
    """

    address: int
    size: int
    site: Site | None
    variable: str | None
    before: str | None
    initialised: str | None
    after: str | None
    addresses: bool


@dataclass(frozen=True, slots=True)
class RecordedPointer:
    """An address in the parameter block, at byte ``offset``: byte ``target`` of an allocation, by its number."""

    offset: int
    allocation: int
    target: int


@dataclass(frozen=True, slots=True)
class RecordedLaunch:
    """One launch with everything that it read.

    ``parameters`` is the parameter block. ``left_out`` is the reason for which the contents are not stored, None if
    they are. ``clean``: the checkers found nothing and the launch ran to its end.
    """

    digest: str
    kernel: int
    site: Site | None
    grid: Dim3
    block: Dim3
    shared_bytes: int
    parameters: bytes
    pointers: tuple[RecordedPointer, ...]
    allocations: tuple[RecordedAllocation, ...]
    clean: bool
    left_out: str | None = None


@dataclass(frozen=True, slots=True)
class Recording:
    """A run of a program. ``path`` is the file; ``created`` is in seconds since the epoch."""

    path: str
    program: str
    created: float
    kernels: tuple[RecordedKernel, ...]
    groups: tuple[LaunchGroup, ...]
    launches: tuple[RecordedLaunch, ...]
    notes: tuple[str, ...] = ()
