"""Expressions of host code, and the places that they stand for: variables, fields, and elements of memory."""

from __future__ import annotations

from gpuemu_lsp.engine.element_types import element_type
from gpuemu_lsp.engine.hostcode import ir
from gpuemu_lsp.engine.hostcode.arithmetic import both, operate, promoted, real, reals, truth
from gpuemu_lsp.engine.hostcode.branches import choose
from gpuemu_lsp.engine.hostcode.functions import constructed
from gpuemu_lsp.engine.hostcode.interpreter import evaluate, evaluates
from gpuemu_lsp.engine.hostcode.places import element_place, place_of, store_member
from gpuemu_lsp.engine.hostcode.selections import element
from gpuemu_lsp.engine.hostcode.state import Execution, truncated
from gpuemu_lsp.engine.hostcode.tensors import (
    NO_TENSOR,
    OPTIONAL,
    compared_sizes,
    member_of_tensor,
    scaled_tensor,
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
    pointee,
)
from gpuemu_lsp.engine.hostcode.walk import written
from gpuemu_lsp.engine.symbolic.conditions import Condition, negated
from gpuemu_lsp.engine.symbolic.size import ONE, ZERO, Size, add, divide, multiply, number

_LIMITS = {
    "INT_MAX": (1 << 31) - 1, "RAND_MAX": (1 << 31) - 1, "UINT_MAX": (1 << 32) - 1, "warpSize": 32,
    "cudaSuccess": 0, "CUDA_SUCCESS": 0, "EXIT_SUCCESS": 0, "CHAR_BIT": 8, "UCHAR_MAX": 255,
    "cudaMemcpyHostToHost": 0, "cudaMemcpyHostToDevice": 1, "cudaMemcpyDeviceToHost": 2,
    "cudaMemcpyDeviceToDevice": 3, "cudaMemcpyDefault": 4,
}  # fmt: skip


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
            return FloatValue(whole, ONE if whole is not None else None, node.value)
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
    return member if member is not None else NO_TENSOR if base == "nullopt" else Unknown()


# ---- operators


@evaluates(ir.BinaryOperation)
def _binary(run: Execution, node: ir.BinaryOperation) -> Value:
    left, right = evaluate(run, node.left), evaluate(run, node.right)
    if node.operator == "&&":
        return both(truth(left), truth(right))
    if node.operator == "||":
        return negated(both(negated(truth(left)), negated(truth(right))))
    if node.operator in ("==", "!="):
        compared = compared_sizes(run, left, right)
        if compared is not None:
            return compared if node.operator == "==" else negated(compared)
    if isinstance(left, Tensor) or isinstance(right, Tensor):
        return scaled_tensor(run, left, right)
    if node.operator in ("+", "-", "*"):
        left, right = _as_integer(run, left), _as_integer(run, right)
    return operate(node.operator, left, right)


def _as_integer(run: Execution, value: Value) -> Value:
    """Return a condition that is not known as the integer it is converted to: `n / b + (n % b != 0)`."""
    unknown = isinstance(value, Condition) and value.value is None and value.operator
    return choose(run, value, ONE, ZERO, run.hint) if isinstance(value, Condition) and unknown else value


@evaluates(ir.UnaryOperation)
def _unary(run: Execution, node: ir.UnaryOperation) -> Value:
    value = evaluate(run, node.operand)
    if node.operator == "!":
        return negated(truth(value))
    value = promoted(value)
    match node.operator, value:
        case "-", Size():
            return multiply(value, number(-1))
        case "-", FloatValue():
            return reals("*", value, FloatValue(number(-1), ONE, -1.0))
        case "~", Size(constant=int(known)):
            return number(~known)
        case "+", _:
            return value
    return Unknown()


@evaluates(ir.Conditional)
def _conditional(run: Execution, node: ir.Conditional) -> Value:
    condition = truth(evaluate(run, node.condition))
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


@evaluates(ir.UnknownCode)
def _unknown(run: Execution, node: ir.UnknownCode) -> Value:
    for value in [evaluate(run, part) for part in node.parts]:
        if not node.harmless:
            run.escape(value)
    return Unknown()


# ---- types


@evaluates(ir.Cast)
def _cast(run: Execution, node: ir.Cast) -> Value:
    return cast(run, node.type, evaluate(run, node.value))


def cast(run: Execution, name: str, value: Value) -> Value:
    """Return a value converted to a type by a cast."""
    name = type_of(run, name)
    if name.endswith("*"):
        if isinstance(value, Pointer):
            return typed(run, value, name[:-1].strip())
        return Pointer(None, ZERO) if isinstance(value, Size) and value.constant == 0 else value
    if is_integer_type(name):
        if isinstance(value, FloatValue):
            return truncated(value) or Unknown("int")
        return promoted(value)
    if name in ("float", "double") and isinstance(value, Size):
        return real(value)
    return value


@evaluates(ir.SizeOf)
def _size_of(run: Execution, node: ir.SizeOf) -> Value:
    """Return the bytes of a type, or of the object that an expression stands for."""
    if node.value is None:
        return size_of(run, node.type) or Unknown("int")
    name = written(node.value)
    cell = lookup(run, name) if isinstance(node.value, ir.NameUse) else None
    if isinstance(cell, int):
        return _size_of_variable(run, name, run.held(cell))
    return size_of(run, _element_type(run, node.value) or name) or Unknown("int")


def _size_of_variable(run: Execution, name: str, value: Value) -> Value:
    if isinstance(value, Pointer) and value.allocation is not None:
        memory = run.memory(value.allocation)
        is_array = memory.name == name and memory.space == "host"
        return memory.size if is_array and memory.size is not None else number(8)
    if isinstance(value, RecordValue) and value.type in run.program.structs:
        return struct_size(run, value.type) or Unknown("int")
    return number(4) if isinstance(value, Size) else Unknown("int")


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
    values = [evaluate(run, item) for item in node.items]
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
    if node.arrow:
        target = run.object_at(base)
        return run.get(Lvalue(target.cell, (*target.path, node.name))) if target is not None else Unknown()
    if isinstance(base, RecordValue) and node.name in base.fields:
        return base.fields[node.name]
    return member_of_tensor(run, base, node.name)


@evaluates(ir.Subscript)
def _subscript(run: Execution, node: ir.Subscript) -> Value:
    base, index = evaluate(run, node.base), evaluate(run, node.index)
    size = subscripted_size(run, base, index)
    if size is not None:
        return size
    place = element_place(run, node, base, index)
    if isinstance(place, Lvalue):
        return run.get(place)
    if isinstance(place, Pointer) and place.allocation is not None:
        return _loaded(run, place, place.allocation)
    return element(base, index) if place is None else Unknown()


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


# ---- assignments


@evaluates(ir.Assign)
def _assign(run: Execution, node: ir.Assign) -> Value:
    name = written(node.target)
    outer, run.hint = run.hint, name if isinstance(node.target, ir.NameUse) else run.hint
    value = evaluate(run, node.value)
    place = place_of(run, node.target)
    before: Value = run.get(place) if isinstance(place, Lvalue) else Unknown()
    if node.operator:
        before = evaluate(run, node.target)
        if isinstance(before, Tensor):
            run.escape(before)  # its elements are changed, in place
        value = before if isinstance(before, Tensor) else operate(node.operator, before, value)
    elif isinstance(place, Lvalue):
        value = run.scaled(name, value, node.value)
    if isinstance(place, Lvalue):
        value = _converted(run, run.get(place), value, run.hint or name)
        run.assign(place, value)
    elif isinstance(place, Pointer):
        _store(run, place, value)
    elif isinstance(node.target, ir.Subscript | ir.UnknownCode):
        run.escape(evaluate(run, node.target.base if isinstance(node.target, ir.Subscript) else node.target))
    if isinstance(node.target, ir.FieldAccess):
        store_member(run, node.target)
    run.hint = outer
    return before if node.before else value


def _converted(run: Execution, before: Value, value: Value, name: str) -> Value:
    """Return the value that a variable has after an assignment, which keeps its type."""
    if isinstance(before, Size) or (isinstance(before, Unknown) and is_integer_type(before.type)):
        if isinstance(value, FloatValue):
            value = truncated(value) or Unknown("int")
        if isinstance(value, Unknown) and value.type != "exit":
            value = run.unknown(name, "computed")
    if isinstance(value, Pointer) and not value.type:
        value = typed(run, value, pointee(before))
    if isinstance(before, RecordValue) and before.type == "dim3" and isinstance(value, Size):
        value = RecordValue("dim3", {"x": value, "y": ONE, "z": ONE})
    return value


def _store(run: Execution, place: Pointer, value: Value) -> None:
    """Store a value to an element of memory; a pointer also in the object that stands for its elements."""
    run.store(place, value)
    if isinstance(value, Pointer | Lvalue | RecordValue) and place.allocation is not None:
        target = run.object_at(Pointer(place.allocation, ZERO))
        index = divide(place.offset, number(place.element or 1)).constant
        if target is not None and index is not None:
            run.assign(Lvalue(target.cell, (f"[{index}]",)), value)
