"""Makes inputs plain slice by slice: rows, columns and planes on which the failure does not hang, from the front.

A failure hangs on few of them, but which finding is the first to be told hangs on all. What is left lies at the end, so
that sizes can then be cut from the front.
"""

from __future__ import annotations

from collections.abc import Generator

import numpy as np

from gpuemu_lsp.engine.shrink.dims import floor_of
from gpuemu_lsp.engine.shrink.model import CaseSpace, Proposals, ShrinkCandidate, ValueDomain
from gpuemu_lsp.engine.shrink.order import complexity
from gpuemu_lsp.engine.shrink.values import by_size, legal, simplest_value, with_tensors


def clear_slices(start: ShrinkCandidate, space: CaseSpace) -> Proposals:
    """Propose the case with as many leading slices as possible made plain, one axis of one input after the other."""
    current = start
    if all(start.case.dims.get(spec.name, 0) <= floor_of(spec) for spec in space.dims):
        return
    for name in by_size(start.case):
        domain = legal(space, start.case, name)
        for axis in range(start.case.tensors[name].ndim):
            current = yield from _blank(current, name, axis, domain)


def _blank(
    current: ShrinkCandidate, name: str, axis: int, domain: ValueDomain
) -> Generator[ShrinkCandidate, bool, ShrinkCandidate]:
    """Make leading slices plain: all but the last one, else ever fewer at a time."""
    last = current.case.tensors[name].shape[axis] - 1
    done, length = 0, last
    while length >= 1:
        candidate = _plain(current, name, axis, slice(done, done + length), domain)
        if candidate is None or (yield candidate):
            current = candidate or current
            done += length
            length = min(length, last - done)
        else:
            length //= 2
    return current


def _plain(current: ShrinkCandidate, name: str, axis: int, part: slice, domain: ValueDomain) -> ShrinkCandidate | None:
    """Return the candidate with some slices of an input plain; None where they are."""
    tensor = np.array(current.case.tensors[name])
    plain = simplest_value(tensor, domain)
    view = np.moveaxis(tensor, axis, 0)[part]
    if not (complexity(view) > complexity(plain)[0]).any():
        return None
    view[...] = plain[0]
    return with_tensors(current, {name: tensor})
