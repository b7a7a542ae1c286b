"""Declarations: variables, parameters and their initialisers (PTX section 5)."""

from __future__ import annotations

import re
import struct

from gpuemu_lsp.engine.ptx.model import Variable
from gpuemu_lsp.engine.ptx.operands import immediate, split

SPACES = frozenset({"global", "const", "shared", "local", "param"})
_SIZE = {"b8": 1, "u8": 1, "s8": 1, "pred": 1, "f16": 2, "bf16": 2, "f16x2": 4, "b128": 16}
_LINKAGE = frozenset({"visible", "extern", "weak", "common"})
_WORD = re.compile(r"\.(\w+(?:::\w+)?)\s*")
_ALIGN = re.compile(r"\.align\s+(\d+)\s*")
_NAME = re.compile(r"([A-Za-z_$%][\w$]*)\s*((?:\[\s*\d*\s*\]\s*)*)")


class DeclarationError(ValueError):
    """A declaration that cannot be read."""


def type_size(name: str) -> int:
    """Bytes of a fundamental type (PTX section 5.2.1)."""
    if name in _SIZE:
        return _SIZE[name]
    digits = name.lstrip("busf")
    if not digits.isdigit():
        raise DeclarationError(f"'.{name}' is no type")
    return int(digits) // 8


def variable(text: str, default_space: str = "") -> Variable:
    """Read ``.visible .global .align 4 .b8 name[16] = {1, 2}`` without its semicolon.

    Raises
    ------
    DeclarationError
        If it is none.
    """
    head, equals, value = text.partition("=")
    space, kind, alignment, vector, linkage = default_space, "", 0, 1, set()
    position = 0
    while True:
        head = head.strip() if position == 0 else head
        if found := _ALIGN.match(head, position):
            alignment = int(found[1])
        elif found := _WORD.match(head, position):
            word = found[1]
            if word in _LINKAGE:
                linkage.add(word)
            elif word.split("::")[0] in SPACES:
                space = word.split("::")[0]
            elif word in ("v2", "v4", "v8"):
                vector = int(word[1:])
            elif word not in ("ptr", "managed", "attribute", "unified"):
                kind = word
        else:
            break
        position = found.end()
    named = _NAME.match(head, position)
    if named is None:
        if text.strip().startswith(".param") and kind:  # an unnamed parameter of a prototype
            return Variable("_", space, kind, type_size(kind) * vector, alignment)
        raise DeclarationError(f"'{text.strip()[:60]}' declares nothing")
    if kind in ("texref", "samplerref", "surfref"):
        return Variable(named[1], space or "global", kind, 8, alignment)
    element = type_size(kind) * vector
    count, is_array = _count(named[2], value)
    init, relocations = _image(value, kind, element, count) if equals else (None, ())
    return Variable(named[1], space, kind, element * count, alignment, init, relocations, "extern" in linkage, is_array)


def _count(brackets: str, value: str) -> tuple[int, bool]:
    sizes = re.findall(r"\[\s*(\d*)\s*\]", brackets)
    if not sizes:
        return 1, False
    count = 1
    for size in sizes:
        count *= int(size) if size else (len(split(value.strip().strip("{}"))) if value else 0)
    return count, True


def _image(value: str, kind: str, element: int, count: int) -> tuple[bytes, tuple[tuple[int, str, int], ...]]:
    """Return the initial bytes, little-endian and padded with zeros, and the addresses in them."""
    items = [item for item in split(value.replace("{", " ").replace("}", " ").strip()) if item]
    image = bytearray(element * count)
    relocations = []
    size = type_size(kind)
    for index, item in enumerate(items):
        offset = index * size
        number = immediate(item)
        if number is None:
            symbol, addend, width = _symbol(item, size)
            relocations.append((offset, symbol, addend))
            size_here = width
        else:
            size_here = size
        if offset + size_here > len(image):
            raise DeclarationError("there are more initial values than elements")
        if number is not None:
            image[offset : offset + size] = _bytes(number.bits, number.kind, kind, size)
    return bytes(image), tuple(relocations)


def _bytes(bits: int, literal: str, kind: str, size: int) -> bytes:
    if literal == "int" and kind in ("f32", "f64"):
        return struct.pack("<f" if kind == "f32" else "<d", float(bits))
    if literal == "f64" and kind == "f32":
        (double,) = struct.unpack("<d", bits.to_bytes(8, "little"))
        return struct.pack("<f", double)
    return (bits & ((1 << (8 * size)) - 1)).to_bytes(size, "little")


def _symbol(item: str, size: int) -> tuple[str, int, int]:
    masked = re.fullmatch(r"(0[xX][0-9a-fA-F]+)\s*\(\s*(.*?)\s*\)", item)
    if masked is not None and size == 1:
        raise DeclarationError(f"byte-wise addresses such as '{item}' are not understood")
    inner = re.fullmatch(r"generic\s*\(\s*(.*?)\s*\)(.*)", item)
    text = (inner[1] + inner[2] if inner else item).strip()
    found = re.fullmatch(r"([A-Za-z_$%][\w$]*)\s*(?:([+-])\s*(\d+))?", text)
    if found is None:
        raise DeclarationError(f"'{item}' is no initial value")
    addend = int(found[3] or 0) * (-1 if found[2] == "-" else 1)
    return found[1], addend, size
