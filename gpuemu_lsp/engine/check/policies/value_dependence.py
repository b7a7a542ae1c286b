"""Findings that other values of the inputs may not show, for every source of a launch.

A kernel may rely on values that the program does not show, such as that one flag alone is set or that indices differ.
An error is what occurs whatever they are, and a race of which only one access depends on the outcome of comparisons
with them: it occurs as soon as one thread takes that branch. Anything else is an information. Any values of a
floating-point input may occur.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, TypeAlias

from gpuemu_lsp.engine.check.policies.assumed_values import (
    holds_assumed_indices,
    holds_assumed_values,
    values_not_shown,
)
from gpuemu_lsp.engine.element_types import DISCRETE, FLOATS
from gpuemu_lsp.engine.execution import Event, Request
from gpuemu_lsp.engine.findings import Finding, Severity
from gpuemu_lsp.engine.fuzz.model import Case
from gpuemu_lsp.engine.plan.model import Plan, ScalarArg, TensorArg, parameters
from gpuemu_lsp.engine.project.expressions import Expression, names
from gpuemu_lsp.engine.ptx.model import Location

if TYPE_CHECKING:
    from gpuemu_lsp.engine.emulator.analysis.dependence.kernel import Dependence, IsOpen, KernelDependences


@dataclass(frozen=True, slots=True)
class IndependentAccesses:
    """What a kernel does whatever some sources are; ``compared``: the outcome of comparisons with them is no matter."""

    dependences: KernelDependences
    is_open: IsOpen
    compared: bool

    def is_independent(self, dependence: Dependence) -> bool:
        """Return whether no open source decides."""
        return not dependence.may_differ(self.is_open, compared=self.compared)


Known: TypeAlias = "IndependentAccesses | None"
Independent: TypeAlias = Callable[[frozenset[str], bool], Known]
"""The accesses that a launch makes whatever the values of its inputs are, and of arguments computed from sizes.

The second argument: the outcome of comparisons with them is no matter. None if nothing is known."""

ACCESS_RULES = frozenset({"memory/out-of-bounds", "memory/misaligned", "memory/null-pointer"})
_VALUE_RULES = frozenset({"sync/hang", "sync/trap", "sync/deadlock"})
_SYNCHRONIZATION_RULES = frozenset({"sync/barrier-divergence", "sync/missing-warp-mask"})
_NO_PARAMETER = -1
_MOST_NAMED = 3
"""Parameters that a message names: a struct may have hundreds of members."""


def nothing_known(sizes: frozenset[str], compared: bool) -> Known:
    """Return None: every access may depend on values."""
    return None


def may_differ(event: Event | None, plan: Plan, case: Case, independent: Independent) -> bool:
    """Return whether other values of the inputs, such as the program has, may be such that an error does not occur."""
    if not values_not_shown(plan):
        return False
    if event is not None and event.rule == "memory/uninitialized-read" and _may_be_stored(event, plan, independent):
        return True
    if event is None or not (event.rule in ACCESS_RULES | _VALUE_RULES or event.rule.endswith("-race")):
        return holds_assumed_values(plan, case) and not _is_made_in_any_case(event, plan, independent)
    return needs_values(event, plan, independent) and not _is_race_of_one_access(event, plan, case, independent)


def needs_values(
    event: Event, plan: Plan, independent: Independent, sizes: frozenset[str] = frozenset(), compared: bool = False
) -> bool:
    """Return whether the accesses of an event may depend on the values of inputs, or on some sizes.

    ``compared``: not through the outcome of comparisons.
    """
    if event.rule not in ACCESS_RULES and not event.rule.endswith("-race"):
        return True
    found = independent(sizes, compared)
    return any(_needs_values(access, event, plan, found) for access in _accesses(event))


def with_assumption(finding: Finding, plan: Plan) -> Finding:
    """Return an error that may depend on values as an information that names the inputs they are of."""
    inputs = sorted(values_not_shown(plan))
    named = ", ".join(f"'{name}'" for name in inputs[:_MOST_NAMED])
    more = f" and {len(inputs) - _MOST_NAMED} more" if len(inputs) > _MOST_NAMED else ""
    message = f"{finding.message}; the program does not show the values of {named}{more}, which were assumed"
    return replace(finding, severity=Severity.INFORMATION, message=message)


def independent_of_values(launch: Request, plan: Plan, sizes: frozenset[str], compared: bool) -> Known:
    """Return which accesses a launch makes whatever the integers are that the program leaves open, and some sizes.

    ``compared``: the outcome of comparisons with them is no matter. None if nothing is known.
    """
    # Delayed, as all of the emulator: see `case_runner`.
    from gpuemu_lsp.engine.emulator.analysis.dependence.kernel import dependences
    from gpuemu_lsp.engine.emulator.analysis.dependence.sources import (
        UNSETTLED,
        MemoryContents,
        ParameterValue,
        Source,
        VariableContents,
    )

    if sizes and "%nctaid" in launch.artifact.ptx:
        return None
    hidden = values_not_shown(plan)
    unknown, settled = set[int](), set[int]()
    for number, args in enumerate(parameters(plan.args)):
        if any(isinstance(arg, ScalarArg) and (arg.param in hidden or _depends(arg, sizes)) for arg in args):
            unknown.add(number)
        if any(isinstance(arg, TensorArg) and _is_settled(arg, hidden) for arg in args):
            settled.add(number)

    def is_open(source: Source) -> bool:
        if isinstance(source, ParameterValue):
            return source.parameter in unknown
        if isinstance(source, MemoryContents):
            return source.parameter not in settled or source.offset != 0
        return isinstance(source, VariableContents) or source in UNSETTLED

    return IndependentAccesses(dependences(launch.artifact.ptx, launch.entry), is_open, compared)


def _is_race_of_one_access(event: Event, plan: Plan, case: Case, independent: Independent) -> bool:
    """Return whether only one access of a race depends on values, and some thread surely makes it as it did here.

    That is so where the outcome of comparisons alone decides: the race occurs as soon as one thread takes the branch.
    An index into shared memory may be any as well: it is there to access elements of other threads. Larger numbers than
    zero may be indices behind the array. So may be that of an update of shared memory: with another one for each thread
    there would be nothing to add up.
    """
    if not event.rule.endswith("-race"):
        return False
    found = independent(frozenset(), False)
    if _is_update(event, found):
        return True
    if all(_needs_values(access, event, plan, found) for access in _accesses(event)):
        return False
    if event.rule == "memory/shared-race" and not holds_assumed_indices(plan, case):
        return True
    return not needs_values(event, plan, independent, compared=True)


def _may_be_stored(event: Event, plan: Plan, independent: Independent) -> bool:
    """Return whether indices among the inputs decide which elements are stored: with others it may be the one read."""
    found = independent(frozenset(), False)
    return found is not None and not found.dependences.scattered(found.is_open).isdisjoint(_pointers(event, plan))


def _is_update(event: Event, found: Known) -> bool:
    """Return whether a race is between the load and the store of one statement that updates shared memory."""
    opcodes = {event.instruction.partition(".")[0], str(event.data.get("other_instruction", "")).partition(".")[0]}
    is_update = found is not None and event.location in found.dependences.updates(found.is_open)
    return (
        is_update and event.rule == "memory/shared-race" and event.location == event.other and opcodes == {"ld", "st"}
    )


def _is_made_in_any_case(event: Event | None, plan: Plan, independent: Independent) -> bool:
    """Return whether the synchronization, or the read and all writes to its memory, depend on no values."""
    found = None if event is None else independent(frozenset(), False)
    if event is None or found is None:
        return False
    if event.rule in _SYNCHRONIZATION_RULES:
        return found.is_independent(found.dependences.synchronization)
    if event.rule != "memory/uninitialized-read":
        return False
    writes = found.dependences.writes
    written = all(found.is_independent(writes[number]) for number in _pointers(event, plan) if number in writes)
    return written and not any(_needs_values(access, event, plan, found) for access in _accesses(event))


def _accesses(event: Event) -> list[tuple[Location | None, str]]:
    """Return the location and instruction of an access, or of both accesses of a race."""
    one = event.location, event.instruction
    return [one, (event.other, str(event.data.get("other_instruction", "")))] if event.rule.endswith("-race") else [one]


def _needs_values(access: tuple[Location | None, str], event: Event, plan: Plan, found: Known) -> bool:
    location, instruction = access
    if location is None or found is None:
        return True
    return not found.is_independent(found.dependences.of(location, instruction, _pointers(event, plan)))


def _pointers(event: Event, plan: Plan) -> list[int]:
    """Return the numbers of the parameters that point to the memory of an event."""
    found = [
        number
        for number, args in enumerate(parameters(plan.args))
        for arg in args
        if isinstance(arg, TensorArg) and event.buffer in (arg.param, arg.shares)
    ]
    return found or [_NO_PARAMETER]


def _is_settled(arg: TensorArg, hidden: frozenset[str]) -> bool:
    """Return whether an input may have any values, or has integers that the program shows for all sizes."""
    if arg.direction != "in" or arg.dtype in FLOATS:
        return arg.direction == "in"
    fixed = arg.range is not None and not any(isinstance(one, Expression) and names(one) for one in arg.range)
    return fixed and arg.dtype in DISCRETE and arg.param not in hidden


def _depends(arg: ScalarArg, sizes: frozenset[str]) -> bool:
    return isinstance(arg.value, Expression) and not sizes.isdisjoint(names(arg.value))
