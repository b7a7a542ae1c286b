"""A case of one kernel at sizes that the user has chosen, to be run as a stored one is."""

from __future__ import annotations

from collections.abc import Mapping

from gpuemu_lsp.engine.check.prepare import prepare
from gpuemu_lsp.engine.fuzz.model import CaseKey
from gpuemu_lsp.engine.fuzz.size_classes import allows
from gpuemu_lsp.engine.store import Failure
from gpuemu_lsp.engine.subjects.request import CheckRequest

_STRATEGY = "default"


class ChosenSizesError(ValueError):
    """Sizes that the kernel has no case of; the message is for the user."""


def chosen_case(request: CheckRequest, dims: Mapping[str, int], dtype: str, seed: int) -> Failure:
    """Return a case at some sizes, as a failure of no rule.

    Parameters
    ----------
    request : CheckRequest
        The kernel.
    dims : mapping of str to int
        The sizes by name; those that have one value only may be missing.
    dtype : str
        The dtype, "" for the first one.
    seed : int
        Decides the values.

    Raises
    ------
    ChosenSizesError
        If there is no such case.
    """
    name, prepared = request.spec.name, prepare(request)
    plans = {plan.dtype: plan for plan in reversed(prepared.plans) if plan.recorded is None}
    if not plans:
        raise ChosenSizesError(next((one.message for one in prepared.findings), f"'{name}' cannot be run"))
    if dtype and dtype not in plans:
        raise ChosenSizesError(f"'{name}' is not checked as {dtype}; there are: {', '.join(sorted(plans))}")
    plan = plans[dtype] if dtype else list(plans.values())[-1]
    sizes = {}
    for spec in plan.dims:
        value = dims.get(spec.name, spec.minimum if spec.minimum == spec.maximum else None)
        if value is None:
            names = ", ".join(one.name for one in plan.dims)
            raise ChosenSizesError(f"the size {spec.name} of '{name}' is missing; its sizes are: {names}")
        if not allows(spec, value):
            raise ChosenSizesError(f"{spec.name} = {value} is not one of the sizes that '{name}' is checked with")
        sizes[spec.name] = value
    if unknown := sorted(dims.keys() - sizes.keys()):
        raise ChosenSizesError(f"'{name}' has no size {unknown[0]}; its sizes are: {', '.join(sizes) or 'none'}")
    return Failure(name, plan.dtype, "", "", CaseKey(seed, _STRATEGY, sizes), sizes)
