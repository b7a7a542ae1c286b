"""Functions and methods of PyTorch's tensors, on symbolic tensors."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from gpuemu_lsp.engine.plan.wrappers.values import (
    DataType,
    LiteralValue,
    Storage,
    SymbolicTensor,
    UnknownValue,
    Value,
    ValueSequence,
)
from gpuemu_lsp.engine.symbolic.size import Size, floor_divide, number, product

DTYPES = {
    **{name: name for name in ("float64", "float32", "float16", "bfloat16", "uint8", "bool")},
    **{f"int{bits}": f"int{bits}" for bits in (8, 16, 32, 64)},
    "half": "float16",
    "float": "float32",
    "double": "float64",
    "long": "int64",
    "int": "int32",
    "short": "int16",
    "float8_e4m3fn": "float8_e4m3fn",
    "float8_e5m2": "float8_e5m2",
}
"""dtypes of ``torch`` by name."""
_CREATED = {"empty": "empty", "zeros": "filled", "ones": "filled", "full": "filled", "rand": "filled"}
_CREATED |= {"randn": "filled"}
CREATORS = frozenset({*_CREATED, "randint"})
"""Functions whose sequences are shapes, and not tensors as in ``torch.cat``."""
_SAME = frozenset({"contiguous", "cuda", "cpu", "detach", "requires_grad_", "requires_grad", "clone", "npu", "data"})
_CASTS = {"float": "float32", "half": "float16", "double": "float64", "bfloat16": "bfloat16", "long": "int64"}
_CASTS |= {"int": "int32", "bool": "bool"}
_BYTES = {"float64": 8, "float16": 2, "bfloat16": 2, "int64": 8, "int16": 2, "int8": 1, "uint8": 1, "bool": 1}
_UNTYPED_BYTES = 4
"""Bytes of an element of a tensor without a dtype, which is float32; and of other types of that size."""
_ELEMENTWISE = frozenset({"relu", "exp", "exp2", "abs", "neg", "sqrt", "rsqrt", "sigmoid", "tanh"})
_ELEMENTWISE |= {"clamp", "softmax", "log_softmax", "mul", "div", "log"}
_ELEMENTWISE |= {"log2", "log1p", "expm1", "sin", "cos", "tan", "asin", "acos", "atan"}
_ELEMENTWISE |= {"sinh", "cosh", "asinh", "acosh", "atanh", "erf", "floor", "ceil", "round"}
_ELEMENTWISE |= {"trunc", "sign", "silu", "gelu", "square", "reciprocal", "clamp_min", "clamp_max", "dropout"}


def created(
    name: str, arguments: Sequence[Value], keywords: Mapping[str, Value], label: str
) -> SymbolicTensor | UnknownValue | None:
    """Return the result of ``torch.name(...)``; None for a function that creates no tensor."""
    base = name.removesuffix("_like")
    if name == "randint":
        return _integers(arguments, keywords, label)
    if name in ("arange", "randperm"):
        ends = arguments[0] if len(arguments) == 1 else None
        if not isinstance(ends, Size):
            return UnknownValue(f"torch.{name}(...)")
        storage = Storage(label, (ends,), _dtype(keywords, "int64") or "int64", "filled", bounds=(number(0), ends))
        return SymbolicTensor(storage, storage.shape, storage.dtype)
    if base not in _CREATED:
        return None
    if name != base:
        like = arguments[0] if arguments else keywords.get("input")
        if not isinstance(like, SymbolicTensor):
            return UnknownValue(f"torch.{name}(...)")
        default, shape, certain = like.dtype, like.shape, like.storage.certain
    else:
        given = arguments[:1] if base == "full" else arguments
        found = shape_of(given or [keywords.get("size", UnknownValue("the shape"))])
        if found is None:
            return UnknownValue(f"torch.{name}(...)")
        shape, default, certain = found, "float32", True
    # Extents are in elements: what type they have decides no access.
    dtype = _dtype(keywords, default) or ""
    value = {"zeros": 0, "ones": 1}.get(base) if dtype.startswith(("int", "uint")) else None
    bounds = (number(value), number(value + 1)) if value is not None else None
    storage = Storage(label, shape, dtype, _CREATED[base], certain, bounds)
    return SymbolicTensor(storage, shape, dtype)


def _integers(arguments: Sequence[Value], keywords: Mapping[str, Value], label: str) -> SymbolicTensor | UnknownValue:
    items = [*arguments]
    shape_at = keywords.get("size")
    if shape_at is None and items:
        shape_at = items.pop()
    low = items[0] if len(items) > 1 else keywords.get("low", number(0))
    high = items[-1] if items else keywords.get("high")
    shape = shape_of([shape_at]) if shape_at is not None else None
    dtype = _dtype(keywords, "int64")
    if shape is None or dtype is None or not isinstance(low, Size) or not isinstance(high, Size):
        return UnknownValue("torch.randint(...)")
    storage = Storage(label, shape, dtype, "filled", bounds=(low, high))
    return SymbolicTensor(storage, shape, dtype)


def shape_of(arguments: Sequence[Value]) -> tuple[Size, ...] | None:
    """Return the shape that is given as one sequence or as several numbers."""
    if len(arguments) == 1 and isinstance(arguments[0], ValueSequence):
        arguments = arguments[0].items
    found = tuple(one for one in arguments if isinstance(one, Size))
    return found if len(found) == len(arguments) else None


def _dtype(keywords: Mapping[str, Value], default: str) -> str | None:
    given = keywords.get("dtype")
    if given is None or (isinstance(given, LiteralValue) and given.value is None):
        return default
    return given.name if isinstance(given, DataType) else None


def attribute(tensor: SymbolicTensor, name: str) -> Value | None:
    """Return an attribute of a tensor; None for one that is not known."""
    if name == "shape":
        return ValueSequence(tensor.shape)
    if name == "dtype":
        return DataType(tensor.dtype)
    if name == "ndim":
        return number(len(tensor.shape))
    if name == "is_cuda":
        return LiteralValue(True)
    if name in ("T", "mT") and len(tensor.shape) == 2:
        return _permuted(tensor, (1, 0))
    if name == "data":
        return tensor
    return None


def method(
    tensor: SymbolicTensor, name: str, arguments: Sequence[Value], keywords: Mapping[str, Value]
) -> Value | None:
    """Return the result of a method of a tensor; None for one that is not known."""
    axis = _axis(tensor, arguments[0] if arguments else keywords.get("dim"))
    if name == "numel" or name == "nelement":
        return product(tensor.shape)
    if name in ("size", "stride"):
        whole = tuple(map(tensor.stride, range(len(tensor.shape)))) if name == "stride" else tensor.shape
        if not arguments and not keywords:
            return ValueSequence(whole)
        return whole[axis] if axis is not None else None
    if name in ("dim", "ndimension"):
        return number(len(tensor.shape))
    if name == "element_size":
        return number(_BYTES.get(tensor.dtype, _UNTYPED_BYTES))
    if name == "is_contiguous":
        return LiteralValue(tensor.strides is None)
    if name in ("contiguous", "clone") and (tensor.strides is not None or tensor.offset is not None):
        return copied(tensor, tensor.dtype)
    if name in _SAME:
        return tensor
    if name in ("to", "type"):
        given = [one for one in (*arguments, *keywords.values()) if isinstance(one, DataType)]
        return tensor if not given or given[0].name == tensor.dtype else copied(tensor, given[0].name)
    if name in _CASTS and not arguments:
        return tensor if _CASTS[name] == tensor.dtype else copied(tensor, _CASTS[name])
    if name in ("view", "reshape"):
        return _reshaped(tensor, arguments)
    if name == "flatten":
        return _flattened(tensor, arguments)
    if name in ("view_as", "reshape_as") and arguments and isinstance(arguments[0], SymbolicTensor):
        return _reshaped(tensor, arguments[0].shape)
    if name in ("chunk", "split", "narrow", "select"):
        return parts(tensor, name, [*arguments, *keywords.values()])
    if name in ("t", "transpose", "permute", "unsqueeze", "squeeze"):
        return _rearranged(tensor, name, arguments)
    if name in ("new_empty", "new_zeros", "new_ones", "new_full"):
        given_dtype = keywords if "dtype" in keywords else {**keywords, "dtype": DataType(tensor.dtype)}
        return created(name.removeprefix("new_"), arguments, given_dtype, name)
    if name in ("zero_", "fill_", "normal_", "uniform_", "copy_", "random_"):
        tensor.storage.state = "filled"
        return tensor
    return copied(tensor, tensor.dtype) if name in _ELEMENTWISE else None


def copied(tensor: SymbolicTensor, dtype: str) -> SymbolicTensor:
    """Return a contiguous copy with a dtype."""
    old = tensor.storage
    storage = Storage(old.name, tensor.shape, dtype, "filled", old.certain, old.bounds)
    return SymbolicTensor(storage, tensor.shape, dtype)


def _axis(tensor: SymbolicTensor, value: Value | None) -> int | None:
    number = value.constant if isinstance(value, Size) else None
    rank = len(tensor.shape)
    return number % rank if number is not None and rank and -rank <= number < rank else None


def _reshaped(tensor: SymbolicTensor, arguments: Sequence[Value]) -> SymbolicTensor | None:
    shape = shape_of(arguments)
    if shape is None or tensor.strides is not None or tensor.offset is not None:
        return None
    open_axes = [index for index, one in enumerate(shape) if one.constant == -1]
    if len(open_axes) > 1:
        return None
    if open_axes:
        at = open_axes[0]
        rest = floor_divide(product(tensor.shape), product((*shape[:at], *shape[at + 1 :])))
        shape = (*shape[:at], rest, *shape[at + 1 :])
    return SymbolicTensor(tensor.storage, shape, tensor.dtype)


def _flattened(tensor: SymbolicTensor, arguments: Sequence[Value]) -> SymbolicTensor | None:
    ends = [_axis(tensor, one) for one in arguments]
    first, last = (*ends, *(0, len(tensor.shape) - 1)[len(ends) :])[:2]
    if first is None or last is None or first > last:
        return None
    shape = (*tensor.shape[:first], product(tensor.shape[first : last + 1]), *tensor.shape[last + 1 :])
    return _reshaped(tensor, shape)


def _rearranged(tensor: SymbolicTensor, name: str, arguments: Sequence[Value]) -> SymbolicTensor | None:
    rank = len(tensor.shape)
    if name == "t":
        return _permuted(tensor, (1, 0)) if rank == 2 else None
    given = arguments[0].items if len(arguments) == 1 and isinstance(arguments[0], ValueSequence) else arguments
    axes = [_axis(tensor, one) for one in given]
    if name == "transpose" and len(axes) == 2 and axes[0] is not None and axes[1] is not None:
        order = list(range(rank))
        order[axes[0]], order[axes[1]] = order[axes[1]], order[axes[0]]
        return _permuted(tensor, tuple(order))
    if name == "permute" and len(axes) == rank and None not in axes:
        return _permuted(tensor, tuple(one for one in axes if one is not None))
    if name == "unsqueeze" and tensor.strides is None and len(given) == 1 and isinstance(given[0], Size):
        at = given[0].constant
        if at is not None and -rank - 1 <= at <= rank:
            at %= rank + 1
            shape = (*tensor.shape[:at], number(1), *tensor.shape[at:])
            return SymbolicTensor(tensor.storage, shape, tensor.dtype, None, tensor.offset)
    return None


def part(tensor: SymbolicTensor, axis: int, first: Size, length: Size) -> SymbolicTensor:
    """Return the view of ``length`` elements along an axis, from ``first`` on."""
    strides = tuple(map(tensor.stride, range(len(tensor.shape))))
    shape = (*tensor.shape[:axis], length, *tensor.shape[axis + 1 :])
    moved = first * strides[axis]
    offset = moved if tensor.offset is None else tensor.offset + moved
    contiguous = tensor.strides is None and axis == 0
    return SymbolicTensor(
        tensor.storage, shape, tensor.dtype, None if contiguous else strides, offset if offset.constant != 0 else None
    )


def selected(tensor: SymbolicTensor, axis: int, index: Size) -> SymbolicTensor:
    """Return the view of one index of an axis, which it no longer has."""
    one = part(tensor, axis, index, number(1))
    strides = one.strides
    return replace(
        one,
        shape=(*one.shape[:axis], *one.shape[axis + 1 :]),
        strides=None if strides is None else (*strides[:axis], *strides[axis + 1 :]),
    )


def parts(tensor: SymbolicTensor, name: str, arguments: Sequence[Value]) -> Value | None:
    """Return the results of ``chunk(count, dim)``, ``split(length, dim)``, ``narrow`` and ``select``."""
    numbers = [one for one in arguments if isinstance(one, Size)]
    at = 0 if name in ("narrow", "select") else 1
    axis = _axis(tensor, numbers[at] if len(numbers) > at else number(0))
    if axis is None or not numbers or len(numbers) != len(arguments):
        return None
    extent = tensor.shape[axis]
    if name == "narrow" and len(numbers) == 3:
        return part(tensor, axis, numbers[1], numbers[2])
    if name == "select" and len(numbers) == 2:
        return selected(tensor, axis, numbers[1])
    count = numbers[0].constant if name == "chunk" else floor_divide(extent, numbers[0]).constant
    if count is None or not 0 < count < 9:
        return None
    length = floor_divide(extent, number(count)) if name == "chunk" else numbers[0]
    return ValueSequence(tuple(part(tensor, axis, number(index) * length, length) for index in range(count)))


def _permuted(tensor: SymbolicTensor, order: tuple[int, ...]) -> SymbolicTensor:
    shape = tuple(tensor.shape[axis] for axis in order)
    strides = tuple(tensor.stride(axis) for axis in order)
    return SymbolicTensor(tensor.storage, shape, tensor.dtype, strides, tensor.offset)
