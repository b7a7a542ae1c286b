"""Objects that host code constructs: ``dim3``, vectors, and structs."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

from tree_sitter import Node

from gpuemu_lsp.engine.element_types import element_type
from gpuemu_lsp.engine.plan.host.machine import Machine, bounds, is_integer_type
from gpuemu_lsp.engine.plan.host.syntax import declared_name, text
from gpuemu_lsp.engine.plan.host.values import Contents, FloatValue, Pointer, RecordValue, Unknown, Value
from gpuemu_lsp.engine.symbolic.size import ONE, ZERO, Size, multiply, number

_VECTOR = re.compile(r"(?:\w+::)*(?P<kind>\w*vector)\s*<\s*(?P<element>.+?)\s*(?:,[^<>]*)?>$")
_ARRAY = re.compile(r"(?:std::)?array\s*<\s*(?P<element>.+?)\s*,\s*(?P<length>[^,<>]+)>$")
_MAX_FIELDS = 64
_MAX_DEPTH = 24
_OWNERS = frozenset({"unique_ptr", "shared_ptr"})
CONSTANTS = frozenset({"integral_constant", "bool_constant", "true_type", "false_type"})
"""Types of the standard library whose objects stand for a number."""


def constructed(machine: Machine, type_text: str, node: Node | None, name: str) -> Value | None:
    """Return the object of a declaration; None for a type that is not known.

    ``node`` has the arguments of the constructor, or the expression that the variable is a copy of.
    """
    if type_text in ("dim3", "uint3", "int3"):
        return _dim3(machine, node)
    if type_text == "cudaExtent":
        return _extent(machine, node)
    found = _VECTOR.match(type_text)
    if found is not None:
        return vector(machine, found["kind"], found["element"], node, name)
    base = base_name(type_text)
    if base in CONSTANTS:
        return constant_object(machine, base, _split_arguments(type_text))
    if base_name(machine.program.aliases.get(base, base)) in _OWNERS:
        given = _arguments(machine, node)
        return given[0] if given and isinstance(given[0], Pointer) else None
    if base in machine.program.structs:
        return _object(machine, type_text, base, node)
    return None


def constant_object(machine: Machine, base: str, arguments: Sequence[str]) -> RecordValue:
    """Return an object of ``std::integral_constant<int, 4>`` and the like."""
    written = arguments[-1] if arguments else str(base == "true_type").lower()
    written = {"true": "1", "false": "0"}.get(written, written)
    cell = machine.lookup(written)
    held = machine.held(cell) if isinstance(cell, int) else Unknown()
    return RecordValue(base, {"value": number(int(written)) if written.isdigit() else held})


def base_name(type_text: str) -> str:
    """Return the name of a class without its scope and template arguments."""
    return type_text.removeprefix("struct ").split("<")[0].strip().split("::")[-1]


def _split_arguments(type_text: str) -> list[str]:
    inside = type_text.partition("<")[2].rpartition(">")[0]
    return [] if "<" in inside or not inside.strip() else [part.strip() for part in inside.split(",")]


def _object(machine: Machine, type_text: str, base: str, node: Node | None) -> Value:
    """Return an object of a class of the program, after its constructor."""
    listed = node is None or node.type in ("argument_list", "initializer_list")
    values = _arguments(machine, node) if listed else []
    template = tuple(map(machine.type_of, _split_arguments(type_text)))
    constructors = [
        one
        for one in machine.program.functions.get(base, ())
        if one.owner == base
        and one.body is not None
        and sum(each.type == "parameter_declaration" for each in one.parameters) <= len(values) <= len(one.parameters)
    ]
    if len(values) == 1 and isinstance(values[0], RecordValue) and values[0].type == base:
        return values[0]
    if not constructors or not listed:
        made = _struct(machine, base, node)
        return replace(made, template=template) if isinstance(made, RecordValue) and template else made
    plain = _struct(machine, base, None)
    if not isinstance(plain, RecordValue):
        return plain
    with machine.scope():
        cell = machine.declare("this", replace(plain, template=template))
        machine.invoke(machine, constructors[0], values, (), cell)
    return machine.held(cell)


def _arguments(machine: Machine, node: Node | None) -> list[Value]:
    if node is None:
        return []
    if node.type in ("argument_list", "initializer_list"):
        return [machine.evaluate(machine, one) for one in node.named_children if one.type != "comment"]
    return [machine.evaluate(machine, node)]


def listed_numbers(machine: Machine, node: Node, name: str) -> list[Value]:
    """Return the values of a list; those of a list of sizes, written as numbers, may be smaller."""
    values = _arguments(machine, node)
    if node.type == "initializer_list":
        written = [text(one) for one in node.named_children if one.type != "comment"]
        values = [machine.scaled(name, value, one) for value, one in zip(values, written, strict=True)]
    return values


def _dim3(machine: Machine, node: Node | None) -> Value:
    return dim3(machine, _arguments(machine, node))


def _extent(machine: Machine, node: Node | None) -> Value:
    given = _arguments(machine, node)
    if len(given) == 1 and isinstance(given[0], RecordValue) and given[0].type != "list":
        return given[0]
    if len(given) == 1 and isinstance(given[0], RecordValue):
        given = list(given[0].fields.values())
    return RecordValue("cudaExtent", dict(zip(("width", "height", "depth"), given, strict=False)))


def dim3(machine: Machine, values: list[Value]) -> Value:
    """Return a ``dim3`` of some sizes; a copy of another one."""
    if len(values) == 1 and isinstance(values[0], RecordValue):
        record = values[0]
        if record.type != "list":
            return record
        values = list(record.fields.values())
    parts: dict[str, Value] = {"x": ONE, "y": ONE, "z": ONE}
    for axis, value in zip("xyz", values, strict=False):
        size = machine.integer(value)
        parts[axis] = size if size is not None else Unknown()
    return RecordValue("dim3", parts)


def vector(machine: Machine, kind: str, element: str, node: Node | None, name: str) -> Value:
    """Return a ``std::vector``, or one of thrust."""
    if node is not None and node.type not in ("argument_list", "initializer_list"):
        value = machine.evaluate(machine, node)
        return value if isinstance(value, RecordValue) else vector(machine, kind, element, None, name)
    values = listed_numbers(machine, node, name) if node is not None else []
    space = "device" if kind == "device_vector" else "host"
    if node is not None and node.type == "initializer_list":
        listed, length = values, number(len(values))
    else:
        listed, length = [], ZERO
        first = values[0] if values else None
        if isinstance(first, RecordValue) and first.type == "list":
            listed, length = list(first.fields.values()), number(len(first.fields))
        elif isinstance(first, RecordValue) and first.type == "vector":
            return _copied(machine, first, name, space)
        elif first is not None:
            size = machine.integer(first)
            length = size if size is not None else machine.unknown(f"{name}_size", "computed")
    return make_vector(machine, name, element, length, space, listed or values[1:2])


def make_vector(
    machine: Machine, name: str, element: str, length: Size, space: str, values: list[Value]
) -> RecordValue:
    """Return a vector of ``length`` elements, which are zero if no ``values`` are given."""
    size = machine.size_of(element)
    pointer = machine.allocate(name, multiply(size, length) if size is not None else None, space)
    machine.set_contents(pointer, Contents("any", ZERO, ONE))
    if values:
        machine.set_contents(pointer, Contents())
        for value in values:
            machine.store(pointer, value)
        if length.constant == len(values):
            fields = {f"[{index}]": value for index, value in enumerate(values)}
            machine.struct_cells[pointer.allocation or 0] = machine.declare(f"{name}[]", RecordValue("array", fields))
    data = machine.typed(pointer, element)
    return RecordValue("vector", {"data": data, "size": length})


def _copied(machine: Machine, source: RecordValue, name: str, space: str) -> RecordValue:
    data = source.fields.get("data")
    if not isinstance(data, Pointer) or data.allocation is None:
        return source
    known = machine.heap[data.allocation]
    pointer = machine.allocate(name, known.size, space, known.contents)
    return RecordValue("vector", {**source.fields, "data": replace(data, allocation=pointer.allocation)})


def _struct(machine: Machine, name: str, node: Node | None) -> Value:
    if node is not None and node.type not in ("argument_list", "initializer_list"):
        return machine.evaluate(machine, node)
    found: dict[str, Value] = {}
    body = machine.program.structs[name].child_by_field_name("body")
    values = _arguments(machine, node)
    for one in body.named_children if body is not None else ():
        if one.type != "field_declaration" or len(found) > _MAX_FIELDS:
            continue
        type_text = text(one.child_by_field_name("type"))
        default = one.child_by_field_name("default_value")
        for declarator in one.children_by_field_name("declarator"):
            if declarator.type == "function_declarator":
                continue
            value: Value = Unknown(f"{type_text}*" if declarator.type == "pointer_declarator" else type_text)
            if node is not None and node.type == "initializer_list" and len(found) < len(values):
                value = values[len(found)]
            elif default is not None:
                value = machine.evaluate(machine, default)
            elif declarator.type != "pointer_declarator" and type_text in ("dim3",):
                value = dim3(machine, [])
            found[declared_name(declarator)] = value
    return RecordValue(name, found)


def _parameter_object(machine: Machine, base: str, name: str, origin: str) -> Value:
    """Return an object that a caller passes: each of its numbers may be any."""
    made = _struct(machine, base, None)
    if not isinstance(made, RecordValue):
        return made
    found: dict[str, Value] = {}
    machine.depth += 1
    for field, value in made.fields.items():
        written = value.type if isinstance(value, Unknown) else ""
        pointer = written.endswith("*")
        known = written and (pointer or is_integer_type(machine.type_of(written)))
        inner = machine.type_of(written.rstrip("*"))
        found[field] = default_value(machine, inner, f"{name}_{field}", pointer, origin) if known else value
    machine.depth -= 1
    return replace(made, fields=found)


def default_value(machine: Machine, type_text: str, name: str, pointer: bool, origin: str) -> Value:
    """Return the value of a parameter whose argument is not known."""
    if pointer:
        memory = machine.allocate(name, None, "parameter", Contents("any"))
        return machine.typed(memory, type_text)
    held = _VECTOR.match(type_text)
    if held is not None:
        made = make_vector(machine, name, held["element"], machine.unknown(f"{name}_size", origin), "parameter", [])
        machine.set_contents(made.fields["data"], Contents("any"))
        return made
    if base_name(type_text) in machine.program.structs and machine.depth < _MAX_DEPTH:
        return _parameter_object(machine, base_name(type_text), name, origin)
    known = element_type(type_text)
    if is_integer_type(type_text):
        return machine.unknown(name, origin)
    if known is not None and known.dtype != "bool":
        return FloatValue()
    return Unknown(type_text)


__all__ = ["bounds", "constructed", "default_value", "dim3", "make_vector", "vector"]
