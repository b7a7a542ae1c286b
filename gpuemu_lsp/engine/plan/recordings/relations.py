"""How the sizes of recorded launches depend on each other, solved from the launches alone.

Candidates are the integer arguments. A length, a grid or an offset is an expression over them if that has its value in
every launch; the simplest that fits is taken. With one launch only those forms are tried whose agreement is not by
chance: a length that equals an argument, or the product of two, and a grid that covers one with whole blocks.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from gpuemu_lsp.engine.project.expressions import Expression, parse

_LEAST = 2
"""Smallest value of an argument that can be a size: 0 and 1 are flags, and equal too much."""
_MOST_PRODUCTS = 6
_FACTORS = (2, 4, 8, 16, 32, 64, 128, 256, 512, 1024)


@dataclass(frozen=True, slots=True)
class Relations:
    """The sizes of a group of launches.

    ``names`` maps each argument that is a size to its dim: arguments that are equal in all launches have one.
    ``solved`` is False if something that differs between the launches has no expression.
    """

    names: Mapping[str, str]
    expressions: Mapping[str, tuple[Expression, ...]]
    solved: bool


def relations(
    scalars: Mapping[str, Sequence[int]],
    lengths: Mapping[str, Sequence[int]],
    launch: Mapping[str, Sequence[int]],
    blocks: Sequence[tuple[int, int, int]],
) -> Relations:
    """Solve the sizes of some launches.

    Parameters
    ----------
    scalars
        Values of the integer arguments, one for each launch.
    lengths
        Elements of each tensor.
    launch
        Other quantities: ``grid.0``, ``shared``, ``offset:x``, ...
    blocks
        The block of each launch.
    """
    several = len(blocks) > 1
    names = _dims(scalars)
    values = {name: scalars[name] for name in dict.fromkeys(names.values())}
    widths = _widths(blocks)
    expressions: dict[str, tuple[Expression, ...]] = {}
    solved = True
    for key, wanted in (*lengths.items(), *launch.items()):
        length = key in lengths
        found = next(_fitting(wanted, values, widths, several, length, key), None)
        if found is None:
            solved = solved and len(set(wanted)) == 1
            found = (str(wanted[0]),)
        expressions[key] = tuple(map(parse, found))
    return Relations(names, expressions, solved)


def _dims(scalars: Mapping[str, Sequence[int]]) -> dict[str, str]:
    """Return the dim of each argument that can be a size."""
    first: dict[tuple[int, ...], str] = {}
    found = {}
    for name, values in scalars.items():
        if min(values) >= _LEAST:
            found[name] = first.setdefault(tuple(values), name)
    return found


def _widths(blocks: Sequence[tuple[int, int, int]]) -> list[int]:
    """Return the numbers of threads by which a grid may divide a size, if all launches have the same block."""
    if len(set(blocks)) != 1:
        return []
    x, y, z = blocks[0]
    return [one for one in dict.fromkeys((x, y, z, x * y, x * y * z)) if one > 1]


def _fitting(
    wanted: Sequence[int],
    values: Mapping[str, Sequence[int]],
    widths: Sequence[int],
    several: bool,
    length: bool,
    key: str,
) -> Iterator[tuple[str, ...]]:
    """Yield expressions that have the wanted values, the simplest first: several extents for a product."""
    if several and len(set(wanted)) == 1:
        yield (str(wanted[0]),)
        return
    if max(wanted) < _LEAST and not several:
        return
    items = list(values.items())
    products = [
        (one, other, [a * b for a, b in zip(first, second, strict=True)])
        for place, (one, first) in enumerate(items[:_MOST_PRODUCTS])
        for other, second in items[place:_MOST_PRODUCTS]
    ]
    if length or several:
        yield from ((name,) for name, value in items if [*value] == [*wanted])
        for one, other, value in products:
            if value == [*wanted]:
                yield (one, other) if length else (f"{one} * {other}",)
    if key.startswith("grid"):
        yield from _covering(wanted, items, products, widths)
        if not several:
            yield from ((name,) for name, value in items if [*value] == [*wanted])
    if several:
        yield from _scaled(wanted, [*items, *((f"{one} * {other}", value) for one, other, value in products)])


def _covering(
    wanted: Sequence[int],
    items: Sequence[tuple[str, Sequence[int]]],
    products: Sequence[tuple[str, str, Sequence[int]]],
    widths: Sequence[int],
) -> Iterator[tuple[str, ...]]:
    """Yield grids that cover a size with whole blocks, or with blocks that do several elements a thread."""
    sizes = [*items, *((f"{one} * {other}", value) for one, other, value in products)]
    for factor in (1, 2, 4, 8):
        for width in widths:
            for name, value in sizes:
                if all(-(-one // (width * factor)) == grid for one, grid in zip(value, wanted, strict=True)):
                    yield (f"ceil_div({name}, {width * factor})",)


def _scaled(wanted: Sequence[int], sizes: Sequence[tuple[str, Sequence[int]]]) -> Iterator[tuple[str, ...]]:
    """Yield multiples of a size, sums with a constant, and quotients by a power of two."""
    for name, value in sizes:
        if all(one % size == 0 for one, size in zip(wanted, value, strict=True)):
            ratios = {one // size for one, size in zip(wanted, value, strict=True)}
            if len(ratios) == 1:
                yield (f"{name} * {ratios.pop()}",)
    for name, value in sizes:
        sums = {one - size for one, size in zip(wanted, value, strict=True)}
        if len(sums) == 1:
            more = sums.pop()
            yield (f"{name} + {more}" if more > 0 else f"{name} - {-more}",)
    for divisor in _FACTORS:
        for name, value in sizes:
            if all(-(-size // divisor) == one for one, size in zip(wanted, value, strict=True)):
                yield (f"ceil_div({name}, {divisor})",)
