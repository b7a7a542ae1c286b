"""Lvalues: variables, fields, and elements of memory; and the bytes of them."""

from __future__ import annotations

from tree_sitter import Node

from gpuemu_lsp.engine.plan.host.machine import Machine, pointee
from gpuemu_lsp.engine.plan.host.syntax import text
from gpuemu_lsp.engine.plan.host.values import Lvalue, Pointer, RecordValue, Unknown, Value
from gpuemu_lsp.engine.symbolic.size import UNKNOWN_OFFSET, ZERO, Size, add, multiply, number, symbol

_PARTS = frozenset({"field_expression", "parenthesized_expression", "subscript_expression", "pointer_expression"})


def place_of(machine: Machine, node: Node | None) -> Lvalue | Pointer | None:
    """Return the lvalue of an expression: a variable or field of one, or an element of memory."""
    if node is None:
        return None
    if node.type in ("identifier", "qualified_identifier"):
        cell = machine.lookup(text(node))
        if isinstance(cell, int):
            return Lvalue(cell)
        this = machine.lookup("this")
        if isinstance(this, int) and cell is None and text(node) in _fields(machine.held(this)):
            return Lvalue(this, (text(node),))
        return None
    if node.type == "parenthesized_expression":
        return place_of(machine, node.named_children[0]) if node.named_children else None
    if node.type == "field_expression":
        base, name = node.child_by_field_name("argument"), text(node.child_by_field_name("field"))
        owner = place_of(machine, base)
        if "->" in [text(one) for one in node.children if not one.is_named]:
            return _within(pointed_to(machine, machine.evaluate(machine, base)), name)
        return _within(owner, name) if isinstance(owner, Lvalue) else None
    if node.type == "pointer_expression" and text(node.child_by_field_name("operator")) == "*":
        value = machine.evaluate(machine, node.child_by_field_name("argument"))
        return value if isinstance(value, Lvalue | Pointer) else None
    if node.type == "subscript_expression":
        return subscript_place(machine, node)
    if node.type == "cast_expression":
        return place_of(machine, node.child_by_field_name("value"))
    return None


def _fields(value: Value) -> frozenset[str]:
    return frozenset(value.fields) if isinstance(value, RecordValue) else frozenset()


def _within(place: Lvalue | None, name: str) -> Lvalue | None:
    return None if place is None else Lvalue(place.cell, (*place.path, name))


def pointed_to(machine: Machine, value: Value) -> Lvalue | None:
    """Return the object that a pointer points to."""
    if isinstance(value, Lvalue):
        return value
    if isinstance(value, Pointer) and value.allocation is not None:
        if value.allocation not in machine.struct_cells:
            machine.struct_cells[value.allocation] = machine.declare(f"*{value.allocation}", RecordValue("object"))
        return Lvalue(machine.struct_cells[value.allocation])
    return None


def subscript_place(machine: Machine, node: Node) -> Lvalue | Pointer | None:
    """Return the lvalue of ``a[i]``."""
    base = machine.evaluate(machine, node.child_by_field_name("argument"))
    listed = node.child_by_field_name("indices")
    index = (
        machine.evaluate(machine, listed.named_children[0]) if listed is not None and listed.named_children else None
    )
    if isinstance(base, RecordValue) and base.type == "vector":
        data = base.fields.get("data")
        base = data if isinstance(data, Pointer) else base
    if isinstance(base, Pointer):
        offset = ZERO
        if isinstance(index, Size):
            offset = symbol(UNKNOWN_OFFSET) if base.element is None else multiply(index, number(base.element))
        return Pointer(base.allocation, add(base.offset, offset), base.element, base.type)
    if isinstance(base, RecordValue):
        owner = place_of(machine, node.child_by_field_name("argument"))
        if isinstance(owner, Lvalue) and isinstance(index, Size) and index.constant is not None:
            return Lvalue(owner.cell, (*owner.path, f"[{index.constant}]"))
    return None


def store_member(machine: Machine, node: Node | None) -> None:
    """Note that an assignment to ``items[i].key`` or ``item->key`` writes to the memory of the object."""
    while node is not None and node.type in _PARTS:
        target: Value | None
        if node.type == "subscript_expression":
            target = subscript_place(machine, node)
        elif node.type == "pointer_expression" or "->" in [text(one) for one in node.children if not one.is_named]:
            target = machine.evaluate(machine, node.child_by_field_name("argument"))
        else:
            target = None
        if isinstance(target, Pointer):
            machine.store(target, Unknown())
            return
        node = node.child_by_field_name("argument") or next(iter(node.named_children), None)


def sizeof(machine: Machine, node: Node) -> Value:
    """Return the bytes of a type, or of the object that an expression stands for."""
    type_ = node.child_by_field_name("type")
    if type_ is not None:
        return machine.size_of(text(type_)) or Unknown("int")
    inner = node.child_by_field_name("value")
    while inner is not None and inner.type == "parenthesized_expression" and inner.named_children:
        inner = inner.named_children[0]
    written = text(inner)
    found = machine.lookup(written)
    if isinstance(found, int):
        return _size_of_variable(machine, written, machine.held(found))
    element = _element(machine, inner)
    if element is not None:
        return machine.size_of(element) or Unknown("int")
    return machine.size_of(written) or Unknown("int")


def _size_of_variable(machine: Machine, name: str, value: Value) -> Value:
    if isinstance(value, Pointer) and value.allocation is not None:
        known = machine.heap[value.allocation]
        return known.size if known.name == name and known.space == "host" and known.size is not None else number(8)
    if isinstance(value, RecordValue) and value.type in machine.program.structs:
        return machine.struct_size(value.type) or Unknown("int")
    return number(4) if isinstance(value, Size) else Unknown("int")


def _element(machine: Machine, node: Node | None) -> str | None:
    """Return the type of ``*pointer`` or ``pointer[i]``; None for another expression."""
    if node is None or node.type not in ("pointer_expression", "subscript_expression"):
        return None
    if node.type == "pointer_expression" and text(node.child_by_field_name("operator")) != "*":
        return None
    value = machine.evaluate(machine, node.child_by_field_name("argument"))
    if isinstance(value, RecordValue) and value.type == "vector":
        value = value.fields.get("data", value)
    return pointee(value) or None
