"""Records of a plan: arguments, sizes and launch of one kernel and dtype."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

from gpuemu_lsp.engine.findings import Finding, Place
from gpuemu_lsp.engine.project.expressions import Expression, ExpressionError, evaluate
from gpuemu_lsp.engine.project.model import ConstexprValue, DimSpec, KeywordValue
from gpuemu_lsp.engine.recordings.cases import RecordedLaunches

COMPARISONS: Mapping[str, Callable[[int, int], bool]] = {
    "==": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}


@dataclass(frozen=True, slots=True)
class StructMember:
    """The place of an argument in a struct parameter ``struct``, which has ``size`` bytes; ``offset`` is in bytes."""

    struct: str
    offset: int
    size: int


@dataclass(frozen=True, slots=True)
class TextureSpec:
    """How a texture object reads its memory: CUDA's numbers of the address modes, and the flags of its description."""

    modes: tuple[int, int, int] = (1, 1, 1)
    linear: bool = False
    normalised: bool = False
    as_float: bool = False


@dataclass(frozen=True, slots=True)
class TensorArg:
    """A pointer parameter.

    ``dtype`` is a NumPy or ml_dtypes name (``float16``, ``bfloat16``, ``int32``, ...). ``key`` is its name in the
    reference's inputs. ``range`` holds bounds as expressions or floats: half-open for integers, closed for floats.
    ``align`` is the smallest alignment in bytes to try.
    """

    param: str
    key: str
    direction: str  # "in" | "out" | "inout"
    dtype: str
    shape: tuple[Expression, ...]
    range: tuple[Expression | float, Expression | float] | None = None
    align: int | None = None
    strided: bool = False
    may_alias: str | None = None
    lanes: int = 1
    """Values in one C element: 4 for ``float4*``. The shape counts values, not C elements."""
    member: StructMember | None = None
    """The place in a struct that is passed by value; ``param`` is then ``p.x``."""
    compare: str = "elements"
    """Comparison of an output: ``elements``, ``sorted`` (any order in a row), ``set``, or ``none``."""
    transposed: bool = False
    """Also try memory in which the last two axes are exchanged, as that of ``x.T``."""
    pointer_offset: Expression | None = None
    """Bytes from the begin of the memory, whose shape is ``shape``, to the address that is passed; None for 0."""
    shares: str | None = None
    """An earlier tensor of the same shape and dtype whose memory this one always has."""
    initialized: Expression | None = None
    """Bytes from the begin that the program has written before the launch, where it has written no others."""
    texture: TextureSpec | None = None
    """The parameter is a texture or surface object for this memory, whose last axis has the channels of a texel."""
    assumed: bool = False
    """The program does not show its integers, and any may be tried: see ``check/policies/assumed_values``."""
    compared_with: tuple[int, ...] = ()
    """Of an ``assumed`` one: constants of the kernel next to which values are worth a try."""
    may_index: bool = False
    """As ``assumed``, but they may be indices: zeros are tried besides numbers below every size."""

    @property
    def ordered(self) -> bool:
        """Whether each element of the output has its own expected value."""
        return self.compare not in ("sorted", "set")


@dataclass(frozen=True, slots=True)
class ScalarArg:
    """A by-value parameter. ``dtype`` as above, or ``bool``; ``value`` an expression over dims or a number."""

    param: str
    key: str
    dtype: str
    value: Expression | float | bool
    member: StructMember | None = None
    """As for :class:`TensorArg`; ``param`` may be ``p.w[0]``, an element of an array."""
    constexpr: bool = False
    """A compile-time value of a Triton kernel, which is not passed to the launch."""


PlanArg: TypeAlias = "TensorArg | ScalarArg"


def parameters(args: Iterable[PlanArg]) -> list[tuple[PlanArg, ...]]:
    """Return the arguments by parameter of the C signature: one each, or the members of one struct."""
    found: list[tuple[PlanArg, ...]] = []
    for arg in args:
        before = found[-1][0].member if found else None
        if arg.member is not None and before is not None and before.struct == arg.member.struct:
            found[-1] = (*found[-1], arg)
        else:
            found.append((arg,))
    return found


@dataclass(frozen=True, slots=True)
class PythonChoice:
    """A compile-time value that is neither a number nor a boolean, by the value of a dim, from 1.

    ``dim`` is None if there is one value.
    """

    param: str
    values: tuple[ConstexprValue, ...]
    dim: str | None = None

    def value(self, dims: Mapping[str, int]) -> ConstexprValue:
        """Return the value for the sizes of a case."""
        return self.values[0 if self.dim is None else dims[self.dim] - 1]


@dataclass(frozen=True, slots=True)
class VariantLimit:
    """How many variants of a Triton kernel, of different compile-time values, drawn cases have.

    ``most`` does not count the values of flags and lists, each of which some case has. ``fixed`` are dims that have one
    value in all drawn cases.
    """

    most: int
    fixed: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class TritonOptions:
    """What Triton's compiler is given besides the arguments.

    ``options`` are those of the compiler, such as ``num_warps``, by name; ``choices`` the constexprs that are not
    scalars. ``configuration`` is the dim whose value is the number of the autotuner's configuration, from 1. Without a
    ``limit`` drawn cases have any number of variants.
    """

    options: tuple[tuple[str, Expression], ...] = ()
    choices: tuple[PythonChoice, ...] = ()
    configuration: str | None = None
    limit: VariantLimit | None = None


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


@dataclass(frozen=True, slots=True)
class ReadLaunch:
    """What a plan that follows from a launch in the program leaves open.

    ``uncertain`` are parameters whose extents are assumed. ``ragged`` are the dims for which the launch allows any
    value: it rounds them up, or has a program for each. ``values`` are those that calls in the program give to a dim.
    ``free`` are numbers that may depend on the extents in a way that is not known.
    ``tile`` is the largest compile-time size: the kernel may be written for multiples of it.
    """

    uncertain: frozenset[str] = frozenset()
    ragged: frozenset[str] = frozenset()
    values: Mapping[str, frozenset[int]] = field(default_factory=dict)
    tile: int = 128
    free: frozenset[str] = frozenset()
    unjudged: frozenset[str] = frozenset()
    """Outputs of which the program need not read every element."""
    unseen: frozenset[str] = frozenset()
    """Integer arguments whose values the program does not show."""
    assumed: frozenset[str] = frozenset()
    """Those of them that point to integers, which are zeros for that reason alone."""
    begins: frozenset[str] = frozenset()
    """Pointers to the begin of the memory that the host code has, also where its length is not known."""
    hidden: frozenset[str] = frozenset()
    """Sizes of buffers that callers give and the kernel is not passed: callers may relate them to those that it is."""
    ranks: Mapping[str, Expression] = field(default_factory=dict)
    """Lengths of tensors that may have no dimensions but those whose sizes the program reads."""
    host: bool = False
    """The launch is one of CUDA host code."""
    open_lengths: bool = False
    """The program does not show how large some buffers are."""
    program_sizes: Mapping[str, int] = field(default_factory=dict)
    """Constants of the program by the dim that replaces them: smaller sizes are faster to check."""
    divisors: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    """Constants by which the program divides a dim, and which divide its own size."""
    branches: tuple[BranchValues, ...] = ()
    bounded: frozenset[str] = frozenset()
    """Sizes with which the kernel compares each element's index."""
    conditions: tuple[tuple[str, Expression, Expression], ...] = ()
    """Comparisons between dims that hold wherever the program reaches the launch."""
    selected: bool = True
    """The sizes are those for which the program selects this kernel, where it selects one of several."""
    refuted: bool = False
    """An assertion of the program does not hold where it reaches the launch."""
    variant: str = ""
    """The kernel with the same parameters that the program launches this way, where it never launches this one."""

    def is_reached(self, dims: Mapping[str, int]) -> bool:
        """Return whether the program reaches the launch with these sizes, as far as its conditions say."""
        for compared, left, right in self.conditions:
            try:
                if not COMPARISONS[compared](evaluate(left, dims), evaluate(right, dims)):
                    return False
            except ExpressionError:
                continue
        return True


@dataclass(frozen=True, slots=True)
class Plan:
    """One kernel instance for one dtype.

    ``entry`` is the C++ name expression to compile (``softmax_rows<float>``). ``args`` follow the C signature, and the
    members of a struct its definition. ``dims`` are the symbolic sizes that the fuzzer chooses. ``inferred``: the
    arguments are not configured in gpuemu.toml; ``notes`` are the assumptions, for the ``config/launch-inferred`` hint.
    """

    kernel: str
    entry: str
    dtype: str
    args: tuple[PlanArg, ...]
    dims: tuple[DimSpec, ...]
    grid: tuple[Expression, ...]
    block: tuple[Expression, ...]
    shared: Expression
    place: Place
    inferred: bool = False
    notes: tuple[str, ...] = ()
    assumed_block: bool = False
    """The block size is a guess, so a fault that depends on the block size is not reported."""
    fixed_block: bool = False
    """``assumed_block``, and the kernel does not read ``blockDim``: it is written for one unknown block size."""
    unknown_sizes: frozenset[str] = frozenset()
    """Dims of an inferred plan that are numbers of the launch which the program does not determine."""
    uncertain_lengths: frozenset[str] = frozenset()
    """Tensors of an inferred plan whose length the probe could not determine."""
    triton: TritonOptions | None = None
    """For a Triton kernel, whose ``entry`` is the name of its function."""
    read_launch: ReadLaunch | None = None
    """For an unregistered kernel whose plan follows from a launch in the program."""
    alternative: Plan | None = None
    """For an inferred plan: that of a launch in the program which leaves lengths of buffers open."""
    kwargs: Mapping[str, KeywordValue] = field(default_factory=dict)
    """For an op: keyword arguments of it and of its reference."""
    recorded: RecordedLaunches | None = None
    """For an unregistered kernel that a recorded run has launched."""

    @property
    def launched(self) -> bool:
        """Whether a launch in the program determines it."""
        return self.read_launch is not None and self.read_launch.host and not self.inferred

    @property
    def guessed(self) -> bool:
        """Whether it follows from the signature alone: no launch that the program reaches is known."""
        return self.inferred and self.read_launch is None and self.alternative is None


@dataclass(frozen=True, slots=True)
class PlanResult:
    """The plans of a kernel, one per dtype, or none and findings that say what is missing.

    ``entries`` are the name expressions to compile, also those without a plan. ``guessed``: the template arguments of
    some entry are neither configured nor used by a launch.
    """

    plans: tuple[Plan, ...]
    entries: tuple[str, ...]
    findings: tuple[Finding, ...]
    guessed: bool = False
