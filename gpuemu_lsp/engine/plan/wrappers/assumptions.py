"""What the text of a function says about its parameters: ranks of tensors, equal sizes, bounds and divisors."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeAlias

from gpuemu_lsp.engine.plan.facts import COMPARISONS
from gpuemu_lsp.engine.plan.wrappers.values import (
    Parameter,
    Storage,
    SymbolicTensor,
    Value,
    ValueSequence,
    combined,
    named,
    rebuilt,
    substituted,
)
from gpuemu_lsp.engine.project.expressions import Binary, Call, Expression, Name, Number, constant, names

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


@dataclass(slots=True)
class SizeLimits:
    """Values that a size can have, as assertions state them."""

    minimum: int = 1
    maximum: int | None = None
    multiple_of: int = 1
    choices: tuple[int, ...] = ()


Condition: TypeAlias = "tuple[str, Expression, Expression]"
"""A comparison of two sizes that holds: operator, left and right side."""


@dataclass(frozen=True, slots=True)
class SizeRelations:
    """Equal sizes, limits of sizes, other comparisons that hold, and whether a condition is not understood."""

    equal: Mapping[str, Expression]
    limits: Mapping[str, SizeLimits]
    conditions: tuple[Condition, ...]
    partial: bool


@dataclass(slots=True)
class Assumptions:
    """Tensors and numbers of the parameters of one function, and relations between sizes.

    ``text`` is that of the function. ``equal`` replaces dims by equal sizes; ``preferred`` has the variables to which
    extents are assigned, as names for them.
    """

    text: str
    ranks: dict[str, TensorRank] = field(default_factory=dict)
    dtypes: Mapping[str, str] = field(default_factory=dict)
    bounds: Mapping[str, tuple[Expression, Expression]] = field(default_factory=dict)
    equal: dict[str, Expression] = field(default_factory=dict)
    limits: dict[str, SizeLimits] = field(default_factory=dict)
    preferred: dict[str, str] = field(default_factory=dict)
    tensors: dict[str, SymbolicTensor] = field(default_factory=dict)
    numbers: set[str] = field(default_factory=set)
    conditions: tuple[Condition, ...] = ()
    """Comparisons between sizes that are neither equalities nor limits of one size."""
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
                self.equal.setdefault(f"{name}_{axis}", extent)

    def tensor(self, name: str) -> SymbolicTensor:
        """Return a parameter as a tensor."""
        if name not in self.tensors:
            rank = self.rank(name)
            shape = tuple(named(f"{name}_{axis}") for axis in range(rank.rank))
            dtype = self.dtypes.get(name, "")
            storage = Storage(name, shape, dtype, "given", rank.certain, self.bounds.get(name))
            self.tensors[name] = SymbolicTensor(storage, shape, dtype)
        return self.tensors[name]

    def number(self, name: str) -> Expression:
        """Return a parameter as an integer."""
        self.numbers.add(name)
        return named(name)

    def copy(self) -> SizeRelations:
        """Return the relations that hold now."""
        limits = {name: replace(one) for name, one in self.limits.items()}
        return SizeRelations(dict(self.equal), limits, self.conditions, self.partial)

    def restore(self, before: SizeRelations) -> None:
        """Replace the relations by those that held at a copy."""
        self.equal, self.conditions, self.partial = dict(before.equal), before.conditions, before.partial
        self.limits = {name: replace(one) for name, one in before.limits.items()}

    def prefer(self, extent: Expression, name: str) -> None:
        """Name a dim like the variable to which it is assigned."""
        if isinstance(extent.root, Name):
            self.preferred.setdefault(extent.root.name, name)

    def resolved(self, expression: Expression) -> Expression:
        """Return an expression in which equal sizes have one name."""
        for _ in range(8):
            if not names(expression) & set(self.equal):
                break
            expression = substituted(expression, self.equal)
        return expression

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
            elif isinstance(left, Expression) and isinstance(right, ValueSequence | Expression):
                self._compare(sign, self.resolved(left), right)

    def _compare(self, sign: str, left: Expression, right: Value) -> None:
        if sign == "in" and isinstance(right, ValueSequence) and isinstance(left.root, Name):
            values = [constant(one) for one in right.items if isinstance(one, Expression)]
            if len(values) == len(right.items) and None not in values:
                self._limits(left.root.name).choices = tuple(sorted({one for one in values if one is not None}))
            else:
                self.partial = True
        if not isinstance(right, Expression):
            self.partial = self.partial or sign != "in"
            return
        right = self.resolved(right)
        if sign in ("<", "<=") and isinstance(right.root, Call) and right.root.function == "min":
            for one in right.root.arguments:
                self._compare(sign, left, rebuilt(one, {}))
            return
        if sign == "<=" and right.root == Call("next_pow2", (left.root,)):
            return
        number = constant(right)
        if sign == "==" and isinstance(left.root, Binary) and left.root.operator == "%":
            self._divide(left.root, number)
        elif sign == "==":
            self._unify(left, right)
        elif isinstance(left.root, Name) and number is not None:
            self._bound(self._limits(left.root.name), sign, number)
        elif isinstance(right.root, Name) and (first := constant(left)) is not None:
            flipped = {"<": ">", ">": "<", "<=": ">=", ">=": "<="}
            self._bound(self._limits(right.root.name), flipped.get(sign, sign), first)
        elif sign in COMPARISONS:
            self.conditions = (*self.conditions, (sign, left, right))
        else:
            self.partial = True

    def _divide(self, root: Binary, number: int | None) -> None:
        if number == 0 and isinstance(root.left, Name) and isinstance(root.right, Number) and root.right.value > 0:
            limits = self._limits(root.left.name)
            limits.multiple_of = math.lcm(limits.multiple_of, root.right.value)
        elif number == 0 and isinstance(root.left, Name) and isinstance(root.right, Name):
            whole, part = root.left.name, root.right.name
            if whole in self.limits or whole in self.equal:
                self.partial = True
            else:
                self.equal[whole] = combined("*", named(f"{whole}_per_{part}"), named(part))
        else:
            self.partial = True

    def _unify(self, left: Expression, right: Expression) -> None:
        if left == right:
            return
        factors = _unequal_factors(left, right)
        if factors is not None:
            self._unify(*factors)
            return
        # Of two extents the first stands for both; a number of the caller stands for the extents equal to it.
        if isinstance(right.root, Name) and (not isinstance(left.root, Name) or right.root.name not in self.numbers):
            left, right = right, left
        if isinstance(left.root, Name) and left.root.name not in names(right):
            self.equal[left.root.name] = right
            self._merge(left.root.name, right)
        else:
            self.partial = True

    def _merge(self, name: str, right: Expression) -> None:
        old, preferred = self.limits.pop(name, None), self.preferred.get(name)
        if isinstance(right.root, Name):
            if preferred is not None:
                self.preferred.setdefault(right.root.name, preferred)
            if old is not None:
                kept = self._limits(right.root.name)
                kept.multiple_of = math.lcm(kept.multiple_of, old.multiple_of)
                kept.choices = kept.choices or old.choices
                kept.minimum = max(kept.minimum, old.minimum)

    def _limits(self, name: str) -> SizeLimits:
        return self.limits.setdefault(name, SizeLimits())

    @staticmethod
    def _bound(limits: SizeLimits, sign: str, number: int) -> None:
        if sign in ("<", "<="):
            limits.maximum = min(limits.maximum or number, number - (sign == "<"))
        elif sign in (">", ">="):
            limits.minimum = max(limits.minimum, number + (sign == ">"))


def _unequal_factors(left: Expression, right: Expression) -> tuple[Expression, Expression] | None:
    """Return the factors in which two products of two factors differ; None unless they have one in common."""
    one, two = left.root, right.root
    if not (isinstance(one, Binary) and isinstance(two, Binary) and one.operator == two.operator == "*"):
        return None
    if one.left == two.left:
        return rebuilt(one.right, {}), rebuilt(two.right, {})
    return (rebuilt(one.left, {}), rebuilt(two.left, {})) if one.right == two.right else None


def _is_size(value: Value) -> bool:
    return isinstance(value, Expression | ValueSequence)
