"""``[kernels.args]``: pointers with direction and shape, scalars, and the names in their expressions."""

from __future__ import annotations

import graphlib
from collections.abc import Iterator, Mapping
from typing import Any

from gpuemu_lsp.engine.project.check import flat_arguments
from gpuemu_lsp.engine.project.expressions import Attribute, Expression, Name, constant, walk
from gpuemu_lsp.engine.project.message_text import closest, did_you_mean, shorten
from gpuemu_lsp.engine.project.model import PointerSpec, ScalarSpec
from gpuemu_lsp.engine.project.reporter import Reporter
from gpuemu_lsp.engine.project.tree import Path
from gpuemu_lsp.engine.project.value_kinds import join

_DIRECTIONS = ("in", "out", "inout")
_POINTERS_ONLY = ("range", "dtype", "align", "compare", "strided", "may_alias")
_COMPARISONS = {True: "elements", False: "none"}


def build_args(
    checked: Mapping[str, Any], raw: Mapping[str, Any], path: Path, reporter: Reporter
) -> dict[str, PointerSpec | ScalarSpec]:
    """Build the arguments by dotted name. ``raw`` is the table as written: an invalid key is not also missing."""
    written = flat_arguments(raw, path)
    places = {name: place for name, (place, _) in written.items()}
    args: dict[str, PointerSpec | ScalarSpec] = {}
    for name, value in checked.items():
        if isinstance(value, dict):
            here, given = written[name]
            built = _from_table(name, value, given, here, reporter)
            if built is not None:
                args[name] = built
        else:
            args[name] = ScalarSpec(value)
    pointers = {name: spec for name, spec in args.items() if isinstance(spec, PointerSpec)}
    for name, spec in pointers.items():
        given = {other: value for other, (_, value) in written.items()}
        _check_alias(name, spec, given, pointers, (*places[name], "may_alias"), reporter)
    _check_cycles(pointers, places, reporter)
    return args


def arg_expressions(
    args: Mapping[str, PointerSpec | ScalarSpec], raw: Mapping[str, Any], path: Path
) -> Iterator[tuple[Path, Expression]]:
    """Yield the expressions of the arguments with their paths."""
    written = flat_arguments(raw, path)
    for name, spec in args.items():
        here, given = written[name]
        if isinstance(spec, PointerSpec):
            yield from _located(spec.shape, (*here, spec.direction))
            yield from _located(spec.range or (), (*here, "range"))
        elif isinstance(spec.value, Expression):
            yield (*here, "value") if isinstance(given, dict) else here, spec.value


def check_names(
    path: Path,
    expression: Expression,
    dims: Mapping[str, Any] | None,
    tensors: Mapping[str, PointerSpec | None] | None,
    reporter: Reporter,
) -> None:
    """Report unknown dims, and attributes of arguments that are not pointers. None: not known, so not checked."""
    text = str(expression)
    for node in walk(expression):
        if isinstance(node, Name) and dims is not None and node.name not in dims:
            known = f"Known: {join([f'`{dim}`' for dim in dims], 'and')}" if dims else "There are no dims"
            close = closest(node.name, dims)
            hint = did_you_mean(close) or f" {known}; add it to `[{path[0]}.dims]`."
            if path[0] == "ops" and text == node.name and not isinstance(path[-1], int):
                hint += " A text argument goes in `[ops.kwargs]`."
            message = f"Unknown dimension `{shorten(node.name)}`.{hint}"
            reporter.bad_part(path, text, (node.column, len(node.name)), message, close)
        elif isinstance(node, Attribute) and tensors is not None:
            _check_attribute(path, text, node, tensors, reporter)


def _check_attribute(
    path: Path, text: str, node: Attribute, tensors: Mapping[str, PointerSpec | None], reporter: Reporter
) -> None:
    if node.tensor not in tensors:
        close = closest(node.tensor, tensors)
        hint = did_you_mean(close) or f" Add it to `[{path[0]}.args]` with its shape."
        message = f"`{shorten(node.tensor)}` is not a pointer argument.{hint}"
        reporter.bad_part(path, text, (node.column, len(node.tensor)), message, close)
        return
    spec = tensors[node.tensor]
    if spec is not None and node.index is not None and node.index >= len(spec.shape):
        message = f"`{node.key}` is out of range: `{node.tensor}` has {len(spec.shape)} dimensions, numbered from 0."
        reporter.bad_part(path, text, (node.column, len(node.key)), message)


def _located(items: tuple[Expression | float, ...], path: Path) -> Iterator[tuple[Path, Expression]]:
    for index, item in enumerate(items):
        if isinstance(item, Expression):
            yield (*path, index), item


def _from_table(
    name: str, value: Mapping[str, Any], raw: Mapping[str, Any], path: Path, reporter: Reporter
) -> PointerSpec | ScalarSpec | None:
    roles = [role for role in (*_DIRECTIONS, "value") if role in raw]
    if not roles:
        reporter.bad_value(
            path, f'`{name}` has no direction; add `in`, `out` or `inout` with its shape, such as `in = ["n"]`.'
        )
        return None
    if len(roles) > 1:
        both = join([f"`{role}`" for role in roles], "and")
        extra = max(roles, key=lambda role: list(raw).index(role))
        hint = " A buffer that is read and written is `inout`." if "value" not in roles else ""
        reporter.bad_key((*path, extra), f"`{name}` has {both}; keep one of them.{hint}")
        return None
    role = roles[0]
    if role not in value:
        return None
    if role == "value":
        misplaced = [key for key in _POINTERS_ONLY if key in raw]
        for key in misplaced:
            reporter.bad_key((*path, key), f"`{key}` applies to pointers only, and `{name}` is a scalar; remove it.")
        return None if misplaced else ScalarSpec(value["value"], value.get("as"))
    if not (_range_fits(value.get("range"), path, reporter) and _align_fits(value.get("align"), path, reporter)):
        return None
    compare = value.get("compare", True)
    if role == "in" and "compare" in raw:
        reporter.bad_key((*path, "compare"), f"`compare` applies to outputs only, and `{name}` is an input; remove it.")
        return None
    return PointerSpec(
        direction=role,
        shape=value[role],
        key=value.get("as"),
        range=value.get("range"),
        dtype=value.get("dtype"),
        align=value.get("align"),
        strided=value.get("strided", False),
        may_alias=value.get("may_alias"),
        compare=_COMPARISONS.get(compare, compare),
    )


def _range_fits(bounds: tuple[Expression | float, Expression | float] | None, path: Path, reporter: Reporter) -> bool:
    if bounds is None:
        return True
    low, high = (constant(bound) if isinstance(bound, Expression) else bound for bound in bounds)
    if low is None or high is None or low <= high:
        return True
    reporter.bad_value((*path, "range"), f"Empty range: the lower bound {low} is above the upper bound {high}.")
    return False


def _align_fits(align: int | None, path: Path, reporter: Reporter) -> bool:
    if align is None or align & (align - 1) == 0:
        return True
    reporter.bad_value((*path, "align"), f"`align` is {align}; it must be a power of two, such as 4 or 16.")
    return False


def _check_alias(
    name: str,
    spec: PointerSpec,
    raw: Mapping[str, Any],
    pointers: Mapping[str, PointerSpec],
    path: Path,
    reporter: Reporter,
) -> None:
    other = spec.may_alias
    if other is None or (other != name and (other in pointers or isinstance(raw.get(other), dict))):
        return
    close = closest(other, [pointer for pointer in pointers if pointer != name]) if other != name else None
    message = f"`may_alias` must name another pointer argument, not `{shorten(other)}`.{did_you_mean(close)}"
    reporter.bad_value(path, message, suggestion=close)


def _check_cycles(pointers: Mapping[str, PointerSpec], places: Mapping[str, Path], reporter: Reporter) -> None:
    uses = {
        name: {node.tensor for size in spec.shape for node in walk(size) if isinstance(node, Attribute)}
        for name, spec in pointers.items()
    }
    try:
        graphlib.TopologicalSorter(uses).prepare()
    except graphlib.CycleError as error:
        cycle: list[str] = error.args[1]
        first = next((name for name in pointers if name in cycle), cycle[0])
        names = join([f"`{name}`" for name in sorted(set(cycle))], "and")
        place = (*places[first], pointers[first].direction)
        reporter.bad_value(place, f"The shape of {names} depends on itself; write one of them over dims.")
