"""Counterfactual launches: a case again, with the effect of a race or of uninitialised memory changed."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

from gpuemu_lsp.engine.check.case_runner import CaseRunner
from gpuemu_lsp.engine.execution import Buffer, Event, Outcome
from gpuemu_lsp.engine.fuzz import pack_arguments
from gpuemu_lsp.engine.fuzz.model import Case
from gpuemu_lsp.engine.ptx import PtxError, parse
from gpuemu_lsp.engine.ptx.model import Instruction, Location

_FILLS = (0x00, 0xFF)
"""Contents of uninitialised memory: zero, to which sums are initialised, and NaN (-1 as an integer), which ``max.f32``
and ``min.f32`` drop."""


def with_other_contents(runner: CaseRunner, case: Case) -> Iterator[Outcome]:
    """Yield completed launches of a case with other contents of uninitialised memory."""
    for fill in _FILLS:
        arguments = tuple(
            one.with_unwritten(fill) if isinstance(one, Buffer) else one for one in pack_arguments(runner.plan, case)
        )
        outcome = runner.repeat(case, replace(runner.launch_of(case), fill=fill), arguments)
        if outcome.status == "completed":
            yield outcome


def in_descending_order(runner: CaseRunner, case: Case) -> Iterator[Outcome]:
    """Yield the launch of a case with blocks and warps executed from the last to the first, if it completes."""
    outcome = runner.repeat(case, replace(runner.launch_of(case), descending=True))
    if outcome.status == "completed":
        yield outcome


def with_barriers(runner: CaseRunner, case: Case, races: Iterable[Event]) -> Iterator[Outcome]:
    """Yield completed launches with a barrier of the block before the first access of each race, or the second.

    A barrier that not all threads reach does not separate the accesses: such a launch is left out.
    """
    launch = runner.launch_of(case)
    artifact = launch.artifact
    firsts, seconds = set[Location | None](), set[Location | None]()
    for race in races:
        firsts.add(race.location)
        seconds.add(race.other)
    seen = {artifact.ptx}
    for places in (firsts, seconds):
        # An access may be guarded by a branch that some threads take: the barrier then has to stand before the branch.
        for before_branch in (False, True):
            text = ptx_with_barriers(artifact.ptx, places, before_branch)
            if text in seen:
                continue
            seen.add(text)
            outcome = runner.repeat(case, replace(launch, artifact=replace(artifact, ptx=text)))
            if outcome.status == "completed" and not any(event.rule.startswith("sync/") for event in outcome.events):
                yield outcome
                break


def ptx_with_barriers(text: str, places: set[Location | None], before_branch: bool = False) -> str:
    """Return PTX with ``bar.sync 0`` before every access to shared or global memory at these source locations.

    With ``before_branch`` it stands before the last conditional branch above the access, if there is one.
    """
    try:
        module = parse(text)
    except PtxError:
        return text
    lines = text.split("\n")
    numbers = set()
    for function in module.functions.values():
        branch = None
        for one in function.body or ():
            if not isinstance(one, Instruction):
                continue
            if one.opcode == "bra" and one.guard is not None:
                branch = one.text_line
            if one.location in places and _is_access(one):
                numbers.add(branch if before_branch and branch is not None else one.text_line)
    for number in sorted(numbers, reverse=True):
        lines.insert(number, "\tbar.sync \t0;")
    return "\n".join(lines)


def _is_access(instruction: Instruction) -> bool:
    private = {"param", "local", "const"}
    return instruction.opcode in ("ld", "st", "atom", "red") and private.isdisjoint(instruction.modifiers)
