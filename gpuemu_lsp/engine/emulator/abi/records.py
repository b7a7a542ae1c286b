"""Reading and writing the records of :mod:`.structs` from Python."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt


class Record:
    """A zeroed piece of memory with typed fields at byte offsets, aligned for vectors."""

    def __init__(self, size: int) -> None:
        self._raw = np.zeros(size + 64, dtype=np.uint8)
        skip = -self._raw.ctypes.data % 64
        self.bytes: npt.NDArray[np.uint8] = self._raw[skip : skip + size]
        self.address = int(self.bytes.ctypes.data)
        self._i32 = self.bytes[: size & ~3].view(np.int32)
        self._i64 = self.bytes[: size & ~7].view(np.int64)

    def i32(self, offset: int) -> int:
        """Read a signed 32-bit field."""
        return int(self._i32[offset >> 2])

    def u32(self, offset: int) -> int:
        """Read an unsigned 32-bit field."""
        return int(self._i32[offset >> 2]) & 0xFFFFFFFF

    def i64(self, offset: int) -> int:
        """Read a signed 64-bit field."""
        return int(self._i64[offset >> 3])

    def set32(self, offset: int, value: int) -> None:
        """Write a 32-bit field."""
        value &= 0xFFFFFFFF
        self._i32[offset >> 2] = value - (1 << 32) if value >> 31 else value

    def set64(self, offset: int, value: int) -> None:
        """Write a 64-bit field."""
        value &= 0xFFFFFFFFFFFFFFFF
        self._i64[offset >> 3] = value - (1 << 64) if value >> 63 else value

    def row32(self, offset: int, count: int = 32) -> npt.NDArray[np.int32]:
        """Return a view of ``count`` 32-bit fields."""
        return self._i32[offset >> 2 : (offset >> 2) + count]

    def row64(self, offset: int, count: int = 32) -> npt.NDArray[np.int64]:
        """Return a view of ``count`` 64-bit fields."""
        return self._i64[offset >> 3 : (offset >> 3) + count]


class Context:
    """The fields of one warp's context, which is a part of a record."""

    def __init__(self, record: Record, start: int) -> None:
        self._record, self._start = record, start

    def get(self, offset: int) -> int:
        """Read a signed 32-bit field."""
        return self._record.i32(self._start + offset)

    def mask(self, offset: int) -> int:
        """Read an unsigned 32-bit field."""
        return self._record.u32(self._start + offset)

    def set(self, offset: int, value: int) -> None:
        """Write a 32-bit field."""
        self._record.set32(self._start + offset, value)

    def get64(self, offset: int) -> int:
        """Read a signed 64-bit field."""
        return self._record.i64(self._start + offset)

    def set64(self, offset: int, value: int) -> None:
        """Write a 64-bit field."""
        self._record.set64(self._start + offset, value)

    def row(self, offset: int) -> npt.NDArray[np.int32]:
        """Return a view of 32-bit fields, one for each lane."""
        return self._record.row32(self._start + offset)


def lanes_of(mask: int) -> list[int]:
    """Return the numbers of the set bits of a 32-bit mask."""
    return [lane for lane in range(32) if mask >> lane & 1]
