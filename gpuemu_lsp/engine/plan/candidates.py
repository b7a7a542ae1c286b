"""Candidate lengths of a buffer for the probe: products of sizes, constants of the file, and the number of blocks.

They are distinguished by running the kernel on "regular" sizes: distinct multiples of every tile that the launch
divides by, so that no partial tile is involved.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from gpuemu_lsp.engine.plan.model import Plan, PlanArg, ScalarArg
from gpuemu_lsp.engine.project.expressions import (
    Binary,
    Call,
    Expression,
    ExpressionError,
    constant,
    evaluate,
    names,
    parse,
    walk,
)
from gpuemu_lsp.engine.project.model import DimSpec
from gpuemu_lsp.engine.symbolic.expressions import expression_of, size_of
from gpuemu_lsp.engine.symbolic.size import TooComplexError

_MAX_ELEMENTS = 1_000_000
_MAX_CONSTANTS = 8
_FACTORS = (1, 2, 3, 4)
_MAX_FACTORS = 8
_MAX_TEXT = 300
"""Characters of a candidate that is the larger of others."""
_MAX_TILE = 2048
_MAX_WORK = 300_000
"""Limit of the threads of a launch, and of the product of all sizes, which is often the number of multiplications."""


@dataclass(frozen=True, slots=True)
class LengthCandidate:
    """A candidate for a buffer's length in elements.

    ``shape`` is the length to try and ``allocated`` the length that host code must have allocated: one element less
    where ``beyond``. ``factors`` is the number of sizes in the product, ``length`` its value on the sizes it was ranked
    for.
    """

    length: int
    shape: Expression
    allocated: Expression
    factors: int
    beyond: bool = False


def regular_sizes(plan: Plan) -> tuple[dict[str, int], dict[str, int]]:
    """Return two assignments of distinct multiples of the launch's tiles to the dims, in opposite orders."""
    base = 64
    while base > 2 and _work(plan, base) > _MAX_WORK:
        base //= 2
    # With a single block, one element per block could not be distinguished from one element.
    while base < _MAX_TILE and one_block(plan, _assignments(plan, base)[0]):
        if _work(plan, 2 * base) > _MAX_WORK:
            break
        base *= 2
    return _assignments(plan, base)


def _work(plan: Plan, base: int) -> int:
    """Return the product of the first sizes for ``base``, or the threads of the launch, whichever is larger."""
    sizes = _assignments(plan, base)[0]
    try:
        threads = math.prod(evaluate(expression, sizes) for expression in (*plan.grid, *plan.block))
    except ExpressionError:
        threads = 0
    return max(threads, math.prod(sizes.values()))


def one_block(plan: Plan, sizes: Mapping[str, int]) -> bool:
    """Whether the grid depends on the sizes and has a single block for these."""
    open_grid = [expression for expression in plan.grid if names(expression)]
    try:
        return bool(open_grid) and math.prod(evaluate(expression, sizes) for expression in open_grid) == 1
    except ExpressionError:
        return False


def _assignments(plan: Plan, base: int) -> tuple[dict[str, int], dict[str, int]]:
    tiles = grid_tiles(plan.grid)
    dims = plan.dims
    steps = [math.lcm(base, tiles.get(dim.name, 1), max(1, dim.multiple_of)) for dim in dims]
    first: dict[str, int] = {}
    second: dict[str, int] = {}
    for index, (dim, step) in enumerate(zip(dims, steps, strict=True)):
        # With a single block, the number of blocks could not be distinguished from the constant 1.
        least = 2 if step == tiles.get(dim.name) else 1
        # The largest one is larger than the largest of the first sizes: no product of them all has the same value.
        for sizes, times in ((first, index + least), (second, len(dims) - 1 - index + least + (index == 0))):
            while times * step in sizes.values():
                times += 1
            sizes[dim.name] = times * step
        _keep_bounds(dim, first, second)
    for sizes in (first, second):
        for whole, part in plan.facts.path.multiples:
            if whole in sizes and part in sizes:
                step = math.lcm(sizes[whole], sizes[part])
                others = {size for name, size in sizes.items() if name != whole}
                sizes[whole] = next(size for size in itertools.count(step, step) if size not in others)
    return first, second


def _keep_bounds(dim: DimSpec, first: dict[str, int], second: dict[str, int]) -> None:
    """Replace the sizes of a dim that are larger than it may be by the two largest ones that no other dim has."""
    if dim.maximum is None or max(first[dim.name], second[dim.name]) <= dim.maximum:
        return
    step = max(1, dim.multiple_of)
    others = {size for sizes in (first, second) for name, size in sizes.items() if name != dim.name}
    allowed = range(dim.maximum // step * step, max(dim.minimum or 1, 1) - 1, -step)
    largest = [size for size in allowed if size not in others][:2]
    if largest:
        first[dim.name], second[dim.name] = largest[0], largest[-1]


def candidates_for(
    plan: Plan, sizes: Mapping[str, int], constants: Sequence[int], *, ends: bool = False
) -> list[LengthCandidate]:
    """Return the candidates by their length on ``sizes``; simpler ones come first among those of the same length.

    ``ends``: the buffer may have one element more than a product, as row pointers have, whose last one is the end.
    """
    ranked: list[tuple[int, int, str, LengthCandidate]] = []
    for text, (complexity, factors) in _texts(plan, constants, sizes).items():
        expression = parse(text)
        try:
            length = evaluate(expression, sizes)
        except ExpressionError:
            continue
        if not 1 <= length <= _MAX_ELEMENTS:
            continue
        ranked.append((length, complexity, text, LengthCandidate(length, expression, expression, factors)))
        if factors and ends:
            length, expression = length + 1, parse(f"{text} + 1")
            ranked.append((length, complexity, text, LengthCandidate(length, expression, expression, factors)))
        if factors:
            one_more = parse(f"{expression} + 1")
            more = LengthCandidate(length + 1, one_more, expression, factors, beyond=True)
            ranked.append((length + 1, 1000 + complexity, text, more))
    ranked.sort(key=lambda item: item[:3])
    return [candidate for _, _, _, candidate in ranked]


def _texts(plan: Plan, constants: Sequence[int], sizes: Mapping[str, int]) -> dict[str, tuple[int, int]]:
    """Map each candidate's text to its complexity and the number of sizes in it."""
    dims = [dim.name for dim in plan.dims]
    found: dict[str, tuple[int, int]] = {"1": (1, 0)}
    products = dict(_products(dims))
    for text, (factor, count) in products.items():
        found[text] = (count * 10 + factor, count)
    for product, (factor, count) in products.items():
        if factor == 1:
            found[f"{product} // 2"] = (count * 10 + 6, 0)
    for name in dims:
        found[f"{name} * {name}"] = (19, 2)
    blocks = [str(expression) for expression in plan.grid if names(expression)]
    for text in blocks:
        found.setdefault(f"({text})", (41, 0))
        for name in dims:
            found.setdefault(f"({text}) * {name}", (51, 0))
    if len(plan.grid) > 1:
        found.setdefault(" * ".join(f"({expression})" for expression in plan.grid), (42, 0))
    fixed = [value for expression in plan.grid if (value := constant(expression)) is not None]
    for value in sorted({*fixed, *constants})[:_MAX_CONSTANTS]:
        if 2 <= value <= _MAX_ELEMENTS:
            found.setdefault(str(value), (45, 0))
            for name in dims:
                found.setdefault(f"{value} * {name}", (55, 0))
    return _with_computed(found, plan, sizes)


def _products(factors: Sequence[str]) -> Iterator[tuple[str, tuple[int, int]]]:
    """Yield the products of some of the factors with a small number, that number, and how many they are."""
    for count in range(1, len(factors) + 1):
        for chosen in itertools.combinations(factors, count):
            product = " * ".join(chosen)
            for factor in _FACTORS:
                yield product if factor == 1 else f"{factor} * {product}", (factor, count)


def _with_computed(
    found: dict[str, tuple[int, int]], plan: Plan, sizes: Mapping[str, int]
) -> dict[str, tuple[int, int]]:
    """Return the candidates with products of the sizes that the program computes from others, such as ``n // 2``.

    On regular sizes nothing is rounded, so that ``n`` and twice ``n // 2`` are equal, and which of them is a length
    does not show: it is the larger one.
    """
    dims = {dim.name for dim in plan.dims}
    computed = {f"({value})" for value in map(computed_size, plan.args) if value is not None}
    if not computed or len(dims) + len(computed) > _MAX_FACTORS:
        return found
    lengths = {text: _value(text, sizes) for text in found}
    for text, (factor, count) in _products([*sorted(dims), *sorted(computed)]):
        length = _value(text, sizes)
        if length is None or not any(one in text for one in computed):
            continue
        equal = [other for other, value in lengths.items() if value == length]
        for other in equal:
            larger = _larger(other, text)
            found[larger], lengths[larger] = found.pop(other), lengths.pop(other)
        if not equal:
            found[text], lengths[text] = (count * 10 + factor, count), length
    return found


def _larger(first: str, second: str) -> str:
    """Return the larger of two lengths; the first if that would be a long expression, as of many sizes."""
    text = f"max({first}, {second})"
    if len(text) > _MAX_TEXT:
        return first
    try:
        return str(expression_of(size_of(parse(text), 1)))
    except TooComplexError:
        return text


def computed_size(arg: PlanArg) -> Expression | None:
    """Return the value of a scalar that is computed from sizes, None if it is one itself."""
    value = arg.value if isinstance(arg, ScalarArg) else None
    return value if isinstance(value, Expression) and names(value) and str(value) not in names(value) else None


def _value(text: str, sizes: Mapping[str, int]) -> int | None:
    try:
        return evaluate(parse(text), sizes)
    except ExpressionError:
        return None


def grid_tiles(grid: Sequence[Expression]) -> dict[str, int]:
    """Return the number that the grid divides each size by, rounding up or down."""
    tiles: dict[str, int] = {}
    for expression in grid:
        for node in walk(expression):
            if isinstance(node, Call) and node.function == "ceil_div":
                left, right = node.arguments
            elif isinstance(node, Binary) and node.operator == "//":
                left, right = node.left, node.right
            else:
                continue
            tile = constant(Expression(right, ""))
            sizes = names(Expression(left, ""))
            if tile is None or not 1 < tile <= _MAX_TILE or len(sizes) > 1:
                continue  # regular sizes make a product of several a multiple anyway
            for name in sizes:
                tiles[name] = math.lcm(tiles.get(name, 1), tile)
    return {name: tile for name, tile in tiles.items() if tile <= _MAX_TILE}
