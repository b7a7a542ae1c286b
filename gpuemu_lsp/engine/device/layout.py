"""Where each argument lies: guarded allocations and kernel parameters, as plain arithmetic on bytes.

An allocation is ``[guard | offset | data | guard]``. Guards hold a pattern that is looked at after the run: a GPU does
not report a write just outside a buffer as long as some other allocation lies there.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from gpuemu_lsp.engine.execution import Buffer, Bytes, Scalar

GUARD_BYTES = 16 * 1024
CANARY = 0xA5
ALIGNMENT = 256
"""What ``cudaMalloc`` promises."""


@dataclass(frozen=True, slots=True)
class GuardedAllocation:
    """One allocation. ``size`` is in bytes; ``members`` are the buffers inside, each with its start from the base."""

    owner: Buffer
    size: int
    members: tuple[tuple[Buffer, int], ...]


@dataclass(frozen=True, slots=True)
class GuardOverwrite:
    """Changed guard bytes: the first changed byte relative to the start of the buffer's data, and how many."""

    buffer: Buffer
    offset: int
    count: int


def regions(arguments: Sequence[Buffer | Scalar]) -> tuple[GuardedAllocation, ...]:
    """Lay out every buffer; those with ``alias_of`` share the allocation of the buffer they name.

    Raises
    ------
    ValueError
        If ``alias_of`` names no earlier buffer.
    """
    members: dict[str, list[tuple[Buffer, int]]] = {}
    home: dict[str, str] = {}
    for buffer in (item for item in arguments if isinstance(item, Buffer)):
        owner = buffer.name if buffer.alias_of is None else home.get(buffer.alias_of)
        if owner is None:
            raise ValueError(f"{buffer.name} is an alias of {buffer.alias_of}, which is no earlier buffer")
        home[buffer.name] = owner
        members.setdefault(owner, []).append((buffer, GUARD_BYTES + buffer.offset))
    return tuple(
        GuardedAllocation(
            inside[0][0], _round_up(max(start + item.data.size for item, start in inside)) + GUARD_BYTES, tuple(inside)
        )
        for inside in members.values()
    )


def image(region: GuardedAllocation) -> Bytes:
    """Return the bytes an allocation starts with: guards round the data of its first buffer."""
    content = np.full(region.size, CANARY, np.uint8)
    buffer, start = region.members[0]
    content[start : start + buffer.data.size] = buffer.data
    return content


def breaches(region: GuardedAllocation, after: Bytes) -> tuple[GuardOverwrite, ...]:
    """Return what the kernel wrote outside every buffer of the allocation, before and behind its first one."""
    allowed = np.zeros(region.size, np.bool_)
    for buffer, start in region.members:
        allowed[start : start + buffer.data.size] = True
    wrong: npt.NDArray[np.intp] = np.flatnonzero(~allowed & (after != CANARY))
    buffer, start = region.members[0]
    sides = (wrong[wrong < start], wrong[wrong >= start])
    return tuple(GuardOverwrite(buffer, int(side[0]) - start, len(side)) for side in sides if len(side))


def parameters(arguments: Sequence[Buffer | Scalar], addresses: Mapping[str, int]) -> tuple[bytes, ...]:
    """Return each kernel parameter as its bytes: 8-byte addresses for buffers, scalars and structs as they are."""
    return tuple(
        addresses[item.name].to_bytes(8, "little") if isinstance(item, Buffer) else item.data for item in arguments
    )


def _round_up(size: int) -> int:
    return -(-size // ALIGNMENT) * ALIGNMENT
