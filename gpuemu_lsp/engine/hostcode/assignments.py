"""Assignments of host code: to variables, fields and elements of memory, and of parts to several places."""

from __future__ import annotations

from collections.abc import Sequence

from gpuemu_lsp.engine.hostcode import ir
from gpuemu_lsp.engine.hostcode.arithmetic import operate, truncated
from gpuemu_lsp.engine.hostcode.interpreter import evaluate, evaluates
from gpuemu_lsp.engine.hostcode.places import place_of, store_member
from gpuemu_lsp.engine.hostcode.state import Execution
from gpuemu_lsp.engine.hostcode.tensors import expect_rank, items_of, listed, number_of, sizes_by_axis
from gpuemu_lsp.engine.hostcode.types import is_integer_type, typed
from gpuemu_lsp.engine.hostcode.values import FloatValue, Lvalue, Pointer, RecordValue, Tensor, Unknown, Value, pointee
from gpuemu_lsp.engine.hostcode.walk import written
from gpuemu_lsp.engine.symbolic.conditions import Condition
from gpuemu_lsp.engine.symbolic.size import ONE, ZERO, Size, divide, number


@evaluates(ir.Assign)
def _assign(run: Execution, node: ir.Assign) -> Value:
    name = written(node.target)
    is_named = isinstance(node.target, ir.NameUse | ir.FieldAccess)
    outer, run.hint = run.hint, name.rpartition(".")[2] if is_named else run.hint
    value = evaluate(run, node.value)
    if isinstance(node.target, ir.ListValue):
        _assign_parts(run, node.target.items, value)
        run.hint = outer
        return value
    value = _store_to(run, node, name, value)
    run.hint = outer
    return value


def _store_to(run: Execution, node: ir.Assign, name: str, value: Value) -> Value:
    place = place_of(run, node.target)
    before: Value = run.get(place) if isinstance(place, Lvalue) else Unknown()
    if node.operator:
        before = evaluate(run, node.target)
        if isinstance(before, Tensor):
            run.escape(before)  # its elements are changed, in place
            value = before
        else:
            value = operate(node.operator, number_of(run, before), number_of(run, value))
    elif isinstance(place, Lvalue):
        value = run.scaled(name, value, node.value)
    if isinstance(place, Lvalue):
        value = _converted(run, run.get(place), value, run.hint or name)
        run.assign(place, value)
    elif isinstance(place, Pointer):
        _store(run, place, value)
    elif isinstance(node.target, ir.Subscript | ir.UnknownCode):
        run.escape(evaluate(run, node.target.base if isinstance(node.target, ir.Subscript) else node.target))
    if isinstance(node.target, ir.FieldAccess):
        store_member(run, node.target)
    return before if node.before else value


def _assign_parts(run: Execution, targets: Sequence[ir.Expression], value: Value) -> None:
    """Assign the parts of a value to several places; sizes of tensors that have one name are equal."""
    tensor = value.fields.get("of") if isinstance(value, RecordValue) else None
    starred = [index for index, target in enumerate(targets) if isinstance(target, ir.Spread)]
    if isinstance(tensor, Tensor) and not starred:
        expect_rank(run, tensor, len(targets))
        value = sizes_by_axis(run, value, len(targets))
    parts = items_of(run, value) or []
    for star in starred[:1]:
        tail = len(parts) - (len(targets) - 1 - star)
        parts = [*parts[:star], listed(parts[star:tail]), *parts[tail:]] if tail >= star else []
    if len(parts) != len(targets):
        parts = [Unknown()] * len(targets)
    for target, part in zip(targets, parts, strict=True):
        place = target.value if isinstance(target, ir.Spread) else target
        if isinstance(place, ir.ListValue):
            _assign_parts(run, place.items, part)
            continue
        before = evaluate(run, place) if isinstance(place, ir.NameUse) and place.name != "_" else None
        if isinstance(before, Size) and isinstance(part, Size) and before != part:
            run.assume(Condition(None, "==", before, part))
        if isinstance(part, Size) and part.name is not None:
            run.reached.variables.setdefault(part.name, written(place))
        outer, run.hint = run.hint, written(place)
        _store_to(run, ir.Assign(place, ir.UnknownCode(harmless=True)), run.hint, part)
        run.hint = outer


def _converted(run: Execution, before: Value, value: Value, name: str) -> Value:
    """Return the value that a variable has after an assignment, which keeps its type."""
    if isinstance(before, Size) or (isinstance(before, Unknown) and is_integer_type(before.type)):
        if isinstance(value, FloatValue):
            value = truncated(value) or Unknown("int")
        if isinstance(value, Unknown) and value.type != "exit":
            value = run.unknown(name, "computed")
    if isinstance(value, Pointer) and not value.type:
        value = typed(run, value, pointee(before))
    if isinstance(before, RecordValue) and before.type == "dim3" and isinstance(value, Size):
        value = RecordValue("dim3", {"x": value, "y": ONE, "z": ONE})
    return value


def _store(run: Execution, place: Pointer, value: Value) -> None:
    """Store a value to an element of memory; a pointer also in the object that stands for its elements."""
    run.store(place, value)
    if isinstance(value, Pointer | Lvalue | RecordValue) and place.allocation is not None:
        target = run.object_at(Pointer(place.allocation, ZERO))
        index = divide(place.offset, number(place.element or 1)).constant
        if target is not None and index is not None:
            run.assign(Lvalue(target.cell, (f"[{index}]",)), value)
