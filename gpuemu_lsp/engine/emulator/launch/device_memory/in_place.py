"""Large ranges of lasting memory that a launch writes where they are, without a copy of each page."""

from __future__ import annotations

import mmap
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from gpuemu_lsp.engine.emulator.abi.memory import Shadow
from gpuemu_lsp.engine.emulator.launch.device_memory.address_space import Bytes

CHUNK = 1 << 20

_LINE = 64
"""Bytes of a page that say whether a launch has written the page: a line of the processor's cache."""
_SAMPLE = 1024
"""Pages, evenly spread, that say how much of an array a launch has written."""
_LEAST_CHANGED = 8
"""A launch that changes this part of the pages of an initialised array, or more, counts as one that writes most of it:
values may be as before."""
_MOST_UNCHANGED = 2
"""So does one that changes nothing, up to so many in a row."""
_LEAST_SAMPLED = 64 << 20
"""Size from which a sample of the bytes from before a launch may be enough: to copy them is half of a launch's time."""


@dataclass(frozen=True, slots=True)
class DirectChange:
    """What a launch did to direct pages.

    Whether it changed them, whether it probably wrote most of them, and how many bytes it initialised.
    """

    changed: bool
    rewritten: bool
    initialised: int = 0


class Copies:
    """Memory for the bytes of direct pages from before a launch, kept for later launches: fresh memory costs more."""

    def __init__(self) -> None:
        self._free: list[Bytes] = []

    def take(self, size: int) -> Bytes:
        """Return memory of at least ``size`` bytes."""
        fitting = [place for place, one in enumerate(self._free) if len(one) >= size]
        if fitting:
            return self._free.pop(min(fitting, key=lambda place: len(self._free[place])))
        # A larger one takes the place of the ones that are too small.
        self._free.clear()
        return np.empty(size, np.uint8)

    def give_back(self, memory: Bytes) -> None:
        """Keep memory for the next launch."""
        self._free.append(memory)


class DirectPages:
    """Whole pages that kernels write where they are; ``data`` and ``shadow`` are their bytes, as launches see them.

    Either all of the bytes are ``initialised``, and those from before a launch are kept in a copy of the whole; or none
    is, and there is nothing to keep. Of ``is_sampled`` pages, which are many, only a sample is kept: a launch must not
    start again, and counts as one that changes them. If it leaves the sample as it was, the next launch is compared
    with a copy. Shadow bytes of initialised pages may be those of other pages as well, so that what a launch notes
    there says nothing.
    """

    def __init__(self, data: Bytes, shadow: Bytes, *, initialised: bool) -> None:
        self._data, self._shadow = data, shadow
        self.initialised = initialised
        self._copy: Bytes | None = None
        self._lines_before: Bytes | None = None
        self.is_sampled = self._sample_unchanged = False
        self._unchanged = 0
        self._reset_shadow()

    @property
    def may_be_sampled(self) -> bool:
        """Whether a sample is enough for the next launch, if it does not start again."""
        return self.initialised and not self._sample_unchanged and len(self._data) >= _LEAST_SAMPLED

    def begin(self, copies: Copies) -> None:
        """Begin a launch that may write them."""
        if not self.initialised:
            lines = _lines(self._shadow)
            lines &= ~np.uint8(Shadow.WRITTEN)
            return
        self._lines_before = _lines(self._data).copy()
        if not self.is_sampled:
            self._copy = copies.take(len(self._data))
            _copy(self._copy[: len(self._data)], self._data)

    @property
    def can_be_restored(self) -> bool:
        """Whether the bytes from before the launch are known."""
        return not self.initialised or self._copy is not None

    def restore(self) -> None:
        """Begin the same launch again.

        Raises
        ------
        RuntimeError
            If there is only a sample.
        """
        if not self.initialised:
            self._reset_shadow()
        elif self._copy is None:
            raise RuntimeError("a launch that was proved not to start again does")
        else:
            _copy(self._data, self._copy[: len(self._data)])

    def end(self, copies: Copies) -> None:
        """End the launch."""
        if self._copy is not None:
            copies.give_back(self._copy)
        self._copy = self._lines_before = None

    def contents(self) -> tuple[Bytes, Bytes]:
        """Return a copy of the bytes, and one of their shadow bytes where those of a launch may differ."""
        return self._data.copy(), self._shadow[:0] if self.initialised else self._shadow.copy()

    def change(self, settle: Callable[[int, Bytes], None]) -> DirectChange:
        """Return what the launch that has ended did; ``settle`` takes shadow bytes that changed, with their offset."""
        if self._lines_before is not None:
            return self._change_of_initialised(_part(self._lines_before != _lines(self._data)))
        rewritten = 2 * _part(_lines(self._shadow) & np.uint8(Shadow.WRITTEN) != 0) > 1
        initialised = 0
        for at in range(0, len(self._data), CHUNK):
            shadow = self._shadow[at : at + CHUNK] & ~np.uint8(Shadow.WRITTEN)
            count = np.count_nonzero(shadow & np.uint8(Shadow.INITIALISED))
            if count:
                settle(at, shadow)
                initialised += int(count)
        self.initialised = initialised == len(self._data)
        return DirectChange(initialised > 0, rewritten, initialised)

    def _change_of_initialised(self, part: float) -> DirectChange:
        """Return what a launch did to initialised pages, of whose sample it has changed a part."""
        self._sample_unchanged = part == 0
        unequal = part > 0 or (self._copy is not None and not _are_equal(self._copy[: len(self._data)], self._data))
        self._unchanged = 0 if unequal else self._unchanged + 1
        most = _LEAST_CHANGED * part >= 1 if unequal else self._unchanged <= _MOST_UNCHANGED
        return DirectChange(unequal or self._copy is None, most)

    def _reset_shadow(self) -> None:
        if not self.initialised:
            self._shadow[:] = Shadow.ADDRESSABLE


def _lines(contents: Bytes) -> Bytes:
    """Return the first line of each page of the sample, a row each."""
    pages = contents.reshape(-1, mmap.PAGESIZE)
    return pages[:: max(len(pages) // _SAMPLE, 1), :_LINE]


def _part(lines: npt.NDArray[np.bool_]) -> float:
    """Return the part of the lines of which any byte is set."""
    return np.count_nonzero(lines.any(axis=1)) / len(lines)


def _are_equal(one: Bytes, other: Bytes) -> bool:
    return all(np.array_equal(one[at : at + CHUNK], other[at : at + CHUNK]) for at in range(0, len(one), CHUNK))


def _copy(target: Bytes, source: Bytes) -> None:
    # The C library copies much more at a time around the processor's cache, which takes twice as long here.
    for at in range(0, len(source), CHUNK):
        np.copyto(target[at : at + CHUNK], source[at : at + CHUNK])
