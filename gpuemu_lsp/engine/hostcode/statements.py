"""Statements of host code.

A branch whose condition is not known is executed on both sides, and the states are joined. A loop is executed for its
first and its last iteration, all of them if there are few.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from gpuemu_lsp.engine.element_types import element_type
from gpuemu_lsp.engine.hostcode import (  # noqa: F401  # assignments and operators register what they mean
    assignments,
    ir,
    operators,
)
from gpuemu_lsp.engine.hostcode.arithmetic import operate, truth
from gpuemu_lsp.engine.hostcode.branches import after_jumps, join, own_jumps
from gpuemu_lsp.engine.hostcode.decisions import decided_condition
from gpuemu_lsp.engine.hostcode.functions import constructed, converted
from gpuemu_lsp.engine.hostcode.interpreter import EXIT, evaluate, execute, executes
from gpuemu_lsp.engine.hostcode.places import place_of
from gpuemu_lsp.engine.hostcode.selections import under
from gpuemu_lsp.engine.hostcode.state import Execution, State
from gpuemu_lsp.engine.hostcode.tensors import number_of, sizes_by_axis
from gpuemu_lsp.engine.hostcode.types import is_integer_type, lookup, resolved_type, size_of, type_of, typed
from gpuemu_lsp.engine.hostcode.values import (
    DataType,
    FloatValue,
    Lvalue,
    Pointer,
    Ranged,
    RecordValue,
    StringValue,
    Unknown,
    Value,
)
from gpuemu_lsp.engine.hostcode.walk import walk
from gpuemu_lsp.engine.symbolic.conditions import Condition, negated
from gpuemu_lsp.engine.symbolic.size import ZERO, Size, add, multiply, number

_MAX_ITERATIONS = 4
_MAX_POINTERS = 64
_ENDS = frozenset({"return", EXIT})
_LAUNCHING = ("cudaLaunch", "cuLaunch")


def _sequence(run: Execution, nodes: Iterable[ir.Statement]) -> str | None:
    """Execute statements up to the first that ends the sequence."""
    for node in nodes:
        ended = execute(run, node)
        if ended is not None:
            return ended
    return None


def _scoped(run: Execution, node: ir.Statement | None) -> str | None:
    with run.scope():
        return execute(run, node)


@executes(ir.Block)
def _block(run: Execution, node: ir.Block) -> str | None:
    if not node.scope:
        return _sequence(run, node.statements)
    with run.scope():
        return _sequence(run, node.statements)


@executes(ir.ReturnStatement)
def _return(run: Execution, node: ir.ReturnStatement) -> str | None:
    value = evaluate(run, node.value)
    run.results.append(under(value, run.state.conditions[run.frame.assumed :]))
    return "return"


@executes(ir.JumpStatement)
def _jump(run: Execution, node: ir.JumpStatement) -> str | None:
    if node.kind != EXIT:
        run.jumps.append((node.kind, run.state))
    return node.kind


@executes(ir.TypeName)
def _type_name(run: Execution, node: ir.TypeName) -> str | None:
    run.scopes[-1][node.name] = resolved_type(run, node.type)
    return None


# ---- branches


@executes(ir.IfStatement)
def _if(run: Execution, node: ir.IfStatement) -> str | None:
    condition = decided_condition(run, node.condition)
    if condition.value is not None:
        return _scoped(run, node.then if condition.value else node.other)
    before = run.state
    run.assume(condition)
    first = _scoped(run, node.then)
    after = run.state
    run.state = before.with_allocations_of(after)
    run.assume(negated(condition))
    second = _scoped(run, node.other)
    if first is not None:
        run.set_conditions((*before.conditions, negated(condition)))
        return second
    if second is not None:
        run.state = replace(after.with_allocations_of(run.state), conditions=(*before.conditions, condition))
        return None
    run.set_conditions(before.conditions)
    join(run, negated(condition), after)
    return None


@executes(ir.SwitchStatement)
def _switch(run: Execution, node: ir.SwitchStatement) -> str | None:
    value = number_of(run, evaluate(run, node.value))
    is_known = isinstance(value, StringValue | DataType) or (isinstance(value, Size) and value.constant is not None)
    wanted = value if is_known else None
    before = run.state
    joined: State | None = None
    matched = False
    for index, case in enumerate(node.cases):
        given = evaluate(run, case.label) if case.label is not None else None
        if wanted is not None and given is not None and truth(operate("==", wanted, given)).value is False:
            continue
        if wanted is not None and case.label is None and matched:
            continue
        matched = True
        conditions = run.state.conditions if wanted is not None else before.conditions
        run.state = replace(before.with_allocations_of(run.state), conditions=conditions)
        if wanted is None and isinstance(value, Size) and isinstance(given, Size):
            # What one case demands says nothing about the others.
            run.assume(Condition(None, "==", value, given))
        ended = None
        with run.scope(), own_jumps(run):
            for later in node.cases[index:]:
                ended = _sequence(run, later.statements)
                if ended is not None:
                    break
            ended = after_jumps(run, ended, "break")
        if ended is None:
            if joined is not None:
                join(run, Condition(), joined)
            joined = run.state
    conditions = before.conditions if wanted is None else run.state.conditions
    run.state = replace((joined or before).with_allocations_of(run.state), conditions=conditions)
    return None


# ---- loops


@executes(ir.Loop)
def _loop(run: Execution, node: ir.Loop) -> str | None:
    with run.scope():
        _sequence(run, node.start)
        outer, run.frame = run.frame, replace(run.frame, loops=(*run.frame.loops, node))
        try:
            with own_jumps(run):
                return after_jumps(run, _iterations(run, node), "break")
        finally:
            run.frame = outer


def _iterations(run: Execution, node: ir.Loop) -> str | None:
    counter = _counter(run, node)
    trips = _trips(counter)
    if trips is not None and trips <= _MAX_ITERATIONS:
        for _ in range(trips):
            before = len(run.state.conditions)
            ended = after_jumps(run, _scoped(run, node.body), "continue")
            conditions = run.state.conditions
            held = (one for one in conditions[before:] if one.value is not False)
            run.set_conditions((*conditions[:before], *held))
            if ended is not None:
                return ended
            evaluate(run, node.update)
        return None
    if not node.first and truth(evaluate(run, node.condition)).value is False:
        return None
    conditions = run.state.conditions
    # What is stored in any iteration counts for the contents of arrays; launches are those of the first and the last.
    passes: list[Value | None] = [None]
    if counter is not None:
        passes += [Ranged(counter[1], counter[3]), *([counter[2]] if _launches(node.body) else [])]
    for index, value in enumerate(passes):
        if index:
            _forget(run, node.body)
        if value is not None and counter is not None:
            run.assign(counter[0], value)
        before_body = run.state
        run.repeated += 1
        ended = after_jumps(run, _scoped(run, node.body), "continue")
        run.repeated -= 1
        run.set_conditions(conditions)
        if ended in _ENDS:
            run.state = replace(before_body.with_allocations_of(run.state), conditions=conditions)
    _forget(run, node.body)
    if counter is not None:
        left = any(kind == "break" for kind, _ in run.jumps)
        run.assign(counter[0], run.unknown(run.name_of(counter[0], "count"), "computed") if left else counter[3])
    return None


def _launches(body: ir.Statement | None) -> bool:
    nodes = walk(body) if body is not None else ()
    return any(
        isinstance(one, ir.Launch) or (isinstance(one, ir.NameUse) and one.base.startswith(_LAUNCHING)) for one in nodes
    )


def _counter(run: Execution, node: ir.Loop) -> tuple[Lvalue, Size, Size, Size] | None:
    """Return the variable of ``for (i = a; i < b; i++)``, its first and last values, and that after the loop."""
    match node.condition, node.update:
        case (
            ir.BinaryOperation(operator="<" | "<=" | "!=" as operator, left=ir.NameUse(name=name), right=end_node),
            ir.Assign(target=ir.NameUse(name=changed), operator="+", value=ir.Constant(value=int(step))),
        ) if name == changed and step != 0:
            cell = lookup(run, name)
        case _:
            return None
    if not isinstance(cell, int):
        return None
    begin, end = run.held(cell), evaluate(run, end_node)
    if not isinstance(begin, Size) or not isinstance(end, Size):
        return None
    past = add(end, number(1)) if operator == "<=" else end
    return Lvalue(cell), begin, add(past, number(step), -1), past


def _trips(counter: tuple[Lvalue, Size, Size, Size] | None) -> int | None:
    """Return the number of iterations if it is known."""
    if counter is None:
        return None
    _, begin, last, past = counter
    step = add(past, last, -1).constant or 1
    count = add(past, begin, -1).constant
    return None if count is None else max(0, -(-count // step))


def _forget(run: Execution, body: ir.Statement | None) -> None:
    """Drop the values of variables that a loop's body assigns."""
    for node in walk(body) if body is not None else ():
        if isinstance(node, ir.Assign) and isinstance(node.target, ir.NameUse):
            cell = lookup(run, node.target.name)
            if isinstance(cell, int) and isinstance(run.held(cell), Size | FloatValue | Ranged | Condition):
                run.set_cell(cell, run.unknown(node.target.name, "computed"))


@executes(ir.RangeLoop)
def _range_loop(run: Execution, node: ir.RangeLoop) -> str | None:
    outer = run.frame
    with run.scope(), own_jumps(run):
        source = evaluate(run, node.source)
        values: list[Value] = _elements(run, source) or [Unknown()]
        run.frame = replace(outer, loops=(*outer.loops, node))
        # As of other loops, the first iteration and the last.
        for value in values if len(values) < _MAX_ITERATIONS else (values[0], values[-1]):
            if len(node.names) > 1:
                _declare_parts(run, node.names, value)
            elif isinstance(value, Unknown) and is_integer_type(type_of(run, node.type)):
                run.declare(node.names[0], run.unknown(node.names[0], "computed"))
            else:
                run.declare(node.names[0], value)
            run.repeated += 1
            ended = after_jumps(run, _scoped(run, node.body), "continue")
            run.repeated -= 1
            if ended in _ENDS:
                break
        run.frame = outer
        after_jumps(run, None, "break")
    return None


def _elements(run: Execution, source: Value) -> list[Value]:
    """Return the elements of a list, an array or a vector of which each is known."""
    if isinstance(source, RecordValue) and source.type == "vector":
        source = source.fields.get("data", source)
    if isinstance(source, Pointer):
        cell = run.object_cells.get(source.allocation or 0)
        source = run.held(cell) if cell is not None and source.offset == ZERO else source
    return [value for key, value in source.fields.items() if key[0] == "["] if isinstance(source, RecordValue) else []


# ---- declarations


@executes(ir.DeclareParts)
def _parts(run: Execution, node: ir.DeclareParts) -> str | None:
    _declare_parts(run, node.names, evaluate(run, node.value))
    return None


def _declare_parts(run: Execution, names: Sequence[str], value: Value) -> None:
    value = sizes_by_axis(run, value, len(names))
    for index, name in enumerate(names):
        part = value.fields.get(f"[{index}]", Unknown()) if isinstance(value, RecordValue) else Unknown()
        run.declare(name, run.unknown(name, "computed") if isinstance(part, Unknown) else part)


@executes(ir.Declare)
def _declare(run: Execution, node: ir.Declare) -> str | None:
    if not node.type:
        run.declare(node.name, evaluate(run, node.value))
        return None
    name = type_of(run, node.type)
    outer, run.hint = run.hint, node.name
    try:
        if node.reference and isinstance(node.value, ir.NameUse):
            place = place_of(run, node.value)
            if isinstance(place, Lvalue) and not place.path:
                run.scopes[-1][node.name] = place.cell
                return None
        if node.reference and node.value is not None:
            value = evaluate(run, node.value)
        elif node.lengths:
            value = _pointers(run, name, node) if node.pointers else _array(run, name, node)
        else:
            value = _initial(run, name, node)
    finally:
        run.hint = outer
    # An array's bytes are those of its memory.
    declared = "" if node.lengths else f"{name}*" if node.pointers else name
    run.declare(node.name, run.scaled(node.name, value, node.value), declared)
    return None


def _pointers(run: Execution, name: str, node: ir.Declare) -> Value:
    """Return an array of pointers, each of which has its type also before it has a value."""
    given = evaluate(run, node.value)
    if isinstance(given, RecordValue):
        return RecordValue("array", given.fields)
    length = evaluate(run, node.lengths[0])
    known = length.constant if isinstance(length, Size) else None
    count = known if known is not None and known <= _MAX_POINTERS else 0
    return RecordValue("array", {f"[{index}]": Unknown(f"{name}*") for index in range(count)})


def _array(run: Execution, name: str, node: ir.Declare) -> Value:
    """Return a local array: memory of numbers, or a record of objects."""
    extents = [evaluate(run, length) for length in node.lengths]
    lengths = [extent if isinstance(extent, Size) else None for extent in extents]
    given = evaluate(run, node.value)
    if isinstance(given, RecordValue) and isinstance(node.value, ir.ListValue):
        given = _with_scaled_sizes(run, given, node.value, node.name)
    size = size_of(run, name)
    if element_type(name) is None or size is None:
        return RecordValue("array", given.fields if isinstance(given, RecordValue) else {})
    if len(lengths) == 1 and lengths[0] is None and isinstance(given, RecordValue):
        lengths = [number(len(given.fields))]
    total: Size | None = size
    for length in lengths:
        total = multiply(total, length) if total is not None and length is not None else None
    pointer = run.allocate(node.name, total, "host")
    if isinstance(given, RecordValue):
        for value in given.fields.values():
            run.store(pointer, value)
        cell = run.declare(f"{node.name}[]", RecordValue("array", given.fields))
        run.object_cells[pointer.allocation or 0] = cell
    return typed(run, pointer, name)


def _with_scaled_sizes(run: Execution, given: RecordValue, node: ir.ListValue, name: str) -> RecordValue:
    """Return the elements of an array, where sizes written as numbers may be smaller."""
    if len(node.items) != len(given.fields):
        return given
    pairs = zip(given.fields.items(), node.items, strict=True)
    return replace(given, fields={key: run.scaled(name, value, item) for (key, value), item in pairs})


def _initial(run: Execution, name: str, node: ir.Declare) -> Value:
    if node.pointers:
        value = evaluate(run, node.value) if node.value is not None else Unknown(f"{name}*")
        if isinstance(value, RecordValue) and value.type == "list" and len(value.fields) == 1:
            value = next(iter(value.fields.values()))
        return typed(run, value, name) if isinstance(value, Pointer) else value
    new = constructed(run, name, node.value, node.name)
    if new is not None:
        return new
    if node.value is None:
        return Unknown(name)
    value = evaluate(run, node.value)
    if isinstance(value, RecordValue) and value.type == "list" and element_type(name) is not None:
        if len(value.fields) == 1:
            value = next(iter(value.fields.values()))
        elif not value.fields:
            value = ZERO
    return converted(run, name, value, node.name)
