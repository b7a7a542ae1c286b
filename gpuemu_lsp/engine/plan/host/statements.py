"""Statements of host code.

A branch whose condition is not known is executed on both sides, and the states are joined. A loop is executed for its
first and its last iteration, all of them if there are few.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from tree_sitter import Node

from gpuemu_lsp.engine.plan.host.branches import join
from gpuemu_lsp.engine.plan.host.declarations import declaration
from gpuemu_lsp.engine.plan.host.lookup.function_tables import under
from gpuemu_lsp.engine.plan.host.lookup.static_members import resolved_type
from gpuemu_lsp.engine.plan.host.machine import Machine, is_integer_type
from gpuemu_lsp.engine.plan.host.syntax import declared_name, text
from gpuemu_lsp.engine.plan.host.values import (
    Choice,
    FloatValue,
    HostFunctionName,
    Lvalue,
    Pointer,
    Ranged,
    RecordValue,
    Unknown,
    Value,
)
from gpuemu_lsp.engine.symbolic.conditions import Condition, negated
from gpuemu_lsp.engine.symbolic.size import ZERO, Size, add, number

_MAX_ITERATIONS = 4
_LAUNCHES = (b"<<<", b"cudaLaunch", b"cuLaunch")
_ENDS = frozenset({"return", "exit"})
_ASSIGNED = frozenset({"assignment_expression", "update_expression"})


def execute(machine: Machine, node: Node) -> str | None:
    """Execute a statement; return ``return``, ``exit``, ``break`` or ``continue`` where it ends the sequence."""
    machine.step()
    kind = node.type
    if kind == "compound_statement":
        with machine.scope():
            return sequence(machine, node.named_children)
    handler: Callable[[Machine, Node], str | None] | None = _HANDLERS.get(kind)
    if handler is not None:
        return handler(machine, node)
    if kind.endswith("_expression") or kind in ("identifier", "subscript_expression"):
        machine.evaluate(machine, node)
    return None


def sequence(machine: Machine, nodes: list[Node]) -> str | None:
    """Execute statements up to the first that ends the sequence."""
    for node in nodes:
        ended = machine.execute(machine, node)
        if ended is not None:
            return ended
    return None


def _expression(machine: Machine, node: Node) -> str | None:
    if not node.named_children:
        return None
    inner = node.named_children[0]
    value = machine.evaluate(machine, inner)
    return "exit" if isinstance(value, Unknown) and value.type == "exit" else None


def _return(machine: Machine, node: Node) -> str | None:
    value = machine.evaluate(machine, node.named_children[0]) if node.named_children else Unknown()
    machine.results.append(under(value, machine.conditions[machine.assumed :]))
    return "return"


def condition_of(machine: Machine, node: Node | None) -> Condition:
    """Return the value of a condition."""
    if node is None:
        return Condition()
    if node.type == "condition_clause":
        inner = node.child_by_field_name("value")
        if inner is not None and inner.type == "declaration":
            machine.execute(machine, inner)
            return Condition()
        node = inner
    value = machine.evaluate(machine, node)
    return truth(value)


def truth(value: Value) -> Condition:
    """Return a value as a condition."""
    if isinstance(value, Condition):
        return value
    if isinstance(value, Size):
        known = value.constant
        return Condition(known != 0) if known is not None else Condition(None, "!=", value, ZERO)
    if isinstance(value, Pointer):
        return Condition(value.allocation is not None)
    return Condition(True if isinstance(value, HostFunctionName | Choice) else None)


def _if(machine: Machine, node: Node) -> str | None:
    condition = condition_of(machine, node.child_by_field_name("condition"))
    then, other = node.child_by_field_name("consequence"), node.child_by_field_name("alternative")
    if other is not None and other.type == "else_clause":
        other = other.named_children[0] if other.named_children else None
    return branch(machine, condition, then, other)


def branch(machine: Machine, condition: Condition, then: Node | None, other: Node | None) -> str | None:
    """Execute one of two statements, or both and join the results."""
    if condition.value is not None:
        chosen = then if condition.value else other
        return _scoped(machine, chosen)
    before, assumed = machine.snapshot(), len(machine.conditions)
    machine.conditions.append(condition)
    first = _scoped(machine, then)
    del machine.conditions[assumed:]
    after = machine.snapshot()
    machine.restore(before)
    machine.conditions.append(negated(condition))
    second = _scoped(machine, other)
    del machine.conditions[assumed:]
    if first in _ENDS or first in ("break", "continue"):
        machine.conditions.append(negated(condition))
        return second
    if second is not None:
        machine.restore(after)
        machine.conditions.append(condition)
        return None
    join(machine, negated(condition), after)
    return None


def _scoped(machine: Machine, node: Node | None) -> str | None:
    if node is None:
        return None
    with machine.scope():
        return machine.execute(machine, node)


def _switch(machine: Machine, node: Node) -> str | None:
    value = machine.evaluate(machine, (node.child_by_field_name("condition") or node).named_children[0])
    body = node.child_by_field_name("body")
    cases = [one for one in (body.named_children if body is not None else ()) if one.type == "case_statement"]
    wanted = value.constant if isinstance(value, Size) else None
    before, joined = machine.snapshot(), None
    assumed = len(machine.conditions)
    matched = False
    for index, case in enumerate(cases):
        label = case.child_by_field_name("value")
        given = machine.evaluate(machine, label) if label is not None else None
        constant = given.constant if isinstance(given, Size) else None
        if wanted is not None and label is not None and constant is not None and constant != wanted:
            continue
        if wanted is not None and label is None and matched:
            continue
        matched = True
        machine.restore(before)
        if wanted is None:
            # What one case demands says nothing about the others.
            del machine.conditions[assumed:]
            if isinstance(value, Size) and isinstance(given, Size):
                machine.conditions.append(Condition(None, "==", value, given))
        ended = None
        with machine.scope():
            for later in cases[index:]:
                statements = [one for one in later.named_children if one != later.child_by_field_name("value")]
                ended = sequence(machine, statements)
                if ended is not None:
                    break
        if ended not in _ENDS:
            if joined is not None:
                join(machine, Condition(), joined)
            joined = machine.snapshot()
    if wanted is None:
        del machine.conditions[assumed:]
    machine.restore(joined or before)
    return None


def _for(machine: Machine, node: Node) -> str | None:
    with machine.scope():
        start = node.child_by_field_name("initializer")
        if start is not None:
            machine.execute(machine, start)
        return _loop(machine, node, node.child_by_field_name("update"))


def _while(machine: Machine, node: Node) -> str | None:
    return _loop(machine, node, None)


def _do(machine: Machine, node: Node) -> str | None:
    return _loop(machine, node, None, first=True)


def _loop(machine: Machine, node: Node, update: Node | None, first: bool = False) -> str | None:
    condition_node, body = node.child_by_field_name("condition"), node.child_by_field_name("body")
    if condition_node is not None and condition_node.type == "condition_clause":
        condition_node = condition_node.child_by_field_name("value")
    if first and body is not None and not _iterates(condition_node):
        return _body(machine, body)  # do { ... } while (0)
    counter = _counter(machine, condition_node, update)
    ended = None
    trips = _trips(machine, counter)
    if trips is not None and trips <= _MAX_ITERATIONS:
        for _ in range(trips):
            assumed = len(machine.conditions)
            ended = _body(machine, body)
            machine.conditions[assumed:] = [one for one in machine.conditions[assumed:] if one.value is not False]
            if ended in (*_ENDS, "break"):
                break
            machine.evaluate(machine, update)
        return ended if ended in _ENDS else None
    if not first and condition_of(machine, condition_node).value is False:
        return None
    before = len(machine.conditions)
    # What is stored in any iteration counts for the contents of arrays; launches are those of the first and the last.
    passes: list[Value | None] = [None]
    if counter is not None:
        passes += [
            Ranged(counter[1], counter[3]),
            *([counter[2]] if any(one in (node.text or b"") for one in _LAUNCHES) else []),
        ]
    for index, value in enumerate(passes):
        if index:
            _forget(machine, body)
        if value is not None and counter is not None:
            machine.assign(counter[0], value)
        state = machine.snapshot()
        machine.repeated += 1
        ended = _body(machine, body)
        machine.repeated -= 1
        del machine.conditions[before:]
        if ended in _ENDS:
            machine.restore(state)
    _forget(machine, body)
    if counter is not None:
        machine.assign(counter[0], counter[3])
    return None


def _body(machine: Machine, body: Node | None) -> str | None:
    return _scoped(machine, body)


def _iterates(condition: Node | None) -> bool:
    return text(condition).strip("() ") not in ("0", "false")


def _counter(machine: Machine, condition: Node | None, update: Node | None) -> tuple[Lvalue, Size, Size, Size] | None:
    """Return the variable of ``for (i = a; i < b; i++)``, its first and last values, and that after the loop."""
    if condition is None or update is None or condition.type != "binary_expression":
        return None
    left, right = condition.child_by_field_name("left"), condition.child_by_field_name("right")
    operator = text(condition.child_by_field_name("operator"))
    if left is None or left.type != "identifier" or operator not in ("<", "<=", "!="):
        return None
    cell = machine.lookup(text(left))
    if not isinstance(cell, int):
        return None
    step = 1
    changed = text(update)
    name = re.escape(text(left))
    strided = re.fullmatch(rf"{name}\s*\+=\s*(\d+)", changed)
    if strided is not None:
        step = int(strided[1])
    elif not re.fullmatch(rf"\+\+\s*{name}|{name}\s*\+\+", changed):
        return None
    begin, end = machine.held(cell), machine.evaluate(machine, right)
    if not isinstance(begin, Size) or not isinstance(end, Size) or step == 0:
        return None
    past = add(end, number(1)) if operator == "<=" else end
    return Lvalue(cell), begin, add(past, number(step), -1), past


def _trips(machine: Machine, counter: tuple[Lvalue, Size, Size, Size] | None) -> int | None:
    if counter is None:
        return None
    _, begin, last, past = counter
    step = add(past, last, -1).constant or 1
    count = add(past, begin, -1).constant
    return None if count is None else max(0, -(-count // step))


def _forget(machine: Machine, body: Node | None) -> None:
    """Drop the values of variables that a loop's body assigns."""
    pending = [body] if body is not None else []
    while pending:
        node = pending.pop()
        if node.type in _ASSIGNED:
            target = node.child_by_field_name("left") or node.child_by_field_name("argument")
            if target is not None and target.type == "identifier":
                cell = machine.lookup(text(target))
                if isinstance(cell, int) and isinstance(machine.held(cell), Size | FloatValue | Ranged | Condition):
                    machine.cells[cell] = machine.unknown(text(target), "computed")
        pending += node.named_children


def _range_loop(machine: Machine, node: Node) -> str | None:
    with machine.scope():
        source = machine.evaluate(machine, node.child_by_field_name("right"))
        name = declared_name(node.child_by_field_name("declarator"))
        values: list[Value] = _elements(machine, source) or [Unknown()]
        # As of other loops, the first iteration and the last.
        for value in values if len(values) < _MAX_ITERATIONS else (values[0], values[-1]):
            if isinstance(value, Unknown) and is_integer_type(machine.type_of(text(node.child_by_field_name("type")))):
                value = machine.unknown(name, "computed")
            machine.declare(name, value)
            machine.repeated += 1
            ended = _scoped(machine, node.child_by_field_name("body"))
            machine.repeated -= 1
            if ended in _ENDS:
                break
    return None


def _elements(machine: Machine, source: Value) -> list[Value]:
    """Return the elements of a list, an array or a vector of which each is known."""
    if isinstance(source, RecordValue) and source.type == "vector":
        source = source.fields.get("data", source)
    if isinstance(source, Pointer):
        cell = machine.struct_cells.get(source.allocation or 0)
        source = machine.held(cell) if cell is not None and source.offset == ZERO else source
    return [value for key, value in source.fields.items() if key[0] == "["] if isinstance(source, RecordValue) else []


def _alias(machine: Machine, node: Node) -> str | None:
    name, type_ = node.child_by_field_name("name"), node.child_by_field_name("type")
    if name is not None and type_ is not None:
        machine.scopes[-1][text(name)] = resolved_type(machine, text(type_))
    return None


def _typedef(machine: Machine, node: Node) -> str | None:
    type_ = text(node.child_by_field_name("type"))
    for one in node.children_by_field_name("declarator"):
        if one.type == "type_identifier":
            machine.scopes[-1][text(one)] = machine.type_of(type_)
    return None


def _labelled(machine: Machine, node: Node) -> str | None:
    return sequence(machine, [one for one in node.named_children if one.type != "statement_identifier"])


def _try(machine: Machine, node: Node) -> str | None:
    body = node.child_by_field_name("body") or (node.named_children[0] if node.named_children else None)
    return _scoped(machine, body)


_HANDLERS: dict[str, Callable[[Machine, Node], str | None]] = {
    "expression_statement": _expression,
    "declaration": declaration,
    "return_statement": _return,
    "throw_statement": lambda machine, node: "exit",
    "break_statement": lambda machine, node: "break",
    "continue_statement": lambda machine, node: "continue",
    "if_statement": _if,
    "switch_statement": _switch,
    "for_statement": _for,
    "while_statement": _while,
    "do_statement": _do,
    "for_range_loop": _range_loop,
    "alias_declaration": _alias,
    "type_definition": _typedef,
    "labeled_statement": _labelled,
    "try_statement": _try,
    "ERROR": lambda machine, node: sequence(machine, node.named_children),
}
