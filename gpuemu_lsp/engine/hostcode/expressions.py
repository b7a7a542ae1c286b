"""Expressions of host code, and the places that they stand for: variables, fields, and elements of memory."""

from __future__ import annotations

from gpuemu_lsp.engine.element_types import element_type
from gpuemu_lsp.engine.hostcode import ir
from gpuemu_lsp.engine.hostcode.arithmetic import promoted, truncated, truth, typed_real
from gpuemu_lsp.engine.hostcode.branches import choose
from gpuemu_lsp.engine.hostcode.cuda import COMPILED
from gpuemu_lsp.engine.hostcode.decisions import decided_condition
from gpuemu_lsp.engine.hostcode.functions import constructed
from gpuemu_lsp.engine.hostcode.interpreter import evaluate, evaluates
from gpuemu_lsp.engine.hostcode.places import element_place, place_of
from gpuemu_lsp.engine.hostcode.selections import element
from gpuemu_lsp.engine.hostcode.state import Execution
from gpuemu_lsp.engine.hostcode.tensor_methods import member_of_tensor, subscripted
from gpuemu_lsp.engine.hostcode.tensors import (
    DATA_TYPES,
    NO_TENSOR,
    OPTIONAL,
    items_of,
    listed,
    number_of,
    subscripted_size,
)
from gpuemu_lsp.engine.hostcode.types import (
    constant,
    is_integer_type,
    lookup,
    own_member,
    size_of,
    static_member,
    struct_size,
    template_arguments,
    type_of,
    typed,
)
from gpuemu_lsp.engine.hostcode.values import (
    BOUND_KERNEL,
    LAUNCH_ARGUMENTS,
    Choice,
    Closure,
    DataType,
    FloatValue,
    HostFunctionName,
    Lvalue,
    Pointer,
    Ranged,
    RecordValue,
    StringValue,
    Unknown,
    Value,
    pointee,
)
from gpuemu_lsp.engine.hostcode.walk import written
from gpuemu_lsp.engine.symbolic.conditions import Condition
from gpuemu_lsp.engine.symbolic.size import ONE, ZERO, Size, add, divide, multiply, number

_LIMITS = {
    "INT_MAX": (1 << 31) - 1, "RAND_MAX": (1 << 31) - 1, "UINT_MAX": (1 << 32) - 1, "warpSize": 32,
    "cudaSuccess": 0, "CUDA_SUCCESS": 0, "EXIT_SUCCESS": 0, "CHAR_BIT": 8, "UCHAR_MAX": 255,
    "cudaMemcpyHostToHost": 0, "cudaMemcpyHostToDevice": 1, "cudaMemcpyDeviceToHost": 2,
    "cudaMemcpyDeviceToDevice": 3, "cudaMemcpyDefault": 4,
}  # fmt: skip
_NAMED_ITEMS = {"values": "[0]", "indices": "[1]"}
"""Members of what functions such as ``torch.sort`` return, which are its items."""
_TYPE_SCOPES = {"torch": "torch", "triton::language": "triton", "cupy": "numpy", "numpy": "numpy"}
"""Modules with names of types of elements."""


# ---- constants and names


@evaluates(ir.Constant)
def _literal(run: Execution, node: ir.Constant) -> Value:
    match node.value:
        case bool():
            return Condition(node.value)
        case int():
            return number(node.value)
        case float():
            whole = number(int(node.value)) if node.value.is_integer() and abs(node.value) < 2**53 else None
            return FloatValue(whole, ONE if whole is not None else None, node.value, "float64")
        case str():
            return StringValue(node.value)
    return Pointer(None, ZERO)


@evaluates(ir.NameUse)
def _name(run: Execution, node: ir.NameUse) -> Value:
    name, base = node.name, node.base
    scope = name.rpartition("::")[0]
    if node.arguments is not None:
        return HostFunctionName(base, template_arguments(run, node.arguments))
    if "<" in scope:
        member = static_member(run, scope, base)
        return member if member is not None else Unknown()
    if name == "__name__":
        return StringValue("__main__")
    meaning = lookup(run, name)
    if isinstance(meaning, int):
        return Lvalue(meaning) if name == "this" else run.held(meaning)
    if isinstance(meaning, str):
        inner = run.program.expression(meaning)
        if inner is not None and element_type(meaning) is None and meaning != name:
            return evaluate(run, inner)
        return Unknown(meaning)
    if run.program.find(base) or base in run.program.kernels:
        return HostFunctionName(base)
    if base in _LIMITS:
        return number(_LIMITS[base])
    if base.startswith(("cudaDevAttr", "CU_DEVICE_ATTRIBUTE_")):
        return StringValue(base)
    value = constant(run, name) if name in run.program.constants else constant(run, base)
    if value is not None and not isinstance(value, Unknown):
        return value
    this = lookup(run, "this")
    record = run.held(this) if isinstance(this, int) else None
    if isinstance(record, RecordValue) and base in record.fields:
        return record.fields[base]
    member = static_member(run, scope, base) if scope else own_member(run, base)
    if member is None and scope in _TYPE_SCOPES and base in DATA_TYPES:
        return DataType(DATA_TYPES[base], _TYPE_SCOPES[scope])
    return member if member is not None else NO_TENSOR if base == "nullopt" else Unknown()


# ---- operators


@evaluates(ir.Conditional)
def _conditional(run: Execution, node: ir.Conditional) -> Value:
    condition = decided_condition(run, node.condition)
    if condition.value is not None:
        return evaluate(run, node.then if condition.value else node.other)
    yes, no = evaluate(run, node.then), evaluate(run, node.other)
    return choose(run, condition, yes, no, run.hint)


@evaluates(ir.CommaExpression)
def _comma(run: Execution, node: ir.CommaExpression) -> Value:
    value: Value = Unknown()
    for part in node.parts:
        value = evaluate(run, part)
    return value


@evaluates(ir.Spread)
def _spread(run: Execution, node: ir.Spread) -> Value:
    """Return a list whose items are others than those of the list around it; only that list knows them."""
    return evaluate(run, node.value)


@evaluates(ir.UnknownCode)
def _unknown(run: Execution, node: ir.UnknownCode) -> Value:
    for value in [evaluate(run, part) for part in node.parts]:
        if not node.harmless:
            run.escape(value)
    return Unknown()


# ---- types


@evaluates(ir.Cast)
def _cast(run: Execution, node: ir.Cast) -> Value:
    return cast(run, node.type, number_of(run, evaluate(run, node.value)))


def cast(run: Execution, name: str, value: Value) -> Value:
    """Return a value converted to a type by a cast."""
    name = type_of(run, name)
    if name.endswith("*"):
        if isinstance(value, Pointer):
            return typed(run, value, name[:-1].strip())
        return Pointer(None, ZERO) if isinstance(value, Size) and value.constant == 0 else value
    if name == "bool" and isinstance(value, Size):
        return truth(value)
    if is_integer_type(name):
        if isinstance(value, FloatValue):
            return truncated(value) or Unknown("int")
        return promoted(value)
    return typed_real(value, DATA_TYPES[name]) if name in ("float", "double", "half") else value


@evaluates(ir.SizeOf)
def _size_of(run: Execution, node: ir.SizeOf) -> Value:
    """Return the bytes of a type, or of the object that an expression stands for."""
    if node.value is None:
        return size_of(run, node.type) or Unknown("int")
    name = written(node.value)
    cell = lookup(run, name) if isinstance(node.value, ir.NameUse) else None
    if isinstance(cell, int):
        declared = run.types[cell - 1]
        known = size_of(run, declared) if declared not in ("", "auto") else None
        return known or _size_of_variable(run, name, run.held(cell))
    return size_of(run, _element_type(run, node.value) or name) or Unknown("int")


def _size_of_variable(run: Execution, name: str, value: Value) -> Value:
    if isinstance(value, Pointer) and value.allocation is not None:
        memory = run.memory(value.allocation)
        is_array = memory.name == name and memory.space == "host"
        return memory.size if is_array and memory.size is not None else number(8)
    if isinstance(value, RecordValue) and value.type in run.program.structs:
        return struct_size(run, value.type) or Unknown("int")
    return Unknown("int")


def _element_type(run: Execution, node: ir.Expression) -> str:
    """Return the type of ``*pointer`` or ``pointer[i]``; nothing for another expression."""
    if not isinstance(node, ir.Dereference | ir.Subscript):
        return ""
    value = evaluate(run, node.operand if isinstance(node, ir.Dereference) else node.base)
    if isinstance(value, RecordValue) and value.type == "vector":
        value = value.fields.get("data", value)
    return pointee(value)


@evaluates(ir.ListValue)
def _list(run: Execution, node: ir.ListValue) -> Value:
    values: list[Value] = []
    for item in node.items:
        if isinstance(item, ir.Spread):
            spread = items_of(run, evaluate(run, item.value))
            if spread is None or node.names:
                return Unknown()
            values += spread
        else:
            values.append(evaluate(run, item))
    if any(isinstance(item, ir.Spread) for item in node.items):
        return listed(values)
    if node.constructor and len(values) == 1:
        return values[0]
    return RecordValue("list", dict(zip(node.keys(), values, strict=True)))


@evaluates(ir.Construct)
def _construct(run: Execution, node: ir.Construct) -> Value:
    """Return the value of ``T{...}``."""
    name = type_of(run, node.type)
    new = constructed(run, name, node.value, run.hint)
    if new is not None:
        return new
    value = evaluate(run, node.value)
    fields = value.fields if isinstance(value, RecordValue) else {}
    single = len(fields) == 1 and "IntArrayRef" not in name
    return cast(run, name, next(iter(fields.values()))) if single else value


@evaluates(ir.LambdaValue)
def _lambda(run: Execution, node: ir.LambdaValue) -> Value:
    return Closure(node, tuple(run.scopes), run.frame.line)


# ---- places


@evaluates(ir.FieldAccess)
def _field(run: Execution, node: ir.FieldAccess) -> Value:
    base = evaluate(run, node.base)
    if node.arrow or isinstance(base, Lvalue):
        target = run.object_at(base)
        return run.get(Lvalue(target.cell, (*target.path, node.name))) if target is not None else Unknown()
    if isinstance(base, RecordValue) and node.name in base.fields:
        return base.fields[node.name]
    if isinstance(base, RecordValue) and _NAMED_ITEMS.get(node.name) in base.fields:
        return base.fields[_NAMED_ITEMS[node.name]]
    if isinstance(base, HostFunctionName) and node.name in COMPILED:
        return number(COMPILED[node.name])
    return member_of_tensor(run, base, node.name)


@evaluates(ir.Subscript)
def _subscript(run: Execution, node: ir.Subscript) -> Value:
    base, index = evaluate(run, node.base), evaluate(run, node.index)
    if isinstance(base, HostFunctionName) and base.name in run.program.kernels:
        return RecordValue(BOUND_KERNEL, {"kernel": base, "grid": index})
    item = subscripted(run, base, index) or subscripted_size(run, base, index)
    if item is not None:
        return item
    if isinstance(index, StringValue):
        return _of_key(run, base, index.text)
    place = element_place(run, node, base, index)
    if isinstance(place, Lvalue):
        return run.get(place)
    if isinstance(place, Pointer) and place.allocation is not None:
        _note_loaded(run, node, place, index)
        return _loaded(run, place, place.allocation)
    return element(base, index) if place is None else Unknown()


def _of_key(run: Execution, base: Value, key: str) -> Value:
    """Return the value of a key; of a parameter that a launch does not set, a symbol."""
    base = run.get(base) if isinstance(base, Lvalue) else base
    if not isinstance(base, RecordValue):
        return Unknown()
    return base.fields.get(key) or (run.passed(key) if base.type == LAUNCH_ARGUMENTS else Unknown())


def _note_loaded(run: Execution, node: ir.Subscript, place: Pointer, index: Value) -> None:
    """Note how much of an array a loop reads; an element with a number of its own says nothing of the others."""
    if isinstance(index, Size):
        return
    counts = isinstance(index, Ranged) and isinstance(node.index, ir.NameUse) and isinstance(node.base, ir.NameUse)
    element = number(place.element or 1)
    end = multiply(index.high, element) if counts and isinstance(index, Ranged) and place.element is not None else None
    run.reached.loaded.setdefault(place.allocation or 0, set()).add(end)


def _loaded(run: Execution, place: Pointer, allocation: int) -> Value:
    """Return the element of an array in memory."""
    memory = run.memory(allocation)
    if memory.name == "argv":
        return StringValue("")  # an argument of the program
    cell = run.object_cells.get(allocation)
    index = divide(place.offset, number(place.element or 1)).constant
    if cell is not None and index is not None:
        return run.get(Lvalue(cell, (f"[{index}]",)))
    low, high = memory.contents.low, memory.contents.high
    if low is None or high is None:
        return Unknown()
    return low if add(high, low, -1) == ONE else Ranged(low, high)


@evaluates(ir.AddressOf)
def _address(run: Execution, node: ir.AddressOf) -> Value:
    place = place_of(run, node.operand)
    if place is not None:
        return place
    value = evaluate(run, node.operand)
    return value if isinstance(value, HostFunctionName | Choice) else Unknown("pointer")


@evaluates(ir.Dereference)
def _pointed_to(run: Execution, node: ir.Dereference) -> Value:
    value = evaluate(run, node.operand)
    if isinstance(value, Lvalue):
        return run.get(value)
    if isinstance(value, RecordValue) and value.type == OPTIONAL:
        return value.fields.get("value", Unknown())
    return value if isinstance(value, HostFunctionName | Choice) else Unknown()
