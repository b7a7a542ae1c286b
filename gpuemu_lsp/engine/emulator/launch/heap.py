"""The heap of device ``malloc``: bytes nobody asked for, or gave back, are not addressable."""

from __future__ import annotations

from gpuemu_lsp.engine.emulator.abi.memory import Shadow
from gpuemu_lsp.engine.emulator.launch.arena import Arena, Region

HEAP_BYTES = 8 << 20
"""What a GPU has unless a program asks for more (``cudaLimitMallocHeapSize``)."""

_ALIGNMENT = 16
_GAP = 64


class Heap:
    """Hands out pieces of a region one after another, with a gap between them; freed pieces are not used again."""

    def __init__(self, arena: Arena, region: Region, fresh: int) -> None:
        self._arena, self._region, self._fresh = arena, region, fresh
        self._next = region.address
        self._pieces: dict[int, int] = {}

    def allocate(self, size: int) -> int:
        """Return the address of ``size`` fresh bytes, or 0 when the heap is used up (as for a size of 0)."""
        end = self._next + size
        if size == 0 or end > self._region.address + self._region.size:
            return 0
        address = self._next
        self._arena.shadow(address, size)[:] = self._fresh
        self._pieces[address] = size
        self._next = -(-(end + _GAP) // _ALIGNMENT) * _ALIGNMENT
        return address

    def release(self, address: int) -> None:
        """Take a piece back. An address that is none, or was given back before, is left alone as a GPU may."""
        size = self._pieces.pop(address, 0)
        if size:
            self._arena.shadow(address, size)[:] &= 255 & ~(Shadow.ADDRESSABLE | Shadow.INITIALISED)
