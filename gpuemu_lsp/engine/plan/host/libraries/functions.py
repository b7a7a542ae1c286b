"""Functions of CUDA, the C and C++ libraries, thrust and PyTorch that decide sizes and contents."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace

from gpuemu_lsp.engine.plan.host.libraries.device_functions import DEVICE_FUNCTIONS
from gpuemu_lsp.engine.plan.host.libraries.driver_api import NAMED_KERNELS
from gpuemu_lsp.engine.plan.host.libraries.tensors import (
    TENSOR_FUNCTIONS,
    TENSOR_METHODS,
    Handler,
    Method,
    tensor_size,
)
from gpuemu_lsp.engine.plan.host.machine import Machine, is_integer_type, pointee
from gpuemu_lsp.engine.plan.host.objects import CONSTANTS, constant_object, make_vector
from gpuemu_lsp.engine.plan.host.values import (
    Allocation,
    Contents,
    FloatValue,
    Lvalue,
    Pointer,
    Ranged,
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
    number,
)

HARMLESS = frozenset({
    "free", "cudaFree", "cudaFreeHost", "cudaFreeAsync", "srand", "time", "fprintf", "puts", "fflush",
    "cudaGetLastError", "cudaPeekAtLastError", "cudaGetErrorString", "cudaSetDevice", "cudaGetDevice", "delete",
"fwrite", "memcmp", "strcmp", "fclose",
})  # fmt: skip
NAMESPACED = frozenset({
    "iota", "fill", "generate", "fill_n", "generate_n", "empty", "zeros", "ones", "full", "rand_like", "empty_like",
    "zeros_like", "ones_like", "full_like", "move", "forward",
})  # fmt: skip
"""Functions of libraries that are called with their namespace."""
_VECTORS = ("char", "uchar", "short", "ushort", "int", "uint", "long", "ulong", "float", "double", "longlong", "half")
_RAND = Ranged(ZERO, number((1 << 31) - 1))


def _allocate(space: str) -> Handler:
    def run(machine: Machine, values: list[Value], template: tuple[str, ...], name: str) -> Value:
        if len(values) >= 2 and isinstance(values[0], Lvalue):
            _store_allocation(machine, values[0], machine.integer(values[1]), space)
        return ZERO

    return run


def _store_allocation(machine: Machine, place: Lvalue, size: Size | None, space: str) -> None:
    made = machine.allocate(_name_of(machine, place, "memory"), size, space)
    before = machine.get(place)
    machine.assign(place, machine.typed(made, pointee(before)))


def _allocate_pitch(machine: Machine, values: list[Value], template: tuple[str, ...], name: str) -> Value:
    if len(values) >= 4 and isinstance(values[0], Lvalue):
        width, height = machine.integer(values[2]), machine.integer(values[3])
        # The pitch of current GPUs is a multiple of 512 bytes.
        pitch = multiply(ceil_div(width, number(512)), number(512)) if width is not None else None
        size = multiply(pitch, height) if pitch is not None and height is not None else None
        _store_allocation(machine, values[0], size, "device")
        if isinstance(values[1], Lvalue) and pitch is not None:
            machine.assign(values[1], pitch)
    return ZERO


def _malloc(machine: Machine, values: list[Value], template: tuple[str, ...], name: str) -> Value:
    size = machine.integer(values[-1]) if values else None
    if name.endswith("calloc") and len(values) == 2:
        count = machine.integer(values[0])
        size = multiply(count, size) if count is not None and size is not None else None
    made = machine.allocate(machine.hint or "malloc", size, "host")
    if name.endswith("calloc"):
        machine.set_contents(made, Contents("any", ZERO, ONE))
    return made


def _memcpy(machine: Machine, values: list[Value], template: tuple[str, ...], name: str) -> Value:
    if len(values) < 3:
        return ZERO
    target, source, count = values[0], values[1], machine.integer(values[2])
    if isinstance(source, Lvalue):
        inner = machine.get(source)
        source = inner if isinstance(inner, Pointer) else source
    if isinstance(source, Pointer) and source.allocation is not None:
        machine.reads.append((source.allocation, count, len(machine.launches)))
    if isinstance(target, Pointer) and target.allocation is not None:
        known = machine.heap[target.allocation]
        whole = known.size is None or count is None or add(known.size, target.offset, -1) == count
        contents = _copied_contents(machine, source)
        if not whole or target.offset != ZERO:
            contents = _merged(machine, known, contents, target.offset, count)
        machine.heap[target.allocation] = replace(known, contents=contents)
    elif isinstance(target, Lvalue) and isinstance(machine.get(target), Size):
        machine.assign(target, machine.unknown("value", "computed"))
    elif not isinstance(target, Lvalue):
        _written_somewhere(machine)
    return ZERO


def _copied_contents(machine: Machine, source: Value) -> Contents:
    contents = machine.contents(source)
    # A host array that the program fills in a way that is not seen here.
    return replace(contents, kind="any", begin=None) if contents.kind != "none" else Contents("unseen")


def _merged(machine: Machine, known: Allocation, written: Contents, offset: Size, count: Size | None) -> Contents:
    """Return the contents of memory of which ``count`` bytes from ``offset`` are written."""
    before = known.contents
    if before.kind not in ("none", "some"):
        return Contents("any")
    first = ZERO if before.kind == "none" else before.begin
    if count is None or first is None or first != offset or machine.repeated:
        return Contents("some")
    end = add(offset, count)
    if end == known.size:
        return Contents("any")
    return replace(written, kind="some", begin=end) if first == ZERO else Contents("some", begin=end)


def _written_somewhere(machine: Machine) -> None:
    """Forget which bytes are not written yet: those at an address that is not known may be any."""
    for allocation, known in machine.heap.items():
        if known.contents.begin is not None:
            machine.heap[allocation] = replace(known, contents=replace(known.contents, begin=None))


def _memcpy_2d(machine: Machine, values: list[Value], template: tuple[str, ...], name: str) -> Value:
    if len(values) >= 3:
        source = values[2]
        if isinstance(source, Pointer) and source.allocation is not None:
            machine.reads.append((source.allocation, None, len(machine.launches)))
        machine.set_contents(values[0], Contents("any", *_bounds(machine.contents(source))))
    return ZERO


def _bounds(contents: Contents) -> tuple[Size | None, Size | None]:
    return contents.low, contents.high


def _memset(machine: Machine, values: list[Value], template: tuple[str, ...], name: str) -> Value:
    if len(values) >= 3 and isinstance(values[0], Lvalue):
        record, value = machine.get(values[0]), machine.integer(values[1])
        if isinstance(record, RecordValue) and value is not None and value.constant == 0:
            zeros = {field: _zero(machine, held) for field, held in record.fields.items()}
            machine.assign(values[0], replace(record, fields=zeros))
    if len(values) >= 3 and isinstance(values[0], Pointer) and values[0].allocation is not None:
        known = machine.heap[values[0].allocation]
        value, count = machine.integer(values[1]), machine.integer(values[2])
        byte = None if value is None or value.constant is None else value.constant & 0xFF
        contents = Contents("any", ZERO, ONE) if byte == 0 else Contents("any", byte=byte)
        if known.size is not None and count is not None and add(known.size, values[0].offset, -1) != count:
            contents = _merged(machine, known, contents, values[0].offset, count)
        machine.heap[values[0].allocation] = replace(known, contents=contents)
    elif len(values) >= 3 and not isinstance(values[0], Lvalue):
        _written_somewhere(machine)
    return values[0] if values and name.endswith("memset") and not name.startswith("cuda") else ZERO


def _set_values(machine: Machine, values: list[Value], template: tuple[str, ...], name: str) -> Value:
    """Set a number of values of 8, 16 or 32 bits: ``cuMemsetD32``."""
    count = machine.integer(values[2]) if len(values) >= 3 else None
    width = int(name.removesuffix("Async").rpartition("D")[2]) // 8
    bytes_: Value = multiply(count, number(width)) if count is not None else Unknown()
    filled = values[1] if width == 1 or values[1] == ZERO else Unknown()
    return _memset(machine, [values[0], filled, bytes_], template, name)


def _zero(machine: Machine, value: Value) -> Value:
    """Return what a member has after all of its bytes were set to zero."""
    if isinstance(value, Pointer) or (isinstance(value, Unknown) and value.type.endswith("*")):
        return Pointer(None, ZERO)
    if isinstance(value, Size) or (isinstance(value, Unknown) and is_integer_type(machine.type_of(value.type))):
        return ZERO
    return FloatValue(ZERO, ONE, 0.0) if isinstance(value, FloatValue) else value


def _assert(machine: Machine, values: list[Value], template: tuple[str, ...], name: str) -> Value:
    if values and isinstance(values[0], Condition):
        if values[0].value is False:
            return Unknown("exit")
        machine.conditions.append(values[0])
    return Unknown()


def _input(machine: Machine, values: list[Value], template: tuple[str, ...], name: str) -> Value:
    return machine.unknown(machine.hint or "argument", "input")


def _scanf(machine: Machine, values: list[Value], template: tuple[str, ...], name: str) -> Value:
    # What a user passes to the program may be any number; those of a file may depend on each other.
    origin = "input" if isinstance(values[0] if values else None, StringValue) and "sscanf" in name else "computed"
    for value in values:
        if isinstance(value, Lvalue) and not isinstance(machine.get(value), Pointer):
            machine.assign(value, machine.unknown(_name_of(machine, value, "input"), origin))
        elif isinstance(value, Pointer):
            machine.set_contents(value, Contents("any"))
    return Unknown()


def _name_of(machine: Machine, place: Lvalue, default: str) -> str:
    """Return the name of a variable, or of a member of one."""
    names = {cell: name for scope in machine.scopes for name, cell in scope.items() if isinstance(cell, int)}
    return names.get(place.cell, place.path[-1] if place.path else default)


def _extreme_of(kind: str) -> Handler:
    def run(machine: Machine, values: list[Value], template: tuple[str, ...], name: str) -> Value:
        numbers = [machine.integer(value) for value in values]
        if len(numbers) == 2 and numbers[0] is not None and numbers[1] is not None:
            return extreme(kind, numbers[0], numbers[1])
        return Unknown()

    return run


def _ceil(machine: Machine, values: list[Value], template: tuple[str, ...], name: str) -> Value:
    value = values[0] if values else Unknown()
    if isinstance(value, FloatValue) and value.top is not None and value.bottom is not None:
        up = ceil_div(value.top, value.bottom)
        return FloatValue(up, ONE, None if up.constant is None else float(up.constant))
    if isinstance(value, FloatValue) and value.value is not None:
        return FloatValue(number(math.ceil(value.value)), ONE, float(math.ceil(value.value)))
    return value


def _real_function(function: Callable[..., float]) -> Handler:
    def run(machine: Machine, values: list[Value], template: tuple[str, ...], name: str) -> Value:
        known = [_float(value) for value in values]
        if any(value is None for value in known):
            return FloatValue()
        try:
            result = float(function(*known))
        except (ValueError, OverflowError, ZeroDivisionError):
            return FloatValue()
        whole = number(int(result)) if result.is_integer() and abs(result) < 2**53 else None
        return FloatValue(whole, ONE if whole is not None else None, result)

    return run


def _float(value: Value) -> float | None:
    if isinstance(value, FloatValue):
        return value.value
    known = value.constant if isinstance(value, Size) else None
    return None if known is None else float(known)


def _first(machine: Machine, values: list[Value], template: tuple[str, ...], name: str) -> Value:
    return values[0] if values else Unknown()


def _vector_of(lanes: int) -> Handler:
    def run(machine: Machine, values: list[Value], template: tuple[str, ...], name: str) -> Value:
        if len(values) == 1 and isinstance(values[0], RecordValue):
            return values[0]
        given = values * lanes if len(values) == 1 else values
        return RecordValue(name.split("::")[-1].removeprefix("make_"), dict(zip("xyzw", given, strict=False)))

    return run


def _extent(machine: Machine, values: list[Value], template: tuple[str, ...], name: str) -> Value:
    return RecordValue("cudaExtent", dict(zip(("width", "height", "depth"), values, strict=False)))


def _constant(machine: Machine, values: list[Value], template: tuple[str, ...], name: str) -> Value:
    return constant_object(machine, name.split("::")[-1], template)


def _host_pointer(machine: Machine, values: list[Value], template: tuple[str, ...], name: str) -> Value:
    if len(values) >= 2 and isinstance(values[0], Lvalue) and isinstance(values[1], Pointer):
        machine.assign(values[0], values[1])
    return ZERO


def _fill(machine: Machine, values: list[Value], template: tuple[str, ...], name: str) -> Value:
    if values and isinstance(values[0], Pointer):
        contents = Contents("any")
        if name.endswith("iota") and len(values) == 3 and isinstance(values[2], Size):
            data = machine.heap[values[0].allocation or 0]
            if data.size is not None and values[0].element:
                high = add(values[2], data.size, 1)
                contents = Contents("any", values[2], high if values[0].element == 1 else None)
        machine.set_contents(values[0], contents)
    return Unknown()


def _method_data(
    machine: Machine, owner: Value, values: list[Value], place: Lvalue | Pointer | None, template: tuple[str, ...]
) -> Value | None:
    if isinstance(owner, RecordValue) and owner.type == "vector":
        return owner.fields.get("data", Unknown())
    if isinstance(owner, Pointer):
        return owner
    if isinstance(owner, Tensor):
        return machine.typed(Pointer(owner.allocation, ZERO), template[0] if template else "")
    return None


def _method_size(
    machine: Machine, owner: Value, values: list[Value], place: Lvalue | Pointer | None, template: tuple[str, ...]
) -> Value | None:
    if isinstance(owner, RecordValue) and owner.type == "vector":
        return owner.fields.get("size", Unknown())
    if isinstance(owner, Tensor) and values and isinstance(values[0], Size):
        return tensor_size(machine, owner, values[0].constant)
    return None


def _method_resize(
    machine: Machine, owner: Value, values: list[Value], place: Lvalue | Pointer | None, template: tuple[str, ...]
) -> Value | None:
    if isinstance(owner, RecordValue) and owner.type == "vector" and isinstance(place, Lvalue) and values:
        length, data = machine.integer(values[0]), owner.fields.get("data")
        if length is not None and isinstance(data, Pointer):
            made = make_vector(machine, "vector", "char", multiply(length, number(data.element or 1)), "host", [])
            pointer = made.fields["data"]
            assert isinstance(pointer, Pointer)
            machine.assign(
                place,
                RecordValue("vector", {"data": replace(data, allocation=pointer.allocation), "size": length}),
            )
    return Unknown() if isinstance(owner, RecordValue) else None


def _method_push(
    machine: Machine, owner: Value, values: list[Value], place: Lvalue | Pointer | None, template: tuple[str, ...]
) -> Value | None:
    if isinstance(owner, RecordValue) and owner.type == "vector" and isinstance(place, Lvalue):
        data = owner.fields.get("data")
        if isinstance(data, Pointer) and data.allocation is not None:
            machine.heap[data.allocation] = replace(machine.heap[data.allocation], size=None, contents=Contents("any"))
        machine.assign(place, RecordValue("vector", {**owner.fields, "size": machine.unknown("size", "computed")}))
        return Unknown()
    return None


LIBRARY: dict[str, Handler] = {
    **dict.fromkeys(("cudaMalloc", "cudaMallocAsync", "cuMemAlloc", "cuMemAllocAsync"), _allocate("device")),
    **dict.fromkeys(("cudaMallocManaged", "cuMemAllocManaged"), _allocate("managed")),
    **dict.fromkeys(("cudaMallocHost", "cudaHostAlloc", "cuMemAllocHost", "cuMemHostAlloc"), _allocate("host")),
    **dict.fromkeys(("cudaMallocPitch", "cuMemAllocPitch"), _allocate_pitch),
    **dict.fromkeys(("malloc", "calloc", "aligned_alloc", "valloc", "_aligned_malloc"), _malloc),
    **dict.fromkeys(("cudaMemcpy", "cudaMemcpyAsync", "memcpy", "memmove"), _memcpy),
    **dict.fromkeys((f"cuMemcpy{way}{end}" for way in ("", "HtoD", "DtoH", "DtoD") for end in ("", "Async")), _memcpy),
    **dict.fromkeys((f"cuMemsetD{bits}{end}" for bits in (8, 16, 32) for end in ("", "Async")), _set_values),
    **dict.fromkeys(("cudaMemcpy2D", "cudaMemcpy2DAsync"), _memcpy_2d),
    **dict.fromkeys(("cudaMemset", "cudaMemsetAsync", "memset"), _memset),
    **dict.fromkeys(("atoi", "atol", "atoll", "strtol", "strtoul", "stoi", "stol", "stoul"), _input),
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
    **dict.fromkeys(("rand", "random", "lrand48"), lambda machine, values, template, name: _RAND),
    **dict.fromkeys(("raw_pointer_cast", "move", "forward", "addressof", "unique_ptr", "shared_ptr"), _first),
    **DEVICE_FUNCTIONS,
    **NAMED_KERNELS,
    **dict.fromkeys(CONSTANTS, _constant),
    "cudaHostGetDevicePointer": _host_pointer,
    **dict.fromkeys(("iota", "fill", "generate", "fill_n", "generate_n"), _fill),
    **{f"make_{kind}{lanes}": _vector_of(lanes) for kind in _VECTORS for lanes in (2, 3, 4)},
    "make_cudaExtent": _extent,
    **TENSOR_FUNCTIONS,
}
METHODS: dict[str, Method] = {
    **dict.fromkeys(("data", "data_ptr", "begin", "const_data_ptr", "mutable_data_ptr", "get"), _method_data),
    "size": _method_size,
    **TENSOR_METHODS,
    "resize": _method_resize,
    **dict.fromkeys(("push_back", "emplace_back", "insert"), _method_push),
}
