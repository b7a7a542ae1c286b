"""Integers that memory holds at a launch of the program, for a plan that follows from the signature.

That the program leaves the length of a buffer open says nothing about what another one holds: a counter that it has set
to zero is zero at each launch.
"""

from __future__ import annotations

from dataclasses import replace

from gpuemu_lsp.engine.element_types import DISCRETE
from gpuemu_lsp.engine.plan.arguments import ArgumentRoles
from gpuemu_lsp.engine.plan.model import Plan, PlanArg, TensorArg
from gpuemu_lsp.engine.project.expressions import Expression, names


def with_known_contents(roles: ArgumentRoles, launched: Plan | None) -> ArgumentRoles:
    """Return the roles with the ranges that memory has at a launch, where they are numbers and not assumed."""
    if launched is None or not roles.inferred:
        return roles
    known = {arg.param: arg for arg in launched.args if _is_known(arg, launched)}
    return replace(roles, args=tuple(_with_range(arg, known.get(arg.param)) for arg in roles.args))


def _is_known(arg: PlanArg, launched: Plan) -> bool:
    if not isinstance(arg, TensorArg) or arg.range is None or arg.dtype not in DISCRETE or arg.direction == "out":
        return False
    numbers = not any(isinstance(bound, Expression) and names(bound) for bound in arg.range)
    return numbers and arg.param not in launched.facts.values


def _with_range(arg: PlanArg, known: PlanArg | None) -> PlanArg:
    if not isinstance(arg, TensorArg) or not isinstance(known, TensorArg):
        return arg
    # What only the compiled code shows to be read is an output so far.
    takes = arg.range is None and arg.dtype == known.dtype
    return replace(arg, range=known.range) if takes else arg
