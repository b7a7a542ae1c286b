"""Types of the shrinker: the space of cases, the budget, candidates, passes and results."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Mapping
from dataclasses import dataclass
from typing import TypeAlias

from gpuemu_lsp.engine.fuzz.model import Case
from gpuemu_lsp.engine.project.model import DimSpec


@dataclass(frozen=True, slots=True)
class ValueDomain:
    """Values that an input may have, both ends included; None for no bound."""

    low: float | None = None
    high: float | None = None


@dataclass(frozen=True, slots=True)
class CaseSpace:
    """The cases of a plan and how to construct them.

    ``dims`` are the sizes that may change, with their bounds. ``rebuild`` constructs the case with other sizes from the
    seed and strategy of a case, None if there is none. ``redraw`` yields cases of given sizes with values other than
    those of ``rebuild``. ``simpler_layouts`` yields the same case with tensors in simpler memory layouts. ``domains``
    returns the bounds of a case's inputs by parameter name; they may depend on its sizes.
    """

    dims: tuple[DimSpec, ...]
    rebuild: Callable[[Case, Mapping[str, int]], Case | None]
    domains: Callable[[Case], Mapping[str, ValueDomain]] = lambda _: {}
    redraw: Callable[[Case, Mapping[str, int]], Iterable[Case]] = lambda *_: ()
    simpler_layouts: Callable[[Case], Iterable[Case]] = lambda _: ()


@dataclass(frozen=True, slots=True)
class ShrinkBudget:
    """Limits of a search: runs of the kernel, and wall time in seconds."""

    max_runs: int = 300
    max_seconds: float = 30.0


@dataclass(frozen=True, slots=True, eq=False)
class ShrinkCandidate:
    """A case, and the names of the inputs that its key does not rebuild."""

    case: Case
    changed: frozenset[str] = frozenset()


Proposals: TypeAlias = Generator[ShrinkCandidate, bool, None]
"""A running pass: yields candidates, and receives for each whether it became the best case."""

Pass: TypeAlias = Callable[[ShrinkCandidate, CaseSpace], Proposals]


@dataclass(frozen=True, slots=True, eq=False)
class Improvement:
    """A simpler failing case, found after ``runs`` runs and ``seconds``."""

    case: Case
    changed: frozenset[str]
    runs: int
    seconds: float


@dataclass(frozen=True, slots=True, eq=False)
class ShrinkResult:
    """Result of a search.

    ``changed`` names the inputs that must be stored with the case; the others follow from its key. ``reproduced`` is
    False if the original case did not fail, and nothing was tried. ``complete`` is False if the budget or the caller
    ended the search; the case fails nevertheless.
    """

    case: Case
    changed: frozenset[str]
    runs: int
    seconds: float
    reproduced: bool = True
    complete: bool = True
