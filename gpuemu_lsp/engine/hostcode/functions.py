"""Functions of the program: how they are called, what their parameters stand for, and the objects of its classes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from gpuemu_lsp.engine.hostcode import ir
from gpuemu_lsp.engine.hostcode.arithmetic import truncated
from gpuemu_lsp.engine.hostcode.branches import choose
from gpuemu_lsp.engine.hostcode.interpreter import evaluate, execute
from gpuemu_lsp.engine.hostcode.objects import default_value, library_object, struct_object, values_of
from gpuemu_lsp.engine.hostcode.program import HostFunction
from gpuemu_lsp.engine.hostcode.state import CallFrame, Execution
from gpuemu_lsp.engine.hostcode.tensors import NO_TENSOR, OPTIONAL, items_of, passed_tensor
from gpuemu_lsp.engine.hostcode.type_names import base_name, optional_of, split_template
from gpuemu_lsp.engine.hostcode.types import bind_argument, is_integer_type, lookup, type_of, typed
from gpuemu_lsp.engine.hostcode.values import (
    Closure,
    FloatValue,
    Lvalue,
    Pointer,
    RecordValue,
    Unknown,
    Value,
)
from gpuemu_lsp.engine.symbolic.conditions import Condition
from gpuemu_lsp.engine.symbolic.size import Size, number

_MAX_DEPTH = 24
_MAX_ACTIVATIONS = 2
"""Activations of a recursive function with launches: a deeper one has sizes nested in those of the first."""


def call_function(
    run: Execution,
    function: HostFunction,
    values: list[Value | None],
    template: tuple[str, ...],
    this: int | None = None,
) -> Value:
    """Execute a function of the program, a member function with the cell of its object.

    A value is None for a parameter that has its default.
    """
    run.reached.calls.append((function, values))
    key = function.path, function.line
    before = [launches for place, launches in run.frame.active if place == key]
    launching = function.launches or (len(before) > 0 and len(run.reached.launches) > before[0])
    deep = len(before) >= _MAX_ACTIVATIONS and launching
    if function.body.statements is None or deep or run.depth >= _MAX_DEPTH:
        for given in values:
            run.escape(given if given is not None else Unknown())
        return Unknown()
    outer = run.scopes, run.results, run.program, run.frame
    conditions, decided = run.state.conditions, len(run.reached.decided)
    active = (*run.frame.active, (key, len(run.reached.launches)))
    recursive = run.frame.recursive or len(before) > 0
    run.frame = CallFrame(function.name, function.path, function.line, active, recursive, len(conditions))
    run.scopes, run.results = [{}], []
    run.program = function.unit
    run.depth += 1
    try:
        return _executed(run, function, values, template, this)
    finally:
        run.depth -= 1
        run.scopes, run.results, run.program, run.frame = outer
        if not function.body.returns_once:
            run.set_conditions((*conditions, *run.reached.decided[decided:]))


def _executed(
    run: Execution, function: HostFunction, values: list[Value | None], template: tuple[str, ...], this: int | None
) -> Value:
    """Return what a function returns whose scope is the current one."""
    held = run.held(this) if this is not None else None
    if this is not None and isinstance(held, RecordValue):
        run.scopes[-1]["this"] = this
        struct = run.program.structs.get(held.type)
        for parameter, argument in zip(struct.template if struct is not None else (), held.template, strict=False):
            bind_argument(run, parameter.name, argument)
    _bind_template(run, function, values, template)
    for index, parameter_ in enumerate(function.body.parameters):
        bind_parameter(run, parameter_, values[index] if index < len(values) else None, "computed")
    for name, given in function.body.members:
        _initialise(run, name, given)
    execute(run, function.body.statements)
    value: Value = run.results[0] if run.results else Unknown()
    for other in run.results[1:]:
        value = choose(run, Condition(), value, other, function.name)
    return value


def call_closure(run: Execution, closure: Closure, values: Sequence[Value | None]) -> Value:
    """Execute the body of a lambda expression."""
    if run.depth >= _MAX_DEPTH:
        return Unknown()
    outer = run.scopes, run.results, run.frame
    types: dict[str, int | str] = {
        name: one for scope in run.scopes for name, one in scope.items() if isinstance(one, str)
    }
    run.results, run.scopes = [], [*closure.scopes, types]
    run.frame = replace(run.frame, line=closure.line)
    run.depth += 1
    try:
        with run.scope():
            for index, parameter in enumerate(closure.code.parameters):
                bind_parameter(run, parameter, values[index] if index < len(values) else None, "computed")
            execute(run, closure.code.body)
        return run.results[0] if run.results else Unknown()
    finally:
        run.depth -= 1
        run.scopes, run.results, run.frame = outer


# ---- arguments and parameters


def arguments_by_position(run: Execution, nodes: Sequence[ir.Expression]) -> list[Value]:
    """Return the values of arguments; after a list that is not known, one unknown value stands for the others."""
    values: list[Value] = []
    for node in nodes:
        value = evaluate(run, node.value if isinstance(node, ir.Spread) else node)
        items = items_of(run, value) if isinstance(node, ir.Spread) else [value]
        if items is None:
            return [*values, Unknown()]
        values += items
    return values


def arguments_by_name(run: Execution, nodes: Sequence[tuple[str, ir.Expression]]) -> dict[str, Value]:
    """Return the values of keywords; ``**`` stands for those that are not known."""
    values: dict[str, Value] = {}
    for name, node in nodes:
        value = evaluate(run, node)
        if name != "**":
            values[name] = value
        elif isinstance(value, RecordValue) and value.type == "list" and items_of(run, value) in (None, []):
            values |= value.fields
        else:
            values[name] = Unknown()
    return values


def bind_parameter(run: Execution, parameter: ir.HostParameter, value: Value | None, origin: str) -> None:
    """Declare a parameter with its argument, its default or a value that is not known."""
    name, type_name = parameter.name, type_of(run, parameter.type)
    if value is None and parameter.default is not None:
        value = evaluate(run, parameter.default)
    if value is None:
        value = _tensor_parameter(run, type_name, name)
    if value is None:
        value = default_value(run, type_name, name, parameter.pointers > 0, origin)
    if isinstance(value, RecordValue) and not value.fields and optional_of(type_name) is not None:
        value = NO_TENSOR
    if isinstance(value, Lvalue) and parameter.reference:
        if value.path:
            run.declare(name, run.get(value))
        else:
            run.scopes[-1][name] = value.cell
        return
    if not parameter.pointers:
        value = run.named(name, converted(run, type_name, value, name))
    elif isinstance(value, Pointer) and parameter.pointers == 1 and not parameter.reference:
        value = typed(run, value, type_name)
    if name:
        run.declare(name, value, f"{type_name}*" if parameter.pointers else type_name)


def _tensor_parameter(run: Execution, type_name: str, name: str) -> Value | None:
    inner = optional_of(type_name)
    if inner is not None:
        given = _tensor_parameter(run, inner, name)
        return RecordValue(OPTIONAL, {"value": given}) if given is not None else None
    if type_name.split("::")[-1] in ("Tensor", "TensorRef"):
        tensor = passed_tensor(run, name)
        run.reached.tensors[tensor.allocation] = name
        return tensor
    return None


def _bind_template(
    run: Execution, function: HostFunction, values: list[Value | None], template: tuple[str, ...]
) -> None:
    for index, parameter in enumerate(function.template):
        if index < len(template):
            given = template[index]
        else:
            given = _deduced(run, function, parameter.name, values) or parameter.default
        if given:
            bind_argument(run, parameter.name, given)


def _deduced(run: Execution, function: HostFunction, name: str, values: list[Value | None]) -> str:
    """Return the type of the argument for a parameter of a template's type, empty if the value does not show it."""
    for parameter, value in zip(function.body.parameters, values, strict=False):
        if parameter.type != name:
            continue
        if isinstance(value, Pointer):
            return value.type
        if isinstance(value, RecordValue) and value.type in run.program.structs:
            return f"{value.type}<{', '.join(value.template)}>" if value.template else value.type
    return ""


def converted(run: Execution, type_name: str, value: Value, name: str) -> Value:
    """Return a value converted to the type of a variable."""
    if is_integer_type(type_name) or type_name in ("auto", "bool"):
        if isinstance(value, FloatValue) and type_name != "auto":
            return truncated(value) or run.unknown(name, "computed")
        if isinstance(value, Condition) and value.value is not None and type_name not in ("auto", "bool"):
            return number(int(value.value))
        if isinstance(value, Unknown) and value.type != "exit" and type_name not in ("auto", "bool"):
            return run.unknown(name, "computed")
    elif type_name in ("float", "double") and isinstance(value, Size):
        return FloatValue(value, number(1), None if value.constant is None else float(value.constant))
    return value


# ---- objects


def constructed(run: Execution, name: str, node: ir.Expression | None, hint: str) -> Value | None:
    """Return the object of a declaration; None for a type that is not known.

    ``node`` has the arguments of the constructor, or is the expression that the variable is a copy of.
    """
    base = base_name(name)
    new = library_object(run, name, node, hint)
    return _object(run, name, base, node) if new is None and base in run.program.structs else new


def _object(run: Execution, name: str, base: str, node: ir.Expression | None) -> Value:
    """Return an object of a class of the program, after its constructor."""
    listed = node is None or isinstance(node, ir.ListValue)
    values = values_of(run, node) if listed else []
    template = tuple(type_of(run, argument) for argument in split_template(name))
    constructor = _constructor(run, base, len(values))
    if len(values) == 1 and isinstance(values[0], RecordValue) and values[0].type == base:
        return values[0]
    if constructor is None or not listed:
        new = struct_object(run, base, node)
        return replace(new, template=template) if isinstance(new, RecordValue) and template else new
    plain = struct_object(run, base, None)
    if not isinstance(plain, RecordValue):
        return plain
    with run.scope():
        cell = run.declare("this", replace(plain, template=template))
        keys = node.keys() if isinstance(node, ir.ListValue) else ()
        call_function(run, constructor, _by_parameter(constructor, values, keys), (), cell)
    return run.held(cell)


def _by_parameter(function: HostFunction, values: Sequence[Value], keys: Sequence[str]) -> list[Value | None]:
    """Return the arguments of a constructor by parameter: those without a name come first."""
    positional = [value for value, key in zip(values, keys, strict=True) if key[0] == "["]
    named = dict(zip(keys, values, strict=True))
    rest = function.body.parameters[len(positional) :]
    return [*positional, *(named.get(parameter.name) for parameter in rest)]


def _constructor(run: Execution, base: str, count: int) -> HostFunction | None:
    constructors = (one for one in run.program.functions.get(base, ()) if one.owner == base)
    return next((one for one in constructors if one.body.statements is not None and one.body.accepts(count)), None)


def _initialise(run: Execution, name: str, given: ir.ListValue) -> None:
    """Assign a member that a constructor initialises before its body."""
    this = lookup(run, "this")
    held = run.held(this) if isinstance(this, int) else None
    if not isinstance(this, int) or not isinstance(held, RecordValue):
        return
    before = held.fields.get(name, Unknown())
    type_name = before.type if isinstance(before, Unknown | RecordValue) else ""
    outer, run.hint = run.hint, name
    new = constructed(run, type_of(run, type_name), given, name) if type_name else None
    if new is None and given.items:
        new = converted(run, type_of(run, type_name), evaluate(run, given.items[0]), name)
    run.hint = outer
    if new is not None:
        run.assign(Lvalue(this, (name,)), new)
