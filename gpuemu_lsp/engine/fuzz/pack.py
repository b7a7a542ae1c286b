"""Conversion of a case to the argument bytes of an executor, and of output bytes to arrays."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from gpuemu_lsp.engine.execution import Argument, Buffer, Bytes, Scalar, StructArgument
from gpuemu_lsp.engine.fuzz.dtypes import is_float, numpy_dtype
from gpuemu_lsp.engine.fuzz.geometry import strides
from gpuemu_lsp.engine.fuzz.model import Array, Case
from gpuemu_lsp.engine.fuzz.recorded import with_recorded_memory
from gpuemu_lsp.engine.plan.model import Plan, PlanArg, ScalarArg, TensorArg, parameters
from gpuemu_lsp.engine.project.expressions import evaluate
from gpuemu_lsp.engine.texture import AddressMode, ChannelKind, Sampling, Texture, texture_object

_FLOAT_POISON = 0xFF
"""NaN in every supported float format, e4m3fn included."""
_CHANNEL_KINDS = {"u": ChannelKind.UNSIGNED}
_INTEGER_POISON = 0xA5
"""An improbable integer result; not a valid bool."""


def pack_arguments(plan: Plan, case: Case) -> tuple[Argument, ...]:
    """Return the launch's arguments in C order.

    Outputs and the gaps of strided tensors are poisoned, and outputs are marked as uninitialised. An output that
    aliases an input has the input's values.
    """
    packed = tuple(_argument(args, case) for args in parameters(plan.args))
    return packed if plan.recorded is None else with_recorded_memory(plan.recorded, case, packed)


def shape_of(case: Case, param: str) -> tuple[int, ...]:
    """Return the shape of a tensor argument of a case."""
    return case.outputs[param] if param in case.outputs else tuple(case.tensors[param].shape)


def unpack(arg: TensorArg, case: Case, data: Bytes) -> Array | None:
    """Return a tensor's elements from its buffer's bytes, or None if the buffer is too short."""
    shape = shape_of(case, arg.param)
    dtype = numpy_dtype(arg.dtype)
    if dtype == np.bool_:
        # As bool every nonzero byte would be True; as uint8 a poisoned one is still distinct.
        dtype = np.dtype(np.uint8)
    steps = strides(case.extra, arg.param, shape)
    if data.size < _span(shape, steps) * dtype.itemsize:
        return None
    return _view(np.ascontiguousarray(data), dtype, shape, steps).copy()


def with_elements(
    arg: TensorArg, case: Case, data: Bytes, chosen: npt.NDArray[np.bool_], values: Array
) -> tuple[Bytes, npt.NDArray[np.bool_]]:
    """Return a buffer's bytes with the ``chosen`` elements replaced by those of ``values``, and a mask of these bytes.

    ``values`` has the shape of the tensor and is converted to its dtype.
    """
    dtype = numpy_dtype(arg.dtype)
    shape = shape_of(case, arg.param)
    steps = strides(case.extra, arg.param, shape)
    replaced, marks = np.array(data), np.zeros_like(data)
    with np.errstate(invalid="ignore", over="ignore"):
        _view(replaced, dtype, shape, steps)[chosen] = values[chosen].astype(dtype)
    _view(marks, np.dtype(f"V{dtype.itemsize}"), shape, steps)[chosen] = np.void(b"\1" * dtype.itemsize)
    return replaced, marks != 0


def byte_offset(arg: TensorArg, case: Case, index: tuple[int, ...]) -> int:
    """Return the offset of an element in its buffer, in bytes."""
    steps = strides(case.extra, arg.param, shape_of(case, arg.param))
    return sum(i * step for i, step in zip(index, steps, strict=True)) * numpy_dtype(arg.dtype).itemsize


def poison(dtype: str) -> int:
    """Return the byte that fills outputs of a dtype before the run."""
    return _FLOAT_POISON if is_float(dtype) else _INTEGER_POISON


def element_written(arg: TensorArg, case: Case, mask: Mapping[str, object] | None) -> np.ndarray | None:
    """Return a mask of the elements of which every byte was written, or None if the executor does not record writes."""
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


def _argument(args: tuple[PlanArg, ...], case: Case) -> Argument:
    """Return the argument of one parameter, which is a struct if its arguments are members."""
    member = args[0].member
    if member is None:
        (arg,) = args
        return _scalar(arg, case) if isinstance(arg, ScalarArg) else _pointer(arg, case)
    data = bytearray(member.size)  # padding is zero
    pointers = []
    for arg in args:
        assert arg.member is not None
        offset = arg.member.offset
        if isinstance(arg, TensorArg):
            pointers.append((offset, _pointer(arg, case)))
        else:
            raw = case.scalars[arg.param].tobytes()
            data[offset : offset + len(raw)] = raw
    return StructArgument(member.struct, bytes(data), tuple(pointers))


def _scalar(arg: ScalarArg, case: Case) -> Scalar:
    return Scalar(arg.param, case.scalars[arg.param].tobytes())


def _pointer(arg: TensorArg, case: Case) -> Buffer:
    """Return what the address in a parameter is that of: a buffer, or the record of a texture over it."""
    buffer = pack_buffer(arg, case)
    if arg.texture is None:
        return buffer
    *extents, channels = shape_of(case, arg.param)
    width, height, depth = (*reversed(extents), 1, 1)[:3]
    kind = ChannelKind.FLOAT if is_float(arg.dtype) else _CHANNEL_KINDS.get(arg.dtype[:1], ChannelKind.SIGNED)
    spec = arg.texture
    modes = tuple(AddressMode(mode) for mode in spec.modes)
    sampling = Sampling(
        (modes[0], modes[1], modes[2]), linear=spec.linear, normalised=spec.normalised, as_float=spec.as_float
    )
    texture = Texture((width, height, depth), numpy_dtype(arg.dtype).itemsize, channels, kind, sampling)
    return texture_object(f"{arg.param} (object)", texture, buffer)


def pack_buffer(arg: TensorArg, case: Case) -> Buffer:
    """Return the buffer of one tensor."""
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
    known = _written_bytes(arg, case, data) if values is not None else None
    padding = _padding(dtype, shape, steps)
    if values is not None and padding is not None:
        known = ~padding if known is None else known & ~padding
    return Buffer(
        name=arg.param,
        data=data,
        initialized=values is not None and known is None,
        initialized_bytes=known,
        padding=padding,
        element_size=dtype.itemsize,
        offset=int(case.extra.get(f"offset:{arg.param}", "0")),
        alias_of=alias,
        pointer_offset=int(case.extra.get(f"pointer:{arg.param}", "0")),
    )


def _padding(dtype: np.dtype[Any], shape: tuple[int, ...], steps: tuple[int, ...]) -> npt.NDArray[np.bool_] | None:
    """Return which bytes of a buffer are between its elements; None if there are none."""
    size = _span(shape, steps) * dtype.itemsize
    if size == math.prod(shape) * dtype.itemsize:
        return None
    elements = np.zeros(size, np.uint8)
    _view(elements, np.dtype(f"V{dtype.itemsize}"), shape, steps)[...] = np.void(b"\1" * dtype.itemsize)
    return np.equal(elements, 0)


def _written_bytes(arg: TensorArg, case: Case, data: Bytes) -> npt.NDArray[np.bool_] | None:
    """Poison the bytes of a buffer that the program has not written, and return which it has; None for all."""
    count = None if arg.initialized is None else evaluate(arg.initialized, case.dims)
    if count is None or count >= data.size:
        return None
    data[max(count, 0) :] = poison(arg.dtype)
    return np.arange(data.size) < count


def _view(data: Array, dtype: np.dtype[Any], shape: tuple[int, ...], steps: tuple[int, ...]) -> Array:
    """Return a view of the elements; ``steps`` in elements. ``as_strided`` does not support the fp8 types."""
    return np.ndarray(shape, dtype, data.data, strides=tuple(step * dtype.itemsize for step in steps))


def _span(shape: tuple[int, ...], steps: tuple[int, ...]) -> int:
    """Return the number of elements from the first to one past the last."""
    return 1 + sum((extent - 1) * step for extent, step in zip(shape, steps, strict=True))
