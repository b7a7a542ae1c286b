"""gpuemu.toml as frozen records (DESIGN section 4; the schema of the original is a subset)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from gpuemu_lsp.engine.findings import Finding, Place
from gpuemu_lsp.engine.project.expressions import Expression


@dataclass(frozen=True, slots=True)
class DimSpec:
    """A symbolic size. Fixed when ``minimum == maximum``. ``include`` are values the fuzzer always tries."""

    name: str
    minimum: int | None = None
    maximum: int | None = None
    include: tuple[int, ...] = ()
    multiple_of: int = 1


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
    """A scalar argument: a number or an expression over dims. A list of choices is tried in turn."""

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


@dataclass(frozen=True, slots=True)
class Validation:
    """The ``[validation]`` table."""

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
    quick_dtypes: tuple[str, ...] = ("float32",)
    thorough_timeout: int = 3600
    parallel_jobs: int = 4


@dataclass(frozen=True, slots=True)
class OpSpec:
    """One ``[[ops]]`` entry: read and validated, not yet run."""

    name: str
    reference: str
    place: Place


@dataclass(frozen=True, slots=True)
class Project:
    """A loaded gpuemu.toml, or the empty project of a folder without one (``config`` is None).

    ``findings`` has every mistake at once; kernels whose entry is unusable are left out of ``kernels`` (and are named
    in ``broken``), the others stand.
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
