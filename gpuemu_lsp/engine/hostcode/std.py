"""Functions of the C and C++ libraries and of thrust, and the table of all functions that decide sizes and contents."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace

from gpuemu_lsp.engine.hostcode.cuda import DEVICE_FUNCTIONS, NAMED_KERNELS, get_function
from gpuemu_lsp.engine.hostcode.interpreter import Handler, Method
from gpuemu_lsp.engine.hostcode.memory import MEMORY_FUNCTIONS
from gpuemu_lsp.engine.hostcode.objects import CONSTANTS, constant_object, make_vector
from gpuemu_lsp.engine.hostcode.state import Execution
from gpuemu_lsp.engine.hostcode.tensor_functions import TENSOR_FUNCTIONS
from gpuemu_lsp.engine.hostcode.tensor_methods import TENSOR_METHODS
from gpuemu_lsp.engine.hostcode.tensors import (
    as_tensor,
    items_of,
    listed,
    split_arguments,
    tensor_size,
)
from gpuemu_lsp.engine.hostcode.types import typed
from gpuemu_lsp.engine.hostcode.values import (
    Contents,
    FloatValue,
    HostFunctionName,
    Lvalue,
    Pointer,
    RecordValue,
    StringValue,
    Tensor,
    Unknown,
    Value,
)
from gpuemu_lsp.engine.symbolic.conditions import Condition
from gpuemu_lsp.engine.symbolic.size import (
    ONE,
    ZERO,
    Size,
    add,
    ceil_div,
    extreme,
    multiply,
    next_power_of_two,
    number,
    product,
)

HARMLESS = frozenset({
    "free", "cudaFree", "cudaFreeHost", "cudaFreeAsync", "srand", "time", "fprintf", "puts", "fflush",
    "cudaGetLastError", "cudaPeekAtLastError", "cudaGetErrorString", "cudaSetDevice", "cudaGetDevice", "delete",
    "fwrite", "memcmp", "strcmp", "fclose", "isinstance", "hasattr", "str", "synchronize", "manual_seed",
})  # fmt: skip
NAMESPACED = frozenset({
    "iota", "fill", "generate", "fill_n", "generate_n", "move", "forward", "cdiv", "ceil_div", "ceildiv", "div_up",
    "divup", "next_power_of_2", "next_pow2", "next_power_of_two", "tuple", "list", "Size", "dict", "slice", "Ellipsis",
    "len", "prod", "Parameter", "min", "max", *TENSOR_FUNCTIONS,
})  # fmt: skip
"""Functions of libraries that are called with their namespace."""
_VECTORS = ("char", "uchar", "short", "ushort", "int", "uint", "long", "ulong", "float", "double", "longlong", "half")


def _assert(run: Execution, values: list[Value], template: tuple[str, ...], name: str) -> Value:
    if values and isinstance(values[0], Condition):
        if values[0].value is False:
            return Unknown("exit")
        run.assume(values[0])
    return Unknown()


def _input(run: Execution, values: list[Value], template: tuple[str, ...], name: str) -> Value:
    return run.unknown(run.hint or "argument", "input")


def _scanf(run: Execution, values: list[Value], template: tuple[str, ...], name: str) -> Value:
    # What a user passes to the program may be any number; those of a file may depend on each other.
    origin = "input" if isinstance(values[0] if values else None, StringValue) and "sscanf" in name else "computed"
    for value in values:
        if isinstance(value, Lvalue) and not isinstance(run.get(value), Pointer):
            run.assign(value, run.unknown(run.name_of(value, "input"), origin))
        elif isinstance(value, Pointer):
            run.set_contents(value, Contents("any"))
    return Unknown()


def _extreme_of(kind: str) -> Handler:
    def apply(run: Execution, values: list[Value], template: tuple[str, ...], name: str) -> Value:
        items = items_of(run, values[0]) if len(values) == 1 else None
        numbers = [run.integer(value) for value in (values if items is None else items)]
        known = [size for size in numbers if size is not None]
        return extreme(kind, *known) if known and len(known) == len(numbers) else Unknown()

    return apply


def _of_sizes(function: Callable[..., Size], count: int) -> Handler:
    """Return a function of some integers."""

    def apply(run: Execution, values: list[Value], template: tuple[str, ...], name: str) -> Value:
        numbers = [run.integer(value) for value in values]
        known = [size for size in numbers if size is not None]
        return function(*known) if len(known) == len(values) == count else Unknown()

    return apply


def _list(run: Execution, values: list[Value], template: tuple[str, ...], name: str) -> Value:
    """Return a list of the items of another one, or a dictionary of keywords."""
    given, keywords = split_arguments(values)
    items = items_of(run, given[0]) if len(given) == 1 else None
    return RecordValue("list", keywords) if keywords and not given else Unknown() if items is None else listed(items)


def _slice(run: Execution, values: list[Value], template: tuple[str, ...], name: str) -> Value:
    return replace(listed(values), type=name.rpartition("::")[2])


def _length(run: Execution, values: list[Value], template: tuple[str, ...], name: str) -> Value:
    items = items_of(run, values[0]) if values else None
    if items is not None:
        return number(len(items))
    tensor = as_tensor(run, values[0]) if values else None
    return tensor_size(run, tensor, 0) if tensor is not None else Unknown()


def _product(run: Execution, values: list[Value], template: tuple[str, ...], name: str) -> Value:
    items = items_of(run, values[0]) if values else None
    sizes = [size for item in items or () if (size := run.integer(item)) is not None]
    return product(sizes) if items is not None and len(sizes) == len(items) else Unknown()


def _layer(run: Execution, values: list[Value], template: tuple[str, ...], name: str) -> Value:
    """Return a parameter of a module, which is the tensor that it is made of."""
    return values[0] if values else Unknown()


def _method_save(
    run: Execution, owner: Value, values: list[Value], place: Lvalue | Pointer | None, template: tuple[str, ...]
) -> Value | None:
    """Save tensors in the context of an automatic derivative."""
    target = owner if isinstance(owner, Lvalue) else place
    if isinstance(target, Lvalue):
        run.assign(Lvalue(target.cell, (*target.path, "saved_tensors")), listed(values))
    return Unknown()


def _method_register(
    run: Execution, owner: Value, values: list[Value], place: Lvalue | Pointer | None, template: tuple[str, ...]
) -> Value | None:
    """Make a tensor a member of a module: ``self.register_buffer("w", w)``."""
    target = owner if isinstance(owner, Lvalue) else place
    if isinstance(target, Lvalue) and len(values) > 1 and isinstance(values[0], StringValue):
        run.assign(Lvalue(target.cell, (*target.path, values[0].text)), values[1])
    return Unknown()


def _method_update(
    run: Execution, owner: Value, values: list[Value], place: Lvalue | Pointer | None, template: tuple[str, ...]
) -> Value | None:
    """Add the items of other dictionaries to one."""
    if not isinstance(owner, RecordValue) or not isinstance(place, Lvalue):
        return None
    fields = {**owner.fields}
    for value in values:
        fields |= value.fields if isinstance(value, RecordValue) else {"**": Unknown()}
    run.assign(place, replace(owner, fields=fields))
    return Unknown()


def _ceil(run: Execution, values: list[Value], template: tuple[str, ...], name: str) -> Value:
    value = values[0] if values else Unknown()
    if isinstance(value, FloatValue) and value.top is not None and value.bottom is not None:
        up = ceil_div(value.top, value.bottom)
        return FloatValue(up, ONE, None if up.constant is None else float(up.constant))
    if isinstance(value, FloatValue) and value.value is not None:
        return FloatValue(number(math.ceil(value.value)), ONE, float(math.ceil(value.value)))
    return value


def _real_function(function: Callable[..., float]) -> Handler:
    def apply(run: Execution, values: list[Value], template: tuple[str, ...], name: str) -> Value:
        known = [_float(value) for value in values]
        if any(value is None for value in known):
            return FloatValue()
        try:
            result = float(function(*known))
        except (ValueError, OverflowError, ZeroDivisionError):
            return FloatValue()
        whole = number(int(result)) if result.is_integer() and abs(result) < 2**53 else None
        return FloatValue(whole, ONE if whole is not None else None, result)

    return apply


def _float(value: Value) -> float | None:
    if isinstance(value, FloatValue):
        return value.value
    known = value.constant if isinstance(value, Size) else None
    return None if known is None else float(known)


def _first(run: Execution, values: list[Value], template: tuple[str, ...], name: str) -> Value:
    return values[0] if values else Unknown()


def _vector_of(lanes: int) -> Handler:
    def apply(run: Execution, values: list[Value], template: tuple[str, ...], name: str) -> Value:
        if len(values) == 1 and isinstance(values[0], RecordValue):
            return values[0]
        given = values * lanes if len(values) == 1 else values
        return RecordValue(name.split("::")[-1].removeprefix("make_"), dict(zip("xyzw", given, strict=False)))

    return apply


def _extent(run: Execution, values: list[Value], template: tuple[str, ...], name: str) -> Value:
    return RecordValue("cudaExtent", dict(zip(("width", "height", "depth"), values, strict=False)))


def _constant(run: Execution, values: list[Value], template: tuple[str, ...], name: str) -> Value:
    return constant_object(run, name.split("::")[-1], template)


def _fill(run: Execution, values: list[Value], template: tuple[str, ...], name: str) -> Value:
    if values and isinstance(values[0], Pointer):
        contents = Contents("any")
        if name.endswith("iota") and len(values) == 3 and isinstance(values[2], Size):
            data = run.memory(values[0].allocation or 0)
            if data.size is not None and values[0].element:
                high = add(values[2], data.size, 1)
                contents = Contents("any", values[2], high if values[0].element == 1 else None)
        run.set_contents(values[0], contents)
    return Unknown()


def _method_data(
    run: Execution, owner: Value, values: list[Value], place: Lvalue | Pointer | None, template: tuple[str, ...]
) -> Value | None:
    if isinstance(owner, RecordValue) and owner.type == "vector":
        return owner.fields.get("data", Unknown())
    if isinstance(owner, Pointer):
        return owner
    if isinstance(owner, Tensor):
        return typed(run, Pointer(owner.allocation, ZERO), template[0] if template else "")
    return None


def _method_get(
    run: Execution, owner: Value, values: list[Value], place: Lvalue | Pointer | None, template: tuple[str, ...]
) -> Value | None:
    """Return the pointer in a smart pointer, or the copy of an array in host memory."""
    return owner if isinstance(owner, Tensor) else _method_data(run, owner, values, place, template)


def _method_size(
    run: Execution, owner: Value, values: list[Value], place: Lvalue | Pointer | None, template: tuple[str, ...]
) -> Value | None:
    if isinstance(owner, RecordValue) and owner.type == "vector":
        return owner.fields.get("size", Unknown())
    return TENSOR_METHODS["size"](run, owner, values, place, template)


def _method_resize(
    run: Execution, owner: Value, values: list[Value], place: Lvalue | Pointer | None, template: tuple[str, ...]
) -> Value | None:
    if isinstance(owner, RecordValue) and owner.type == "vector" and isinstance(place, Lvalue) and values:
        length, data = run.integer(values[0]), owner.fields.get("data")
        if length is not None and isinstance(data, Pointer):
            made = make_vector(run, "vector", "char", multiply(length, number(data.element or 1)), "host", [])
            pointer = made.fields["data"]
            assert isinstance(pointer, Pointer)
            run.assign(
                place,
                RecordValue("vector", {"data": replace(data, allocation=pointer.allocation), "size": length}),
            )
    return Unknown() if isinstance(owner, RecordValue) else None


def _method_push(
    run: Execution, owner: Value, values: list[Value], place: Lvalue | Pointer | None, template: tuple[str, ...]
) -> Value | None:
    if isinstance(owner, RecordValue) and owner.type == "vector" and isinstance(place, Lvalue):
        data = owner.fields.get("data")
        if isinstance(data, Pointer) and data.allocation is not None:
            run.set_memory(data.allocation, replace(run.memory(data.allocation), size=None, contents=Contents("any")))
        hint = f"{run.name_of(place, 'vector')}_size"
        run.assign(place, RecordValue("vector", {**owner.fields, "size": run.unknown(hint, "computed")}))
        return Unknown()
    return None


LIBRARY: dict[str, Handler] = {
    **dict.fromkeys(("atoi", "atol", "atoll", "strtol", "strtoul", "strtoll", "strtoull"), _input),
    **dict.fromkeys(("strtoimax", "strtoumax", "stoi", "stol", "stoul", "stoll", "stoull"), _input),
    **dict.fromkeys(("getCmdLineArgumentInt",), _input),
    **dict.fromkeys(("assert", "TORCH_CHECK", "AT_ASSERTM", "AT_ASSERT", "CHECK", "TORCH_INTERNAL_ASSERT"), _assert),
    **dict.fromkeys(("scanf", "fscanf", "sscanf", "fread"), _scanf),
    **dict.fromkeys(("min", "fmin", "fminf"), _extreme_of("min")),
    **dict.fromkeys(("max", "fmax", "fmaxf"), _extreme_of("max")),
    **dict.fromkeys(("ceil", "ceilf"), _ceil),
    **dict.fromkeys(("sqrt", "sqrtf"), _real_function(math.sqrt)),
    **dict.fromkeys(("log2", "log2f"), _real_function(math.log2)),
    **dict.fromkeys(("pow", "powf"), _real_function(math.pow)),
    **dict.fromkeys(("floor", "floorf"), _real_function(math.floor)),
    **dict.fromkeys(("cdiv", "ceil_div", "ceildiv", "div_up", "divup"), _of_sizes(ceil_div, 2)),
    **dict.fromkeys(("next_power_of_2", "next_pow2", "next_power_of_two"), _of_sizes(next_power_of_two, 1)),
    **dict.fromkeys(("tuple", "list", "Size", "dict"), _list),
    **dict.fromkeys(("slice", "Ellipsis"), _slice),
    "len": _length,
    "prod": _product,
    "Parameter": _layer,
    **dict.fromkeys(("raw_pointer_cast", "move", "forward", "addressof", "unique_ptr", "shared_ptr"), _first),
    **MEMORY_FUNCTIONS,
    **DEVICE_FUNCTIONS,
    **NAMED_KERNELS,
    **dict.fromkeys(CONSTANTS, _constant),
    **dict.fromkeys(("iota", "fill", "generate", "fill_n", "generate_n"), _fill),
    **{f"make_{kind}{lanes}": _vector_of(lanes) for kind in _VECTORS for lanes in (2, 3, 4)},
    "make_cudaExtent": _extent,
    **TENSOR_FUNCTIONS,
}
METHODS: dict[str, Method] = {
    **dict.fromkeys(("data", "data_ptr", "begin", "const_data_ptr", "mutable_data_ptr"), _method_data),
    **TENSOR_METHODS,
    "size": _method_size,
    "get": _method_get,
    "get_function": get_function,
    "save_for_backward": _method_save,
    **dict.fromkeys(("register_buffer", "register_parameter"), _method_register),
    "update": _method_update,
    "warmup": lambda run, owner, values, place, template: owner if isinstance(owner, HostFunctionName) else None,
    "resize": _method_resize,
    **dict.fromkeys(("push_back", "emplace_back", "insert"), _method_push),
}
