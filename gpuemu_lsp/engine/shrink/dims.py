"""Passes that shrink dims: all jointly, then each one, then pairs, of which one may grow while the other shrinks.

Kernels fail at sizes that are not a multiple of a tile, so failing sizes do not form an interval. Before bisection, the
small sizes around powers of two are tried in ascending order.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping
from dataclasses import replace
from itertools import combinations, permutations

from gpuemu_lsp.engine.fuzz.model import Case
from gpuemu_lsp.engine.project.model import DimSpec
from gpuemu_lsp.engine.shrink.model import CaseSpace, Proposals, ShrinkCandidate, ValueDomain
from gpuemu_lsp.engine.shrink.order import size_key
from gpuemu_lsp.engine.shrink.values import clip

_LANDMARKS = (1, 2, 3, 4, 5, 8, 9, 16, 17, 32, 33, 64, 65, 128, 129, 256, 257, 512, 513, 1024, 1025)
"""Sizes tried before bisection: those of warps, blocks and tiles, and one more. Further ones cost more runs than they
save."""
_PRODUCT = 4096
"""Product of two dims from on which one of them is exchanged for every landmark. A failure that needs many elements, as
the overflow of a counter, needs the product and not either dim."""


def shrink_dims_jointly(start: ShrinkCandidate, space: CaseSpace) -> Proposals:
    """Propose cases with as many dims as possible at their minimum."""
    yield from _Sizes(start, space).jointly()


def shrink_dims(start: ShrinkCandidate, space: CaseSpace) -> Proposals:
    """Propose cases with smaller dims, one at a time and in pairs."""
    sizes = _Sizes(start, space)
    for dim in list(sizes.free):
        yield from sizes.alone(dim)
    for first, second in combinations(list(sizes.free), 2):
        yield from sizes.together(first, second)
    for first, second in permutations(start.case.dims, 2):
        if first in sizes.free:
            yield from sizes.exchanged(first, second)


class _Sizes:
    """State of one run of the passes: the current case, and the bounds of its dims."""

    def __init__(self, start: ShrinkCandidate, space: CaseSpace) -> None:
        self._current = start
        self._space = space
        self._floors = {spec.name: floor_of(spec) for spec in space.dims}
        self._tops = {spec.name: spec.maximum or start.case.dims.get(spec.name, 1) for spec in space.dims}
        self._steps = {spec.name: max(1, spec.multiple_of) for spec in space.dims}

    @property
    def free(self) -> tuple[str, ...]:
        """The dims that are above their minimum."""
        dims = self._current.case.dims
        return tuple(name for name, floor in self._floors.items() if dims.get(name, floor) > floor)

    def jointly(self) -> Proposals:
        """Set all dims to their minimum, then all but a group and the group alone, for ever smaller groups."""
        # Delta debugging on the set of dims: complements of groups before groups, as they remove more.
        group = len(self.free)
        while group >= 1:
            names = self.free
            for start in range(0, len(names), group):
                kept = {name for name in names[start : start + group] if group < len(names)}
                yield from self._try({name: self._floors[name] for name in self.free if name not in kept})
            for start in range(0, len(names), group):
                chosen = [name for name in names[start : start + group] if name in self.free]
                yield from self._try({name: self._floors[name] for name in chosen})
            group //= 2

    def alone(self, name: str) -> Proposals:
        """Shrink one dim: landmarks in ascending order, bisection, then single steps."""
        floor, step = self._floors[name], self._steps[name]
        low = floor
        for landmark in _LANDMARKS:
            size = self._snap(name, landmark)
            if low <= size < self._size(name):
                if (yield from self._try({name: size})):
                    break
                low = size + step
        # Bisection as if failing sizes were an interval. It ends at a size whose predecessor passes, not necessarily at
        # the smallest one.
        while low < self._size(name):
            middle = self._snap(name, low + (self._size(name) - low) // 2)
            if not (yield from self._try({name: middle})):
                low = max(middle, low) + step
        # For failing sizes with a period of two to four, such as odd ones.
        for back in (1, 2, 3):
            yield from self._try({name: self._snap(name, self._size(name) - back * step)})

    def together(self, first: str, second: str) -> Proposals:
        """Shrink two dims at once, for failures that need them equal, at a distance, or in proportion."""
        while first in self.free and second in self.free:
            a, b = self._size(first), self._size(second)
            most = min(a - self._floors[first], b - self._floors[second])
            accepted = False
            for delta in dict.fromkeys((most, most // 2, 8, 4, 2, 1)):
                if 0 < delta <= most and not accepted:
                    accepted = yield from self._try_both(first, a - delta, second, b - delta)
            # Halves keep a ratio, where equal steps keep a difference.
            accepted = accepted or (yield from self._try_both(first, a // 2, second, b // 2))
            if not accepted:
                return

    def exchanged(self, first: str, second: str) -> Proposals:
        """Shrink one dim and let the other grow, as far as the case stays simpler, for failures that need a product."""
        if self._size(first) * self._size(second) <= _PRODUCT:
            yield from self._traded(first, second)
            return
        for landmark in _LANDMARKS:
            other = self._beyond(first, landmark, second)
            if other is not None and (yield from self._try({first: landmark, second: other})):
                yield from self.alone(second)

    def _beyond(self, first: str, landmark: int, second: str) -> int | None:
        """Return about the largest size of ``second`` with which the case becomes simpler, None if there is none."""
        if not self._floors[first] <= landmark <= self._tops[first] or landmark == self._size(first):
            return None
        most = self._snap(second, (self._size(first) * self._size(second) - 1) // landmark)
        best = size_key(self._current.case)
        # The number of elements depends on other tensors too: the largest size by the product may be too large.
        for size in (most, most - self._steps[second], most - 2 * self._steps[second]):
            if self._floors[second] < size <= self._tops[second]:
                other = self._rebuilt({first: landmark, second: size})
                if other is not None and size_key(other) < best:
                    return size
        return None

    def _traded(self, first: str, second: str) -> Proposals:
        """Set one dim to its minimum or one step lower, the other to the largest size that keeps the case simpler."""
        for size in dict.fromkeys((self._floors[first], self._size(first) - self._steps[first])):
            most = self._most({first: size}, second) if self._floors[first] <= size < self._size(first) else 0
            if most > self._size(second) and (yield from self._try({first: size, second: most})):
                yield from self.alone(second)

    def _most(self, sizes: Mapping[str, int], name: str) -> int:
        """Return the largest size of ``name`` with which the case becomes simpler, its current size if none does."""
        best, step = size_key(self._current.case), self._steps[name]
        low, high = 0, (min(self._tops[name], 2 * _PRODUCT) - self._size(name)) // step
        while low < high:
            middle = (low + high + 1) // 2
            other = self._rebuilt({**sizes, name: self._size(name) + middle * step})
            low, high = (middle, high) if other is not None and size_key(other) < best else (low, middle - 1)
        return self._size(name) + low * step

    def _try_both(self, first: str, a: int, second: str, b: int) -> Generator[ShrinkCandidate, bool, bool]:
        return (yield from self._try({first: self._snap(first, a), second: self._snap(second, b)}))

    def _size(self, name: str) -> int:
        return self._current.case.dims[name]

    def _snap(self, name: str, size: int) -> int:
        return max(self._floors[name], size - size % self._steps[name])

    def _rebuilt(self, sizes: Mapping[str, int]) -> Case | None:
        """Return the case with other sizes and redrawn values, None if there is none."""
        dims = {**self._current.case.dims, **sizes}
        drawn = None if dims == self._current.case.dims else self._space.rebuild(self._current.case, dims)
        return drawn if drawn is not None and drawn.dims == dims else None

    def _try(self, sizes: Mapping[str, int]) -> Generator[ShrinkCandidate, bool, bool]:
        """Propose the case with other sizes: with redrawn values, and with the current ones cut to their new shapes.

        Once a pass has changed values, the failure depends on them, and redrawn ones are not tried.
        """
        drawn = self._rebuilt(sizes)
        if drawn is None:
            return False
        cut = _cut(self._current, drawn, self._space.domains(drawn))
        proposals = [cut] if cut and self._current.changed else [ShrinkCandidate(drawn), *([cut] if cut else [])]
        for candidate in proposals:
            if (yield candidate):
                self._current = candidate
                return True
        return False


def floor_of(spec: DimSpec) -> int:
    """Return the smallest size that the dim may have."""
    minimum, step = (1 if spec.minimum is None else spec.minimum), max(1, spec.multiple_of)
    return -(-minimum // step) * step


def _cut(current: ShrinkCandidate, drawn: Case, domains: Mapping[str, ValueDomain]) -> ShrinkCandidate | None:
    """Return ``drawn`` with the leading part of the current values where tensors shrink; None if none changes."""
    tensors = dict(drawn.tensors)
    changed = set()
    for name, new in drawn.tensors.items():
        old = current.case.tensors.get(name)
        if old is None or old.dtype != new.dtype or old.ndim != new.ndim:
            continue
        # A tensor that grows along an axis has no values for it.
        if any(have < want for have, want in zip(old.shape, new.shape, strict=True)):
            continue
        part = clip(old[tuple(slice(size) for size in new.shape)], domains.get(name, ValueDomain()))
        if part.tobytes() != new.tobytes():
            tensors[name] = part
            changed.add(name)
    return ShrinkCandidate(replace(drawn, tensors=tensors), frozenset(changed)) if changed else None
