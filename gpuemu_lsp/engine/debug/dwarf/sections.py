"""The debug sections of PTX as bytes: PTX writes them as text, with labels of the code in place of addresses.

There is no machine code, so there are no addresses. The *address* of a label is the number of its line in the PTX,
which every instruction has (``Instruction.text_line``): ranges and location lists then hold for instructions as they
are. The name of a variable in memory gets an address of its own above :data:`FIRST_SYMBOL`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

FIRST_SYMBOL: Final = 1 << 40
"""Lowest address of a variable; its 4 GiB are for offsets."""
SYMBOL_STRIDE: Final = 1 << 32

_SECTION = re.compile(r"\.section\s+(?P<name>\.debug_\w+)")
_CODE_LABEL = re.compile(r"^[ \t]*(?P<name>\$L[\w$]+):", re.MULTILINE)
_SECTION_LABEL = re.compile(r"(?P<name>[\w$.]+):$")
_DATA = re.compile(r"\.(?P<type>b8|b16|b32|b64)\s+(?P<items>.+)$")
_TERM = re.compile(r"(?P<sign>[+-]?)\s*(?P<word>[\w$.]+)")
_SIZES = {"b8": 1, "b16": 2, "b32": 4, "b64": 8}


@dataclass(frozen=True, slots=True)
class DebugSections:
    """Contents of the sections by name, and the variables in memory by their addresses."""

    contents: Mapping[str, bytes]
    symbols: Mapping[int, str]


def assembled(code: str, sections: str) -> DebugSections:
    """Return the sections of a module; ``code`` is its text, in whose lines labels lie.

    A label that the code does not have has the address 0: of a function that was cut out.
    """
    places: dict[str, int] = {}
    line, end = 0, 0
    for match in _CODE_LABEL.finditer(code):
        line += code.count("\n", end, match.start())
        end = match.start()
        places[match["name"]] = line
    rows = list(_rows(sections))
    sizes: dict[str, int] = {}
    for name, label, type_, items in rows:
        if label:
            places[label] = sizes.get(name, 0)
        sizes[name] = sizes.get(name, 0) + _SIZES.get(type_, 0) * len(items)
    addresses: dict[str, int] = {}
    contents: dict[str, bytearray] = {}
    for name, _, type_, items in rows:
        data = contents.setdefault(name, bytearray())
        for item in items:
            size = _SIZES[type_]
            value = _value(item, places, addresses) & ((1 << 8 * size) - 1)
            data += value.to_bytes(size, "little")
    symbols = {address: symbol for symbol, address in addresses.items()}
    return DebugSections({name: bytes(data) for name, data in contents.items()}, symbols)


def _rows(sections: str) -> Iterator[tuple[str, str, str, list[str]]]:
    """Yield, for each line, the section, the label or "", the type of the data or "", and its items."""
    name = ""
    for line in sections.split("\n"):
        text = line.partition("//")[0].strip()
        if section := _SECTION.match(text):
            name = section["name"]
        elif text == "}":
            name = ""
        elif name and (label := _SECTION_LABEL.match(text)):
            yield name, label["name"], "", []
        elif name and (data := _DATA.match(text)):
            yield name, "", data["type"], data["items"].split(",")


def _value(item: str, places: Mapping[str, int], addresses: dict[str, int]) -> int:
    """Return the value of a number, label, variable or section, or of a sum of them."""
    total = 0
    for term in _TERM.finditer(item):
        word = term["word"]
        if word[0].isdigit():
            value = int(word, 0)
        elif word in places:
            value = places[word]
        elif word.startswith((".", "$L")):
            value = 0  # the start of a section, or a label that was cut out
        else:
            value = addresses.setdefault(word, FIRST_SYMBOL + len(addresses) * SYMBOL_STRIDE)
        total += -value if term["sign"] == "-" else value
    return total
