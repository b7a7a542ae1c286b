"""Expressions of host code."""

from __future__ import annotations

import re
from collections.abc import Callable

from tree_sitter import Node

from gpuemu_lsp.engine.element_types import element_type
from gpuemu_lsp.engine.plan.host.arithmetic import both, operate, promoted, real, reals
from gpuemu_lsp.engine.plan.host.branches import choose
from gpuemu_lsp.engine.plan.host.libraries.tensors import NO_TENSOR, OPTIONAL, compared_sizes, subscripted_size
from gpuemu_lsp.engine.plan.host.lookup.function_tables import element
from gpuemu_lsp.engine.plan.host.lookup.static_members import own_member, resolved_type, static_member
from gpuemu_lsp.engine.plan.host.machine import Machine, is_integer_type, pointee
from gpuemu_lsp.engine.plan.host.objects import constructed
from gpuemu_lsp.engine.plan.host.places import place_of, pointed_to, sizeof, store_member, subscript_place
from gpuemu_lsp.engine.plan.host.statements import branch, condition_of, truth
from gpuemu_lsp.engine.plan.host.syntax import expression_of, text
from gpuemu_lsp.engine.plan.host.values import (
    Choice,
    Closure,
    FloatValue,
    HostFunctionName,
    Lvalue,
    Pointer,
    Ranged,
    RecordValue,
    StringValue,
    Tensor,
    Unknown,
    Value,
)
from gpuemu_lsp.engine.symbolic.conditions import Condition, negated
from gpuemu_lsp.engine.symbolic.size import (
    ONE,
    ZERO,
    Size,
    TooComplexError,
    add,
    divide,
    multiply,
    number,
)

_INTEGER = re.compile(r"(0[xX][0-9a-fA-F']+|0[bB][01']+|[\d']+)[uUlLzZ]*$")
_LIMITS = {
    "INT_MAX": (1 << 31) - 1, "RAND_MAX": (1 << 31) - 1, "UINT_MAX": (1 << 32) - 1, "warpSize": 32,
    "cudaSuccess": 0, "CUDA_SUCCESS": 0, "EXIT_SUCCESS": 0, "CHAR_BIT": 8, "UCHAR_MAX": 255,
    "cudaMemcpyHostToHost": 0, "cudaMemcpyHostToDevice": 1, "cudaMemcpyDeviceToHost": 2,
    "cudaMemcpyDeviceToDevice": 3, "cudaMemcpyDefault": 4,
}  # fmt: skip


def evaluate(machine: Machine, node: Node | None) -> Value:
    """Return the value of an expression; its effects are applied."""
    if node is None:
        return Unknown()
    machine.step()
    handler: Callable[[Machine, Node], Value] | None = _HANDLERS.get(node.type)
    if handler is None:
        for one in node.named_children:
            if "expression" in one.type:
                machine.evaluate(machine, one)
        return Unknown()
    try:
        return handler(machine, node)
    except TooComplexError:
        return Unknown()


def _number(machine: Machine, node: Node) -> Value:
    written = text(node)
    if written.startswith("-"):
        inner = expression_of(written[1:])
        return operate("-", ZERO, machine.evaluate(machine, inner)) if inner is not None else Unknown()
    found = _INTEGER.match(written)
    if found is not None:
        digits = found[1].replace("'", "")
        if digits[:2] not in ("0x", "0X", "0b", "0B") and len(digits) > 1 and digits[0] == "0":
            return number(int(digits, 8)) if set(digits) <= set("01234567") else Unknown()
        return number(int(digits, 0))
    try:
        value = float(written.rstrip("fFlL").replace("'", ""))
    except ValueError:
        return Unknown()
    whole = number(int(value)) if value.is_integer() and abs(value) < 2**53 else None
    return FloatValue(whole, ONE if whole is not None else None, value)


def _identifier(machine: Machine, node: Node) -> Value:
    name = text(node)
    found = machine.lookup(name)
    if isinstance(found, int):
        return machine.held(found)
    if isinstance(found, str):
        inner = expression_of(found)
        if inner is not None and element_type(found) is None and found != name:
            return machine.evaluate(machine, inner)
        return Unknown(found)
    base = name.split("::")[-1]
    if machine.program.find(base) or base in machine.program.kernels:
        return HostFunctionName(base)
    if base in _LIMITS:
        return number(_LIMITS[base])
    if base.startswith(("cudaDevAttr", "CU_DEVICE_ATTRIBUTE_")):
        return StringValue(base)
    value = machine.constant(name) if name in machine.program.constants else machine.constant(base)
    if value is not None and not isinstance(value, Unknown):
        return value
    this = machine.lookup("this")
    if isinstance(this, int):
        record = machine.held(this)
        if isinstance(record, RecordValue) and base in record.fields:
            return record.fields[base]
    scope = name.rpartition("::")[0]
    member = static_member(machine, scope, base) if scope else own_member(machine, base)
    return member if member is not None else NO_TENSOR if base == "nullopt" else Unknown()


def _parenthesized(machine: Machine, node: Node) -> Value:
    value: Value = Unknown()
    for one in node.named_children:
        value = machine.evaluate(machine, one)
    return value


def _binary(machine: Machine, node: Node) -> Value:
    operator = text(node.child_by_field_name("operator"))
    left_node, right_node = node.child_by_field_name("left"), node.child_by_field_name("right")
    if operator in ("&&", "||", "and", "or"):
        left = truth(machine.evaluate(machine, left_node))
        right = truth(machine.evaluate(machine, right_node))
        return both(left, right) if operator in ("&&", "and") else negated(both(negated(left), negated(right)))
    left_value, right_value = machine.evaluate(machine, left_node), machine.evaluate(machine, right_node)
    if operator in ("==", "!="):
        compared = compared_sizes(machine, left_value, right_value)
        if compared is not None:
            return compared if operator == "==" else negated(compared)
    if operator in ("+", "-", "*"):
        left_value, right_value = _as_integer(machine, left_value), _as_integer(machine, right_value)
    return operate(operator, left_value, right_value)


def _as_integer(machine: Machine, value: Value) -> Value:
    """Return a condition that is not known as the integer it is converted to: `n / b + (n % b != 0)`."""
    unknown = isinstance(value, Condition) and value.value is None and value.operator
    return choose(machine, value, ONE, ZERO, machine.hint) if isinstance(value, Condition) and unknown else value


def _unary(machine: Machine, node: Node) -> Value:
    value = machine.evaluate(machine, node.child_by_field_name("argument"))
    operator = text(node.child_by_field_name("operator"))
    if operator in ("!", "not"):
        return negated(truth(value))
    value = promoted(value)
    if operator == "-" and isinstance(value, Size):
        return multiply(value, number(-1))
    if operator == "-" and isinstance(value, FloatValue):
        return reals("*", value, FloatValue(number(-1), ONE, -1.0))
    if operator == "~" and isinstance(value, Size) and value.constant is not None:
        return number(~value.constant)
    return value if operator == "+" else Unknown()


def _field(machine: Machine, node: Node) -> Value:
    name = text(node.child_by_field_name("field"))
    if "->" in [text(one) for one in node.children if not one.is_named]:
        target = pointed_to(machine, machine.evaluate(machine, node.child_by_field_name("argument")))
        if target is None:
            return Unknown()
        return machine.get(Lvalue(target.cell, (*target.path, name)))
    base = machine.evaluate(machine, node.child_by_field_name("argument"))
    return base.fields.get(name, Unknown()) if isinstance(base, RecordValue) else Unknown()


def _subscript(machine: Machine, node: Node) -> Value:
    size = subscripted_size(machine, node)
    if size is not None:
        return size
    place = subscript_place(machine, node)
    if isinstance(place, Lvalue):
        return machine.get(place)
    if isinstance(place, Pointer) and place.allocation is not None:
        if machine.heap[place.allocation].name == "argv":
            return StringValue("")  # an argument of the program
        cell = machine.struct_cells.get(place.allocation)
        index = divide(place.offset, number(place.element or 1)).constant
        if cell is not None and index is not None:
            return machine.get(Lvalue(cell, (f"[{index}]",)))
        contents = machine.heap[place.allocation].contents
        if contents.low is not None and contents.high is not None:
            single = add(contents.high, contents.low, -1) == ONE
            return contents.low if single else Ranged(contents.low, contents.high)
    return element(machine, node) if place is None else Unknown()


def _pointer(machine: Machine, node: Node) -> Value:
    argument = node.child_by_field_name("argument")
    if text(node.child_by_field_name("operator")) == "&":
        place = place_of(machine, argument)
        if place is not None:
            return place
        value = machine.evaluate(machine, argument)
        return value if isinstance(value, HostFunctionName | Choice) else Unknown("pointer")
    value = machine.evaluate(machine, argument)
    if isinstance(value, Lvalue):
        return machine.get(value)
    if isinstance(value, RecordValue) and value.type == OPTIONAL:
        return value.fields.get("value", Unknown())
    return value if isinstance(value, HostFunctionName | Choice) else Unknown()


def _assignment(machine: Machine, node: Node) -> Value:
    left, operator = node.child_by_field_name("left"), text(node.child_by_field_name("operator"))
    outer = machine.hint
    machine.hint = text(left) if left is not None and left.type == "identifier" else outer
    right = node.child_by_field_name("right")
    value = machine.evaluate(machine, right)
    place = place_of(machine, left)
    if operator != "=":
        value = operate(operator[:-1], machine.evaluate(machine, left), value)
    elif isinstance(place, Lvalue):
        value = machine.scaled(text(left), value, text(right))
    if isinstance(place, Lvalue):
        before = machine.get(place)
        if isinstance(before, Size) or (isinstance(before, Unknown) and is_integer_type(before.type)):
            if isinstance(value, FloatValue):
                value = machine.truncated(value) or Unknown("int")
            if isinstance(value, Unknown) and value.type != "exit":
                value = machine.unknown(machine.hint or text(left), "computed")
        if isinstance(value, Pointer) and not value.type:
            value = machine.typed(value, pointee(before))
        if isinstance(before, RecordValue) and before.type == "dim3" and isinstance(value, Size):
            value = RecordValue("dim3", {"x": value, "y": ONE, "z": ONE})
        machine.assign(place, value)
    elif isinstance(place, Pointer):
        machine.store(place, value)
        if isinstance(value, Pointer | Lvalue | RecordValue) and place.allocation is not None:
            target = pointed_to(machine, Pointer(place.allocation, ZERO))
            index = divide(place.offset, number(place.element or 1)).constant
            if target is not None and index is not None:
                machine.assign(Lvalue(target.cell, (f"[{index}]",)), value)
    if left is not None and left.type == "field_expression":
        store_member(machine, left)
    machine.hint = outer
    return value


def _update(machine: Machine, node: Node) -> Value:
    place = place_of(machine, node.child_by_field_name("argument"))
    if not isinstance(place, Lvalue):
        return Unknown()
    before = machine.get(place)
    operator = "+" if "++" in text(node) else "-"
    after = operate(operator, before, ONE)
    machine.assign(place, after)
    return before if not text(node).startswith(("++", "--")) else after


def _conditional(machine: Machine, node: Node) -> Value:
    condition = condition_of(machine, node.child_by_field_name("condition"))
    then, other = node.child_by_field_name("consequence"), node.child_by_field_name("alternative")
    if condition.value is not None:
        return machine.evaluate(machine, then if condition.value else other)
    yes, no = machine.evaluate(machine, then), machine.evaluate(machine, other)
    return choose(machine, condition, yes, no, machine.hint)


def _cast(machine: Machine, node: Node) -> Value:
    value = machine.evaluate(machine, node.child_by_field_name("value"))
    return cast(machine, text(node.child_by_field_name("type")), value)


def cast(machine: Machine, type_text: str, value: Value) -> Value:
    """Return a value converted by a cast."""
    type_text = machine.type_of(type_text)
    if type_text.endswith("*"):
        base = type_text[:-1].strip()
        if isinstance(value, Pointer):
            return machine.typed(value, base)
        if isinstance(value, Size) and value.constant == 0:
            return Pointer(None, ZERO)
        return value
    if is_integer_type(type_text):
        if isinstance(value, FloatValue):
            return machine.truncated(value) or Unknown("int")
        return promoted(value)
    if type_text in ("float", "double") and isinstance(value, Size):
        return real(value)
    return value


def _list(machine: Machine, node: Node) -> Value:
    fields: dict[str, Value] = {}
    for index, one in enumerate(node.named_children):
        if one.type == "initializer_pair":
            name = text(one.child_by_field_name("designator")).strip(". ")
            fields[name] = machine.evaluate(machine, one.child_by_field_name("value"))
        else:
            fields[f"[{index}]"] = machine.evaluate(machine, one)
    return RecordValue("list", fields)


def _compound(machine: Machine, node: Node) -> Value:
    """Return the value of ``T{...}``."""
    type_text, listed = machine.type_of(text(node.child_by_field_name("type"))), node.child_by_field_name("value")
    made = constructed(machine, type_text, listed, machine.hint)
    if made is not None:
        return made
    value = machine.evaluate(machine, listed)
    fields = value.fields if isinstance(value, RecordValue) else {}
    return (
        cast(machine, type_text, next(iter(fields.values())))
        if len(fields) == 1 and "IntArrayRef" not in type_text
        else value
    )


def _new(machine: Machine, node: Node) -> Value:
    type_text = text(node.child_by_field_name("type"))
    declarator = node.child_by_field_name("declarator")
    size = machine.size_of(type_text)
    length = machine.evaluate(machine, declarator.child_by_field_name("length")) if declarator is not None else ONE
    total = multiply(size, length) if size is not None and isinstance(length, Size) else None
    made = machine.allocate(machine.hint or "new", total, "host")
    return machine.typed(made, type_text)


def _lambda(machine: Machine, node: Node) -> Value:
    return Closure(node, tuple(machine.scopes))


def _template(machine: Machine, node: Node) -> Value:
    name = text(node.child_by_field_name("name"))
    return HostFunctionName(name.split("::")[-1], template_arguments(machine, node.child_by_field_name("arguments")))


def template_arguments(machine: Machine, node: Node | None) -> tuple[str, ...]:
    """Return template arguments as types or numbers, as far as they are known."""
    found = []
    for one in node.named_children if node is not None else ():
        written = text(one)
        resolved = resolved_type(machine, written)
        if element_type(resolved) is None and "<" not in resolved:
            value = machine.evaluate(machine, expression_of(resolved)) if expression_of(resolved) is not None else None
            if isinstance(value, Condition) and value.value is not None:
                resolved = "true" if value.value else "false"
            elif isinstance(value, Size) and resolved not in ("true", "false"):
                resolved = str(value) if value.constant is not None else f"?{value}"
        found.append(resolved)
    return tuple(found)


def _qualified(machine: Machine, node: Node) -> Value:
    inner, scope = node.child_by_field_name("name"), node.child_by_field_name("scope")
    if inner is not None and scope is not None and scope.type == "template_type":
        member = static_member(machine, text(scope), text(inner))
        return member if member is not None else Unknown()
    if inner is not None and inner.type in ("template_function", "qualified_identifier"):
        return machine.evaluate(machine, inner)
    return _identifier(machine, node)


_HANDLERS: dict[str, Callable[[Machine, Node], Value]] = {
    "number_literal": _number,
    "string_literal": lambda machine, node: StringValue(text(node).strip('"')),
    "identifier": _identifier,
    "type_identifier": _identifier,
    "field_identifier": _identifier,
    "qualified_identifier": _qualified,
    "true": lambda machine, node: Condition(True),
    "false": lambda machine, node: Condition(False),
    "null": lambda machine, node: Pointer(None, ZERO),
    "nullptr": lambda machine, node: Pointer(None, ZERO),
    "parenthesized_expression": _parenthesized,
    "condition_clause": lambda machine, node: condition_of(machine, node),
    "comma_expression": _parenthesized,
    "binary_expression": _binary,
    "unary_expression": _unary,
    "pointer_expression": _pointer,
    "assignment_expression": _assignment,
    "update_expression": _update,
    "conditional_expression": _conditional,
    "cast_expression": _cast,
    "sizeof_expression": sizeof,
    "subscript_expression": _subscript,
    "field_expression": _field,
    "initializer_list": _list,
    "compound_literal_expression": _compound,
    "new_expression": _new,
    "lambda_expression": _lambda,
    "template_function": _template,
    "type_descriptor": lambda machine, node: machine.evaluate(machine, expression_of(text(node))),
    "call_expression": lambda machine, node: machine.call(machine, node),
}
__all__ = ["Tensor", "branch", "cast", "evaluate", "operate", "place_of", "template_arguments"]
