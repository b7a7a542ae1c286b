"""Constants and types that are members of classes, such as those of kernel traits: ``Traits<128, float>::kThreads``."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from tree_sitter import Node

from gpuemu_lsp.engine.plan.host.machine import Machine
from gpuemu_lsp.engine.plan.host.syntax import declared_name, expression_of, text
from gpuemu_lsp.engine.plan.host.values import Unknown, Value
from gpuemu_lsp.engine.symbolic.conditions import Condition
from gpuemu_lsp.engine.symbolic.size import Size, number

CLASS = "::class"
"""Name in a scope under which the class stands whose members are evaluated."""
_ACCUMULATORS = {"float": "float", "double": "double", "int": "int64_t", "int64_t": "int64_t"}
_MAX_DEPTH = 12


def resolved_type(machine: Machine, written: str) -> str:
    """Return a type with its template arguments, members and aliases replaced as far as they are known."""
    if machine.depth > _MAX_DEPTH * 2:
        return written
    machine.depth += 1
    try:
        return _resolved(machine, " ".join(written.split()).removeprefix("typename ").strip())
    finally:
        machine.depth -= 1


def _resolved(machine: Machine, written: str) -> str:
    known = machine.type_of(written)
    if known != written:
        return resolved_type(machine, known)
    scope, _, member = written.rpartition("::")
    if scope and not member.endswith(">"):
        found = _member_node(machine, resolved_type(machine, scope), member)
        if found is not None and found[1].type == "alias_declaration":
            with _within(machine, found[0]):
                return resolved_type(machine, text(found[1].child_by_field_name("type")))
    if not written.endswith(">") or "<" not in written:
        return written
    name, arguments = written[: written.index("<")], split_template(written)
    base = name.split("::")[-1]
    given = [_argument(machine, one) for one in arguments]
    if base in ("acc_type", "opmath_type", "acc_type_device") and given:
        return _ACCUMULATORS.get(given[0], "float")
    return f"{name}<{', '.join(given)}>"


def _argument(machine: Machine, written: str) -> str:
    found = resolved_type(machine, written)
    if found != written:
        return found
    node = expression_of(written)
    value: Value = machine.evaluate(machine, node) if node is not None else Unknown()
    if isinstance(value, Condition) and value.value is not None:
        return "true" if value.value else "false"
    if isinstance(value, Size) and value.constant is not None and written not in ("true", "false"):
        return str(value.constant)
    return written


def split_template(written: str) -> list[str]:
    """Return the template arguments of a type as written."""
    inside = written[written.index("<") + 1 : written.rindex(">")]
    parts, depth, start = [], 0, 0
    for index, sign in enumerate(inside):
        depth += (sign in "<([{") - (sign in ">)]}")
        if sign == "," and depth == 0:
            parts.append(inside[start:index].strip())
            start = index + 1
    return [part for part in (*parts, inside[start:].strip()) if part]


def static_member(machine: Machine, scope: str, name: str) -> Value | None:
    """Return the value of a constant of a class; None if the class or the constant is not known."""
    found = _member_node(machine, resolved_type(machine, scope), name)
    if found is None or found[1].type == "alias_declaration" or machine.depth > _MAX_DEPTH * 2:
        return None
    value = found[1].child_by_field_name("default_value")
    if value is None:
        for one in found[1].children_by_field_name("declarator"):
            value = one.child_by_field_name("value") or value
    if value is None:
        return None
    machine.depth += 1
    try:
        with _within(machine, found[0]):
            return machine.evaluate(machine, value)
    finally:
        machine.depth -= 1


def own_member(machine: Machine, name: str) -> Value | None:
    """Return a constant of the class whose members are evaluated."""
    scope = machine.lookup(CLASS)
    return static_member(machine, scope, name) if isinstance(scope, str) else None


def _member_node(machine: Machine, type_text: str, name: str) -> tuple[str, Node] | None:
    base = type_text.split("<")[0].split("::")[-1].strip()
    node = machine.program.structs.get(base)
    body = node.child_by_field_name("body") if node is not None else None
    for one in body.named_children if body is not None else ():
        if one.type == "alias_declaration" and text(one.child_by_field_name("name")) == name:
            return type_text, one
        if one.type == "field_declaration" and name in map(declared_name, one.children_by_field_name("declarator")):
            return type_text, one
    return None


@contextmanager
def _within(machine: Machine, type_text: str) -> Iterator[None]:
    """Evaluate in a class: its template parameters have their arguments, and its members are visible."""
    base = type_text.split("<")[0].split("::")[-1].strip()
    outer, machine.scopes = machine.scopes, [{CLASS: type_text}]
    given = split_template(type_text) if "<" in type_text else []
    try:
        for index, (name, default) in enumerate(machine.program.templates.get(base, ())):
            argument = given[index] if index < len(given) else text(default)
            if argument.lstrip("-").isdigit():
                machine.declare(name, number(int(argument)))
            elif argument in ("true", "false"):
                machine.declare(name, number(int(argument == "true")))
            elif argument:
                machine.scopes[-1][name] = argument
        yield
    finally:
        machine.scopes = outer
