"""Which sizes are worth trying: classes of sizes round what a launch is made of.

A kernel is wrong at its edges: one element more than a block, one column less than a tile, a single row, a size that
is no power of two. What "a block" and "a tile" are is read off the launch: the numbers in grid and block expressions,
the template arguments and the constants of the file.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace

from gpuemu_lsp.engine.fuzz.model import LaunchHints
from gpuemu_lsp.engine.fuzz.rng import Rng
from gpuemu_lsp.engine.plan.model import Plan
from gpuemu_lsp.engine.project.expressions import Expression, Number, constant, names, walk
from gpuemu_lsp.engine.project.model import DimSpec

DEFAULT_MAXIMUM = 1024
"""Upper end of a dim without bounds; without a minimum it starts at 1."""

KINDS = (
    "small",
    "ones",
    "ragged",
    "below",
    "warp",
    "even",
    "quads",
    "medium",
    "large",
    "full",
    "regular",
    "boundary",
    "default",
)
"""Every class of sizes by name."""

_MEDIUM_ALONE = (777, 1000, 610, 321)
_MOST_LAUNCHED = 200_000
_REGULAR = (128, 256, 512)
_FIXED = {
    "small": (3, 5, 7, 2),
    "medium": (97, 100, 130, 200, 250, 321),
    "warp": (33, 31, 65, 63, 32),
    "large": (1025, 1500, 2049, 1023, 3001),
    "boundary": (1, 2, 3, 7),
}


@dataclass(frozen=True, slots=True)
class Sizes:
    """One dim with its ends and the tile sizes that matter for it, most telling first.

    ``launched`` are the threads of a launch of fixed extent: only more elements than that need its loop. ``alone``
    says that no other dim varies, so that this one may be larger.
    """

    spec: DimSpec
    low: int
    high: int
    tiles: tuple[int, ...]
    launched: tuple[int, ...] = ()
    alone: bool = False

    @property
    def free(self) -> bool:
        """Whether there is anything to choose."""
        return self.low < self.high

    def nearest(self, wanted: int) -> int:
        """Return the allowed value closest to ``wanted``, the next larger one where a step is demanded."""
        if self.spec.choices:
            return min(self.spec.choices, key=lambda value: (abs(value - wanted), value))
        inside = min(max(wanted, self.low), self.high)
        step = self.spec.multiple_of
        if step <= 1:
            return inside
        up = -(-inside // step) * step
        return up if up <= self.high else max(self.high // step * step, self.low)

    def smaller(self, value: int) -> int:
        """Return an allowed value of about half the size, or the value itself where there is none below it."""
        if self.spec.choices:
            return max((choice for choice in self.spec.choices if choice < value), default=value)
        half = self.nearest(value // 2 | 1) if value > 2 else self.nearest(1)
        if half >= value:
            half = self.nearest(max(self.low, value - max(1, self.spec.multiple_of)))
        return min(half, value)

    def candidates(self, kind: str) -> tuple[int, ...]:
        """Return the values a class stands for, allowed ones only, without repetitions."""
        raw = self._raw(kind)
        return tuple(dict.fromkeys(self.nearest(value) for value in raw))

    def _raw(self, kind: str) -> tuple[int, ...]:
        tiles = self.tiles or (32,)
        main = tiles[0]
        if kind == "ragged":
            return (main + 1, 2 * main + 1, main + 3, *(tile + 1 for tile in tiles[1:3]))
        if kind == "below":
            return (main - 1, 2 * main - 1, *(tile - 1 for tile in tiles[1:2]))
        if kind == "even":  # a pair is left by who takes four at a time
            return (main + 2, 2 * main + 2, main - 2, *(tile + 2 for tile in tiles[1:3]), 66)
        if kind == "quads":  # fours are left by who takes a warp of them
            return (main + 4, 2 * main + 4, main - 4, *(tile + 4 for tile in tiles[1:3]), 36)
        if kind == "regular":
            whole = tuple(value for value in (main, 2 * main, 4 * main) if self.low <= value <= self.high)
            return (whole or _REGULAR) if self.free else (self.low,)
        if kind == "ones":
            return (self.low,)
        if kind == "full":  # all dims at once: a product of two sizes may leave a narrow type
            return (self.high,)
        if kind == "large":
            beyond = tuple(extent + main + 1 for extent in self.launched)
            top = (self.high,) if self.spec.maximum is not None and self.high < 4 * DEFAULT_MAXIMUM else ()
            return beyond or (*top, *(value for value in _FIXED["large"] if value <= self.high or not top))
        if kind == "default":
            every = (*_FIXED["boundary"], *_FIXED["warp"], *self._raw("ragged"), *self._raw("below"), main)
            return (*every, *_REGULAR, *_FIXED["medium"], *self.spec.include, self.low, self.high)
        return _MEDIUM_ALONE if kind == "medium" and self.alone else _FIXED[kind]


def describe(plan: Plan, hints: LaunchHints) -> tuple[Sizes, ...]:
    """Return every dim of a plan with what matters for it."""
    general = _general_tiles(plan, hints)
    launched = _fixed_extent(plan)
    found = tuple(_sizes(dim, plan, general, launched) for dim in plan.dims)
    return tuple(replace(dim, alone=True) for dim in found) if sum(dim.free for dim in found) == 1 else found


def draw(sizes: tuple[Sizes, ...], kind: str, rng: Rng, lead: int) -> dict[str, int]:
    """Draw one value per dim, different ones where possible: equal sizes hide swapped indices.

    ``lead`` is the index of the dim that stands in the light: in the classes ``large`` and ``ones`` only that one
    takes the extreme value, as all of them together would be unaffordable, or trivial.
    """
    drawn: dict[str, int] = {}
    for index, dim in enumerate(sizes):
        own = kind
        if index != lead and kind == "large":
            own = "small"
        elif index != lead and kind == "ones":
            own = "warp"
        every = dim.candidates(own)
        fresh = [value for value in every if value not in drawn.values()]
        drawn[dim.spec.name] = rng.derive(dim.spec.name).choice(fresh or every)
    return drawn


def _sizes(dim: DimSpec, plan: Plan, general: tuple[int, ...], launched: tuple[int, ...]) -> Sizes:
    low = dim.minimum if dim.minimum is not None else min((1, *dim.include, *dim.choices))
    beyond = (2 * extent for extent in launched)
    high = dim.maximum if dim.maximum is not None else max((DEFAULT_MAXIMUM, low, *dim.include, *beyond))
    own: list[int] = []
    for expression in (*plan.grid, *plan.block):
        if dim.name in names(expression):
            own += _numbers(expression)
    tiles = tuple(dict.fromkeys((*sorted(own, reverse=True), *general)))
    return Sizes(dim, low, high, tiles, tuple(extent for extent in launched if extent < high))


def _fixed_extent(plan: Plan) -> tuple[int, ...]:
    """Return the threads of a grid that does not depend on any size, where a case can exceed them."""
    grid, block = [constant(value) for value in plan.grid], [constant(value) for value in plan.block]
    if None in grid or None in block:
        return ()
    blocks = math.prod(value for value in grid if value)
    threads = blocks * math.prod(value for value in block if value)
    return (threads,) if blocks > 1 and threads <= _MOST_LAUNCHED else ()


def _general_tiles(plan: Plan, hints: LaunchHints) -> tuple[int, ...]:
    """Block sizes and other numbers of the launch that belong to no dim in particular, the block's x size first."""
    block = [value for value in map(constant, plan.block) if value is not None]
    found = [*block, *(value for expression in plan.block for value in _numbers(expression))]
    found += [int(text) for text in re.findall(r"\b\d+\b", _template_arguments(plan.entry))]
    found += sorted(hints.constants)
    return tuple(dict.fromkeys(value for value in found if _is_tile(value)))


def _template_arguments(entry: str) -> str:
    _, _, arguments = entry.partition("<")
    return arguments


def _numbers(expression: Expression) -> list[int]:
    return [node.value for node in walk(expression) if isinstance(node, Number) and _is_tile(node.value)]


def _is_tile(value: int) -> bool:
    """One less than a power of two is the rounding-up half of ``(n + 255) / 256``; sizes beyond 2048 are no tiles."""
    return 2 <= value <= 2048 and value & (value + 1) != 0


def override(sizes: tuple[Sizes, ...], dims: dict[str, int], values: Mapping[str, int]) -> dict[str, int]:
    """Return ``dims`` with some of them set, as far as each dim allows the value."""
    known = {dim.spec.name: dim for dim in sizes}
    return {**dims, **{name: known[name].nearest(value) for name, value in values.items() if name in known}}


def allows(spec: DimSpec, size: int) -> bool:
    """Say whether gpuemu.toml lets a dim have this size."""
    if size in spec.include:
        return True
    if spec.choices:
        return size in spec.choices
    low = spec.minimum is None or size >= spec.minimum
    high = spec.maximum is None or size <= spec.maximum
    return low and high and size % max(1, spec.multiple_of) == 0
