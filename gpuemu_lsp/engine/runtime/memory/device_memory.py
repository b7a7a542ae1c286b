"""Device memory of one run, shared with the program: its allocations, and which of their bytes are initialised.

Its addresses are those that the program and its kernels see. Allocations are never placed where another one was, so
that a pointer to freed memory is recognised for the whole run.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator

import numpy as np
import numpy.typing as npt

from gpuemu_lsp.engine.emulator.abi.memory import Shadow
from gpuemu_lsp.engine.emulator.launch.device_memory.in_place import CHUNK
from gpuemu_lsp.engine.emulator.launch.device_memory.memory import (
    LargeArray,
    LastingMemory,
    Range,
    whole_pages,
)
from gpuemu_lsp.engine.emulator.launch.device_memory.region import Region
from gpuemu_lsp.engine.emulator.launch.device_runtime import HEAP_BYTES
from gpuemu_lsp.engine.emulator.versions.stores import Pointer
from gpuemu_lsp.engine.execution import Bytes
from gpuemu_lsp.engine.runtime.call_sites import CallSite
from gpuemu_lsp.engine.runtime.memory.allocations import DeviceAllocation, Fill, UnorderedWrites
from gpuemu_lsp.engine.runtime.memory.byte_sets import ByteSet, Span
from gpuemu_lsp.engine.runtime.memory.library_words import LibraryWords
from gpuemu_lsp.engine.runtime.protocol.calls import MemoryKind
from gpuemu_lsp.engine.runtime.stream_order import StreamOrder

BASE = 0x5E3D_0000_0000
"""Address of device memory in the program. As a pair of 32-bit numbers its upper half is unlikely: an integer of
24,125, or a float below the smallest normal one."""

SIZE = 256 << 30
"""Bytes of address space; memory is used only where it is touched."""

_ALIGNMENT = 256
_LARGE_ALIGNMENT = 2 << 20
"""That of allocations that can be direct, as the system has pages of this size."""

_GAP = 4096
_MAX_GAP = 16 << 20
"""Between two allocations are as many bytes as the larger one has, within these bounds: an index that is wrong by a
dimension reaches no other allocation."""

_NEAR = 1 << 20
"""Allocations that are nearer than this are one range when a launch has ended."""

_MIN_DIRECT = 4 << 20
"""Size from which an allocation that a launch rewrites is copied before the launch, and not page by page."""

_WRITTEN_BY_THREAD = 4096
"""Bytes for each thread of a launch up to which an allocation may be expected to be rewritten."""

_FIRST = 16 << 20
"""Distance of the first allocation: the words of the library are in front of it."""


class DeviceMemory:
    """The allocations of one run by address, and the memory behind them.

    ``order`` is that of the work on streams. Without ``tracking``, launches do not keep shadow bytes: all memory counts
    as initialised.
    """

    def __init__(self, order: StreamOrder, *, tracking: bool = True) -> None:
        self._order = order
        self._tracking = tracking
        self.lasting = LastingMemory(BASE, SIZE)
        self.lasting.others_write = self._others_write
        self.lasting.used = self._ranges_in_use
        self._used_ranges: list[Range] | None = None
        self.words = LibraryWords(self.lasting.data)
        self.has_contents = True
        """Whether what is allocated from now on is accessed, and not only its addresses are used."""
        self._next = BASE + _FIRST
        self._last_gap = _GAP
        self._addresses: list[int] = []
        self._allocations: list[DeviceAllocation] = []
        self._live: dict[int, DeviceAllocation] = {}
        """By address, in their order."""
        self._direct: dict[Range, DeviceAllocation] = {}
        self._large: dict[Range, DeviceAllocation] = {}
        self.used = 0
        self.generation = 0
        """A number that changes whenever memory may have other contents than before."""
        heap = DeviceAllocation("device heap", self._next, HEAP_BYTES, None, HEAP_BYTES, kind=MemoryKind.HEAP)
        self._addresses.append(heap.address)
        self._allocations.append(heap)
        self._live[heap.address] = heap
        self.lasting.add_heap(Region(heap.name, "variable", heap.address, heap.size))
        self._next += HEAP_BYTES
        self._used_ranges = None

    @property
    def descriptor(self) -> int:
        """The file with the contents, for the program."""
        return self.lasting.descriptor

    @property
    def live(self) -> tuple[DeviceAllocation, ...]:
        """The allocations that have not been freed."""
        return tuple(self._live.values())

    @property
    def shared_with_host(self) -> bool:
        """Whether the host can access a live allocation without a call."""
        return any(allocation.of_host for allocation in self._live.values())

    def named(self, name: str) -> DeviceAllocation | None:
        """Return the allocation with a name."""
        return next((one for one in self._allocations if one.name == name), None)

    def allocate(
        self,
        size: int,
        site: CallSite | None,
        limit: int,
        kind: MemoryKind = MemoryKind.DEVICE,
        *,
        variable: str | None = None,
        read_only: bool = False,
        written: bool = False,
    ) -> DeviceAllocation | None:
        """Allocate ``size`` bytes; None if live allocations would exceed ``limit`` bytes or addresses run out.

        ``variable`` is the mangled name of a module variable. If all is ``written``, it is initialised.
        """
        gap = max(_GAP, min(size, _MAX_GAP))
        alignment = _ALIGNMENT if size < _MIN_DIRECT else _LARGE_ALIGNMENT
        start = -(-(self._next + max(gap, self._last_gap)) // alignment) * alignment
        if self.used + size > limit or start + size + gap > BASE + SIZE:
            return None
        number = len(self._allocations)
        name = variable or f"allocation {number}{f' at {site}' if site else ''}"
        # What the host writes to memory that it shares with the device is not seen: all of that is initialised.
        missing = size if kind is MemoryKind.DEVICE and self._tracking and self.has_contents and not written else 0
        allocation = DeviceAllocation(name, start, size, site, missing, kind=kind, variable=variable)
        bits = Shadow.ADDRESSABLE | (0 if missing else Shadow.INITIALISED) | (Shadow.READ_ONLY if read_only else 0)
        if self.has_contents:
            self.lasting.fill_shadow(*self._range(allocation), bits)
        self.used += size
        self.generation += 1
        self._addresses.append(start)
        self._allocations.append(allocation)
        self._live[start] = allocation
        self.lasting.regions.append(Region(name, "variable" if variable else "buffer", start, size))
        self._next, self._last_gap = start + size, gap
        self._used_ranges = None
        return allocation

    def free(self, allocation: DeviceAllocation, site: CallSite | None) -> None:
        """Free an allocation and give its whole pages back to the system."""
        self._end_direct(allocation)
        allocation.live, allocation.freed = False, site
        del self._live[allocation.address]
        allocation.pending.clear()
        allocation.reads.clear()
        allocation.uses.clear()
        self.used -= allocation.size
        self.generation += 1
        self.lasting.clear(*self._range(allocation))
        self._used_ranges = None

    def allocate_again(self, address: int) -> None:
        """Allocate what was freed at its own address, as a graph does in each launch."""
        allocation = self.find(address)
        if allocation is None or allocation.live:
            return
        allocation.live, allocation.freed = True, None
        self._live = dict(sorted((*self._live.items(), (allocation.address, allocation))))
        allocation.missing = allocation.size if self._tracking else 0
        bits = Shadow.ADDRESSABLE | (0 if allocation.missing else Shadow.INITIALISED)
        self.lasting.fill_shadow(*self._range(allocation), bits)
        self.used += allocation.size
        self.generation += 1
        self._used_ranges = None

    def close(self) -> None:
        """Give the memory back; nothing may access it afterwards."""
        self.lasting.close()

    def find(self, address: int) -> DeviceAllocation | None:
        """Return the allocation, live or freed, that an address is in or just past the end of."""
        index = bisect_right(self._addresses, address) - 1
        if index < 0:
            return None
        allocation = self._allocations[index]
        return allocation if address <= allocation.address + allocation.size else None

    def nearest(self, address: int) -> DeviceAllocation | None:
        """Return the last allocation that begins at or before an address."""
        index = bisect_right(self._addresses, address) - 1
        return self._allocations[index] if index >= 0 else None

    def view(self, allocation: DeviceAllocation) -> Bytes:
        """Return the bytes of an allocation; writing to them writes device memory."""
        low = allocation.address - BASE
        return self.lasting.data[low : low + allocation.size]

    def initialised(self, allocation: DeviceAllocation, span: Span = slice(None)) -> npt.NDArray[np.bool_]:
        """Return, for each byte of an allocation or of a part of it, whether it is initialised."""
        found: npt.NDArray[np.bool_] = (self._shadow(allocation)[span] & np.uint8(Shadow.INITIALISED)) != 0
        return found

    def holds(self, allocation: DeviceAllocation, span: Span, value: bytes) -> bool:
        """Return whether a part of an allocation has repeated ``value`` already: to fill it with that changes nothing.

        Benchmarks fill a scratch buffer between two launches. It is read once if nothing changes in between.
        """
        if allocation.kind is not MemoryKind.DEVICE or allocation.missing or not isinstance(span, slice):
            return False
        if allocation.filled == Fill(span, value, self.generation):
            return True
        content = self.view(allocation)[span]
        repeated = np.frombuffer(value * (CHUNK // len(value)), np.uint8)
        return all(
            np.array_equal(part, repeated[: len(part)])
            for part in (content[low : low + len(repeated)] for low in range(0, len(content), len(repeated)))
        )

    def any_initialised(self, allocation: DeviceAllocation, span: Span) -> bool:
        """Return whether any byte of a part of an allocation is initialised."""
        return not allocation.missing or bool((self._shadow(allocation)[span] & np.uint8(Shadow.INITIALISED)).any())

    def initialise(self, allocation: DeviceAllocation, span: Span, known: npt.NDArray[np.bool_] | None = None) -> None:
        """Note that a part of an allocation was written, with initialised bytes where ``known``.

        It has the shape (bytes of the part,); None: everywhere.
        """
        self.generation += 1
        if allocation.zeros:
            self._count_as_unwritten(allocation)
        if not allocation.missing and (known is None or known.all()):
            return
        self._end_direct(allocation)
        shadow = self._shadow(allocation)
        if known is None and isinstance(span, slice) and span.indices(allocation.size) == (0, allocation.size, 1):
            self.lasting.fill_shadow(*self._range(allocation), int(shadow[0]) | Shadow.INITIALISED)
            allocation.missing = 0
            return
        before = np.count_nonzero(shadow[span] & np.uint8(Shadow.INITIALISED))
        bits = np.uint8(Shadow.INITIALISED)
        if known is None:
            shadow[span] |= bits
        else:
            shadow[span] = np.where(known, shadow[span] | bits, shadow[span] & ~bits)
        allocation.missing -= int(np.count_nonzero(shadow[span] & bits)) - int(before)

    def _count_as_unwritten(self, allocation: DeviceAllocation) -> None:
        """Count the zeros of a constant array as not initialised: the program begins to copy its contents."""
        allocation.zeros = False
        if self._tracking and self.has_contents:
            allocation.missing = allocation.size
            self.lasting.fill_shadow(*self._range(allocation), Shadow.ADDRESSABLE | Shadow.READ_ONLY)

    def expect_launch(self, pointers: Iterable[tuple[Pointer, DeviceAllocation]], threads: int) -> None:
        """Prepare for a launch of so many threads, which has these pointers to allocations and variables."""
        self._large = {}
        arrays = []
        for pointer, one in pointers:
            if one.size >= _MIN_DIRECT and (one.direct is not None or self._can_be_direct(one)):
                covered = one.size <= threads * _WRITTEN_BY_THREAD and not one.written_in_part
                pages = whole_pages(*self._range(one))
                arrays.append(LargeArray(pointer, pages, covered and one.missing in (0, one.size), one.missing == 0))
                self._large[pages] = one
        self.lasting.arrays = tuple(arrays)

    def settle(self, *, masks: bool) -> list[tuple[DeviceAllocation, ByteSet]]:
        """Keep what a launch has written, which is initialised from then on.

        Returns the bytes that it stored, by allocation, if ``masks`` asks for them, or the host can access them.
        """
        self._note_direct()
        sparse = []
        for pages, one in self._direct.items():
            change = self.lasting.direct_change(pages)
            if change is None:
                continue
            self.generation += change.changed
            one.missing -= change.initialised
            if not change.rewritten:
                one.written_in_part = True
                sparse.append(one)
        runs = self.lasting.changed()
        stored = []
        large = []
        for allocation, parts in self._parts(runs):
            if not masks and self._is_rewritten(allocation, parts):
                large.append(allocation)
            written = [self._settle_part(allocation, low, high, masks) for low, high in parts]
            found = ByteSet.union([one for one in written if one is not None])
            if found is not None:
                stored.append((allocation, found))
        self.lasting.drop(runs)
        self.lasting.keep_blocks()
        for one in [*sparse, *(one for one in self._direct.values() if one.missing)]:
            self._end_direct(one)
        for allocation in large:
            if not allocation.missing:
                pages = whole_pages(*self._range(allocation))
                self.lasting.make_direct(pages, initialised=True)
                self._large[pages] = allocation
        self._note_direct()
        return stored

    def hide(self, pending: UnorderedWrites) -> None:
        """Let bytes of pending writes not be initialised for the next launch."""
        if pending:
            self.end_direct()
        self.lasting.hidden = [
            (allocation.address - BASE + write.accessed.low, write.accessed.mask)
            for allocation, writes in pending
            for write in writes
        ]

    def end_direct(self) -> None:
        """Let all launches from now on say what they store."""
        for one in self._allocations:
            self._end_direct(one)

    def addresses_in(self, allocation: DeviceAllocation) -> list[DeviceAllocation]:
        """Return the live allocations whose addresses are in an allocation's memory, in aligned words."""
        words = self.view(allocation)[: allocation.size // 8 * 8].view(np.uint64)
        found = np.unique(words[(words >= np.uint64(BASE)) & (words < np.uint64(self._next))])
        targets = {one.address: one for one in map(self.find, found.tolist()) if one is not None and one.live}
        return list(targets.values())

    def _others_write(self) -> bool:
        """Return whether the host, or work on another stream, may write while a launch runs."""
        return not self._order.single or self.shared_with_host

    def _shadow(self, allocation: DeviceAllocation) -> Bytes:
        low = allocation.address - BASE
        return self.lasting.shadow[low : low + allocation.size]

    def _range(self, allocation: DeviceAllocation) -> Range:
        low = allocation.address - BASE
        return low, low + allocation.size

    def _end_direct(self, allocation: DeviceAllocation) -> None:
        if allocation.direct is not None:
            self.lasting.end_direct(allocation.direct)
            del self._direct[allocation.direct]
            allocation.direct = None
        elif allocation.size >= _MIN_DIRECT:
            self.lasting.unshare(whole_pages(*self._range(allocation)))

    def _note_direct(self) -> None:
        """Note which allocations have become direct, and which are no longer."""
        for pages, one in (self._large | self._direct).items():
            if self.lasting.is_direct(pages):
                one.direct = pages
                self._direct[pages] = one
            elif one.direct is not None:
                one.direct = None
                del self._direct[pages]
        self._large = {}

    def _can_be_direct(self, allocation: DeviceAllocation) -> bool:
        kept = allocation.kind in (MemoryKind.DEVICE, MemoryKind.VARIABLE) and allocation.live
        return kept and allocation.direct is None

    def _is_rewritten(self, allocation: DeviceAllocation, parts: list[Range]) -> bool:
        """Return whether a launch has written most of a large allocation."""
        written = sum(high - low for low, high in parts)
        return allocation.size >= _MIN_DIRECT and 2 * written > allocation.size and self._can_be_direct(allocation)

    def _ranges_in_use(self) -> list[Range]:
        if self._used_ranges is None:
            ranges: list[Range] = []
            for one in self._live.values():
                low = one.address - BASE
                if ranges and low - ranges[-1][1] < _NEAR:
                    ranges[-1] = ranges[-1][0], low + one.size
                else:
                    ranges.append((low, low + one.size))
            self._used_ranges = ranges
        return self._used_ranges

    def _parts(self, runs: list[Range]) -> Iterator[tuple[DeviceAllocation, list[Range]]]:
        """Yield the live allocations in ranges of memory, with the parts of each, as offsets in it."""
        found: dict[int, list[Range]] = {}
        for low, high in runs:
            index = max(bisect_right(self._addresses, BASE + low) - 1, 0)
            while index < len(self._allocations) and self._addresses[index] < BASE + high:
                start, size = self._addresses[index] - BASE, self._allocations[index].size
                part = max(low - start, 0), min(high - start, size)
                if part[0] < part[1] and self._allocations[index].live:
                    found.setdefault(index, []).append(part)
                index += 1
        for index, parts in found.items():
            yield self._allocations[index], parts

    def _settle_part(self, allocation: DeviceAllocation, low: int, high: int, masks: bool) -> ByteSet | None:
        """Keep what a launch has written to a part of an allocation."""
        start = allocation.address - BASE
        after = self.lasting.launch_shadow[start + low : start + high]
        before = self._shadow(allocation)[low:high]
        if allocation.kind is MemoryKind.HEAP:
            settled = after & ~np.uint8(Shadow.WRITTEN)
            self.generation += not np.array_equal(before, settled)
            before[:] = settled
        elif allocation.missing:
            new = after & ~before & np.uint8(Shadow.INITIALISED)
            count = np.count_nonzero(new)
            if count:
                before |= new
                allocation.missing -= int(count)
                self.generation += 1
        written = (after & np.uint8(Shadow.WRITTEN)) != 0 if masks or allocation.of_host else None
        if self._keep(
            self.view(allocation)[low:high],
            self.lasting.launch_data[start + low : start + high],
            written,
            allocation.of_host,
        ):
            self.generation += 1
        return ByteSet(low, written) if written is not None and written.any() else None

    @staticmethod
    def _keep(before: Bytes, after: Bytes, written: npt.NDArray[np.bool_] | None, of_host: bool) -> bool:
        """Copy what a launch has written; return whether that changed anything."""
        if of_host and written is not None:
            # The host may have written other bytes of these pages in the meantime.
            changed = bool((before[written] != after[written]).any())
            before[written] = after[written]
            return changed
        for low in range(0, len(before), CHUNK):
            if not np.array_equal(before[low : low + CHUNK], after[low : low + CHUNK]):
                before[low:] = after[low:]
                return True
        return False
