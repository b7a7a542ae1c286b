"""How the sizes of recorded launches depend on each other, solved from the launches alone.

Candidates are the integer arguments. A length, a grid or an offset is an expression over them if that has its value in
every launch; the simplest that fits is taken. With one launch only those forms are tried whose agreement is not by
chance: a length that equals an argument, or the product of two, and a grid that covers one with whole blocks.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from gpuemu_lsp.engine.project.expressions import Expression
from gpuemu_lsp.engine.symbolic.expressions import expression_of
from gpuemu_lsp.engine.symbolic.size import Size, ceil_div, number, symbol

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
        fitted = next(_fitting(wanted, values, widths, several, length, key), None)
        if fitted is None:
            solved = solved and len(set(wanted)) == 1
            fitted = (number(wanted[0]),)
        expressions[key] = tuple(map(expression_of, fitted))
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
) -> Iterator[tuple[Size, ...]]:
    """Yield sizes that have the wanted values, the simplest first: several extents for a product."""
    if several and len(set(wanted)) == 1:
        yield (number(wanted[0]),)
        return
    if max(wanted) < _LEAST and not several:
        return
    items = [(symbol(name, 1), value) for name, value in values.items()]
    products = [
        (one, other, [a * b for a, b in zip(first, second, strict=True)])
        for place, (one, first) in enumerate(items[:_MOST_PRODUCTS])
        for other, second in items[place:_MOST_PRODUCTS]
    ]
    sizes = [*items, *((one * other, value) for one, other, value in products)]
    if length or several:
        yield from ((size,) for size, value in items if [*value] == [*wanted])
        for one, other, value in products:
            if value == [*wanted]:
                yield (one, other) if length else (one * other,)
    if key.startswith("grid"):
        yield from _covering(wanted, sizes, widths)
        if not several:
            yield from ((size,) for size, value in items if [*value] == [*wanted])
    if several:
        yield from _scaled(wanted, sizes)


def _covering(
    wanted: Sequence[int], sizes: Sequence[tuple[Size, Sequence[int]]], widths: Sequence[int]
) -> Iterator[tuple[Size, ...]]:
    """Yield grids that cover a size with whole blocks, or with blocks that do several elements a thread."""
    for factor in (1, 2, 4, 8):
        for width in widths:
            yield from _rounded_up(wanted, sizes, width * factor)


def _rounded_up(
    wanted: Sequence[int], sizes: Sequence[tuple[Size, Sequence[int]]], divisor: int
) -> Iterator[tuple[Size, ...]]:
    """Yield the quotients by a number, rounded up, that have the wanted values."""
    for size, value in sizes:
        if all(-(-one // divisor) == quotient for one, quotient in zip(value, wanted, strict=True)):
            yield (ceil_div(size, number(divisor)),)


def _scaled(wanted: Sequence[int], sizes: Sequence[tuple[Size, Sequence[int]]]) -> Iterator[tuple[Size, ...]]:
    """Yield multiples of a size, sums with a constant, and quotients by a power of two."""
    for size, value in sizes:
        if all(one % each == 0 for one, each in zip(wanted, value, strict=True)):
            ratios = {one // each for one, each in zip(wanted, value, strict=True)}
            if len(ratios) == 1:
                yield (number(ratios.pop()) * size,)
    for size, value in sizes:
        sums = {one - each for one, each in zip(wanted, value, strict=True)}
        if len(sums) == 1:
            yield (size + number(sums.pop()),)
    for divisor in _FACTORS:
        yield from _rounded_up(wanted, sizes, divisor)
