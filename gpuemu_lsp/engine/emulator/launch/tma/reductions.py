"""Reductions of bulk copies (PTX ISA sections 9.7.9.25.4.2 and 9.7.13.8): element by element, in memory."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import ml_dtypes
import numpy as np
import numpy.typing as npt

from gpuemu_lsp.engine.emulator.abi.memory import Shadow
from gpuemu_lsp.engine.emulator.launch.arena import Arena
from gpuemu_lsp.engine.emulator.launch.tma.places import Indices

_TYPES: Final = {
    "u8": np.dtype("u1"),
    "u16": np.dtype("u2"),
    "u32": np.dtype("u4"),
    "u64": np.dtype("u8"),
    "s32": np.dtype("i4"),
    "s64": np.dtype("i8"),
    "b32": np.dtype("u4"),
    "b64": np.dtype("u8"),
    "f16": np.dtype("f2"),
    "f32": np.dtype("f4"),
    "f32ftz": np.dtype("f4"),
    "tf32": np.dtype("f4"),
    "tf32ftz": np.dtype("f4"),
    "f64": np.dtype("f8"),
    "bf16": np.dtype(ml_dtypes.bfloat16),
}

_Array = npt.NDArray[Any]


def _added(old: _Array, new: _Array) -> _Array:
    if old.dtype.kind in "iu":
        return old + new
    # Rounded once, to nearest even: f64 holds the sum of two elements of 16 bits, and one of f32 twice rounded alike.
    wide = old.astype(np.float64) + new.astype(np.float64)
    return (wide if old.dtype.itemsize < 8 else old + new).astype(old.dtype)


def _counted_up(old: _Array, new: _Array) -> _Array:
    return np.where(old >= new, 0, old + 1).astype(old.dtype)


def _counted_down(old: _Array, new: _Array) -> _Array:
    return np.where((old == 0) | (old > new), new, old - 1).astype(old.dtype)


_OPERATIONS: Final[dict[str, Callable[[_Array, _Array], _Array]]] = {
    "add": _added,
    "min": lambda old, new: np.fmin(old, new) if old.dtype.kind == "f" else np.minimum(old, new),
    "max": lambda old, new: np.fmax(old, new) if old.dtype.kind == "f" else np.maximum(old, new),
    "inc": _counted_up,
    "dec": _counted_down,
    "and": lambda old, new: old & new,
    "or": lambda old, new: old | new,
    "xor": lambda old, new: old ^ new,
}


def reducible(operation: str, type_: str) -> bool:
    """Return whether an operation exists for a type of elements."""
    dtype = _TYPES.get(type_)
    if dtype is None:
        return False
    return operation in ("add", "min", "max") or (dtype.kind in "iu" and operation in _OPERATIONS)


def reduce_into(arena: Arena, places: Indices, values: npt.NDArray[np.uint8], operation: str, type_: str) -> None:
    """Combine values with what memory holds; ``places`` are the addresses of all bytes, those of elements together."""
    dtype = _TYPES[type_]
    low = int(places.min())
    data = arena.data(low, int(places.max()) - low + 1)
    old = data[places - low].view(dtype)
    with np.errstate(all="ignore"):
        new = _OPERATIONS[operation](old, values.view(dtype))
    data[places - low] = np.ascontiguousarray(new).view(np.uint8)


def known_after(shadow: npt.NDArray[np.uint8], values: npt.NDArray[np.uint8]) -> npt.NDArray[np.uint8]:
    """Return the bits ``INITIALISED`` of the results, from shadow bytes of memory and of the values, of one shape."""
    return shadow & values & np.uint8(Shadow.INITIALISED)
