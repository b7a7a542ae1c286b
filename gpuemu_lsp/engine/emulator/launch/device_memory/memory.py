"""Memory of a program that lasts from launch to launch, and that kernels access where it is.

Two files hold what is settled: the bytes, and a shadow byte for each of them. Kernels see both files at fixed
addresses through private mappings: a page that a launch writes becomes a copy of its own (copy on write). So a launch
costs what it touches, not what the program has allocated; whether it changed anything is a comparison of these pages;
and a launch that has to start again, in other code, finds memory as it was. :meth:`LastingMemory.changed` finds the
copies in the page table.

A copy of each page costs more than the launch where a kernel rewrites a large array. Such an array can be *direct*
(:mod:`~gpuemu_lsp.engine.emulator.launch.device_memory.in_place`): kernels write the file itself, and its bytes from
before the launch, if there are any, are kept in a copy of the whole. A large array to which a launch does not store is
*shared*: it sees the files.

If all of such an array is initialised, its shadow bytes are those of one small file, which is shown as often as the
array needs: that takes no memory, and stays in the processor's caches. Those of a shared array say that it is
read-only: a store that reaches it is an error, and is not carried out. Those of a direct array that is not initialised
are in memory of large pages.
"""

from __future__ import annotations

import mmap
import os
import weakref
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import numpy.typing as npt

from gpuemu_lsp.engine.emulator.abi.memory import ARENA_BYTES, READABLE, SHADOW_OFFSET, Shadow
from gpuemu_lsp.engine.emulator.launch.device_memory.address_space import (
    Bytes,
    bytes_at,
    drop_copies,
    make_accessible,
    prefer_large_pages,
    release,
    reserve,
    show_file,
)
from gpuemu_lsp.engine.emulator.launch.device_memory.in_place import CHUNK, Copies, DirectChange, DirectPages
from gpuemu_lsp.engine.emulator.launch.device_memory.page_mapping import PageMapping
from gpuemu_lsp.engine.emulator.launch.device_memory.page_table import PageTable, merged
from gpuemu_lsp.engine.emulator.launch.device_memory.region import Region
from gpuemu_lsp.engine.emulator.versions.stores import Pointer, Stores

_PAGE = mmap.PAGESIZE
_EQUAL_BYTES = 4 << 20
"""Size of a file of equal shadow bytes."""
_MANY = 64
"""Runs of pages from which all pages are dropped at once."""


@dataclass(slots=True)
class HeapBlocks:
    """What device ``malloc`` has allocated: sizes by address, and the address of what comes next."""

    next: int
    sizes: dict[int, int] = field(default_factory=dict)


Range = tuple[int, int]
"""Low and high end of a range of bytes, as distances from the beginning of the memory."""


@dataclass(frozen=True, slots=True)
class LargeArray:
    """Whole pages of a large allocation to which the next launch has a pointer.

    They become direct if the launch stores through it and they are ``suited``: all of them are ``initialised`` or none.
    """

    pointer: Pointer
    pages: Range
    suited: bool
    initialised: bool


def whole_pages(low: int, high: int) -> Range:
    """Return the whole pages of a range; it may be empty."""
    first = -(-low // _PAGE) * _PAGE
    return first, max(high // _PAGE * _PAGE, first)


class LastingMemory:
    """Memory of ``size`` bytes at ``address``; ``descriptor`` is of the file with its contents.

    ``data`` and ``shadow`` are the settled contents, ``launch_data`` and ``launch_shadow`` those that a launch sees and
    changes. ``regions`` names parts of it for messages. ``used`` returns the ranges in which something is allocated.
    ``hidden`` has ranges of bytes, with a bool for each, that are not initialised for the next launch. ``heap`` is the
    region of device ``malloc``, if it lasts, and ``launch_blocks`` are those of the current launch. ``arrays``
    are the large ones of the next launch, None if they are not known. ``others_write`` says whether something else than
    a launch may write while it runs.

    Raises
    ------
    OSError
        If the addresses are in use, or the system refuses.
    """

    def __init__(self, address: int, size: int) -> None:
        self.address, self.size = address, size
        self.regions: list[Region] = []
        self.others_write: Callable[[], bool] = lambda: False
        self.used: Callable[[], list[Range]] = list
        self.hidden: list[tuple[int, npt.NDArray[np.bool_]]] = []
        self.heap: Region | None = None
        self.launch_blocks = self._blocks = HeapBlocks(0)
        self.arrays: tuple[LargeArray, ...] | None = None
        self._direct: dict[Range, DirectPages] = {}
        self._shared: set[Range] = set()
        self._written: dict[Range, DirectPages] = {}
        self._copies_before = Copies()
        self._mapping = PageMapping()
        extent = SHADOW_OFFSET + size + ARENA_BYTES
        reserve(extent, address)
        self._finalizer = weakref.finalize(self, release, address, extent)
        self.descriptor, self._shadow_file = (os.memfd_create(f"gpuemu-device-{name}") for name in ("memory", "shadow"))
        for descriptor in self._files:
            os.ftruncate(descriptor, size)
        self._equal_files: dict[int, int] = {}
        self._maps = [mmap.mmap(one, size, flags=mmap.MAP_SHARED) for one in self._files]
        self.data, self.shadow = (np.frombuffer(one, np.uint8) for one in self._maps)
        for descriptor, start in zip(self._files, (address, address + SHADOW_OFFSET), strict=True):
            show_file(start, size, descriptor)
        self.launch_data, self.launch_shadow = bytes_at(address, size), bytes_at(address + SHADOW_OFFSET, size)
        self._pages = PageTable()
        self._running = False

    def close(self) -> None:
        """Release the addresses and the files, after which nothing may access them."""
        if self._finalizer.detach() is None:
            return
        self._mapping.stop()
        for descriptor in (*self._files, *self._equal_files.values()):
            os.close(descriptor)
        self._pages.close()
        release(self.address, SHADOW_OFFSET + self.size + ARENA_BYTES)

    @property
    def has_large_arrays(self) -> bool:
        """Whether :meth:`expect` has something to decide for the next launch."""
        return bool(self.arrays or self._direct or self._shared)

    def expect(self, stores: Stores, may_start_again: Callable[[], bool]) -> None:
        """Prepare for a launch that stores as ``stores`` says: it writes no other direct or shared pages.

        It is a guess that it writes most of an array: a wrong one costs time. ``may_start_again`` says whether the
        launch, or a repetition of it, may find that it has to begin once more with memory as it was.
        """
        if self._running:
            return
        known, arrays = self.arrays is not None, self.arrays or ()
        stored = {one.pages for one in arrays if one.pointer in stores.pointers}
        if not known or stores.elsewhere:
            for pages in self._shared - stored:
                self.unshare(pages)
            for pages in self._direct.keys() - stored if known else ():
                self.end_direct(pages)
        for one in arrays:
            pages = one.pages
            if pages in self._direct:
                continue
            if pages not in stored:
                if not stores.elsewhere:
                    self._share(pages, read_only=one.initialised)
            elif one.suited and 4 * (pages[1] - pages[0]) <= _available_bytes():
                self.make_direct(pages, initialised=one.initialised)
            else:
                self.unshare(pages)
        self._written = {pages: one for pages, one in self._direct.items() if pages in stored or not known}
        self.arrays = None
        sampled = [one for one in self._written.values() if one.may_be_sampled]
        enough = bool(sampled) and not may_start_again()
        for direct in self._written.values():
            direct.is_sampled = enough and direct in sampled
        self._mapping.start()

    def begin(self) -> None:
        """Begin a launch: what an earlier attempt at it has changed is dropped."""
        again = self._running
        if again:
            self._drop_copies(self.changed())
        for one in self._written.values():
            if again:
                one.restore()
            else:
                one.begin(self._copies_before)
        self._running = True
        self.launch_blocks = HeapBlocks(self._blocks.next, dict(self._blocks.sizes))
        for low, mask in self.hidden:
            self.launch_shadow[low : low + len(mask)][mask] &= ~np.uint8(Shadow.INITIALISED)

    @property
    def can_begin_again(self) -> bool:
        """Whether the launch can start again: memory from before it is known."""
        return all(one.can_be_restored for one in self._written.values())

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
        for low, high in self._copied_on_write():
            for distance in (0, SHADOW_OFFSET):
                start = self.address + distance
                runs += [(a - start, b - start) for a, b in self._pages.copies(start + low, start + high)]
        return merged(runs)

    def written(self) -> dict[Range, Bytes]:
        """Return copies of the pages that the current launch may have written."""
        copies = {(low, high): self.launch_data[low:high].copy() for low, high in self.changed()}
        for (low, high), one in self._written.items():
            copies[low, high], copies[low + SHADOW_OFFSET, high + SHADOW_OFFSET] = one.contents()
        return copies

    def drop(self, runs: Sequence[Range]) -> None:
        """End the launch: what it has written in ``runs``, all that it has written, is dropped."""
        self._running = False
        self._mapping.stop()
        self._drop_copies(runs)
        for one in self._written.values():
            one.end(self._copies_before)
        self._written = {}

    def _drop_copies(self, runs: Sequence[Range]) -> None:
        if len(runs) > _MANY:
            runs = [(low // _PAGE * _PAGE, -(-high // _PAGE) * _PAGE) for low, high in self._copied_on_write()]
        for low, high in runs:
            drop_copies(self.address + low, high - low)
            drop_copies(self.address + low + SHADOW_OFFSET, high - low)

    def fill_shadow(self, low: int, high: int, bits: int) -> None:
        """Set settled shadow bytes."""
        # Writing the file is faster than the faults of pages that are mapped one by one.
        part = np.full(min(high - low, CHUNK), bits, np.uint8)
        for at in range(low, high, CHUNK):
            self._write_shadow(at, part[: high - at])

    def make_direct(self, pages: Range, *, initialised: bool) -> None:
        """Make whole pages direct, between launches; either all of their bytes are initialised or none.

        Which of them a launch stores is not asked.
        """
        low, high = pages
        if pages not in self._shared:
            show_file(self.address + low, high - low, self.descriptor, low, shared=True)
        self._shared.discard(pages)
        self._mapping.add(self.address + low, high - low)
        if initialised:
            self._show_equal_shadow(pages, READABLE)
        else:
            make_accessible(self.address + SHADOW_OFFSET + low, high - low)
            prefer_large_pages(self.address + SHADOW_OFFSET + low, high - low)
        data, shadows = self.launch_data[low:high], self.launch_shadow[low:high]
        self._direct[pages] = DirectPages(data, shadows, initialised=initialised)

    def is_direct(self, pages: Range) -> bool:
        """Return whether pages are direct."""
        return pages in self._direct

    def direct_change(self, pages: Range) -> DirectChange | None:
        """Return what the launch that has ended did to direct pages, None if it had no pointer to store to them.

        Which bytes are initialised is kept.
        """
        one = self._written.get(pages)
        if one is None:
            return None
        initialised = one.initialised
        change = one.change(lambda at, shadow: self._write_shadow(pages[0] + at, shadow))
        if one.initialised and not initialised:
            self._show_equal_shadow(pages, READABLE)
        return change

    def end_direct(self, pages: Range) -> None:
        """Copy pages again when they are written, from the next launch on."""
        self._written.pop(pages, None)
        del self._direct[pages]
        self._show(pages, shared=False)

    def unshare(self, pages: Range) -> None:
        """Copy pages of a large array when they are written, from the next launch on."""
        if pages in self._shared:
            self._shared.remove(pages)
            self._show(pages, shared=False)

    def _share(self, pages: Range, *, read_only: bool) -> None:
        """Let launches that do not store to a large array see the file itself: it need not be searched for copies."""
        if pages in self._shared:
            return
        self._show(pages, shared=True)
        self._shared.add(pages)
        self._mapping.add(self.address + pages[0], pages[1] - pages[0])
        if read_only:
            self._show_equal_shadow(pages, READABLE | Shadow.READ_ONLY)

    def _show_equal_shadow(self, pages: Range, bits: int) -> None:
        """Let launches see ``bits`` as the shadow bytes of whole pages, and share what they write to these."""
        descriptor, (low, high) = self._equal_shadow(bits), pages
        for at in range(low, high, _EQUAL_BYTES):
            show_file(self.address + SHADOW_OFFSET + at, min(_EQUAL_BYTES, high - at), descriptor, shared=True)

    def _equal_shadow(self, bits: int) -> int:
        """Return a file of equal shadow bytes."""
        if bits not in self._equal_files:
            descriptor = self._equal_files[bits] = os.memfd_create("gpuemu-device-equal")
            if os.write(descriptor, bytes([bits]) * _EQUAL_BYTES) < _EQUAL_BYTES:
                raise MemoryError("the system has no memory for shadow bytes")
        return self._equal_files[bits]

    def _show(self, pages: Range, *, shared: bool) -> None:
        low, high = pages
        self._mapping.forget(self.address + low)
        for descriptor, start in zip(self._files, (self.address, self.address + SHADOW_OFFSET), strict=True):
            show_file(start + low, high - low, descriptor, low, shared=shared)

    @property
    def _files(self) -> tuple[int, int]:
        return self.descriptor, self._shadow_file

    def clear(self, low: int, high: int) -> None:
        """Make settled bytes unaddressable, and give their whole pages back to the system."""
        first, last = whole_pages(low, high)
        if last <= first:
            self.shadow[low:high] = 0
            return
        # To write zeros to pages that are given back would map each of them.
        self.shadow[low:first] = self.shadow[last:high] = 0
        for one in self._maps:
            one.madvise(mmap.MADV_REMOVE, first, last - first)

    def _write_shadow(self, low: int, shadow: Bytes) -> None:
        written = os.pwrite(self._shadow_file, shadow.data, low)
        if written < len(shadow):
            raise MemoryError("the system has no memory for shadow bytes")

    def _copied_on_write(self) -> Iterator[Range]:
        """Yield the used ranges without direct and shared pages, and a heap on which nothing was ever allocated."""
        others = [*self._direct, *self._shared]
        if self.heap is not None and self.launch_blocks.next == self.heap.address:
            start = self.heap.address - self.address
            others.append((start, start + self.heap.size))
        others.sort()
        for low, high in self.used():
            for first, last in others:
                if low <= first and last <= high:
                    if low < first:
                        yield low, first
                    low = last
            if low < high:
                yield low, high


def _available_bytes() -> int:
    """Return the memory that can be used without swapping (proc(5))."""
    lines = Path("/proc/meminfo").read_text(encoding="ascii").splitlines()
    return next((int(line.split()[1]) << 10 for line in lines if line.startswith("MemAvailable:")), 0)
