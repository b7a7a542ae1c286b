"""Properties of an access as bits of the number that generated code passes to the device library.

Bits from :data:`RACE_SHIFT` on are the :class:`RaceFlag` bits, 0 for an access that cannot race.
"""

from __future__ import annotations

from enum import IntEnum
from typing import Final

STORE_FLAG: Final = 1
QUIET_FLAG: Final = 2
"""The loaded value is never used: an uninitialised read is not reported."""
IN_FLIGHT_FLAG: Final = 2
"""In an event record, in place of ``QUIET_FLAG``: an asynchronous copy to the address has not been delivered."""
EXITED_FLAG: Final = 4
AHEAD_FLAG: Final = 8
"""In an event record: the memory is that of a block of the cluster that has exited, or has not started."""
SPACE_SHIFT: Final = 4
WINDOW_SHIFT: Final = 6
RACE_SHIFT: Final = 8
SPACES: Final = {"generic": 0, "global": 0, "const": 0, "param": 0, "shared": 1, "local": 2}
"""Bounds of an address: those of the arena, of the block's shared memory, of the thread's local memory."""


class Window(IntEnum):
    """Global memory that an access may touch: all of it, or in code that claims memory a part of it.

    The parts are those of buffers that nothing writes, of those that are claimed, and of those that are updated by
    atomic operations of which no order shows.
    """

    ARENA = 0
    UNCLAIMED = 1
    CLAIMED = 2
    COMMUTING = 3


class RaceFlag:
    """Kind of an access to the race detector."""

    STORE: Final = 1
    STRONG: Final = 2  # never races with another strong access in its scope
    ACQUIRE: Final = 4
    RELEASE: Final = 8
    ATOMIC: Final = 16
    BLOCK_SCOPE: Final = 64  # .cta scope: strong for threads of the block only
    WATCHED: Final = 32  # set for every access that is checked, so that its flags are not 0
