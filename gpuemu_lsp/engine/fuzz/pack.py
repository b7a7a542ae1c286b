"""A case as the raw argument bytes an executor takes, and the bytes that come back as arrays."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from gpuemu_lsp.engine.execution import Argument, Buffer, Bytes, Scalar
from gpuemu_lsp.engine.fuzz.dtypes import is_float, numpy_dtype
from gpuemu_lsp.engine.fuzz.geometry import strides
from gpuemu_lsp.engine.fuzz.model import Array, Case
from gpuemu_lsp.engine.plan.model import Plan, ScalarArg, TensorArg

_FLOAT_POISON = 0xFF
"""NaN in every float format we know, e4m3fn included."""
_INTEGER_POISON = 0xA5
"""A value no kernel computes by accident; for bool it is not even a valid one."""


def pack_arguments(plan: Plan, case: Case) -> tuple[Argument, ...]:
    """Return the launch's arguments in C order.

    Outputs are poisoned and marked as not written; so are the gaps of strided tensors poisoned. An output that shares
    an input's memory holds the input's values.
    """
    return tuple(_scalar(arg, case) if isinstance(arg, ScalarArg) else _buffer(arg, case) for arg in plan.args)


def shape_of(case: Case, param: str) -> tuple[int, ...]:
    """Return the shape of a tensor argument of a case."""
    return case.outputs[param] if param in case.outputs else tuple(case.tensors[param].shape)


def unpack(arg: TensorArg, case: Case, data: Bytes) -> Array | None:
    """Return a tensor's elements from its buffer's bytes, or None where there are too few of them."""
    shape = shape_of(case, arg.param)
    dtype = numpy_dtype(arg.dtype)
    if dtype == np.bool_:
        # Any byte but 0 would read as True: keep the bytes apart, so that a poisoned one is seen as what it is.
        dtype = np.dtype(np.uint8)
    steps = strides(case.extra, arg.param, shape)
    if data.size < _span(shape, steps) * dtype.itemsize:
        return None
    return _view(np.ascontiguousarray(data), dtype, shape, steps).copy()


def byte_offset(arg: TensorArg, case: Case, index: tuple[int, ...]) -> int:
    """Return where an element lies in its buffer."""
    steps = strides(case.extra, arg.param, shape_of(case, arg.param))
    return sum(i * step for i, step in zip(index, steps, strict=True)) * numpy_dtype(arg.dtype).itemsize


def poison(dtype: str) -> int:
    """Return the byte that fills an output of a dtype before the run."""
    return _FLOAT_POISON if is_float(dtype) else _INTEGER_POISON


def element_written(arg: TensorArg, case: Case, mask: Mapping[str, object] | None) -> np.ndarray | None:
    """Return which elements were stored to (all of their bytes), or None where the executor cannot know."""
    written = None if mask is None else mask.get(arg.param)
    if not isinstance(written, np.ndarray):
        return None
    size = numpy_dtype(arg.dtype).itemsize
    shape = shape_of(case, arg.param)
    steps = strides(case.extra, arg.param, shape)
    if written.size < _span(shape, steps) * size:
        return None
    whole = np.asarray(written[: written.size // size * size].reshape(-1, size).all(axis=1))
    return _view(whole, np.dtype(np.bool_), shape, steps).copy()


def _scalar(arg: ScalarArg, case: Case) -> Scalar:
    return Scalar(arg.param, case.scalars[arg.param].tobytes())


def _buffer(arg: TensorArg, case: Case) -> Buffer:
    dtype = numpy_dtype(arg.dtype)
    shape = shape_of(case, arg.param)
    steps = strides(case.extra, arg.param, shape)
    data = np.full(_span(shape, steps) * dtype.itemsize, poison(arg.dtype), dtype=np.uint8)
    alias = case.extra.get(f"alias:{arg.param}")
    values = case.tensors.get(arg.param)
    if values is None and alias is not None:
        values = case.tensors.get(alias)
    if values is not None:
        _view(data, dtype, shape, steps)[...] = values
    return Buffer(
        name=arg.param,
        data=data,
        initialized=values is not None,
        element_size=dtype.itemsize,
        offset=int(case.extra.get(f"offset:{arg.param}", "0")),
        alias_of=alias,
    )


def _view(data: Array, dtype: np.dtype[Any], shape: tuple[int, ...], steps: tuple[int, ...]) -> Array:
    """Return the elements in ``data``'s memory; ``steps`` in elements. ``as_strided`` does not know the fp8 types."""
    return np.ndarray(shape, dtype, data.data, strides=tuple(step * dtype.itemsize for step in steps))


def _span(shape: tuple[int, ...], steps: tuple[int, ...]) -> int:
    """Elements from the first to one past the last one."""
    return 1 + sum((extent - 1) * step for extent, step in zip(shape, steps, strict=True))
