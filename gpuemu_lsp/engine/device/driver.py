"""Functions of the CUDA driver that CuPy does not bind: tensor maps, and launches in clusters or of a whole grid."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from functools import cache

from gpuemu_lsp.engine.execution import Dim3
from gpuemu_lsp.engine.tensor_map import ELEMENT_TYPES, MAP_BYTES, TensorMap, decode

_MAP_ALIGNMENT = 64
_COOPERATIVE, _CLUSTER_DIMENSION = 2, 4
"""``CU_LAUNCH_ATTRIBUTE_COOPERATIVE`` and ``_CLUSTER_DIMENSION``."""
_UNTYPED = {1: "u8", 2: "u16", 4: "u32", 8: "u64"}


class DriverError(RuntimeError):
    """A call of the driver that failed; ``status`` is its ``CUresult``, as of CuPy's errors."""

    def __init__(self, function: str, status: int) -> None:
        super().__init__(f"{function} returned {status}")
        self.status = status


class _LaunchAttribute(ctypes.Structure):
    """``CUlaunchAttribute``, whose value is a union of 64 bytes."""

    _fields_ = (("id", ctypes.c_int), ("padding", ctypes.c_byte * 4), ("value", ctypes.c_uint * 16))


class _LaunchConfig(ctypes.Structure):
    """``CUlaunchConfig``."""

    _fields_ = (
        ("grid", ctypes.c_uint * 3),
        ("block", ctypes.c_uint * 3),
        ("shared_bytes", ctypes.c_uint),
        ("stream", ctypes.c_void_p),
        ("attributes", ctypes.POINTER(_LaunchAttribute)),
        ("attribute_count", ctypes.c_uint),
    )


def launch(
    function: int,
    parameters: ctypes.Array[ctypes.c_void_p],
    grid: Dim3,
    block: Dim3,
    shared_bytes: int,
    cluster: Dim3 | None = None,
    cooperative: bool = False,
) -> None:
    """Launch a kernel (``cuLaunchKernelEx``), in clusters of ``cluster`` blocks, or with barriers of the whole grid.

    Raises
    ------
    DriverError
        If the driver refuses the launch.
    """
    values: list[tuple[int, tuple[int, ...]]] = []
    if cluster is not None:
        values.append((_CLUSTER_DIMENSION, cluster))
    if cooperative:
        values.append((_COOPERATIVE, (1,)))
    attributes = (_LaunchAttribute * max(len(values), 1))()
    for attribute, (number, value) in zip(attributes, values, strict=False):
        attribute.id = number
        attribute.value[: len(value)] = value
    config = _LaunchConfig(grid, block, shared_bytes, None, attributes, len(values))
    _call("cuLaunchKernelEx", ctypes.byref(config), ctypes.c_void_p(function), parameters, None)


def with_driver_maps(parameter: bytes) -> bytes:
    """Return the bytes of a parameter with our records of tensor maps replaced by the driver's.

    Raises
    ------
    DriverError
        If the driver refuses a map.
    """
    result = bytearray(parameter)
    for start in range(0, len(parameter) - MAP_BYTES + 1, _MAP_ALIGNMENT):
        tensor = decode(parameter[start : start + MAP_BYTES])
        if tensor is not None:
            result[start : start + MAP_BYTES] = _driver_map(tensor)
    return bytes(result)


def _driver_map(tensor: TensorMap) -> bytes:
    space = ctypes.create_string_buffer(MAP_BYTES + _MAP_ALIGNMENT)
    aligned = -(-ctypes.addressof(space) // _MAP_ALIGNMENT) * _MAP_ALIGNMENT
    type_ = tensor.type or _UNTYPED[tensor.element_size]
    rank = tensor.rank
    _call(
        "cuTensorMapEncodeTiled",
        ctypes.c_void_p(aligned),
        ELEMENT_TYPES.index(type_) - 1,
        rank,
        ctypes.c_void_p(tensor.address),
        _numbers(ctypes.c_uint64, tensor.sizes),
        _numbers(ctypes.c_uint64, tensor.strides),
        _numbers(ctypes.c_uint32, tensor.box),
        _numbers(ctypes.c_uint32, tensor.element_strides or (1,) * rank),
        tensor.interleave,
        tensor.swizzle,
        0,  # no promotion of L2 accesses
        int(tensor.nan_fill),
    )
    return ctypes.string_at(aligned, MAP_BYTES)


def _numbers(type_: type[ctypes.c_uint64 | ctypes.c_uint32], values: Sequence[int]) -> ctypes.Array[ctypes.c_uint64]:
    return (type_ * max(len(values), 1))(*values)  # type: ignore[return-value]


def _call(function: str, *arguments: object) -> None:
    status = getattr(_library(), function)(*arguments)
    if status:
        raise DriverError(function, status)


@cache
def _library() -> ctypes.CDLL:
    return ctypes.CDLL("libcuda.so.1")
