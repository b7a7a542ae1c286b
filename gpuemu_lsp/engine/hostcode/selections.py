"""Functions that a program selects: elements of tables of kernels, and results of functions that return one."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TypeAlias, TypeVar

from gpuemu_lsp.engine.hostcode.values import (
    Choice,
    HostFunctionName,
    RecordValue,
    Unknown,
    Value,
)
from gpuemu_lsp.engine.symbolic.conditions import Condition, conjuncts
from gpuemu_lsp.engine.symbolic.size import Size, number

_MOST = 4
"""Elements of a table that stand for all of them."""

T = TypeVar("T")
Option: TypeAlias = tuple[Value, tuple[Condition, ...]]


def functions_of(value: Value) -> list[tuple[HostFunctionName, tuple[Condition, ...]]]:
    """Return the functions that a value may be, with conditions; none for other values."""
    options = [(one, given) for one, given in options_of(value) if isinstance(one, HostFunctionName)]
    # A few instances stand for all of a template, but no kernel for another one.
    names = dict.fromkeys(one.name for one, _ in options)
    return [each for name in names for each in _spread([one for one in options if one[0].name == name])]


def options_of(value: Value) -> tuple[Option, ...]:
    """Return the alternatives of a choice; a single one for other values."""
    return value.options if isinstance(value, Choice) else ((value, ()),)


def under(value: Value, conditions: Iterable[Condition]) -> Value:
    """Return a function as one that is selected under some conditions; other values unchanged."""
    if not isinstance(value, HostFunctionName | Choice):
        return value
    held = tuple(one for one in conjuncts(conditions) if one.left is not None)
    return Choice(tuple((one, (*given, *held)) for one, given in options_of(value))) if held else value


def joined_functions(one: Value, other: Value) -> Value:
    """Return the choice between two functions."""
    return Choice(tuple(dict.fromkeys((*options_of(one), *options_of(other)))))


def element(base: Value, index: Value) -> Value:
    """Return the element ``table[index]`` of a table of functions: one of several if the index is not known."""
    if not isinstance(base, RecordValue | Choice):
        return Unknown()
    options = _spread(list(_elements(options_of(base), index)))
    if len(options) == 1 and not options[0][1]:
        return options[0][0]
    return Choice(tuple(options)) if options else Unknown()


def _elements(tables: Iterable[Option], index: Value) -> Iterator[Option]:
    for table, given in tables:
        inner = table.fields.get("[0]") if isinstance(table, RecordValue) and len(table.fields) == 1 else None
        # The object of std::array has an array as its only member: std::array<F, 2> table = {{f, g}}.
        table = inner if isinstance(inner, RecordValue) else table
        for key, value in table.fields.items() if isinstance(table, RecordValue) else ():
            position = key.strip("[]")
            if not position.isdigit() or not isinstance(value, HostFunctionName | RecordValue | Choice):
                continue
            place = number(int(position))
            if not isinstance(index, Size):
                yield value, given
            elif index.constant is None:
                yield value, (*given, Condition(None, "==", index, place))
            elif index == place:
                yield value, given


def _spread(options: Sequence[T]) -> list[T]:
    """Return a few of the options, the first and the last among them."""
    last = len(options) - 1
    return list(options) if last < _MOST else [options[last * one // (_MOST - 1)] for one in range(_MOST)]
