"""Sizes to try a task at, derived from its own: smaller ones, odd ones, and its own if they fit.

PyTorch's ``meta`` device computes shapes without memory or arithmetic: what a literal of the task changes (a weight, an
input, neither), whether the model accepts a combination, and what it costs is measured on it, at any size.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any

import torch
from torch.fx.experimental import _config
from torch.utils._device import DeviceContext

from gpuemu.judge.literals import Literal, size_literals
from gpuemu.judge.model import ALIGNED, LONG, NAMED, SHORT, USUAL
from gpuemu.judge.task import TaskError, load_task
from gpuemu.judge.values import mapped, tensors_of
from gpuemu.judge.work import WorkCounter

SMALL, LARGE = 4_000_000, 40_000_000
"""Multiplications and elements of a forward pass that the emulator is given: usually, and at the largest sizes."""
OWN = 200_000_000
"""The same at sizes of the task's own that an answer names, which are tried only where it fails at others."""
_LEAST = 2
_BATCH = 8
_TILES = (128, 64, 32, 16, 8)
"""Powers of two that tiles of kernels have, the largest first."""
_SEQUENCE, _SHORT_SEQUENCE = 2 * _TILES[0], 16
"""Sequences of two of the largest tiles, and of one of the usual ones at most."""
_QUADRATIC = 1.03
"""How much faster than its share of the inputs the work of a size grows at least, if blocks pass over all of it."""


@dataclass(frozen=True, slots=True)
class SizeSet:
    """Values of the literals of a task, by what they stand for.

    ``own``: they are those of the task. ``regular``: each is the task's own divided by a power of two, so that what
    divides the own sizes mostly divides these. ``layers``: sizes of weights differ from the task's.
    """

    label: str
    values: Mapping[Literal, int]
    own: bool = False
    regular: bool = True
    layers: bool = False
    work: int = 0
    shapes: tuple[tuple[int, ...], ...] = ()


@dataclass(frozen=True, slots=True)
class _Probe:
    """What the meta device shows of a combination of sizes; ``extents`` are dimensions, and products of these."""

    init: str
    weights: str
    shapes: tuple[tuple[int, ...], ...]
    work: int
    extents: frozenset[int]


class _Meta(DeviceContext):  # type: ignore[misc]
    """PyTorch's ``meta`` device for all new tensors, also those whose device is named, and those that are moved."""

    def __torch_function__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = dict(kwargs or {})
        if kwargs.get("device") is not None:
            kwargs["device"] = self.device
        if function is torch.Tensor.cpu:
            return args[0]  # there is nothing to copy
        if function in _NUMBERS:
            return _NUMBERS[function](1)  # no value is known: shapes rarely depend on one
        if function is torch.Tensor.to:
            args = [self.device if isinstance(value, str | torch.device) else value for value in args]
        # A generator is for the values, of its own device.
        kwargs.pop("generator", None)
        return super().__torch_function__(function, types, args, kwargs)


_NUMBERS: Mapping[object, type] = {
    torch.Tensor.item: int,
    torch.Tensor.__int__: int,
    torch.Tensor.__index__: int,
    torch.Tensor.__float__: float,
    torch.Tensor.__bool__: bool,
}
"""What asks a tensor for its value, with the type of that."""


class TaskSizes:
    """The literals of a task, and the combinations of their values that its model accepts."""

    def __init__(self, text: str, path: str, model: str) -> None:
        self._text, self._path, self._model = text, path, model
        self._probes: dict[tuple[tuple[Literal, int], ...], _Probe | None] = {}
        self._own = {literal: literal.value for literal in size_literals(text)}
        self._problem = ""
        own = self._probe({})
        if own is None:
            raise TaskError(f"its model fails at its own sizes: {self._problem}")
        self._reference = own
        self._batch: set[Literal] = set()
        self._outer: set[Literal] = set()
        self._inputs, self._weights = self._roles(own)

    @property
    def replaced(self) -> tuple[int, ...]:
        """The values of the literals that are sizes."""
        return tuple(sorted({size.value for size in (*self._inputs, *self._weights)}))

    @property
    def own_shapes(self) -> tuple[tuple[int, ...], ...]:
        """The shapes of the inputs at the task's own sizes."""
        return self._reference.shapes

    @property
    def own_extents(self) -> frozenset[int]:
        """The dimensions of all tensors at the task's own sizes, and products of them up to their elements."""
        return self._reference.extents

    def own_inputs(self) -> list[Any]:
        """Return the inputs at the task's own sizes, of whose tensors all elements are one in memory."""
        with _Meta("meta"):
            inputs = list(load_task(self._text, self._path, {}, self._model).inputs())
        return [
            mapped(value, lambda tensor: torch.zeros((), dtype=tensor.dtype).expand(tensor.shape)) for value in inputs
        ]

    def size_sets(self) -> tuple[SizeSet, ...]:
        """Return the sizes to try, cheapest first."""
        sets = []
        small = self._shrunk(SMALL)
        sets.append(replace(small, label=USUAL))
        odd = self._odd(small)
        if odd is not None and odd.work <= LARGE:
            sets.append(odd)
        if not small.own:
            aligned = self._aligned()
            if aligned is not None:
                sets.append(aligned)
            larger = self._larger(small)
            if larger.work > small.work:
                sets.append(replace(larger, label="own" if larger.own else "larger"))
            sets += self._long(larger)
        return tuple(sets)

    def with_own(self, kept: Collection[int]) -> SizeSet | None:
        """Return sizes at which those that an answer names are the task's own, None if they do not fit."""
        groups = [[size for size in literals if size.value not in kept] for literals in (self._inputs, self._weights)]
        for budget, tile in itertools.product((LARGE, OWN), (*_TILES, 1)):
            sizes = self._shrunk(budget, tile, groups=groups)
            if sizes.work <= budget:
                return replace(sizes, label=NAMED)
        return None

    def _weight(self, literal: Literal) -> int:
        """Return how much sooner a literal is made smaller: the batch first, then what the tiles of kernels cover."""
        return _BATCH if literal in self._batch else 1

    def _are_alike(self, size: Literal, other: Literal) -> bool:
        """Return whether two sizes of the task are equal, and both that of its batch or neither."""
        return size.value == other.value and (size in self._batch) == (other in self._batch)

    def _roles(self, own: _Probe) -> tuple[list[Literal], list[Literal]]:
        inputs, weights = [], []
        for literal in self._own:
            for other in (literal.value // 2, literal.value + 1):
                init, shapes = self._loaded({literal: max(other, 1)})
                if (init is None or init != own.init) and self._changes_weights(literal, max(other, 1)):
                    weights.append(literal)
                    break
                if shapes is not None and shapes != own.shapes:
                    inputs.append(literal)
                    if _are_outer(shapes, own.shapes):
                        self._outer.add(literal)
                    if all(a[:1] != b[:1] and a[1:] == b[1:] for a, b in zip(shapes, own.shapes, strict=False)):
                        self._batch.add(literal)
                    break
        return inputs, weights

    def _changes_weights(self, literal: Literal, value: int) -> bool:
        """Return whether a value of an argument of the model makes other weights, and not other inputs only."""
        probe = self._probe({literal: value})
        return probe is None or probe.weights != self._reference.weights or probe.shapes == self._reference.shapes

    def _aligned(self) -> SizeSet | None:
        """Return sizes that are multiples of the largest tile of a kernel that the task's own are multiples of."""
        for tile in _TILES:
            sizes = self._shrunk(LARGE, tile)
            if sizes.work <= LARGE:
                return replace(sizes, label=ALIGNED)
        return None

    def _larger(self, small: SizeSet) -> SizeSet:
        """Return the largest sizes that fit, different where the task's are: a kernel may mistake one for another."""
        different = self._shrunk(LARGE, different=True, batch_first=True)
        if different.work <= LARGE and all(
            different.values.get(size, size.value) >= small.values.get(size, size.value)
            for size in self._own
            if size not in self._batch
        ):
            return different
        return self._shrunk(LARGE, batch_first=True)

    def _long(self, larger: SizeSet) -> list[SizeSet]:
        """Return sizes with long sequences, if the larger ones do not have them: the task's layers, or smaller ones.

        Smaller layers have the same with a short sequence too, so that what fails at a long one only is known.
        """
        sequences = [size for size in self._inputs if self._is_quadratic(size)]
        if not sequences:
            return []
        # An image is a sequence of as many elements as both sides have together.
        enough, short = (round(length ** (1 / len(sequences))) for length in (_SEQUENCE, _SHORT_SEQUENCE))
        if all(larger.values.get(size, size.value) >= min(size.value, enough) for size in sequences):
            return []
        outer = [size for size in self._inputs if size in self._batch | self._outer and size not in sequences]
        longest = max(size.value for size in sequences)
        lengths = [length for shift in range(longest.bit_length()) if 2 * (length := longest >> shift) > enough]
        for layers, tried in (([], lengths), (self._weights, [length for length in lengths if length <= enough])):
            for length in tried:
                given = {size: _halved(size.value, length) for size in sequences}
                sizes = self._shrunk(LARGE, groups=(outer, layers), given=given, least=1)
                if sizes.work > LARGE:
                    continue
                size_sets = [replace(sizes, label=LONG)]
                if sizes.layers:
                    values = {**sizes.values, **{size: _halved(size.value, short) for size in sequences}}
                    probe = self._probe(values)
                    if probe is None:
                        continue
                    control = replace(sizes, label=SHORT, values=values, work=probe.work, shapes=probe.shapes)
                    size_sets.insert(0, control)
                return size_sets
        return []

    def _is_quadratic(self, size: Literal) -> bool:
        """Return whether work grows faster with a size than the inputs do: each element meets all others."""
        probes = [self._probe({size: size.value >> shift}) for shift in range(3)]
        if size.value < _SHORT_SEQUENCE or any(probe is None for probe in probes):
            return False
        first, second, third = (probe for probe in probes if probe is not None)
        pairs = zip(first.shapes, second.shapes, strict=True)
        dimensions = max(sum(x != y for x, y in zip(a, b, strict=True)) for a, b in pairs)
        return first.work - second.work > (second.work - third.work) * _QUADRATIC * (1 << dimensions)

    def _shrunk(
        self,
        budget: int,
        tile: int = 1,
        *,
        groups: Iterable[Sequence[Literal]] | None = None,
        given: Mapping[Literal, int] = MappingProxyType({}),
        least: int = _LEAST,
        different: bool = False,
        batch_first: bool = False,
    ) -> SizeSet:
        """Return the task's sizes, halved until a forward pass is within a budget: the inputs', then the layers'.

        ``groups`` are those that are halved instead, one after the other, ``given`` are values to begin with, and
        ``least`` is the least value. ``different``: those that differ in the task do. ``batch_first``: what one block
        passes over keeps its size as long as the batch can be smaller.
        """
        values = {**self._own, **given}
        probe = self._probe(values) if given else self._reference
        if probe is None:
            return SizeSet(USUAL, {}, work=self._reference.work)
        layers = False
        for literals in groups if groups is not None else (self._inputs, self._weights):
            fixed: set[Literal] = set()
            while probe.work > budget:
                free = [
                    size
                    for size in literals
                    if size not in fixed
                    and values[size] >= 2 * least
                    # What blocks are counted over needs no multiple of a tile.
                    and (size in self._outer or values[size] // 2 % math.gcd(size.value, tile) == 0)
                    and not (
                        different and _equals_another(size, values[size] // 2, {one: values[one] for one in literals})
                    )
                ]
                if not free:
                    break
                batch = self._batch.intersection(free) if batch_first else ()
                largest = max(batch or free, key=lambda size: (self._weight(size) * values[size], -size.line))
                # An answer may be right where sizes are equal that are in the task; a model may need others to be.
                same = [size for size in free if self._are_alike(size, largest) and values[size] == values[largest]]
                equal = [size for size in literals if values[size] == values[largest]]
                for group in (same, [largest], equal):
                    halved = values | {size: values[size] // 2 for size in group}
                    accepted = self._probe(halved)
                    if accepted is not None and accepted.work < probe.work:
                        values, probe = halved, accepted
                        layers = layers or any(size in self._weights for size in group)
                        break
                else:
                    fixed.add(largest)
        changed = {size: value for size, value in values.items() if value != size.value}
        return SizeSet(USUAL, changed, own=not changed, layers=layers, work=probe.work, shapes=probe.shapes)

    def _odd(self, small: SizeSet) -> SizeSet | None:
        """Return sizes of the inputs that no power of two divides."""
        values = dict(small.values)
        for literal in self._inputs:
            size = values.get(literal, literal.value)
            for other in (size + 1 if size < 8 else size - 1, size - 1, size + 1):
                if other < 1 or other % 2 == 0:
                    continue
                if self._probe(values | {literal: other}) is not None:
                    values[literal] = other
                    break
        if values == dict(small.values):
            return None
        probe = self._probe(values)
        assert probe is not None
        return SizeSet("odd", values, regular=False, layers=small.layers, work=probe.work, shapes=probe.shapes)

    def _probe(self, values: Mapping[Literal, int]) -> _Probe | None:
        key = tuple(sorted(values.items()))
        if key not in self._probes:
            self._probes[key] = self._measured(values)
        return self._probes[key]

    def _loaded(self, values: Mapping[Literal, int]) -> tuple[str | None, tuple[tuple[int, ...], ...] | None]:
        try:
            with _Meta("meta"):
                task = load_task(self._text, self._path, values, self._model)
                return described(task.init_inputs()), _shapes(task.inputs())
        except Exception:
            return None, None

    def _measured(self, values: Mapping[Literal, int]) -> _Probe | None:
        work = WorkCounter()
        try:
            with _Meta("meta"), torch.no_grad(), _config.patch(meta_nonzero_assume_all_nonzero=True):
                task = load_task(self._text, self._path, values, self._model)
                init = task.init_inputs()
                model, inputs = task.constructed(0), task.inputs()
                with work:
                    model(*inputs)
        except Exception as error:
            self._problem = str(error) if isinstance(error, TaskError) else f"{type(error).__name__}: {error}"
            return None
        state = model.state_dict()
        parameters = sum(tensor.numel() for tensor in state.values())
        # A reduction reads more than it returns.
        read = sum(tensor.numel() for tensor in tensors_of(inputs))
        extents = work.extents.union(tensor.numel() for tensor in (*tensors_of(inputs), *state.values()))
        total = max(work.count, read) + parameters
        return _Probe(described(init), described(dict(state)), _shapes(inputs), total, frozenset(extents))


def _equals_another(size: Literal, value: int, values: Mapping[Literal, int]) -> bool:
    """Return whether a value of a size is that of another size, from which the task's own differs."""
    return any(other == value and literal.value != size.value for literal, other in values.items())


def _halved(value: int, most: int) -> int:
    """Return a value, halved until it is at most another."""
    while value > most:
        value //= 2
    return value


def _are_outer(shapes: Sequence[tuple[int, ...]], own: Sequence[tuple[int, ...]]) -> bool:
    """Return whether the dimensions that change are before the last two, and among the first two, as heads are."""
    changed = [
        (place, len(a))
        for a, b in zip(shapes, own, strict=False)
        for place, (x, y) in enumerate(zip(a, b, strict=False))
        if x != y
    ]
    return all(place < min(rank - 2, 2) for place, rank in changed)


def described(value: Any) -> str:
    """Return a text that differs where arguments differ; of tensors it has the shapes."""
    if isinstance(value, torch.Tensor):
        return f"tensor{tuple(value.shape)}{value.dtype}"
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(described, value))}]"
    if isinstance(value, dict):
        return f"{{{', '.join(f'{name}: {described(one)}' for name, one in value.items())}}}"
    return repr(value)


def _shapes(inputs: Any) -> tuple[tuple[int, ...], ...]:
    return tuple(tuple(tensor.shape) for tensor in tensors_of(inputs))
