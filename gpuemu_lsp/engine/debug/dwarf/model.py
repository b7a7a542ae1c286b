"""Variables, their types and the scopes they belong to, as DWARF describes them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Type:
    """A type of the source language.

    ``kind`` is ``base``, ``pointer``, ``array``, ``struct``, ``enum`` or ``other``; ``size`` in bytes. ``encoding`` of
    a base type is ``bool``, ``float``, ``int`` or ``uint``. ``target`` is what a pointer points to, or an element of an
    array of the dimensions ``counts``. ``members`` are (name, offset, type), ``enumerators`` (name, value). ``bits`` of
    a bit-field are the place of its lowest bit and their number.
    """

    kind: str
    name: str
    size: int
    encoding: str = ""
    target: Type | None = None
    counts: tuple[int, ...] = ()
    members: tuple[tuple[str, int, Type], ...] = ()
    enumerators: tuple[tuple[str, int], ...] = ()
    bits: tuple[int, int] | None = None

    def number(self, data: int) -> int:
        """Return the number in the bits of an object: of a bit-field its own ones, with their sign."""
        first, count = self.bits or (0, 8 * self.size)
        value = data >> first & ((1 << count) - 1)
        return value - (1 << count) if self.encoding == "int" and value >> count - 1 else value


@dataclass(frozen=True, slots=True)
class Storage:
    """Where a value is: ``space`` is ``register`` or a state space, ``name`` a register or a variable of the PTX.

    ``offset`` is in bytes.
    """

    space: str
    name: str
    offset: int = 0


@dataclass(frozen=True, slots=True)
class SourceVariable:
    """A variable or parameter; ``storages`` are (first line, line behind the last, storage), lines of the PTX."""

    name: str
    type: Type
    storages: tuple[tuple[int, int, Storage], ...]
    is_parameter: bool = False

    def storage_at(self, line: int) -> Storage | None:
        """Return where the value is at a line of the PTX; None where it has none."""
        return next((storage for low, high, storage in self.storages if low <= line < high), None)


@dataclass(frozen=True, slots=True)
class Scope:
    """A function, an inlined call or a block of statements: lines ``low`` to ``high``, which is behind the last one.

    ``function`` is the name of the function that it is or is inlined from, "" for a block. ``call_file`` and
    ``call_line`` are the place of an inlined call, 0 for others.
    """

    function: str
    low: int
    high: int
    variables: tuple[SourceVariable, ...]
    inner: tuple[Scope, ...]
    call_file: int = 0
    call_line: int = 0

    def at(self, line: int) -> Iterator[Scope]:
        """Yield the scopes that contain a line, outermost first."""
        if self.low <= line < self.high:
            yield self
            for scope in self.inner:
                yield from scope.at(line)


def all_scopes(scopes: Iterable[Scope]) -> Iterator[Scope]:
    """Yield scopes and those inside of them."""
    for scope in scopes:
        yield scope
        yield from all_scopes(scope.inner)
