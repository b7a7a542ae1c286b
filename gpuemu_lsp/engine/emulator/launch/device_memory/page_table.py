"""The private copies among the pages of a file mapping, as the page table of this process has them (proc(5)).

A scan (ioctl PAGEMAP_SCAN, since Linux 6.7) looks at mapped pages only. Before, the entries of all pages are read.
"""

from __future__ import annotations

import fcntl
import mmap
import os

import numpy as np

_SCAN = 0xC060_6610  # linux/fs.h
_FILE, _PRESENT, _SWAPPED = 1 << 2, 1 << 3, 1 << 4
"""Categories of pages in a scan; a copy of a page is one that is there and not of the file."""

_ENTRY_PRESENT, _ENTRY_SWAPPED, _ENTRY_OF_FILE = 63, 62, 61
"""The same in an entry of the page table, as bits."""

_PAGE = mmap.PAGESIZE
_REGIONS = 512
_WALK_END = 4
"""Place of the address at which a scan has stopped, in its arguments."""

AddressRange = tuple[int, int]


class PageTable:
    """The page table of this process, or nothing, if the system does not show it."""

    def __init__(self) -> None:
        try:
            self._file: int | None = os.open("/proc/self/pagemap", os.O_RDONLY | os.O_CLOEXEC)
        except OSError:
            self._file = None
        self._scans = True
        self._regions = np.zeros((_REGIONS, 3), np.uint64)

    def close(self) -> None:
        """Close the file: all pages are copies from then on, as far as is known."""
        if self._file is not None:
            os.close(self._file)
        self._file = None

    def copies(self, low: int, high: int) -> list[AddressRange]:
        """Return the ranges of private copies from ``low`` to ``high``, in whole pages; all if it is not known."""
        low, high = low // _PAGE * _PAGE, -(-high // _PAGE) * _PAGE
        if self._file is None:
            return [(low, high)]
        if self._scans:
            try:
                return self._scanned(self._file, low, high)
            except OSError:
                self._scans = False
        return self._read(self._file, low, high)

    def _scanned(self, file: int, low: int, high: int) -> list[AddressRange]:
        found: list[AddressRange] = []
        while low < high:
            # Of the file is a page that is not to be found: that category is inverted.
            words = (96, 0, low, high, 0, self._regions.ctypes.data, _REGIONS, 0, _FILE, _FILE, _PRESENT | _SWAPPED, 0)
            arguments = bytearray(np.array(words, np.uint64).tobytes())
            count = fcntl.ioctl(file, _SCAN, arguments, True)
            found += [(start, end) for start, end, _ in self._regions[:count].tolist()]
            low = int.from_bytes(arguments[8 * _WALK_END : 8 * _WALK_END + 8], "little")
        return found

    def _read(self, file: int, low: int, high: int) -> list[AddressRange]:
        count = (high - low) // _PAGE
        raw = os.pread(file, 8 * count, low // _PAGE * 8)
        if len(raw) < 8 * count:
            return [(low, high)]
        state = np.frombuffer(raw, np.uint64) >> np.uint64(_ENTRY_OF_FILE)
        present = np.uint64(1 << _ENTRY_PRESENT - _ENTRY_OF_FILE)
        swapped = np.uint64(1 << _ENTRY_SWAPPED - _ENTRY_OF_FILE)
        pages = np.zeros(count + 2, np.bool_)
        pages[1:-1] = (state & np.uint64(7) == present) | (state & swapped != 0)
        edges = np.flatnonzero(pages[1:] != pages[:-1]).tolist()
        return [(low + a * _PAGE, low + b * _PAGE) for a, b in zip(edges[::2], edges[1::2], strict=True)]


def merged(ranges: list[AddressRange]) -> list[AddressRange]:
    """Return the union of ranges, in order."""
    found: list[AddressRange] = []
    for low, high in sorted(ranges):
        if found and low <= found[-1][1]:
            found[-1] = found[-1][0], max(found[-1][1], high)
        else:
            found.append((low, high))
    return found
