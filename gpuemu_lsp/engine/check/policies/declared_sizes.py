"""Sizes that gpuemu.toml declares and no case had."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from gpuemu_lsp.engine.check.finding_placer import FindingFactory
from gpuemu_lsp.engine.findings import Finding
from gpuemu_lsp.engine.plan.facts import PlanOrigin
from gpuemu_lsp.engine.plan.model import Plan

_LIMITS = "what a case may have of elements and of work"
_ADVICE = "`gpuemu fuzz` and `--cases` run more cases"


def sizes_not_run(plan: Plan, ran: Sequence[Mapping[str, int]], findings: FindingFactory) -> Iterator[Finding]:
    """Yield a finding for each dim of a registered kernel with sizes that none of the cases had.

    An ``include`` promises its values, so that one that did not run is information.

    Parameters
    ----------
    plan
        What was run.
    ran
        The sizes of the cases.
    findings
        Places findings of the plan.
    """
    # Cases of Triton kernels whose specialisation does not compile are named by that, and are not among those that ran.
    if plan.facts.origin is not PlanOrigin.CONFIGURATION or plan.triton is not None or not ran:
        return
    for dim in plan.dims:
        sizes = {case[dim.name] for case in ran}
        largest = max(sizes)
        left = [value for value in dim.include if value not in sizes]
        if left:
            values = " and ".join(map(str, left))
            message = f"'{plan.kernel}' was not run with {dim.name} = {values}. {_why(left, largest)}"
            place = findings.config_place(f"dims.{dim.name}.include")
            yield findings.finding("config/sizes-not-run", message, place)


def _why(left: Sequence[int], largest: int) -> str:
    if min(left) > largest:
        return f"With the other sizes of the cases it is more than {_LIMITS}; {_ADVICE}."
    return f"There are more values than cases; {_ADVICE}."
