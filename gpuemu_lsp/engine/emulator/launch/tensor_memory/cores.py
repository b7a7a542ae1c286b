"""Receives the operations of generated code on tensor memory, and executes them."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np

from gpuemu_lsp.engine.emulator.ir.lattice import WARP_SIZE
from gpuemu_lsp.engine.emulator.launch.async_order.barrier_checks import BarrierChecks
from gpuemu_lsp.engine.emulator.launch.async_order.traffic import MISUSE, EventCaller, SharedTraffic
from gpuemu_lsp.engine.emulator.launch.tensor_memory.calls import TensorCall
from gpuemu_lsp.engine.emulator.launch.tensor_memory.cells import CellRange, TensorAccess, TensorCells
from gpuemu_lsp.engine.emulator.launch.tensor_memory.commits import BarrierName, Commit, Commits
from gpuemu_lsp.engine.emulator.launch.tensor_memory.descriptors import decoded_shape
from gpuemu_lsp.engine.emulator.launch.tensor_memory.fragments import (
    fragment_cells,
    fragment_columns,
    fragment_lanes,
)
from gpuemu_lsp.engine.emulator.launch.tensor_memory.numbers import result_cells, result_values
from gpuemu_lsp.engine.emulator.launch.tensor_memory.order import CellChecks
from gpuemu_lsp.engine.emulator.launch.tensor_memory.products import SharedOperands, accumulator_ranges
from gpuemu_lsp.engine.emulator.launch.tma.maps import UNSUPPORTED
from gpuemu_lsp.engine.emulator.launch.tma.targets import offset_of
from gpuemu_lsp.engine.emulator.matrix.tensor_memory import COLUMNS, TensorForm, TensorOperation, tensor_form

_SMALLEST = 32
"""Columns of the smallest allocation."""


class TensorCores:
    """The tensor memory of a launch; ``checked`` says whether misuse is looked for."""

    def __init__(self, shared: SharedTraffic, barriers: BarrierChecks, *, checked: bool) -> None:
        self._shared, self._barriers, self._checked = shared, barriers, checked
        self._blocks: dict[int, TensorCells] = {}
        self._forms: dict[int, TensorForm] = {}
        self._commits = Commits(shared.arena)
        self._checks, self._operands = CellChecks(shared), SharedOperands(shared)
        self._handlers: dict[TensorOperation, Callable[[TensorCall], None]] = {
            TensorOperation.ALLOCATE: self._allocate,
            TensorOperation.FREE: self._free,
            TensorOperation.RELINQUISH: self._relinquish,
            TensorOperation.LOAD: self._load,
            TensorOperation.STORE: self._store,
            TensorOperation.WAIT_LOADS: self._wait,
            TensorOperation.WAIT_STORES: self._wait,
            TensorOperation.MULTIPLY: self._multiply,
            TensorOperation.COMMIT: self._commit,
        }

    def execute(self, caller: EventCaller) -> None:
        """Execute an operation."""
        form = self._forms.get(caller.site)
        if form is None:
            instruction = self._shared.sites[caller.site][0]
            assert instruction is not None
            form = tensor_form(instruction)
            assert form is not None
            self._forms[caller.site] = form
        handler = self._handlers.get(form.operation)
        if handler is not None:
            handler(TensorCall(caller, form))

    def _memory(self, block: int) -> TensorCells:
        if block not in self._blocks:
            self._blocks[block] = TensorCells()
        return self._blocks[block]

    # ---- allocation --------------------------------------------------------------------------------------------------

    def _allocate(self, call: TensorCall) -> None:
        caller, memory, columns = call.caller, self._memory(call.caller.block), call.value(0) & 0xFFFFFFFF
        result = call.registers(1)
        result[0] = 0
        if not _SMALLEST <= columns <= COLUMNS or columns & columns - 1:
            text = f"{columns} columns of tensor memory are not a power of 2 from {_SMALLEST} to {COLUMNS}"
            self._shared.add(caller, "memory/out-of-bounds", text)
            return
        if memory.relinquished is not None and self._checked:
            text = "this allocates tensor memory after `tcgen05.relinquish_alloc_permit`"
            self._shared.add(caller, "memory/out-of-bounds", text, memory.relinquished)
        start = memory.allocate(columns, caller.site, caller.warp, call.form.group)
        if start is None:
            text = f"{columns} columns of tensor memory are not free: it would wait until they are, which cannot be run"
            self._shared.add(caller, UNSUPPORTED, text)
            return
        result[0] = start

    def _free(self, call: TensorCall) -> None:
        caller, memory = call.caller, self._memory(call.caller.block)
        column, columns = call.value(0) & 0xFFFFFFFF, call.value(1) & 0xFFFFFFFF
        allocation = memory.allocations.get(column)
        if allocation is None or allocation.columns != columns:
            freed = int(memory.freed[column]) if column < COLUMNS else -1
            text = f"this frees {columns} columns of tensor memory from column {column} on, which were not allocated together"
            if freed >= 0:
                text = f"this frees column {column} of tensor memory, which has been freed{self._shared.line(freed)}"
            rule = "memory/use-after-free" if freed >= 0 else "memory/out-of-bounds"
            self._shared.add(caller, rule, text, freed if freed >= 0 else None)
            return
        if self._checked:
            access = TensorAccess(TensorOperation.FREE, caller.site, caller.thread(), caller.block)
            self._checks.write(caller, memory, CellRange(0, 128, column, columns), access, "this frees")
        memory.free(column, caller.site)

    def _relinquish(self, call: TensorCall) -> None:
        self._memory(call.caller.block).relinquished = call.caller.site

    # ---- loads and stores --------------------------------------------------------------------------------------------

    def _load(self, call: TensorCall) -> None:
        place = self._cells(call)
        registers = call.registers(call.form.count)
        if place is None:
            registers[:] = 0
            return
        memory, area, access = place
        if self._checked:
            self._checks.read(call.caller, memory, area, access, "this loads")
            memory.readers[area.stripes] = memory.note(access)
        lanes, columns = fragment_cells(call.form.shape, call.form.count)
        registers[:] = memory.cells[area.area][lanes, columns]

    def _store(self, call: TensorCall) -> None:
        place = self._cells(call)
        if place is None:
            return
        memory, area, access = place
        if self._checked:
            self._checks.write(call.caller, memory, area, access, "this stores to")
        memory.writers[area.stripes] = memory.note(access)
        lanes, columns = fragment_cells(call.form.shape, call.form.count)
        memory.cells[area.area][lanes, columns] = call.registers(call.form.count)

    def _cells(self, call: TensorCall) -> tuple[TensorCells, CellRange, TensorAccess] | None:
        """Return the cells of a load or store; None if they do not exist, which is reported."""
        caller, form = call.caller, call.form
        memory, address = self._memory(caller.block), call.value(0) & 0xFFFFFFFF
        area = CellRange(
            address >> 16, fragment_lanes(form.shape), address & 0xFFFF, fragment_columns(form.shape, form.count)
        )
        if not self._checks.inside(caller, memory, area):
            return None
        first = WARP_SIZE * (caller.warp % 4)
        if not first <= area.lane or area.lane + area.lanes > first + WARP_SIZE:
            text = f"warp {caller.warp} accesses lanes {area.lane} to {area.lane + area.lanes - 1} of tensor memory, "
            text += f"and may access lanes {first} to {first + WARP_SIZE - 1} only"
            self._shared.add(caller, "memory/out-of-bounds", text)
        return memory, area, TensorAccess(form.operation, caller.site, caller.thread(), caller.block)

    def _wait(self, call: TensorCall) -> None:
        wanted = TensorOperation.LOAD if call.form.operation is TensorOperation.WAIT_LOADS else TensorOperation.STORE
        for access in self._memory(call.caller.block).accesses:
            if access.operation is wanted and access.thread // WARP_SIZE == call.caller.warp:
                access.done = True

    # ---- products ----------------------------------------------------------------------------------------------------

    def _multiply(self, call: TensorCall) -> None:
        for index in range(len(call.caller.lanes)):
            self._multiply_one(call.of_lane(index))

    def _multiply_one(self, call: TensorCall) -> None:
        caller, form = call.caller, call.form
        memory = self._memory(caller.block)
        shape = decoded_shape(call.value(3) & 0xFFFFFFFF, form.kind, form.group)
        if isinstance(shape, str):
            self._shared.add(caller, UNSUPPORTED, f"{shape} cannot be run")
            return
        accumulates = bool(call.value(4) & 1)
        ranges = accumulator_ranges(shape, call.value(0) & 0xFFFFFFFF)
        if not all(self._checks.inside(caller, memory, area) for area in ranges):
            return
        access = TensorAccess(form.operation, caller.site, caller.thread(), caller.block)
        values = [
            self._operands.values(caller, name, call.value(row), rows, format_, mn_major=major, checked=self._checked)
            for name, row, rows, format_, major in zip(
                "AB", (1, 2), (shape.rows, shape.columns), shape.formats, shape.mn_major, strict=True
            )
        ]
        left, right = values
        number = memory.note(access)
        self._commits.issue(access)
        for area in ranges:
            if self._checked and accumulates:
                self._checks.read(caller, memory, area, access, "this product adds to")
            elif self._checked:
                self._checks.write(caller, memory, area, access, "this product writes to")
            memory.writers[area.stripes] = number
        if left is None or right is None:
            return
        with np.errstate(all="ignore"):
            sums = left @ right.T
            if shape.negated[0] != shape.negated[1]:
                sums = -sums
            row = 0
            for area in ranges:
                part = sums[row : row + area.lanes]
                cells = memory.cells[area.area]
                if accumulates:
                    part = part + result_values(cells, shape.result)
                cells[:] = result_cells(part, shape.result)
                row += area.lanes

    # ---- commits -----------------------------------------------------------------------------------------------------

    def _commit(self, call: TensorCall) -> None:
        caller = call.caller
        for index, lane in enumerate(caller.lanes):
            barriers = self._barriers_of(call, int(call.values[0, lane]))
            races = self._shared.races
            order = races.order(caller.context, lane) if races.active else None
            self._commits.commit(barriers, caller, caller.thread(index), order)

    def _barriers_of(self, call: TensorCall, address: int) -> list[BarrierName]:
        caller = call.caller
        if call.form.in_cluster:
            return [(caller.block, caller.window + offset_of(address))]
        return [(self._shared.owner(address, caller), address)]

    def deliver(self, caller: EventCaller, *, by_parity: bool) -> None:
        """Let commits arrive before tests of ``mbarrier`` objects, whose operands are in scratch space."""
        tests = dict.fromkeys(zip(caller.values(0), caller.values(1), strict=True))
        for address, operand in tests:
            arrived = partial(self._arrived, caller, address)
            self._commits.deliver((caller.block, address), operand, arrived, by_parity=by_parity)

    def _arrived(self, caller: EventCaller, address: int, commit: Commit) -> None:
        if commit.order is not None:
            self._shared.races.release(address, caller.block, commit.order)
        if self._checked:
            fault = self._barriers.arrive(caller.block, address, (commit.block, commit.thread), commit.site)
            if fault is not None:
                self._shared.add(caller._replace(site=commit.site), MISUSE, fault)
