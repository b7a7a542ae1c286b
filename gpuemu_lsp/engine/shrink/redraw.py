"""Passes that draw a case again: with other values at smaller sizes, or with the same values in a simpler layout.

A case is found with values of one class, and they may not fail at smaller sizes where others do. The smallest sizes are
therefore tried with all classes of values, which lets searches from different cases end at the same sizes.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from itertools import islice, product

from gpuemu_lsp.engine.project.model import DimSpec
from gpuemu_lsp.engine.shrink.dims import floor_of
from gpuemu_lsp.engine.shrink.model import CaseSpace, Proposals, ShrinkCandidate

_VECTORS = 5
"""Vectors of smallest sizes that are tried."""
_SMALL = (1, 2, 3, 4, 5, 8, 9, 16, 17, 32, 33, 64, 65, 128, 129, 256, 257)

DRAWS = 8
"""The first cases that a space redraws are one of each class of values; the others are further draws of one class."""


def redraw_values(start: ShrinkCandidate, space: CaseSpace) -> Proposals:
    """Propose cases of the smallest sizes, and of the next smaller ones, with values of other classes."""
    for dims in _smaller(start.case.dims, space):
        for case in islice(space.redraw(start.case, dims), DRAWS):
            if case.dims == dims and (yield ShrinkCandidate(case)):
                return


def redraw_exhaustively(start: ShrinkCandidate, space: CaseSpace) -> Proposals:
    """Propose cases one step smaller with many more draws, for failures that few values cause, such as of a hash."""
    for spec in space.dims:
        size = start.case.dims.get(spec.name, 0) - max(1, spec.multiple_of)
        dims = {**start.case.dims, spec.name: size}
        # The first DRAWS cases of these sizes were proposed by redraw_values.
        for case in islice(space.redraw(start.case, dims), DRAWS, None) if size >= floor_of(spec) else ():
            if case.dims == dims and (yield ShrinkCandidate(case)):
                return


def simplify_layout(start: ShrinkCandidate, space: CaseSpace) -> Proposals:
    """Propose the case with the same values in simpler layouts, the simplest first."""
    for case in space.simpler_layouts(start.case):
        if (yield ShrinkCandidate(case, start.changed)):
            return


def _smaller(dims: Mapping[str, int], space: CaseSpace) -> Iterator[dict[str, int]]:
    """Yield the smallest vectors of sizes, then those with one dim at its next smaller landmark."""
    options = {spec.name: _options(spec, dims[spec.name]) for spec in space.dims if spec.name in dims}
    free = {name: sizes for name, sizes in options.items() if sizes}
    # At most 27 joint vectors of three dims: more of them would exceed the budget before the other passes run.
    alone = [{**dims, name: size} for name, sizes in free.items() for size in (*sizes[:3], sizes[-1])]
    least = [(*sizes[:2], dims[name]) for name, sizes in free.items()]
    jointly = [{**dims, **dict(zip(free, sizes, strict=True))} for sizes in islice(product(*least), 27)]
    below = [
        {**dims, name: max(landmarks)} for name, sizes in free.items() if (landmarks := [*set(sizes) & set(_SMALL)])
    ]
    smallest = sorted((*alone, *jointly), key=lambda one: (math.prod(one.values()), sum(one.values())))
    distinct = [vector for index, vector in enumerate(smallest) if vector not in smallest[:index]]
    yield from distinct[:_VECTORS]
    yield from (vector for vector in below if vector not in distinct[:_VECTORS])


def _options(spec: DimSpec, size: int) -> list[int]:
    """Return the sizes below ``size`` to try, in ascending order."""
    low, step = floor_of(spec), max(1, spec.multiple_of)
    if spec.choices:
        return sorted(choice for choice in spec.choices if choice < size)
    every = {low, size - step, *_SMALL}
    return sorted(value for value in every if low <= value < size and value % step == 0)
