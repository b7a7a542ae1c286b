"""Launches as the interpretation reaches them."""

from __future__ import annotations

import itertools
import re
from dataclasses import replace

from tree_sitter import Node

from gpuemu_lsp.engine.plan.host.expressions import template_arguments
from gpuemu_lsp.engine.plan.host.machine import Machine
from gpuemu_lsp.engine.plan.host.symbolic import ZERO, Polynomial, number
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

_MAX_LAUNCHES = 400
_LOOPS = frozenset({"for_statement", "while_statement", "do_statement"})
_WORD = re.compile(r"[A-Za-z_]\w*")


def escape(machine: Machine, value: Value) -> None:
    """Forget the contents of memory that a function which is not known may write to."""
    if isinstance(value, Lvalue):
        inner = machine.get(value)
        if isinstance(inner, Polynomial):
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
    name, template_node = callee_name(callee)
    template = template_arguments(machine, template_node)
    cell = machine.lookup(name)
    if isinstance(cell, int):
        value = machine.held(cell)
        if not isinstance(value, HostFunctionName):
            for one in arguments:
                escape(machine, machine.evaluate(machine, one))
            return
        name, template = value.name, value.arguments or template
    name = name.split("::")[-1]
    shared = machine.evaluate(machine, configuration[2]) if len(configuration) > 2 else ZERO
    _record(
        machine,
        node,
        name,
        template,
        machine.evaluate(machine, configuration[0]),
        machine.evaluate(machine, configuration[1]),
        machine.integer(shared),
        [machine.evaluate(machine, one) for one in arguments],
        _parts(node, arguments),
    )


def _parts(launch: Node, arguments: list[Node]) -> frozenset[int]:
    """Return the positions of arguments that a loop around the launch sets to one part of an allocation after another.

    Such an argument is a computation with a variable that the loop changes, or a pointer that it advances. A pointer
    that it assigns, as a swap of two buffers does, is to the whole of one.
    """
    changed: set[str] = set()
    advanced: set[str] = set()
    node = launch.parent
    while node is not None and node.type != "function_definition":
        if node.type in _LOOPS:
            _changes(node, changed, advanced)
        node = node.parent
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


def runtime_launch(machine: Machine, node: Node, arguments: list[Node]) -> Value:
    """Record the launch of a call of ``cudaLaunchKernel``."""
    function = machine.evaluate(machine, arguments[0])
    grid, block, listed = (machine.evaluate(machine, one) for one in arguments[1:4])
    shared = machine.evaluate(machine, arguments[4]) if len(arguments) > 4 else ZERO
    if isinstance(function, HostFunctionName):
        values: list[Value] = []
        if isinstance(listed, RecordValue):
            for value in listed.fields.values():
                values.append(machine.get(value) if isinstance(value, Lvalue) else Unknown())
        _record(machine, node, function.name, function.arguments, grid, block, machine.integer(shared), values)
    return Unknown()


def _record(
    machine: Machine,
    node: Node,
    name: str,
    template: tuple[str, ...],
    grid: Value,
    block: Value,
    shared: Polynomial | None,
    values: list[Value],
    parts: frozenset[int] = frozenset(),
) -> None:
    if len(machine.launches) >= _MAX_LAUNCHES:
        return
    machine.launches.append(
        HostLaunch(
            name,
            template,
            _extents(machine, grid),
            _extents(machine, block),
            shared,
            tuple(values),
            dict(machine.heap),
            tuple(machine.conditions),
            machine.path,
            node.start_point[0],
            len(machine.launches),
            machine.function,
            machine.recursive,
            parts,
        )
    )
    for value in itertools.chain.from_iterable(map(_pointers, values)):
        if value.allocation is not None:
            known = machine.heap[value.allocation]
            contents = known.contents if known.contents.kind == "any" else Contents("kernel")
            machine.heap[value.allocation] = replace(known, contents=contents, kernels=known.kernels + 1)


def _pointers(value: Value) -> list[Pointer]:
    if isinstance(value, Pointer):
        return [value]
    return (
        [inner for inner in value.fields.values() if isinstance(inner, Pointer)]
        if isinstance(value, RecordValue)
        else []
    )


def _extents(machine: Machine, value: Value) -> tuple[Polynomial | None, ...]:
    if isinstance(value, RecordValue) and value.type in ("dim3", "list"):
        parts = [machine.integer(one) for one in value.fields.values()][:3]
        while len(parts) > 1 and parts[-1] is not None and parts[-1].constant == 1:
            parts.pop()
        return tuple(parts) or (number(1),)
    return (machine.integer(value),)
