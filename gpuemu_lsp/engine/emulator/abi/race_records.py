"""Shadow memory of the race detector: planes of shadow cells, and shadow lines."""

from __future__ import annotations

from enum import IntEnum
from typing import Final

from gpuemu_lsp.engine.emulator.abi.fields import Struct, i32


class ShadowPlane(IntEnum):
    """Planes of a shadow cell: one i32 in each for a few neighbouring bytes.

    A cell stores the last write and the last read, each as thread, epoch and site. Of several accesses that nothing
    orders the latest is stored, with the distance of their threads in the epoch.
    """

    WRITER = 0
    WRITE_EPOCH = 1
    WRITE_SITE = 2
    READER = 3
    READ_EPOCH = 4
    READ_SITE = 5
    RELEASE = 6  # number of the last release through this location, 0 for none
    LINE_WRITES = 7  # shadow lines, see ShadowLine
    LINE_READS = 8
    OTHER_READER = 9  # of several unordered readers: one that is not the last, and its site
    OTHER_READ_SITE = 10
    READER_LANES = 11  # of several lanes of one warp: a bit for each that has read, or written
    WRITER_LANES = 12


class Epoch:
    """Layout of an epoch: ``clock << 3 | strong << 2 | spread``.

    Clocks never decrease, not even from launch to launch, so that shadow memory needs no reset.
    """

    SPREAD: Final = 3  # distance of the threads: 0 one thread, 1 one warp, 2 one block, 3 several blocks
    STRONG: Final = 4  # atomic or volatile: two strong accesses never race
    TICK: Final = 8  # one step of the clock


class ShadowLine(Struct):
    """Record of the last write to (or read of) the consecutive shadow cells of a line in global memory.

    Cell ``i`` of the line was accessed by thread ``FIRST_THREAD + (i >> shift)`` if bit ``i`` of ``LANES`` is set;
    ``shift`` is stored from bit 16 of ``LANES`` on. All accesses have one epoch and one site. A line that two different
    sets of threads have accessed is expanded to its cells: ``LANES`` is then ``EXPANDED`` for the rest of the launch.
    """

    FIRST_THREAD = i32()
    EPOCH = i32()
    LANES = i32()
    SITE = i32()

    SHIFT: Final = 4
    CELLS: Final = 1 << SHIFT
    EXPANDED: Final = 1 << 31


THREAD_IN_BLOCK: Final = 1023
"""Mask of a thread's index in its block. The upper bits of a thread number are the block; shared memory omits them."""


class RaceCall(IntEnum):
    """Requests of the race detector to the vector clocks in Python."""

    ORDERED = 0
    ACQUIRE = 1
    RELEASE = 2
