"""Pointer arguments: the length and the contents of the memory as the host code has them at the launch."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from gpuemu_lsp.engine.element_types import DISCRETE, ElementType, dtype_size
from gpuemu_lsp.engine.hostcode.values import Allocation, Pointer, Tensor, Value
from gpuemu_lsp.engine.plan.facts import Source, Tried, ValueFact
from gpuemu_lsp.engine.plan.host.chosen_launches import is_copied_back
from gpuemu_lsp.engine.plan.host.parameters.builder import Building
from gpuemu_lsp.engine.plan.model import PlanArg, ScalarArg, TensorArg
from gpuemu_lsp.engine.project.expressions import Expression, parse
from gpuemu_lsp.engine.symbolic.size import UNKNOWN_OFFSET, Size, add, divide, number, symbols


def tensor(
    building: Building, name: str, known: ElementType, opaque: bool, const: bool, value: Value
) -> Iterator[PlanArg]:
    """Yield the buffer that a pointer of the host code is the address of; the null pointer is a number."""
    if isinstance(value, Tensor):
        value = Pointer(value.allocation, number(0))
    if isinstance(value, Pointer) and value.allocation is None:
        yield ScalarArg(name, name, "uint64", parse(0))
        return
    bounds: tuple[Expression | float, Expression | float] | None = None
    allocation = value.allocation if isinstance(value, Pointer) else None
    memory = None if allocation is None else building.found.launch.memory[allocation]
    if isinstance(value, Pointer) and value.offset.constant == 0:
        building.begins.add(name)
    whole = memory is not None and isinstance(value, Pointer) and _is_placed(memory, value, known)
    elements = _elements(memory, value, known, whole) if memory is not None and isinstance(value, Pointer) else None
    if elements is None and isinstance(value, Pointer) and value.offset.constant == 0:
        elements = _tensor_elements(building, name, allocation)
    if elements is not None and building.few and building.is_unknown(elements):
        elements = None
    if opaque and memory and memory.size is None:
        elements = None  # Those of a tensor passed as `void*` may have any size.
    if memory is None or elements is None or allocation is None or not isinstance(value, Pointer):
        building.open = True
        building.relates |= not building.constraints.reads_sizes(building.found.run.tensors.get(allocation or 0, ""))
        if known.dtype in DISCRETE:
            bounds = _assumed(building, name, known, opaque)
        yield TensorArg(name, name, "in" if const else "inout", known.dtype, (), bounds, lanes=known.lanes)
        return
    starts_later = value.offset.constant != 0
    if starts_later and not whole:
        building.uncertain.add(name)
    if starts_later:
        # The kernel need not write what lies before the address.
        building.unjudged.add(name)
    written = memory.contents.kind == "none" and memory.space != "parameter" and not memory.shared
    # A graph is launched after the code that captures it, and more than once.
    written = written and "cudaGraphLaunch" not in building.context.source.text
    direction = "out" if written else "in" if const else "inout"
    kernels = building.context.source.kernels
    if direction == "out" and (const or not is_copied_back(building.found, allocation, memory, kernels)):
        building.unjudged.add(name)
    shape = building.expression(elements)
    if allocation in building.found.run.tensors:
        building.callers.add(name)
    if known.dtype in DISCRETE:
        bounds = _range(building, name, memory, known, opaque)
    offset = building.expression(value.offset) if starts_later and whole else None
    yield TensorArg(
        name,
        name,
        direction,
        known.dtype,
        (shape,),
        bounds,
        lanes=known.lanes,
        pointer_offset=offset,
        initialized=None if starts_later else _written_bytes(building, memory),
    )


def _tensor_elements(building: Building, name: str, allocation: int | None) -> Size | None:
    """Return the number of elements of a tensor that a caller passes; None if its rank is assumed or not known."""
    tensor = building.found.run.tensors.get(allocation or 0)
    if tensor is None:
        return None
    elements, assumed = building.constraints.tensor_elements(tensor)
    if elements is not None and assumed:
        building.ranks[name] = building.expression(elements)
    return None if assumed else elements


def _written_bytes(building: Building, memory: Allocation) -> Expression | None:
    """Return how many bytes from the begin of a buffer the host alone has written; None unless that is known.

    A number of bytes that does not follow from the size of the buffer may be all of it.
    """
    begin = memory.contents.begin
    if begin is None or memory.size is None or memory.shared or not symbols(begin) <= symbols(memory.size):
        return None
    return building.expression(begin)


def _is_placed(memory: Allocation, pointer: Pointer, known: ElementType) -> bool:
    """Return whether it is known where in its allocation a pointer points to.

    An offset with other symbols than the size, such as the variable of a loop, may be any.
    """
    if memory.size is None or memory.space == "parameter":
        return False
    return symbols(pointer.offset) <= symbols(memory.size)


def _elements(memory: Allocation, pointer: Pointer, known: ElementType, whole: bool) -> Size | None:
    """Return the length of a buffer in values, from its begin if it is ``whole``; None if it is not known."""
    if UNKNOWN_OFFSET in symbols(pointer.offset):
        return None
    if memory.elements is not None and memory.size is None:
        return memory.elements if pointer.offset.constant == 0 else None
    if memory.size is None:
        return None
    length = memory.size if whole else add(memory.size, pointer.offset, -1)
    return divide(length, number(dtype_size(known.dtype)))


def _range(
    building: Building, name: str, memory: Allocation, known: ElementType, opaque: bool
) -> tuple[Expression | float, Expression | float] | None:
    contents = memory.contents
    if contents.byte is not None:
        filled = bytes([contents.byte]) * dtype_size(known.dtype)
        value = int.from_bytes(filled, "little", signed=known.dtype.startswith("int"))
        if contents.low is None or contents.high is None:
            return parse(value), parse(value + 1)
        building.values[name] = ValueFact(Source.ASSUMED)
        low, high = building.expression(contents.low), building.expression(contents.high)
        return parse(f"min({value}, {low})"), parse(f"max({value + 1}, {high})")
    if contents.low is not None and contents.high is not None and not opaque:
        if not contents.shown:
            building.values[name] = ValueFact(Source.ASSUMED)
        return building.expression(contents.low), building.expression(contents.high)
    return (parse(0), parse(1)) if contents.kind == "none" else _assumed(building, name, known, opaque)


def _assumed(
    building: Building, name: str, known: ElementType, opaque: bool
) -> tuple[Expression | float, Expression | float] | None:
    """Return the range of integers that the program does not show: zeros are valid as indices and as lengths.

    A flag may be either.
    """
    building.values[name] = ValueFact(Source.ASSUMED, Tried.RANGE if opaque else Tried.ZEROS)
    return None if known.dtype == "bool" else (parse(0), parse(1))


def with_shared_memory(args: list[PlanArg], values: tuple[Value, ...], building: Building) -> list[PlanArg]:
    """Return the arguments, of which those that point into one allocation share memory.

    Such a buffer is not one that the kernel has to write. Where it is passed as different types, its extents are
    uncertain.
    """
    given = [value.allocation for value in values if isinstance(value, Pointer) and value.allocation is not None]
    if len(set(given)) == len(given):
        return args
    allocations = {
        param.name: value.allocation
        for param, value in zip(building.context.declaration.params, values, strict=False)
        if isinstance(value, Pointer) and given.count(value.allocation or 0) > 1
    }
    owners: dict[int | None, TensorArg] = {}
    made: list[PlanArg] = []
    for arg in args:
        if isinstance(arg, TensorArg) and arg.param in allocations:
            arg = replace(arg, direction="inout", initialized=None)
            owner = owners.setdefault(allocations[arg.param], arg)
            building.unjudged.add(arg.param)
            if owner is not arg:
                same = (owner.dtype, owner.shape) == (arg.dtype, arg.shape) and arg.shape
                if same and not {owner.param, arg.param} & building.uncertain:
                    arg = replace(arg, shares=owner.param, range=owner.range)
                else:
                    building.uncertain |= {owner.param, arg.param}
        made.append(arg)
    return made
