"""Strategies: the size class and value distribution of each case.

``quick`` is the default. Its first eight cases find nearly every bug that depends on shapes and values, so that a small
budget is enough on save; each of the next eight targets a kind of bug that those miss, and later ones iterate over all
combinations. The other names are those of the original.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType

from gpuemu_lsp.engine.fuzz.integers import SMALL_INTEGERS
from gpuemu_lsp.engine.fuzz.size_classes import SIZE_CLASSES
from gpuemu_lsp.engine.fuzz.values import DISTRIBUTIONS, SPECIAL_ROWS, SPECIAL_RUNS, SPECIAL_VALUES
from gpuemu_lsp.engine.recordings.cases import STRATEGY as RECORDED_LAUNCH

QUICK = "quick"

PLAIN, TIGHT = "plain", "tight"
"""Layouts simpler than those drawn: contiguous and aligned, or with the smallest gaps and offsets."""


@dataclass(frozen=True, slots=True)
class Recipe:
    """The size class, value distribution and layout of one case.

    ``lead`` is the number of earlier cases of the same size class; it rotates the leading dim. ``layout`` is empty for
    strides, offsets and aliases that are drawn as far as the arguments allow them, :data:`PLAIN` for contiguous and
    aligned tensors, or :data:`TIGHT` for the smallest gaps and offsets: of all tensors, or of some (``tight:x,y``)
    while the others are contiguous and aligned.
    """

    sizes: str
    values: str
    lead: int = 0
    layout: str = ""

    @property
    def name(self) -> str:
        """The recipe as a case key has it."""
        return f"{self.sizes}/{self.values}" + (f"/{self.layout}" if self.layout else "")

    @property
    def varied(self) -> frozenset[str] | None:
        """The tensors whose layout is drawn; None for all."""
        kind, _, names = self.layout.partition(":")
        return frozenset() if kind == PLAIN else frozenset(names.split(",")) if names else None

    @property
    def tight(self) -> bool:
        """Whether gaps and offsets are the smallest possible."""
        return self.layout.partition(":")[0] == TIGHT


_FIRST = (
    ("small", "uniform"),
    ("ragged", "uniform"),
    ("medium", "negative"),
    ("large", "uniform"),
    ("below", "mixed-rows"),
    ("ones", "ties"),
    ("regular", "large"),
    ("full", "small"),
)
"""The first eight cases of ``quick``; the fifth has small integers if the kernel is linear."""

_NEXT = (
    ("ragged", "negative"),
    ("even", "ties"),  # a vectorised loop over four elements leaves two; equal values far apart
    ("large", "one-hot"),
    ("quads", "constant"),  # whole vectors of four, but not whole warps of them; all indices equal
    ("below", "moderate"),
    ("boundary", "sorted"),
    ("medium", "magnitudes"),
    ("warp", "rising"),  # a running maximum changes until the last element
)
"""The next eight."""

_WIDE_SLOT = 3
"""For half-precision data, this case has values whose sums of squares overflow."""

_EXACT_SLOT = 4
"""For linear kernels, this case has small integers."""

NO_SLOTS: Mapping[int, str] = MappingProxyType({})
SPECIAL_SLOTS: Mapping[int, str] = MappingProxyType({8: SPECIAL_ROWS, 12: SPECIAL_VALUES})
"""These cases have NaN, infinities, zeros of both signs and subnormals in kernels whose inputs may have any value: in
the largest input, with a mask in the others, then in all."""
TESTED_SLOTS: Mapping[int, str] = MappingProxyType({8: SPECIAL_RUNS})
"""This case has NaN and infinities in those inputs that an unregistered kernel tests for them."""

_IN_HALF = {"negative": "lowered", "large": "moderate"}
"""Distributions in place of those with values above 64, for kernels that compute in half precision: any such kernel may
overflow there, so that no output would be compared (:func:`.arithmetic.squares_exceed`)."""

_SIZES = (
    *("ragged", "medium", "warp", "large", "default", "boundary", "below", "small", "ones", "regular", "full"),
    *("even", "quads"),
)
_VALUES = (
    *("small", "moderate", "positive", "mixed-rows", "uniform", "negative", "ties", "sorted", "large", "magnitudes"),
    *("one-hot", "constant", "denormals", "rising", "permuted"),
)

_NAMED = {
    "default": ("default", "uniform"),
    "boundary": ("boundary", "uniform"),
    "regular": ("regular", "uniform"),
    "single_dtype_f32": ("default", "uniform"),
    "single_dtype_f16": ("default", "uniform"),
    "nan_injected": ("default", "nan-injected"),
}

_ADVERSARIAL = (
    ("default", "adversarial"),
    ("ragged", "negative"),
    ("below", "mixed-rows"),
    ("large", "moderate"),
    ("default", "extreme"),
    ("ones", "ties"),
    ("full", "small"),
    ("medium", "large"),
)
"""The original's adversarial values, alternating with others: no element can be verified where all are NaN."""

STRATEGIES = (QUICK, *_NAMED, "adversarial")
"""Names of the strategies."""

DTYPE_OF = {"single_dtype_f32": "float32", "single_dtype_f16": "float16"}
"""Strategies for one dtype only; the caller restricts the check to it."""


def recipe(
    strategy: str,
    index: int,
    linear: bool = False,
    narrow: bool = False,
    half: bool = False,
    special: Mapping[int, str] = NO_SLOTS,
) -> Recipe:
    """Return the recipe of case number ``index`` of a strategy; a recipe's own name returns that recipe.

    ``linear``: the kernel only adds, multiplies and moves values. ``narrow``: its data are half precision. ``half``:
    its arithmetic is. ``special`` are the distributions of those default cases that have NaN and infinities.

    Raises
    ------
    ValueError
        If ``strategy`` is neither a strategy nor ``<size class>/<distribution>[/<layout>]``.
    """
    if strategy == QUICK:
        found = _quick(index, linear, narrow)
        if index in special:
            return replace(found, values=special[index])
        return replace(found, values=_IN_HALF.get(found.values, found.values)) if half else found
    if strategy == "adversarial":
        turn, times = index % len(_ADVERSARIAL), index // len(_ADVERSARIAL)
        return Recipe(*_ADVERSARIAL[turn], lead=times)
    if strategy in _NAMED:
        return Recipe(*_NAMED[strategy], lead=index)
    sizes, values, layout = (*strategy.split("/", 2), "", "")[:3]
    if sizes == RECORDED_LAUNCH:
        return Recipe(sizes, values)
    if sizes not in SIZE_CLASSES or values not in DISTRIBUTIONS or layout.partition(":")[0] not in ("", PLAIN, TIGHT):
        raise ValueError(f"unknown strategy '{strategy}'; known: {', '.join(STRATEGIES)}")
    return Recipe(sizes, values, lead=index, layout=layout)


def _quick(index: int, linear: bool, narrow: bool) -> Recipe:
    if index < len(_FIRST):
        sizes, values = _FIRST[index]
        if linear and index == _EXACT_SLOT:
            values = SMALL_INTEGERS
        if narrow and index == _WIDE_SLOT:
            values = "moderate"
        earlier = sum(kind == sizes for kind, _ in _FIRST[:index])
        return Recipe(sizes, values, earlier)
    if index < len(_FIRST) + len(_NEXT):
        sizes, values = _NEXT[index - len(_FIRST)]
        return Recipe(sizes, values, 1)
    later = index - len(_FIRST) - len(_NEXT)
    values = _VALUES[later % len(_VALUES)]
    if linear and later % 7 == 3:
        values = SMALL_INTEGERS
    return Recipe(_SIZES[later % len(_SIZES)], values, 1 + later // len(_SIZES))
