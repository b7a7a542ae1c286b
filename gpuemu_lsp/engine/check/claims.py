"""What a check may claim of a finding: an error rests on no assumption.

A finding depends on sizes, values, extents and other subjects (:mod:`.dependences`), and of each of them a fact is
known with its source (:mod:`gpuemu_lsp.engine.plan.facts`). If some of these facts are assumed, the finding is an
information whose message ends with the reasons, or says that the kernel was not checked, or is dropped where an
assumption is arbitrary. This is the only place in which that is decided, for launches that are configured, read,
guessed or recorded, in every language.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from gpuemu_lsp.engine.cause import Cause
from gpuemu_lsp.engine.check.access_traits import is_far_from_arrays, leaves_global_memory
from gpuemu_lsp.engine.check.dependences import ACCESS_RULES, INCOMPLETE_RULES, Dependences
from gpuemu_lsp.engine.execution import Event
from gpuemu_lsp.engine.findings import Finding, Severity
from gpuemu_lsp.engine.fuzz.model import Case
from gpuemu_lsp.engine.fuzz.values import SPECIAL_RUNS
from gpuemu_lsp.engine.oracle import Mismatch
from gpuemu_lsp.engine.plan.facts import Claim, Fact, Facts, PlanOrigin, Source, assumed
from gpuemu_lsp.engine.plan.model import Plan
from gpuemu_lsp.engine.recordings.cases import SAME, SIZED, strategy_parts
from gpuemu_lsp.engine.rules import make

_ADVICE = "Set dims, args and launch in gpuemu.toml."
_SMALLER = "Declare smaller sizes in gpuemu.toml."
_ORDER_RULES = frozenset({
    "memory/global-race", "memory/shared-race", "memory/uninitialized-read", "sync/barrier-divergence", "sync/deadlock",
    "sync/missing-warp-mask",
})  # fmt: skip
"""What a kernel that tests its inputs for NaN and infinity must keep with them. Numbers, and indices that are computed
from them, it need not: its callers may know more."""
_MOST_NAMED = 3
"""Arguments that a message names: a struct may have hundreds of members."""


def claim(
    finding: Finding, event: Event | None, case: Case, dependences: Dependences, unwritten: str | None = None
) -> Finding | None:
    """Return a finding as far as it may be claimed; None if an arbitrary assumption is all that it shows.

    ``event`` is None for wrong numbers and for a launch that ended without an event; ``unwritten`` is the output of
    which a finding says that it was not written.
    """
    plan = dependences.plan
    unfinished = event is not None and event.cause is not None and event.cause.may_end
    if plan.facts.origin is PlanOrigin.CONFIGURATION:
        return not_checked(finding, (), refused=True, registered=True) if unfinished else finding
    if event is not None and event.rule == "engine/timeout":
        # Other sizes would be translated to the same code.
        return replace(finding, rule="engine/not-executed", severity=Severity.HINT)
    incomplete = finding.rule in INCOMPLETE_RULES
    if event is None and incomplete:
        event = Event(finding.rule, finding.message, None, "")
    facts = [fact for fact in _facts(event, case, dependences, unwritten) if fact.source is Source.ASSUMED]
    strongest = max((fact.claim for fact in facts), default=Claim.ERROR)
    reasons = list(dict.fromkeys(fact.reason for fact in facts if fact.reason and fact.claim is strongest))
    if unfinished or (event is not None and event.cause is not None and event.cause.is_time_limit):
        # A loop may be long and not endless, and the time depends on the machine.
        strongest = max(strongest, Claim.NOT_CHECKED)
    if strongest is Claim.NOTHING:
        return None
    if strongest is Claim.NOT_CHECKED or (incomplete and strongest is Claim.INFORMATION):
        return not_checked(finding, reasons, refused=_is_refused(event))
    if finding.severity is not Severity.ERROR:
        return finding
    if strongest is Claim.INFORMATION:
        return replace(finding, severity=Severity.INFORMATION, message="; ".join((finding.message, *reasons)))
    recorded = _recorded_as(plan, case)
    return replace(finding, message=f"{finding.message}; as recorded in {recorded}") if recorded else finding


def is_judged(mismatch: Mismatch, facts: Facts) -> bool:
    """Return whether wrong numbers are those of a buffer whose extent, and whose use by the program, are known."""
    buffer = facts.buffer(mismatch.param)
    if buffer.extent.claim is Claim.NOTHING:
        return False
    unwritten = mismatch.rule == "numeric/unwritten-output"
    # A program need not write all of its memory in one launch.
    recorded = facts.origin is PlanOrigin.RECORDING
    return not unwritten or not (recorded or Source.ASSUMED in (buffer.use.source, facts.arrays.source))


def not_checked(finding: Finding, reasons: Sequence[str], *, refused: bool, registered: bool = False) -> Finding:
    """Return a finding as the hint that the kernel was not checked; of a registered one it is a warning.

    ``refused``: a trap of the kernel refuses the sizes, or they take too long.
    """
    why = "; ".join((finding.message.rstrip("."), *reasons))
    return make(
        "engine/not-executed",
        f"'{finding.kernel}' was not checked: {why}. {_SMALLER if registered else _ADVICE}",
        finding.place,
        kernel=finding.kernel,
        dtype=finding.dtype,
        dims=finding.dims,
        data={"refused": why} if refused else {},
        severity=Severity.WARNING if registered else Severity.HINT,
        cause=Cause.INCOMPLETE,
        states_sizes=finding.states_sizes,
    )


def is_refusal(finding: Finding) -> bool:
    """Return whether a hint is about sizes that the kernel refuses, or that take too long."""
    return "refused" in finding.data


def in_part(finding: Finding, completed: int, cases: int) -> Finding:
    """Return such a hint about a kernel of which ``completed`` of its ``cases`` ran to completion."""
    if not completed:
        return finding
    checked = f"'{finding.kernel}' was checked on {completed} of {cases} cases only"
    registered = finding.severity is Severity.WARNING
    message = f"{checked}: {finding.data['refused']}. {_SMALLER if registered else _ADVICE}"
    # What gpuemu.toml declares is to be run.
    return replace(finding, rule=finding.rule if registered else "config/launch-inferred", message=message)


def _facts(event: Event | None, case: Case, dependences: Dependences, unwritten: str | None) -> Iterator[Fact]:
    """Yield the facts on which a finding rests, with some that are not assumed."""
    facts = dependences.plan.facts
    if dependences.plan.recorded is not None and _recorded_strategy(case)[1] == SAME:
        # The launch itself. Smaller sizes of it serve to minimise what is an error at its own.
        return
    yield from _facts_about_path(event, case, dependences)
    yield facts.instance
    if dependences.needs_own_arrays(event):
        yield _for_threads(facts.arrays, event)
    if dependences.needs_block(event, case):
        yield facts.block
    yield from (_for_program(facts.buffer(param).extent, event) for param in dependences.extents(event, case))
    if event is not None and event.rule in (*INCOMPLETE_RULES, "memory/uninitialized-read"):
        # An input is always initialised.
        yield from (fact.role for param, fact in facts.buffers.items() if event.buffer in (param, None))
    if facts.contents.source is Source.ASSUMED and dependences.reads_pointer(event):
        yield assumed("it reads a pointer from memory, which the program may have stored", Claim.NOT_CHECKED)
    if is_far_from_arrays(event):
        yield assumed("it computes the address from values or sizes that are assumed", Claim.NOT_CHECKED)
    if leaves_global_memory(event):
        yield from (replace(buffer.extent, claim=Claim.NOTHING) for buffer in facts.buffers.values())
    yield from _facts_about_values(event, case, dependences, unwritten)
    for name, need in dependences.sizes(event, case).items():
        if name in facts.sizes:
            yield facts.sizes[name].fact(name, case.dims[name], need)
    if facts.relations.source is Source.ASSUMED and dependences.relates_sizes(event, case):
        yield facts.relations
    if event is not None and event.rule in ACCESS_RULES and event.buffer is not None:
        relation = facts.buffer(event.buffer).relation
        related = relation.claim is Claim.NOTHING or dependences.is_decided_by_other_sizes(event)
        if relation.source is Source.ASSUMED and related and not dependences.is_before_begin(event):
            yield relation


def _facts_about_values(
    event: Event | None, case: Case, dependences: Dependences, unwritten: str | None
) -> Iterator[Fact]:
    if case.values == SPECIAL_RUNS and (event is None or event.rule not in _ORDER_RULES):
        yield assumed("no caller is known to pass NaN or infinity", Claim.NOTHING)
    values = sorted(dependences.values(event, case, unwritten))
    if values:
        named = ", ".join(f"'{name}'" for name in values[:_MOST_NAMED])
        more = f" and {len(values) - _MOST_NAMED} more" if len(values) > _MOST_NAMED else ""
        yield assumed(f"assumes values of {named}{more} that the host code does not set")
    if dependences.plan.facts.contents.source is Source.ASSUMED and dependences.is_indexed_by_float(event):
        yield assumed("assumes the range of a floating-point value, from which the index comes")


def _facts_about_path(event: Event | None, case: Case, dependences: Dependences) -> Iterator[Fact]:
    plan = dependences.plan
    path = plan.facts.path
    if not path.allows(case.dims):
        yield assumed("the program does not launch it with these sizes", Claim.NOTHING)
    yield path.reached
    if event is None or event.rule in ACCESS_RULES:
        yield path.selected
    yield from plan.facts.constants_not_met(case.dims, dependences.passed(event))
    yield from _facts_about_recording(plan, case)


def _facts_about_recording(plan: Plan, case: Case) -> Iterator[Fact]:
    """Yield the assumption that the program has other values than those recorded, in a case that has them."""
    if plan.recorded is not None and _recorded_strategy(case)[1] not in (SAME, SIZED):
        yield assumed("the recorded run has other values")


def _recorded_as(plan: Plan, case: Case) -> str:
    """Return the recorded launch that a case repeats; empty if it repeats none."""
    digest, kind = _recorded_strategy(case)
    launch = plan.recorded.case(digest) if plan.recorded is not None and kind == SAME else None
    return launch.text if launch is not None else ""


def _recorded_strategy(case: Case) -> tuple[str, str]:
    return strategy_parts(case.key.strategy) or ("", "")


def _is_refused(event: Event | None) -> bool:
    """Return whether a launch did not end for a reason that other sizes may not have.

    After another hang the kernel may be at fault, and after an access out of bounds a length that was assumed.
    """
    return event is not None and (event.rule == "sync/trap" or (event.cause is not None and event.cause.may_end))


def _for_program(fact: Fact, event: Event | None) -> Fact:
    """Return the fact about an extent for an event: both accesses of a race in one program are to its own elements."""
    within = event is not None and event.cause is Cause.WITHIN_PROGRAM
    return replace(fact, claim=min(fact.claim, Claim.INFORMATION)) if within else fact


def _for_threads(fact: Fact, event: Event | None) -> Fact:
    """Return the fact about arrays for an event: an access behind one may follow from another number of threads."""
    stops = event is not None and event.rule in (*INCOMPLETE_RULES, "memory/out-of-bounds")
    return replace(fact, claim=Claim.NOT_CHECKED) if stops and fact.claim is Claim.NOTHING else fact
