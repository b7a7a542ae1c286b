"""What may be the compiler's doing: optimised code reads ahead of a branch and drops what it did not need.

Neither a race nor an unset place is an error where only such a read meets it. Whether it is one, unoptimised code
tells, which reads what the source reads. It is compiled for a finding in doubt only.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from gpuemu_lsp.engine.execution import Event, Outcome
from gpuemu_lsp.engine.fuzz.model import Case
from gpuemu_lsp.engine.ptx.model import Location, Module

_RULES = frozenset({"memory/shared-race", "memory/uninitialized-read"})
_RAN = frozenset({"completed", "trapped"})

Run = Callable[[Case], Outcome]
"""Runs a case on unoptimised code."""


@dataclass(slots=True)
class UnoptimizedConfirmation:
    """Tells events that the source explains from those it does not.

    ``unoptimized`` compiles the kernel once more; it returns None where that cannot be done, and every event stands.
    """

    module: Module
    unoptimized: Callable[[], Run | None]
    _ahead: frozenset[tuple[int, int]] | None = field(default=None, init=False)
    _run: Run | None = field(default=None, init=False)
    _compiled: bool = field(default=False, init=False)
    _seen: dict[tuple[str, tuple[tuple[str, int], ...]], Outcome] = field(default_factory=dict, init=False)

    def stands(self, event: Event, case: Case) -> bool:
        """Say whether an event of the optimised code is one of the source."""
        if event.rule not in _RULES or not any(map(self._is_ahead, _reads(event))):
            return True
        if not self._compiled:
            self._run, self._compiled = self.unoptimized(), True
        if self._run is None:
            return True
        key = (case.key.id, tuple(sorted(case.dims.items())))
        if key not in self._seen:
            self._seen[key] = self._run(case)
        outcome = self._seen[key]
        same = (other for other in outcome.events if other.rule == event.rule and other.buffer == event.buffer)
        return outcome.status not in _RAN or any(same)

    def _is_ahead(self, location: Location) -> bool:
        if self._ahead is None:
            from gpuemu_lsp.engine.emulator.analysis.hoisted_loads import possibly_hoisted_loads

            self._ahead = possibly_hoisted_loads(self.module.functions.values())
        return (location.file, location.line) in self._ahead


def _reads(event: Event) -> list[Location]:
    """Return where the event's reads of shared or local memory stand."""
    read = event.rule == "memory/uninitialized-read" or event.data.get("access") == "reads"
    places = [event.location] if read else []
    if event.data.get("other_access") == "reads":
        places.append(event.other)
    return [place for place in places if place is not None]
