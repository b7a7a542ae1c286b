"""Launches as the interpretation reaches them."""

from __future__ import annotations

import itertools
import re
from collections.abc import Container, Iterator
from dataclasses import replace
from typing import TypeAlias

from tree_sitter import Node

from gpuemu_lsp.engine.plan.host.expressions import template_arguments
from gpuemu_lsp.engine.plan.host.lookup.function_tables import functions_of
from gpuemu_lsp.engine.plan.host.machine import Machine
from gpuemu_lsp.engine.plan.host.syntax import text
from gpuemu_lsp.engine.plan.host.values import (
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
from gpuemu_lsp.engine.symbolic.conditions import Condition
from gpuemu_lsp.engine.symbolic.size import ONE, ZERO, Size, number

_MAX_LAUNCHES = 400
_LOOPS = frozenset({"for_statement", "while_statement", "do_statement"})
_WORD = re.compile(r"[A-Za-z_]\w*")
LAUNCH_FUNCTIONS = {
    "cudaLaunchKernel": 4, "cudaLaunchCooperativeKernel": 4, "cudaLaunchKernelEx": 2, "cudaLaunchKernelExC": 2,
    "cuLaunchKernel": 10, "cuLaunchCooperativeKernel": 10, "cudaGraphAddKernelNode": 5, "cudaGraphAddNode": 5,
}  # fmt: skip
"""Functions of the runtime and of the driver that launch a kernel, with the number of arguments that they need."""
Kernels: TypeAlias = "list[tuple[HostFunctionName, tuple[Condition, ...]]]"
_CONFIGURATION = ("gridDim", "blockDim", "dynamicSmemBytes")
"""The first members of ``cudaLaunchConfig_t``."""


def escape(machine: Machine, value: Value) -> None:
    """Forget the contents of memory that a function which is not known may write to."""
    if isinstance(value, Lvalue):
        inner = machine.get(value)
        if isinstance(inner, Size):
            machine.assign(value, machine.unknown(machine.hint or "size", "computed"))
        else:
            escape(machine, inner)
    elif isinstance(value, Pointer | Tensor) and value.allocation is not None:
        known = machine.heap[value.allocation]
        machine.heap[value.allocation] = replace(known, contents=Contents("any"), shared=True)
    elif isinstance(value, RecordValue):
        for inner in value.fields.values():
            if isinstance(inner, Pointer):
                escape(machine, inner)


def callee_name(callee: Node) -> tuple[str, Node | None]:
    """Return the name of a function and the node of its template arguments."""
    if callee.type == "template_function":
        return text(callee.child_by_field_name("name")), callee.child_by_field_name("arguments")
    if callee.type == "qualified_identifier":
        scope = text(callee.child_by_field_name("scope"))
        inner = callee.child_by_field_name("name")
        if inner is not None:
            name, template = callee_name(inner)
            return f"{scope}::{name}", template
    return text(callee), None


def launch(machine: Machine, node: Node, callee: Node | None, configuration: list[Node], arguments: list[Node]) -> None:
    """Record the launch ``kernel<...><<<configuration>>>(arguments)``."""
    if callee is None or len(configuration) < 2:
        return
    kernels = _kernels(machine, callee)
    if not kernels:
        for one in arguments:
            escape(machine, machine.evaluate(machine, one))
        return
    shared = machine.evaluate(machine, configuration[2]) if len(configuration) > 2 else ZERO
    _record(
        machine,
        node,
        kernels,
        machine.evaluate(machine, configuration[0]),
        machine.evaluate(machine, configuration[1]),
        machine.integer(shared),
        [machine.evaluate(machine, one) for one in arguments],
        _parts(node, arguments),
    )


def _kernels(machine: Machine, callee: Node) -> Kernels:
    """Return the kernels that an expression in front of ``<<<`` stands for, with the conditions for each."""
    if callee.type not in ("identifier", "template_function", "qualified_identifier"):
        return functions_of(machine.evaluate(machine, callee))
    name, template_node = callee_name(callee)
    template = template_arguments(machine, template_node)
    cell = machine.lookup(name)
    if not isinstance(cell, int):
        return [(HostFunctionName(name.split("::")[-1], template), ())]
    return [(replace(one, arguments=one.arguments or template), held) for one, held in functions_of(machine.held(cell))]


def _parts(launch: Node, arguments: list[Node]) -> frozenset[int]:
    """Return the positions of arguments that a loop around the launch sets to one part of an allocation after another.

    Such an argument is a computation with a variable that the loop changes, a pointer that it advances, or one that it
    sets to a place which depends on such a variable: ``p = base + i``. A pointer that it assigns otherwise, as a swap
    of two buffers does, is to the whole of one.
    """
    changed: set[str] = set()
    advanced: set[str] = set()
    node = launch.parent
    loops: list[Node] = []
    while node is not None and node.type != "function_definition":
        if node.type in _LOOPS:
            loops.append(node)
            _changes(node, changed, advanced)
        node = node.parent
    for loop in loops:
        advanced |= set(_places(loop, changed))
    return frozenset(
        position
        for position, argument in enumerate(arguments)
        if (advanced if argument.type == "identifier" else changed) & set(_WORD.findall(text(argument)))
    )


def _changes(node: Node, changed: set[str], advanced: set[str]) -> None:
    """Add the variables that are declared or assigned below a node, and those that are increased or decreased."""
    field = {"update_expression": "argument", "assignment_expression": "left", "init_declarator": "declarator"}
    target = node.child_by_field_name(field[node.type]) if node.type in field else None
    if target is not None and target.type == "identifier":
        changed.add(text(target))
        if node.type == "update_expression" or text(node.child_by_field_name("operator")) in ("+=", "-="):
            advanced.add(text(target))
    for child in node.named_children:
        _changes(child, changed, advanced)


def _places(node: Node, changed: Container[str]) -> Iterator[str]:
    """Yield the variables that are set below a node to a place which depends on a variable that changes."""
    fields = {"assignment_expression": ("left", "right"), "init_declarator": ("declarator", "value")}
    if node.type in fields:
        target, value = map(node.child_by_field_name, fields[node.type])
        while target is not None and target.type == "pointer_declarator":
            target = target.child_by_field_name("declarator")
        while value is not None and value.type in ("cast_expression", "parenthesized_expression"):
            value = value.child_by_field_name("value") or next(iter(value.named_children), None)
        place = value is not None and (
            text(value.child_by_field_name("operator")) in ("+", "-")
            if value.type == "binary_expression"
            else value.type == "pointer_expression" and text(value).startswith("&") and "[" in text(value)
        )
        if target is not None and place and any(word in changed for word in _WORD.findall(text(value))):
            yield text(target)
    for child in node.named_children:
        yield from _places(child, changed)


def runtime_launch(machine: Machine, node: Node, name: str, arguments: list[Node]) -> Value:
    """Record the launch of a call of one of ``LAUNCH_FUNCTIONS``."""
    if name.startswith("cudaGraph"):
        return _node_of_graph(machine, node, arguments)
    if "Ex" in name:
        return _configured_launch(machine, node, arguments, listed=name.endswith("C"))
    if not name.startswith("cuda"):
        return _module_launch(machine, node, arguments)
    function = machine.evaluate(machine, arguments[0])
    grid, block, listed = (machine.evaluate(machine, one) for one in arguments[1:4])
    shared = machine.evaluate(machine, arguments[4]) if len(arguments) > 4 else ZERO
    _listed_launch(machine, node, function, grid, block, shared, listed)
    return ZERO


def _node_of_graph(machine: Machine, node: Node, arguments: list[Node]) -> Value:
    """Record the launch of a kernel node: ``cudaGraphAddKernelNode(&node, graph, before, count, &parameters)``."""
    given = machine.evaluate(machine, arguments[-1])
    record = machine.get(given) if isinstance(given, Lvalue) else given
    if isinstance(record, RecordValue):
        inner = record.fields.get("kernel", record)  # cudaGraphNodeParams has those of each kind of node
        fields = inner.fields if isinstance(inner, RecordValue) else {}
        function, shared = fields.get("func", Unknown()), fields.get("sharedMemBytes", ZERO)
        grid, block, listed = (fields.get(name, Unknown()) for name in ("gridDim", "blockDim", "kernelParams"))
        _listed_launch(machine, node, function, grid, block, shared, listed)
    return ZERO


def _listed_launch(
    machine: Machine, node: Node, function: Value, grid: Value, block: Value, shared: Value, listed: Value
) -> None:
    """Record a launch whose arguments are an array of their addresses."""
    if kernels := functions_of(function):
        values = _pointed_to(machine, listed)
        _record(machine, node, kernels, grid, block, machine.integer(shared), values)


def _module_launch(machine: Machine, node: Node, arguments: list[Node]) -> Value:
    """Record the launch of ``cuLaunchKernel(function, x, y, z, x, y, z, shared, stream, addresses, extra)``."""
    function, *sizes, shared, _stream, listed = (machine.evaluate(machine, one) for one in arguments[:10])
    grid, block = (RecordValue("dim3", dict(zip("xyz", extents, strict=True))) for extents in (sizes[:3], sizes[3:]))
    _listed_launch(machine, node, function, grid, block, shared, listed)
    return ZERO


def _configured_launch(machine: Machine, node: Node, arguments: list[Node], listed: bool) -> Value:
    """Record the launch of ``cudaLaunchKernelEx(&config, kernel, arguments...)``.

    ``listed``: the arguments are an array of their addresses.
    """
    given, function = (machine.evaluate(machine, one) for one in arguments[:2])
    config = machine.get(given) if isinstance(given, Lvalue) else given
    values = [machine.evaluate(machine, one) for one in arguments[2:]]
    kernels = functions_of(function)
    if not kernels or not isinstance(config, RecordValue):
        for value in values:
            escape(machine, value)
        return ZERO
    grid, block, shared = (
        config.fields.get(member, config.fields.get(f"[{position}]", Unknown() if position < 2 else ZERO))
        for position, member in enumerate(_CONFIGURATION)
    )
    if listed:
        values = _pointed_to(machine, values[0]) if values else []
    parts = frozenset[int]() if listed else _parts(node, arguments[2:])
    _record(machine, node, kernels, grid, block, machine.integer(shared), values, parts)
    return ZERO


def _pointed_to(machine: Machine, listed: Value) -> list[Value]:
    """Return the arguments at the addresses in an array."""
    if isinstance(listed, Lvalue) and listed.path[-1:] == ("[0]",):
        listed = Lvalue(listed.cell, listed.path[:-1])  # &addresses[0]
    listed = machine.get(listed) if isinstance(listed, Lvalue) else listed
    addresses = listed.fields.values() if isinstance(listed, RecordValue) else ()
    return [machine.get(one) if isinstance(one, Lvalue) else Unknown() for one in addresses]


def _record(
    machine: Machine,
    node: Node,
    kernels: Kernels,
    grid: Value,
    block: Value,
    shared: Size | None,
    values: list[Value],
    parts: frozenset[int] = frozenset(),
) -> None:
    """Record a launch, once for each kernel that the program may have selected; they have one number."""
    if len(machine.launches) >= _MAX_LAUNCHES:
        return
    values = [Pointer(one.allocation, ZERO) if isinstance(one, Tensor) else one for one in values]
    machine.launches += [
        HostLaunch(
            kernel.name,
            kernel.arguments,
            _extents(machine, grid),
            _extents(machine, block),
            shared,
            tuple(values),
            dict(machine.heap),
            (*machine.conditions, *conditions),
            machine.path,
            node.start_point[0] if machine.line is None else machine.line,
            len(machine.launches) + len(kernels) - 1,
            machine.function,
            machine.recursive,
            conditions,
            parts,
        )
        for kernel, conditions in kernels
    ]
    for value in itertools.chain.from_iterable(map(_pointers, values)):
        if value.allocation is not None:
            known = machine.heap[value.allocation]
            contents = replace(known.contents, byte=None) if known.contents.kind == "any" else Contents("kernel")
            machine.heap[value.allocation] = replace(known, contents=contents, kernels=known.kernels + 1)


def _pointers(value: Value) -> list[Pointer]:
    if isinstance(value, Pointer):
        return [value]
    return (
        [inner for inner in value.fields.values() if isinstance(inner, Pointer)]
        if isinstance(value, RecordValue)
        else []
    )


def _extents(machine: Machine, value: Value) -> tuple[Size | None, ...]:
    if isinstance(value, RecordValue) and value.type in ("", "dim3", "uint3", "int3", "list"):
        # A `dim3` in a struct may be known by its assigned members alone.
        by_name = [value.fields.get(axis, ONE) for axis in "xyz"]
        fields = by_name if "x" in value.fields else list(value.fields.values())
        parts = [machine.integer(one) for one in fields][:3]
        while len(parts) > 1 and parts[-1] is not None and parts[-1].constant == 1:
            parts.pop()
        return tuple(parts) or (number(1),)
    return (machine.integer(value),)
