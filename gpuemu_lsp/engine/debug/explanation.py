"""The answer to "why": statements on which a wrong value depends, with what they read and wrote."""

from __future__ import annotations

from dataclasses import dataclass, field

from gpuemu_lsp.engine.findings import Json, Place


@dataclass(frozen=True, slots=True)
class ShownValue:
    """A variable and its value; ``earlier`` are those of the executions before, oldest first."""

    name: str
    value: Json
    earlier: tuple[Json, ...] = ()


@dataclass(frozen=True, slots=True)
class ShownAccess:
    """An element of memory that a statement accesses.

    ``access`` is ``read``, ``write`` or ``update``, of which ``value`` is what it leaves in memory. ``origin`` says in
    words where the value is from that was there; ``value`` is None where none was.
    """

    name: str
    value: Json
    access: str = "read"
    origin: str = ""


@dataclass(frozen=True, slots=True)
class Step:
    """A statement on the path.

    ``reason`` is how what comes before depends on it: ``value``, ``index``, ``condition`` or ``declaration``.

    ``thread`` is its index in the block, ``tick`` when it began. ``times`` counts its executions on the path, by
    ``threads`` threads.
    """

    place: Place
    text: str
    reason: str
    thread: tuple[int, int, int]
    tick: int
    times: int = 1
    threads: int = 1
    values: tuple[ShownValue, ...] = ()
    accesses: tuple[ShownAccess, ...] = ()


@dataclass(frozen=True, slots=True)
class Chain:
    """One question and its answer: the path from the statement that it is about back in time."""

    question: str
    steps: tuple[Step, ...]
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Explanation:
    """Why a case fails: one chain for a wrong value, two for a race.

    ``named`` says whether variables are shown: the code that fails may have no names. ``notes`` are remarks about the
    whole, such as limits of the recording.
    """

    chains: tuple[Chain, ...]
    block: tuple[int, int, int]
    named: bool
    notes: tuple[str, ...] = field(default=())
