"""Memory layout of a launch's arguments: guarded allocations, and the bytes of kernel parameters.

An allocation is ``[guard | offset | data | guard]``. The guards contain a pattern that is checked after the run: a
GPU does not report a write just outside a buffer if the address belongs to another allocation.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from gpuemu_lsp.engine.execution import Argument, Buffer, Bytes, buffers_of, parameter_bytes

GUARD_BYTES = 16 * 1024
CANARY = 0xA5
ALIGNMENT = 256
"""Alignment of allocations in bytes, guaranteed by ``cudaMalloc``."""


@dataclass(frozen=True, slots=True)
class GuardedAllocation:
    """One allocation of ``size`` bytes. ``members`` are its buffers, each with its offset from the base in bytes."""

    owner: Buffer
    size: int
    members: tuple[tuple[Buffer, int], ...]


@dataclass(frozen=True, slots=True)
class GuardOverwrite:
    """Guard bytes changed by a kernel: offset of the first from the start of the buffer's data, and their number."""

    buffer: Buffer
    offset: int
    count: int


def allocations(arguments: Sequence[Argument]) -> tuple[GuardedAllocation, ...]:
    """Return the allocations of all buffers. A buffer with ``alias_of`` shares the allocation of the buffer it names.

    Raises
    ------
    ValueError
        If ``alias_of`` does not name an earlier buffer.
    """
    members: dict[str, list[tuple[Buffer, int]]] = {}
    owners: dict[str, str] = {}
    for buffer in buffers_of(arguments):
        owner = buffer.name if buffer.alias_of is None else owners.get(buffer.alias_of)
        if owner is None:
            raise ValueError(f"{buffer.name} is an alias of {buffer.alias_of}, which is not an earlier buffer")
        owners[buffer.name] = owner
        members.setdefault(owner, []).append((buffer, GUARD_BYTES + buffer.offset))
    return tuple(
        GuardedAllocation(
            inside[0][0], _round_up(max(start + item.data.size for item, start in inside)) + GUARD_BYTES, tuple(inside)
        )
        for inside in members.values()
    )


def initial_content(allocation: GuardedAllocation) -> Bytes:
    """Return the initial bytes of an allocation: guards around the data of its first buffer."""
    content = np.full(allocation.size, CANARY, np.uint8)
    buffer, start = allocation.members[0]
    content[start : start + buffer.data.size] = buffer.data
    return content


def overwrites(allocation: GuardedAllocation, after: Bytes) -> tuple[GuardOverwrite, ...]:
    """Return the guard bytes that the kernel wrote, before and after the first buffer of the allocation."""
    allowed = np.zeros(allocation.size, np.bool_)
    for buffer, start in allocation.members:
        allowed[start : start + buffer.data.size] = True
    wrong: npt.NDArray[np.intp] = np.flatnonzero(~allowed & (after != CANARY))
    buffer, start = allocation.members[0]
    sides = (wrong[wrong < start], wrong[wrong >= start])
    return tuple(GuardOverwrite(buffer, int(side[0]) - start, len(side)) for side in sides if len(side))


def parameters(arguments: Sequence[Argument], addresses: Mapping[str, int]) -> tuple[bytes, ...]:
    """Return the bytes of each kernel parameter: 8-byte addresses for buffers, scalars and structs unchanged."""
    return tuple(parameter_bytes(item, addresses) for item in arguments)


def _round_up(size: int) -> int:
    return -(-size // ALIGNMENT) * ALIGNMENT
