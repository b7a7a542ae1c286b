"""gpuemu.toml as frozen records (DESIGN section 4; the schema of the original is a subset)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from gpuemu_lsp.engine.findings import Finding, Place
from gpuemu_lsp.engine.project.expressions import Expression


@dataclass(frozen=True, slots=True)
class DimSpec:
    """A symbolic size. Fixed when ``minimum == maximum``. ``include`` are values the fuzzer always tries.

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


@dataclass(frozen=True, slots=True)
class ScalarSpec:
    """A scalar argument: a number, a boolean or an expression over dims. ``key`` is what the reference sees."""

    value: Expression | float | bool
    key: str | None = None


@dataclass(frozen=True, slots=True)
class LaunchSpec:
    """Grid and block as one to three expressions each; dynamic shared memory in bytes."""

    grid: tuple[Expression, ...] | None = None
    block: tuple[Expression, ...] | None = None
    shared: Expression | None = None


@dataclass(frozen=True, slots=True)
class Tolerance:
    """Accept when ``|out - ref| <= atol + rtol * |ref|``. A bare number t means atol = rtol = t."""

    atol: float
    rtol: float


@dataclass(frozen=True, slots=True)
class Invariants:
    """Structural claims about the outputs."""

    no_nan: bool = False
    no_inf: bool = False
    non_negative: bool = False
    shape_preserved: bool = False


@dataclass(frozen=True, slots=True)
class ArtifactChecks:
    """Limits on the compiled kernel. Present only when the toml has the table; missing keys take the defaults."""

    max_registers: int = 64
    max_spills: int = 0
    max_local_memory: int = 0
    required_patterns: tuple[str, ...] = ()
    forbidden_patterns: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class KernelSpec:
    """One ``[[kernels]]`` entry. ``source``, ``reference``, ``include_dirs`` are absolute paths.

    ``places`` maps the dotted key (``"name"``, ``"dims.rows.max"``, ``"args.x.in"``, ``"launch.grid"``,
    ``"artifact_checks.max_registers"``) to where its value stands; ``""`` is the ``[[kernels]]`` header itself.
    ``dims``, ``args`` are None when the table is absent (they are then inferred), ``dtypes`` too.
    ``reference_function`` is the function of the reference script to call (``reference = "ref.py:softmax"``).
    ``like`` is the name of the entry this one is derived from; ``inherited`` are the dotted keys taken over from it,
    whose places lie in the entry they are written in.
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


@dataclass(frozen=True, slots=True)
class Validation:
    """The ``[validation]`` table. Its tolerances are already merged into every kernel's and op's own."""

    seed: int | None = None
    check_nan: bool = True
    check_inf: bool = True
    dtypes: tuple[str, ...] = ()
    tolerances: Mapping[str, Tolerance] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Policies:
    """``[policies]`` and ``[ci]``."""

    fail_on_regression: bool = True
    warn_threshold: float = 0.1
    quick_dtypes: tuple[str, ...] = ()
    thorough_timeout: int = 3600
    parallel_jobs: int = 4


@dataclass(frozen=True, slots=True)
class OpSpec:
    """One ``[[ops]]`` entry: read and validated, not yet run. ``reference`` and ``op_script`` are absolute paths."""

    name: str
    reference: str
    place: Place
    module: str | None = None
    op_script: str | None = None
    input_names: tuple[str, ...] = ()
    execution_mode: str = "client_side"
    frameworks: tuple[str, ...] = ()
    tolerances: Mapping[str, Tolerance] = field(default_factory=dict)
    invariants: Invariants = Invariants()
    reference_function: str = "reference"


@dataclass(frozen=True, slots=True)
class Project:
    """A loaded gpuemu.toml, or the empty project of a folder without one (``config`` is None).

    ``findings`` has every mistake at once. A kernel whose entry has any error is left out of ``kernels`` and named in
    ``broken`` (``"#3"`` for the third entry when it has no usable name): half of a configuration would be another check
    than the one asked for. The others stand. ``version`` and ``framework`` are only for display.
    """

    root: str
    config: str | None
    name: str = "unnamed"
    kernels: tuple[KernelSpec, ...] = ()
    ops: tuple[OpSpec, ...] = ()
    validation: Validation = Validation()
    policies: Policies = Policies()
    executor: str = "auto"
    findings: tuple[Finding, ...] = ()
    broken: tuple[str, ...] = ()
    version: str | None = None
    framework: str | None = None
