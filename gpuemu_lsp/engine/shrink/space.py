"""The cases of a plan as the minimiser sees them: what the fuzzer could have drawn, and nothing else."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import replace

from gpuemu_lsp.engine.fuzz.cases import rebuild
from gpuemu_lsp.engine.fuzz.geometry import strides
from gpuemu_lsp.engine.fuzz.model import Case, CaseKey, LaunchHints, PlanError
from gpuemu_lsp.engine.fuzz.rng import derive_seed
from gpuemu_lsp.engine.fuzz.sizes import allows
from gpuemu_lsp.engine.plan.model import Plan, TensorArg
from gpuemu_lsp.engine.project.expressions import Expression, evaluate
from gpuemu_lsp.engine.shrink.model import Domain, Space

_TELLING = ("uniform", "ties", "negative", "sorted")
"""Values that show what others hide, where a case has few elements left."""


def space_of(plan: Plan, case: Case, hints: LaunchHints | None = None) -> Space:
    """Return the space round a case that the fuzzer built from ``plan``."""

    def legal(dims: Mapping[str, int]) -> bool:
        return all(allows(spec, dims[spec.name]) for spec in plan.dims)

    def at(dims: Mapping[str, int]) -> Case | None:
        if not legal(dims):
            return None
        try:
            return rebuild(plan, replace(case.key, dims=dims), hints)
        except PlanError:
            return None

    def redraw(dims: Mapping[str, int]) -> Iterator[Case]:
        again = derive_seed(case.key.seed, "again")
        layouts = ("/plain", "") if case.extra else ("",)
        keys = [(case.key.seed, case.key.strategy)]
        keys += [(case.key.seed, f"small/{values}") for values in _TELLING]
        keys += [(again, f"small/{values}") for values in _TELLING[:2]]
        for seed, recipe in keys if legal(dims) else ():
            for layout in layouts:
                try:
                    yield rebuild(plan, CaseKey(seed, recipe.removesuffix("/plain") + layout, dims), hints)
                except PlanError:
                    continue

    return Space(plan.dims, at, lambda other: domains_of(plan, other), redraw)


def domains_of(plan: Plan, case: Case) -> Mapping[str, Domain]:
    """Evaluate the ranges of the inputs: half-open for integers, closed for floats.

    Integers of an inferred plan that nobody described may be indices: like the fuzzer's, they stay below every size.

    Raises
    ------
    ExpressionError
        If a bound has no value for these sizes.
    """
    environment = _environment(case)
    domains = {}
    for argument in plan.args:
        if not isinstance(argument, TensorArg) or argument.param not in case.tensors:
            continue
        kind = case.tensors[argument.param].dtype.kind
        if argument.range is not None:
            low, high = (_value(bound, environment) for bound in argument.range)
            domains[argument.param] = Domain(low, math.ceil(high) - 1 if kind in "iu" and math.isfinite(high) else high)
        elif plan.inferred and kind in "iu":
            smallest = min((case.dims[dim.name] for dim in plan.dims), default=1)
            domains[argument.param] = Domain(0, max(1, smallest) - 1)
    return domains


def _value(bound: Expression | float, environment: Mapping[str, int]) -> float:
    return float(evaluate(bound, environment)) if isinstance(bound, Expression) else float(bound)


def _environment(case: Case) -> dict[str, int]:
    """Return what an expression may name: the sizes, and size, shape and stride of each array."""
    environment = dict(case.dims)
    shapes = {name: tensor.shape for name, tensor in case.tensors.items()} | dict(case.outputs)
    for name, shape in shapes.items():
        environment[f"{name}.size"] = math.prod(shape)
        for axis, (size, step) in enumerate(zip(shape, strides(case.extra, name, shape), strict=True)):
            environment[f"{name}.shape({axis})"] = size
            environment[f"{name}.stride({axis})"] = step
    return environment
