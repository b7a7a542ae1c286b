"""Integers that the program does not show: which values are tried, and what a case with such values proves.

Zeros are valid as indices and as numbers of iterations, and so are numbers below every size where the lengths of
buffers are inferred. Where an input is only compared and computed with, the branches that they never reach are tried
with other values, in half of the cases. What such values prove: see :mod:`.value_dependence`.
"""

from __future__ import annotations

from dataclasses import replace

from gpuemu_lsp.engine.compile.model import Artifact
from gpuemu_lsp.engine.element_types import DISCRETE
from gpuemu_lsp.engine.fuzz.model import Case
from gpuemu_lsp.engine.plan.model import Plan, TensorArg, parameters


def with_assumed_values(plan: Plan, artifact: Artifact) -> Plan:
    """Return the plan in which the buffers whose integers are not shown are marked, by their use."""
    assumed = _candidates(plan)
    if not assumed:
        return plan
    # Delayed, as all of the emulator: see `case_runner`.
    from gpuemu_lsp.engine.emulator.analysis.dependence.compared import only_compared

    found = only_compared(artifact.ptx, artifact.entries[plan.entry], assumed.values())
    args = []
    for arg in plan.args:
        if isinstance(arg, TensorArg) and arg.param in assumed:
            constants = found.get(assumed[arg.param])
            arg = (
                replace(arg, may_index=plan.read_launch is None)
                if constants is None
                else replace(arg, assumed=True, compared_with=tuple(sorted(constants)))
            )
        args.append(arg)
    return replace(plan, args=tuple(args))


def values_not_shown(plan: Plan) -> frozenset[str]:
    """Return the arguments of which neither the program nor its configuration shows the integers."""
    if plan.read_launch is not None:
        return plan.read_launch.unseen
    tensors = (arg for arg in plan.args if isinstance(arg, TensorArg) and plan.inferred)
    read = (arg for arg in tensors if arg.dtype in DISCRETE and arg.direction != "out")
    return frozenset(arg.param for arg in read if arg.range is None)


def holds_assumed_values(plan: Plan, case: Case) -> bool:
    """Return whether a case has other values than zeros where the program does not show them."""
    marked = (arg for arg in plan.args if isinstance(arg, TensorArg) and (arg.assumed or arg.may_index))
    return any(case.tensors[arg.param].any() for arg in marked)


def holds_assumed_indices(plan: Plan, case: Case) -> bool:
    """Return whether a case has other values than zeros where they may be indices and the program shows none."""
    return any(isinstance(arg, TensorArg) and arg.may_index and case.tensors[arg.param].any() for arg in plan.args)


def _candidates(plan: Plan) -> dict[str, int]:
    """Return the numbers of the parameters that are such buffers, and share memory with no other."""
    launch = plan.read_launch
    possible = values_not_shown(plan) if launch is None else launch.assumed
    shared = {arg.shares for arg in plan.args if isinstance(arg, TensorArg)}
    return {
        arg.param: number
        for number, args in enumerate(parameters(plan.args))
        for arg in args
        if isinstance(arg, TensorArg)
        and arg.param in possible
        and arg.shares is None
        and arg.param not in shared
        and arg.direction != "out"
    }
