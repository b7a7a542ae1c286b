"""Serialisation of arrays: little-endian, C order, compressed; dtype by name, never pickled."""

from __future__ import annotations

import json
import zlib

import ml_dtypes
import numpy as np

from gpuemu_lsp.engine.fuzz.model import Array
from gpuemu_lsp.engine.store.model import StoreError

_MAX_BYTES = 1 << 30


def pack(tensor: Array) -> tuple[str, str, bytes]:
    """Return dtype name, shape as JSON and the compressed bytes.

    Raises
    ------
    StoreError
        If the dtype is an object or record type.
    """
    dtype = _dtype(tensor.dtype.name)
    if tensor.dtype.byteorder == ">":
        tensor = tensor.astype(dtype)
    return dtype.name, json.dumps(tensor.shape), zlib.compress(tensor.tobytes(), 1)


def unpack(dtype_name: str, shape_json: str, data: bytes) -> Array:
    """Return the array that :func:`pack` serialised; it is writable.

    Raises
    ------
    StoreError
        If dtype, shape and data are inconsistent.
    """
    try:
        shape = tuple(int(size) for size in json.loads(shape_json))
        raw = zlib.decompressobj().decompress(data, _MAX_BYTES)
        return np.frombuffer(raw, dtype=_dtype(dtype_name)).reshape(shape).copy()
    except (ValueError, TypeError, zlib.error) as error:
        raise StoreError(f"a stored tensor is damaged: {error}") from error


def _dtype(name: str) -> np.dtype[np.generic]:
    extended = getattr(ml_dtypes, name, None)
    try:
        dtype: np.dtype[np.generic] = np.dtype(extended if isinstance(extended, type) else name)
    except TypeError as error:
        raise StoreError(f"unknown dtype {name}") from error
    if dtype.hasobject or dtype.names is not None:
        raise StoreError(f"a tensor of dtype {name} cannot be stored")
    return dtype
