"""Pass that crops a case: removes leading or trailing indices of one dim and keeps all other values.

Values drawn again at another size lose those that the failure depends on, and the leading part of the current ones may
lack them. This is delta debugging (Zeller and Hildebrandt, 2002) on the indices of one dim at a time.
"""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import replace

import numpy as np

from gpuemu_lsp.engine.fuzz.model import Array, Case
from gpuemu_lsp.engine.shrink.dims import floor_of
from gpuemu_lsp.engine.shrink.model import CaseSpace, Proposals, ShrinkCandidate
from gpuemu_lsp.engine.shrink.values import clip, legal


def crop_dims(start: ShrinkCandidate, space: CaseSpace) -> Proposals:
    """Propose the case without ever shorter pieces of each dim, the longest dim first."""
    current = start
    for spec in sorted(space.dims, key=lambda spec: -start.case.dims.get(spec.name, 0)):
        step = max(1, spec.multiple_of)
        length = (current.case.dims.get(spec.name, 1) - 1) // step
        while length >= 1:
            shorter = yield from _cut_somewhere(current, space, spec.name, length * step)
            if shorter is None:
                length //= 2
            else:
                current = shorter
                length = min(length, (current.case.dims[spec.name] - 1) // step)


def _cut_somewhere(
    current: ShrinkCandidate, space: CaseSpace, name: str, length: int
) -> Generator[ShrinkCandidate, bool, ShrinkCandidate | None]:
    """Propose to remove ``length`` indices of a dim at the front, then at the end."""
    size = current.case.dims[name]
    floor = min(floor_of(spec) for spec in space.dims if spec.name == name)
    drawn = space.rebuild(current.case, {**current.case.dims, name: size - length}) if size - length >= floor else None
    if drawn is None or drawn.dims[name] != size - length:
        return None
    # Pieces from the middle are not tried: they succeed rarely, and clear_slices makes the front removable.
    rest = size - length
    for place in dict.fromkeys((0, rest)):
        candidate = without(current, drawn, place, size, space)
        if candidate is None:
            return None
        if (yield candidate):
            return candidate
    return None


def without(current: ShrinkCandidate, drawn: Case, place: int, size: int, space: CaseSpace) -> ShrinkCandidate | None:
    """Return ``drawn`` with the values of ``current`` without those from ``place`` on, along the axes that shrank.

    None if the shapes do not determine those axes, as of a tensor whose length is that of a window over the dim.
    """
    tensors: dict[str, Array] = {}
    for name, new in drawn.tensors.items():
        old = current.case.tensors[name]
        if old.ndim != new.ndim or old.dtype != new.dtype:
            return None
        for axis, (have, want) in enumerate(zip(old.shape, new.shape, strict=True)):
            if have == want:
                continue
            if have != size or want > have:
                return None
            old = np.delete(old, slice(place, place + have - want), axis=axis)
        tensors[name] = clip(old, space.domains(drawn).get(name) or legal(space, current.case, name))
    changed = {name for name, tensor in tensors.items() if tensor.tobytes() != drawn.tensors[name].tobytes()}
    return ShrinkCandidate(replace(drawn, tensors=tensors), frozenset(changed))
