"""Receives the operations of generated code on tensor memory, and executes them."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Final

from gpuemu_lsp.engine.emulator.ir.lattice import WARP_SIZE
from gpuemu_lsp.engine.emulator.launch.async_order.barrier_checks import BarrierChecks
from gpuemu_lsp.engine.emulator.launch.async_order.traffic import MISUSE, EventCaller, SharedTraffic
from gpuemu_lsp.engine.emulator.launch.state import Incident
from gpuemu_lsp.engine.emulator.launch.tensor_memory.calls import TensorCall
from gpuemu_lsp.engine.emulator.launch.tensor_memory.cells import CellRange, TensorAccess, TensorCells
from gpuemu_lsp.engine.emulator.launch.tensor_memory.commits import BarrierName, Commit, Commits
from gpuemu_lsp.engine.emulator.launch.tensor_memory.fragments import FragmentCells, fragment
from gpuemu_lsp.engine.emulator.launch.tensor_memory.order import CellChecks
from gpuemu_lsp.engine.emulator.launch.tensor_memory.products import Member, TensorProducts
from gpuemu_lsp.engine.emulator.launch.tma.maps import UNSUPPORTED
from gpuemu_lsp.engine.emulator.launch.tma.races import AsyncKind
from gpuemu_lsp.engine.emulator.launch.tma.targets import CopyIssuer, multicast_targets, offset_of, target_of
from gpuemu_lsp.engine.emulator.matrix.tensor_memory import (
    COLUMNS,
    TensorForm,
    TensorOperation,
    tensor_form,
    tensor_operands,
)

TENSOR: Final = "memory/tensor-memory"

_SMALLEST = 32
"""Columns of the smallest allocation."""


class TensorCores:
    """The tensor memory of a launch; ``checked`` says whether misuse is looked for."""

    def __init__(self, shared: SharedTraffic, barriers: BarrierChecks, *, checked: bool) -> None:
        self._shared, self._barriers, self._checked = shared, barriers, checked
        self._blocks: dict[int, TensorCells] = {}
        self._unwaited: dict[tuple[TensorOperation, int, int], list[TensorAccess]] = {}
        """Loads and stores that their warp has not waited for, by block and warp."""
        self._forms: dict[int, tuple[TensorForm, tuple[int, int]]] = {}
        self._commits = Commits(shared.arena)
        self._checks = CellChecks(shared)
        self._products = TensorProducts(shared, self._commits, self._checks, self._members, checked=checked)
        self._handlers: dict[TensorOperation, Callable[[TensorCall], None]] = {
            TensorOperation.ALLOCATE: self._allocate,
            TensorOperation.FREE: self._free,
            TensorOperation.RELINQUISH: self._relinquish,
            TensorOperation.LOAD: self._load,
            TensorOperation.STORE: self._store,
            TensorOperation.WAIT_LOADS: self._wait,
            TensorOperation.WAIT_STORES: self._wait,
            TensorOperation.MULTIPLY: self._products.multiply,
            TensorOperation.COPY: self._products.copy,
            TensorOperation.COMMIT: self._commit,
        }

    def execute(self, caller: EventCaller) -> None:
        """Execute an operation."""
        decoded = self._forms.get(caller.site)
        if decoded is None:
            instruction = self._shared.sites[caller.site][0]
            assert instruction is not None
            form, operands = tensor_form(instruction), tensor_operands(instruction)
            assert form is not None
            decoded = self._forms[caller.site] = form, (len(operands.values), len(operands.registers))
        handler = self._handlers.get(decoded[0].operation)
        if handler is not None:
            handler(TensorCall(caller, *decoded))

    def _members(self, call: TensorCall) -> list[Member]:
        """Return the blocks that take part in an operation, by rank."""
        caller, prepared = call.caller, self._shared.prepared
        if call.form.group == 1:
            return [Member(caller, self._memory(caller.block))]
        rank = next(rank for rank, one in enumerate(prepared.residents) if one.number == caller.block)
        pair = prepared.residents[rank & ~1 : (rank & ~1) + 2]
        callers = [caller._replace(block=one.number, window=one.shared.address) for one in pair]
        return [Member(one, self._memory(one.block)) for one in callers]

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
            self._shared.add(caller, TENSOR, text)
            return
        if memory.relinquished is not None and self._checked:
            text = "this allocates tensor memory after `tcgen05.relinquish_alloc_permit`"
            self._shared.add(caller, TENSOR, text, memory.relinquished)
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
            text = f"this frees {columns} columns of tensor memory from column {column} on, not those of an allocation"
            if freed >= 0:
                text = f"this frees column {column} of tensor memory, which has been freed{self._shared.line(freed)}"
            rule = "memory/use-after-free" if freed >= 0 else TENSOR
            self._shared.add(caller, rule, text, freed if freed >= 0 else None)
            return
        if self._checked:
            access = self._checks.access(call)
            self._checks.write(caller, memory, CellRange(0, 128, column, columns), access, "this frees")
        memory.free(column, caller.site)

    def _relinquish(self, call: TensorCall) -> None:
        self._memory(call.caller.block).relinquished = call.caller.site

    # ---- loads and stores --------------------------------------------------------------------------------------------

    def _load(self, call: TensorCall) -> None:
        place = self._place(call)
        if place is None:
            call.registers(call.form.registers)[:] = 0
            return
        memory, cells, address, access = place
        if self._checked:
            for area in cells.ranges(address):
                self._checks.read(call.caller, memory, area, access, "this loads")
                memory.note_read(area, access)
        call.registers(call.form.registers)[:] = cells.load(memory.cells, address)

    def _store(self, call: TensorCall) -> None:
        place = self._place(call)
        if place is None:
            return
        memory, cells, address, access = place
        number = memory.note(access)
        for area in cells.ranges(address):
            if self._checked:
                self._checks.write(call.caller, memory, area, access, "this stores to")
            memory.writers[area.stripes] = number
        cells.store(memory.cells, address, call.registers(call.form.registers))

    def _place(self, call: TensorCall) -> tuple[TensorCells, FragmentCells, int, TensorAccess] | None:
        """Return the memory, cells and address of a load or store; None if they do not exist, which is reported."""
        caller, form = call.caller, call.form
        memory, address = self._memory(caller.block), call.value(0) & 0xFFFFFFFF
        cells = fragment(form, call.value(1) & 0xFFFF if form.shape == "16x32bx2" else 0)
        if not all(self._checks.inside(caller, memory, area) for area in cells.ranges(address)):
            return None
        lane, first = address >> 16, WARP_SIZE * (caller.warp % 4)
        if not first <= lane or lane + cells.lanes > first + WARP_SIZE:
            text = f"warp {caller.warp} accesses lanes {lane} to {lane + cells.lanes - 1} of tensor memory, and may "
            text += f"access lanes {first} to {first + WARP_SIZE - 1} only"
            self._shared.add(caller, TENSOR, text)
        access = self._checks.access(call)
        self._unwaited.setdefault((form.operation, caller.block, caller.warp), []).append(access)
        return memory, cells, address, access

    def _wait(self, call: TensorCall) -> None:
        operation = TensorOperation.LOAD if call.form.operation is TensorOperation.WAIT_LOADS else TensorOperation.STORE
        self._checks.wait(call.caller, self._unwaited.pop((operation, call.caller.block, call.caller.warp), []))

    # ---- commits -----------------------------------------------------------------------------------------------------

    def _commit(self, call: TensorCall) -> None:
        caller = call.caller
        for index, lane in enumerate(caller.lanes):
            barriers = self._barriers_of(call, lane)
            races = self._shared.races
            order = races.order(caller.context, lane) if races.active else None
            if order is not None:
                # Who waits for it comes after the operations so far.
                parties = [
                    races.number(AsyncKind.PRODUCT, one.caller.block, caller.warp) for one in self._members(call)
                ]
                ended = dict.fromkeys(parties, races.next_epoch(caller.context))
                order = order._replace(clock={**order.clock, **ended})
            self._commits.commit(barriers, caller, caller.thread(index), order)

    def _barriers_of(self, call: TensorCall, lane: int) -> list[BarrierName]:
        """Return the objects that a commit of a lane arrives at; blocks that do not exist are reported."""
        caller, address = call.caller, int(call.values[0, lane])
        if not call.form.in_cluster:
            return [(self._shared.owner(address, caller), address)]
        issuer = CopyIssuer(caller.block, caller.window, caller.site, caller.warp * WARP_SIZE + lane, caller.block)
        targets: list[CopyIssuer]
        prepared = self._shared.prepared
        if call.form.multicast:
            targets, missing = multicast_targets(prepared, issuer, int(call.values[1, lane]) & 0xFFFF)
        else:
            target = target_of(prepared, issuer, address & 0xFFFFFFFF)
            targets, missing = ([], [-1]) if target is None else ([target], [])
        if missing:
            text = "this commit arrives at an mbarrier of a block that is not in the cluster"
            self._shared.add(caller, "memory/out-of-bounds", text)
        return [(target.block, target.window + offset_of(address)) for target in targets]

    def check_overwritten(self, block: int, window: int) -> None:
        """Report operations in flight whose operands threads have written; ``window`` is the block's memory."""
        self._products.check_overwritten(block, window)

    def report_kept(self) -> None:
        """Report what blocks have allocated and not freed."""
        for block, memory in self._blocks.items():
            for allocation in memory.allocations.values():
                text = f"{allocation.columns} columns of tensor memory are allocated and not freed: a later block that "
                text += "needs them waits forever (`tcgen05.dealloc` is missing)"
                thread = allocation.warp * WARP_SIZE
                self._shared.incidents.append(Incident(TENSOR, text, allocation.site, thread, block))

    def deliver(self, caller: EventCaller, *, by_parity: bool) -> None:
        """Let commits arrive before tests of ``mbarrier`` objects, whose operands are in scratch space."""
        tests = dict.fromkeys(zip(caller.values(0), caller.values(1), strict=True))
        for address, operand in tests:
            arrived = partial(self._arrived, caller, address)
            tester = caller.block, caller.warp
            self._commits.deliver((caller.block, address), tester, operand, arrived, by_parity=by_parity)

    def _arrived(self, caller: EventCaller, address: int, commit: Commit) -> None:
        if self._checked and commit.block == caller.block:
            self.check_overwritten(caller.block, caller.window)
        if commit.order is not None:
            self._shared.races.release(address, caller.block, commit.order)
        if self._checked:
            fault = self._barriers.arrive(caller.block, address, (commit.block, commit.thread), commit.site)
            if fault is not None:
                self._shared.add(caller._replace(site=commit.site), MISUSE, fault)
