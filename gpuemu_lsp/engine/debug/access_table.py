"""The rows of a table of accesses: one for each element of memory that a lane reads or writes."""

from __future__ import annotations

from enum import IntEnum
from typing import Final, TypeAlias

import numpy as np
import numpy.typing as npt


class Kind(IntEnum):
    """What an access does."""

    LOAD = 0
    STORE = 1
    UPDATE = 2  # an atomic one, which reads and writes
    ISSUE = 3  # the issue of an asynchronous copy, from which on its target has no value
    EXTERNAL = 4  # a write that is not recorded: of another block, or of a unit that copies asynchronously


ACCESS: Final = np.dtype(
    [
        ("tick", "<i8"),
        ("cause", "<i8"),
        ("address", "<u8"),
        ("value", "<u8"),
        ("thread", "<i4"),
        ("size", "u1"),
        ("kind", "u1"),
        ("refused", "?"),
    ]
)
"""One element of an access: what it loads or leaves in memory. A refused one is not executed.

``cause`` is the tick of the instruction that makes it; that of an asynchronous copy is before its ``tick``. An external
write has the thread and, as its cause, the tick of the load that shows it."""

Table: TypeAlias = npt.NDArray[np.void]
"""Rows of :data:`ACCESS`."""
