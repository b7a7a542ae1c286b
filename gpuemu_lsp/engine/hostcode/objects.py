"""Objects that host code constructs: ``dim3``, vectors, and objects of the program's classes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from gpuemu_lsp.engine.element_types import element_type
from gpuemu_lsp.engine.hostcode import ir
from gpuemu_lsp.engine.hostcode.interpreter import evaluate
from gpuemu_lsp.engine.hostcode.state import Execution
from gpuemu_lsp.engine.hostcode.type_names import base_name, split_template, vector_of
from gpuemu_lsp.engine.hostcode.types import is_integer_type, lookup, size_of, type_of, typed
from gpuemu_lsp.engine.hostcode.values import Contents, FloatValue, Pointer, RecordValue, Unknown, Value
from gpuemu_lsp.engine.symbolic.size import ONE, ZERO, Size, multiply, number

_MAX_FIELDS = 64
_MAX_DEPTH = 24
_OWNERS = frozenset({"unique_ptr", "shared_ptr"})
CONSTANTS = frozenset({"integral_constant", "bool_constant", "true_type", "false_type"})
"""Types of the standard library whose objects stand for a number."""


def library_object(run: Execution, name: str, node: ir.Expression | None, hint: str) -> Value | None:
    """Return an object of a type of CUDA or of the standard library; None for other types.

    ``node`` has the arguments of the constructor, or is the expression that the variable is a copy of.
    """
    if name in ("dim3", "uint3", "int3"):
        return dim3(run, values_of(run, node))
    if name == "cudaExtent":
        return _extent(values_of(run, node))
    vector_type = vector_of(name)
    if vector_type is not None:
        return _vector(run, vector_type, node, hint)
    base = base_name(name)
    if base in CONSTANTS:
        return constant_object(run, base, split_template(name))
    if base_name(run.program.aliases.get(base, base)) in _OWNERS:
        given = values_of(run, node)
        return given[0] if given and isinstance(given[0], Pointer) else None
    return None


def constant_object(run: Execution, base: str, arguments: Sequence[str]) -> RecordValue:
    """Return an object of ``std::integral_constant<int, 4>`` and the like."""
    written = arguments[-1] if arguments else str(base == "true_type").lower()
    written = {"true": "1", "false": "0"}.get(written, written)
    cell = lookup(run, written)
    held = run.held(cell) if isinstance(cell, int) else Unknown()
    return RecordValue(base, {"value": number(int(written)) if written.isdigit() else held})


def values_of(run: Execution, node: ir.Expression | None) -> list[Value]:
    """Return the arguments of a constructor."""
    if node is None:
        return []
    return [evaluate(run, item) for item in node.items] if isinstance(node, ir.ListValue) else [evaluate(run, node)]


def listed_numbers(run: Execution, node: ir.ListValue, name: str) -> list[Value]:
    """Return the values of a list; those of a list of sizes, written as numbers, may be smaller."""
    values = values_of(run, node)
    if node.constructor:
        return values
    return [run.scaled(name, value, item) for value, item in zip(values, node.items, strict=True)]


# ---- objects of classes


def struct_object(run: Execution, name: str, node: ir.Expression | None) -> Value:
    """Return an object of a class without its constructor: of a list, or with the defaults of its members."""
    if node is not None and not isinstance(node, ir.ListValue):
        return evaluate(run, node)
    fields: dict[str, Value] = {}
    given = dict(zip(node.keys() if node is not None else (), values_of(run, node), strict=True))
    values = [value for key, value in given.items() if key[0] == "["]
    for member in run.program.structs[name].members:
        if len(fields) > _MAX_FIELDS:
            break
        value: Value = Unknown(f"{member.type}*" if member.pointers else member.type)
        if len(fields) < len(values):
            value = values[len(fields)]
        elif member.name in given:
            value = given[member.name]
        elif member.default is not None:
            value = evaluate(run, member.default)
        elif not member.pointers and member.type == "dim3":
            value = dim3(run, [])
        fields[member.name] = value
    return RecordValue(name, fields)


def _parameter_object(run: Execution, base: str, name: str, origin: str) -> Value:
    """Return an object that a caller passes: each of its numbers may be any."""
    plain = struct_object(run, base, None)
    if not isinstance(plain, RecordValue):
        return plain
    fields: dict[str, Value] = {}
    run.depth += 1
    for field, value in plain.fields.items():
        written = value.type if isinstance(value, Unknown) else ""
        pointer = written.endswith("*")
        known = written and (pointer or is_integer_type(type_of(run, written)))
        inner = type_of(run, written.rstrip("*"))
        fields[field] = default_value(run, inner, f"{name}_{field}", pointer, origin) if known else value
    run.depth -= 1
    return replace(plain, fields=fields)


def default_value(run: Execution, type_name: str, name: str, pointer: bool, origin: str) -> Value:
    """Return the value of a parameter whose argument is not known."""
    if pointer:
        return typed(run, run.allocate(name, None, "parameter", Contents("any")), type_name)
    vector_type = vector_of(type_name)
    if vector_type is not None:
        new = make_vector(run, name, vector_type[1], run.unknown(f"{name}_size", origin), "parameter", [])
        run.set_contents(new.fields["data"], Contents("any"))
        return new
    if base_name(type_name) in run.program.structs and run.depth < _MAX_DEPTH:
        return _parameter_object(run, base_name(type_name), name, origin)
    known = element_type(type_name)
    if is_integer_type(type_name):
        return run.unknown(name, origin)
    return FloatValue() if known is not None and known.dtype != "bool" else Unknown(type_name)


# ---- objects of libraries


def _extent(values: list[Value]) -> Value:
    if len(values) == 1 and isinstance(values[0], RecordValue):
        if values[0].type != "list":
            return values[0]
        values = list(values[0].fields.values())
    return RecordValue("cudaExtent", dict(zip(("width", "height", "depth"), values, strict=False)))


def dim3(run: Execution, values: list[Value]) -> Value:
    """Return a ``dim3`` of some sizes; a copy of another one."""
    if len(values) == 1 and isinstance(values[0], RecordValue):
        if values[0].type != "list":
            return values[0]
        values = list(values[0].fields.values())
    parts: dict[str, Value] = {"x": ONE, "y": ONE, "z": ONE}
    for axis, value in zip("xyz", values, strict=False):
        size = run.integer(value)
        parts[axis] = size if size is not None else Unknown()
    return RecordValue("dim3", parts)


def _vector(run: Execution, vector_type: tuple[str, str], node: ir.Expression | None, name: str) -> Value:
    """Return a ``std::vector``, or one of thrust."""
    kind, element = vector_type
    if node is not None and not isinstance(node, ir.ListValue):
        value = evaluate(run, node)
        return value if isinstance(value, RecordValue) else _vector(run, vector_type, None, name)
    values = listed_numbers(run, node, name) if node is not None else []
    space = "device" if kind == "device_vector" else "host"
    if node is not None and not node.constructor:
        return make_vector(run, name, element, number(len(values)), space, values)
    first = values[0] if values else None
    if isinstance(first, RecordValue) and first.type == "list":
        listed = list(first.fields.values())
        return make_vector(run, name, element, number(len(listed)), space, listed or values[1:2])
    if isinstance(first, RecordValue) and first.type == "vector":
        return _copied(run, first, name, space)
    length = ZERO
    if first is not None:
        size = run.integer(first)
        length = size if size is not None else run.unknown(f"{name}_size", "computed")
    return make_vector(run, name, element, length, space, values[1:2])


def make_vector(run: Execution, name: str, element: str, length: Size, space: str, values: list[Value]) -> RecordValue:
    """Return a vector of ``length`` elements, which are zero if no ``values`` are given."""
    size = size_of(run, element)
    pointer = run.allocate(name, multiply(size, length) if size is not None else None, space)
    run.set_contents(pointer, Contents("any", ZERO, ONE))
    if values:
        run.set_contents(pointer, Contents())
        for value in values:
            run.store(pointer, value)
        if length.constant == len(values):
            fields = {f"[{index}]": value for index, value in enumerate(values)}
            run.object_cells[pointer.allocation or 0] = run.declare(f"{name}[]", RecordValue("array", fields))
    return RecordValue("vector", {"data": typed(run, pointer, element), "size": length})


def _copied(run: Execution, source: RecordValue, name: str, space: str) -> RecordValue:
    data = source.fields.get("data")
    if not isinstance(data, Pointer) or data.allocation is None:
        return source
    memory = run.memory(data.allocation)
    pointer = run.allocate(name, memory.size, space, memory.contents)
    return RecordValue("vector", {**source.fields, "data": replace(data, allocation=pointer.allocation)})
