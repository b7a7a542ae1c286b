"""Mapping of the pages of large arrays while the launch that accesses them begins already."""

from __future__ import annotations

from threading import Thread

from gpuemu_lsp.engine.emulator.launch.device_memory.address_space import map_pages

_PART = 4 << 20
"""Bytes that are mapped at a time, of one array after the other: kernels access all of them from the beginning on."""


class PageMapping:
    """Pages to be mapped by another thread. The launch maps those that it reaches first itself, with a fault each."""

    def __init__(self) -> None:
        self._waiting: list[tuple[int, int]] = []
        self._stopped = False
        self._thread: Thread | None = None

    def add(self, address: int, size: int) -> None:
        """Add pages of a shared file."""
        self._waiting.append((address, size))

    def forget(self, address: int) -> None:
        """Leave out pages that were added from an address on: mapped again, freed memory would be allocated again."""
        self._waiting = [one for one in self._waiting if one[0] != address]

    def start(self) -> None:
        """Begin to map what was added."""
        self.stop()
        ranges, self._waiting = self._waiting, []
        if not ranges:
            return
        self._stopped = False
        thread = Thread(target=self._map, args=(ranges,), name="page mapping", daemon=True)
        try:
            thread.start()
        except RuntimeError:
            return  # the system has no thread for it
        self._thread = thread

    def stop(self) -> None:
        """Stop soon, and wait for that: afterwards the addresses can be used for other pages."""
        if self._thread is not None:
            self._stopped = True
            self._thread.join()
            self._thread = None

    def _map(self, ranges: list[tuple[int, int]]) -> None:
        for start in range(0, max(size for _, size in ranges), _PART):
            for address, size in ranges:
                if self._stopped:
                    return
                if start < size:
                    map_pages(address + start, min(_PART, size - start))
