"""``mbarrier`` objects of a block (PTX ISA section 9.7.13.15): who arrived, what was expected, who waits."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final, TypeAlias

from gpuemu_lsp.engine.emulator.devicelib.mbarrier import OPERATIONS, counts_of

GroupName: TypeAlias = tuple[int, int]
"""A warp group: the number of its block, and its own there."""

_NAMES: Final = {number: name for name, number in OPERATIONS.items()}
_ARRIVALS = ("arrive", "arrive_drop")
_MOST_LISTED: Final = 4


@dataclass(slots=True)
class BarrierObject:
    """An ``mbarrier`` object: the site that initialised it, and what happened to it in the current phase.

    ``phase`` counts phases since ``init``. ``arrived`` has sites by the number of a thread's block and its index
    there, ``waiting`` has sites by warp; ``passed`` has the last
    phase that each warp has waited for, and how often.
    """

    site: int
    expected: int
    phase: int = 0
    valid: bool = True
    used: bool = False
    expected_bytes: int = 0
    arrived: dict[tuple[int, int], int] = field(default_factory=dict)
    waiting: dict[int, int] = field(default_factory=dict)
    passed: dict[int, tuple[int, int]] = field(default_factory=dict)
    carried: dict[GroupName, tuple[int, int]] = field(default_factory=dict)
    """By warp group: products issued and completed when threads of it arrived in the current phase."""
    threads: set[int] = field(default_factory=set)
    """The threads that have initialised it."""
    ended: dict[GroupName, tuple[int, int]] = field(default_factory=dict)
    """The same of the last phase."""

    def initialised_alike(self, site: int, expected: int, thread: int) -> bool:
        """Return whether a thread initialises the object as another has done at the same place, before its use.

        Where `threadIdx.x == 0` holds for several threads of a block, all of them do.
        """
        return (
            self.valid
            and not self.used
            and (self.site, self.expected) == (site, expected)
            and thread not in self.threads
        )

    def follow(self, state: int) -> None:
        """Enter the phase that the object's bits show."""
        passed = (counts_of(state).phase - self.phase) & 7
        if passed:
            self.phase += passed
            self.arrived, self.expected_bytes = {}, 0
            self.ended, self.carried = self.carried, {}


def operation_fault(one: BarrierObject | None, operation: int, state: int, count: int) -> str | None:
    """Return what is wrong with an operation on an object in a state, None if nothing is; None is not an object."""
    name = _NAMES[operation]
    if name == "init":
        if one is None or not one.valid:
            return None
        if one.used:
            return "this initialises an mbarrier that is in use: its phase and arrivals are lost (no `mbarrier.inval`)"
        return "this initialises an mbarrier again, which is undefined without `mbarrier.inval` before it"
    if one is None:
        return f"`mbarrier.{name}` on an mbarrier that was never initialised"
    if not one.valid:
        return f"`mbarrier.{name}` on an mbarrier after its `mbarrier.inval`"
    pending = counts_of(state).pending
    if name in _ARRIVALS and count > pending:
        return f"this arrives {count} times, but the phase waits for {pending} of {one.expected} arrivals only"
    return None


def shortfall(one: BarrierObject, state: int, block: int) -> str:
    """Return what the current phase of an object of a block lacks: arrivals, and which came; bytes."""
    counts = counts_of(state)
    parts = []
    if counts.pending:
        came = counts.expected - counts.pending
        threads = sorted(one.arrived)
        names = [f"{thread}" if home == block else f"{thread} of block {home}" for home, thread in threads]
        listed = ", ".join(names[:_MOST_LISTED]) + (", ..." if len(threads) > _MOST_LISTED else "")
        who = f" (of thread{'s' * (len(threads) > 1)} {listed})" if threads else ""
        parts.append(f"{came} of {counts.expected} arrivals came{who}")
    if counts.missing > 0:
        parts.append(f"{counts.missing} of the {one.expected_bytes} bytes of `expect_tx` did not arrive")
    elif counts.missing < 0:
        parts.append(f"copies brought {-counts.missing} bytes more than the {one.expected_bytes} of `expect_tx`")
    return " and ".join(parts) or "nothing"
