"""What the text of a function says about its parameters: ranks of tensors, equal sizes, bounds and divisors."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from gpuemu_lsp.engine.plan.wrappers.values import (
    Parameter,
    Storage,
    SymbolicTensor,
    Value,
    ValueSequence,
    named,
)
from gpuemu_lsp.engine.symbolic.conditions import COMPARISONS, Condition, any_of
from gpuemu_lsp.engine.symbolic.constraints import Constraints
from gpuemu_lsp.engine.symbolic.size import ZERO, Size, SizeOperation

_UNPACKED = (
    r"^[ \t]*\(?((?:\*?\w+[ \t]*,[ \t]*)+(?:\*?\w+)?)\)?[ \t]*=[ \t]*{name}(?:\.contiguous\(\))?"
    r"\.(?:shape|size\(\))[ \t]*$"
)
_INDEXED = r"\b{name}\.(?:shape\[|size\(|stride\()\s*(-?\d+)\s*[\])]"
_RANK = r"(?:\b{name}\.(?:dim\(\)|ndim)|\blen\({name}\.shape\))\s*==\s*(\d)"
_ROW = r"\bif\s+{name}\.(?:ndim|dim\(\))\s*==\s*1\s+else\s+{name}\b"
"""A vector is made a matrix of one row: ``x.unsqueeze(0) if x.ndim == 1 else x``."""


@dataclass(frozen=True, slots=True)
class TensorRank:
    """The number of dimensions of a parameter. ``certain``: the function depends on it; else it may have more.

    ``read`` False: the function does not ask for its shape.
    """

    rank: int
    certain: bool
    read: bool = True


def rank_of(text: str, name: str) -> TensorRank:
    """Return the rank of a parameter from the text of its function."""
    escaped = re.escape(name)
    if re.search(_ROW.format(name=escaped), text) is not None:
        return TensorRank(2, certain=True)
    stated = re.search(_RANK.format(name=escaped), text)
    if stated is not None:
        return TensorRank(int(stated[1]), True)
    unpacked = re.search(_UNPACKED.format(name=escaped), text, re.MULTILINE)
    if unpacked is not None:
        return TensorRank(len([one for one in unpacked[1].split(",") if one.strip()]), True)
    indices = {int(one) for one in re.findall(_INDEXED.format(name=escaped), text)}
    flat = re.search(rf"\b{escaped}\.(?:numel|nelement|view|reshape|flatten)\(", text) is not None
    if indices:
        positive = [one for one in indices if one >= 0]
        rank = max(max(positive, default=0) + 1 + (min(indices) < 0 and not positive), -min(0, *indices))
        if min(indices) < 0 and positive:
            rank = max(rank, 2)
        if min(indices) < 0 and len(positive) > 2:
            # Of three axes by number and the last one by -1, the last one is mostly a fourth.
            return TensorRank(max(positive) - min(indices) + 1, certain=False)
        whole = len(indices) >= 2 or (indices == {-1} and flat)
        return TensorRank(rank, whole)
    return TensorRank(1, flat, flat)


@dataclass(frozen=True, slots=True)
class SizeRelations:
    """The constraints on sizes at one place, and whether a condition is not understood."""

    known: Constraints
    partial: bool


@dataclass(slots=True)
class Assumptions:
    """Tensors and numbers of the parameters of one function, and relations between sizes.

    ``text`` is that of the function. ``known`` are the relations; ``preferred`` has the variables to which extents are
    assigned, as names for them.
    """

    text: str
    ranks: dict[str, TensorRank] = field(default_factory=dict)
    dtypes: Mapping[str, str] = field(default_factory=dict)
    bounds: Mapping[str, tuple[Size, Size]] = field(default_factory=dict)
    known: Constraints = Constraints()
    preferred: dict[str, str] = field(default_factory=dict)
    tensors: dict[str, SymbolicTensor] = field(default_factory=dict)
    numbers: set[str] = field(default_factory=set)
    partial: bool = False
    """A condition on sizes is not understood, so that fewer sizes may be possible than are known."""

    def rank(self, name: str) -> TensorRank:
        """Return the rank of a parameter."""
        return self.ranks.get(name) or rank_of(self.text, name)

    def assume_rank(self, name: str, rank: int) -> None:
        """Give a tensor a rank, and the shape of another one of that rank if there is one."""
        if self.rank(name).rank == rank:
            return
        self.ranks[name] = TensorRank(rank, certain=False)
        self.tensors.pop(name, None)
        like = next((one for one in self.tensors.values() if len(one.shape) == rank), None)
        if like is not None:
            for axis, extent in enumerate(like.shape):
                if f"{name}_{axis}" not in self.known.equal:
                    self._hold(Condition(None, "==", named(f"{name}_{axis}"), extent))

    def tensor(self, name: str) -> SymbolicTensor:
        """Return a parameter as a tensor."""
        if name not in self.tensors:
            rank = self.rank(name)
            shape = tuple(named(f"{name}_{axis}") for axis in range(rank.rank))
            dtype = self.dtypes.get(name, "")
            storage = Storage(name, shape, dtype, "given", rank.certain, self.bounds.get(name))
            self.tensors[name] = SymbolicTensor(storage, shape, dtype)
        return self.tensors[name]

    def number(self, name: str) -> Size:
        """Return a parameter as an integer."""
        self.numbers.add(name)
        return named(name)

    def copy(self) -> SizeRelations:
        """Return the relations that hold now."""
        return SizeRelations(self.known, self.partial)

    def restore(self, before: SizeRelations) -> None:
        """Replace the relations by those that held at a copy."""
        self.known, self.partial = before.known, before.partial

    def prefer(self, extent: Size, name: str) -> None:
        """Name a dim like the variable to which it is assigned."""
        if extent.name is not None:
            self.preferred.setdefault(extent.name, name)

    def resolved(self, size: Size) -> Size:
        """Return a size in which equal sizes have one name."""
        return self.known.resolved(size)

    def conditions(self) -> Iterator[tuple[str, Size, Size]]:
        """Yield comparisons between sizes that are neither equalities nor limits of one size."""
        for condition in self.known.others:
            if condition.sides is not None and condition.operator != "==":
                yield condition.operator, *condition.sides

    def assume(self, relations: Sequence[tuple[str, Value, Value]]) -> None:
        """Add comparisons that hold."""
        for sign, first, second in relations:
            left = self.number(first.name) if isinstance(first, Parameter) and _is_size(second) else first
            right = self.number(second.name) if isinstance(second, Parameter) and _is_size(first) else second
            if isinstance(left, ValueSequence) and isinstance(right, ValueSequence) and sign == "==":
                if len(left.items) == len(right.items):
                    # From the last one: of equal strides the extents follow from those of the axes after them.
                    pairs = list(zip(left.items, right.items, strict=True))[::-1]
                    self.assume([("==", one, two) for one, two in pairs])
            elif isinstance(left, Size) and isinstance(right, Size) and sign in COMPARISONS:
                self._compare(sign, self.resolved(left), self.resolved(right))
            elif isinstance(left, Size) and isinstance(right, ValueSequence) and sign == "in":
                values = [one for one in right.items if isinstance(one, Size)]
                self.partial = self.partial or len(values) < len(right.items)
                self._hold(any_of(Condition(None, "==", left, one) for one in values) if values else Condition())
            elif isinstance(left, Size) and isinstance(right, ValueSequence | Size):
                self.partial = True

    def _compare(self, sign: str, left: Size, right: Size) -> None:
        rest = left.atom
        if sign == "==" and right == ZERO and isinstance(rest, SizeOperation) and rest.operator == "%":
            whole, part = rest.left.name, rest.right.name
            if whole is not None and part is not None:
                self._hold(Condition(None, "==", named(whole), named(f"{whole}_per_{part}") * named(part)))
                return
        # Of two extents the first stands for both; a number of the caller stands for the extents equal to it.
        if sign == "==" and right.name is not None and (left.name is None or right.name not in self.numbers):
            left, right = right, left
        before = self.known.others
        self._hold(Condition(None, sign, left, right))
        added = [one for one in self.known.others if one not in before]
        self.partial = self.partial or any(one.operator == "==" for one in added)
        preferred = self.preferred.get(left.name or "")
        if sign == "==" and right.name is not None and preferred is not None:
            self.preferred.setdefault(right.name, preferred)

    def _hold(self, condition: Condition) -> None:
        """Add a condition, unless no sizes fulfil it."""
        self.known = self.known.assume(condition) or self.known


def _is_size(value: Value) -> bool:
    return isinstance(value, Size | ValueSequence)
