"""Coverage-guided cases: inputs that may take branches that no case has taken.

An untaken branch compares with constants of the kernel, which random inputs rarely match. A guided case takes such a
constant as one of its sizes, or writes it, or a value next to it, to elements of an input. Where the comparison can be
solved for an argument (``3 * x + 7 == 51307``), the solution is given to that argument.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace

import numpy as np

from gpuemu_lsp.engine.check.coverage import CoverageTotals
from gpuemu_lsp.engine.check.replay_store import plan_digest
from gpuemu_lsp.engine.execution import Coverage, Solution
from gpuemu_lsp.engine.fuzz import rebuild
from gpuemu_lsp.engine.fuzz.cases import bounds_of
from gpuemu_lsp.engine.fuzz.model import Array, Case, CaseKey, LaunchHints, PlanError
from gpuemu_lsp.engine.fuzz.rng import Rng, derive_seed
from gpuemu_lsp.engine.fuzz.size_classes import allows
from gpuemu_lsp.engine.plan.model import Plan, PlanArg, ScalarArg, parameters
from gpuemu_lsp.engine.project.expressions import Expression, ExpressionError, evaluate, names
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
        """Return a case and its id; None if no branch compares with anything that an input can be made equal to."""
        missed = self.totals.missed()
        numbers = [number for goal in missed for number in goal.against]
        solvable = [goal.solutions for goal in missed if goal.solutions]
        known = [goal.solutions for goal in self.totals.goals if goal.solutions]
        self._count += 1
        if not numbers and not known:
            return None
        seed = derive_seed(self.seed, f"steer_{self._count}")
        rng = Rng(seed)
        try:
            base = self._base(rng, seed)
            # Also those of branches that were taken: a race needs several threads there at once.
            if known and (not numbers or rng.bool(0.6)):
                return self._solved(base, rng.choice(solvable if solvable and rng.bool(0.875) else known), seed, rng)
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

    def _solved(self, base: Case, solutions: tuple[Solution, ...], seed: int, rng: Rng) -> tuple[Case, str] | None:
        """Give one argument of a branch's comparisons the value that makes the sides equal, or each of them."""
        # A condition such as ``x == 5 && v[i] == 7`` needs all of them at once. Sizes come first: they change shapes.
        chosen = [rng.choice(solutions)] if rng.bool(0.5) else list(solutions)
        chosen.sort(key=lambda one: not isinstance(self._argument(one.argument), ScalarArg))
        found: tuple[Case, str] | None = None
        for solution in chosen:
            made = self._with_solution(base if found is None else found[0], solution, seed, rng)
            found = made or found
        return found

    def _with_solution(self, base: Case, solution: Solution, seed: int, rng: Rng) -> tuple[Case, str] | None:
        """Give an argument, or elements of it, the value at which a comparison's sides are equal, or one next to it."""
        number = solution.offset
        if solution.other is not None:
            other = self._argument(solution.other)
            if not isinstance(other, ScalarArg):
                return None
            number += solution.scale * float(base.scalars[other.param])
        argument = self._argument(solution.argument)
        if isinstance(argument, ScalarArg):
            dims = _solved_size(self.plan, base, argument, number, rng)
            return self._with_sizes(base, dims, seed) if dims is not None else None
        # Division leaves a fraction where the comparison is between two values: the next integer is beyond it.
        kind = base.tensors[argument.param].dtype.kind if argument and argument.param in base.tensors else "f"
        value = math.ceil(number) if kind in "iu" or number.is_integer() else number
        return self._planted(base, value, rng, argument.param if argument is not None else None, exact=True)

    def _argument(self, number: int | None) -> PlanArg | None:
        """Return the argument at the beginning of a parameter."""
        found = parameters(self.plan.args)
        if number is None or number >= len(found):
            return None
        first = found[number][0]
        return first if first.member is None or first.member.offset == 0 else None

    def _with_sizes(self, base: Case, dims: Mapping[str, int], seed: int) -> tuple[Case, str]:
        """Return the base with other sizes; its planted values stay where no shape changes."""
        case = rebuild(self.plan, CaseKey(seed, base.key.strategy, dims), self.hints)
        if base.values != "planted" or any(case.tensors[name].shape != one.shape for name, one in base.tensors.items()):
            return case, case.key.id
        return self._stored(case, dict(base.tensors))

    def _planted(
        self, base: Case, number: float, rng: Rng, only: str | None = None, *, exact: bool = False
    ) -> tuple[Case, str] | None:
        """Write the number, or a value next to it, to some elements of an input; of ``only`` if it is given."""
        ranges = bounds_of(self.plan, base.dims)
        filled = [name for name, tensor in base.tensors.items() if tensor.size and tensor.dtype != np.bool_]
        alike = [name for name in filled if (base.tensors[name].dtype.kind in "iu") == isinstance(number, int)]
        if not filled:
            return None
        name = only if only in filled else rng.choice(alike or filled)
        tensor = base.tensors[name]
        value = _value_near(number, tensor, ranges.get(name), rng, exact=exact)
        if value is None:
            return None
        changed = tensor.copy().reshape(-1)
        changed[list(_indices(changed.size, rng, many=exact))] = value
        return self._stored(base, {**base.tensors, name: changed.reshape(tensor.shape)})

    def _stored(self, base: Case, tensors: dict[str, Array]) -> tuple[Case, str]:
        """Return the base with these tensors, and make the record that rebuilds it."""
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


def _solved_size(plan: Plan, base: Case, argument: ScalarArg, number: float, rng: Rng) -> Mapping[str, int] | None:
    """Return sizes at which a scalar argument has the number, or one next to it; None if there are none."""
    if not isinstance(argument.value, Expression):
        return None
    wanted = math.ceil(number) + rng.choice((0, 0, 0, 1, -1))
    free = [spec for spec in plan.dims if spec.name in names(argument.value)]
    if not free:
        return None
    spec = rng.choice(free)
    try:
        # The value is taken to be a linear function of the size; whether it is shows when it is evaluated again.
        here = base.dims[spec.name]
        at = evaluate(argument.value, base.dims)
        slope = evaluate(argument.value, {**base.dims, spec.name: here + 1}) - at
        size = here + (wanted - at) // slope if slope else here
        dims = {**base.dims, spec.name: size}
        return dims if size > 0 and allows(spec, size) and evaluate(argument.value, dims) == wanted else None
    except ExpressionError:
        return None


def _value_near(
    number: float, tensor: Array, bounds: tuple[float, float] | None, rng: Rng, *, exact: bool = False
) -> np.generic | None:
    """Return the number, or a value next to it, as an element; None if the dtype or the bounds exclude it.

    ``exact``: no multiples of the number are tried.
    """
    value = number if exact else number * rng.choice(_FACTORS)
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


def _indices(size: int, rng: Rng, *, many: bool = False) -> Iterator[int]:
    """Yield the elements to change: one, the first, the last, a tenth, or all; with ``many`` mostly several."""
    how = rng.choice((0, 3, 4, 4)) if many else rng.range(0, 5)
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
