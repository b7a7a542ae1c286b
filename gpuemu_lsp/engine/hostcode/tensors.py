"""Tensors and arrays in host code: their sizes, strides and memory."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import TypeAlias

from gpuemu_lsp.engine.hostcode.assumptions import TensorRank, UnexpectedRankError
from gpuemu_lsp.engine.hostcode.layouts import dense_strides, laid_out
from gpuemu_lsp.engine.hostcode.state import Execution
from gpuemu_lsp.engine.hostcode.values import (
    Contents,
    DataType,
    Pointer,
    RecordValue,
    StringValue,
    Tensor,
    Undetermined,
    Value,
)
from gpuemu_lsp.engine.symbolic.conditions import Condition, all_of, conjuncts
from gpuemu_lsp.engine.symbolic.size import (
    Size,
    TooComplexError,
    divide,
    number,
    product,
    symbol,
)

SIZES = "tensor sizes"
"""Type of the record that stands for ``tensor.sizes()``; its items are there if the rank is known."""
STRIDES = "tensor strides"
OPTIONAL = "optional"
"""Type of the record that stands for a tensor which a caller may omit; it has no value where one does."""
NO_TENSOR = RecordValue(OPTIONAL)
SHAPES = ("shape", "size")
"""Names of the parameter for the shape of a new array."""
WRITING_METHODS = frozenset({"fill", "sort", "partition", "put", "set", "itemset", "resize"})
"""Methods of NumPy and CuPy that write to their array, as those of PyTorch do whose names end with an underscore."""
BYTES = "bytes of a tensor"
"""Type of the record that stands for ``array.nbytes``: the type of the elements need not be known."""
KEYWORDS = "keywords"
"""Type of the record of arguments by name, which follows the others where a function of a library has any."""
DATA_TYPES: Mapping[str, str] = {
    **{name: name for name in ("float64", "float32", "float16", "bfloat16", "uint8", "bool")},
    **{f"int{bits}": f"int{bits}" for bits in (8, 16, 32, 64)},
    "half": "float16", "float": "float32", "double": "float64", "long": "int64", "int": "int32", "short": "int16",
    "float8_e4m3fn": "float8_e4m3fn", "float8_e5m2": "float8_e5m2",
}  # fmt: skip
Keywords: TypeAlias = Mapping[str, Value]


def data_type(value: Value) -> DataType:
    """Return the type of elements that a value stands for, also by its name; one that is not known for others."""
    named = DATA_TYPES.get(value.text, "") if isinstance(value, StringValue) else ""
    return value if isinstance(value, DataType) else DataType(named)


def split_arguments(values: Sequence[Value]) -> tuple[list[Value], Keywords]:
    """Return the arguments by position and by name of a function of a library."""
    last = values[-1] if values else None
    if isinstance(last, RecordValue) and last.type == KEYWORDS:
        return [*values[:-1]], last.fields
    return [*values], {}


def as_tensor(run: Execution, value: Value) -> Tensor | None:
    """Return a value as a tensor, which a parameter without a type is from then on; None for another value."""
    if isinstance(value, Undetermined):
        value = value.tensor
        run.reached.tensors.setdefault(value.allocation, value.name)
    return value if isinstance(value, Tensor) else None


def number_of(run: Execution, value: Value) -> Value:
    """Return a parameter without a type as the number that it is, unless it is used as a tensor."""
    if not isinstance(value, Undetermined):
        return value
    if value.tensor.allocation in run.reached.tensors:
        return value.tensor
    return run.passed(value.tensor.name)


# ---- sizes


def items_of(run: Execution, value: Value) -> list[Value] | None:
    """Return the items of a list, an array or a vector, or the sizes of a tensor; None if they are not known."""
    if isinstance(value, RecordValue) and value.type == "vector":
        data = value.fields.get("data")
        cell = run.object_cells.get(data.allocation or 0) if isinstance(data, Pointer) else None
        value = run.held(cell) if cell is not None else value
    if not isinstance(value, RecordValue) or value.type not in ("list", "array", SIZES, STRIDES):
        return None
    items = [item for key, item in value.fields.items() if key[0] == "["]
    return items if len(items) == len(value.fields) - ("of" in value.fields) and (items or not value.fields) else None


def listed(items: Sequence[Value]) -> RecordValue:
    """Return a list of some items."""
    return RecordValue("list", {f"[{index}]": item for index, item in enumerate(items)})


def sizes_given(run: Execution, given: Sequence[Value]) -> tuple[Size, ...] | None:
    """Return sizes that are given as one list or as several numbers; None if one is not known."""
    items = items_of(run, given[0]) if given else None
    if items == []:
        return ()
    if items is None:
        items = [number_of(run, value) for value in given]
        while items and not isinstance(items[-1], Size):
            items.pop()  # options such as the type of the elements
    sizes = [run.integer(number_of(run, item)) for item in items]
    return tuple(size for size in sizes if size is not None) if items and None not in sizes else None


def expect_rank(run: Execution, tensor: Tensor, count: int) -> None:
    """Note that a tensor has as many sizes as the program needs.

    Raises
    ------
    UnexpectedRankError
        If its rank was assumed, and is another one.
    """
    memory = run.memory(tensor.allocation)
    if tensor.sizes is None or memory.name not in run.assumptions.ranks or memory.space != "parameter":
        return
    if len(tensor.sizes) != count:
        rank = len(memory.sizes or ()) + count - len(tensor.sizes)
        raise UnexpectedRankError(memory.name, TensorRank(rank, certain=True))
    run.reached.ranked.add(tensor.allocation)


def tensor_size(run: Execution, tensor: Tensor, axis: int | None) -> Size:
    """Return a size of a tensor, the same symbol wherever the program reads it."""
    if tensor.sizes is not None and axis is not None and -len(tensor.sizes) <= axis < len(tensor.sizes):
        return tensor.sizes[axis]
    return _read(run, f"{tensor.name}_size_{axis}".replace("-", "m"))


def _read(run: Execution, key: str) -> Size:
    """Return what the program reads of a tensor: where ranks are assumed, only one that it computes has none."""
    if run.assumptions.ranks:
        return run.unknown(key, "computed")
    return run.passed(key)


def tensor_stride(run: Execution, tensor: Tensor, axis: int | None) -> Size | None:
    """Return a stride of a tensor in elements, as if it were contiguous where nothing says its rank; else None."""
    if tensor.strides is not None and axis is not None and -len(tensor.strides) <= axis < len(tensor.strides):
        return tensor.strides[axis]
    rank = _rank(run, tensor)
    if axis is None or (rank is not None and not -rank <= axis < rank):
        return None
    if axis < 0 or rank is not None:
        first = axis + 1 if rank is None else axis % rank + 1
        return product(tensor_size(run, tensor, inner) for inner in range(first, rank or 0))
    elements = tensor_elements(run, tensor)
    leading = product(tensor_size(run, tensor, outer) for outer in range(axis + 1))
    return None if elements is None else divide(elements, leading)


def tensor_strides(run: Execution, tensor: Tensor) -> tuple[Size, ...]:
    """Return the strides of a tensor whose sizes are known."""
    axes = range(len(tensor.sizes or ()))
    return tuple(stride for axis in axes if (stride := tensor_stride(run, tensor, axis)) is not None)


def _rank(run: Execution, tensor: Tensor) -> int | None:
    """Return the rank of a tensor that the program has stated on the path so far."""
    if tensor.sizes is not None:
        return len(tensor.sizes)
    stated = symbol(f"{tensor.name}_dim")
    for condition in conjuncts(run.state.conditions):
        if condition.operator == "==" and condition.left == stated and condition.right is not None:
            return condition.right.constant
    return None


def sizes_by_axis(run: Execution, value: Value, count: int) -> Value:
    """Return the sizes of a tensor that has ``count`` of them as a list; another value unchanged."""
    tensor = value.fields["of"] if isinstance(value, RecordValue) and value.type == SIZES else None
    if not isinstance(tensor, Tensor):
        return value
    if tensor.sizes is None:
        run.assume(Condition(None, "==", tensor_rank(run, tensor), number(count)))
    return listed([tensor_size(run, tensor, axis) for axis in range(count)])


def sizes_record(tensor: Tensor) -> RecordValue:
    """Return the record that stands for the sizes of a tensor."""
    return RecordValue(SIZES, {"of": tensor, **listed(tensor.sizes or ()).fields})


def subscripted_size(run: Execution, base: Value, index: Value) -> Value | None:
    """Return the value of ``sizes[1]`` for the sizes of a tensor of unknown rank; None for another object."""
    tensor = base.fields["of"] if isinstance(base, RecordValue) and base.type == SIZES else None
    known = isinstance(tensor, Tensor) and isinstance(index, Size)
    return tensor_size(run, tensor, index.constant) if known else None  # type: ignore[arg-type, union-attr]


def compared_sizes(run: Execution, left: Value, right: Value) -> Condition | None:
    """Return the condition ``x.sizes() == IntArrayRef({n, m})``; None if these are not two lists."""
    tensors = [side.fields.get("of") if isinstance(side, RecordValue) else None for side in (left, right)]
    items = items_of(run, left), items_of(run, right)
    first, second = items
    if first is not None and second is not None:
        for tensor, others in zip(tensors, (second, first), strict=True):
            if isinstance(tensor, Tensor):
                expect_rank(run, tensor, len(others))
        if len(first) != len(second):
            return Condition(False)
        # From the last one: of equal strides the sizes follow from those of the axes after them.
        pairs = reversed([*zip(first, second, strict=True)])
        known = [(one, other) for one, other in pairs if isinstance(one, Size) and isinstance(other, Size)]
        return all_of(Condition(None, "==", one, other) for one, other in known if one != other)
    if isinstance(tensors[0], Tensor) and isinstance(tensors[1], Tensor):
        return _same_sizes(run, tensors[0], tensors[1])
    for tensor, other in zip(tensors, reversed(items), strict=True):
        sizes = [run.integer(item) for item in other or ()]
        if isinstance(tensor, Tensor) and other is not None and None not in sizes:
            parts = [(tensor_rank(run, tensor), number(len(sizes)))]
            parts += [(tensor_size(run, tensor, axis), size) for axis, size in enumerate(sizes) if size is not None]
            return Condition(None, "&&", parts=tuple(Condition(None, "==", *part) for part in parts))
    return None


def _same_sizes(run: Execution, left: Tensor, right: Tensor) -> Condition:
    """Return the condition that two tensors have the same sizes: those that the program reads of either one."""
    pairs = [(tensor_rank(run, left), tensor_rank(run, right))]
    pattern = re.compile(rf"(?:{re.escape(left.name)}|{re.escape(right.name)})_size_(m?\d+)")
    read = {found[1] for name in run.reached.symbols if (found := pattern.fullmatch(name))}
    axes = {*(int(axis.replace("m", "-")) for axis in read), *range(len(left.sizes or right.sizes or ()))}
    pairs += [(tensor_size(run, left, axis), tensor_size(run, right, axis)) for axis in sorted(axes)]
    counts = tensor_elements(run, left), tensor_elements(run, right)
    pairs += [(counts[0], counts[1])] if counts[0] is not None and counts[1] is not None else []
    parts = tuple(Condition(None, "==", one, other) for one, other in pairs if one != other)
    return Condition(None, "&&", parts=parts) if parts else Condition(True)


def tensor_elements(run: Execution, tensor: Tensor) -> Size | None:
    """Return the number of elements of a tensor, a new symbol if the program does not say it."""
    if tensor.sizes is not None:
        return product(tensor.sizes)
    known = run.memory(tensor.allocation)
    if known.elements is None:
        count = run.unknown(f"{tensor.name}_numel", "computed" if run.assumptions.ranks else "parameter")
        run.set_memory(tensor.allocation, replace(known, elements=count))
        run.reached.numels[str(count)] = tensor.name
        return count
    return known.elements


def tensor_rank(run: Execution, tensor: Tensor) -> Size:
    """Return the number of dimensions of a tensor."""
    if tensor.sizes is not None:
        return number(len(tensor.sizes))
    return _read(run, f"{tensor.name}_dim")


# ---- memory of tensors


def passed_tensor(run: Execution, name: str) -> Tensor:
    """Return a tensor that a caller passes: its sizes are symbols, if its rank is assumed."""
    memory = run.allocate(name, None, "parameter", Contents("any")).allocation or 0
    rank = run.assumptions.ranks.get(name)
    if rank is None:
        return Tensor(name, memory)
    sizes = tuple(run.passed(f"{rank.like or name}_{axis}") for axis in range(rank.rank))
    tensor, storage = Tensor(name, memory, sizes), sizes
    layout = run.assumptions.layouts.get(name)
    if layout is not None and rank.rank > 1:
        storage, strides = laid_out(sizes, layout)
        tensor = run.reached.laid_out[memory] = replace(tensor, strides=strides)
    run.set_memory(memory, replace(run.memory(memory), sizes=storage, elements=product(storage), exact=rank.certain))
    return tensor


def new_tensor(
    run: Execution, name: str, sizes: tuple[Size, ...] | None, dtype: str, contents: Contents, exact: bool = True
) -> Tensor:
    """Return a tensor in new memory."""
    allocation = run.allocate(name, None, "device", contents).allocation or 0
    elements: Size | None = None
    with suppress(TooComplexError):
        elements = product(sizes) if sizes is not None else None
    memory = replace(run.memory(allocation), elements=elements, sizes=sizes, dtype=dtype, exact=exact)
    run.set_memory(allocation, memory)
    return Tensor(name, allocation, sizes)


def copied(run: Execution, tensor: Tensor, dtype: str | None = None) -> Tensor:
    """Return a copy of a tensor, with another type of elements if one is given, whose axes are in the same order."""
    return replace(contiguous_copy(run, tensor, dtype), strides=dense_strides(tensor))


def contiguous_copy(run: Execution, tensor: Tensor, dtype: str | None = None) -> Tensor:
    """Return a contiguous copy of a tensor, with another type of elements if one is given."""
    memory = run.memory(tensor.allocation)
    low, high = memory.contents.low, memory.contents.high
    made = new_tensor(
        run,
        memory.name,
        tensor.sizes,
        memory.dtype if dtype is None else dtype,
        Contents("any", low, high, memory.contents.drawn),
        memory.exact,
    )
    if tensor.sizes is None:
        elements = tensor_elements(run, tensor)
        run.set_memory(made.allocation, replace(run.memory(made.allocation), elements=elements))
    return made
