"""Sets of bytes of an allocation, as large as the range that they are in."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

Span: TypeAlias = "slice | npt.NDArray[np.int64]"
"""Bytes of an allocation, as an index."""


@dataclass(frozen=True, slots=True)
class ByteSet:
    """The bytes ``low + i`` for which ``mask[i]``; ``mask`` is one-dimensional."""

    low: int
    mask: npt.NDArray[np.bool_]

    @staticmethod
    def of(span: Span) -> ByteSet:
        """Return the bytes of a span that is not empty; a slice has both ends."""
        if isinstance(span, slice):
            # One element, shown as often as needed: the range may be gigabytes long.
            return ByteSet(span.start, np.broadcast_to(np.True_, span.stop - span.start))
        low, high = int(span.min()), int(span.max()) + 1
        mask = np.zeros(high - low, np.bool_)
        mask[span - low] = True
        return ByteSet(low, mask)

    @staticmethod
    def union(parts: Sequence[ByteSet]) -> ByteSet | None:
        """Return the union of sets that do not overlap, None if there are none."""
        if len(parts) <= 1:
            return parts[0] if parts else None
        low, high = min(one.low for one in parts), max(one.high for one in parts)
        mask = np.zeros(high - low, np.bool_)
        for one in parts:
            mask[one.low - low : one.high - low] = one.mask
        return ByteSet(low, mask)

    @property
    def high(self) -> int:
        """The end of the range."""
        return self.low + len(self.mask)

    def overlaps(self, other: ByteSet) -> bool:
        """Return whether a byte is in both."""
        mine, theirs = self._common(other)
        return bool((mine & theirs).any())

    def includes(self, other: ByteSet) -> bool:
        """Return whether all bytes of another set are in this one."""
        if other is self:
            return True  # that of a repeated launch
        mine, theirs = self._common(other)
        return np.count_nonzero(theirs) == np.count_nonzero(other.mask) and not bool((theirs & ~mine).any())

    def _common(self, other: ByteSet) -> tuple[npt.NDArray[np.bool_], npt.NDArray[np.bool_]]:
        low, high = max(self.low, other.low), max(min(self.high, other.high), max(self.low, other.low))
        return self.mask[low - self.low : high - self.low], other.mask[low - other.low : high - other.low]
