"""Initial values of variables: byte image and relocations (PTX ISA section 5.4.4)."""

from __future__ import annotations

import re
import struct
from collections.abc import Iterator
from typing import TypeAlias

from gpuemu_lsp.engine.ptx.errors import UnlocatedSyntaxError, shown
from gpuemu_lsp.engine.ptx.literals import float_value, literal
from gpuemu_lsp.engine.ptx.model import Immediate
from gpuemu_lsp.engine.ptx.operands import split

Relocation: TypeAlias = tuple[int, str, int]

_LARGEST = 1 << 28
_POINTER_BYTES = 8
_PLAIN = re.compile(
    r"(?:generic\s*\(\s*([A-Za-z_$%][\w$]*)\s*\)|([A-Za-z_$%][\w$]*))\s*(?:([+-])\s*(\d{1,18}))?", re.ASCII
)
_MASKED = re.compile(r"(0[xX][fF]{2}(?:00){0,7})\s*\((.*)\)", re.ASCII | re.S)


def item_count(value: str) -> int:
    """Return the number of elements in the outermost brace list, the extent of ``x[] = {...}``."""
    value = value.strip()
    return sum(1 for part in split(_list(value)) if part.strip()) if value.startswith("{") else 1


def initial_image(
    value: str, kind: str, width: int, extents: tuple[int, ...], size: int
) -> tuple[bytes, tuple[Relocation, ...]]:
    """Return the image of a variable's initial value.

    Parameters
    ----------
    value
        The text after ``=``.
    kind, width
        Type of one element, and its size in bytes.
    extents
        Array extents, outermost first; empty for a scalar.
    size
        Size of the variable in bytes.

    Returns
    -------
    tuple
        The little-endian image, zero-padded to ``size``, and ``(byte offset, symbol, addend)`` of each relocation.

    Raises
    ------
    SyntaxProblem
        If a value does not fit or cannot be read.
    """
    if size > _LARGEST:
        raise UnlocatedSyntaxError(f"an initialised variable of {size} bytes exceeds the limit of {_LARGEST} bytes")
    image = bytearray(size)
    relocations: list[Relocation] = []
    masked: dict[int, tuple[int, str, int]] = {}
    for offset, item in _items(value.strip(), extents, width, 0):
        if offset + width > size:
            raise UnlocatedSyntaxError("more initial values than elements")
        number = literal(item)
        if number is not None:
            image[offset : offset + width] = _encoded(number, kind, width)
        elif match := _MASKED.fullmatch(item):
            masked[offset] = ((len(match[1]) - 4) // 2, *_symbol(match[2].strip()))
        elif width == _POINTER_BYTES:
            relocations.append((offset, *_symbol(item)))
        else:
            raise UnlocatedSyntaxError(f"expected a value of type .{kind}, found {shown(item)}")
    return bytes(image), (*relocations, *_assembled(masked, width))


def _items(value: str, extents: tuple[int, ...], width: int, start: int) -> Iterator[tuple[int, str]]:
    """Yield (byte offset, text) of each scalar; a nested list starts at its row."""
    if not value.startswith("{"):
        yield start, value
        return
    if not extents:
        raise UnlocatedSyntaxError("braces of an initial value are nested deeper than its array")
    row = width  # bytes of one element of this list
    for extent in extents[1:]:
        row *= extent
    place = start
    for part in split(_list(value)):
        item = part.strip()
        if item.startswith("{"):
            yield from _items(item, extents[1:], width, place)
            place += row
        elif item:
            yield place, item
            place += width


def _list(value: str) -> str:
    if not value.endswith("}") or len(value) < 2:
        raise UnlocatedSyntaxError(f"expected '}}' at the end of {shown(value)}")
    return value[1:-1]


def _encoded(number: Immediate, kind: str, width: int) -> bytes:
    if kind in ("f16", "f32", "f64") and number.kind != kind and not (kind == "f16" and number.kind == "int"):
        try:
            return struct.pack({"f16": "<e", "f32": "<f", "f64": "<d"}[kind], float_value(number))
        except OverflowError:
            raise UnlocatedSyntaxError(f"a value that .{kind} cannot hold") from None
    return (number.bits & ((1 << (8 * width)) - 1)).to_bytes(width, "little")


def _symbol(text: str) -> tuple[str, int]:
    match = _PLAIN.fullmatch(text)
    if match is None:
        raise UnlocatedSyntaxError(f"expected a constant or an address, found {shown(text)}")
    addend = int(match[4]) if match[4] else 0
    return match[1] or match[2], -addend if match[3] == "-" else addend


def _assembled(masked: dict[int, tuple[int, str, int]], width: int) -> Iterator[Relocation]:
    """Join the masked bytes ``0xFF(x), 0xFF00(x), ...`` of an address into one relocation."""
    if not masked:
        return
    if width != 1:
        raise UnlocatedSyntaxError("masked addresses need elements of one byte")
    for offset, (byte, symbol, addend) in masked.items():
        start = offset - byte
        whole = all(masked.get(start + index) == (index, symbol, addend) for index in range(_POINTER_BYTES))
        if not whole:
            raise UnlocatedSyntaxError(
                f"incomplete address of '{symbol}': expected its {_POINTER_BYTES} bytes in order"
            )
        if byte == 0:
            yield start, symbol, addend
