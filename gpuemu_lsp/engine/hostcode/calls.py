"""Calls in host code: functions of the program and of libraries, lambda expressions, and functions that launch."""

from __future__ import annotations

from collections.abc import Sequence

from gpuemu_lsp.engine.hostcode import ir
from gpuemu_lsp.engine.hostcode.expressions import cast
from gpuemu_lsp.engine.hostcode.functions import call_closure, call_function, constructed
from gpuemu_lsp.engine.hostcode.interpreter import EXIT, evaluate, evaluates
from gpuemu_lsp.engine.hostcode.launch_calls import LAUNCH_FUNCTIONS, called_kernel, runtime_launch
from gpuemu_lsp.engine.hostcode.objects import dim3
from gpuemu_lsp.engine.hostcode.places import place_of
from gpuemu_lsp.engine.hostcode.program import HostFunction
from gpuemu_lsp.engine.hostcode.selections import functions_of
from gpuemu_lsp.engine.hostcode.state import Execution
from gpuemu_lsp.engine.hostcode.std import HARMLESS, LIBRARY, METHODS, NAMESPACED
from gpuemu_lsp.engine.hostcode.tensors import SHAPES, WRITING_METHODS
from gpuemu_lsp.engine.hostcode.type_names import base_name
from gpuemu_lsp.engine.hostcode.types import lookup, template_arguments
from gpuemu_lsp.engine.hostcode.values import (
    Choice,
    Closure,
    HostFunctionName,
    Lvalue,
    RecordValue,
    Tensor,
    Unknown,
    Value,
)

_ENDS = frozenset({"exit", "abort", "_exit", "quick_exit"})
_HARMLESS = ("print", "cudaEvent", "cudaStream", "cudaDevice", "cudaFuncSet")


@evaluates(ir.CallExpression)
def _call(run: Execution, node: ir.CallExpression) -> Value:
    callee = node.callee
    if isinstance(callee, ir.FieldAccess):
        return _method(run, callee, node)
    if isinstance(callee, ir.Subscript) and isinstance(callee.index, ir.ListValue):
        return called_kernel(run, node, functions_of(evaluate(run, callee.base)), callee.index.items)
    if not isinstance(callee, ir.NameUse):
        return _call_value(run, evaluate(run, callee), node)
    if callee.base in _ENDS:
        return Unknown(EXIT)
    meaning = lookup(run, callee.name)
    if isinstance(meaning, str):
        return cast(run, meaning, evaluate(run, node.arguments[0])) if node.arguments else Unknown(meaning)
    held = run.held(meaning) if meaning is not None else None
    if isinstance(held, Closure | HostFunctionName | Choice):
        return _call_value(run, held, node)
    return _call_named(run, callee.base, template_arguments(run, callee.arguments), node, callee.name)


def _values(run: Execution, arguments: Sequence[ir.Expression]) -> list[Value]:
    return [evaluate(run, argument) for argument in arguments]


def _call_value(run: Execution, value: Value, node: ir.CallExpression) -> Value:
    """Call a lambda expression, or each function that a pointer to one may be; return the value of the first."""
    if isinstance(value, Closure):
        return call_closure(run, value, _values(run, node.arguments))
    results: list[Value] = []
    conditions = run.state.conditions
    functions = functions_of(value)
    if any(function.called for function, _ in functions):
        return called_kernel(run, node, functions)
    for function, selected in functions:
        run.set_conditions((*conditions, *selected))
        results.append(_call_named(run, function.name, function.arguments, node))
        run.set_conditions(conditions)
    return results[0] if results else _call_unknown(run, "", _values(run, _all_arguments(node)))


def _call_named(run: Execution, base: str, template: tuple[str, ...], node: ir.CallExpression, name: str = "") -> Value:
    arguments = node.arguments
    if base in LAUNCH_FUNCTIONS and len(arguments) >= LAUNCH_FUNCTIONS[base]:
        return runtime_launch(run, node, base, arguments)
    if base in run.program.aliases and base not in run.program.functions:
        base = base_name(run.program.aliases[base])
    suited = [one for one in run.program.find(base) if one.body.accepts(len(_all_arguments(node)))]
    if base == "dim3" or (not suited and base in run.program.structs):
        new = constructed(run, base, ir.ListValue(arguments, constructor=True), run.hint)
        return new if new is not None else dim3(run, _values(run, arguments))
    # Without its namespace, `fill` is the program's and not that of the standard library.
    if suited and (base not in LIBRARY or (base in NAMESPACED and name in ("", base))):
        function = suited[0]
        return call_function(run, function, _arguments(run, function, node), template)
    handler = LIBRARY.get(base)
    if handler is None:
        return _call_unknown(run, base, _values(run, _all_arguments(node)))
    shape = [value for key, value in node.keywords if key in SHAPES]
    return handler(run, _values(run, (*shape, *arguments)), template, name or base)


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


def _all_arguments(node: ir.CallExpression) -> tuple[ir.Expression, ...]:
    return (*node.arguments, *(value for _, value in node.keywords))


def _arguments(run: Execution, function: HostFunction, node: ir.CallExpression) -> list[Value | None]:
    """Return the arguments of a call by parameter, those by name too; None for one that has its default."""
    keywords = dict(node.keywords)
    given = [keywords.get(parameter.name) for parameter in function.body.parameters]
    given[: len(node.arguments)] = node.arguments
    return [None if each is None else _argument(run, function, index, each) for index, each in enumerate(given)]


def _argument(run: Execution, function: HostFunction, index: int, node: ir.Expression) -> Value:
    """Return an argument; the variable itself for a reference parameter."""
    parameter = function.body.parameters[index]
    if parameter.reference:
        place = place_of(run, node)
        if isinstance(place, Lvalue):
            return place
    outer, run.hint = run.hint, parameter.name or run.hint
    try:
        return evaluate(run, node)
    finally:
        run.hint = outer


def _method(run: Execution, callee: ir.FieldAccess, node: ir.CallExpression) -> Value:
    owner, values = evaluate(run, callee.base), _values(run, _all_arguments(node))
    handler = METHODS.get(callee.name)
    if handler is not None:
        template = template_arguments(run, callee.arguments)
        result = handler(run, owner, values, place_of(run, callee.base), template)
        if result is not None:
            return result
    functions = [one for one in run.program.find(callee.name, method=True) if one.body.accepts(len(values))]
    own = [one for one in functions if isinstance(owner, RecordValue) and one.owner == owner.type]
    functions = own[:1] or functions
    if len(functions) == 1 and not isinstance(owner, Tensor):
        this = _object(run, owner, callee)
        return call_function(run, functions[0], [*values], template_arguments(run, callee.arguments), this)
    for value in (*values, owner) if callee.name.endswith("_") or callee.name in WRITING_METHODS else values:
        run.escape(value)
    return Unknown()


def _object(run: Execution, owner: Value, callee: ir.FieldAccess) -> int | None:
    """Return the cell of the object of a member function; a copy if it is a part of another one."""
    place = run.object_at(owner) if callee.arrow else place_of(run, callee.base)
    if isinstance(place, Lvalue) and not place.path:
        return place.cell
    inner = run.get(place) if isinstance(place, Lvalue) else owner
    return run.new_cell(inner) if isinstance(inner, RecordValue) else None
