"""Shadow bytes of the arena, and the distances that make unchecked address arithmetic safe."""

from __future__ import annotations

from typing import Final

from gpuemu_lsp.engine.emulator.ir.lattice import WARP_SIZE


class Shadow:
    """Bits of a shadow byte: the state of one byte of the arena."""

    ADDRESSABLE: Final = 1
    INITIALISED: Final = 2
    WRITTEN: Final = 4
    READ_ONLY: Final = 8
    WATCHED: Final = 16  # its last writer is wanted
    IN_FLIGHT: Final = 32  # an asynchronous copy to it has not been delivered
    EXITED: Final = 64  # shared memory of a block of the cluster that has exited: not addressable
    AHEAD: Final = 128  # the same of one that has not started


READABLE: Final = Shadow.ADDRESSABLE | Shadow.INITIALISED
"""Shadow bits that a load requires."""

STORE_MASK: Final = Shadow.ADDRESSABLE | Shadow.READ_ONLY | Shadow.WATCHED | Shadow.IN_FLIGHT
"""Shadow bits that a store tests: all but ``ADDRESSABLE`` must be clear."""

STORED: Final = Shadow.ADDRESSABLE | Shadow.INITIALISED | Shadow.WRITTEN
"""Shadow bits after a store."""

POISON: Final = 0xCB
"""Byte that fills fresh shared memory and undefined registers: not zero, so that a missing write changes results."""

SHADOW_OFFSET: Final = 1 << 39
"""Distance from a byte of the arena to its shadow byte: more than the memory that a whole program can have."""

ARENA_BYTES: Final = 1 << 30
"""Most memory of one launch, without what lasts from launch to launch."""

REDZONE: Final = 8192
"""Unaddressable bytes on both sides of every memory window: an access there is tested, and always refused."""

MAX_DISPLACEMENT: Final = 2048
"""Largest distance of a base address from its window, and of an access from its base, that needs no range check.

Together with the extent of a whole warp's access this stays within :data:`REDZONE`, so that the shadow byte exists."""

MAX_ACCESS_BYTES: Final = 32 * WARP_SIZE
"""Most bytes that one access of a warp to consecutive addresses moves."""

UNMAPPED: Final = -16384
"""An address relative to the arena with no addressable byte in its neighbourhood."""
