"""Shadow memory of the race detector: planes of shadow cells, and shadow lines."""

from __future__ import annotations

from enum import IntEnum
from typing import Final

from gpuemu_lsp.engine.emulator.abi.fields import Struct, address, i32


class ShadowPlane(IntEnum):
    """Planes of a shadow cell: one i32 in each for a few neighbouring bytes.

    A cell stores the last write and the last read, each as thread, epoch and site. Of several accesses that nothing
    orders the latest is stored, with the distance of their threads in the epoch. Where these include strong accesses,
    the ``WEAK_*`` planes hold the weak ones among them: only these race with a further strong access.
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
    WEAK_WRITER = 13  # weak accesses under a strong record, see Epoch.STRONG
    WEAK_WRITE_EPOCH = 14
    WEAK_WRITE_SITE = 15
    WEAK_WRITER_LANES = 16
    WEAK_READER = 17
    WEAK_READ_EPOCH = 18
    WEAK_READ_SITE = 19
    WEAK_READER_LANES = 20


class Epoch:
    """Layout of an epoch: ``clock << 4 | block scope << 3 | strong << 2 | spread``.

    Clocks never decrease, not even from launch to launch, so that shadow memory needs no reset.
    """

    SPREAD: Final = 3  # distance of the threads: 0 one thread, 1 one warp, 2 one block, 3 several blocks
    STRONG: Final = 4  # atomic or volatile, at least one of them: strong accesses in scope of each other never race
    BLOCK_SCOPE: Final = 8  # at least one has .cta scope: in scope of its own block only
    TICK: Final = 16  # one step of the clock


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


class MemberEpochs(Struct):
    """Epochs of the lanes of a merged record: entry of a table, valid for the record that it names.

    ``RECORD`` is the address of the record's epoch, ``STAMP`` its value when the entry was stored.
    """

    RECORD = address()
    STAMP = i32()
    EPOCHS = i32(count=32)  # by lane; 0 for the record's own epoch


MEMBER_ENTRIES: Final = 1024
"""Entries of a launch's table of :class:`MemberEpochs`, a power of two."""

THREAD_IN_BLOCK: Final = 1023
"""Mask of a thread's index in its block. The upper bits of a thread number are the block; shared memory omits them."""


class RaceCall(IntEnum):
    """Requests of the race detector to the vector clocks in Python."""

    ORDERED = 0
    ACQUIRE = 1
    RELEASE = 2
    ACQUIRE_WARP = 3  # by all 32 lanes


class OrderAnswer(IntEnum):
    """Answers to ``RaceCall.ORDERED``: whether the accesses of a record come before the caller's."""

    UNORDERED = 0
    ORDERED = 1
    OTHER_UNORDERED = 2  # of several readers the one that is not the last
