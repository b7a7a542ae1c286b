"""What is left, when a recorded window begins, of what the block did before: registers, asynchronous copies.

Recording versions are baseline code, in which every register that outlives a basic block is in the context of its warp.
At the begin of a basic block a copy of the contexts therefore has all registers whose value still matters. What the
place of a dead one holds need not be its last value, so that only the live ones of each lane are read.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from gpuemu_lsp.engine.emulator.abi.records import RecordView
from gpuemu_lsp.engine.emulator.abi.states import EXITED_PC, Resume, Status
from gpuemu_lsp.engine.emulator.abi.structs import CopyEntry, CopyQueue, Warp
from gpuemu_lsp.engine.emulator.ir.lattice import WARP_SIZE
from gpuemu_lsp.engine.emulator.launch.state import PreparedLaunch, ResidentBlock
from gpuemu_lsp.engine.emulator.versions.tiering import LaunchVersions
from gpuemu_lsp.engine.execution import Bytes

NOWHERE: Final = -1
"""The next basic block of a lane that has none."""
_LANES: Final = np.arange(WARP_SIZE, dtype=np.uint32)


@dataclass(frozen=True, slots=True)
class ExecutedRun:
    """The run with which a window begins: its warp, basic block and lanes, and whether it is scalar-PC code."""

    warp: int
    block: int
    lanes: int
    scalar_pc: bool


@dataclass(frozen=True, slots=True)
class UndeliveredCopy:
    """An asynchronous copy that is pending when a window begins, and the number of its group in its thread."""

    thread: int
    group: int
    target: int
    data: bytes


@dataclass(frozen=True, slots=True)
class EntryState:
    """The state of a block between two runs.

    ``contexts`` has the bytes of each warp's record, ``next_blocks`` the basic block that each lane executes next, and
    ``versions`` whether a warp's registers are saved as the specialised (0) or the scalar-PC version (1) does it.
    ``live`` are the registers that are live at the begin of each basic block. ``committed`` counts the groups of copies
    that each thread has committed, ``copies`` are those that are pending.
    """

    contexts: npt.NDArray[np.uint8]
    next_blocks: npt.NDArray[np.int32]
    versions: tuple[int, ...]
    live: tuple[frozenset[str], ...]
    committed: tuple[int, ...]
    copies: tuple[UndeliveredCopy, ...]


def entry_state(
    prepared: PreparedLaunch, versions: LaunchVersions, resident: ResidentBlock, current: ExecutedRun
) -> EntryState:
    """Return the state of a resident block before the run ``current``."""
    count = prepared.warp_count
    next_blocks = np.full((count, WARP_SIZE), NOWHERE, dtype=np.int32)
    layouts: list[int] = []
    divergent = versions.recording_layouts()[current.scalar_pc].divergent
    for warp in range(count):
        context = prepared.warp(resident, warp)
        pcs = context.row(Warp.PC)
        resume = context.get(Warp.RESUME)
        in_scalar_pc = versions.is_scalar_pc(context.get(Warp.FUNCTION)) and resume != Resume.IMPORT
        if warp == current.warp:
            in_scalar_pc = current.scalar_pc
            if current.block in divergent:
                next_blocks[warp] = pcs
            next_blocks[warp][_in(current.lanes)] = current.block
        elif context.get(Warp.STATUS) != Status.DONE and resume != Resume.START:
            if resume >= Resume.FIRST_BLOCK:
                next_blocks[warp][_in(context.get(Warp.ACTIVE_MASK))] = resume - Resume.FIRST_BLOCK
            else:
                next_blocks[warp] = pcs
        layouts.append(int(in_scalar_pc))
    next_blocks[next_blocks == EXITED_PC] = NOWHERE
    liveness = prepared.kernel.liveness
    return EntryState(
        contexts=resident.warps.bytes.reshape(count, -1).copy(),
        next_blocks=next_blocks,
        versions=tuple(layouts),
        live=tuple(frozenset(liveness.registers(bits)) for bits in liveness.live_in),
        committed=tuple(_committed(resident, count)),
        copies=tuple(_pending(prepared, resident)),
    )


def _in(mask: int) -> npt.NDArray[np.bool_]:
    return (np.uint32(mask) >> _LANES & np.uint32(1)).astype(np.bool_)


def _committed(resident: ResidentBlock, warps: int) -> Iterator[int]:
    for warp in range(warps if resident.copies is not None else 0):
        assert resident.copies is not None
        yield from resident.copies.at(warp * CopyQueue.SIZE).row(CopyQueue.COMMITTED).tolist()


def _pending(prepared: PreparedLaunch, resident: ResidentBlock) -> Iterator[UndeliveredCopy]:
    """Yield the copies that have been issued and not delivered, by warp, the oldest first."""
    for warp in range(prepared.warp_count if resident.copies is not None else 0):
        assert resident.copies is not None
        for number in range(prepared.warp(resident, warp).get(Warp.COPY_COUNT)):
            start = warp * CopyQueue.SIZE + CopyQueue.ENTRIES + number * CopyEntry.SIZE
            yield from _copies_of(resident.copies.bytes, resident.copies.at(start), start, warp)


def _copies_of(memory: Bytes, entry: RecordView, start: int, warp: int) -> Iterator[UndeliveredCopy]:
    size, groups = entry.get(CopyEntry.BYTES), entry.row(CopyEntry.GROUPS)
    targets = memory[start + CopyEntry.TARGETS :][: 8 * WARP_SIZE].view(np.int64)
    words = memory[start + CopyEntry.DATA :][: 16 * WARP_SIZE].view(np.int32).reshape(4, WARP_SIZE)
    for lane in np.flatnonzero(_in(entry.get(CopyEntry.PENDING_MASK))).tolist():
        data = np.ascontiguousarray(words[:, lane]).tobytes()[:size]
        yield UndeliveredCopy(warp * WARP_SIZE + lane, int(groups[lane]), int(targets[lane]), data)
