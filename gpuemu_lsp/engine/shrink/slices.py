"""Pass that clears slices: leading rows, columns and planes that the failure does not need get the simplest value.

A failure needs few slices, but which element is reported as the worst depends on all of them, so they cannot simply be
cropped. Once the leading ones are cleared, the remaining values are at the end, and crop_dims can remove the front.
"""

from __future__ import annotations

from collections.abc import Generator

import numpy as np

from gpuemu_lsp.engine.shrink.dims import floor_of
from gpuemu_lsp.engine.shrink.model import CaseSpace, Proposals, ShrinkCandidate, ValueDomain
from gpuemu_lsp.engine.shrink.order import complexity
from gpuemu_lsp.engine.shrink.values import by_size, legal, simplest_value, with_tensors


def clear_slices(start: ShrinkCandidate, space: CaseSpace) -> Proposals:
    """Propose the case with as many leading slices as possible cleared, one axis of one input after the other."""
    current = start
    # With all dims at their minimum there is nothing to crop.
    if all(start.case.dims.get(spec.name, 0) <= floor_of(spec) for spec in space.dims):
        return
    for name in by_size(start.case):
        domain = legal(space, start.case, name)
        for axis in range(start.case.tensors[name].ndim):
            current = yield from _clear_axis(current, name, axis, domain)


def _clear_axis(
    current: ShrinkCandidate, name: str, axis: int, domain: ValueDomain
) -> Generator[ShrinkCandidate, bool, ShrinkCandidate]:
    """Clear leading slices: all but the last one, else ever fewer at a time."""
    # The last slice is left: if the failure needs none, simplify_inputs clears all of them in one run.
    last = current.case.tensors[name].shape[axis] - 1
    done, length = 0, last
    while length >= 1:
        candidate = _cleared(current, name, axis, slice(done, done + length), domain)
        if candidate is None or (yield candidate):
            current = candidate or current
            done += length
            length = min(length, last - done)
        else:
            length //= 2
    return current


def _cleared(
    current: ShrinkCandidate, name: str, axis: int, part: slice, domain: ValueDomain
) -> ShrinkCandidate | None:
    """Return the candidate with some slices of an input cleared, None if they are clear already."""
    tensor = np.array(current.case.tensors[name])
    simplest = simplest_value(tensor, domain)
    view = np.moveaxis(tensor, axis, 0)[part]
    if not (complexity(view) > complexity(simplest)[0]).any():
        return None
    view[...] = simplest[0]
    return with_tensors(current, {name: tensor})
