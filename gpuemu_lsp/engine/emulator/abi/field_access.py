"""Access to the fields of a record from generated code, with the type that the record declares."""

from __future__ import annotations

from typing import Any, Final

from llvmlite import ir

from gpuemu_lsp.engine.emulator.abi.fields import Field, FieldType
from gpuemu_lsp.engine.emulator.llvm import ir_tools as t
from gpuemu_lsp.engine.emulator.llvm.ir_tools import I32, I64, POINTER, Value, i64

_TYPES: Final[dict[FieldType, Any]] = {
    FieldType.I32: I32,
    FieldType.U32: I32,
    FieldType.I64: I64,
    FieldType.ADDRESS: I64,
}


def field_type(field: Field, lanes: int = 1) -> Any:
    """Return the LLVM type of one element of a field, or of a vector of ``lanes`` elements.

    Raises
    ------
    TypeError
        If the field is opaque, or has fewer elements.
    """
    if field.type not in _TYPES or lanes > field.count:
        raise TypeError(f"{lanes} elements of a field of {field.count} x {field.type.name}")
    type_ = _TYPES[field.type]
    return type_ if lanes == 1 else ir.VectorType(type_, lanes)


def load_field(b: ir.IRBuilder, record: Value, field: Field) -> Value:
    """Load a field, or the first element of an array."""
    return t.load(b, record, field, field_type(field))


def load_pointer(b: ir.IRBuilder, record: Value, field: Field) -> Value:
    """Load an address as a pointer instead of as an integer."""
    if field.type is not FieldType.ADDRESS:
        raise TypeError(f"a field of type {field.type.name} is not an address")
    return t.load(b, record, field, POINTER)


def load_lanes(b: ir.IRBuilder, record: Value, field: Field, lanes: int) -> Value:
    """Load ``lanes`` elements of an array as a vector."""
    return t.load(b, record, field, field_type(field, lanes), align=field.element_size)


def element_offset(b: ir.IRBuilder, field: Field, index: Value) -> Value:
    """Return the byte offset of the element of an array that ``index``, an i32, selects at run time."""
    return b.add(i64(field), b.shl(b.zext(index, I64), i64(field.element_size.bit_length() - 1)))


def load_element(b: ir.IRBuilder, record: Value, field: Field, index: Value) -> Value:
    """Load the element of an array that ``index``, an i32, selects at run time."""
    return t.load(b, record, element_offset(b, field, index), field_type(field))


def store_field(b: ir.IRBuilder, value: Value, record: Value, field: Field) -> None:
    """Store a field, or the first element of an array. An address may be given as a pointer.

    Raises
    ------
    TypeError
        If the value's type is not the declared one.
    """
    is_pointer = value.type == POINTER and field.type is FieldType.ADDRESS
    if not is_pointer and value.type != field_type(field):
        raise TypeError(f"a value of type {value.type} for a field of type {field.type.name}")
    t.store(b, value, record, field)


def store_lanes(b: ir.IRBuilder, value: Value, record: Value, field: Field) -> None:
    """Store a vector to the first elements of an array."""
    if value.type != field_type(field, value.type.count):
        raise TypeError(f"a value of type {value.type} for a field of type {field.type.name}")
    t.store(b, value, record, field, align=field.element_size)
