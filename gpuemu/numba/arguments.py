"""Arguments of a numba-cuda launch, as those of the PTX kernel.

numba-cuda passes an array as several parameters: meminfo and parent (both 0), the number of elements, the size of one
in bytes, the data pointer, the shape and the strides in bytes. A record is a pointer, a complex number is two
parameters, a tuple those of its elements. Pointers are integers by then; which ones are pointers follows from the live
allocations of the device.
"""

from __future__ import annotations

import ctypes
import math
import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from numba.cuda import types

from gpuemu.numba.memory import Allocation, DeviceMemory
from gpuemu_lsp.engine.execution import Argument, Buffer, Scalar
from gpuemu_lsp.engine.ptx.model import Variable

_POINTER_BYTES = 8


class UnsupportedLaunchError(RuntimeError):
    """A launch that the emulator cannot run."""


@dataclass(frozen=True, slots=True)
class Slot:
    """A kernel parameter: its name for messages, and the size of an element if it may point to some.

    ``record`` is the NumPy dtype of the elements if they are records.
    """

    name: str
    element_size: int = 1
    record: np.dtype[Any] | None = None


def slots_of(names: Sequence[str], kinds: Sequence[Any]) -> list[Slot]:
    """Return the kernel parameters of Python parameters with numba's types ``kinds``."""
    return [slot for name, kind in zip(names, kinds, strict=True) for slot in _slots(name, kind)]


def _slots(name: str, kind: Any) -> Iterator[Slot]:
    if isinstance(kind, types.Array):
        yield from (Slot(f"{name}.{part}") for part in ("meminfo", "parent", "size", "itemsize"))
        yield Slot(name, _item_size(kind.dtype), _record_of(kind.dtype))
        for part in ("shape", "strides"):
            yield from (Slot(f"{name}.{part}[{axis}]") for axis in range(kind.ndim))
    elif isinstance(kind, types.Complex):
        yield from (Slot(f"{name}.real"), Slot(f"{name}.imag"))
    elif isinstance(kind, types.BaseTuple):
        for index, element in enumerate(kind):
            yield from _slots(f"{name}[{index}]", element)
    elif _record_of(kind) is not None:
        yield Slot(name, kind.size, _record_of(kind))
    elif isinstance(kind, types.CPointer):
        yield Slot(name, _item_size(kind.dtype))
    else:
        yield Slot(name)


def _record_of(kind: Any) -> np.dtype[Any] | None:
    # numba and numba-cuda have a class of this name each.
    return np.dtype(kind.dtype) if type(kind).__name__ == "Record" else None


def _padding(record: np.dtype[Any]) -> npt.NDArray[np.bool_]:
    """Return a bool per byte of a record, True where no field lies."""
    padding = np.ones(record.itemsize, np.bool_)
    for field, offset, *_ in (record.fields or {}).values():
        base, shape = field.subdtype or (field, ())
        inner = _padding(base) if base.fields else np.zeros(base.itemsize, np.bool_)
        padding[offset : offset + field.itemsize] = np.tile(inner, math.prod(shape))
    return padding


def _initialize_padding(allocation: Allocation, offset: int, record: np.dtype[Any]) -> None:
    """Mark the padding of records as initialised: copying a record reads it, and no program can write it."""
    padding = _padding(record)
    if allocation.initialized is not None and padding.any():
        allocation.initialized |= np.resize(np.roll(padding, offset % record.itemsize), allocation.size)


def _item_size(kind: Any) -> int:
    bits = getattr(kind, "bitwidth", None)
    return int(bits) // 8 if bits else int(getattr(kind, "size", 1))


def pack(
    values: Sequence[Any], slots: Sequence[Slot], parameters: Sequence[Variable], memory: DeviceMemory
) -> tuple[list[Argument], dict[str, Allocation]]:
    """Return the kernel's arguments, and the allocation behind each buffer by the buffer's name.

    Raises
    ------
    UnsupportedLaunchError
        If the values do not fit the kernel's parameters.
    """
    if len(values) != len(parameters):
        raise UnsupportedLaunchError(f"{len(values)} arguments for {len(parameters)} parameters of the PTX")
    if len(slots) != len(values):  # an extension of the kernel replaced an argument: names are for messages only
        slots = [Slot(f"parameter {index}") for index in range(len(values))]
    arguments: list[Argument] = []
    allocations: dict[str, Allocation] = {}
    first: dict[int, str] = {}
    for value, slot, parameter in zip(values, slots, parameters, strict=True):
        data = value_bytes(value, parameter.size)
        address = int.from_bytes(data, "little") if len(data) == _POINTER_BYTES else 0
        allocation = memory.find(address)
        if allocation is None:
            arguments.append(Scalar(slot.name, data))
            continue
        if slot.record is not None:
            _initialize_padding(allocation, address - allocation.address, slot.record)
        owner = first.setdefault(allocation.address, slot.name)
        allocations.setdefault(owner, allocation)
        arguments.append(
            Buffer(
                slot.name,
                allocation.data,
                initialized=allocation.initialized is None or bool(allocation.initialized.all()),
                element_size=slot.element_size,
                alias_of=owner if owner != slot.name else None,
                pointer_offset=address - allocation.address,
                initialized_bytes=allocation.initialized,
            )
        )
    return arguments, allocations


def value_bytes(value: Any, size: int) -> bytes:
    """Return a value as the launch passes it, in ``size`` little-endian bytes."""
    if isinstance(value, ctypes._SimpleCData | ctypes.Structure | ctypes.Array):
        data = bytes(value)
    elif isinstance(value, np.generic | np.ndarray):
        data = value.tobytes()
    elif isinstance(value, float):
        data = struct.pack("<d" if size == _POINTER_BYTES else "<f", value)
    else:
        data = (int(value) % (1 << (8 * size))).to_bytes(size, "little")
    if len(data) != size:
        raise UnsupportedLaunchError(f"an argument of {len(data)} bytes for a parameter of {size}")
    return data
