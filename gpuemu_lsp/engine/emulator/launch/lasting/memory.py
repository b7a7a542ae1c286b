"""Memory of a program that lasts from launch to launch, and that kernels access where it is.

Two files hold what is settled: the bytes, and a shadow byte for each of them. Kernels see both files at fixed
addresses through private mappings: a page that a launch writes becomes a copy of its own (copy on write). So a launch
costs what it touches, not what the program has allocated; whether it changed anything is a comparison of these pages;
and a launch that has to start again, in other code, finds memory as it was. :meth:`LastingMemory.changed` finds the
copies in the page table (``/proc/self/pagemap``, proc(5)).

A copy of each page costs more than the launch where a kernel rewrites a large array each time. Such an array can be
*direct*: kernels write the files themselves, and its bytes from before the launch are kept in a copy of the whole.
"""

from __future__ import annotations

import mmap
import os
import weakref
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from gpuemu_lsp.engine.emulator.abi.memory import ARENA_BYTES, SHADOW_OFFSET, Shadow
from gpuemu_lsp.engine.emulator.launch.lasting.address_space import (
    Bytes,
    bytes_at,
    drop_copies,
    release,
    reserve,
    show_file,
)
from gpuemu_lsp.engine.emulator.launch.lasting.region import Region

_PAGE = mmap.PAGESIZE
_PRESENT, _SWAPPED, _OF_FILE = 63, 62, 61
"""Bits of an entry of the page table; a copy of a page is one that is there and not of the file."""

_CHUNK = 1 << 20
_MANY = 64
"""Runs of pages from which all pages are dropped at once."""


@dataclass(slots=True)
class HeapBlocks:
    """What device ``malloc`` has allocated: sizes by address, and the address of what comes next."""

    next: int
    sizes: dict[int, int] = field(default_factory=dict)


Range = tuple[int, int]
"""Low and high end of a range of bytes, as distances from the beginning of the memory."""


class LastingMemory:
    """Memory of ``size`` bytes at ``address``; ``descriptor`` is of the file with its contents.

    ``data`` and ``shadow`` are the settled contents, ``launch_data`` and ``launch_shadow`` those that a launch sees and
    changes. ``regions`` names parts of it for messages. ``used`` has the ranges in which something is allocated.
    ``hidden`` has ranges of bytes, with a bool for each, that are not initialised for the next launch. ``heap`` is the
    region of device ``malloc``, if it lasts, and ``launch_blocks`` are those of the current launch.

    Raises
    ------
    OSError
        If the addresses are in use, or the system refuses.
    """

    def __init__(self, address: int, size: int) -> None:
        self.address, self.size = address, size
        self.regions: list[Region] = []
        self.used: list[Range] = []
        self.hidden: list[tuple[int, npt.NDArray[np.bool_]]] = []
        self.heap: Region | None = None
        self.launch_blocks = self._blocks = HeapBlocks(0)
        self._before: dict[Range, Bytes] = {}
        extent = SHADOW_OFFSET + size + ARENA_BYTES
        reserve(extent, address)
        self._finalizer = weakref.finalize(self, release, address, extent)
        self.descriptor, self._shadow_file = (os.memfd_create(f"gpuemu-device-{name}") for name in ("memory", "shadow"))
        for descriptor in self._files:
            os.ftruncate(descriptor, size)
        self._maps = [mmap.mmap(one, size, flags=mmap.MAP_SHARED) for one in self._files]
        self.data, self.shadow = (np.frombuffer(one, np.uint8) for one in self._maps)
        for descriptor, start in zip(self._files, (address, address + SHADOW_OFFSET), strict=True):
            show_file(start, size, descriptor)
        self.launch_data, self.launch_shadow = bytes_at(address, size), bytes_at(address + SHADOW_OFFSET, size)
        try:
            self._pages: int | None = os.open("/proc/self/pagemap", os.O_RDONLY | os.O_CLOEXEC)
        except OSError:
            self._pages = None
        self._running = False

    def close(self) -> None:
        """Release the addresses and the files, after which nothing may access them."""
        if self._finalizer.detach() is None:
            return
        for descriptor in self._files:
            os.close(descriptor)
        if self._pages is not None:
            os.close(self._pages)
        release(self.address, SHADOW_OFFSET + self.size + ARENA_BYTES)

    def begin(self) -> None:
        """Begin a launch: what an earlier attempt at it has changed is dropped."""
        if self._running:
            self.drop(self.changed())
            for (low, high), before in self._before.items():
                self.data[low:high] = before
        else:
            for (low, high), before in self._before.items():
                np.copyto(before, self.data[low:high])
                self.shadow[low : low + _PAGE] &= ~np.uint8(Shadow.WRITTEN)
        self._running = True
        self.launch_blocks = HeapBlocks(self._blocks.next, dict(self._blocks.sizes))
        for low, mask in self.hidden:
            self.launch_shadow[low : low + len(mask)][mask] &= ~np.uint8(Shadow.INITIALISED)

    def add_heap(self, region: Region) -> None:
        """Let the allocations of device ``malloc`` last, in a region of which nothing is addressable yet."""
        self.heap = region
        self.regions.append(region)
        self.launch_blocks = self._blocks = HeapBlocks(region.address)

    def keep_blocks(self) -> None:
        """Keep what the launch has allocated and freed on the heap."""
        self._blocks = self.launch_blocks

    def changed(self) -> list[Range]:
        """Return the ranges, of whole pages, that the current launch may have written."""
        if not self._running:
            return []
        runs: list[Range] = []
        for low, high in self.used:
            pages = self._copies(low, high) | self._copies(low + SHADOW_OFFSET, high + SHADOW_OFFSET)
            edges = np.flatnonzero(np.diff(pages, prepend=np.False_, append=np.False_)).tolist()
            first = low // _PAGE
            runs += [((first + a) * _PAGE, (first + b) * _PAGE) for a, b in zip(edges[::2], edges[1::2], strict=True)]
        return runs

    def written(self) -> dict[Range, Bytes]:
        """Return copies of the pages that the current launch may have written."""
        copies = {(low, high): self.launch_data[low:high].copy() for low, high in self.changed()}
        return copies | {(low, high): self.data[low:high].copy() for low, high in self._before}

    def drop(self, runs: Sequence[Range]) -> None:
        """End the launch: what it has written in ``runs``, all that it has written, is dropped."""
        self._running = False
        pages = [(low // _PAGE * _PAGE, -(-high // _PAGE) * _PAGE) for low, high in self.used]
        # Nothing of direct pages is in a run, and their page table stays.
        for low, high in pages if len(runs) > _MANY and not self._before else runs:
            drop_copies(self.address + low, high - low)
            drop_copies(self.address + low + SHADOW_OFFSET, high - low)

    def make_direct(self, low: int, high: int) -> Range | None:
        """Make the whole pages of a range direct, between launches; return them, None if there are none.

        All of its bytes are initialised, and which of them a launch stores is not asked.
        """
        pages = -(-low // _PAGE) * _PAGE, high // _PAGE * _PAGE
        if pages[1] <= pages[0]:
            return None
        self._show(pages, shared=True)
        self._before[pages] = np.empty(pages[1] - pages[0], np.uint8)
        return pages

    def direct_change(self, pages: Range) -> tuple[bool, bool]:
        """Return whether the launch that has ended changed direct pages, and whether it has written them at all.

        For the second only the first page is looked at.
        """
        before, after = self._before[pages], self.data[pages[0] : pages[1]]
        changed = any(
            not np.array_equal(before[low : low + _CHUNK], after[low : low + _CHUNK])
            for low in range(0, len(before), _CHUNK)
        )
        written = bool((self.shadow[pages[0] : pages[0] + _PAGE] & np.uint8(Shadow.WRITTEN)).any())
        return changed, changed or written

    def end_direct(self, pages: Range) -> None:
        """Copy pages again when they are written, from the next launch on."""
        del self._before[pages]
        self.shadow[pages[0] : pages[1]] &= ~np.uint8(Shadow.WRITTEN)
        self._show(pages, shared=False)

    @property
    def _files(self) -> tuple[int, int]:
        return self.descriptor, self._shadow_file

    def _show(self, pages: Range, *, shared: bool) -> None:
        low, high = pages
        for descriptor, start in zip(self._files, (self.address, self.address + SHADOW_OFFSET), strict=True):
            show_file(start + low, high - low, descriptor, low, shared=shared)

    def clear(self, low: int, high: int) -> None:
        """Make settled bytes unaddressable, and give their whole pages back to the system."""
        self.shadow[low:high] = 0
        first, last = -(-low // _PAGE) * _PAGE, high // _PAGE * _PAGE
        if last > first:
            for one in self._maps:
                one.madvise(mmap.MADV_REMOVE, first, last - first)

    def _copies(self, low: int, high: int) -> npt.NDArray[np.bool_]:
        """Return which pages from ``low`` to ``high`` are private copies; all if the system does not say."""
        first = (self.address + low) // _PAGE
        count = -(-(self.address + high) // _PAGE) - first
        if self._pages is None:
            return np.ones(count, np.bool_)
        raw = os.pread(self._pages, 8 * count, 8 * first)
        if len(raw) < 8 * count:
            return np.ones(count, np.bool_)
        state = np.frombuffer(raw, np.uint64) >> np.uint64(_OF_FILE)
        present, swapped = np.uint64(1 << _PRESENT - _OF_FILE), np.uint64(1 << _SWAPPED - _OF_FILE)
        found: npt.NDArray[np.bool_] = (state & np.uint64(7) == present) | (state & swapped != 0)
        return found
