"""Declaration of the records that this process exchanges with the program's runtime library, and their bytes.

A record is a class whose annotations are the types of its fields; it becomes a frozen dataclass::

    class Free(WireRecord):
        address: Address
        call: FreeCall
        stream: int

Its bytes are those of its fields, in order. ``int``, ``bool``, an enumeration, :data:`Signed` and :data:`Address` are a
64-bit word, ``float`` is a double and :data:`Size3` three words; a record is its fields; ``bytes``, ``str`` and
``tuple[T, ...]`` are the number of their bytes or elements, and these. All are little-endian. :class:`CallStack` is the
rest of a message. :mod:`.cpp` declares the same records for the library.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import IntEnum
from typing import (
    Annotated,
    Any,
    ClassVar,
    TypeAlias,
    TypeVar,
    dataclass_transform,
    get_args,
    get_origin,
    get_type_hints,
)

SIGNED = "signed"
ADDRESS = "address"

Signed: TypeAlias = Annotated[int, SIGNED]
"""An integer that may be negative."""

Address: TypeAlias = Annotated[int, ADDRESS]
"""An address in the program."""

Size3: TypeAlias = tuple[int, int, int]
"""Blocks of a grid or threads of a block, by dimension."""

R = TypeVar("R", bound="WireRecord")


class MessageError(Exception):
    """Bytes that the library does not send: the program has damaged its memory or uses the connection itself."""


class CallStack(bytes):
    """The calls of the program that have led to a message: the bytes of a :class:`SourceLine` and of :class:`Frame`."""

    __slots__ = ()


@dataclass_transform(frozen_default=True)
class WireRecord:
    """Base of the declared records."""

    def __init_subclass__(cls) -> None:
        dataclass(frozen=True)(cls)


class Frame(WireRecord):
    """A return address: an offset in bytes in a file of machine code, and the path of that file."""

    offset: int
    path: bytes


class SourceLine(WireRecord):
    """The innermost line of an interpreted language that calls a framework: its number, 0 for none, and its file."""

    number: int
    path: bytes


def decode(kind: type[R], body: bytes) -> R:
    """Return the record that has these bytes.

    Raises
    ------
    MessageError
        If no record of this kind has them.
    """
    record, end = _read(kind, body, 0)
    if end != len(body):
        raise MessageError(f"a message {kind.__name__} has {len(body)} bytes instead of {end}")
    return record


def encode(record: WireRecord) -> bytes:
    """Return the bytes of a record."""
    layout = _layout(type(record))
    values = iter(layout.flatten(record))
    return b"".join(
        part.pack(*(next(values) for _ in range(part.size // _WORD)))
        if isinstance(part, struct.Struct)
        else part.write(next(values))
        for part in layout.parts
    )


def calls_of(stack: CallStack) -> tuple[SourceLine, list[Frame]]:
    """Return the line of the interpreted language and the frames of a call stack, innermost call first.

    Raises
    ------
    MessageError
        If they cannot be read.
    """
    if not stack:
        return SourceLine(0, b""), []
    frames = list[Frame]()
    line, at = _read(SourceLine, stack, 0)
    while at < len(stack):
        frame, at = _read(Frame, stack, at)
        frames.append(frame)
    if any(b"\0" in path for path in (line.path, *(frame.path for frame in frames))):
        raise MessageError("a call stack names a file that cannot be")
    return line, frames


def field_types(kind: type[WireRecord]) -> dict[str, Any]:
    """Return the annotations of a record's fields, by name in order."""
    hints = get_type_hints(kind, include_extras=True)
    return {name: hint for name, hint in hints.items() if get_origin(hint) is not ClassVar}


_WORD = 8


@dataclass(frozen=True, slots=True)
class _Variable:
    """A part of variable size: functions that read it at an offset, and write it."""

    read: Callable[[bytes, int], tuple[Any, int]]
    write: Callable[[Any], bytes]


@dataclass(frozen=True, slots=True)
class _Layout:
    """The bytes of a type: words, as formats of :mod:`struct`, and parts of variable size.

    ``build`` makes a value of the values of the parts, ``flatten`` is its inverse.
    """

    parts: tuple[struct.Struct | _Variable, ...]
    build: Callable[[Iterator[Any]], Any]
    flatten: Callable[[Any], list[Any]]


def _read(kind: type[R], body: bytes, at: int) -> tuple[R, int]:
    """Return the record at an offset, and the offset of its end."""
    layout = _layout(kind)
    values: list[Any] = []
    try:
        for part in layout.parts:
            if isinstance(part, struct.Struct):
                values += part.unpack_from(body, at)
                at += part.size
            else:
                value, at = part.read(body, at)
                values.append(value)
        return layout.build(iter(values)), at
    except (struct.error, ValueError) as error:
        raise MessageError(f"a message {kind.__name__} cannot be read: {error}") from None


_layouts: dict[Any, _Layout] = {}


def _layout(kind: Any) -> _Layout:
    """Return the layout of a record or of another type of a field."""
    layout = _layouts.get(kind)
    if layout is None:
        layout = _layouts[kind] = _declared_layout(kind)
    return layout


def _declared_layout(kind: Any) -> _Layout:
    if get_origin(kind) is Annotated:
        return _word("q" if kind.__metadata__ == (SIGNED,) else "Q")
    if kind == Size3:
        return _Layout((struct.Struct("<QQQ"),), lambda values: (next(values), next(values), next(values)), list)
    if get_origin(kind) is tuple:
        return _elements(_layout(get_args(kind)[0]))
    if issubclass(kind, WireRecord):
        return _fields(kind)
    if kind is CallStack:
        return _variable(_Variable(lambda body, at: (CallStack(body[at:]), len(body)), bytes))
    if kind is bytes:
        return _variable(_Variable(_read_bytes, _write_bytes))
    if kind is str:
        return _Layout(
            (_Variable(_read_bytes, _write_bytes),),
            lambda values: next(values).decode("utf-8", "replace"),
            lambda value: [value.encode()],
        )
    if kind is int or kind is float:
        return _word("Q" if kind is int else "d")
    if kind is bool or issubclass(kind, IntEnum):
        return _Layout((struct.Struct("<Q"),), lambda values: kind(next(values)), lambda value: [value])
    raise TypeError(f"a field of a record cannot be {kind}")


def _word(code: str) -> _Layout:
    return _Layout((struct.Struct(f"<{code}"),), next, lambda value: [value])


def _variable(part: _Variable) -> _Layout:
    return _Layout((part,), next, lambda value: [value])


def _fields(kind: type[WireRecord]) -> _Layout:
    """Return the layout of a record: words of fields that follow each other are one part."""
    types = {name: _layout(hint) for name, hint in field_types(kind).items()}
    parts: list[struct.Struct | _Variable] = []
    for part in (part for layout in types.values() for part in layout.parts):
        if isinstance(part, struct.Struct) and parts and isinstance(parts[-1], struct.Struct):
            parts[-1] = struct.Struct(parts[-1].format + part.format[1:])
        else:
            parts.append(part)
    builds = [(name, layout.build) for name, layout in types.items()]

    def build(values: Iterator[Any]) -> Any:
        # What the constructor of a frozen class does, which sets one attribute after the other by a function.
        record = kind.__new__(kind)
        record.__dict__.update([(name, one(values)) for name, one in builds])
        return record

    def flatten(record: Any) -> list[Any]:
        return [value for name, layout in types.items() for value in layout.flatten(getattr(record, name))]

    return _Layout(tuple(parts), build, flatten)


def _elements(element: _Layout) -> _Layout:
    """Return the layout of elements, which have a fixed size."""
    (words,) = element.parts
    assert isinstance(words, struct.Struct)

    def read(body: bytes, at: int) -> tuple[Any, int]:
        content, end = _read_sized(body, at, words.size)
        return tuple(element.build(iter(values)) for values in words.iter_unpack(content)), end

    def write(value: Any) -> bytes:
        return struct.pack("<Q", len(value)) + b"".join(words.pack(*element.flatten(item)) for item in value)

    return _variable(_Variable(read, write))


def _read_sized(body: bytes, at: int, size: int) -> tuple[bytes, int]:
    """Return the bytes behind their number, in elements of ``size`` bytes, and the offset of their end."""
    (count,) = struct.unpack_from("<Q", body, at)
    start, end = at + _WORD, at + _WORD + count * size
    if end > len(body):
        raise ValueError(f"it ends before its {count} elements")
    return body[start:end], end


def _read_bytes(body: bytes, at: int) -> tuple[bytes, int]:
    return _read_sized(body, at, 1)


def _write_bytes(value: bytes) -> bytes:
    return struct.pack("<Q", len(value)) + value
