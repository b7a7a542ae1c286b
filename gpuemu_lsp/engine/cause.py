"""Cause of an event or a finding, where something decides on more than the rule.

Messages are for people: an edit of a sentence must not change a verdict. Whatever a policy, a report or the server
decides on is a rule, a cause or a field.
"""

from __future__ import annotations

from enum import StrEnum


class Cause(StrEnum):
    """What went wrong, in terms that something decides on; the rule says the rest."""

    STEP_LIMIT = "step-limit"
    """A warp took more steps than a launch may: the loop may be long and not endless."""
    TIME_LIMIT = "time-limit"
    """The launch reached its time limit while the registers of a loop changed: it may only be slow."""
    TIME_LIMIT_WAITING = "time-limit-waiting"
    """The launch reached its time limit in a loop that only waits."""
    DRIVER_TIME_LIMIT = "driver-time-limit"
    """The driver of a GPU ended the launch at its own time limit."""
    ENDLESS_WAIT = "endless-wait"
    """The launch waits for what no thread will do: that is proved, and does not depend on the machine's speed."""
    STOPPED = "stopped"
    """The launch was asked to stop in a loop whose registers changed."""
    STOPPED_WAITING = "stopped-waiting"
    """The launch was asked to stop in a loop that only waits."""

    @property
    def is_time_limit(self) -> bool:
        """Whether a time limit ended the launch: on a faster machine it might have come to its end."""
        return self in (Cause.TIME_LIMIT, Cause.TIME_LIMIT_WAITING, Cause.DRIVER_TIME_LIMIT)
