"""Integers that the program does not show: which values are tried, and what a case with such values proves.

Zeros are valid as indices and as numbers of iterations. Where an input is only compared and computed with, the branches
that they never reach are tried with other values, in half of the cases. A kernel may rely on a relation between values
that these do not have, such as that one flag alone is set. What they show is therefore an error only if it does not
depend on them, or if it is a race of which only one access does: it occurs as soon as one thread takes that branch.
"""

from __future__ import annotations

from dataclasses import replace

from gpuemu_lsp.engine.compile.model import Artifact
from gpuemu_lsp.engine.fuzz.model import Case
from gpuemu_lsp.engine.plan.model import Plan, TensorArg, parameters


def with_assumed_values(plan: Plan, artifact: Artifact) -> Plan:
    """Return the plan in which the buffers that are only compared are marked."""
    assumed = _candidates(plan)
    if not assumed:
        return plan
    # Delayed, as all of the emulator: see `case_runner`.
    from gpuemu_lsp.engine.emulator.analysis.dependence.value_use import only_compared

    found = only_compared(artifact.ptx, artifact.entries[plan.entry], assumed.values())
    args = tuple(
        replace(arg, assumed=True) if isinstance(arg, TensorArg) and assumed.get(arg.param) in found else arg
        for arg in plan.args
    )
    return replace(plan, args=args)


def holds_assumed_values(plan: Plan, case: Case) -> bool:
    """Return whether a case has other values than zeros where the program does not show them."""
    return any(isinstance(arg, TensorArg) and arg.assumed and case.tensors[arg.param].any() for arg in plan.args)


def _candidates(plan: Plan) -> dict[str, int]:
    """Return the numbers of the parameters that are such buffers, and share memory with no other."""
    if plan.read_launch is None or not plan.read_launch.assumed:
        return {}
    shared = {arg.shares for arg in plan.args if isinstance(arg, TensorArg)}
    return {
        arg.param: number
        for number, args in enumerate(parameters(plan.args))
        for arg in args
        if isinstance(arg, TensorArg)
        and arg.param in plan.read_launch.assumed
        and arg.shares is None
        and arg.param not in shared
        and arg.direction != "out"
    }
