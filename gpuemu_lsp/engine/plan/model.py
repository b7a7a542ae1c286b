"""Records of a plan: arguments, sizes and launch of one kernel and dtype."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

from gpuemu_lsp.engine.findings import Finding, Place
from gpuemu_lsp.engine.plan.facts import CONFIGURED, Facts, PlanOrigin, SizeFact, Source
from gpuemu_lsp.engine.project.expressions import Expression
from gpuemu_lsp.engine.project.model import ConstexprValue, DimSpec, KeywordValue
from gpuemu_lsp.engine.recordings.cases import RecordedLaunches


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
    strides: tuple[Expression, ...] = ()
    """Those in elements that a program passes, by axis; empty for a contiguous tensor."""

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


def parameter_name(args: tuple[PlanArg, ...]) -> str:
    """Return the name of a parameter of the C signature: that of its argument, or of the struct."""
    member = args[0].member
    return args[0].param if member is None else member.struct


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
    facts: Facts = CONFIGURED
    """Facts about its launches, with their sources."""
    triton: TritonOptions | None = None
    """For a Triton kernel, whose ``entry`` is the name of its function."""
    alternative: Plan | None = None
    """For an inferred plan: that of a launch in the program which leaves lengths of buffers open."""
    kwargs: Mapping[str, KeywordValue] = field(default_factory=dict)
    """For an op: keyword arguments of it and of its reference."""
    recorded: RecordedLaunches | None = None
    """For an unregistered kernel that a recorded run has launched."""

    @property
    def launched(self) -> bool:
        """Whether a launch in the host code determines it."""
        return self.facts.origin is PlanOrigin.HOST_CODE and not self.inferred

    @property
    def guessed(self) -> bool:
        """Whether it follows from the signature alone: no launch that the program reaches is known."""
        return self.inferred and self.facts.origin is not PlanOrigin.HOST_CODE and self.alternative is None


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


@dataclass(frozen=True, slots=True)
class ResolvedLaunch:
    """Grid, block and shared memory in bytes, as expressions over dims.

    ``notes`` are the assumptions made; ``problem`` is the reason where no launch was found.
    """

    grid: tuple[Expression, ...] = ()
    block: tuple[Expression, ...] = ()
    shared: Expression | None = None
    notes: tuple[str, ...] = ()
    problem: str | None = None
    from_source: bool = False
    assumed_block: bool = False
    fixed_block: bool = False
    host_sizes: tuple[DimSpec, ...] = ()
    """Sizes that only the launch has: ``rows`` blocks for a kernel without a parameter for the number of rows."""
    undecided: frozenset[str] = frozenset()
    """Sizes of which nothing shows that they may be any, such as a radius for which the kernel has an array."""
    less: frozenset[str] = frozenset()
    """Sizes for which the program passes less than one of its own, as ``n - 1``: its buffers may have more elements."""

    def fact_of(self, size: str) -> SizeFact:
        """Return the fact about a size: any value, unless only the launch has it or nothing shows what it is of."""
        if size in self.undecided:
            return SizeFact(Source.ASSUMED, free=True)
        is_parameter = all(dim.name != size for dim in self.host_sizes)
        return SizeFact(Source.FITTED if is_parameter else Source.ASSUMED, every=True)
