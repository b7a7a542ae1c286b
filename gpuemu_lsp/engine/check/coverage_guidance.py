"""Coverage-guided cases: inputs that may take branches that no case has taken.

An untaken branch compares with constants of the kernel, which random inputs rarely match. A guided case takes such a
constant as one of its sizes, or writes it, or a value next to it, to elements of an input.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace

import numpy as np

from gpuemu_lsp.engine.check.coverage import CoverageTotals
from gpuemu_lsp.engine.check.replay_store import plan_digest
from gpuemu_lsp.engine.execution import Coverage
from gpuemu_lsp.engine.fuzz import rebuild
from gpuemu_lsp.engine.fuzz.cases import bounds_of
from gpuemu_lsp.engine.fuzz.model import Array, Case, CaseKey, LaunchHints, PlanError
from gpuemu_lsp.engine.fuzz.rng import Rng, derive_seed
from gpuemu_lsp.engine.fuzz.size_classes import allows
from gpuemu_lsp.engine.plan.model import Plan
from gpuemu_lsp.engine.store import Failure

FIRST = 8
"""Cases drawn without guidance; from then on every other case is guided."""
_RECIPES = ("default/uniform", "ragged/uniform", "medium/negative", "small/uniform")
_POOL_SIZE = 32
_SMALL_CASE = 4096
"""Elements up to which a case is kept as a base for others."""
_FACTORS = (1.0, 1.0, 1.0, 2.0, 0.5, -1.0, 4.0)
"""Multiples of a constant that are tried; the constant itself most often."""


@dataclass(slots=True)
class CoverageGuidance:
    """Draws cases towards untaken branches. Deterministic: they depend on the seed and the coverage so far."""

    plan: Plan
    seed: int
    hints: LaunchHints
    totals: CoverageTotals
    failures: dict[str, Failure] = field(default_factory=dict)
    """Store record of each case with planted values, by case id: its seed alone does not rebuild it."""
    _pool: list[Case] = field(default_factory=list)
    _count: int = 0

    def observe(self, case: Case, coverage: Coverage) -> None:
        """Add the coverage of a launch, and keep its case as a base for others if it reached anything new."""
        if not self.totals.add(coverage):
            return
        # An exact case promises small integers, which a planted value would break.
        if not case.exact and sum(tensor.size for tensor in case.tensors.values()) <= _SMALL_CASE:
            self._pool = [*self._pool[-_POOL_SIZE:], case]

    def draw(self) -> tuple[Case, str] | None:
        """Return a case and its id; None if every executed branch took all outcomes or compares with no constant."""
        numbers = [number for goal in self.totals.missed() for number in goal.against]
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
        """Write the number, or a value next to it, to some elements of an input."""
        ranges = bounds_of(self.plan, base.dims)
        names = [name for name, tensor in base.tensors.items() if tensor.size and tensor.dtype != np.bool_]
        alike = [name for name in names if (base.tensors[name].dtype.kind in "iu") == isinstance(number, int)]
        if not names:
            return None
        name = rng.choice(alike or names)
        tensor = base.tensors[name]
        value = _value_near(number, tensor, ranges.get(name), rng)
        if value is None:
            return None
        changed = tensor.copy().reshape(-1)
        changed[list(_indices(changed.size, rng))] = value
        tensors = {**base.tensors, name: changed.reshape(tensor.shape)}
        # A base from the pool may have planted values itself: every tensor that its key does not rebuild is stored.
        drawn = rebuild(self.plan, base.key, self.hints).tensors
        kept = {key: one for key, one in tensors.items() if one.tobytes() != drawn[key].tobytes()}
        failure = Failure(
            self.plan.kernel, self.plan.dtype, "", "", base.key, tensors=kept, source_hash=plan_digest(self.plan)
        )
        self.failures[failure.case] = failure
        return replace(base, tensors=tensors, values="planted"), failure.case


def _resized(plan: Plan, dims: Mapping[str, int], number: float, rng: Rng) -> Mapping[str, int]:
    """Return the sizes with one of them at the number or next to it, unchanged if no dim allows that."""
    size = int(number) + rng.choice((0, 0, 1, -1))
    free = [spec for spec in plan.dims if size > 0 and allows(spec, size)]
    return {**dims, rng.choice(free).name: size} if free else dims


def _value_near(number: float, tensor: Array, bounds: tuple[float, float] | None, rng: Rng) -> np.generic | None:
    """Return the number, or a value next to it, as an element; None if the dtype or the bounds exclude it."""
    value = number * rng.choice(_FACTORS)
    kind = tensor.dtype.type
    if tensor.dtype.kind in "iu":
        whole = int(value) + rng.choice((0, 0, 1, -1))
        info = np.iinfo(tensor.dtype)
        if not info.min <= whole <= info.max or (bounds is not None and not bounds[0] <= whole < bounds[1]):
            return None
        made: np.generic = kind(whole)
        return made
    near = float(value) + rng.choice((0.0, 0.0, 1.0, -1.0)) * max(1.0, abs(value)) * rng.choice((1.0, 2.0**-6))
    with np.errstate(over="ignore"):
        element: np.generic = kind(near)
    fits = np.isfinite(float(element)) and (bounds is None or bounds[0] <= float(element) <= bounds[1])
    return element if fits else None


def _indices(size: int, rng: Rng) -> Iterator[int]:
    """Yield the elements to change: one, the first, the last, a tenth, or all."""
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
