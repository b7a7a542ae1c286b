"""Allocations and frees of a program."""

from __future__ import annotations

from gpuemu_lsp.engine.emulator.launch.race_shadow import shadow_planes
from gpuemu_lsp.engine.runtime.allocations import DeviceAllocation, MemoryKind
from gpuemu_lsp.engine.runtime.call_sites import call_site
from gpuemu_lsp.engine.runtime.device_memory import DeviceMemory
from gpuemu_lsp.engine.runtime.findings import RunFindings
from gpuemu_lsp.engine.runtime.messages import Message
from gpuemu_lsp.engine.runtime.stream_order import FreeCall, StreamOrder, WaitScope
from gpuemu_lsp.engine.runtime.transfers import Transfers

_INVALID_VALUE = 1
"""Value of ``cudaError_t``."""

_NO_KIND = 3
"""The answer for memory that is not allocated, behind the kinds that a program can allocate."""


class AllocationCalls:
    """The answers to calls that allocate and free; live allocations have at most ``limit`` bytes together."""

    def __init__(
        self, memory: DeviceMemory, order: StreamOrder, transfers: Transfers, findings: RunFindings, limit: int
    ) -> None:
        self._memory, self._order, self._transfers, self._findings = memory, order, transfers, findings
        self._limit = limit
        self._refused = 0
        self._lost: list[DeviceAllocation] = []

    @property
    def notes(self) -> tuple[str, ...]:
        """What was refused, which is not an error of the program."""
        if not self._refused:
            return ()
        limit = self._limit >> 30
        return (f"an allocation of {self._refused:,} bytes failed: the emulated device has {limit} GiB",)

    @property
    def kept(self) -> tuple[DeviceAllocation, ...]:
        """What no call has freed, in its order; a reset of the device is none."""
        return (*self._lost, *(one for one in self._memory.live if one.from_call))

    def reset(self, message: Message) -> list[int]:
        """End all allocations and variables, as a reset of the device does."""
        site = call_site(message.call_stack())
        for allocation in self._memory.live:
            if allocation.kind is MemoryKind.HEAP:
                continue
            if allocation.from_call:
                self._lost.append(allocation)
            self._memory.free(allocation, site)
            shadow_planes().forget(allocation.address, allocation.size)
        return []

    def allocate(self, message: Message) -> list[int]:
        """Return an address, 0 if it is refused, and the bytes that are left and that there are."""
        size, kind, site = message.word(), MemoryKind(message.word()), call_site(message.call_stack())
        allocation = self._memory.allocate(size, site, self._limit, kind) if size else None
        if allocation is None and size:
            self._refused = max(self._refused, size)
        address = allocation.address if allocation is not None else 0
        return [address, self._limit - self._memory.used, self._limit]

    def allocate_again(self, message: Message) -> list[int]:
        """Allocate what a graph has allocated before, and the program has freed."""
        self._memory.allocate_again(message.word())
        return []

    def free(self, message: Message) -> list[int]:
        """Free an allocation and return a status; or return its kind, if that is asked for."""
        address, kind, stream = message.word(), FreeCall(message.word()), message.word()
        site = call_site(message.call_stack())
        allocation = self._memory.find(address)
        if kind is FreeCall.ASKS_FOR_KIND:
            return [allocation.kind if allocation is not None and allocation.live else _NO_KIND]
        if any(one is allocation for one in self._lost):
            return [_INVALID_VALUE]  # destructors that run after a reset free what it has freed: that changes nothing
        of_host = kind is FreeCall.OF_HOST
        reason = _rejection(allocation, address, of_host=of_host)
        if allocation is None or reason is not None:
            call = "cudaFreeHost" if of_host else "cudaFree"
            self._findings.host("api/invalid-free", f"{call} of {reason}", site, allocation)
            return [_INVALID_VALUE]
        if kind is FreeCall.IN_STREAM_ORDER:
            self._transfers.free(allocation, stream, site)
        else:
            self._order.synchronize(WaitScope.DEVICE, 0)
        self._memory.free(allocation, site)
        # Only a graph uses its addresses again, between launches.
        shadow_planes().forget(allocation.address, allocation.size)
        return [0]


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
