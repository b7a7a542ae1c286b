"""Receives the events of generated code that concern the asynchronous proxy, and passes them on."""

from __future__ import annotations

import ctypes
from collections.abc import Callable

from gpuemu_lsp.engine.emulator.abi.records import lanes_of
from gpuemu_lsp.engine.emulator.abi.structs import BlockRecord, Warp
from gpuemu_lsp.engine.emulator.codegen.instructions.bulk_copy import RANK_SHIFT, BulkOperation
from gpuemu_lsp.engine.emulator.launch.async_order.barrier_checks import BarrierChecks
from gpuemu_lsp.engine.emulator.launch.async_order.copy_checks import CopyChecks
from gpuemu_lsp.engine.emulator.launch.async_order.group_checks import GroupChecks
from gpuemu_lsp.engine.emulator.launch.async_order.register_pool import RegisterPool
from gpuemu_lsp.engine.emulator.launch.async_order.traffic import ORDER, EventCaller, SharedTraffic
from gpuemu_lsp.engine.emulator.launch.state import LaunchReport, PreparedLaunch, ResidentBlock
from gpuemu_lsp.engine.emulator.launch.tensor_memory.cores import TensorCores
from gpuemu_lsp.engine.emulator.launch.tma.copies import BulkCopies
from gpuemu_lsp.engine.emulator.launch.tma.places import Pattern
from gpuemu_lsp.engine.emulator.launch.tma.races import AsyncRaces
from gpuemu_lsp.engine.emulator.launch.tma.targets import CopyIssuer
from gpuemu_lsp.engine.emulator.launch.vector_clocks import VectorClocks
from gpuemu_lsp.engine.tensor_map import TensorMap

_OPERATIONS = {int(one): one for one in BulkOperation}
_TESTS = frozenset({BulkOperation.DELIVER_STATE, BulkOperation.DELIVER_PARITY})
_COPIES = frozenset(
    {
        BulkOperation.TENSOR_LOAD,
        BulkOperation.TENSOR_STORE,
        BulkOperation.LOAD,
        BulkOperation.STORE,
        BulkOperation.SEND,
        BulkOperation.SEND_VALUES,
        BulkOperation.REPLACE_MAP,
        BulkOperation.COPY_MAP,
        BulkOperation.MAP_FENCE,
    }
)
"""Copies, and changes of their maps."""


class AsyncProxy:
    """The asynchronous proxy of one launch: executes bulk copies, and checks what orders its accesses."""

    def __init__(self, prepared: PreparedLaunch, clocks: VectorClocks) -> None:
        checks = prepared.request.checks
        self._active = checks.contained and checks.uninitialized and checks.sync
        races = AsyncRaces(prepared, clocks)
        self._shared = SharedTraffic(prepared, races)
        self._registers = RegisterPool(prepared)
        self._barriers, self._copies = BarrierChecks(self._shared), CopyChecks(self._shared)
        self._groups = GroupChecks(self._shared)
        self.copies = BulkCopies(prepared, races, self._issued)
        self._tensor = TensorCores(self._shared, self._barriers, checked=self._active)
        prepared.on_exit = self._exited
        self._handlers: dict[BulkOperation, Callable[[EventCaller], None]] = {
            BulkOperation.GROUP: self._groups.event,
            BulkOperation.PROXY_FENCE: self._fence,
            BulkOperation.COMMIT: self._copies.commit,
            BulkOperation.WAIT: self._copies.wait,
            BulkOperation.REGISTERS: self._registers.change,
        }

    def _issued(
        self,
        issuer: CopyIssuer,
        near: Pattern,
        barrier: int | None,
        tensor: TensorMap | None,
        coordinates: tuple[int, ...],
        outside: bool,
    ) -> None:
        if self._active:
            self._copies.issue(issuer, near, barrier, tensor, coordinates, outside)

    def _exited(self, resident: ResidentBlock) -> None:
        """Check the last operations of a block: nothing waits for them, but their tiles must stay until its end."""
        number = resident.record.get(BlockRecord.LINEAR)
        if self._active and number in self._shared.blocks:
            self._check_overwritten(number, resident.shared.address)

    def _check_overwritten(self, block: int, window: int) -> None:
        self._copies.check_sources(block, window)
        self._groups.check_overwritten(block, window)
        self._tensor.check_overwritten(block, window)

    def _fence(self, caller: EventCaller) -> None:
        """Follow a fence between the proxies."""
        self._check_overwritten(caller.block, caller.window)
        self._shared.fence(caller)

    def execute(self, context: int, site: int, mask: int, which: int) -> None:
        """Execute an operation of generated code; ``context`` is the address of the warp's context."""
        operation = _OPERATIONS[which & 0xFF]
        if operation in _COPIES:
            self.copies.execute(context, site, mask, which)
            return
        if not self._active and operation not in _TESTS and operation is not BulkOperation.TENSOR_MEMORY:
            return
        record = ctypes.c_int64.from_address(context + Warp.BLOCK).value
        caller = EventCaller(
            context,
            site,
            lanes_of(mask),
            ctypes.c_int64.from_address(record + BlockRecord.LINEAR).value,
            ctypes.c_int64.from_address(record + BlockRecord.SHARED).value,
            ctypes.c_int32.from_address(context + Warp.WARP_ID).value,
        )
        if not caller.lanes:
            return
        if operation is BulkOperation.TENSOR_MEMORY:
            self._tensor.execute(caller)
        elif operation is BulkOperation.MBARRIER:
            self._barriers.operate(caller, which >> RANK_SHIFT)
        elif operation in self._handlers:
            self._handlers[operation](caller)
        else:
            by_parity = operation is BulkOperation.DELIVER_PARITY
            self._barriers.before_test(caller, by_parity=by_parity)
            self.copies.deliver(context, mask, by_parity=by_parity)
            self._tensor.deliver(caller, by_parity=by_parity)
            if self._active:
                self._barriers.after_test(caller, by_parity=by_parity)

    def report_to(self, report: LaunchReport) -> None:
        """Add the incidents of the launch to its report; where it hangs, what its threads wait for."""
        self._copies.report_outside()
        for resident in self._shared.prepared.residents:
            self._exited(resident)
        self.copies.report_to(report)
        if report.status == "completed":
            self._tensor.report_kept()
        for incident in (*self._shared.incidents, *self._shared.unfenced_reads(), *self._registers.faults()):
            report.add(incident)
        report.explained |= self._shared.explained
        # What overtakes a product or a bulk store races with it, too: reported once.
        report.unordered |= {one.site for one in self._shared.incidents if one.rule == ORDER and not one.unless_racing}
        if report.status == "hung":
            waits = self._barriers.waits()
            if waits:
                report.incidents = {key: one for key, one in report.incidents.items() if one.rule != "sync/hang"}
            for incident in waits:
                report.add(incident)


class AsyncOperations:
    """The asynchronous proxy of one launch, created with the first of its operations: most kernels have none."""

    def __init__(self, prepared: PreparedLaunch, clocks: VectorClocks) -> None:
        self._prepared, self._clocks = prepared, clocks
        self._proxy: AsyncProxy | None = None

    def execute(self, context: int, site: int, mask: int, which: int) -> None:
        """See :meth:`AsyncProxy.execute`."""
        if self._proxy is None:
            self._proxy = AsyncProxy(self._prepared, self._clocks)
        self._proxy.execute(context, site, mask, which)

    def report_to(self, report: LaunchReport) -> None:
        """See :meth:`AsyncProxy.report_to`."""
        if self._proxy is not None:
            self._proxy.report_to(report)

    @property
    def unknown_map(self) -> bool:
        """Whether a copy was given a tensor map that was not made here: the launch is not that of the program."""
        return self._proxy is not None and self._proxy.copies.unknown_map
