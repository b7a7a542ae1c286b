"""Launches as the interpretation reaches them."""

from __future__ import annotations

import itertools
from collections.abc import Container, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TypeAlias

from gpuemu_lsp.engine.hostcode import ir
from gpuemu_lsp.engine.hostcode.functions import (
    arguments_by_name,
    arguments_by_position,
    call_closure,
    call_function,
)
from gpuemu_lsp.engine.hostcode.interpreter import evaluate, evaluates
from gpuemu_lsp.engine.hostcode.selections import functions_of
from gpuemu_lsp.engine.hostcode.state import Execution
from gpuemu_lsp.engine.hostcode.stride_arguments import fill_with_strides
from gpuemu_lsp.engine.hostcode.types import lookup, template_arguments
from gpuemu_lsp.engine.hostcode.values import (
    LAUNCH_ARGUMENTS,
    Closure,
    Contents,
    HostFunctionName,
    HostLaunch,
    Lvalue,
    Pointer,
    RecordValue,
    Tensor,
    Unknown,
    Value,
)
from gpuemu_lsp.engine.hostcode.walk import names_in, walk, written
from gpuemu_lsp.engine.symbolic.conditions import Condition
from gpuemu_lsp.engine.symbolic.size import ONE, ZERO, Size, number

_MAX_LAUNCHES = 400
LAUNCH_FUNCTIONS = {
    "cudaLaunchKernel": 4, "cudaLaunchCooperativeKernel": 4, "cudaLaunchKernelEx": 2, "cudaLaunchKernelExC": 2,
    "cuLaunchKernel": 10, "cuLaunchCooperativeKernel": 10, "cudaGraphAddKernelNode": 5, "cudaGraphAddNode": 5,
}  # fmt: skip
"""Functions of the runtime and of the driver that launch a kernel, with the number of arguments that they need."""
Kernels: TypeAlias = "list[tuple[HostFunctionName, tuple[Condition, ...]]]"
_CONFIGURATION = ("gridDim", "blockDim", "dynamicSmemBytes")
"""The first members of ``cudaLaunchConfig_t``."""


@evaluates(ir.Launch)
def _launch(run: Execution, node: ir.Launch) -> Value:
    """Record the launch ``kernel<...><<<configuration>>>(arguments)``."""
    kernels = _kernels(run, node.kernel)
    if any(kernel.called for kernel, _ in kernels) and isinstance(node.grid, ir.ListValue):
        return called_kernel(run, node, kernels, node.grid.items)
    chosen = functions_of(evaluate(run, ir.Subscript(node.kernel, node.grid))) if not kernels else []
    if any(kernel.called for kernel, _ in chosen):  # `kernels["scale"](grid, block, arguments)`
        return called_kernel(run, node, chosen)
    if not kernels:
        for value in (*arguments_by_position(run, node.arguments), *arguments_by_name(run, node.keywords).values()):
            run.escape(value)
        return Unknown()
    shared = evaluate(run, node.shared) if node.shared is not None else ZERO
    return launched(run, node, kernels, evaluate(run, node.grid), evaluate(run, node.block), run.integer(shared))


def launched(
    run: Execution,
    node: ir.Launch | ir.CallExpression,
    kernels: Kernels,
    grid: Value,
    block: Value = ONE,
    shared: Size | None = ZERO,
) -> Value:
    """Record the launch of kernels, of which ``node`` has the arguments; return the compiled kernel."""
    parameters = _parameters(run, kernels[0][0])
    fill_with_strides(run, node, parameters)
    values = arguments_by_position(run, node.arguments)
    keywords = arguments_by_name(run, node.keywords)
    if parameters:
        named = dict(zip((parameter.name for parameter in parameters), values, strict=False)) | keywords
        computed = _computed(run, parameters, named)
        keywords |= {name: value for name, value in computed.items() if isinstance(value, Size)}
        grid = _of_arguments(run, grid, named | computed)
    _record(run, node, kernels, (grid, block, shared), values, node.arguments, keywords)
    return kernels[0][0]  # Triton's compiled kernel, which may be launched again


def _as_pointers(values: Sequence[Value]) -> list[Value]:
    return [Pointer(value.allocation, ZERO) if isinstance(value, Tensor) else value for value in values]


def _parameters(run: Execution, kernel: HostFunctionName) -> tuple[ir.HostParameter, ...]:
    """Return the parameters of a kernel in the language of the host code."""
    functions = run.program.find(kernel.name) if kernel.name in run.program.kernels else []
    return functions[0].body.parameters if functions else ()


def _of_arguments(run: Execution, function: Value, arguments: Mapping[str, Value]) -> Value:
    """Return what a function of the arguments by name returns; other values unchanged."""
    record = RecordValue(LAUNCH_ARGUMENTS, arguments)
    if isinstance(function, Closure):
        return call_closure(run, function, [record])
    functions = run.program.find(function.name) if isinstance(function, HostFunctionName) else []
    return call_function(run, functions[0], [record], ()) if functions else function


def _computed(
    run: Execution, parameters: Sequence[ir.HostParameter], arguments: Mapping[str, Value]
) -> dict[str, Value]:
    """Return the parameters that functions of the others compute, as ``triton.heuristics`` states them."""
    values: dict[str, Value] = {}
    for parameter in parameters:
        default = evaluate(run, parameter.default) if parameter.default is not None else None
        if parameter.name not in arguments and isinstance(default, Closure | HostFunctionName):
            values[parameter.name] = _of_arguments(run, default, {**arguments, **values})
    return values


def _kernels(run: Execution, callee: ir.Expression) -> Kernels:
    """Return the kernels that an expression in front of ``<<<`` stands for, with the conditions for each."""
    if not isinstance(callee, ir.NameUse):
        return functions_of(evaluate(run, callee))
    template = template_arguments(run, callee.arguments)
    cell = lookup(run, callee.name)
    if not isinstance(cell, int):
        return [(HostFunctionName(callee.base, template), ())]
    return [(replace(one, arguments=one.arguments or template), held) for one, held in functions_of(run.held(cell))]


def _parts(run: Execution, arguments: Sequence[ir.Expression]) -> frozenset[int]:
    """Return the positions of arguments that a loop around the launch sets to one part of an allocation after another.

    Such an argument is a computation with a variable that the loop changes, a pointer that it advances, or one that it
    sets to a place which depends on such a variable: ``p = base + i``. A pointer that it assigns otherwise, as a swap
    of two buffers does, is to the whole of one.
    """
    if not run.frame.loops:
        return frozenset()
    changed: set[str] = set()
    advanced: set[str] = set()
    for node in (node for loop in run.frame.loops for node in walk(loop)):
        if isinstance(node, ir.Assign) and isinstance(node.target, ir.NameUse):
            changed.add(node.target.name)
            if node.operator in ("+", "-"):
                advanced.add(node.target.name)
        elif isinstance(node, ir.Declare) and not node.pointers and not node.lengths:
            changed.add(node.name)
    for loop in run.frame.loops:
        advanced |= set(_places(loop, changed))
    return frozenset(
        position
        for position, argument in enumerate(arguments)
        if (advanced if isinstance(argument, ir.NameUse) else changed) & names_in(argument)
    )


def _places(loop: ir.Node, changed: Container[str]) -> Iterator[str]:
    """Yield the variables that are set in a loop to a place which depends on a variable that changes."""
    for node in walk(loop):
        if isinstance(node, ir.Assign):
            target, value = written(node.target), node.value
        elif isinstance(node, ir.Declare) and node.value is not None:
            target, value = node.name, node.value
        else:
            continue
        while isinstance(value, ir.Cast):
            value = value.value
        if isinstance(value, ir.BinaryOperation):
            place = value.operator in ("+", "-")
        else:
            place = isinstance(value, ir.AddressOf) and any(isinstance(one, ir.Subscript) for one in walk(value))
        if place and any(name in changed for name in names_in(value)):
            yield target


def called_kernel(
    run: Execution,
    node: ir.CallExpression | ir.Launch,
    kernels: Kernels,
    configuration: Sequence[ir.Expression] = (),
) -> Value:
    """Record the launch of a kernel that is called.

    In CuPy ``k(grid, block, (a, n), shared_mem=...)``, in PyCUDA ``k(a, n, grid=..., block=..., shared=...)``, and with
    a ``configuration`` ``k[grid, block, stream, shared](a, n)``. One without a grid is for this call's sizes only.
    """
    keywords, arguments = dict(node.keywords), node.arguments
    listed = keywords.get("args")
    values = [evaluate(run, each) for each in (*arguments, *keywords.values())]
    third = values[2] if len(arguments) > 2 else Unknown()
    sizes: Sequence[ir.Expression | None] = [*configuration[:2], *configuration[3:4]]
    if not configuration and "block" not in keywords and isinstance(third, RecordValue):
        sizes, listed = [*arguments[:2], *arguments[3:4], keywords.get("shared_mem")], arguments[2]
    elif not configuration:
        sizes = [keywords.get("grid"), keywords.get("block"), keywords.get("shared", keywords.get("shared_mem"))]
    grid, block = sizes[:2] if len(sizes) > 1 else (None, None)
    shared = next((each for each in sizes[2:] if each is not None), None)
    passed = evaluate(run, listed) if listed is not None else None
    if grid is None or block is None or not any(kernel.called for kernel, _ in kernels):
        for value in values:
            run.escape(value)
        return Unknown()
    if listed is not None:
        arguments = listed.items if isinstance(listed, ir.ListValue) else ()
        values = [*passed.fields.values()] if isinstance(passed, RecordValue) else []
    else:
        values = values[: len(arguments)]
    dynamic = run.integer(evaluate(run, shared)) if shared is not None else ZERO
    _record(run, node, kernels, (evaluate(run, grid), evaluate(run, block), dynamic), values, arguments)
    return Unknown()


def runtime_launch(run: Execution, node: ir.Expression, name: str, arguments: Sequence[ir.Expression]) -> Value:
    """Record the launch of a call of one of ``LAUNCH_FUNCTIONS``."""
    if name.startswith("cudaGraph"):
        return _node_of_graph(run, node, arguments)
    if "Ex" in name:
        return _configured_launch(run, node, arguments, listed=name.endswith("C"))
    if not name.startswith("cuda"):
        return _module_launch(run, node, arguments)
    function = evaluate(run, arguments[0])
    grid, block, listed = (evaluate(run, one) for one in arguments[1:4])
    shared = evaluate(run, arguments[4]) if len(arguments) > 4 else ZERO
    _listed_launch(run, node, function, grid, block, shared, listed)
    return ZERO


def _node_of_graph(run: Execution, node: ir.Expression, arguments: Sequence[ir.Expression]) -> Value:
    """Record the launch of a kernel node: ``cudaGraphAddKernelNode(&node, graph, before, count, &parameters)``."""
    given = evaluate(run, arguments[-1])
    record = run.get(given) if isinstance(given, Lvalue) else given
    if isinstance(record, RecordValue):
        inner = record.fields.get("kernel", record)  # cudaGraphNodeParams has those of each kind of node
        fields = inner.fields if isinstance(inner, RecordValue) else {}
        function, shared = fields.get("func", Unknown()), fields.get("sharedMemBytes", ZERO)
        grid, block, listed = (fields.get(name, Unknown()) for name in ("gridDim", "blockDim", "kernelParams"))
        _listed_launch(run, node, function, grid, block, shared, listed)
    return ZERO


def _listed_launch(
    run: Execution,
    node: ir.Expression,
    function: Value,
    grid: Value,
    block: Value,
    shared: Value,
    listed: Value,
) -> None:
    """Record a launch whose arguments are an array of their addresses."""
    if kernels := functions_of(function):
        values, names = _pointed_to(run, listed)
        _record(run, node, kernels, (grid, block, run.integer(shared)), values, names)


def _module_launch(run: Execution, node: ir.Expression, arguments: Sequence[ir.Expression]) -> Value:
    """Record the launch of ``cuLaunchKernel(function, x, y, z, x, y, z, shared, stream, addresses, extra)``."""
    function, *sizes, shared, _stream, listed = (evaluate(run, one) for one in arguments[:10])
    grid, block = (RecordValue("dim3", dict(zip("xyz", extents, strict=True))) for extents in (sizes[:3], sizes[3:]))
    _listed_launch(run, node, function, grid, block, shared, listed)
    return ZERO


def _configured_launch(run: Execution, node: ir.Expression, arguments: Sequence[ir.Expression], listed: bool) -> Value:
    """Record the launch of ``cudaLaunchKernelEx(&config, kernel, arguments...)``.

    ``listed``: the arguments are an array of their addresses.
    """
    given, function = (evaluate(run, one) for one in arguments[:2])
    config = run.get(given) if isinstance(given, Lvalue) else given
    values = [evaluate(run, one) for one in arguments[2:]]
    names: Sequence[ir.Expression] = arguments[2:]
    kernels = functions_of(function)
    if not kernels or not isinstance(config, RecordValue):
        for value in values:
            run.escape(value)
        return ZERO
    grid, block, shared = (
        config.fields.get(member, config.fields.get(f"[{position}]", Unknown() if position < 2 else ZERO))
        for position, member in enumerate(_CONFIGURATION)
    )
    if listed:
        values, names = _pointed_to(run, values[0]) if values else ([], ())
    _record(run, node, kernels, (grid, block, run.integer(shared)), values, names)
    return ZERO


def _pointed_to(run: Execution, listed: Value) -> tuple[list[Value], Sequence[ir.Expression]]:
    """Return the arguments at the addresses in an array, and the variables that they are."""
    if isinstance(listed, Lvalue) and listed.path[-1:] == ("[0]",):
        listed = Lvalue(listed.cell, listed.path[:-1])  # &addresses[0]
    listed = run.get(listed) if isinstance(listed, Lvalue) else listed
    addresses = listed.fields.values() if isinstance(listed, RecordValue) else ()
    names = [run.name_of(one, "") if isinstance(one, Lvalue) and not one.path else "" for one in addresses]
    values = [run.get(one) if isinstance(one, Lvalue) else Unknown() for one in addresses]
    return values, tuple(map(ir.NameUse, names))


def _record(
    run: Execution,
    node: ir.Expression,
    kernels: Kernels,
    configuration: tuple[Value, Value, Size | None],
    values: list[Value],
    arguments: Sequence[ir.Expression],
    keywords: Mapping[str, Value] | None = None,
) -> None:
    """Record a launch, once for each kernel that the program may have selected; they have one number.

    ``configuration`` is grid, block and dynamic shared memory. ``arguments`` are the expressions whose values are
    passed, as far as they are written in the launch.
    """
    if len(run.reached.launches) >= _MAX_LAUNCHES:
        return
    grid, block, shared = configuration
    if not keywords and not _parameters(run, kernels[0][0]):
        values = _as_pointers(values)
    run.reached.launches += [
        HostLaunch(
            kernel.name,
            kernel.arguments,
            _extents(run, grid),
            _extents(run, block),
            shared,
            tuple(values),
            run.state.heap,
            (*run.state.conditions, *conditions),
            run.frame.path,
            run.frame.line + node.span.line,
            len(run.reached.launches) + len(kernels) - 1,
            run.frame.function,
            run.frame.recursive,
            conditions,
            tuple(each.name if isinstance(each, ir.NameUse) else "" for each in map(_uncast, arguments)),
            _parts(run, arguments),
            keywords or {},
            node if isinstance(node, ir.Launch) else None,
        )
        for kernel, conditions in kernels
    ]
    for value in itertools.chain.from_iterable(map(_pointers, (*values, *(keywords or {}).values()))):
        if value.allocation is not None:
            known = run.memory(value.allocation)
            contents = replace(known.contents, byte=None) if known.contents.kind == "any" else Contents("kernel")
            run.set_memory(value.allocation, replace(known, contents=contents, kernels=known.kernels + 1))


def _uncast(node: ir.Expression) -> ir.Expression:
    while isinstance(node, ir.Cast):
        node = node.value
    return node


def _pointers(value: Value) -> list[Pointer]:
    if isinstance(value, Pointer):
        return [value]
    if isinstance(value, Tensor):
        return [Pointer(value.allocation, ZERO)]
    return (
        [inner for inner in value.fields.values() if isinstance(inner, Pointer)]
        if isinstance(value, RecordValue)
        else []
    )


def _extents(run: Execution, value: Value) -> tuple[Size | None, ...]:
    if isinstance(value, RecordValue) and value.type in ("", "dim3", "uint3", "int3", "list"):
        # A `dim3` in a struct may be known by its assigned members alone.
        by_name = [value.fields.get(axis, ONE) for axis in "xyz"]
        fields = by_name if "x" in value.fields else list(value.fields.values())
        parts = [run.integer(one) for one in fields]
        while len(parts) > 1 and parts[-1] is not None and parts[-1].constant == 1:
            parts.pop()
        return tuple(parts) or (number(1),)
    return (run.integer(value),)
