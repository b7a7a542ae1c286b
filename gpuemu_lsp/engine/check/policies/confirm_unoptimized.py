"""Findings that depend on the optimisation level of the code that showed them.

Optimised code shows accesses that the source does not make: the compiler hoists loads above the branch that guards
them, and discards the value if it is not needed. A race or an uninitialised read of such a load is confirmed on
unoptimised code, which accesses memory as the source does. Unoptimised code, in turn, is slower, needs more stack and
rounds differently, so only findings about memory and synchronisation are claimed from it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace

from gpuemu_lsp.engine.execution import Access, Event, Outcome
from gpuemu_lsp.engine.findings import Finding
from gpuemu_lsp.engine.fuzz.model import Case
from gpuemu_lsp.engine.ptx.model import Location, Module

_CONFIRMED_RULES = frozenset({"memory/shared-race", "memory/uninitialized-read"})
"""Rules that a hoisted load of shared or local memory can break. Global loads are not hoisted above a guard, as they
could fault."""
_CONCLUSIVE = frozenset({"completed", "trapped"})
"""Statuses of an unoptimised launch whose lack of an event means something."""
_CLAIMED_RULES = frozenset(
    {
        *("memory/out-of-bounds", "memory/misaligned", "memory/null-pointer", "memory/uninitialized-read"),
        *("memory/shared-race", "memory/global-race"),
        *("sync/barrier-divergence", "sync/deadlock", "sync/missing-warp-mask"),
    }
)
"""Rules that hold of the source at any optimisation level."""

Run = Callable[[Case], Outcome]
"""Launches a case on unoptimised code."""


def claims_of_unoptimized(findings: Iterable[Finding]) -> Iterator[Finding]:
    """Yield the findings of unoptimised code that may be claimed, marked with the level they were seen at."""
    for finding in findings:
        if finding.rule in _CLAIMED_RULES:
            yield replace(
                finding,
                message=f"{finding.message} [seen in unoptimised code only]",
                data={**finding.data, "optimize": False},
            )


@dataclass(slots=True)
class UnoptimizedConfirmation:
    """Confirms events of optimised code on unoptimised code.

    ``module`` is the optimised PTX. ``unoptimized`` compiles the kernel without optimisation; it is called once, and
    only if an event needs confirmation. If it returns None, because that does not compile or not in time, every event
    stands.
    """

    module: Module
    unoptimized: Callable[[], Run | None]
    _hoisted: frozenset[tuple[int, int]] | None = field(default=None, init=False)
    _run: Run | None = field(default=None, init=False)
    _compiled: bool = field(default=False, init=False)
    _outcomes: dict[tuple[str, tuple[tuple[str, int], ...]], Outcome] = field(default_factory=dict, init=False)

    @property
    def used(self) -> bool:
        """Whether an event needed confirmation, so that the result depends on unoptimised code too."""
        return self._compiled

    def stands(self, event: Event, case: Case) -> bool:
        """Return whether an event may be claimed of the source."""
        if event.rule not in _CONFIRMED_RULES or not any(map(self._is_hoisted, _reads(event))):
            return True
        if not self._compiled:
            self._run, self._compiled = self.unoptimized(), True
        if self._run is None:
            return True
        # One launch confirms all events of a case.
        key = (case.key.id, tuple(sorted(case.dims.items())))
        if key not in self._outcomes:
            self._outcomes[key] = self._run(case)
        outcome = self._outcomes[key]
        # Lines are not compared: a hoisted load may have the line it was hoisted to.
        same = (other for other in outcome.events if other.rule == event.rule and other.buffer == event.buffer)
        return outcome.status not in _CONCLUSIVE or any(same)

    def _is_hoisted(self, location: Location) -> bool:
        if self._hoisted is None:
            from gpuemu_lsp.engine.emulator.analysis.hoisted_loads import possibly_hoisted_loads

            self._hoisted = possibly_hoisted_loads(self.module.functions.values())
        return (location.file, location.line) in self._hoisted


def _reads(event: Event) -> list[Location]:
    """Return the locations of the event's reads: of an uninitialised read, or of either access of a race."""
    read = event.rule == "memory/uninitialized-read" or event.access is Access.READ
    places = [event.location] if read else []
    if event.other_access is Access.READ:
        places.append(event.other)
    return [place for place in places if place is not None]
