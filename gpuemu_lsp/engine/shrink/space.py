"""Construction of a plan's case space: the cases that the fuzzer could have drawn, and no others."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import replace

from gpuemu_lsp.engine.fuzz.cases import rebuild
from gpuemu_lsp.engine.fuzz.geometry import strides
from gpuemu_lsp.engine.fuzz.model import Case, CaseKey, LaunchHints, PlanError
from gpuemu_lsp.engine.fuzz.rng import derive_seed
from gpuemu_lsp.engine.fuzz.size_classes import allows
from gpuemu_lsp.engine.fuzz.strategies import PLAIN, TIGHT, Recipe, recipe
from gpuemu_lsp.engine.plan.model import Plan, TensorArg
from gpuemu_lsp.engine.project.expressions import Expression, evaluate
from gpuemu_lsp.engine.shrink.model import CaseSpace, ValueDomain

_VALUE_CLASSES = ("uniform", "ties", "rising", "negative", "sorted")
"""Classes of values that expose failures in cases of few elements."""

_MORE = 16
"""Further draws for failures that few values cause, such as of a hash."""


def space_of(plan: Plan, case: Case, hints: LaunchHints | None = None) -> CaseSpace:
    """Return the space of ``case``, which the fuzzer drew from ``plan`` with the same ``hints``."""

    def legal(dims: Mapping[str, int]) -> bool:
        return all(allows(spec, dims[spec.name]) for spec in plan.dims)

    def at(seed: int, how: Recipe, dims: Mapping[str, int]) -> Case | None:
        if not legal(dims):
            return None
        try:
            return rebuild(plan, CaseKey(seed, how.name, dims), hints)
        except PlanError:
            return None

    def resized(current: Case, dims: Mapping[str, int]) -> Case | None:
        return at(current.key.seed, recipe(current.key.strategy, 0), dims)

    def redraw(current: Case, dims: Mapping[str, int]) -> Iterator[Case]:
        if plan.recorded is not None:
            return iter(())  # values that no run has had may fail for a reason of their own
        # Everything derives from the original's seed: a redrawn case is stored as its key alone.
        again = derive_seed(case.key.seed, "again")
        layout = recipe(current.key.strategy, 0).layout
        keys = [(case.key.seed, replace(recipe(case.key.strategy, 0), layout=layout))]
        keys += [(case.key.seed, Recipe("small", values, layout=layout)) for values in _VALUE_CLASSES]
        keys += [(again, Recipe("small", values, layout=layout)) for values in _VALUE_CLASSES[:2]]
        more = (derive_seed(again, f"more_{index}") for index in range(_MORE))
        keys += [(seed, Recipe("small", _VALUE_CLASSES[0], layout=layout)) for seed in more]
        return (drawn for seed, how in keys if (drawn := at(seed, how, dims)) is not None)

    def simpler_layouts(current: Case) -> Iterator[Case]:
        how = recipe(current.key.strategy, 0)
        others = (
            at(current.key.seed, replace(how, layout=layout), current.dims) for layout in _simpler_layouts(current)
        )
        # A layout may depend on sizes: one that adds a gap or an offset is not simpler.
        same = (other for other in others if other is not None and other.extra.keys() <= current.extra.keys())
        return (replace(other, tensors=current.tensors) for other in same)

    return CaseSpace(plan.dims, resized, lambda other: domains_of(plan, other), redraw, simpler_layouts)


def _simpler_layouts(case: Case) -> Iterator[str]:
    """Yield simpler layouts: no unusual tensor, one of them with the smallest gaps, all but one, all."""
    odd = sorted({key.partition(":")[2] for key in case.extra})
    if not odd:
        return
    yield PLAIN
    if len(odd) > 1:
        yield from (f"{TIGHT}:{name}" for name in odd)
    if len(odd) > 2:
        yield from (f"{TIGHT}:{','.join(other for other in odd if other != name)}" for name in odd)
    yield f"{TIGHT}:{','.join(odd)}"


def domains_of(plan: Plan, case: Case) -> Mapping[str, ValueDomain]:
    """Return the ranges of a case's inputs: half-open in gpuemu.toml for integers, closed for floats.

    Undescribed integers of an inferred plan may be indices. As when the fuzzer draws them, they stay below every size.

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
            domains[argument.param] = ValueDomain(
                low, math.ceil(high) - 1 if kind in "iu" and math.isfinite(high) else high
            )
        elif plan.inferred and kind in "iu":
            smallest = min((case.dims[dim.name] for dim in plan.dims), default=1)
            domains[argument.param] = ValueDomain(0, max(1, smallest) - 1)
    return domains


def _value(bound: Expression | float, environment: Mapping[str, int]) -> float:
    return float(evaluate(bound, environment)) if isinstance(bound, Expression) else float(bound)


def _environment(case: Case) -> dict[str, int]:
    """Return the variables of expressions: the dims, and size, shape and strides of each array."""
    environment = dict(case.dims)
    shapes = {name: tensor.shape for name, tensor in case.tensors.items()} | dict(case.outputs)
    for name, shape in shapes.items():
        environment[f"{name}.size"] = math.prod(shape)
        for axis, (size, step) in enumerate(zip(shape, strides(case.extra, name, shape), strict=True)):
            environment[f"{name}.shape({axis})"] = size
            environment[f"{name}.stride({axis})"] = step
    return environment
