"""How a launch ended, and what was odd on the way."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Incident:
    """Something the scheduler saw: a rule, a sentence, and a site; ``thread`` is linear in its block."""

    rule: str
    message: str
    site: int
    thread: int
    block: int


@dataclass(slots=True)
class LaunchReport:
    """How a launch ended: ``completed``, ``hung`` or ``stopped``."""

    status: str = "completed"
    incidents: dict[tuple[str, int], Incident] = field(default_factory=dict)
    counts: Counter[tuple[str, int]] = field(default_factory=Counter)
    steps: int = 0

    def add(self, incident: Incident) -> None:
        """Note an incident; the first of each rule and site is kept."""
        key = incident.rule, incident.site
        self.incidents.setdefault(key, incident)
        self.counts[key] += 1
