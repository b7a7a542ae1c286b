"""Tensors of PyTorch in host code: their sizes, strides and memory."""

from __future__ import annotations

import re
from dataclasses import replace

from gpuemu_lsp.engine.hostcode.interpreter import Handler, Method
from gpuemu_lsp.engine.hostcode.state import Execution
from gpuemu_lsp.engine.hostcode.values import (
    Contents,
    FloatValue,
    Lvalue,
    Pointer,
    Ranged,
    RecordValue,
    Tensor,
    Unknown,
    Value,
)
from gpuemu_lsp.engine.symbolic.conditions import Condition, conjuncts
from gpuemu_lsp.engine.symbolic.size import ONE, ZERO, Size, multiply, number, symbol

SHAPES = ("shape", "size")
"""Names of the parameter for the shape of a new array."""
WRITING_METHODS = frozenset({"fill", "sort", "partition", "put", "set", "itemset", "resize"})
"""Methods of NumPy and CuPy that write to their array, as those of PyTorch do whose names end with an underscore."""
_BYTES = "bytes of a tensor"
"""Type of the record that stands for ``array.nbytes``: the type of the elements need not be known."""
SIZES = "tensor sizes"
"""Type of the record that stands for ``tensor.sizes()``."""
OPTIONAL = "optional"
"""Type of the record that stands for a tensor which a caller may omit; it has no value where one does."""
NO_TENSOR = RecordValue(OPTIONAL)


def tensor_size(run: Execution, tensor: Tensor, axis: int | None) -> Size:
    """Return a size of a tensor, the same symbol wherever the program reads it."""
    if tensor.sizes is not None and axis is not None and -len(tensor.sizes) <= axis < len(tensor.sizes):
        return tensor.sizes[axis]
    key = f"{tensor.name}_size_{axis}".replace("-", "m")
    if key not in run.reached.symbols:
        run.unknown(key, "parameter")
    return symbol(key, 1)


def tensor_stride(run: Execution, tensor: Tensor, axis: int | None) -> Size | None:
    """Return a stride of a tensor that is contiguous, None if its rank is not known."""
    rank = _rank(run, tensor)
    if axis == -1:
        return ONE
    if rank is None or axis is None or not -rank <= axis < rank:
        return None
    stride = ONE
    for inner in range(axis % rank + 1, rank):
        stride = multiply(stride, tensor_size(run, tensor, inner))
    return stride


def _rank(run: Execution, tensor: Tensor) -> int | None:
    """Return the rank of a tensor that the program has stated on the path so far."""
    if tensor.sizes is not None:
        return len(tensor.sizes)
    stated = symbol(f"{tensor.name}_dim")
    for condition in conjuncts(run.state.conditions):
        if condition.operator == "==" and condition.left == stated and condition.right is not None:
            return condition.right.constant
    return None


def subscripted_size(run: Execution, base: Value, index: Value) -> Value | None:
    """Return the value of ``sizes[1]`` for the sizes of a tensor; None for another object."""
    tensor = base.fields["of"] if isinstance(base, RecordValue) and base.type == SIZES else None
    return tensor_size(run, tensor, index.constant) if isinstance(tensor, Tensor) and isinstance(index, Size) else None


def member_of_tensor(run: Execution, owner: Value, name: str) -> Value:
    """Return the value of ``tensor.shape`` and the like; unknown for another member, or another object."""
    if not isinstance(owner, Tensor):
        return Unknown()
    if name == "shape":
        return RecordValue(SIZES, {"of": owner})
    if name == "ndim":
        return _dim(run, owner)
    if name == "nbytes":
        return RecordValue(_BYTES, {"of": owner})
    if name in ("data", "ptr", "gpudata"):
        return owner
    return (tensor_elements(run, owner) or Unknown()) if name == "size" else Unknown()


def compared_sizes(run: Execution, left: Value, right: Value) -> Condition | None:
    """Return the condition ``x.sizes() == IntArrayRef({n, m})``; None if these are not sizes of a tensor and a list."""
    tensors = [one.fields["of"] for one in (left, right) if isinstance(one, RecordValue) and one.type == SIZES]
    if len(tensors) == 2 and isinstance(tensors[0], Tensor) and isinstance(tensors[1], Tensor):
        return _same_sizes(run, tensors[0], tensors[1])
    for one, other in ((left, right), (right, left)):
        tensor = one.fields["of"] if isinstance(one, RecordValue) and one.type == SIZES else None
        listed = _listed(run, other)
        if not isinstance(tensor, Tensor) or listed is None or isinstance(other, Size):
            continue
        if tensor.sizes is not None and len(tensor.sizes) != len(listed):
            return Condition(False)
        parts: list[Condition] = []
        if tensor.sizes is None:
            parts.append(Condition(None, "==", _dim(run, tensor), number(len(listed))))
        for axis, size in enumerate(listed):
            own = tensor_size(run, tensor, axis)
            if own != size:
                parts.append(Condition(None, "==", own, size))
        return Condition(None, "&&", parts=tuple(parts)) if parts else Condition(True)
    return None


def _same_sizes(run: Execution, left: Tensor, right: Tensor) -> Condition:
    """Return the condition that two tensors have the same sizes: those that the program reads of either one."""
    pairs = [(_dim(run, left), _dim(run, right))]
    pattern = re.compile(rf"(?:{re.escape(left.name)}|{re.escape(right.name)})_size_(m?\d+)")
    read = {found[1] for name in run.reached.symbols if (found := pattern.fullmatch(name))}
    axes = {*(int(one.replace("m", "-")) for one in read), *range(len(left.sizes or right.sizes or ()))}
    pairs += [(tensor_size(run, left, axis), tensor_size(run, right, axis)) for axis in sorted(axes)]
    counts = tensor_elements(run, left), tensor_elements(run, right)
    pairs += [(counts[0], counts[1])] if counts[0] is not None and counts[1] is not None else []
    parts = tuple(Condition(None, "==", one, other) for one, other in pairs if one != other)
    return Condition(None, "&&", parts=parts) if parts else Condition(True)


def sizes_by_axis(run: Execution, value: Value, count: int) -> Value:
    """Return the sizes of a tensor that has ``count`` of them as a list; another value unchanged."""
    tensor = value.fields["of"] if isinstance(value, RecordValue) and value.type == SIZES else None
    if not isinstance(tensor, Tensor):
        return value
    if tensor.sizes is None:
        run.assume(Condition(None, "==", _dim(run, tensor), number(count)))
    return RecordValue("list", {f"[{axis}]": tensor_size(run, tensor, axis) for axis in range(count)})


def scaled_tensor(run: Execution, left: Value, right: Value) -> Value:
    """Return the result of an operator on a tensor and a number; unknown for two tensors."""
    tensor, other = (left, right) if isinstance(left, Tensor) else (right, left)
    is_number = isinstance(tensor, Tensor) and isinstance(other, Size | FloatValue | Ranged)
    return _created(run, "ones_like", tensor) if is_number else Unknown()


def _tensor(run: Execution, values: list[Value], template: tuple[str, ...], name: str) -> Value:
    """Return a new tensor: of the sizes in a list, of a size, or in PyTorch of several sizes."""
    base = name.split("::")[-1]
    first = values[0] if values else Unknown()
    several = "torch" in name or base in ("rand", "randn")
    if several and base != "full" and len(values) > 1 and all(isinstance(each, Size) for each in values[:2]):
        sizes = [each for each in values if isinstance(each, Size)]
        first = RecordValue("list", {f"[{index}]": size for index, size in enumerate(sizes)})
    return _created(run, base, first)


def _drawn(run: Execution, values: list[Value], template: tuple[str, ...], name: str) -> Value:
    """Return random numbers: a tensor of a shape, or one integer of the C library."""
    base = name.split("::")[-1]
    if not values:
        return Ranged(ZERO, number((1 << 31) - 1))
    if base in ("randint", "normal", "uniform"):
        values = [each for each in values if isinstance(each, RecordValue)]
    return _tensor(run, values, template, name)


def _range(run: Execution, values: list[Value], template: tuple[str, ...], name: str) -> Value:
    """Return ``arange(n)`` or ``linspace(first, last, n)``."""
    position = 2 if name.endswith("linspace") else 0
    counted = len(values) > 2 if position else len([each for each in values if isinstance(each, Size)]) == 1
    return _created(run, "ones", values[position]) if counted else Unknown()


def _same_array(run: Execution, values: list[Value], template: tuple[str, ...], name: str) -> Value:
    """Return the array that a function is passed: one with the same elements."""
    return values[0] if values and isinstance(values[0], Tensor | Pointer) else Unknown()


def _device_array(run: Execution, values: list[Value], template: tuple[str, ...], name: str) -> Value:
    """Return memory that PyCUDA allocates: of some bytes, or for an array that it copies back."""
    given = values[0] if values else Unknown()
    given = given.fields["of"] if isinstance(given, RecordValue) and given.type == _BYTES else given
    if isinstance(given, Tensor):
        return _created(run, "empty_like", given)
    return run.allocate(run.hint or "memory", run.integer(given), "device")


def _length(run: Execution, values: list[Value], template: tuple[str, ...], name: str) -> Value:
    """Return ``len(x)`` of an array, or of a list."""
    given = values[0] if values else Unknown()
    if isinstance(given, RecordValue) and given.type == "list":
        return number(len(given.fields))
    return tensor_size(run, given, 0) if isinstance(given, Tensor) else Unknown()


def _created(run: Execution, function: str, size: Value) -> Tensor:
    """Return a tensor with the sizes of another one, or those of a list."""
    zero = function in ("zeros", "zeros_like", "new_zeros")
    contents = Contents("any", ZERO, ONE) if zero else Contents("none" if "empty" in function else "any")
    made = run.allocate(run.hint or "tensor", None, "device", contents)
    sizes: tuple[Size, ...] | None = None
    elements: Size | None = None
    if isinstance(size, RecordValue) and size.type == SIZES:
        size = size.fields["of"]
    if isinstance(size, Tensor):
        sizes, elements = size.sizes, tensor_elements(run, size)
    else:
        sizes = _listed(run, size)
        if sizes is not None:
            elements = ONE
            for one in sizes:
                elements = multiply(elements, one)
    allocation = made.allocation or 0
    run.set_memory(allocation, replace(run.memory(allocation), elements=elements, sizes=sizes))
    return Tensor(run.hint or "tensor", allocation, sizes)


def _listed(run: Execution, value: Value) -> tuple[Size, ...] | None:
    """Return sizes from a list, an array or a vector of them; None if one is not known."""
    if isinstance(value, Size):
        return (value,)
    if isinstance(value, RecordValue) and value.type == "vector":
        data = value.fields.get("data")
        cell = run.object_cells.get(data.allocation or 0) if isinstance(data, Pointer) else None
        value = run.held(cell) if cell is not None else value
    if not isinstance(value, RecordValue) or value.type not in ("list", "array"):
        return None
    found: list[Size] = []
    for index in range(len(value.fields)):
        size = run.integer(value.fields.get(f"[{index}]", Unknown()))
        if size is None:
            return None
        found.append(size)
    return tuple(found)


def _sizes(run: Execution, values: list[Value], template: tuple[str, ...], name: str) -> Value:
    """Return the argument of ``IntArrayRef(...)``."""
    return values[0] if values else Unknown()


def tensor_elements(run: Execution, tensor: Tensor) -> Size | None:
    """Return the number of elements of a tensor, a new symbol if the program does not say it."""
    known = run.memory(tensor.allocation)
    if known.elements is None and tensor.sizes is None:
        count = run.unknown(f"{tensor.name}_numel", "parameter")
        run.set_memory(tensor.allocation, replace(known, elements=count))
        run.reached.numels[str(count)] = tensor.name
        return count
    return known.elements


def _method_numel(
    run: Execution, owner: Value, values: list[Value], place: Lvalue | Pointer | None, template: tuple[str, ...]
) -> Value | None:
    return tensor_elements(run, owner) if isinstance(owner, Tensor) else None


def _dim(run: Execution, tensor: Tensor) -> Size:
    if tensor.sizes is not None:
        return number(len(tensor.sizes))
    key = f"{tensor.name}_dim"
    if key not in run.reached.symbols:
        run.unknown(key, "parameter")
    return symbol(key, 1)


def _method_dim(
    run: Execution, owner: Value, values: list[Value], place: Lvalue | Pointer | None, template: tuple[str, ...]
) -> Value | None:
    return _dim(run, owner) if isinstance(owner, Tensor) else None


def _method_stride(
    run: Execution, owner: Value, values: list[Value], place: Lvalue | Pointer | None, template: tuple[str, ...]
) -> Value | None:
    axis = values[0].constant if values and isinstance(values[0], Size) else None
    return tensor_stride(run, owner, axis) if isinstance(owner, Tensor) else None


def _same(owner: Value) -> Value | None:
    return owner if isinstance(owner, Tensor) else None


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
    return owner.fields.get("value", Unknown()) if known and isinstance(owner, RecordValue) else _same(owner)


def _method_same(
    run: Execution, owner: Value, values: list[Value], place: Lvalue | Pointer | None, template: tuple[str, ...]
) -> Value | None:
    return owner if isinstance(owner, Tensor) else None


def _method_sizes(
    run: Execution, owner: Value, values: list[Value], place: Lvalue | Pointer | None, template: tuple[str, ...]
) -> Value | None:
    if isinstance(owner, Tensor):
        return RecordValue(SIZES, {"of": owner})
    return owner if isinstance(owner, RecordValue) and owner.type == SIZES else None


def _method_created(name: str) -> Method:
    def apply(
        run: Execution, owner: Value, values: list[Value], place: Lvalue | Pointer | None, template: tuple[str, ...]
    ) -> Value | None:
        if not isinstance(owner, Tensor):
            return None
        size: Value = owner if name == "clone" else values[0] if values else Unknown()
        return _created(run, name, size)

    return apply


_NEW = ("empty", "zeros", "ones", "full")
_LIKE = ("empty_like", "zeros_like", "ones_like", "full_like", "rand_like", "randn_like")
_SAME_ARRAY = (
    "asarray", "array", "ascontiguousarray", "asnumpy", "to_gpu", "from_numpy", "as_tensor", "In", "InOut", "to_device",
)  # fmt: skip
TENSOR_NAMES = frozenset({*_NEW, *_LIKE, *_SAME_ARRAY, "arange", "linspace", "len"})
"""Functions of libraries of arrays: a function of the program may have the same name."""
TENSOR_FUNCTIONS: dict[str, Handler] = {
    **dict.fromkeys((*_NEW, *_LIKE), _tensor),
    **dict.fromkeys(
        ("rand", "randn", "random", "lrand48", "random_sample", "standard_normal", "normal", "uniform", "randint"),
        _drawn,
    ),
    **dict.fromkeys(("arange", "linspace"), _range),
    **dict.fromkeys(_SAME_ARRAY, _same_array),
    **dict.fromkeys(("mem_alloc", "Out"), _device_array),
    "len": _length,
    **dict.fromkeys(("IntArrayRef", "makeArrayRef"), _sizes),
}
TENSOR_METHODS: dict[str, Method] = {
    **dict.fromkeys(("numel", "nelement"), _method_numel),
    **dict.fromkeys(("dim", "ndimension"), _method_dim),
    **dict.fromkeys(("contiguous", "cuda", "detach", "cpu", "numpy"), _method_same),
    **{name: _method_created(name) for name in ("new_empty", "new_zeros", "new_ones", "new_full")},
    **dict.fromkeys(("clone", "copy", "astype", "to", "float", "half", "double"), _method_created("clone")),
    **dict.fromkeys(("sizes", "vec"), _method_sizes),
    "stride": _method_stride,
    "has_value": _method_has_value,
    "value": _method_value,
}
