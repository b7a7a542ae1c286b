"""Names and types: what they stand for in the scopes, the class and the files around some code."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from gpuemu_lsp.engine.element_types import INTEGERS, dtype_size, element_type
from gpuemu_lsp.engine.hostcode.interpreter import evaluate, execute
from gpuemu_lsp.engine.hostcode.ir import Expression
from gpuemu_lsp.engine.hostcode.state import Execution
from gpuemu_lsp.engine.hostcode.type_names import base_name, split_template
from gpuemu_lsp.engine.hostcode.values import Pointer, RecordValue, Unknown, Value
from gpuemu_lsp.engine.symbolic.conditions import Condition
from gpuemu_lsp.engine.symbolic.size import Size, number

CLASS = "::class"
"""Name in a scope under which the class stands whose members are evaluated."""
_ACCUMULATORS = {"float": "float", "double": "double", "int": "int64_t", "int64_t": "int64_t"}
_SIZES = {"cufftComplex": 8, "cuComplex": 8, "cuDoubleComplex": 16, "clock_t": 8, "float3": 12, "dim3": 12}
_MAX_DEPTH = 24
_MAX_STRUCTS = 20
_MAX_ALIASES = 8


# ---- names


def lookup(run: Execution, name: str) -> int | str | None:
    """Return the cell of a variable, the text of a type, or None."""
    for scope in reversed(run.scopes):
        if name in scope:
            return scope[name]
    found = run.program.variable(name)
    if found is None or (not found[1].table and name in run.program.constants):
        return None
    unit, variable = found
    visible = run.tables if run.globals is None else run.globals
    declared = visible.get(name)
    # The other side of a branch does not have what the first side has declared.
    if declared is None or (isinstance(declared, int) and declared not in run.state.cells):
        own: dict[str, int | str] = {}
        visible[name] = ""
        outer = run.scopes, run.program
        run.scopes, run.program = [own], unit
        try:
            for statement in variable.statements:
                execute(run, statement)
        finally:
            run.scopes, run.program = outer
        visible |= own
        cell = own.get(name)
        if isinstance(cell, int) and isinstance(held := run.held(cell), Unknown):
            run.set_cell(cell, Unknown(held.type))  # what is not known is this variable
        if run.globals is None and not variable.constant:
            _forget_changed(run, own)
    return visible[name] or None


def _forget_changed(run: Execution, declared: dict[str, int | str]) -> None:
    """Forget variables at namespace scope that may have been changed before; one declaration may have several."""
    units = (run.program, *run.program.linked)
    for name, cell in declared.items():
        if isinstance(cell, int) and any(unit.assigns(name) for unit in units):
            run.set_cell(cell, _changed(run, name, run.held(cell)))


def _changed(run: Execution, name: str, value: Value) -> Value:
    """Return a variable at namespace scope that may have been changed before the interpretation starts."""
    if isinstance(value, RecordValue) and value.type == "dim3":
        return RecordValue("dim3", {axis: run.unknown(f"{name}_{axis}", "computed") for axis in value.fields})
    if isinstance(value, RecordValue) or (isinstance(value, Pointer) and value.allocation is not None):
        return value
    written = value.type if isinstance(value, Unknown | Pointer) else ""
    if isinstance(value, Size) or is_integer_type(type_of(run, written)):
        return run.unknown(name, "computed")
    return Unknown(f"{written}*" if isinstance(value, Pointer) else written)


def constant(run: Execution, name: str) -> Value | None:
    """Return the value of a constant of the files."""
    code = run.program.constants.get(name)
    if code is None or name in run.expanding:
        return None
    node = run.program.expression(code)
    if node is None:
        return None
    outer, run.expanding = run.expanding, run.expanding | {name}
    try:
        value = evaluate(run, node)
    finally:
        run.expanding = outer
    return value if name in run.assumptions.device else run.scaled(name, value, node)


# ---- types


def is_integer_type(name: str) -> bool:
    """Return whether a type is an integer type."""
    known = element_type(name)
    return known is not None and known.lanes == 1 and known.dtype in INTEGERS


def type_of(run: Execution, name: str) -> str:
    """Return a type as written with the names of aliases and template parameters replaced."""
    for _ in range(_MAX_ALIASES):
        name = name.replace("const ", "").removesuffix(" const").strip()
        meaning = lookup(run, name)
        if isinstance(meaning, str):
            name = meaning
        elif name in run.program.aliases:
            name = run.program.aliases[name]
        elif name in run.program.constants and not name.isdigit():
            name = run.program.constants[name]
        else:
            break
    return name


def size_of(run: Execution, name: str) -> Size | None:
    """Return the bytes of a type."""
    name = type_of(run, name.strip())
    if name.endswith(("*", "&")) or "(" in name:
        return number(8)
    known = element_type(name)
    if known is not None:
        return number(dtype_size(known.dtype) * known.lanes)
    name = name.removeprefix("struct ").removeprefix("std::")
    return number(_SIZES[name]) if name in _SIZES else struct_size(run, name)


def typed(run: Execution, pointer: Pointer, name: str) -> Pointer:
    """Return a pointer to elements of a type."""
    name = type_of(run, name.strip())
    if name in ("", "void", "auto"):
        return pointer
    size = size_of(run, name)
    return Pointer(pointer.allocation, pointer.offset, size.constant if size is not None else pointer.element, name)


def struct_size(run: Execution, name: str) -> Size | None:
    """Return the bytes of a struct of plain fields."""
    struct = run.program.structs.get(name)
    if struct is None or not struct.plain or run.depth > _MAX_STRUCTS:
        return None
    total, widest = 0, 1
    for member in struct.members:
        run.depth += 1
        size = number(8) if member.pointers else size_of(run, member.type)
        width = size.constant if size is not None else None
        count = _product(run, member.lengths)
        run.depth -= 1
        if width is None or count is None:
            return None
        align = min(width & -width, 16)
        total = -(-total // align) * align + width * count
        widest = max(widest, align)
    return number(-(-total // widest) * widest) if total else number(1)


def _product(run: Execution, lengths: Sequence[Expression | None]) -> int | None:
    """Return the number of elements of an array that is a member."""
    count = 1
    for length in lengths:
        extent = evaluate(run, length)
        known = extent.constant if isinstance(extent, Size) else None
        if known is None:
            return None
        count *= known
    return count


def resolved_type(run: Execution, name: str) -> str:
    """Return a type with its template arguments, members and aliases replaced as far as they are known."""
    if run.depth > _MAX_DEPTH:
        return name
    run.depth += 1
    try:
        return _resolved(run, " ".join(name.split()).removeprefix("typename ").strip())
    finally:
        run.depth -= 1


def _resolved(run: Execution, name: str) -> str:
    known = type_of(run, name)
    if known != name:
        return resolved_type(run, known)
    scope, _, member = name.rpartition("::")
    if scope and not member.endswith(">"):
        owner = resolved_type(run, scope)
        struct = run.program.structs.get(base_name(owner))
        if struct is not None and member in struct.aliases:
            with _within(run, owner):
                return resolved_type(run, struct.aliases[member])
    if not name.endswith(">") or "<" not in name:
        return name
    template = name[: name.index("<")]
    given = [_argument(run, one) for one in split_template(name)]
    if template.split("::")[-1] in ("acc_type", "opmath_type", "acc_type_device") and given:
        return _ACCUMULATORS.get(given[0], "float")
    return f"{template}<{', '.join(given)}>"


def _argument(run: Execution, name: str) -> str:
    resolved = resolved_type(run, name)
    if resolved != name:
        return resolved
    node = run.program.expression(name)
    value: Value = evaluate(run, node) if node is not None else Unknown()
    if isinstance(value, Condition) and value.value is not None:
        return "true" if value.value else "false"
    if isinstance(value, Size) and value.constant is not None and name not in ("true", "false"):
        return str(value.constant)
    return name


def template_arguments(run: Execution, arguments: Sequence[str] | None) -> tuple[str, ...]:
    """Return template arguments as types or numbers, as far as they are known."""
    given = []
    for argument in arguments or ():
        resolved = resolved_type(run, argument)
        if element_type(resolved) is None and "<" not in resolved:
            node = run.program.expression(resolved)
            value = evaluate(run, node) if node is not None else None
            if isinstance(value, Condition) and value.value is not None:
                resolved = "true" if value.value else "false"
            elif isinstance(value, Size) and resolved not in ("true", "false"):
                resolved = str(value) if value.constant is not None else f"?{value}"
        given.append(resolved)
    return tuple(given)


def bind_argument(run: Execution, name: str, given: str) -> None:
    """Let a template parameter stand for its argument in the innermost scope."""
    if given.lstrip("-").isdigit():
        run.declare(name, number(int(given)))
    else:
        run.scopes[-1][name] = type_of(run, given) if given != name else given


# ---- members of classes: constants such as `Traits<128, float>::kThreads`


def static_member(run: Execution, scope: str, name: str) -> Value | None:
    """Return the value of a constant of a class; None if the class or the constant is not known."""
    owner = resolved_type(run, scope)
    struct = run.program.structs.get(base_name(owner))
    member = next((one for one in struct.members if one.name == name), None) if struct is not None else None
    if member is None or member.default is None or run.depth > _MAX_DEPTH:
        return None
    run.depth += 1
    try:
        with _within(run, owner):
            return evaluate(run, member.default)
    finally:
        run.depth -= 1


def own_member(run: Execution, name: str) -> Value | None:
    """Return a constant of the class whose members are evaluated."""
    scope = lookup(run, CLASS)
    return static_member(run, scope, name) if isinstance(scope, str) else None


@contextmanager
def _within(run: Execution, owner: str) -> Iterator[None]:
    """Evaluate in a class: its template parameters have their arguments, and its members are visible."""
    struct = run.program.structs.get(base_name(owner))
    outer, run.scopes = run.scopes, [{CLASS: owner}]
    given = split_template(owner) if "<" in owner else []
    try:
        for index, parameter in enumerate(struct.template if struct is not None else ()):
            argument = given[index] if index < len(given) else parameter.default
            if argument.lstrip("-").isdigit():
                run.declare(parameter.name, number(int(argument)))
            elif argument in ("true", "false"):
                run.declare(parameter.name, number(int(argument == "true")))
            elif argument:
                run.scopes[-1][parameter.name] = argument
        yield
    finally:
        run.scopes = outer
