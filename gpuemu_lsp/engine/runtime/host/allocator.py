"""Allocations and frees of the host."""

from __future__ import annotations

from gpuemu_lsp.engine.emulator.launch.race_shadow import shadow_planes
from gpuemu_lsp.engine.runtime.call_sites import CallSite
from gpuemu_lsp.engine.runtime.findings import RunFindings
from gpuemu_lsp.engine.runtime.host.call_accesses import CallAccesses
from gpuemu_lsp.engine.runtime.memory.allocations import DeviceAllocation
from gpuemu_lsp.engine.runtime.memory.device_memory import DeviceMemory
from gpuemu_lsp.engine.runtime.protocol.calls import FreeCall, MemoryKind, WaitScope
from gpuemu_lsp.engine.runtime.stream_order import StreamOrder


class Allocator:
    """Allocates and frees for the host; live allocations have at most ``limit`` bytes together."""

    def __init__(
        self, memory: DeviceMemory, order: StreamOrder, accesses: CallAccesses, findings: RunFindings, limit: int
    ) -> None:
        self._memory, self._order, self._accesses, self._findings = memory, order, accesses, findings
        self.limit = limit
        self._refused = 0
        self._lost: list[DeviceAllocation] = []

    @property
    def left(self) -> int:
        """Bytes that can still be allocated."""
        return self.limit - self._memory.used

    @property
    def notes(self) -> tuple[str, ...]:
        """What was refused, which is not an error of the program."""
        if not self._refused:
            return ()
        return (f"an allocation of {self._refused:,} bytes failed: the emulated device has {self.limit >> 30} GiB",)

    @property
    def not_freed(self) -> tuple[DeviceAllocation, ...]:
        """What no call has freed, in its order; a reset of the device is not a free."""
        return (*self._lost, *(allocation for allocation in self._memory.live if allocation.from_call))

    def allocate(
        self, size: int, kind: MemoryKind, site: CallSite | None, *, written: bool = False
    ) -> DeviceAllocation | None:
        """Allocate ``size`` bytes, at least one; None if the limit or the addresses do not allow it.

        If they are ``written``, the call that allocates them writes all of them.
        """
        allocation = self._memory.allocate(size, site, self.limit, kind, written=written)
        if allocation is None:
            self._refused = max(self._refused, size)
        return allocation

    def free(self, address: int, call: FreeCall, stream: int, site: CallSite | None) -> bool:
        """Free an allocation; return whether there is one that can be freed."""
        allocation = self._memory.find(address)
        if any(lost is allocation for lost in self._lost):
            return False  # destructors that run after a reset free what it has freed: that changes nothing
        of_host = call is FreeCall.OF_HOST
        reason = _rejection(allocation, address, of_host=of_host)
        if allocation is None or reason is not None:
            name = "cudaFreeHost" if of_host else "cudaFree"
            self._findings.host("api/invalid-free", f"{name} of {reason}", site, allocation)
            return False
        if call is FreeCall.IN_STREAM_ORDER:
            self._accesses.free(allocation, stream, site)
        else:
            self._order.synchronize(WaitScope.DEVICE, 0)
        self._free(allocation, site)
        return True

    def reset(self, site: CallSite | None) -> None:
        """End all allocations and variables, as a reset of the device does."""
        for allocation in self._memory.live:
            if allocation.kind is MemoryKind.HEAP:
                continue
            if allocation.from_call:
                self._lost.append(allocation)
            self._free(allocation, site)

    def _free(self, allocation: DeviceAllocation, site: CallSite | None) -> None:
        self._memory.free(allocation, site)
        # Only a graph uses its addresses again, between launches.
        shadow_planes().forget(allocation.address, allocation.size)


def _rejection(allocation: DeviceAllocation | None, address: int, *, of_host: bool) -> str | None:
    """Return what cannot be freed, None if there is an allocation that can."""
    if allocation is None:
        return "an address that is not of device memory"
    if not allocation.live:
        return f"memory that was freed at {allocation.freed}"
    if allocation.address != address:
        return f"byte {address - allocation.address} of an allocation"
    if (allocation.kind is MemoryKind.PINNED) != of_host or not allocation.from_call:
        return "memory of another kind"
    return None
