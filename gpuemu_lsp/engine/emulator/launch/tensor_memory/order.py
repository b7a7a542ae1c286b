"""Checks of accesses to tensor memory: in allocated columns, and after what has written or read their cells.

What is complete, each warp learns by itself: from its own wait for an ``mbarrier`` object, or its own ``tcgen05.wait``,
or from a barrier or an arrival behind that of another warp, as the clocks of the race detector say.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from gpuemu_lsp.engine.emulator.launch.async_order.traffic import ORDER, UNINITIALISED, EventCaller, SharedTraffic
from gpuemu_lsp.engine.emulator.launch.tensor_memory.calls import TensorCall
from gpuemu_lsp.engine.emulator.launch.tensor_memory.cells import CellRange, TensorAccess, TensorCells
from gpuemu_lsp.engine.emulator.launch.tma.races import AsyncKind
from gpuemu_lsp.engine.emulator.matrix.tensor_memory import COLUMNS, LANES, TensorOperation

_NAMES: Final = {
    TensorOperation.MULTIPLY: "product",
    TensorOperation.COPY: "copy",
    TensorOperation.LOAD: "load",
    TensorOperation.STORE: "store",
}

_PARTIES: Final = {TensorOperation.LOAD: AsyncKind.TENSOR_LOAD, TensorOperation.STORE: AsyncKind.TENSOR_STORE}
"""What stands in the race detector for operations that do not end at an ``mbarrier`` object."""

_PIPELINE: Final = frozenset({TensorOperation.MULTIPLY, TensorOperation.COPY})


class CellChecks:
    """Checks the accesses of a launch to tensor memory."""

    def __init__(self, shared: SharedTraffic) -> None:
        self._shared = shared

    def access(self, call: TensorCall) -> TensorAccess:
        """Return the access of an operation that is issued now."""
        caller, races = call.caller, self._shared.races
        party = races.number(_PARTIES.get(call.form.operation, AsyncKind.PRODUCT), caller.block, caller.warp)
        epoch = races.next_epoch(caller.context) if races.active else 0
        place = caller.site, caller.thread(), caller.block
        return TensorAccess(*place, party, epoch, operation=call.form.operation, group=call.form.group)

    def wait(self, caller: EventCaller, work: list[TensorAccess]) -> None:
        """Let a warp come after loads or stores of its own, which are all of one kind."""
        for access in work:
            access.done = True
        if work and self._shared.races.active:
            last = work[-1]
            self._shared.races.learn(caller.context, caller.lanes, last.party, last.epoch + 1)

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
            self._check(caller, earlier, access, what, "writes")

    def write(self, caller: EventCaller, memory: TensorCells, area: CellRange, access: TensorAccess, what: str) -> None:
        """Check a write of cells: what wrote or read them must be complete."""
        for earlier in memory.of(memory.writers[area.stripes]):
            self._check(caller, earlier, access, what, "writes")
        for earlier in memory.of(memory.readers[area.stripes]):
            # A load without a wait has been executed before its registers are used: what is freed often relies on that.
            if access.operation is not TensorOperation.FREE or earlier.done:
                self._check(caller, earlier, access, what, "reads")

    def _check(self, caller: EventCaller, earlier: TensorAccess, access: TensorAccess, what: str, verb: str) -> None:
        """Report an access that does not come after the end of an earlier one to the same cells."""
        if _in_order(earlier, access) or self._shared.waited_for(earlier, caller.context):
            return
        name = f"{_NAMES[earlier.operation]}{self._shared.line(earlier.site)}"
        text = f"{what} cells of tensor memory that the {name} {verb}: {self._missing(earlier)}"
        self._shared.add(caller, ORDER, text, earlier.site)

    def _missing(self, earlier: TensorAccess) -> str:
        if earlier.operation not in _PARTIES:
            return f"it may still be executed, as {self._shared.missing_wait(earlier)}"
        wait = f"`tcgen05.wait::{earlier.operation.value}`"
        return f"nothing orders this behind {wait} of its warp" if earlier.done else f"its warp has not executed {wait}"


def _in_order(earlier: TensorAccess, access: TensorAccess) -> bool:
    """Return whether two operations are executed in the order of their issue: products, and copies.

    The manual lists fewer pairs (9.7.16.6.2). But published kernels copy the scale factors of the next step while a
    product reads those of the last: both are executed by one unit, in order.
    """
    return {earlier.operation, access.operation} <= _PIPELINE and earlier.group == access.group
