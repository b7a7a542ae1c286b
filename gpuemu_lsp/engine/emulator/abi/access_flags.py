"""What the runtime must know of an access, as the bits of one number.

Flags from ``RACE_SHIFT`` on are those of the race checker, 0 for an access that cannot race.
"""

from __future__ import annotations

STORE_FLAG = 1
QUIET_FLAG = 2
SPACE_SHIFT = 4
RACE_SHIFT = 8
SPACES = {"generic": 0, "global": 0, "const": 0, "param": 0, "shared": 1, "local": 2}
"""How an address is bounded: by the arena, by the block's shared memory, by the thread's local memory."""
