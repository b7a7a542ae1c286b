"""Calls in host code: functions of the program and of libraries, lambda expressions, and functions that launch."""

from __future__ import annotations

from collections.abc import Sequence

from gpuemu_lsp.engine.hostcode import ir
from gpuemu_lsp.engine.hostcode.expressions import cast
from gpuemu_lsp.engine.hostcode.functions import (
    arguments_by_name,
    arguments_by_position,
    call_closure,
    call_function,
    constructed,
)
from gpuemu_lsp.engine.hostcode.interpreter import EXIT, evaluate, evaluates
from gpuemu_lsp.engine.hostcode.launch_calls import LAUNCH_FUNCTIONS, called_kernel, launched, runtime_launch
from gpuemu_lsp.engine.hostcode.objects import dim3
from gpuemu_lsp.engine.hostcode.places import place_of
from gpuemu_lsp.engine.hostcode.program import HostFunction
from gpuemu_lsp.engine.hostcode.selections import functions_of
from gpuemu_lsp.engine.hostcode.state import Execution
from gpuemu_lsp.engine.hostcode.std import HARMLESS, LIBRARY, METHODS, NAMESPACED
from gpuemu_lsp.engine.hostcode.tensor_methods import TENSOR_METHODS
from gpuemu_lsp.engine.hostcode.tensor_results import layer_output
from gpuemu_lsp.engine.hostcode.tensors import KEYWORDS, WRITING_METHODS
from gpuemu_lsp.engine.hostcode.type_names import base_name
from gpuemu_lsp.engine.hostcode.types import lookup, template_arguments
from gpuemu_lsp.engine.hostcode.values import (
    BOUND_KERNEL,
    LAYER,
    Choice,
    Closure,
    HostFunctionName,
    Lvalue,
    RecordValue,
    StringValue,
    Tensor,
    Unknown,
    Value,
)

_ENDS = frozenset({"exit", "abort", "_exit", "quick_exit"})
_CALLED = ("forward", "__call__")
"""Methods that are called where an object is."""
_HARMLESS = ("print", "cudaEvent", "cudaStream", "cudaDevice", "cudaFuncSet")


@evaluates(ir.CallExpression)
def _call(run: Execution, node: ir.CallExpression) -> Value:
    callee = node.callee
    if isinstance(callee, ir.FieldAccess):
        return _method(run, callee, node)
    if not isinstance(callee, ir.NameUse):
        return _call_value(run, evaluate(run, callee), node)
    if callee.base in _ENDS:
        return Unknown(EXIT)
    if (result := _applied(run, callee, node)) is not None:
        return result
    meaning = lookup(run, callee.name)
    if isinstance(meaning, str):
        return cast(run, meaning, evaluate(run, node.arguments[0])) if node.arguments else Unknown(meaning)
    held = run.held(meaning) if meaning is not None else None
    if isinstance(held, RecordValue) and held.type == BOUND_KERNEL:
        return launched(run, node, functions_of(held.fields["kernel"]), held.fields["grid"])
    if isinstance(held, Closure | HostFunctionName | Choice) or _class_of(run, held) in run.program.structs:
        return _call_value(run, held or Unknown(), node)
    return _call_named(run, callee.base, template_arguments(run, callee.arguments), node, callee.name)


def _class_of(run: Execution, value: Value | None) -> str:
    """Return the class of an object, or of one that is referred to."""
    value = run.get(value) if isinstance(value, Lvalue) else value
    return value.type if isinstance(value, RecordValue) else ""


def _values(run: Execution, node: ir.CallExpression) -> list[Value]:
    """Return the arguments of a function that is not the program's; those by name follow as one record."""
    values = arguments_by_position(run, node.arguments)
    keywords = arguments_by_name(run, node.keywords)
    return [*values, RecordValue(KEYWORDS, keywords)] if keywords else values


def _call_value(run: Execution, value: Value, node: ir.CallExpression) -> Value:
    """Call a lambda expression, or each function that a pointer to one may be; return the value of the first."""
    if isinstance(value, Closure):
        return call_closure(run, value, _arguments(run, value.code.parameters, node))
    methods = [each for name in _CALLED for each in run.program.find(name) if each.owner == _class_of(run, value)]
    if methods and isinstance(value, RecordValue | Lvalue):
        this = value.cell if isinstance(value, Lvalue) else run.new_cell(value)
        return call_function(run, methods[0], _arguments(run, methods[0].body.parameters, node), (), this)
    results: list[Value] = []
    conditions = run.state.conditions
    functions = functions_of(value)
    if any(function.called for function, _ in functions):
        return called_kernel(run, node, functions)
    for function, selected in functions:
        run.set_conditions((*conditions, *selected))
        results.append(_call_named(run, function.name, function.arguments, node))
        run.set_conditions(conditions)
    return results[0] if results else _call_unknown(run, "", _values(run, node))


def _call_named(run: Execution, base: str, template: tuple[str, ...], node: ir.CallExpression, name: str = "") -> Value:
    arguments = node.arguments
    if base in LAUNCH_FUNCTIONS and len(arguments) >= LAUNCH_FUNCTIONS[base]:
        return runtime_launch(run, node, base, arguments)
    if base in run.program.aliases and base not in run.program.functions:
        base = base_name(run.program.aliases[base])
    owner = name.rpartition("::")[0].rpartition("::")[2]
    suited = [one for one in run.program.find(base) if _accepts(one, node)]
    suited = [one for one in suited if owner and one.owner == owner] or suited
    if base == "dim3" or (base in run.program.structs and all(one.owner == base for one in suited)):
        names = ("",) * len(arguments) + tuple(keyword for keyword, _ in node.keywords) if node.keywords else ()
        listed = ir.ListValue((*arguments, *(value for _, value in node.keywords)), names, constructor=True)
        new = constructed(run, base, listed, run.hint)
        return new if new is not None else dim3(run, _values(run, node))
    # Without its namespace, `fill` is the program's and not that of the standard library.
    if suited and (base not in LIBRARY or (base in NAMESPACED and name in ("", base))):
        function = suited[0]
        return call_function(run, function, _arguments(run, function.body.parameters, node), template)
    return _call_library(run, base, template, _values(run, node), name)


def _call_library(run: Execution, base: str, template: tuple[str, ...], values: list[Value], name: str) -> Value:
    """Return the value of a function that is not the program's."""
    handler = LIBRARY.get(base)
    if handler is not None:
        return handler(run, values, template, name or base)
    method = TENSOR_METHODS.get(base)
    if method is not None and name.startswith("torch::") and values:
        # `torch.relu(x)` is `x.relu()`.
        result = method(run, values[0], values[1:], None, template)
        if result is not None:
            return result
    if name == f"torch::nn::{base}" and base[:1].isupper():
        return RecordValue(LAYER, {"name": StringValue(base), **{f"[{at}]": each for at, each in enumerate(values)}})
    return _call_unknown(run, base, values)


def _accepts(function: HostFunction, node: ir.CallExpression) -> bool:
    """Return whether a function may be called with some arguments."""
    spread = any(isinstance(each, ir.Spread) for each in node.arguments) or "**" in dict(node.keywords)
    return spread or function.body.accepts(len(node.arguments) + len(node.keywords))


def _arguments(run: Execution, parameters: Sequence[ir.HostParameter], node: ir.CallExpression) -> list[Value | None]:
    """Return the arguments of a call by parameter; None for one that has its default."""
    given: list[Value | None] = []
    for argument in node.arguments:
        if isinstance(argument, ir.Spread):
            given += arguments_by_position(run, [argument])
        else:
            given.append(_argument(run, parameters[len(given)] if len(given) < len(parameters) else None, argument))
    named = dict(node.keywords)
    spread = arguments_by_name(run, [each for each in node.keywords if each[0] == "**"])
    for parameter in parameters[len(given) :]:
        value = named.get(parameter.name)
        given.append(spread.get(parameter.name) if value is None else _argument(run, parameter, value))
    return given[: len(parameters)]


def _call_unknown(run: Execution, base: str, values: list[Value]) -> Value:
    harmless = base in HARMLESS or base.startswith(_HARMLESS)
    for value in values:
        if isinstance(value, Closure):
            with run.scope():
                run.scopes[-1] |= {"index_t": "int"} if "INDEX" in base else {"scalar_t": run.assumptions.scalar}
                call_closure(run, value, [])
        elif not harmless:
            run.escape(value)
    return Unknown()


def _argument(run: Execution, parameter: ir.HostParameter | None, node: ir.Expression) -> Value:
    """Return an argument; the variable itself for a reference parameter."""
    if parameter is None:
        return evaluate(run, node)
    if parameter.reference:
        place = place_of(run, node)
        if isinstance(place, Lvalue):
            return place
    outer, run.hint = run.hint, parameter.name or run.hint
    try:
        return evaluate(run, node)
    finally:
        run.hint = outer


def _applied(run: Execution, callee: ir.NameUse, node: ir.CallExpression) -> Value | None:
    """Return what ``F.apply(x)`` computes by the ``forward`` of an autograd function; None for another call.

    Its first parameter is the context, which is an object of its own.
    """
    owner = callee.name.removesuffix("::apply") if callee.base == "apply" else ""
    forward = next((one for one in run.program.find("forward") if owner and one.owner == owner), None)
    if forward is None or not forward.body.parameters:
        return None
    cell = run.new_cell(RecordValue(owner))
    arguments = _arguments(run, forward.body.parameters[1:], node)
    return call_function(run, forward, [Lvalue(cell), *arguments], (), cell)


def _method(run: Execution, callee: ir.FieldAccess, node: ir.CallExpression) -> Value:
    owner, values = evaluate(run, callee.base), _values(run, node)
    handler = METHODS.get(callee.name)
    if handler is not None:
        template = template_arguments(run, callee.arguments)
        result = handler(run, owner, values, place_of(run, callee.base), template)
        if result is not None:
            return result
    kind = _class_of(run, owner)
    record = run.get(owner) if isinstance(owner, Lvalue) else owner
    member = record.fields.get(callee.name) if isinstance(record, RecordValue) else None
    if isinstance(member, Closure | HostFunctionName | Choice) or _class_of(run, member) in run.program.structs:
        return _call_value(run, member or Unknown(), node)
    if isinstance(member, RecordValue) and member.type == LAYER and values:
        return layer_output(run, callee.name, member, values[0])
    functions = [one for one in run.program.find(callee.name, method=True) if _accepts(one, node)]
    own = [one for one in functions if kind and one.owner == kind]
    functions = own[:1] or functions
    if len(functions) == 1 and not isinstance(owner, Tensor):
        this = _object(run, owner, callee)
        arguments = _arguments(run, functions[0].body.parameters, node)
        return call_function(run, functions[0], arguments, template_arguments(run, callee.arguments), this)
    for value in (*values, owner) if callee.name.endswith("_") or callee.name in WRITING_METHODS else values:
        run.escape(value)
    if isinstance(owner, Tensor):
        run.reached.written.add(owner.allocation)
    return Unknown()


def _object(run: Execution, owner: Value, callee: ir.FieldAccess) -> int | None:
    """Return the cell of the object of a member function; a copy if it is a part of another one."""
    refers = callee.arrow or isinstance(owner, Lvalue)
    place = run.object_at(owner) if refers else place_of(run, callee.base)
    if isinstance(place, Lvalue) and not place.path:
        return place.cell
    inner = run.get(place) if isinstance(place, Lvalue) else owner
    return run.new_cell(inner) if isinstance(inner, RecordValue) else None
