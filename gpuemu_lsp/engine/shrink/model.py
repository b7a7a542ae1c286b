"""What the minimiser works on and what it gives back."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Mapping
from dataclasses import dataclass
from typing import TypeAlias

from gpuemu_lsp.engine.fuzz.model import Case
from gpuemu_lsp.engine.project.model import DimSpec


@dataclass(frozen=True, slots=True)
class ValueDomain:
    """The values an input may have, both ends included; None for no bound. Only such values are ever proposed."""

    low: float | None = None
    high: float | None = None


@dataclass(frozen=True, slots=True)
class CaseSpace:
    """How to make other cases of the same plan.

    ``dims`` says which sizes may change and within which bounds. ``rebuild`` makes the case with other sizes from the
    seed and strategy of a case, None when there is none. ``redraw`` makes cases with these sizes that have other values
    than ``rebuild``'s. ``relaid`` makes the same case with tensors that lie in memory more plainly. ``domains`` gives
    the bounds of the inputs of a case, by parameter name; they may depend on its sizes.
    """

    dims: tuple[DimSpec, ...]
    rebuild: Callable[[Case, Mapping[str, int]], Case | None]
    domains: Callable[[Case], Mapping[str, ValueDomain]] = lambda _: {}
    redraw: Callable[[Case, Mapping[str, int]], Iterable[Case]] = lambda *_: ()
    simpler_layouts: Callable[[Case], Iterable[Case]] = lambda _: ()


@dataclass(frozen=True, slots=True)
class ShrinkBudget:
    """When to stop: runs of the kernel, and seconds of wall time."""

    max_runs: int = 300
    max_seconds: float = 30.0


@dataclass(frozen=True, slots=True, eq=False)
class ShrinkCandidate:
    """A case, and the names of the inputs whose values are no longer what its key rebuilds."""

    case: Case
    changed: frozenset[str] = frozenset()


Proposals: TypeAlias = Generator[ShrinkCandidate, bool, None]
"""A pass: yields candidates and is told of each whether it became the best one."""

Pass: TypeAlias = Callable[[ShrinkCandidate, CaseSpace], Proposals]


@dataclass(frozen=True, slots=True, eq=False)
class Improvement:
    """A smaller failing case, found after ``runs`` runs."""

    case: Case
    changed: frozenset[str]
    runs: int
    seconds: float


@dataclass(frozen=True, slots=True, eq=False)
class ShrinkResult:
    """The result.

    ``changed`` names the inputs that must be stored with the case; the others follow from its key. ``reproduced``
    False: the case given did not fail, so nothing was done. ``complete`` False: the budget ran out or the caller
    cancelled; the case fails nevertheless.
    """

    case: Case
    changed: frozenset[str]
    runs: int
    seconds: float
    reproduced: bool = True
    complete: bool = True
