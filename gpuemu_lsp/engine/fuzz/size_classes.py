"""Size classes: candidate sizes near the block and tile sizes of a launch.

Kernels fail at boundaries: one element more than a block, one column less than a tile, a single row, a size that is not
a power of two. Block and tile sizes are the numbers in grid and block expressions, template arguments and constants of
the file.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from gpuemu_lsp.engine.fuzz.model import LaunchHints
from gpuemu_lsp.engine.fuzz.rng import Rng
from gpuemu_lsp.engine.plan.model import Plan, ScalarArg
from gpuemu_lsp.engine.project.expressions import Expression, Number, constant, names, walk
from gpuemu_lsp.engine.project.model import DimSpec

DEFAULT_MAXIMUM = 1024
"""Maximum of a dim that has none; its minimum is 1 by default."""

SIZE_CLASSES = (
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
"""Names of the size classes."""

_MEDIUM_ALONE = (777, 1000, 610, 321)
_MAX_FIXED_THREADS = 200_000
_REGULAR = (128, 256, 512)
_FIXED = {
    "small": (3, 5, 7, 2),
    "medium": (97, 100, 130, 200, 250, 321),
    "warp": (33, 31, 65, 63, 32),
    "large": (1025, 1500, 2049, 1023, 3001),
    "boundary": (1, 2, 3, 7),
}


@dataclass(frozen=True, slots=True)
class DimSizes:
    """One dim with its bounds and the tile sizes relevant for it, the most specific first.

    ``launched`` are the threads of a launch of fixed extent: only sizes above them execute its grid-stride loop twice.
    ``alone``: no other dim varies, so this one may be larger.
    """

    spec: DimSpec
    low: int
    high: int
    tiles: tuple[int, ...]
    launched: tuple[int, ...] = ()
    alone: bool = False

    @property
    def free(self) -> bool:
        """Whether the dim has more than one size."""
        return self.low < self.high

    def nearest(self, wanted: int) -> int:
        """Return the allowed value closest to ``wanted``; with ``multiple_of``, the next larger one."""
        if self.spec.choices:
            return min(self.spec.choices, key=lambda value: (abs(value - wanted), value))
        inside = min(max(wanted, self.low), self.high)
        step = self.spec.multiple_of
        if step <= 1:
            return inside
        up = -(-inside // step) * step
        return up if up <= self.high else max(self.high // step * step, self.low)

    def smaller(self, value: int) -> int:
        """Return an allowed value of about half the size, or the value itself if it is the smallest."""
        if self.spec.choices:
            return max((choice for choice in self.spec.choices if choice < value), default=value)
        half = self.nearest(value // 2 | 1) if value > 2 else self.nearest(1)
        if half >= value:
            half = self.nearest(max(self.low, value - max(1, self.spec.multiple_of)))
        return min(half, value)

    def candidates(self, name: str) -> tuple[int, ...]:
        """Return the allowed values of a size class, without repetitions."""
        raw = self._raw(name)
        return tuple(dict.fromkeys(self.nearest(value) for value in raw))

    def _raw(self, name: str) -> tuple[int, ...]:
        tiles = self.tiles or (32,)
        main = tiles[0]
        if name == "ragged":
            return (main + 1, 2 * main + 1, main + 3, *(tile + 1 for tile in tiles[1:3]))
        if name == "below":
            return (main - 1, 2 * main - 1, *(tile - 1 for tile in tiles[1:2]))
        if name == "even":  # a vectorised loop over four elements leaves two
            return (main + 2, 2 * main + 2, main - 2, *(tile + 2 for tile in tiles[1:3]), 66)
        if name == "quads":  # a loop over 32 vectors of four leaves some vectors
            return (main + 4, 2 * main + 4, main - 4, *(tile + 4 for tile in tiles[1:3]), 36)
        if name == "regular":
            whole = tuple(value for value in (main, 2 * main, 4 * main) if self.low <= value <= self.high)
            return (whole or _REGULAR) if self.free else (self.low,)
        if name == "ones":
            return (self.low,)
        if name == "full":  # all dims at once: a product of two sizes may overflow a narrow type
            return (self.high,)
        if name == "large":
            beyond = tuple(extent + main + 1 for extent in self.launched)
            top = (self.high,) if self.spec.maximum is not None and self.high < 4 * DEFAULT_MAXIMUM else ()
            return beyond or (*top, *(value for value in _FIXED["large"] if value <= self.high or not top))
        if name == "default":
            every = (*_FIXED["boundary"], *_FIXED["warp"], *self._raw("ragged"), *self._raw("below"), main)
            return (*every, *_REGULAR, *_FIXED["medium"], *self.spec.include, self.low, self.high)
        return _MEDIUM_ALONE if name == "medium" and self.alone else _FIXED[name]


def dim_sizes(plan: Plan, hints: LaunchHints) -> tuple[DimSizes, ...]:
    """Return the dims of a plan with their bounds and tile sizes."""
    general = _general_tiles(plan, hints)
    launched = _fixed_extent(plan)
    found = tuple(_sizes(dim, plan, general, launched) for dim in plan.dims)
    return tuple(replace(dim, alone=True) for dim in found) if sum(dim.free for dim in found) == 1 else found


def draw(
    sizes: tuple[DimSizes, ...], name: str, rng: Rng, lead: int, multiples: Iterable[tuple[str, str]] = ()
) -> dict[str, int]:
    """Draw one value per dim from a size class, distinct ones where possible: equal sizes hide swapped indices.

    ``lead`` is the index of the leading dim. In the classes ``large`` and ``ones`` only that one has the extreme value,
    because all of them together would be too large, or trivial. Of ``multiples`` the first size is a multiple of the
    second, where both may be.
    """
    drawn: dict[str, int] = {}
    for index, dim in enumerate(sizes):
        own = name
        if index != lead and name == "large":
            own = "small"
        elif index != lead and name == "ones":
            own = "warp"
        every = dim.candidates(own)
        fresh = [value for value in every if value not in drawn.values()]
        drawn[dim.spec.name] = rng.derive(dim.spec.name).choice(fresh or every)
    specs = {dim.spec.name: dim.spec for dim in sizes}
    for whole, part in multiples:
        if whole in specs and part in specs and drawn[whole] % drawn[part]:
            divisor, least = sorted((drawn[whole], drawn[part]))
            multiple = -(-least // divisor) * divisor
            if allows(specs[whole], multiple) and allows(specs[part], divisor):
                drawn[whole], drawn[part] = multiple, divisor
    return drawn


def _sizes(dim: DimSpec, plan: Plan, general: tuple[int, ...], launched: tuple[int, ...]) -> DimSizes:
    low = dim.minimum if dim.minimum is not None else min((1, *dim.include, *dim.choices))
    beyond = (2 * extent for extent in launched)
    high = dim.maximum if dim.maximum is not None else max((DEFAULT_MAXIMUM, low, *dim.include, *beyond))
    own: list[int] = []
    blocks = _block_constexprs(plan)
    for expression in (*plan.grid, *plan.block):
        if dim.name in (known := names(expression)):
            own += _numbers(expression)
            own += [size for name in known for size in blocks.get(name, ())]
    tiles = tuple(dict.fromkeys((*sorted(own, reverse=True), *general)))
    if plan.triton is not None:
        # A block of the next power of two, for instance, has one tile that no size exceeds.
        tiles = tuple(size for size in tiles if size < high)
    return DimSizes(dim, low, high, tiles, tuple(extent for extent in launched if extent < high))


def _fixed_extent(plan: Plan) -> tuple[int, ...]:
    """Return the threads of a launch that does not depend on any size, if a case can have more elements."""
    grid, block = [constant(value) for value in plan.grid], [constant(value) for value in plan.block]
    if None in grid or None in block:
        return ()
    blocks = math.prod(value for value in grid if value)
    threads = blocks * math.prod(value for value in block if value)
    return (threads,) if blocks > 1 and threads <= _MAX_FIXED_THREADS else ()


def _general_tiles(plan: Plan, hints: LaunchHints) -> tuple[int, ...]:
    """Return the block sizes and other constants that are not specific to a dim, the block's x size first."""
    if plan.triton is not None:
        # Threads are not elements: a program's blocks are as large as its compile-time values say. The largest one is
        # that of a loop over a row or over K, where others count groups and stages.
        return tuple(size for size in sorted(hints.constants, reverse=True) if _is_tile(size))
    block = [value for value in map(constant, plan.block) if value is not None]
    found = [*block, *(value for expression in plan.block for value in _numbers(expression))]
    found += [int(text) for text in re.findall(r"\b\d+\b", _template_arguments(plan.entry))]
    found += sorted(hints.constants)
    return tuple(dict.fromkeys(value for value in found if _is_tile(value)))


def _block_constexprs(plan: Plan) -> dict[str, list[int]]:
    """Return the numbers in the compile-time values of a Triton kernel, by name."""
    given = {arg.param: arg.value for arg in plan.args if isinstance(arg, ScalarArg) and arg.constexpr}
    return {name: _numbers(value) for name, value in given.items() if isinstance(value, Expression)}


def _template_arguments(entry: str) -> str:
    _, _, arguments = entry.partition("<")
    return arguments


def _numbers(expression: Expression) -> list[int]:
    return [node.value for node in walk(expression) if isinstance(node, Number) and _is_tile(node.value)]


def _is_tile(value: int) -> bool:
    """Whether a constant may be a tile size: at most 2048, and not the 255 of ``(n + 255) / 256``."""
    return 2 <= value <= 2048 and value & (value + 1) != 0


def override(sizes: tuple[DimSizes, ...], dims: dict[str, int], values: Mapping[str, int]) -> dict[str, int]:
    """Return ``dims`` with some of them set to the allowed value closest to the one given."""
    known = {dim.spec.name: dim for dim in sizes}
    return {**dims, **{name: known[name].nearest(value) for name, value in values.items() if name in known}}


def allows(spec: DimSpec, size: int) -> bool:
    """Whether gpuemu.toml allows a dim to have this size."""
    if size in spec.include:
        return True
    if spec.choices:
        return size in spec.choices
    low = spec.minimum is None or size >= spec.minimum
    high = spec.maximum is None or size <= spec.maximum
    return low and high and size % max(1, spec.multiple_of) == 0
