"""The legal values of a plan's inputs, for the sizes of one case."""

from __future__ import annotations

import math
from collections.abc import Mapping

from gpuemu_lsp.engine.fuzz.model import Case
from gpuemu_lsp.engine.plan.model import Plan, TensorArg
from gpuemu_lsp.engine.project.expressions import Expression, evaluate
from gpuemu_lsp.engine.shrink.model import Domain


def domains_of(plan: Plan, case: Case) -> Mapping[str, Domain]:
    """Evaluate the ranges that gpuemu.toml declares: half-open for integers, closed for floats.

    Raises
    ------
    ExpressionError
        If a bound has no value for these sizes.
    """
    environment = _environment(case)
    domains = {}
    for argument in plan.args:
        if isinstance(argument, TensorArg) and argument.range is not None and argument.param in case.tensors:
            low, high = (_value(bound, environment) for bound in argument.range)
            integers = case.tensors[argument.param].dtype.kind in "iub"
            domains[argument.param] = Domain(low, math.ceil(high) - 1 if integers and math.isfinite(high) else high)
    return domains


def _value(bound: Expression | float, environment: Mapping[str, int]) -> float:
    return float(evaluate(bound, environment)) if isinstance(bound, Expression) else float(bound)


def _environment(case: Case) -> dict[str, int]:
    """Return what an expression may name: the sizes, and size, shape and stride of each array."""
    environment = dict(case.dims)
    shapes = {name: tensor.shape for name, tensor in case.tensors.items()} | dict(case.outputs)
    for name, shape in shapes.items():
        environment[f"{name}.size"] = math.prod(shape)
        for axis, size in enumerate(shape):
            environment[f"{name}.shape({axis})"] = size
            environment[f"{name}.stride({axis})"] = math.prod(shape[axis + 1 :])
    return environment
