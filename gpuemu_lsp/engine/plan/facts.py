"""Facts about the launches of a kernel, each with its source.

A fact has a subject: a size, the extent of a buffer, the values of an argument, the block, the instance, the path to
the launch, or the relations between sizes. Its source is gpuemu.toml, a line of the host code, a recorded run, or
launches of the kernel that fitted it; where there is none of these it is assumed, for a reason. A finding depends on
subjects, and may claim what the weakest fact about them allows (:mod:`gpuemu_lsp.engine.check.claims`): an error rests
on no assumption.

Facts are made where a plan is made, and change in one place only: the search for lengths (:func:`with_extents`). What
gpuemu.toml states needs no record: a subject without a fact is stated.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field, replace
from enum import Flag, IntEnum, StrEnum, auto
from typing import TypeAlias

from gpuemu_lsp.engine.project.expressions import Binary, Expression, ExpressionError, Name, constant, evaluate

COMPARISONS: Mapping[str, Callable[[int, int], bool]] = {
    "==": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
Comparison: TypeAlias = tuple[str, Expression, Expression]
"""An operator of :data:`COMPARISONS` and its sides, over dims."""

_MOST_NAMED = 3
WARP = 32
"""Threads of a warp: sizes that differ by a multiple of it leave the lanes of a warp the same work."""


class Source(StrEnum):
    """Where a fact is from."""

    STATED = "stated"
    """gpuemu.toml."""
    READ = "read"
    """Host code, or the signature of the kernel."""
    RECORDED = "recorded"
    """A run of the program."""
    FITTED = "fitted"
    """Launches of the kernel, or the relation between recorded launches."""
    ASSUMED = "assumed"
    """None of these."""


class Claim(IntEnum):
    """What may be claimed of a finding, from the strongest claim to none."""

    ERROR = 0
    INFORMATION = 1
    NOT_CHECKED = 2
    """That the kernel was not checked: with what is assumed it need not run to completion."""
    NOTHING = 3
    """The assumption is arbitrary, such as that an unknown buffer has 65,536 elements: it is not evidence."""


@dataclass(frozen=True, slots=True)
class Fact:
    """The source of a fact about a subject.

    ``reason`` is a clause for the user that follows a message, such as "assumes a block of 256 threads"; only an
    assumption has one. ``claim`` is what a finding may claim that rests on it.
    """

    source: Source = Source.STATED
    reason: str = ""
    claim: Claim = Claim.ERROR


def assumed(reason: str, claim: Claim = Claim.INFORMATION) -> Fact:
    """Return the fact of an assumption."""
    return Fact(Source.ASSUMED, reason, claim)


STATED, READ, RECORDED, FITTED = map(Fact, (Source.STATED, Source.READ, Source.RECORDED, Source.FITTED))


class PlanOrigin(StrEnum):
    """From what a plan is made."""

    CONFIGURATION = "gpuemu.toml"
    HOST_CODE = "host code in C++"
    PYTHON = "a function in Python"
    SIGNATURE = "the kernel's signature"
    RECORDING = "a recorded run"


class Need(Flag):
    """How a finding depends on a size."""

    OCCURS = auto()
    """Some launch has the value."""
    SEVERAL = auto()
    """Some launch has a value with this remainder: the access is to several elements."""
    SEPARATE = auto()
    """Some launch has the value whatever the other sizes are, though it may appear in the extent of a buffer only."""
    GIVEN = auto()
    """The program is known to have the value: the kernel may demand it."""
    HANDLED = auto()
    """The program is known to have the value, or to launch the kernel for every one."""
    DETERMINED = auto()
    """The size is one that the program determines."""
    BEYOND_ARRAY = auto()
    """The size may exceed the length of an array of the kernel."""


@dataclass(frozen=True, slots=True)
class SizeFact:
    """The values that a size may have.

    ``values`` are known ones: of calls in the program, of its constants, of recorded launches. ``every``: it may have
    any value, as the launch rounds it up, or has a program for each. Else it may have multiples of ``multiple``, if
    that is not 0: kernels are written for sizes that a tile divides. ``guarded``: the kernel compares the index of each
    element with it. ``own`` is a constant of the program that smaller sizes stand for, and ``divisors`` are numbers by
    which the program divides it. ``separate``: the kernel is not passed it, so that callers may relate it to others.
    ``between``: values between the known ones occur too. ``free``: nothing shows what the size is of, such as a radius
    for which the kernel has an array; a value that is too large for one of its arrays then shows nothing.
    """

    source: Source
    values: frozenset[int] = frozenset()
    every: bool = False
    multiple: int = 0
    guarded: bool = False
    separate: bool = False
    between: bool = False
    own: int | None = None
    divisors: tuple[int, ...] = ()
    free: bool = False

    def fact(self, name: str, value: int, need: Need) -> Fact:
        """Return the fact that the size ``name`` has a value, for a need of it."""
        if Need.SEVERAL in need and not self._has_remainder(value):
            return assumed(f"assumes {name} = {value}; if it is always a multiple, set `multiple_of` in gpuemu.toml")
        if self._holds(value, need):
            return Fact(self.source)
        if self.free and Need.DETERMINED in need:
            return assumed(f"assumes {name} = {value}", Claim.NOTHING)
        # Smaller sizes that stand for a constant are not those of the program.
        known = sorted(self.values) if self.own is None else [self.own]
        calls = " or ".join(map(str, known[:_MOST_NAMED]))
        more = f" (the program has {name} = {calls})" if 0 < len(known) <= _MOST_NAMED else ""
        return assumed(f"assumes {name} = {value}{more}")

    def _holds(self, value: int, need: Need) -> bool:
        if Need.GIVEN in need:
            # A smaller size that stands for a constant of the program need not have its remainder.
            return value in self.values and (self.own is None or self._has_remainder(value))
        if Need.HANDLED in need:
            return value in self.values or self.every
        if Need.DETERMINED in need and self.source is Source.ASSUMED:
            return False
        if Need.BEYOND_ARRAY in need and self.source is Source.FITTED:
            return False
        if Need.SEPARATE in need and self.separate:
            return False
        if value in self.values or self.every or (self.guarded and Need.SEVERAL not in need):
            return True
        between = self.between and min(self.values, default=value + 1) <= value <= max(self.values, default=0)
        return between or bool(self.multiple and value % self.multiple == 0)

    def _has_remainder(self, value: int) -> bool:
        return self.source is not Source.FITTED if self.own is None else (value - self.own) % WARP == 0


@dataclass(frozen=True, slots=True)
class BufferFact:
    """Facts about the memory that a pointer parameter points to.

    ``extent`` is about its length, ``begin`` about the address being the first of an allocation, ``role`` about its
    being an input or an output, ``use`` about the program reading every element of an output. ``relation`` is about the
    length being independent of sizes that the kernel gets: it does not get those of this buffer, which callers or code
    that is not known determine, and the program does not compare them. ``length`` is the length, in values, if the
    assumption about the extent holds, such as that a tensor has no further dimensions.
    """

    extent: Fact = STATED
    begin: Fact = STATED
    role: Fact = STATED
    use: Fact = STATED
    relation: Fact = STATED
    length: Expression | None = None


class Tried(StrEnum):
    """Which numbers are tried in an argument: integers whose values are assumed, or any floating-point numbers."""

    RANGE = "range"
    """Those of its range, such as an enumerator."""

    ZEROS = "zeros"
    """Zeros are valid as indices and as numbers of iterations."""
    INDICES = "indices"
    """Zeros, and in half of the cases numbers below every size: they may be indices."""
    RISING = "rising"
    """Zeros, and in half of the cases small numbers that do not decrease: elements bound loops or are compared with the
    next one."""
    ANY = "any"
    """Zeros, and in half of the cases any numbers: the kernel only compares them and computes with them."""
    SPECIAL = "special"
    """Floating-point numbers, in one case with NaN and infinities, for which the kernel tests them."""


@dataclass(frozen=True, slots=True)
class ValueFact:
    """The source of the numbers that a buffer holds or a scalar has, and which are tried.

    ``constants`` are those of the kernel next to which values are worth a try.
    """

    source: Source
    tried: Tried = Tried.RANGE
    constants: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class BranchValues:
    """Constants that the two sides of a branch of the program give to dims: those of one side belong together.

    ``holds`` are those where the condition is true. ``operator`` is empty where the condition is not known.
    """

    holds: Mapping[str, int]
    fails: Mapping[str, int]
    operator: str = ""
    left: Expression | None = None
    right: Expression | None = None

    def sides(self, dims: Mapping[str, int]) -> list[Mapping[str, int]]:
        """Return the constants of the side that the program takes with these sizes; of both if that is not known."""
        compare = COMPARISONS.get(self.operator)
        if compare is None or self.left is None or self.right is None:
            return [self.holds, self.fails]
        return [self.holds if compare(evaluate(self.left, dims), evaluate(self.right, dims)) else self.fails]


@dataclass(frozen=True, slots=True)
class Path:
    """Facts about the path to the launch.

    ``conditions`` are comparisons between dims that hold wherever the program reaches it, ``branches`` what it assigns
    to dims on the way. ``selected`` is about the program selecting this kernel among several for these sizes,
    ``reached`` about its assertions holding. ``aliases`` are other names of dims, which conditions may have.
    """

    conditions: tuple[Comparison, ...] = ()
    branches: tuple[BranchValues, ...] = ()
    selected: Fact = READ
    reached: Fact = READ
    aliases: Mapping[str, str] = field(default_factory=dict)

    @property
    def multiples(self) -> tuple[tuple[str, str], ...]:
        """Pairs of dims of which the second must divide the first, as groups divide the channels."""
        pairs = []
        for compared, left, right in self.conditions:
            match left.root:
                case Binary("%", Name(whole), Name(part)) if compared == "==" and constant(right) == 0:
                    pairs.append((self.aliases.get(whole, whole), self.aliases.get(part, part)))
        return tuple(pairs)

    def allows(self, dims: Mapping[str, int]) -> bool:
        """Return whether the program reaches the launch with these sizes, as far as its conditions say."""
        env = {**{alias: dims[name] for alias, name in self.aliases.items() if name in dims}, **dims}
        for compared, left, right in self.conditions:
            try:
                if not COMPARISONS[compared](evaluate(left, env), evaluate(right, env)):
                    return False
            except ExpressionError:
                continue
        return True


@dataclass(frozen=True, slots=True)
class Facts:
    """All facts about the launches that one plan stands for.

    ``sizes`` are by dim, ``buffers`` by pointer parameter, ``values`` by argument: the integers that a buffer holds, or
    a scalar has. ``block`` is about the number of threads, and ``own_block`` says that the kernel is written for one
    number, as it does not read ``blockDim``. ``arrays`` is about the number of threads that the kernel's own arrays and
    barriers are for, ``instance`` about the launch being one of this kernel. ``relations`` is about sizes that are
    drawn independently of each other: a length that is not known could relate them. ``contents`` is about what memory
    holds besides integers: floating-point numbers and pointers.
    """

    origin: PlanOrigin
    sizes: Mapping[str, SizeFact] = field(default_factory=dict)
    buffers: Mapping[str, BufferFact] = field(default_factory=dict)
    values: Mapping[str, ValueFact] = field(default_factory=dict)
    block: Fact = STATED
    own_block: bool = False
    arrays: Fact = STATED
    instance: Fact = STATED
    relations: Fact = STATED
    contents: Fact = STATED
    path: Path = Path()

    def buffer(self, param: str) -> BufferFact:
        """Return the facts about a buffer."""
        return self.buffers.get(param, BufferFact())

    @property
    def assumed_extents(self) -> frozenset[str]:
        """The buffers whose length is assumed for lack of any evidence."""
        return frozenset(param for param, fact in self.buffers.items() if fact.extent.claim >= Claim.NOT_CHECKED)

    @property
    def open(self) -> bool:
        """Whether values, extents or relations of sizes are assumed."""
        return bool(self.assumed_values or self.assumed_extents) or self.relations.source is Source.ASSUMED

    @property
    def assumed_sizes(self) -> frozenset[str]:
        """The dims that neither the program nor the signature determines."""
        return frozenset(name for name, fact in self.sizes.items() if fact.source is Source.ASSUMED)

    @property
    def assumed_values(self) -> frozenset[str]:
        """The arguments whose integers are assumed."""
        return frozenset(param for param, fact in self.values.items() if fact.source is Source.ASSUMED)

    def program_sizes(self, names: Collection[str]) -> dict[str, int]:
        """Return the constants of the program that some dims stand for."""
        return {name: fact.own for name, fact in self.sizes.items() if fact.own is not None and name in names}

    def constants_not_met(self, dims: Mapping[str, int], names: Collection[str]) -> Iterator[Fact]:
        """Yield assumptions that sizes which stand for the program's constants are ordered and divided as these are.

        ``names`` are the dims on which a finding depends.
        """
        for branch in self.path.branches:
            sides = branch.sides(dims)
            if not any(all(dims.get(name) == value for name, value in side.items()) for side in sides):
                yield assumed(f"the program launches it with {' or '.join(map(_listed, sides))} only for these sizes")
        own = self.program_sizes(names)
        reason = assumed(f"the program launches it with {_listed(self.program_sizes(self.sizes))} only")
        drawn = {name: value for name, value in dims.items() if name in names}
        divisors = (
            (value, one) for name, value in drawn.items() if name in self.sizes for one in self.sizes[name].divisors
        )
        if any(value % divisor for value, divisor in divisors):
            yield reason
            return
        # A remainder that the program's size does not have is tried only where kernel and launch are for any size.
        pairs = [
            (value, dims[name]) for name, value in own.items() if name in dims and (value - dims[name]) % WARP == 0
        ]
        for larger, size in pairs:
            for other, other_size in pairs:
                if larger >= other and (size < other_size or (larger % other == 0 and size % other_size)):
                    yield reason
                    return


def with_extents(facts: Facts, buffers: Collection[str], fact: Fact | None = None, use: Fact | None = None) -> Facts:
    """Return the facts with another one about the extents of some buffers, and about the use of their elements."""
    changed = dict(facts.buffers)
    for param in buffers:
        before = facts.buffer(param)
        changed[param] = replace(before, extent=fact or before.extent, use=use or before.use)
    return replace(facts, buffers=changed)


def _listed(sizes: Mapping[str, int]) -> str:
    return ", ".join(f"{name} = {value}" for name, value in sizes.items())


CONFIGURED = Facts(PlanOrigin.CONFIGURATION)
"""The facts of a registered kernel: all of them are stated."""
