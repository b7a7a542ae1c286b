"""Sizes of a kernel's signature that the program computes from others: ``k<<<...>>>(x, n, n / 2)``.

A plan from the signature has a dim for each integer parameter. Where the launch shows that one is computed from others
that it passes too, it is an expression over these: a kernel need not be right for an ``n`` and a half of it that do not
belong together.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import replace

from gpuemu_lsp.engine.plan.arguments import ArgumentRoles
from gpuemu_lsp.engine.plan.candidates import computed_size
from gpuemu_lsp.engine.plan.model import Plan, PlanArg, ScalarArg
from gpuemu_lsp.engine.project.expressions import Expression, ExpressionError, evaluate, names
from gpuemu_lsp.engine.symbolic.expressions import expression_of, size_of
from gpuemu_lsp.engine.symbolic.size import TooComplexError, substitute, symbol

_LARGEST_DIVISOR = 2048


def passed_sizes(launched: Plan) -> dict[str, str]:
    """Return the scalar parameters by the dim of the program's launch that each of them is."""
    return {str(arg.value): arg.param for arg in launched.args if isinstance(arg, ScalarArg)}


def with_computed_sizes(roles: ArgumentRoles, launched: Plan | None) -> ArgumentRoles:
    """Return the roles with the sizes that a launch computes from others as expressions over these."""
    if launched is None or not roles.inferred:
        return roles
    passed = passed_sizes(launched)
    computed: dict[str, Expression] = {}
    for arg in launched.args:
        value = computed_size(arg)
        if value is not None and names(value) <= passed.keys():
            try:
                size = substitute(size_of(value, 1), {name: symbol(passed[name], 1) for name in names(value)})
                computed[arg.param] = expression_of(size)
            except (TooComplexError, ExpressionError):
                continue
    args = tuple(
        replace(arg, value=computed[arg.param]) if isinstance(arg, ScalarArg) and arg.param in computed else arg
        for arg in roles.args
    )
    return replace(roles, args=args, dims=tuple(dim for dim in roles.dims if dim.name not in computed))


def divisors_of_computed_sizes(args: Iterable[PlanArg], divisors: Mapping[str, int]) -> dict[str, int]:
    """Return what sizes must be multiples of, so that those computed from one of them are multiples of ``divisors``."""
    found: dict[str, int] = {}
    for arg in args:
        value = computed_size(arg)
        if value is None or len(names(value)) != 1:
            continue
        (name,) = names(value)
        step = _step(value, name, divisors.get(arg.param, 1))
        if step is not None:
            found[name] = math.lcm(found.get(name, 1), step)
    return found


def _step(value: Expression, name: str, divisor: int) -> int | None:
    """Return the least number such that ``value`` of its multiples is a multiple of ``divisor``; None if none is."""
    for step in range(1, _LARGEST_DIVISOR + 1 if divisor > 1 else 2):
        if all(evaluate(value, {name: times * step}) % divisor == 0 for times in (1, 2, 3)):
            return step
    return None
