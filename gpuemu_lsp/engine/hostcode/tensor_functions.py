"""Functions that create tensors and arrays, in one table for all languages and libraries: ``torch::empty_like``."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from gpuemu_lsp.engine.hostcode.interpreter import Handler
from gpuemu_lsp.engine.hostcode.layouts import dense_strides
from gpuemu_lsp.engine.hostcode.state import Execution
from gpuemu_lsp.engine.hostcode.tensors import (
    BYTES,
    KEYWORDS,
    SHAPES,
    Keywords,
    as_tensor,
    data_type,
    new_tensor,
    number_of,
    sizes_given,
    split_arguments,
    tensor_elements,
)
from gpuemu_lsp.engine.hostcode.values import (
    Contents,
    DataType,
    FloatValue,
    Pointer,
    Ranged,
    RecordValue,
    Tensor,
    Unknown,
    Value,
    is_null,
)
from gpuemu_lsp.engine.symbolic.size import ZERO, Size, number

_SEED = 12345
"""A random number that a program may draw on the host."""
_CREATED = ("empty", "zeros", "ones", "full", "rand", "randn")


def created(run: Execution, name: str, values: Sequence[Value], default: str | None = None) -> Tensor:
    """Return the tensor of ``torch::zeros(...)``, ``torch::empty_like(x)`` and the like.

    Parameters
    ----------
    run
        The interpretation.
    name
        Name of the function.
    values
        Its arguments.
    default
        Type of the elements, if no argument states it.
    """
    given, keywords = _with_type(name, values)
    base = name.rpartition("::")[2]
    shaped = given[0] if given else _shape_of(keywords)
    shape_of = shaped.fields.get("of") if isinstance(shaped, RecordValue) else None
    if isinstance(shape_of, Tensor):
        # `zeros(x.shape)`, of a rank that need not be known.
        rest = [replace(shape_of, strides=None), *given[1:], RecordValue(KEYWORDS, keywords)]
        return created(run, f"{name}_like", rest, default)
    if not base.endswith("_like"):
        default = _default_type(name) if default is None else default
        sizes = given[:1] if base == "full" else given
        return _of_sizes(run, base, sizes_given(run, sizes or [_shape_of(keywords)]), default, keywords)
    source = given[0] if given else keywords.get("input", Unknown())
    like = as_tensor(run, source)
    if like is None:
        return _of_sizes(run, base.removesuffix("_like"), sizes_given(run, [source]), "", keywords)
    memory = run.memory(like.allocation)
    new = _of_sizes(run, base.removesuffix("_like"), like.sizes, memory.dtype, keywords)
    elements = tensor_elements(run, like) if like.sizes is None else run.memory(new.allocation).elements
    run.set_memory(new.allocation, replace(run.memory(new.allocation), exact=memory.exact, elements=elements))
    keeps_order = "memory_format" not in keywords
    return replace(new, strides=dense_strides(like)) if keeps_order else new


def _with_type(name: str, values: Sequence[Value]) -> tuple[list[Value], Keywords]:
    """Return the arguments by position and by name; NumPy and CuPy take the type of the elements by position too."""
    given, keywords = split_arguments(values)
    library, base = name.partition("::")[0], name.rpartition("::")[2]
    position = 2 if base.startswith("full") else 1
    if library not in ("cupy", "numpy") or len(given) <= position or "random" in name:
        return given, keywords
    return given[:position], {"dtype": given[position], **keywords}


def _default_type(name: str) -> str:
    """Return the type of the elements that a library creates where nothing states one.

    It is not known for a filled array, which has that of the value.
    """
    library, _, function = name.partition("::")
    if library == "torch":
        return "float32"
    return "float64" if library in ("cupy", "numpy") and not function.endswith("full") else ""


def _shape_of(keywords: Keywords) -> Value:
    return next((keywords[name] for name in SHAPES if name in keywords), Unknown())


def _created(run: Execution, values: list[Value], template: tuple[str, ...], name: str) -> Value:
    return created(run, name, values)


def _of_sizes(
    run: Execution, function: str, sizes: tuple[Size, ...] | None, default: str, keywords: Keywords
) -> Tensor:
    dtype = _dtype(keywords, default)
    value = {"zeros": 0, "ones": 1}.get(function)
    if value == 0 or (value is not None and dtype.startswith(("int", "uint"))):
        contents = Contents("any", number(value), number(value + 1))
    else:
        contents = Contents("none" if function == "empty" else "any")
    return new_tensor(run, run.hint or function, sizes, dtype, contents)


def _dtype(keywords: Keywords, default: str) -> str:
    given = keywords.get("dtype")
    if given is None or is_null(given):
        return default
    return data_type(given).name


def _drawn(run: Execution, values: list[Value], template: tuple[str, ...], name: str) -> Value:
    """Return random numbers: a tensor of some sizes, or one integer of the C library."""
    given, keywords = split_arguments(values)
    if not given and not keywords:
        return Ranged(ZERO, number((1 << 31) - 1))
    if name.endswith(("normal", "uniform")):
        given = [value for value in given if isinstance(value, RecordValue)]
    return created(run, name, [*given, RecordValue(KEYWORDS, keywords)])


def _integers(run: Execution, values: list[Value], template: tuple[str, ...], name: str) -> Value:
    """Return the tensor of ``randint(high, size)`` or ``randint(low, high, size)``."""
    if name.startswith("random::"):
        return number(_SEED)
    given, keywords = split_arguments(values)
    ends = [number_of(run, value) for value in given]
    size = ends.pop() if ends and not {*SHAPES} & keywords.keys() else _shape_of(keywords)
    low = ends[0] if len(ends) > 1 else keywords.get("low", ZERO)
    high = ends[-1] if ends else keywords.get("high", Unknown())
    known = isinstance(low, Size) and isinstance(high, Size)
    least, most = (low, high) if isinstance(low, Size) and isinstance(high, Size) else (None, None)
    contents = Contents("any", least, most, drawn=known)
    return new_tensor(run, run.hint or name, sizes_given(run, [size]), _dtype(keywords, "int64"), contents)


def _range(run: Execution, values: list[Value], template: tuple[str, ...], name: str) -> Value:
    """Return the tensor of ``arange(n)``, ``randperm(n)`` or ``linspace(first, last, n)``."""
    given, keywords = split_arguments(values)
    types = [value for value in given if isinstance(value, DataType)]
    keywords = {"dtype": types[0], **keywords} if types else keywords
    spaced = name.endswith("linspace")
    ends = [end for value in given[2 if spaced else 0 :] if isinstance(end := number_of(run, value), Size)]
    if len(ends) != 1:
        return Unknown()
    contents = Contents("any") if spaced else Contents("any", ZERO, ends[-1])
    whole = not any(isinstance(value, FloatValue) for value in given)
    default = _default_type(name) if spaced else "int64" if whole else ""
    return new_tensor(run, run.hint or name, (ends[-1],), _dtype(keywords, default), contents)


def _first(run: Execution, values: list[Value], template: tuple[str, ...], name: str) -> Value:
    """Return the argument of ``IntArrayRef(...)``."""
    return values[0] if values else Unknown()


def _same_array(run: Execution, values: list[Value], template: tuple[str, ...], name: str) -> Value:
    """Return the array that a function is passed: one with the same elements."""
    given, keywords = _with_type(name, values)
    value = given[0] if given else Unknown()
    tensor = as_tensor(run, value)
    if tensor is not None and "dtype" in keywords:
        return created(run, "full_like", [tensor, RecordValue(KEYWORDS, keywords)])
    return tensor or (value if isinstance(value, Pointer) else Unknown())


def _device_array(run: Execution, values: list[Value], template: tuple[str, ...], name: str) -> Value:
    """Return memory that PyCUDA allocates: of some bytes, or for an array that it copies back."""
    given = values[0] if values else Unknown()
    given = given.fields["of"] if isinstance(given, RecordValue) and given.type == BYTES else given
    if isinstance(given, Tensor):
        return created(run, "empty_like", [given])
    return run.allocate(run.hint or "memory", run.integer(given), "device")


TENSOR_FUNCTIONS: dict[str, Handler] = {
    **dict.fromkeys((*_CREATED, *(f"{name}_like" for name in _CREATED)), _created),
    **dict.fromkeys(
        ("rand", "randn", "random", "lrand48", "random_sample", "standard_normal", "normal", "uniform"), _drawn
    ),
    "randint": _integers,
    **dict.fromkeys(("arange", "randperm", "linspace"), _range),
    **dict.fromkeys(
        ("asarray", "array", "ascontiguousarray", "asnumpy", "to_gpu", "from_numpy", "as_tensor", "In", "InOut",
         "to_device"), _same_array,
    ),
    **dict.fromkeys(("mem_alloc", "Out"), _device_array),
    **dict.fromkeys(("IntArrayRef", "makeArrayRef"), _first),
}  # fmt: skip
