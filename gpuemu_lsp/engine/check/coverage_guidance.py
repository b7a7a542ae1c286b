"""Cases that are made to go where none has gone: the numbers an untaken branch compares with, as sizes or values."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace

import numpy as np

from gpuemu_lsp.engine.check.coverage import CoverageTotals
from gpuemu_lsp.engine.check.stored import plan_digest
from gpuemu_lsp.engine.fuzz import rebuild
from gpuemu_lsp.engine.fuzz.cases import bounds_of
from gpuemu_lsp.engine.fuzz.model import Array, Case, CaseKey, LaunchHints, PlanError
from gpuemu_lsp.engine.fuzz.rng import Rng, derive_seed
from gpuemu_lsp.engine.fuzz.size_classes import allows
from gpuemu_lsp.engine.plan.model import Plan
from gpuemu_lsp.engine.store import Failure

FIRST = 8
"""Cases that are drawn as ever; from then on every other one is steered."""
_RECIPES = ("default/uniform", "ragged/uniform", "medium/negative", "small/uniform")
_KEPT = 32
_SMALL_CASE = 4096
_FACTORS = (1.0, 1.0, 1.0, 2.0, 0.5, -1.0, 4.0)


@dataclass(slots=True)
class CoverageGuidance:
    """Draws cases towards what the ledger still misses. Deterministic: the seed and what was reached decide."""

    plan: Plan
    seed: int
    hints: LaunchHints
    ledger: CoverageTotals
    told: dict[str, Failure] = field(default_factory=dict)
    """How a case with planted values is stored, by its id: its seed alone would not bring it back."""
    _pool: list[Case] = field(default_factory=list)
    _count: int = 0

    def learn(self, case: Case) -> None:
        """Remember a case that reached something new: others are made of it."""
        if not case.exact and sum(tensor.size for tensor in case.tensors.values()) <= _SMALL_CASE:
            self._pool = [*self._pool[-_KEPT:], case]

    def draw(self) -> tuple[Case, str] | None:
        """Return a case and its id; None where nothing is missed, or no number says how to get there."""
        numbers = [number for goal in self.ledger.missed() for number in goal.against]
        self._count += 1
        if not numbers:
            return None
        seed = derive_seed(self.seed, f"steer_{self._count}")
        rng = Rng(seed)
        try:
            base = self._base(rng, seed)
            number = rng.choice(numbers)
            dims = base.dims
            if isinstance(number, int) and rng.bool(0.5):
                dims = _resized(self.plan, dims, number, rng)
            if dims != base.dims:
                base = rebuild(self.plan, CaseKey(seed, base.key.strategy, dims), self.hints)
                return base, base.key.id
            return self._planted(base, number, rng)
        except PlanError:
            return None

    def _base(self, rng: Rng, seed: int) -> Case:
        if self._pool and rng.bool(0.7):
            return rng.choice(self._pool)
        return rebuild(self.plan, CaseKey(seed, rng.choice(_RECIPES)), self.hints)

    def _planted(self, base: Case, number: float, rng: Rng) -> tuple[Case, str] | None:
        """Put the number, or one beside it, into some elements of an input."""
        ranges = bounds_of(self.plan, base.dims)
        names = [name for name, tensor in base.tensors.items() if tensor.size and tensor.dtype != np.bool_]
        alike = [name for name in names if (base.tensors[name].dtype.kind in "iu") == isinstance(number, int)]
        if not names:
            return None
        name = rng.choice(alike or names)
        tensor = base.tensors[name]
        value = _near(number, tensor, ranges.get(name), rng)
        if value is None:
            return None
        changed = tensor.copy().reshape(-1)
        changed[list(_places(changed.size, rng))] = value
        tensors = {**base.tensors, name: changed.reshape(tensor.shape)}
        drawn = rebuild(self.plan, base.key, self.hints).tensors
        kept = {key: one for key, one in tensors.items() if one.tobytes() != drawn[key].tobytes()}
        failure = Failure(
            self.plan.kernel, self.plan.dtype, "", "", base.key, tensors=kept, source_hash=plan_digest(self.plan)
        )
        self.told[failure.case] = failure
        return replace(base, tensors=tensors, values="planted"), failure.case


def _resized(plan: Plan, dims: Mapping[str, int], number: float, rng: Rng) -> Mapping[str, int]:
    """Return the sizes with one of them at the number or one beside it, where that is allowed."""
    wanted = int(number) + rng.choice((0, 0, 1, -1))
    free = [spec for spec in plan.dims if wanted > 0 and allows(spec, wanted)]
    return {**dims, rng.choice(free).name: wanted} if free else dims


def _near(number: float, tensor: Array, bounds: tuple[float, float] | None, rng: Rng) -> np.generic | None:
    """Return the number, or one beside it, as an element; None where it does not fit or is not allowed."""
    value = number * rng.choice(_FACTORS)
    kind = tensor.dtype.type
    if tensor.dtype.kind in "iu":
        whole = int(value) + rng.choice((0, 0, 1, -1))
        info = np.iinfo(tensor.dtype)
        if not info.min <= whole <= info.max or (bounds is not None and not bounds[0] <= whole < bounds[1]):
            return None
        made: np.generic = kind(whole)
        return made
    beside = float(value) + rng.choice((0.0, 0.0, 1.0, -1.0)) * max(1.0, abs(value)) * rng.choice((1.0, 2.0**-6))
    with np.errstate(over="ignore"):
        element: np.generic = kind(beside)
    fits = np.isfinite(float(element)) and (bounds is None or bounds[0] <= float(element) <= bounds[1])
    return element if fits else None


def _places(size: int, rng: Rng) -> Iterator[int]:
    """Yield which elements: one, the first, the last, a few, or all."""
    how = rng.range(0, 5)
    if how == 0:
        yield rng.range(0, size)
    elif how == 1:
        yield 0
    elif how == 2:
        yield size - 1
    elif how == 3:
        yield from {rng.range(0, size) for _ in range(1 + size // 10)}
    else:
        yield from range(size)
