"""Which cases a check runs: a strategy gives each case a class of sizes and a class of values.

``quick`` is what a save runs. Its first eight cases are the most telling ones, so that a small budget finds nearly
every bug that shapes and values can show; eight more are each made for a kind of bug that those miss, and the ones
after them walk through all combinations. The other names are the original's.
"""

from __future__ import annotations

from dataclasses import dataclass

from gpuemu_lsp.engine.fuzz.integers import SMALL_INTEGERS
from gpuemu_lsp.engine.fuzz.sizes import KINDS
from gpuemu_lsp.engine.fuzz.values import DISTRIBUTIONS

QUICK = "quick"

PLAIN, TIGHT = "plain", "tight"
"""Layouts that are plainer than those drawn."""


@dataclass(frozen=True, slots=True)
class Recipe:
    """How one case is drawn.

    ``lead`` counts the earlier cases of the same class of sizes: the dim that leads rotates. ``layout`` is empty where
    strides, offsets and shared memory are drawn as far as the arguments allow them, :data:`PLAIN` for none of it, or
    :data:`TIGHT` for the smallest gaps and offsets: of all tensors, or of some (``tight:x,y``) while the others are
    plain.
    """

    sizes: str
    values: str
    lead: int = 0
    layout: str = ""

    @property
    def name(self) -> str:
        """The text a case key holds."""
        return f"{self.sizes}/{self.values}" + (f"/{self.layout}" if self.layout else "")

    @property
    def odd(self) -> frozenset[str] | None:
        """The tensors that need not lie in memory plainly; None for all of them."""
        kind, _, names = self.layout.partition(":")
        return frozenset() if kind == PLAIN else frozenset(names.split(",")) if names else None

    @property
    def tight(self) -> bool:
        """Whether gaps and offsets are the smallest there are."""
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
"""The first eight; the fifth is drawn from small integers where that is exact."""

_NEXT = (
    ("even", "ties"),  # an odd pair is left by whoever takes four; equal values far apart
    ("large", "one-hot"),
    ("ragged", "negative"),
    ("quads", "constant"),  # fours, but no whole warps of them; every index the same
    ("below", "moderate"),
    ("boundary", "sorted"),
    ("medium", "magnitudes"),
    ("warp", "rising"),  # whatever is running moves until the end
)
"""The second eight."""

_WIDE_SLOT = 3
"""Of kernels over half-precision data, this one has values whose sums of squares exceed that range."""

_EXACT_SLOT = 4

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
"""Values of the original's kind in turn with others: where NaN or infinity reaches every element, nothing is judged."""

STRATEGIES = (QUICK, *_NAMED, "adversarial")
"""Every strategy by name."""

DTYPE_OF = {"single_dtype_f32": "float32", "single_dtype_f16": "float16"}
"""Strategies that speak of one dtype only; which dtypes are checked is the caller's business."""


def recipe(strategy: str, index: int, linear: bool = False, narrow: bool = False) -> Recipe:
    """Return how case number ``index`` of a strategy is drawn; a recipe's own name gives that recipe.

    ``linear`` says that the kernel only adds, multiplies and moves, ``narrow`` that its data are half precision.

    Raises
    ------
    ValueError
        If ``strategy`` is neither a strategy nor ``<class of sizes>/<distribution>``, ``/<layout>`` after it or not.
    """
    if strategy == QUICK:
        return _quick(index, linear, narrow)
    if strategy == "adversarial":
        turn, times = index % len(_ADVERSARIAL), index // len(_ADVERSARIAL)
        return Recipe(*_ADVERSARIAL[turn], lead=times)
    if strategy in _NAMED:
        return Recipe(*_NAMED[strategy], lead=index)
    sizes, values, layout = (*strategy.split("/", 2), "", "")[:3]
    if sizes not in KINDS or values not in DISTRIBUTIONS or layout.partition(":")[0] not in ("", PLAIN, TIGHT):
        raise ValueError(f"'{strategy}' is no strategy; there are {', '.join(STRATEGIES)}")
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
