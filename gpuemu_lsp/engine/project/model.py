"""Records of a loaded gpuemu.toml. The schema of the original is a subset."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

from gpuemu_lsp.engine.findings import Finding, Place
from gpuemu_lsp.engine.project.expressions import Expression


@dataclass(frozen=True, slots=True)
class DimSpec:
    """A symbolic size, fixed if ``minimum == maximum``. ``include`` are values that the fuzzer always tries.

    ``choices``, when not empty, are the only values allowed (``minimum`` and ``maximum`` are then its ends).
    """

    name: str
    minimum: int | None = None
    maximum: int | None = None
    include: tuple[int, ...] = ()
    multiple_of: int = 1
    choices: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class PointerSpec:
    """A pointer argument: ``x = { in = ["rows", "cols"], range = [0, "cols"], as = "logits" }``."""

    direction: str  # "in" | "out" | "inout"
    shape: tuple[Expression, ...]
    key: str | None = None
    range: tuple[Expression | float, Expression | float] | None = None
    dtype: str | None = None
    align: int | None = None
    strided: bool = False
    may_alias: str | None = None
    compare: str = "elements"  # "elements" | "sorted" | "set" | "none"
    strides: tuple[Expression, ...] = ()  # in elements, of a tensor that a program passes otherwise than contiguous


@dataclass(frozen=True, slots=True)
class ScalarSpec:
    """A scalar argument: a number, a boolean or an expression over dims. ``key`` is its name in the reference."""

    value: Expression | float | bool
    key: str | None = None


@dataclass(frozen=True, slots=True)
class PythonValue:
    """A compile-time value of Triton that is written as in Python: ``'sum'``, ``None``, ``tl.float16``."""

    text: str


KeywordValue: TypeAlias = "bool | int | float | str | tuple[bool | int | float | str, ...]"
"""A keyword argument of an op, passed on as it is."""
ConstexprValue: TypeAlias = "Expression | PythonValue | float | bool"


@dataclass(frozen=True, slots=True)
class LaunchSpec:
    """Grid and block, one to three expressions each, and dynamic shared memory in bytes.

    ``num_warps`` and ``num_stages`` are options of Triton's compiler; several values are all tried.
    """

    grid: tuple[Expression, ...] | None = None
    block: tuple[Expression, ...] | None = None
    shared: Expression | None = None
    num_warps: tuple[int, ...] = ()
    num_stages: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Tolerance:
    """Accepts ``|out - ref| <= atol + rtol * |ref|``. A bare number t is atol = rtol = t."""

    atol: float
    rtol: float


@dataclass(frozen=True, slots=True)
class Invariants:
    """Claims about all outputs."""

    no_nan: bool = False
    no_inf: bool = False
    non_negative: bool = False
    shape_preserved: bool = False


@dataclass(frozen=True, slots=True)
class ArtifactChecks:
    """Limits on the compiled kernel, if the entry has the table; missing keys have these defaults."""

    max_registers: int = 64
    max_spills: int = 0
    max_local_memory: int = 0
    required_patterns: tuple[str, ...] = ()
    forbidden_patterns: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class OpSpec:
    """How one ``[[ops]]`` entry is called.

    ``folder`` is that of gpuemu.toml, from which ``target`` (``module:function``) is imported. ``run_file`` with
    ``run_function`` and ``op_script`` are absolute paths. ``target``, ``run_file`` and ``op_script`` exclude each
    other; without any of them the op cannot be run here. ``layouts`` are the memory layouts to try, None for those of
    the way it is called. ``schema`` is an absolute path, ``python`` that of the interpreter, None for the project's.
    """

    folder: str
    target: str | None = None
    run_file: str | None = None
    run_function: str = "run"
    op_script: str | None = None
    module: str | None = None
    input_names: tuple[str, ...] = ()
    execution_mode: str = "client_side"
    frameworks: tuple[str, ...] = ()
    layouts: tuple[str, ...] | None = None
    schema: str | None = None
    python: str | None = None
    kwargs: Mapping[str, KeywordValue] = field(default_factory=dict)
    """Keyword arguments of the op and of its reference."""

    @property
    def runnable(self) -> bool:
        """Whether gpuemu.toml says what to call."""
        return (self.target or self.run_file or self.op_script) is not None


@dataclass(frozen=True, slots=True)
class KernelSpec:
    """One ``[[kernels]]`` entry. ``source``, ``reference``, ``include_dirs`` are absolute paths.

    ``places`` maps the dotted key (``"name"``, ``"dims.rows.max"``, ``"args.x.in"``, ``"launch.grid"``,
    ``"artifact_checks.max_registers"``) to the place of its value; ``""`` is the ``[[kernels]]`` header itself.
    ``dims``, ``args`` and ``dtypes`` are None if absent, and then inferred. ``reference_function`` is the function of
    the reference script to call (``reference = "ref.py:softmax"``).
    ``like`` is the name of the base entry; ``inherited`` are the dotted keys that come from it, whose places are in the
    entry in which they are written.
    """

    name: str
    source: str
    reference: str | None
    entry: str | None = None
    dtypes: tuple[str, ...] | None = None
    arch: tuple[str, ...] = ("sm_80",)
    compile_options: tuple[str, ...] = ()
    include_dirs: tuple[str, ...] = ()
    dims: Mapping[str, DimSpec] | None = None
    args: Mapping[str, PointerSpec | ScalarSpec] | None = None
    launch: LaunchSpec | None = None
    tolerances: Mapping[str, Tolerance] = field(default_factory=dict)
    invariants: Invariants = Invariants()
    artifact_checks: ArtifactChecks | None = None
    places: Mapping[str, Place] = field(default_factory=dict)
    reference_function: str = "reference"
    like: str | None = None
    inherited: frozenset[str] = frozenset()
    language: str | None = None
    """``cuda``, ``triton`` or ``pyptx``; None if the source decides."""
    constexprs: Mapping[str, tuple[ConstexprValue, ...]] = field(default_factory=dict)
    """Values of ``tl.constexpr`` parameters by name; several are all tried."""
    string: int | None = None
    """For a ``.py`` source: the number of the string with the CUDA code, in the order of the calls that compile it."""
    variable: str | None = None
    """For a ``.py`` source: the name that holds the CUDA code or its compiled form (``source = "model.py:NAME"``)."""
    op: OpSpec | None = None
    """For an op, which runs in Python: how it is called. ``source`` is then its file if that is in the project, else
    gpuemu.toml."""


@dataclass(frozen=True, slots=True)
class Validation:
    """The ``[validation]`` table. Its tolerances are already merged into those of every kernel and op."""

    seed: int | None = None
    check_nan: bool = True
    check_inf: bool = True
    dtypes: tuple[str, ...] = ()
    tolerances: Mapping[str, Tolerance] = field(default_factory=dict)
    strict_fences: bool = False


@dataclass(frozen=True, slots=True)
class BuildTable:
    """The ``[build]`` table: how the sources are compiled. All paths are absolute.

    With ``detect``, the project's own build files are read too.
    """

    include_dirs: tuple[str, ...] = ()
    compile_options: tuple[str, ...] = ()
    arch: tuple[str, ...] = ()
    compile_commands: str | None = None
    python: str | None = None
    detect: bool = True


@dataclass(frozen=True, slots=True)
class Policies:
    """``[policies]`` and ``[ci]``."""

    fail_on_regression: bool = True
    warn_threshold: float = 0.1
    quick_dtypes: tuple[str, ...] = ()
    thorough_timeout: int = 3600
    parallel_jobs: int = 4


@dataclass(frozen=True, slots=True)
class Project:
    """A loaded gpuemu.toml, or the empty project of a folder without one (``config`` is None).

    ``kernels`` has the ``[[kernels]]`` entries, then the ``[[ops]]`` entries.

    ``findings`` has all errors. A kernel whose entry has an error is in ``broken`` by its name (``"#3"`` for the third
    entry if it has none) and not in ``kernels``, because a partial configuration would be another check than the one
    intended. Other entries are not affected. ``version`` and ``framework`` are only displayed.
    """

    root: str
    config: str | None
    name: str = "unnamed"
    kernels: tuple[KernelSpec, ...] = ()
    validation: Validation = Validation()
    build: BuildTable = BuildTable()
    policies: Policies = Policies()
    executor: str = "auto"
    findings: tuple[Finding, ...] = ()
    broken: tuple[str, ...] = ()
    version: str | None = None
    framework: str | None = None
