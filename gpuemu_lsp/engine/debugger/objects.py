"""Typed objects at a moment: variables, arrays in memory, their elements and members, and how they are shown."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import prod
from typing import Any, Final

import numpy as np

from gpuemu_lsp.engine.debug.dwarf.model import Type
from gpuemu_lsp.engine.debug.explain import RecordedBlock
from gpuemu_lsp.engine.debug.variables import scalar
from gpuemu_lsp.engine.element_types import C_TYPE_OF
from gpuemu_lsp.engine.findings import Json

_MOST_SHOWN: Final = 8
"""Elements of an array in one line."""
NO_VALUE: Final = "no value yet"
NOT_RECORDED: Final = "no value since the begin of the recorded part"
OUTSIDE: Final = "outside of all arrays"
_CHARACTERS: Final = ("char", "signed char", "unsigned char")
_LETTERS: Final = {"f": "float", "i": "int", "u": "uint", "b": "bool"}


@dataclass(frozen=True, slots=True)
class Moment:
    """What a thread, by its linear number in the block, sees before a tick."""

    block: RecordedBlock
    thread: int
    tick: int

    def load(self, object_: Object) -> bytes | None:
        """Return the bytes of an object, None if some of them have no value."""
        if object_.data is not None or object_.address is None:
            return object_.data
        data, valid = self.block.accesses.memory(object_.address, object_.type.size, self.tick)
        return data if valid.all() else None

    def is_outside(self, object_: Object) -> bool:
        """Return whether an object is in memory that the launch does not have."""
        return object_.data is None and object_.address is not None and not self._has(object_.address)

    def _has(self, address: int) -> bool:
        return self.block.accesses.picture(address) is not None


@dataclass(frozen=True, slots=True)
class Object:
    """An object of a type: in memory at ``address``, or ``data`` that is not in memory. Neither: it has no value."""

    type: Type
    address: int | None = None
    data: bytes | None = None

    def part(self, type_: Type, offset: int) -> Object:
        """Return the part of a type at an offset in bytes."""
        if self.data is not None:
            return Object(type_, None, self.data[offset : offset + type_.size])
        return Object(type_, None if self.address is None else self.address + offset)

    @property
    def element(self) -> Type | None:
        """The type of an array's elements, themselves arrays where it has several dimensions; None for no array."""
        if self.type.kind != "array" or self.type.target is None:
            return None
        return array_of(self.type.target, self.type.counts[1:])

    @property
    def count(self) -> int:
        """Elements of an array, 0 of something else."""
        return self.type.counts[0] if self.type.kind == "array" and self.type.counts else 0

    def index(self, number: int) -> Object | None:
        """Return an element of an array, None if this is not an array."""
        element = self.element
        return None if element is None else self.part(element, number * element.size)

    def members(self) -> Iterator[tuple[str, Object]]:
        """Yield the members of a structure; those of base classes, which have no name, by the name of the class."""
        for name, offset, type_ in self.type.members:
            yield name or type_.name, self.part(type_, offset)


def array_of(element: Type, counts: tuple[int, ...]) -> Type:
    """Return the type of an array of some dimensions, the element's type itself without any."""
    if not counts:
        return element
    name = element.name + "".join(f"[{count}]" for count in counts)
    return Type("array", name, element.size * prod(counts), target=element, counts=counts)


def type_of_dtype(dtype: np.dtype[Any]) -> Type:
    """Return the type of an element of a buffer."""
    return Type("base", C_TYPE_OF.get(dtype.name, dtype.name), dtype.itemsize, _LETTERS.get(dtype.kind, "uint"))


def value_of(moment: Moment, object_: Object) -> Json:
    """Return the value of a scalar, None if it has none."""
    data = moment.load(object_)
    return None if data is None else scalar(object_.type, int.from_bytes(data[:8], "little"))


def shown(moment: Moment, object_: Object, depth: int = 2) -> str:
    """Return an object as text on one line: arrays and structures in braces, a pointer as what it points to."""
    type_ = object_.type
    if type_.kind == "array":
        if depth == 0:
            return type_.name
        parts = [object_.index(number) for number in range(min(object_.count, _MOST_SHOWN))]
        texts = [shown(moment, one, depth - 1) for one in parts if one is not None]
        more = ", ..." if object_.count > _MOST_SHOWN else ""
        return "{" + ", ".join(texts) + more + "}"
    value = value_of(moment, object_)
    if value is not None:
        letter = isinstance(value, int) and type_.name in _CHARACTERS and 32 <= value < 127
        return f"{value} '{chr(value)}'" if letter and isinstance(value, int) else text_of(value)
    if type_.kind == "struct" and depth > 0:
        return "{" + ", ".join(f"{name} = {shown(moment, one, depth - 1)}" for name, one in object_.members()) + "}"
    data = moment.load(object_)
    if data is None:
        if moment.is_outside(object_):
            return OUTSIDE
        return NO_VALUE if object_.address is not None or not moment.block.begins_late else NOT_RECORDED
    if type_.kind == "pointer":
        return pointer_text(moment, type_, int.from_bytes(data[:8], "little"))
    return f"0x{int.from_bytes(data, 'little'):0{2 * len(data)}x}"


def pointer_text(moment: Moment, type_: Type, address: int) -> str:
    """Return what an address points to, by the name of the element."""
    if moment.block.accesses.picture(address) is None:
        return f"{address:#x}"
    size = type_.target.size if type_.target is not None and type_.target.size else 1
    return f"&{moment.block.names.name(address, size)}"


def text_of(value: Json) -> str:
    """Return a scalar as text."""
    if isinstance(value, bool):
        return "true" if value else "false"
    return f"{value:.9g}" if isinstance(value, float) else str(value)
