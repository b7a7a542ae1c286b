"""Places that expressions stand for: variables, fields, and elements of memory."""

from __future__ import annotations

from gpuemu_lsp.engine.hostcode import ir
from gpuemu_lsp.engine.hostcode.interpreter import evaluate
from gpuemu_lsp.engine.hostcode.state import Execution
from gpuemu_lsp.engine.hostcode.types import lookup
from gpuemu_lsp.engine.hostcode.values import Lvalue, Pointer, RecordValue, StringValue, Unknown, Value
from gpuemu_lsp.engine.symbolic.size import UNKNOWN_OFFSET, Size, add, multiply, number, symbol


def place_of(run: Execution, node: ir.Expression) -> Lvalue | Pointer | None:
    """Return the lvalue of an expression: a variable or field of one, or an element of memory."""
    match node:
        case ir.NameUse(arguments=None):
            cell = lookup(run, node.name)
            if isinstance(cell, int):
                return Lvalue(cell)
            this = lookup(run, "this")
            record = run.held(this) if isinstance(this, int) and cell is None else None
            is_member = isinstance(record, RecordValue) and node.name in record.fields
            return Lvalue(this, (node.name,)) if isinstance(this, int) and is_member else None
        case ir.FieldAccess():
            owner = run.object_at(evaluate(run, node.base)) if node.arrow else _object_place(run, node.base)
            return Lvalue(owner.cell, (*owner.path, node.name)) if isinstance(owner, Lvalue) else None
        case ir.Dereference():
            value = evaluate(run, node.operand)
            return value if isinstance(value, Lvalue | Pointer) else None
        case ir.Subscript():
            return element_place(run, node, evaluate(run, node.base), evaluate(run, node.index))
        case ir.Cast():
            return place_of(run, node.value)
    return None


def _object_place(run: Execution, node: ir.Expression) -> Lvalue | Pointer | None:
    """Return the place of an object; for a reference to one, the place that it refers to."""
    place = place_of(run, node)
    held = run.get(place) if isinstance(place, Lvalue) else None
    return held if isinstance(held, Lvalue) else place


def element_place(run: Execution, node: ir.Subscript, base: Value, index: Value) -> Lvalue | Pointer | None:
    """Return the lvalue of ``a[i]``."""
    if isinstance(base, RecordValue) and base.type == "vector":
        data = base.fields.get("data")
        base = data if isinstance(data, Pointer) else base
    if isinstance(base, Pointer):
        offset = symbol(UNKNOWN_OFFSET)
        if isinstance(index, Size) and base.element is not None:
            offset = multiply(index, number(base.element))
        return Pointer(base.allocation, add(base.offset, offset), base.element, base.type)
    key = index.text if isinstance(index, StringValue) else None
    if isinstance(index, Size) and index.constant is not None:
        key = f"[{index.constant}]"
    if isinstance(base, RecordValue) and key is not None:
        owner = _object_place(run, node.base)
        return Lvalue(owner.cell, (*owner.path, key)) if isinstance(owner, Lvalue) else None
    return None


def store_member(run: Execution, target: ir.Expression) -> None:
    """Note that an assignment to ``items[i].key`` or ``item->key`` writes to the memory of the object."""
    node: ir.Expression = target
    while isinstance(node, ir.FieldAccess | ir.Subscript | ir.Dereference):
        inner = node.operand if isinstance(node, ir.Dereference) else node.base
        value: Value | None = None
        if isinstance(node, ir.Subscript):
            value = element_place(run, node, evaluate(run, node.base), evaluate(run, node.index))
        elif isinstance(node, ir.Dereference) or node.arrow:
            value = evaluate(run, inner)
        if isinstance(value, Pointer):
            run.store(value, Unknown())
            return
        node = inner
