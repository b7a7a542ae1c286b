"""Sizes with which a program calls the function that launches a kernel, such as those of its tests."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import islice, product
from typing import TypeAlias

from tree_sitter import Node

from gpuemu_lsp.engine.hostcode.program import HostFunction
from gpuemu_lsp.engine.hostcode.values import FloatValue, Pointer, StringValue, Tensor, Value
from gpuemu_lsp.engine.project.model import DimSpec
from gpuemu_lsp.engine.source.python.syntax import call_arguments, text_of
from gpuemu_lsp.engine.symbolic.conditions import Condition
from gpuemu_lsp.engine.symbolic.size import ZERO, Size, number

_MAX_PARAMETRIZED = 16
_MAX_VALUES = 6
"""Values of one size that are tried."""

Call: TypeAlias = "tuple[HostFunction, Sequence[Value | None]]"
"""A call of a function of the module, with its arguments."""


def parametrized(function: Node) -> list[dict[str, Value]]:
    """Return the arguments that ``pytest.mark.parametrize`` gives a test; one empty set if there are none."""
    parent = function.parent
    axes: list[list[dict[str, Value]]] = []
    for decorator in parent.children if parent is not None and parent.type == "decorated_definition" else ():
        call = decorator.named_children[0] if decorator.type == "decorator" and decorator.named_children else None
        if call is None or call.type != "call":
            continue
        callee = text_of(call.child_by_field_name("function"))
        positional, _ = call_arguments(call)
        if callee.endswith("parametrize") and len(positional) >= 2:
            axes.append(_axis(text_of(positional[0]), text_of(positional[1])))
    combined = ({name: value for one in axis for name, value in one.items()} for axis in product(*axes))
    return list(islice(combined, _MAX_PARAMETRIZED))


def _axis(names_text: str, values_text: str) -> list[dict[str, Value]]:
    try:
        names, rows = ast.literal_eval(names_text), ast.literal_eval(values_text)
        labels = [one.strip() for one in names.split(",")] if isinstance(names, str) else list(names)
        found = []
        for row in rows:
            items = row if len(labels) > 1 else (row,)
            found.append({label: _value(item) for label, item in zip(labels, items, strict=True)})
    except (ValueError, SyntaxError, TypeError):
        return [{}]
    return found or [{}]


def _value(item: object) -> Value:
    if isinstance(item, int) and not isinstance(item, bool):
        return number(item)
    if isinstance(item, bool):
        return Condition(item)
    if isinstance(item, str):
        return StringValue(item)
    return FloatValue(value=item) if isinstance(item, float) else Pointer(None, ZERO)


def including(dim: DimSpec, values: Iterable[int]) -> DimSpec:
    """Return a dim whose values from calls are always tried, also those that are not multiples as the others are."""
    wanted = tuple(sorted(values))
    if dim.choices or not wanted:
        return dim
    if all(value % dim.multiple_of == 0 for value in wanted):
        return replace(dim, include=wanted)
    step = dim.multiple_of
    choices = tuple(sorted({*wanted, step, 2 * step, 3 * step, 4 * step}))
    return DimSpec(dim.name, choices[0], choices[-1], wanted, 1, choices)


def is_sampling(caller: str) -> bool:
    """Return whether a function by this name calls with a few sizes of many: a test, or a benchmark."""
    return caller.lower().lstrip("_").startswith(("test", "bench"))


def fixed_numbers(
    function: HostFunction, calls: Iterable[Call], origins: Mapping[str, frozenset[str]], largest: int
) -> dict[str, DimSpec]:
    """Return the dims that are a number which the function is given, and of which each call gives a constant.

    These are all the values that they have. ``origins`` is as for :func:`sizes_of_calls`.
    """
    own = [values for called, values in calls if called is function]
    position = {parameter.name: index for index, parameter in enumerate(function.body.parameters)}
    found = {}
    for dim, names in origins.items():
        index = position.get(next(iter(names)), len(position)) if len(names) == 1 else len(position)
        given = [values[index] if index < len(values) else None for values in own]
        constants = {one.constant if isinstance(one, Size) else None for one in given}
        known = sorted(one for one in constants if one is not None and 0 < one <= largest)
        if known and len(known) == len(constants) <= _MAX_VALUES:
            found[dim] = DimSpec(dim, known[0], known[-1], tuple(known), 1, tuple(known))
    return found


def sizes_of_calls(
    function: HostFunction, calls: Iterable[Call], dims: Mapping[str, frozenset[str]]
) -> dict[str, frozenset[int]]:
    """Return the values that calls of a function give to dims.

    ``dims`` has the names by which the function's own evaluation knows a dim: ``p_1`` is the second extent of its
    parameter ``p``, ``n`` a number that it is given.
    """
    found: dict[str, dict[int, None]] = {dim: {} for dim in dims}
    for called, values in calls:
        if called is not function:
            continue
        known: dict[str, int | None] = {}
        for parameter, value in zip(function.body.parameters, values, strict=False):
            if isinstance(value, Tensor):
                known |= {f"{parameter.name}_{axis}": size.constant for axis, size in enumerate(value.sizes or ())}
            elif isinstance(value, Size):
                known[parameter.name] = value.constant
        for dim, origins in dims.items():
            for origin in origins:
                value_known = known.get(origin)
                if value_known is not None and value_known > 0 and len(found[dim]) < _MAX_VALUES:
                    found[dim][value_known] = None
    return {dim: frozenset(values) for dim, values in found.items() if values}
