"""Checks of accesses to tensor memory: in allocated columns, and after what has written or read their cells."""

from __future__ import annotations

from typing import Final

import numpy as np

from gpuemu_lsp.engine.emulator.launch.async_order.traffic import ORDER, UNINITIALISED, EventCaller, SharedTraffic
from gpuemu_lsp.engine.emulator.launch.tensor_memory.cells import CellRange, TensorAccess, TensorCells
from gpuemu_lsp.engine.emulator.matrix.tensor_memory import COLUMNS, LANES, TensorOperation

_NAMES: Final = {
    TensorOperation.MULTIPLY: "product",
    TensorOperation.COPY: "copy",
    TensorOperation.LOAD: "load",
    TensorOperation.STORE: "store",
}

_PIPELINE: Final = frozenset({TensorOperation.MULTIPLY, TensorOperation.COPY})


class CellChecks:
    """Checks the accesses of a launch to tensor memory."""

    def __init__(self, shared: SharedTraffic) -> None:
        self._shared = shared

    def inside(self, caller: EventCaller, memory: TensorCells, area: CellRange) -> bool:
        """Report cells that are not allocated; return whether the cells exist."""
        if area.lane + area.lanes > LANES or area.column + area.columns > COLUMNS:
            text = (
                f"lanes {area.lane} to {area.lane + area.lanes - 1}, columns {area.column} to "
                f"{area.column + area.columns - 1} are not in tensor memory: it has {LANES} lanes and {COLUMNS} columns"
            )
            self._shared.add(caller, "memory/out-of-bounds", text)
            return False
        missing = np.flatnonzero(~memory.allocated[area.column : area.column + area.columns])
        if missing.size:
            column = area.column + int(missing[0])
            freed = int(memory.freed[column])
            if freed >= 0:
                text = f"column {column} of tensor memory has been freed{self._shared.line(freed)}"
                self._shared.add(caller, "memory/use-after-free", text, freed)
            else:
                text = f"column {column} of tensor memory is not allocated by this block"
                self._shared.add(caller, "memory/out-of-bounds", text)
        return True

    def read(self, caller: EventCaller, memory: TensorCells, area: CellRange, access: TensorAccess, what: str) -> None:
        """Check a read of cells: something must have written them, and be complete."""
        writers = memory.writers[area.stripes]
        missing = np.argwhere(writers < 0)
        if missing.size:
            column = area.column + int(missing[0][1])
            text = f"uninitialized read of tensor memory: {what} column {column}, which nothing has written"
            self._shared.add(caller, UNINITIALISED, text)
        for earlier in memory.of(writers):
            if not _in_order(earlier, access):
                self._report(caller, earlier, f"{what} cells of tensor memory that ", "writes")

    def write(self, caller: EventCaller, memory: TensorCells, area: CellRange, access: TensorAccess, what: str) -> None:
        """Check a write of cells: what wrote or read them must be complete."""
        # A load has been executed before its registers are used, which frees cells often enough to say nothing of it.
        frees = access.operation is TensorOperation.FREE
        for earlier, verb in (
            *((earlier, "writes") for earlier in memory.of(memory.writers[area.stripes])),
            *((earlier, "reads") for earlier in memory.of(memory.readers[area.stripes]) if not frees),
        ):
            if not _in_order(earlier, access):
                self._report(caller, earlier, f"{what} cells of tensor memory that ", verb)

    def _report(self, caller: EventCaller, earlier: TensorAccess, what: str, verb: str) -> None:
        name = f"{_NAMES[earlier.operation]}{self._shared.line(earlier.site)}"
        self._shared.add(caller, ORDER, f"{what}the {name} {verb}: {self._missing(earlier)}", earlier.site)

    def _missing(self, earlier: TensorAccess) -> str:
        if earlier.operation is TensorOperation.LOAD:
            return "its warp has not executed `tcgen05.wait::ld`"
        if earlier.operation is TensorOperation.STORE:
            return "its warp has not executed `tcgen05.wait::st`"
        if earlier.barrier is None:
            return "it may still be executed, as no `tcgen05.commit` follows it"
        place = self._shared.barrier_place(earlier.barrier)
        return f"it may still be executed, as nothing has waited for the mbarrier at {place} that its commit arrives at"


def _in_order(earlier: TensorAccess, access: TensorAccess) -> bool:
    """Return whether two operations are executed in the order of their issue: products, and copies.

    The manual lists fewer pairs (9.7.16.6.2). But published kernels copy the scale factors of the next step while a
    product reads those of the last: both are executed by one unit, in order.
    """
    return {earlier.operation, access.operation} <= _PIPELINE and earlier.group == access.group
