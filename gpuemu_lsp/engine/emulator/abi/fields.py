"""Declaration of the records that generated code and Python share: fields with a type, offsets computed.

A record is a subclass of :class:`Struct` whose body lists its fields in order::

    class Point(Struct):
        X = i32()
        Y = i32(count=32)
        NEXT = address()

Each declaration becomes a byte offset that still knows its type, so that ``Point.Y`` serves as an offset in address
arithmetic and as a type in :mod:`.field_access` (generated code) and :mod:`.records` (Python). Offsets are those of a C
structure: natural alignment, padding in front of a field where needed, the size a multiple of the alignment.
"""

from __future__ import annotations

from enum import Enum
from typing import Any, ClassVar


class FieldType(Enum):
    """Type of a field's elements."""

    I32 = "i32"
    U32 = "u32"
    I64 = "i64"
    ADDRESS = "address"
    BYTE = "byte"

    @property
    def size(self) -> int:
        """Size of one element in bytes."""
        return {"i32": 4, "u32": 4, "byte": 1}.get(self.value, 8)


class Field(int):
    """Byte offset of a field in its record, with the type and number of its elements."""

    type: FieldType
    count: int
    element_size: int
    align: int

    def __new__(cls, offset: int, type_: FieldType, count: int = 1, align: int = 0) -> Field:
        """Create the field at ``offset``; ``align`` defaults to the natural alignment of its elements."""
        field = super().__new__(cls, offset)
        field.type, field.count, field.element_size = type_, count, type_.size
        field.align = align or type_.size
        return field

    @property
    def size(self) -> int:
        """Size of the whole field in bytes."""
        return self.element_size * self.count

    def element(self, index: int) -> Field:
        """Return the elements from ``index`` on as a field."""
        return Field(self + index * self.element_size, self.type, self.count - index)


def i32(count: int = 1, align: int = 0) -> Field:
    """Declare signed 32-bit integers."""
    return Field(0, FieldType.I32, count, align)


def u32(count: int = 1) -> Field:
    """Declare unsigned 32-bit integers: lane masks. Generated code does not distinguish them from signed ones."""
    return Field(0, FieldType.U32, count)


def i64(count: int = 1) -> Field:
    """Declare signed 64-bit integers."""
    return Field(0, FieldType.I64, count)


def address() -> Field:
    """Declare an address in this process; generated code may load it as a pointer or as an integer."""
    return Field(0, FieldType.ADDRESS)


def opaque(size: int, align: int = 8) -> Field:
    """Declare ``size`` bytes whose type depends on the access, such as register values of any width."""
    return Field(0, FieldType.BYTE, size, align)


class Struct:
    """A record; subclasses declare fields and get their offsets. ``align`` is the minimum alignment of the record."""

    SIZE: ClassVar[int]
    FIELDS: ClassVar[dict[str, Field]]

    def __init_subclass__(cls, align: int = 1, **options: Any) -> None:
        super().__init_subclass__(**options)
        cls.FIELDS = {}
        end = 0
        for name, declared in list(vars(cls).items()):
            if isinstance(declared, Field):
                start = -(-end // declared.align) * declared.align
                field = Field(start, declared.type, declared.count, declared.align)
                setattr(cls, name, field)
                cls.FIELDS[name] = field
                end = start + field.size
                align = max(align, field.align)
        cls.SIZE = -(-end // align) * align
