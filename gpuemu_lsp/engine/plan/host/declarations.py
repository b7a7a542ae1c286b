"""Declarations of variables in host code."""

from __future__ import annotations

from tree_sitter import Node

from gpuemu_lsp.engine.element_types import element_type
from gpuemu_lsp.engine.plan.host.machine import Machine, is_integer_type
from gpuemu_lsp.engine.plan.host.objects import constructed
from gpuemu_lsp.engine.plan.host.syntax import declared_name, expression_of, text
from gpuemu_lsp.engine.plan.host.values import FloatValue, Lvalue, Pointer, RecordValue, Unknown, Value
from gpuemu_lsp.engine.symbolic.conditions import Condition
from gpuemu_lsp.engine.symbolic.size import ZERO, Size, multiply, number

_MAX_POINTERS = 64


def declaration(machine: Machine, node: Node) -> str | None:
    """Declare the variables of a declaration."""
    type_ = node.child_by_field_name("type")
    if type_ is not None and type_.type in ("struct_specifier", "class_specifier"):
        name_node = type_.child_by_field_name("name")
        type_text = text(name_node)
    else:
        type_text = text(type_)
    for one in node.children_by_field_name("declarator"):
        declare(machine, type_text, one)
    return None


def declare(machine: Machine, type_text: str, node: Node) -> None:
    """Declare one variable with its initialiser."""
    value_node = node.child_by_field_name("value") if node.type == "init_declarator" else None
    declarator = node.child_by_field_name("declarator") if node.type == "init_declarator" else node
    if declarator is None:
        return
    name = declared_name(declarator)
    if declarator.type == "structured_binding_declarator":
        _bind_parts(machine, declarator, machine.evaluate(machine, value_node))
        return
    if declarator.type == "function_declarator" and (value_node is not None or _is_pointer_to_function(declarator)):
        # The parentheses of `void (*kernel)(float*) = scale<float>` are those of a function's type.
        machine.declare(name, machine.evaluate(machine, value_node) if value_node is not None else Unknown())
        return
    if declarator.type == "function_declarator":
        # `dim3 grid(x, y)` has the syntax of a function's declaration.
        value_node = _constructor(declarator)
        if value_node is None:
            return
    resolved = machine.type_of(type_text)
    outer, machine.hint = machine.hint, name
    try:
        value: Value
        pointers = _array_of_pointers(declarator)
        if pointers is not None:
            value = _pointers(machine, resolved, pointers, value_node)
        elif declarator.type == "array_declarator":
            value = _array(machine, resolved, declarator, value_node, name)
        elif declarator.type == "reference_declarator" and value_node is not None:
            place = machine.evaluate(machine, _address_of(value_node))
            if isinstance(place, Lvalue) and not place.path:
                machine.scopes[-1][name] = place.cell
                return
            value = machine.evaluate(machine, value_node)
        else:
            value = _initial(machine, resolved, value_node, declarator.type == "pointer_declarator", name)
    finally:
        machine.hint = outer
    machine.declare(name, machine.scaled(name, value, text(value_node)))


def _is_pointer_to_function(declarator: Node) -> bool:
    inner = declarator.child_by_field_name("declarator")
    return inner is not None and inner.type == "parenthesized_declarator"


def _address_of(node: Node) -> Node | None:
    return expression_of(f"&({text(node)})") if node.type == "identifier" else None


def _constructor(declarator: Node) -> Node | None:
    listed = declarator.child_by_field_name("parameters")
    inside = text(listed)
    call = expression_of(f"_{inside}") if listed is not None and len(inside) > 2 else None
    return call.child_by_field_name("arguments") if call is not None and call.type == "call_expression" else None


def _bind_parts(machine: Machine, declarator: Node, value: Value) -> None:
    for index, one in enumerate(declarator.named_children):
        part = value.fields.get(f"[{index}]", Unknown()) if isinstance(value, RecordValue) else Unknown()
        if isinstance(part, Unknown):
            part = machine.unknown(text(one), "computed")
        machine.declare(text(one), part)


def _array_of_pointers(declarator: Node) -> Node | None:
    """Return the declarator of ``T *name[length]`` without the ``*``."""
    inner = declarator.child_by_field_name("declarator") if declarator.type == "pointer_declarator" else None
    return inner if inner is not None and inner.type == "array_declarator" else None


def _pointers(machine: Machine, type_text: str, declarator: Node, value_node: Node | None) -> Value:
    """Return an array of pointers, each of which has its type also before it has a value."""
    given = machine.evaluate(machine, value_node) if value_node is not None else None
    if isinstance(given, RecordValue):
        return RecordValue("array", given.fields)
    size = declarator.child_by_field_name("size")
    length = machine.evaluate(machine, size) if size is not None else None
    known = length.constant if isinstance(length, Size) else None
    count = known if known is not None and known <= _MAX_POINTERS else 0
    return RecordValue("array", {f"[{index}]": Unknown(f"{type_text}*") for index in range(count)})


def _array(machine: Machine, type_text: str, declarator: Node, value_node: Node | None, name: str) -> Value:
    """Return a local array: memory of numbers, or a record of pointers."""
    lengths: list[Size | None] = []
    inner: Node | None = declarator
    while inner is not None and inner.type == "array_declarator":
        size = inner.child_by_field_name("size")
        value = machine.evaluate(machine, size) if size is not None else None
        lengths.append(value if isinstance(value, Size) else None)
        inner = inner.child_by_field_name("declarator")
    given = machine.evaluate(machine, value_node) if value_node is not None else None
    if isinstance(given, RecordValue) and value_node is not None and value_node.type == "initializer_list":
        given = _with_scaled_sizes(machine, given, value_node, name)
    is_pointer = inner is not None and inner.type == "pointer_declarator"
    size_of = machine.size_of(type_text)
    if is_pointer or element_type(type_text) is None or size_of is None:
        return RecordValue("array", given.fields if isinstance(given, RecordValue) else {})
    if len(lengths) == 1 and lengths[0] is None and isinstance(given, RecordValue):
        lengths = [number(len(given.fields))]
    total: Size | None = size_of
    for length in lengths:
        total = multiply(total, length) if total is not None and length is not None else None
    pointer = machine.allocate(name, total, "host")
    if isinstance(given, RecordValue):
        for value in given.fields.values():
            machine.store(pointer, value)
        machine.struct_cells[pointer.allocation or 0] = machine.declare(f"{name}[]", RecordValue("array", given.fields))
    return machine.typed(Pointer(pointer.allocation, ZERO), type_text)


def _with_scaled_sizes(machine: Machine, given: RecordValue, node: Node, name: str) -> RecordValue:
    """Return the elements of an array, where sizes written as numbers may be smaller."""
    written = [text(one) for one in node.named_children]
    if len(written) != len(given.fields):
        return given
    scaled = {
        key: machine.scaled(name, value, one) for (key, value), one in zip(given.fields.items(), written, strict=True)
    }
    return RecordValue(given.type, scaled, given.template)


def _initial(machine: Machine, type_text: str, node: Node | None, is_pointer: bool, name: str) -> Value:
    if is_pointer:
        value = machine.evaluate(machine, node) if node is not None else Unknown(f"{type_text}*")
        if isinstance(value, RecordValue) and value.type == "list" and len(value.fields) == 1:
            value = next(iter(value.fields.values()))
        if isinstance(value, Pointer):
            return machine.typed(value, type_text)
        return value
    made = constructed(machine, type_text, node, name)
    if made is not None:
        return made
    if node is None:
        return Unknown(type_text)
    value = machine.evaluate(machine, node)
    if isinstance(value, RecordValue) and value.type == "list":
        if len(value.fields) == 1 and element_type(type_text) is not None:
            value = next(iter(value.fields.values()))
        elif not value.fields and element_type(type_text) is not None:
            value = ZERO
    return converted(machine, type_text, value, name)


def converted(machine: Machine, type_text: str, value: Value, name: str) -> Value:
    """Return a value converted to the type of a variable."""
    if is_integer_type(type_text) or type_text in ("auto", "bool"):
        if isinstance(value, FloatValue) and type_text != "auto":
            return machine.truncated(value) or machine.unknown(name, "computed")
        if isinstance(value, Condition) and value.value is not None and type_text != "auto":
            return number(int(value.value))
        if isinstance(value, Unknown) and value.type != "exit" and type_text not in ("auto", "bool"):
            return machine.unknown(name, "computed")
    elif type_text in ("float", "double") and isinstance(value, Size):
        return FloatValue(value, number(1), None if value.constant is None else float(value.constant))
    return value
