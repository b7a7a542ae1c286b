"""Enumerations that generated code and Python exchange."""

from __future__ import annotations

from enum import Enum, IntEnum
from typing import Final


class Instrumentation(Enum):
    """Instrumentation compiled into a version."""

    NONE = 0
    COVERAGE = 1
    COUNTERS = 2
    RECORDING = 3


class Resume(IntEnum):
    """Values of ``Warp.RESUME``."""

    START = 0
    IMPORT = -2  # the scalar-PC version continues from registers saved by a specialised version
    SAVED = -3  # all registers are saved in the version's own shapes; each lane continues at its program counter
    FIRST_BLOCK = 1


class Status(IntEnum):
    """Result of the warp function, and state of the warp in the block scheduler."""

    DONE = 0
    READY = 1
    BARRIER = 2  # all live lanes wait at the same barrier instruction
    YIELD = 3  # the quantum is used up
    DIVERGED = 4  # divergent for too long, or lanes wait one by one: the scalar-PC version must continue
    BLOCKED = 5  # every live lane waits for something
    STOP = 6  # a trap, or an instruction that is not supported
    ASSUMPTION_FAILED = 7  # an affine 32-bit index wraps where it is widened: start again with it varying
    MISSPECULATED = 8  # diverged at a branch that was speculated uniform: the fallback must continue


class BarrierKind(IntEnum):
    """Operation of a lane at a barrier (PTX ISA section 9.7.13.1)."""

    SYNC = 0
    ARRIVE = 1
    RED_POPC = 2
    RED_AND = 3
    RED_OR = 4


class EventKind(IntEnum):
    """Subject of an event record."""

    OUT_OF_BOUNDS = 0
    MISALIGNED = 1
    NULL = 2
    UNINITIALISED = 3
    READ_ONLY = 4
    WARP_MASK = 5
    STOP = 6
    RACE = 7
    WEAK_STRONG_RACE = 8  # race of a weak with a strong access, counted apart: the weak one may be a mere pre-check
    PROGRAM_RACE = 9  # race within a block whose threads execute one sequential program, counted apart
    COPY_OVERTAKEN = 10  # an asynchronous copy and another write of its thread to the target before the wait


EVENT_KINDS: Final = len(EventKind)
"""Number of event kinds: the length of a site's row of counters."""


class CoverageBits:
    """Bits of a site's coverage byte."""

    REACHED: Final = 1  # of a basic block's first site: a lane executed it
    TAKEN: Final = 2  # a branch was taken, a guarded instruction executed
    NOT_TAKEN: Final = 4


EXITED_PC: Final = 0x7FFFFFFF
"""Program counter of a lane that has exited; greater than that of any basic block."""
