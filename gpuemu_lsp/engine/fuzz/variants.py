"""Variants of a Triton kernel: cases whose compile-time values and compiler options are equal have one.

Each variant is compiled and translated. ``BLOCK = next_pow2(cols)`` has one per power of two, so that sixteen drawn
cases have up to eleven. On a save that is too many, and :class:`VariantLimit` says how many there may be. The sizes
that decide the variant are then moved, in the other cases, to sizes of a variant that is compiled anyway: its smallest
and largest one, those next to them and some between, most of which are not multiples of a block.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass

from gpuemu_lsp.engine.fuzz.rng import Rng
from gpuemu_lsp.engine.fuzz.size_classes import DimSizes
from gpuemu_lsp.engine.plan.model import Plan, ScalarArg
from gpuemu_lsp.engine.project.expressions import Call, Expression, ExpressionError, Name, evaluate, names, parse

Variant = tuple[int | None, ...]

MEDIUM, SMALL = 2, 0
"""Numbers of the cases of ``quick`` whose sizes are medium and small: their variants are the first two."""
DRAWN = 16
"""Drawn cases whose variants are compared."""
_FEW = 2
"""A compile-time value with at most so many values is a flag, each value of which is another path in the kernel."""


@dataclass(frozen=True, slots=True)
class _Anchor:
    """A variant, and sizes that have it."""

    variant: Variant
    dims: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class Variants:
    """The variants that the cases of a plan may have; ``fixed`` are dims with one value."""

    sizes: tuple[DimSizes, ...]
    fixed: Mapping[str, int]
    expressions: tuple[Expression, ...]
    flags: tuple[bool, ...] = ()
    anchors: tuple[_Anchor, ...] = ()

    @property
    def deciding(self) -> frozenset[str]:
        """The dims that decide the variant."""
        return frozenset(name for expression in self.expressions for name in names(expression))

    def variant(self, dims: Mapping[str, int]) -> Variant:
        """Return the variant of a case; None for a value that its sizes alone do not determine."""
        return tuple(_value(expression, dims) for expression in self.expressions)

    def moved(self, dims: Mapping[str, int], wanted: Mapping[str, int], rng: Rng) -> dict[str, int]:
        """Return sizes with one of the variants; those in ``wanted`` are kept, and may have one of their own."""
        own = {**dims, **self.fixed}
        kept = {name: value for name, value in wanted.items() if name in self.deciding}
        if not kept and self.variant(own) in {anchor.variant for anchor in self.anchors}:
            return own
        anchor = self.anchors[0] if kept else min(self.anchors, key=lambda one: self._distance(one, own))
        moved = {**own, **{name: anchor.dims[name] for name in self.deciding}, **kept}
        target = self.variant(moved)
        for dim in self.sizes:
            name = dim.spec.name
            if name not in self.deciding or name in kept or name in self.fixed:
                continue
            values = tuple(dict.fromkeys(self._values(dim, moved, target)))
            others = {value for other, value in moved.items() if other != name}
            fresh = [value for value in values if value not in others]
            moved[name] = rng.derive(name).choice(fresh or values)
        return moved

    def _distance(self, anchor: _Anchor, dims: Mapping[str, int]) -> tuple[int, float]:
        """Return how far sizes are from a variant: first the flags that differ, then the ratios of sizes."""
        pairs = zip(self.flags, self.variant(dims), anchor.variant, strict=True)
        different = sum(flag and one != other for flag, one, other in pairs)
        return different, sum(abs(math.log2(dims[name] / anchor.dims[name])) for name in self.deciding)

    def _values(self, dim: DimSizes, dims: Mapping[str, int], target: Variant) -> Iterator[int]:
        """Yield values of a dim with which ``dims`` have the variant ``target``, at least the one they have."""
        here = dims[dim.spec.name]
        yield here
        if dim.spec.choices:
            tried: Iterable[int] = dim.spec.choices
        else:
            # Most compile-time values grow with a size, in steps. Where they do not, the bounds are just two sizes.
            low = self._bound(dim, dims, target, here, dim.low)
            high = self._bound(dim, dims, target, here, dim.high)
            tried = (low, low + 1, (low + high) // 2 | 1, (low + 3 * high) // 4, high - 1, high)
        for value in map(dim.nearest, tried):
            if self.variant({**dims, dim.spec.name: value}) == target:
                yield value

    def _bound(self, dim: DimSizes, dims: Mapping[str, int], target: Variant, inside: int, outside: int) -> int:
        """Return the value of a dim nearest to ``outside`` that has the variant of ``inside``, by bisection."""
        if self.variant({**dims, dim.spec.name: outside}) == target:
            return outside
        while abs(outside - inside) > 1:
            middle = (inside + outside) // 2
            if self.variant({**dims, dim.spec.name: middle}) == target:
                inside = middle
            else:
                outside = middle
        return inside


def variants_of(
    plan: Plan, sizes: tuple[DimSizes, ...], draw: Callable[[int, Mapping[str, int]], Mapping[str, int]]
) -> Variants | None:
    """Return the variants that a limit allows; None without a limit, and if all cases have one variant.

    ``draw`` returns the sizes of a drawn case by its number, with those of some dims given.
    """
    limit = None if plan.triton is None else plan.triton.limit
    if limit is None:
        return None
    known = {dim.spec.name for dim in sizes}
    expressions = tuple(one for one in _compile_time(plan) if names(one) and names(one) <= known)
    if not expressions:
        return None
    found = Variants(sizes, limit.fixed, expressions)
    drawn = {index: draw(index, limit.fixed) for index in dict.fromkeys((MEDIUM, SMALL, *range(DRAWN)))}
    keys = {index: found.variant(dims) for index, dims in drawn.items()}
    columns = list(zip(*keys.values(), strict=True))
    listed = {dim.spec.name for dim in sizes if dim.spec.choices}
    flags = tuple(
        len(set(column)) <= _FEW or _selects(expression) in listed
        for expression, column in zip(expressions, columns, strict=True)
    )
    anchors: dict[Variant, Mapping[str, int]] = {}
    for index in (MEDIUM, SMALL)[: limit.most]:
        anchors.setdefault(keys[index], drawn[index])
    first = drawn[MEDIUM]
    for index, key in keys.items():
        for place, flag in enumerate(flags):
            if flag and key[place] not in {variant[place] for variant in anchors}:
                own = {name: drawn[index][name] for name in names(expressions[place])}
                dims = {**first, **own}
                anchors.setdefault(found.variant(dims), dims)
    return Variants(sizes, limit.fixed, expressions, flags, tuple(_Anchor(*pair) for pair in anchors.items()))


def has_variants(plan: Plan) -> bool:
    """Return whether sizes decide what Triton compiles in."""
    return any(names(expression) for expression in _compile_time(plan))


def variant_of(plan: Plan, dims: Mapping[str, int]) -> Variant:
    """Return the variant of a case of a Triton kernel: None for a value that its sizes alone do not determine."""
    return tuple(_value(expression, dims) for expression in _compile_time(plan))


def _compile_time(plan: Plan) -> Iterator[Expression]:
    """Yield what Triton compiles in, as expressions of the dims."""
    assert plan.triton is not None
    for arg in plan.args:
        if isinstance(arg, ScalarArg) and arg.constexpr and isinstance(arg.value, Expression):
            yield arg.value
    yield from (expression for _, expression in plan.triton.options)
    for name in (plan.triton.configuration, *(choice.dim for choice in plan.triton.choices)):
        if name is not None:
            yield parse(name)


def _selects(expression: Expression) -> str | None:
    """Return the dim of which the expression is the value, or by which it is one of a list of values."""
    root = expression.root
    if isinstance(root, Call) and root.function == "select":
        root = root.arguments[0]
    return root.name if isinstance(root, Name) else None


def _value(expression: Expression, dims: Mapping[str, int]) -> int | None:
    try:
        return evaluate(expression, dims)
    except ExpressionError:
        return None
