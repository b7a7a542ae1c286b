"""Functions that allocate, copy and fill memory of the host and of the device."""

from __future__ import annotations

from dataclasses import replace

from gpuemu_lsp.engine.hostcode.interpreter import Handler
from gpuemu_lsp.engine.hostcode.state import Execution, HostCopy
from gpuemu_lsp.engine.hostcode.types import is_integer_type, size_of, type_of, typed
from gpuemu_lsp.engine.hostcode.values import (
    Allocation,
    Contents,
    FloatValue,
    Lvalue,
    Pointer,
    RecordValue,
    Unknown,
    Value,
    bounds,
    mixed,
    pointee,
)
from gpuemu_lsp.engine.symbolic.size import ONE, ZERO, Size, add, ceil_div, multiply, number


def _allocate(space: str) -> Handler:
    def apply(run: Execution, values: list[Value], template: tuple[str, ...], name: str) -> Value:
        if len(values) >= 2 and isinstance(values[0], Lvalue):
            _store_allocation(run, values[0], run.integer(values[1]), space)
        return ZERO

    return apply


def _store_allocation(run: Execution, place: Lvalue, size: Size | None, space: str) -> None:
    made = run.allocate(run.name_of(place, "memory"), size, space)
    before = run.get(place)
    run.assign(place, typed(run, made, pointee(before)))


def _allocate_pitch(run: Execution, values: list[Value], template: tuple[str, ...], name: str) -> Value:
    if len(values) >= 4 and isinstance(values[0], Lvalue):
        width, height = run.integer(values[2]), run.integer(values[3])
        # The pitch of current GPUs is a multiple of 512 bytes.
        pitch = multiply(ceil_div(width, number(512)), number(512)) if width is not None else None
        size = multiply(pitch, height) if pitch is not None and height is not None else None
        _store_allocation(run, values[0], size, "device")
        if isinstance(values[1], Lvalue) and pitch is not None:
            run.assign(values[1], pitch)
    return ZERO


def _malloc(run: Execution, values: list[Value], template: tuple[str, ...], name: str) -> Value:
    size = run.integer(values[-1]) if values else None
    if name.endswith("calloc") and len(values) == 2:
        count = run.integer(values[0])
        size = multiply(count, size) if count is not None and size is not None else None
    made = run.allocate(run.hint or "malloc", size, "host")
    if name.endswith("calloc"):
        run.set_contents(made, Contents("any", ZERO, ONE))
    return made


def _new(run: Execution, values: list[Value], template: tuple[str, ...], name: str) -> Value:
    element = template[0] if template else "char"
    size, length = size_of(run, element), values[0] if values else ONE
    total = multiply(size, length) if size is not None and isinstance(length, Size) else None
    return typed(run, run.allocate(run.hint or "new", total, "host"), element)


def _memcpy(run: Execution, values: list[Value], template: tuple[str, ...], name: str) -> Value:
    if len(values) < 3:
        return ZERO
    target, source, count = values[0], values[1], run.integer(values[2])
    if isinstance(source, Lvalue):
        inner = run.get(source)
        source = inner if isinstance(inner, Pointer) else source
    if isinstance(source, Pointer) and source.allocation is not None:
        array = target.allocation if isinstance(target, Pointer) and target.offset == ZERO else None
        run.reached.reads.append(HostCopy(source.allocation, count, len(run.reached.launches), array))
    if isinstance(target, Pointer) and target.allocation is not None:
        known = run.memory(target.allocation)
        whole = known.size is None or count is None or add(known.size, target.offset, -1) == count
        contents = _copied_contents(run, source)
        if not whole or target.offset != ZERO:
            contents = _merged(run, known, contents, target.offset, count)
        run.set_memory(target.allocation, replace(known, contents=contents))
    elif isinstance(target, Lvalue) and isinstance(run.get(target), Size):
        run.assign(target, run.unknown("value", "computed"))
    elif not isinstance(target, Lvalue):
        _written_somewhere(run)
    return ZERO


def _copied_contents(run: Execution, source: Value) -> Contents:
    contents = Contents("any", *bounds(run.get(source))) if isinstance(source, Lvalue) else run.contents(source)
    # A host array that the program fills in a way that is not seen here.
    return replace(contents, kind="any", begin=None) if contents.kind != "none" else Contents("unseen")


def _merged(run: Execution, known: Allocation, written: Contents, offset: Size, count: Size | None) -> Contents:
    """Return the contents of memory of which ``count`` bytes from ``offset`` are written."""
    before = known.contents
    if before.kind not in ("none", "some"):
        return mixed(before, written)
    first = ZERO if before.kind == "none" else before.begin
    if count is None or first is None or first != offset or run.repeated:
        return Contents("some")
    end = add(offset, count)
    if end == known.size:
        return Contents("any")
    return replace(written, kind="some", begin=end) if first == ZERO else Contents("some", begin=end)


def _written_somewhere(run: Execution) -> None:
    """Forget which bytes are not written yet: those at an address that is not known may be any."""
    for allocation, known in run.state.heap.items():
        if known.contents.begin is not None:
            run.set_memory(allocation, replace(known, contents=replace(known.contents, begin=None)))


def _memcpy_2d(run: Execution, values: list[Value], template: tuple[str, ...], name: str) -> Value:
    if len(values) >= 3:
        source = values[2]
        if isinstance(source, Pointer) and source.allocation is not None:
            run.reached.reads.append(HostCopy(source.allocation, None, len(run.reached.launches)))
        run.set_contents(values[0], Contents("any", *_bounds(run.contents(source))))
    return ZERO


def _bounds(contents: Contents) -> tuple[Size | None, Size | None]:
    return contents.low, contents.high


def _memset(run: Execution, values: list[Value], template: tuple[str, ...], name: str) -> Value:
    if len(values) >= 3 and isinstance(values[0], Lvalue):
        record, value = run.get(values[0]), run.integer(values[1])
        if isinstance(record, RecordValue) and value is not None and value.constant == 0:
            zeros = {field: _zero(run, held) for field, held in record.fields.items()}
            run.assign(values[0], replace(record, fields=zeros))
    if len(values) >= 3 and isinstance(values[0], Pointer) and values[0].allocation is not None:
        known = run.memory(values[0].allocation)
        value, count = run.integer(values[1]), run.integer(values[2])
        byte = None if value is None or value.constant is None else value.constant & 0xFF
        contents = Contents("any", ZERO, ONE) if byte == 0 else Contents("any", byte=byte)
        if known.size is not None and count is not None and add(known.size, values[0].offset, -1) != count:
            contents = _merged(run, known, contents, values[0].offset, count)
        run.set_memory(values[0].allocation, replace(known, contents=contents))
    elif len(values) >= 3 and not isinstance(values[0], Lvalue):
        _written_somewhere(run)
    return values[0] if values and name.endswith("memset") and not name.startswith("cuda") else ZERO


def _set_values(run: Execution, values: list[Value], template: tuple[str, ...], name: str) -> Value:
    """Set a number of values of 8, 16 or 32 bits: ``cuMemsetD32``."""
    count = run.integer(values[2]) if len(values) >= 3 else None
    width = int(name.removesuffix("Async").rpartition("D")[2]) // 8
    bytes_: Value = multiply(count, number(width)) if count is not None else Unknown()
    filled = values[1] if width == 1 or values[1] == ZERO else Unknown()
    return _memset(run, [values[0], filled, bytes_], template, name)


def _zero(run: Execution, value: Value) -> Value:
    """Return what a member has after all of its bytes were set to zero."""
    if isinstance(value, Pointer) or (isinstance(value, Unknown) and value.type.endswith("*")):
        return Pointer(None, ZERO)
    if isinstance(value, Size) or (isinstance(value, Unknown) and is_integer_type(type_of(run, value.type))):
        return ZERO
    return FloatValue(ZERO, ONE, 0.0) if isinstance(value, FloatValue) else value


def _host_pointer(run: Execution, values: list[Value], template: tuple[str, ...], name: str) -> Value:
    if len(values) >= 2 and isinstance(values[0], Lvalue) and isinstance(values[1], Pointer):
        run.assign(values[0], values[1])
    return ZERO


MEMORY_FUNCTIONS: dict[str, Handler] = {
    **dict.fromkeys(("cudaMalloc", "cudaMallocAsync", "cuMemAlloc", "cuMemAllocAsync"), _allocate("device")),
    **dict.fromkeys(("cudaMallocManaged", "cuMemAllocManaged"), _allocate("managed")),
    **dict.fromkeys(("cudaMallocHost", "cudaHostAlloc", "cuMemAllocHost", "cuMemHostAlloc"), _allocate("host")),
    **dict.fromkeys(("cudaMallocPitch", "cuMemAllocPitch"), _allocate_pitch),
    "new": _new,
    **dict.fromkeys(("malloc", "calloc", "aligned_alloc", "valloc", "_aligned_malloc"), _malloc),
    **dict.fromkeys(("cudaMemcpy", "cudaMemcpyAsync", "memcpy", "memmove"), _memcpy),
    **dict.fromkeys((f"cuMemcpy{way}{end}" for way in ("", "HtoD", "DtoH", "DtoD") for end in ("", "Async")), _memcpy),
    **dict.fromkeys((f"cuMemsetD{bits}{end}" for bits in (8, 16, 32) for end in ("", "Async")), _set_values),
    **dict.fromkeys(("cudaMemcpy2D", "cudaMemcpy2DAsync"), _memcpy_2d),
    **dict.fromkeys(("cudaMemset", "cudaMemsetAsync", "memset"), _memset),
    "cudaHostGetDevicePointer": _host_pointer,
}
