"""Calls in host code: kernel launches, functions of the program, macros, lambdas, and library functions."""

from __future__ import annotations

import re

from tree_sitter import Node

from gpuemu_lsp.engine.element_types import element_type
from gpuemu_lsp.engine.plan.host.branches import choose
from gpuemu_lsp.engine.plan.host.declarations import converted
from gpuemu_lsp.engine.plan.host.expressions import cast, template_arguments
from gpuemu_lsp.engine.plan.host.launching import LAUNCH_FUNCTIONS, callee_name, escape, launch, runtime_launch
from gpuemu_lsp.engine.plan.host.libraries.functions import HARMLESS, LIBRARY, METHODS, NAMESPACED
from gpuemu_lsp.engine.plan.host.libraries.tensors import NO_TENSOR, OPTIONAL
from gpuemu_lsp.engine.plan.host.lookup.function_tables import functions_of
from gpuemu_lsp.engine.plan.host.machine import Machine
from gpuemu_lsp.engine.plan.host.objects import base_name, constructed, default_value, dim3
from gpuemu_lsp.engine.plan.host.places import place_of, pointed_to
from gpuemu_lsp.engine.plan.host.syntax import (
    ParsedFunction,
    declared_name,
    expression_of,
    returns_once,
    statements_of,
    text,
)
from gpuemu_lsp.engine.plan.host.values import (
    Choice,
    Closure,
    Contents,
    HostFunctionName,
    Lvalue,
    Pointer,
    RecordValue,
    Tensor,
    Unknown,
    Value,
)
from gpuemu_lsp.engine.source.preprocessor.expansion import substitute
from gpuemu_lsp.engine.source.preprocessor.lexer import split_top
from gpuemu_lsp.engine.symbolic.conditions import Condition
from gpuemu_lsp.engine.symbolic.size import ZERO, number

_MAX_DEPTH = 24
_MAX_ACTIVATIONS = 2
"""Activations of a recursive function with launches: a deeper one has sizes nested in those of the first."""
_OPTIONAL = re.compile(r"(?:\w+::)*optional\s*<(.+)>")
_CASTS = frozenset({"static_cast", "reinterpret_cast", "const_cast", "dynamic_cast", "bit_cast"})


def call(machine: Machine, node: Node) -> Value:
    """Return the value of a call; its effects are applied."""
    callee = node.child_by_field_name("function")
    configuration = next((one for one in node.named_children if one.type == "kernel_call_syntax"), None)
    listed = node.child_by_field_name("arguments")
    arguments = list(listed.named_children) if listed is not None else []
    if configuration is not None:
        launch(machine, node, callee, configuration.named_children, arguments)
        return Unknown()
    if callee is None:
        return Unknown()
    if callee.type == "field_expression":
        return _method(machine, callee, arguments)
    if callee.type == "lambda_expression":
        return call_closure(
            machine, Closure(callee, tuple(machine.scopes)), [machine.evaluate(machine, one) for one in arguments]
        )
    if callee.type in ("primitive_type", "type_identifier", "sized_type_specifier"):
        return cast(machine, text(callee), machine.evaluate(machine, arguments[0])) if arguments else ZERO
    name, template = callee_name(callee)
    base = name.split("::")[-1]
    if base in _CASTS and template is not None and arguments:
        return cast(machine, text(template).strip("<> "), machine.evaluate(machine, arguments[0]))
    if base in ("exit", "abort", "_exit", "quick_exit"):
        return Unknown("exit")
    found = machine.lookup(name)
    if isinstance(found, str):
        return cast(machine, found, machine.evaluate(machine, arguments[0])) if arguments else Unknown(found)
    if found is not None:
        held = machine.held(found)
        if isinstance(held, Closure):
            return call_closure(machine, held, [machine.evaluate(machine, one) for one in arguments])
        if isinstance(held, HostFunctionName | Choice):
            return _call_selected(machine, held, arguments, node)
    if callee.type in ("subscript_expression", "parenthesized_expression"):
        return _call_selected(machine, machine.evaluate(machine, callee), arguments, node)
    expansion = _expanded(machine, base, listed)
    if expansion is not None:
        return expansion
    given = template_arguments(machine, template)
    return _call_named(machine, base, given, arguments, node, name)


def _call_selected(machine: Machine, value: Value, arguments: list[Node], node: Node) -> Value:
    """Call each function that a pointer to one may be; return the value of the first."""
    results: list[Value] = []
    assumed = len(machine.conditions)
    for function, conditions in functions_of(value):
        machine.conditions += conditions
        results.append(_call_named(machine, function.name, function.arguments, arguments, node))
        del machine.conditions[assumed:]
    return results[0] if results else _unknown_call(machine, "", [machine.evaluate(machine, one) for one in arguments])


def _call_named(
    machine: Machine, base: str, template: tuple[str, ...], arguments: list[Node], node: Node, name: str = ""
) -> Value:
    if base in LAUNCH_FUNCTIONS and len(arguments) >= LAUNCH_FUNCTIONS[base]:
        return runtime_launch(machine, node, base, arguments)
    if base in machine.program.aliases and base not in machine.program.functions:
        base = base_name(machine.program.aliases[base])
    functions = machine.program.find(base)
    suited = [one for one in functions if _accepts(one, len(arguments))]
    if base == "dim3" or (not suited and base in machine.program.structs):
        values = node.child_by_field_name("arguments")
        made = constructed(machine, base, values, machine.hint)
        return made if made is not None else dim3(machine, [machine.evaluate(machine, one) for one in arguments])
    # Without its namespace, `fill` is the program's and not that of the standard library.
    if suited and (base not in LIBRARY or (base in NAMESPACED and name in ("", base))):
        return call_function(
            machine, suited[0], [_argument(machine, suited[0], i, one) for i, one in enumerate(arguments)], template
        )
    values_ = [machine.evaluate(machine, one) for one in arguments]
    handler = LIBRARY.get(base)
    if handler is not None:
        return handler(machine, values_, template, name or base)
    return _unknown_call(machine, base, values_)


def _unknown_call(machine: Machine, base: str, values: list[Value]) -> Value:
    harmless = base in HARMLESS or base.startswith(("print", "cudaEvent", "cudaStream", "cudaDevice", "cudaFuncSet"))
    for value in values:
        if isinstance(value, Closure):
            with machine.scope():
                machine.scopes[-1] |= {"index_t": "int"} if "INDEX" in base else {"scalar_t": machine.scalar}
                call_closure(machine, value, [])
        elif not harmless:
            escape(machine, value)
    return Unknown()


def _accepts(function: ParsedFunction, count: int) -> bool:
    least = sum(one.type == "parameter_declaration" for one in function.parameters)
    return least <= count <= len(function.parameters)


def _argument(machine: Machine, function: ParsedFunction, index: int, node: Node) -> Value:
    """Return an argument; the variable itself for a reference parameter."""
    parameter = function.parameters[index]
    declarator = parameter.child_by_field_name("declarator")
    if declarator is not None and declarator.type == "reference_declarator":
        place = place_of(machine, node)
        if isinstance(place, Lvalue):
            return place
    outer, machine.hint = machine.hint, declared_name(declarator) or machine.hint
    try:
        return machine.evaluate(machine, node)
    finally:
        machine.hint = outer


def call_function(
    machine: Machine,
    function: ParsedFunction,
    values: list[Value],
    template: tuple[str, ...],
    this: int | None = None,
) -> Value:
    """Execute a function of the program, a member function with the cell of its object."""
    body = function.body
    key = function.path, function.node.start_byte
    before = [launches for name, launches in machine.active if name == key]
    nested = len(before)
    launching = b"<<<" in (function.node.text or b"") or (nested > 0 and len(machine.launches) > before[0])
    deep = nested >= _MAX_ACTIVATIONS and launching
    if body is None or deep or machine.depth >= _MAX_DEPTH:
        for given in values:
            escape(machine, given)
        return Unknown()
    outer = machine.scopes, machine.results, machine.function, machine.path, machine.program, machine.assumed
    assumed = machine.assumed = len(machine.conditions)
    line, machine.line, machine.scopes, machine.results = machine.line, None, [{}], []
    machine.program = function.unit or machine.program
    machine.function, machine.path = function.name, function.path
    machine.depth += 1
    machine.active.append((key, len(machine.launches)))
    recursive, machine.recursive = machine.recursive, machine.recursive or nested > 0
    try:
        held = machine.held(this) if this is not None else None
        if this is not None and isinstance(held, RecordValue):
            machine.scopes[-1]["this"] = this
            parameters = machine.program.templates.get(held.type, ())
            for (name, _), argument in zip(parameters, held.template, strict=False):
                _bind_argument(machine, name, argument)
        _bind_template(machine, function, values, template)
        for index, parameter in enumerate(function.parameters):
            bind_parameter(machine, parameter, values[index] if index < len(values) else None, "computed")
        for one in function.node.named_children:
            if one.type == "field_initializer_list":
                _initialise(machine, one)
        machine.execute(machine, body)
        results = machine.results
        value: Value = results[0] if results else Unknown()
        for other in results[1:]:
            value = choose(machine, Condition(), value, other, function.name)
        return value
    finally:
        machine.depth -= 1
        machine.active.pop()
        machine.recursive, machine.line = recursive, line
        machine.scopes, machine.results, machine.function, machine.path, machine.program, machine.assumed = outer
        if not returns_once(body):
            del machine.conditions[assumed:]


def _initialise(machine: Machine, listed: Node) -> None:
    """Assign the members that a constructor initialises before its body."""
    this = machine.lookup("this")
    for one in listed.named_children:
        name = text(one.named_children[0]) if one.named_children else ""
        given = next((part for part in one.named_children if part.type in ("argument_list", "initializer_list")), None)
        held = machine.held(this) if isinstance(this, int) else None
        if not isinstance(this, int) or given is None or not isinstance(held, RecordValue):
            continue
        before = held.fields.get(name, Unknown())
        type_text = before.type if isinstance(before, Unknown | RecordValue) else ""
        outer, machine.hint = machine.hint, name
        made = constructed(machine, machine.type_of(type_text), given, name) if type_text else None
        values = given.named_children
        if made is None and values:
            made = converted(machine, machine.type_of(type_text), machine.evaluate(machine, values[0]), name)
        machine.hint = outer
        if made is not None:
            machine.assign(Lvalue(this, (name,)), made)


def bind_parameter(machine: Machine, parameter: Node, value: Value | None, origin: str) -> None:
    """Declare a parameter with its argument, its default or a value that is not known."""
    declarator = parameter.child_by_field_name("declarator")
    name = declared_name(declarator)
    type_text = machine.type_of(text(parameter.child_by_field_name("type")))
    if value is None:
        default = parameter.child_by_field_name("default_value")
        if default is not None:
            value = machine.evaluate(machine, default)
    kinds = []
    inner = declarator
    while inner is not None and "declarator" in inner.type:
        kinds.append(inner.type)
        inner = inner.child_by_field_name("declarator") or next(iter(inner.named_children), None)
    is_pointer = bool({"pointer_declarator", "array_declarator", "abstract_pointer_declarator"} & set(kinds))
    if value is None:
        value = _tensor_parameter(machine, type_text, name)
    if value is None:
        value = default_value(machine, type_text, name, is_pointer, origin)
    if isinstance(value, RecordValue) and not value.fields and _OPTIONAL.fullmatch(type_text):
        value = NO_TENSOR
    if isinstance(value, Lvalue) and "reference_declarator" in kinds:
        if value.path:
            machine.declare(name, machine.get(value))
        else:
            machine.scopes[-1][name] = value.cell
        return
    if is_pointer and isinstance(value, Pointer) and len(kinds) == 1:
        value = machine.typed(value, type_text)
    elif not is_pointer:
        value = converted(machine, type_text, value, name)
    if name:
        machine.declare(name, value)


def _tensor_parameter(machine: Machine, type_text: str, name: str) -> Value | None:
    inner = _OPTIONAL.fullmatch(type_text)
    if inner is not None:
        given = _tensor_parameter(machine, inner[1].strip(), name)
        return RecordValue(OPTIONAL, {"value": given}) if given is not None else None
    if type_text.split("::")[-1] in ("Tensor", "TensorRef"):
        memory = machine.allocate(name, None, "parameter", Contents("any"))
        machine.tensors[memory.allocation or 0] = name
        return Tensor(name, memory.allocation or 0)
    return None


def _bind_template(machine: Machine, function: ParsedFunction, values: list[Value], template: tuple[str, ...]) -> None:
    for index, (name, default) in enumerate(function.template):
        if index < len(template):
            given = template[index]
        else:
            given = _deduced(machine, function, name, values) or (text(default) if default is not None else "")
        if given:
            _bind_argument(machine, name, given)


def _bind_argument(machine: Machine, name: str, given: str) -> None:
    if given.lstrip("-").isdigit():
        machine.declare(name, number(int(given)))
    else:
        machine.scopes[-1][name] = machine.type_of(given) if given != name else given


def _deduced(machine: Machine, function: ParsedFunction, name: str, values: list[Value]) -> str:
    for parameter, value in zip(function.parameters, values, strict=False):
        if text(parameter.child_by_field_name("type")) == name and isinstance(value, Pointer):
            return value.type
    return ""


def call_closure(machine: Machine, closure: Closure, values: list[Value]) -> Value:
    """Execute the body of a lambda expression."""
    body = closure.node.child_by_field_name("body")
    if body is None or machine.depth >= _MAX_DEPTH:
        return Unknown()
    here = machine.scopes
    types: dict[str, int | str] = {name: one for scope in here for name, one in scope.items() if isinstance(one, str)}
    outer_results, machine.results = machine.results, []
    machine.scopes = [*closure.scopes, types]
    machine.depth += 1
    try:
        with machine.scope():
            declarator = closure.node.child_by_field_name("declarator")
            listed = declarator.child_by_field_name("parameters") if declarator is not None else None
            for index, parameter in enumerate(listed.named_children if listed is not None else ()):
                bind_parameter(machine, parameter, values[index] if index < len(values) else None, "computed")
            machine.execute(machine, body)
        return machine.results[0] if machine.results else Unknown()
    finally:
        machine.depth -= 1
        machine.scopes, machine.results = here, outer_results


def _expanded(machine: Machine, name: str, listed: Node | None) -> Value | None:
    """Return the value of an invocation of a function-like macro; None if there is no such macro."""
    macros = [one for one in machine.program.macros.definitions.get(name, ()) if one.parameters is not None]
    if not macros or listed is None or name in machine.expanding or name in machine.program.functions:
        return None
    inside = text(listed).strip()[1:-1]
    body = substitute(macros[0], [inside[first:last].strip() for first, last in split_top(inside)])
    if body is None:
        return None
    outer, machine.expanding = machine.expanding, machine.expanding | {name}
    line, machine.line = machine.line, listed.start_point[0] if machine.line is None else machine.line
    try:
        node = expression_of(body)
        if node is not None:
            return machine.evaluate(machine, node)
        statements = statements_of(body)
        for one in statements:
            machine.execute(machine, one)
        return Unknown()
    finally:
        machine.expanding, machine.line = outer, line


def _object(machine: Machine, owner: Value, callee: Node, node: Node | None) -> int | None:
    """Return the cell of the object of a member function; a copy if it is a part of another one."""
    if "->" in [text(one) for one in callee.children if not one.is_named]:
        place = pointed_to(machine, owner)
    else:
        found = place_of(machine, node)
        place = found if isinstance(found, Lvalue) else None
    if place is not None and not place.path:
        return place.cell
    inner = machine.get(place) if place is not None else owner
    if not isinstance(inner, RecordValue):
        return None
    machine.cells_made += 1
    machine.cells[machine.cells_made] = inner
    return machine.cells_made


def _method(machine: Machine, callee: Node, arguments: list[Node]) -> Value:
    owner_node = callee.child_by_field_name("argument")
    field = callee.child_by_field_name("field")
    name = (
        text(field.child_by_field_name("name"))
        if field is not None and field.type == "template_method"
        else text(field)
    )
    template = field.child_by_field_name("arguments") if field is not None and field.type == "template_method" else None
    owner = machine.evaluate(machine, owner_node)
    values = [machine.evaluate(machine, one) for one in arguments]
    handler = METHODS.get(name)
    if handler is not None:
        result = handler(machine, owner, values, place_of(machine, owner_node), template_arguments(machine, template))
        if result is not None:
            return result
    functions = [one for one in machine.program.find(name, method=True) if _accepts(one, len(arguments))]
    mine = [one for one in functions if isinstance(owner, RecordValue) and one.owner == owner.type]
    functions = mine[:1] or functions
    if len(functions) == 1 and not isinstance(owner, Tensor):
        this = _object(machine, owner, callee, owner_node)
        return call_function(machine, functions[0], values, template_arguments(machine, template), this)
    # A method of PyTorch whose name ends with an underscore writes to its tensor.
    for value in (*values, owner) if name.endswith("_") else values:
        escape(machine, value)
    return Unknown()


__all__ = ["bind_parameter", "call", "call_closure", "call_function", "element_type", "escape"]
