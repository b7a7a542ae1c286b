"""Methods, attributes and subscripts of tensors and arrays: views, copies and what describes them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TypeAlias

from gpuemu_lsp.engine.hostcode.interpreter import Method
from gpuemu_lsp.engine.hostcode.layouts import note_read_strides
from gpuemu_lsp.engine.hostcode.state import Execution
from gpuemu_lsp.engine.hostcode.tensor_functions import created
from gpuemu_lsp.engine.hostcode.tensor_results import axis_of, extreme_along, in_order, largest
from gpuemu_lsp.engine.hostcode.tensors import (
    BYTES,
    DATA_TYPES,
    OPTIONAL,
    SIZES,
    STRIDES,
    as_tensor,
    contiguous_copy,
    copied,
    data_type,
    items_of,
    listed,
    number_of,
    sizes_given,
    sizes_record,
    split_arguments,
    tensor_elements,
    tensor_rank,
    tensor_size,
    tensor_stride,
    tensor_strides,
)
from gpuemu_lsp.engine.hostcode.values import (
    Contents,
    DataType,
    Lvalue,
    Pointer,
    RecordValue,
    StringValue,
    Tensor,
    Undetermined,
    Unknown,
    Value,
    is_null,
)
from gpuemu_lsp.engine.symbolic.conditions import Condition
from gpuemu_lsp.engine.symbolic.size import (
    ONE,
    ZERO,
    Size,
    add,
    floor_divide,
    modulo,
    multiply,
    number,
    product,
)

_BYTES = {"float64": 8, "float16": 2, "bfloat16": 2, "int64": 8, "int16": 2, "int8": 1, "uint8": 1, "bool": 1}
_UNTYPED_BYTES = 4
"""Bytes of an element of a tensor without a type, which is float32; and of other types of that size."""
_ELEMENTWISE = (
    "relu", "exp", "exp2", "abs", "neg", "sqrt", "rsqrt", "sigmoid", "tanh", "clamp", "softmax", "log_softmax", "mul",
    "div", "log", "log2", "log1p", "expm1", "sin", "cos", "tan", "asin", "acos", "atan", "sinh", "cosh", "asinh",
    "acosh", "atanh", "erf", "floor", "ceil", "round", "trunc", "sign", "silu", "gelu", "square", "reciprocal",
    "clamp_min", "clamp_max", "dropout",
)  # fmt: skip
_UNCHANGED = ("cuda", "cpu", "detach", "requires_grad_", "requires_grad", "npu", "numpy")
_MAX_PARTS = 8
TensorMethod: TypeAlias = "Callable[[Execution, Tensor, list[Value]], Value | None]"
"""A method of a tensor: it is passed its arguments, those by name last, and returns None where it is not known."""


# ---- views


def _reshaped(tensor: Tensor, sizes: tuple[Size, ...] | None) -> Tensor | None:
    if sizes is None or tensor.sizes is None or not tensor.is_whole:
        return None
    open_axes = [axis for axis, size in enumerate(sizes) if size.constant == -1]
    if len(open_axes) > 1:
        return None
    for axis in open_axes:
        rest = floor_divide(product(tensor.sizes), product((*sizes[:axis], *sizes[axis + 1 :])))
        sizes = (*sizes[:axis], rest, *sizes[axis + 1 :])
    return replace(tensor, sizes=sizes)


def _flattened(run: Execution, tensor: Tensor, values: list[Value]) -> Tensor | None:
    sizes = tensor.sizes or ()
    ends = values if len(values) > 1 else [ZERO, number(-1)]
    first, last = axis_of(tensor, values or [ZERO]), axis_of(tensor, ends, 1)
    if first is None or last is None or first > last:
        return None
    return _reshaped(tensor, (*sizes[:first], product(sizes[first : last + 1]), *sizes[last + 1 :]))


def _permuted(run: Execution, tensor: Tensor, order: Sequence[int | None]) -> Tensor | None:
    """Return the view of a tensor with its axes in another order."""
    sizes, strides, known = (
        tensor.sizes or (),
        tensor_strides(run, tensor),
        [axis for axis in order if axis is not None],
    )
    if sorted(known) != [*range(len(sizes))] or not sizes:
        return None
    return replace(tensor, sizes=tuple(sizes[axis] for axis in known), strides=tuple(strides[axis] for axis in known))


def _transposed(run: Execution, tensor: Tensor, values: Sequence[Value] = (ZERO, ONE)) -> Tensor | None:
    first, second = axis_of(tensor, values), axis_of(tensor, values, 1)
    swapped = {first: second, second: first}
    return _permuted(run, tensor, [swapped.get(axis, axis) for axis in range(len(tensor.sizes or ()))])


def _matrix_transposed(run: Execution, tensor: Tensor) -> Tensor | None:
    return _transposed(run, tensor) if len(tensor.sizes or ()) == 2 else None


def _part(run: Execution, tensor: Tensor, axis: int, begin: Size, length: Size) -> Tensor:
    """Return the view of ``length`` elements along an axis, from ``begin`` on."""
    sizes, strides = tensor.sizes or (), tensor_strides(run, tensor)
    offset = add(tensor.offset, multiply(begin, strides[axis]))
    contiguous = tensor.strides is None and axis == 0
    sizes = (*sizes[:axis], length, *sizes[axis + 1 :])
    return replace(tensor, sizes=sizes, strides=None if contiguous else strides, offset=offset)


def _selected(run: Execution, tensor: Tensor, axis: int, index: Size) -> Tensor:
    """Return the view of one index of an axis, which it no longer has."""
    view = _part(run, tensor, axis, index, ONE)
    sizes, strides = view.sizes or (), view.strides
    strides = None if strides is None else (*strides[:axis], *strides[axis + 1 :])
    return replace(view, sizes=(*sizes[:axis], *sizes[axis + 1 :]), strides=strides)


def _narrowed(run: Execution, tensor: Tensor, values: list[Value]) -> Tensor | None:
    axis, ends = axis_of(tensor, values), [value for value in values[1:] if isinstance(value, Size)]
    return _part(run, tensor, axis, *ends) if axis is not None and len(ends) == len(values) - 1 == 2 else None


def _select(run: Execution, tensor: Tensor, values: list[Value]) -> Tensor | None:
    axis, index = axis_of(tensor, values), values[1] if len(values) == 2 else None
    return _selected(run, tensor, axis, index) if axis is not None and isinstance(index, Size) else None


def _parts(run: Execution, tensor: Tensor, values: list[Value], chunks: bool = False) -> Value | None:
    """Return the results of ``split(length, dim)``, or of ``chunk(count, dim)``."""
    axis, wanted = axis_of(tensor, [*values, ZERO], 1), values[0] if values else None
    if axis is None or not isinstance(wanted, Size):
        return None
    extent = (tensor.sizes or ())[axis]
    count = wanted.constant if chunks else floor_divide(extent, wanted).constant
    if count is None or not 0 < count <= _MAX_PARTS:
        return None
    length = floor_divide(extent, number(count)) if chunks else wanted
    if chunks:
        # A tensor divides evenly: the kernel gets the sizes of one part.
        run.assume(Condition(None, "==", modulo(extent, number(count)), ZERO))
    return listed([_part(run, tensor, axis, multiply(number(index), length), length) for index in range(count)])


def _unsqueezed(run: Execution, tensor: Tensor, values: list[Value]) -> Tensor | None:
    at = values[0].constant if values and isinstance(values[0], Size) else None
    rank = len(tensor.sizes or ()) + 1
    if tensor.sizes is None or tensor.strides is not None or at is None or not -rank <= at < rank:
        return None
    return replace(tensor, sizes=(*tensor.sizes[: at % rank], ONE, *tensor.sizes[at % rank :]))


# ---- subscripts


def subscripted(run: Execution, base: Value, index: Value) -> Value | None:
    """Return the value of ``x[index]`` for a tensor or a list; None for another object, or another index.

    ``index`` is a number, a slice, ``...``, None, or a list of these.
    """
    keys = items_of(run, index) if isinstance(index, RecordValue) and index.type == "list" else None
    is_view = keys is not None or _is_a(index, "slice") or _is_a(index, "Ellipsis")
    if isinstance(base, Tensor) or (isinstance(base, Undetermined) and is_view):
        tensor = as_tensor(run, base)
        return _view(run, tensor, keys if keys is not None else [index]) if tensor is not None else None
    items = items_of(run, base)
    if items is None:
        return None
    if isinstance(index, RecordValue) and index.type == "slice":
        ends = [None if is_null(end) else run.integer(end) for end in index.fields.values()]
        known = [None if end is None else end.constant for end in ends]
        plain = all(is_null(end) or value is not None for end, value in zip(index.fields.values(), known, strict=True))
        return listed(items[slice(*known)]) if plain else None
    position = index.constant if isinstance(index, Size) else None
    return items[position] if position is not None and -len(items) <= position < len(items) else None


def _is_a(value: Value, kind: str) -> bool:
    return isinstance(value, RecordValue) and value.type == kind


def _view(run: Execution, tensor: Tensor, keys: Sequence[Value]) -> Tensor | None:
    if tensor.sizes is None:
        return None
    given = len([key for key in keys if not is_null(key) and not _is_a(key, "Ellipsis")])
    axis, view = 0, tensor
    for key in keys:
        if _is_a(key, "Ellipsis"):
            axis += len(tensor.sizes) - given
            continue
        sizes = view.sizes or ()
        if axis >= len(sizes):
            return None
        if isinstance(key, RecordValue) and key.type == "slice":
            ends = _slice_ends(run, key, sizes[axis])
            if ends is None:
                return None
            if ends != (ZERO, sizes[axis]):
                view = _part(run, view, axis, ends[0], add(ends[1], ends[0], -1))
            axis += 1
            continue
        index = number_of(run, key)
        if not isinstance(index, Size):
            return None
        view = _selected(run, view, axis, add(sizes[axis], index) if (index.constant or 0) < 0 else index)
    return view


def _slice_ends(run: Execution, key: RecordValue, extent: Size) -> tuple[Size, Size] | None:
    """Return the ends of a slice without a step."""
    ends: list[Size] = []
    for value, default in zip(key.fields.values(), (ZERO, extent), strict=False):
        end = default if is_null(value) else number_of(run, value)
        if not isinstance(end, Size):
            return None
        ends.append(add(extent, end) if (end.constant or 0) < 0 else end)
    return (ends[0], ends[1]) if len(ends) == len(key.fields) == 2 else None


# ---- methods


def _stride(run: Execution, tensor: Tensor, values: list[Value]) -> Value | None:
    axis = values[0] if values else None
    note_read_strides(run, tensor, axis.constant if isinstance(axis, Size) else None)
    if not values and tensor.sizes is not None:
        return RecordValue(STRIDES, {"of": tensor, **listed(tensor_strides(run, tensor)).fields})
    return tensor_stride(run, tensor, axis.constant) if isinstance(axis, Size) else None


def _size(run: Execution, tensor: Tensor, values: list[Value]) -> Value | None:
    if not values:
        return sizes_record(tensor)
    return tensor_size(run, tensor, values[0].constant) if isinstance(values[0], Size) else None


def _converted(run: Execution, tensor: Tensor, values: list[Value]) -> Tensor:
    """Return a tensor with another type of elements, if one of the arguments is such a type."""
    types = [value for value in values if isinstance(value, DataType)]
    same = not types or types[0].name == run.memory(tensor.allocation).dtype
    return tensor if same else copied(run, tensor, types[0].name)


def _elementwise(run: Execution, tensor: Tensor, values: list[Value]) -> Tensor:
    """Return the result of a function of each element, which of integers may be a fraction."""
    dtype = run.memory(tensor.allocation).dtype
    return copied(run, tensor, dtype if dtype.startswith(("float", "bfloat")) else "")


def _filled(run: Execution, tensor: Tensor, values: list[Value]) -> Tensor:
    run.set_memory(tensor.allocation, replace(run.memory(tensor.allocation), contents=Contents("any")))
    run.reached.written.add(tensor.allocation)
    return tensor


def _reshaped_as(run: Execution, tensor: Tensor, values: list[Value]) -> Tensor | None:
    other = as_tensor(run, values[0]) if values else None
    return _reshaped(tensor, other.sizes) if other is not None else None


def _cast_to(dtype: str) -> TensorMethod:
    return lambda run, tensor, values: _converted(run, tensor, [DataType(dtype)])


def _method(function: TensorMethod) -> Method:
    """Return a method of tensors, which a parameter without a type is from its call on."""

    def apply(
        run: Execution, owner: Value, values: list[Value], place: Lvalue | Pointer | None, template: tuple[str, ...]
    ) -> Value | None:
        tensor = as_tensor(run, owner)
        if tensor is None:
            return None
        given, keywords = split_arguments(values)
        items = items_of(run, given[0]) if len(given) == 1 else None
        values = [number_of(run, value) for value in (*(given if items is None else items), *keywords.values())]
        return function(run, tensor, values)

    return apply


def _method_new(name: str) -> Method:
    def apply(
        run: Execution, owner: Value, values: list[Value], place: Lvalue | Pointer | None, template: tuple[str, ...]
    ) -> Value | None:
        tensor = as_tensor(run, owner)
        return created(run, name, values, run.memory(tensor.allocation).dtype) if tensor is not None else None

    return apply


def _method_sizes(
    run: Execution, owner: Value, values: list[Value], place: Lvalue | Pointer | None, template: tuple[str, ...]
) -> Value | None:
    tensor = as_tensor(run, owner)
    if tensor is not None:
        return sizes_record(tensor)
    return owner if isinstance(owner, RecordValue) and owner.type == SIZES else None


def _method_has_value(
    run: Execution, owner: Value, values: list[Value], place: Lvalue | Pointer | None, template: tuple[str, ...]
) -> Value | None:
    if isinstance(owner, Tensor):
        return Condition(True)
    known = isinstance(owner, RecordValue) and owner.type == OPTIONAL
    return Condition(None if owner.fields else False) if known and isinstance(owner, RecordValue) else None


def _method_value(
    run: Execution, owner: Value, values: list[Value], place: Lvalue | Pointer | None, template: tuple[str, ...]
) -> Value | None:
    known = isinstance(owner, RecordValue) and owner.type == OPTIONAL
    value = owner.fields.get("value", Unknown()) if known and isinstance(owner, RecordValue) else None
    return value or (owner if isinstance(owner, Tensor) else None)


_MEMBERS: dict[str, Callable[[Execution, Tensor], Value | None]] = {
    "shape": lambda run, tensor: sizes_record(tensor),
    "dtype": lambda run, tensor: DataType(run.memory(tensor.allocation).dtype),
    "ndim": tensor_rank,
    "size": tensor_elements,
    "is_cuda": lambda run, tensor: Condition(True),
    **dict.fromkeys(("T", "mT"), _matrix_transposed),
    **dict.fromkeys(("data", "ptr", "gpudata"), lambda run, tensor: tensor),
    "nbytes": lambda run, tensor: RecordValue(BYTES, {"of": tensor}),
    "device": lambda run, tensor: RecordValue("device", {"type": StringValue("cuda")}),
}
TENSOR_METHODS: dict[str, Method] = {
    **dict.fromkeys(("sizes", "vec"), _method_sizes),
    "has_value": _method_has_value,
    "value": _method_value,
    **{f"new_{name}": _method_new(name) for name in ("empty", "zeros", "ones", "full")},
    **{name: _method(function) for name, function in {
        "size": _size,
        "stride": _stride,
        **dict.fromkeys(("numel", "nelement"), lambda run, tensor, values: tensor_elements(run, tensor)),
        **dict.fromkeys(("dim", "ndimension"), lambda run, tensor, values: tensor_rank(run, tensor)),
        "element_size": lambda run, tensor, values: number(
            _BYTES.get(run.memory(tensor.allocation).dtype, _UNTYPED_BYTES)
        ),
        "is_contiguous": lambda run, tensor, values: Condition(tensor.strides is None),
        **dict.fromkeys(_UNCHANGED, lambda run, tensor, values: tensor),
        "contiguous": lambda run, tensor, values: tensor if tensor.is_whole else contiguous_copy(run, tensor),
        "clone": lambda run, tensor, values: copied(run, tensor),
        "copy": lambda run, tensor, values: contiguous_copy(run, tensor),
        **dict.fromkeys(_ELEMENTWISE, _elementwise),
        **dict.fromkeys(("to", "type"), _converted),
        "astype": lambda run, tensor, values: _converted(run, tensor, [data_type(value) for value in values[:1]]),
        **{name: _cast_to(DATA_TYPES[name]) for name in ("float", "half", "double", "bfloat16", "long", "int", "bool")},
        **dict.fromkeys(("view", "reshape"), lambda run, tensor, values: _reshaped(tensor, sizes_given(run, values))),
        **dict.fromkeys(("view_as", "reshape_as"), _reshaped_as),
        "flatten": _flattened,
        "narrow": _narrowed,
        "select": _select,
        "chunk": lambda run, tensor, values: _parts(run, tensor, values, chunks=True),
        "split": _parts,
        "transpose": _transposed,
        "permute": lambda run, tensor, values: _permuted(
            run, tensor, [axis_of(tensor, values, at) for at in range(len(values))]
        ),
        "t": lambda run, tensor, values: _matrix_transposed(run, tensor),
        "unsqueeze": _unsqueezed,
        "topk": largest,
        "sort": in_order,
        **dict.fromkeys(("max", "min"), extreme_along),
        **dict.fromkeys(("zero_", "fill_", "normal_", "uniform_", "copy_", "random_"), _filled),
    }.items()},
}  # fmt: skip


def member_of_tensor(run: Execution, owner: Value, name: str) -> Value:
    """Return the value of ``tensor.shape`` and the like; unknown for another member, or another object."""
    tensor = as_tensor(run, owner) if name in _MEMBERS or isinstance(owner, Tensor) else None
    member = _MEMBERS.get(name)
    value = member(run, tensor) if tensor is not None and member is not None else None
    return value if value is not None else Unknown()
