"""Records of :mod:`.structs` in the memory of this process, read and written from Python."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from gpuemu_lsp.engine.emulator.abi.fields import Field, FieldType


class FieldGroup:
    """Fields of a record that :meth:`RecordView.set_group` writes together, in a tenth of the time of one by one."""

    def __init__(self, *fields: Field) -> None:
        self.wide = [place for place, field in enumerate(fields) if field.element_size == 8]
        self.narrow = [place for place, field in enumerate(fields) if field.element_size == 4]
        self.wide_indices = np.array([fields[place] >> 3 for place in self.wide])
        self.narrow_indices = np.array([fields[place] >> 2 for place in self.narrow])


class RecordView:
    """A record at ``start`` bytes into a piece of memory; fields are read and written with their declared types.

    ``i32`` and ``i64`` are one-dimensional views of the whole piece.
    """

    __slots__ = ("_i32", "_i64", "_start")

    def __init__(self, i32: npt.NDArray[np.int32], i64: npt.NDArray[np.int64], start: int) -> None:
        self._i32, self._i64, self._start = i32, i64, start

    def get(self, field: Field) -> int:
        """Return the value of a field, of an array its first element."""
        offset = self._start + field
        if field.element_size == 8:
            return int(self._i64[offset >> 3])
        value = int(self._i32[offset >> 2])
        return value & 0xFFFFFFFF if field.type is FieldType.U32 else value

    def set(self, field: Field, value: int) -> None:
        """Write a field; higher bits of ``value`` are dropped."""
        offset = self._start + field
        if field.element_size == 8:
            self._i64[offset >> 3] = _signed(value, 64)
        else:
            self._i32[offset >> 2] = _signed(value, 32)

    def set_group(self, group: FieldGroup, values: Sequence[int]) -> None:
        """Write a group of fields; ``values`` are in the order of the group's fields and fit the fields."""
        self._i64[group.wide_indices + (self._start >> 3)] = [values[place] for place in group.wide]
        self._i32[group.narrow_indices + (self._start >> 2)] = [values[place] for place in group.narrow]

    def row(self, field: Field) -> npt.NDArray[np.int32]:
        """Return a view of an array of 32-bit elements."""
        first = (self._start + field) >> 2
        return self._i32[first : first + field.count]


def _signed(value: int, bits: int) -> int:
    """Return the low ``bits`` of a value as a signed number, which is what NumPy accepts."""
    value &= (1 << bits) - 1
    return value - (1 << bits) if value >> (bits - 1) else value


class Record(RecordView):
    """A zeroed piece of memory of ``size`` bytes, aligned for vectors: one record, or a table of them."""

    __slots__ = ("address", "bytes")

    def __init__(self, size: int) -> None:
        # Rounded up so that the views of 4 and of 8 bytes cover all of it.
        rounded = -(-size // 8) * 8
        raw = np.zeros(rounded + 64, dtype=np.uint8)
        skip = -raw.ctypes.data % 64
        memory = raw[skip : skip + rounded]
        super().__init__(memory.view(np.int32), memory.view(np.int64), 0)
        self.bytes: npt.NDArray[np.uint8] = memory[:size]
        self.address = int(memory.ctypes.data)

    def at(self, start: int) -> RecordView:
        """Return the record at a byte offset, a multiple of 8."""
        return RecordView(self._i32, self._i64, start)

    def column(self, field: Field, stride: int, count: int) -> npt.NDArray[np.int32] | npt.NDArray[np.int64]:
        """Return a view of one integer field of ``count`` records, which are ``stride`` bytes apart."""
        if field.element_size == 8:
            return self._i64[field >> 3 :: stride >> 3][:count]
        return self._i32[field >> 2 :: stride >> 2][:count]

    def table32(self, count: int) -> npt.NDArray[np.int32]:
        """Return a view of the first ``count`` 32-bit integers."""
        return self._i32[:count]

    def table64(self, count: int) -> npt.NDArray[np.int64]:
        """Return a view of the first ``count`` 64-bit integers."""
        return self._i64[:count]


@lru_cache(maxsize=4096)
def lanes_of(mask: int) -> tuple[int, ...]:
    """Return the numbers of the set bits of a 32-bit mask."""
    return tuple(lane for lane in range(32) if mask >> lane & 1)
