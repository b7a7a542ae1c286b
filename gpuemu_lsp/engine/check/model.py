"""What a check takes and what it streams."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

from gpuemu_lsp.engine.compile.model import ResourceUsage
from gpuemu_lsp.engine.findings import Finding, Severity
from gpuemu_lsp.engine.project.model import KernelSpec, Validation

DEFAULT_SEED = 42
DEFAULT_CASES = 16
FIRST_CASES = 8
"""So many run whatever they cost. The others of a check without a number run only while those before were cheap."""
CHEAP = 200_000
"""Elements of inputs and steps of the emulator, of all cases of a dtype: no clock, so a slow machine runs as many."""
DEFAULT_STRATEGY = "quick"


@dataclass(frozen=True, slots=True)
class CheckOptions:
    """How much to run. What is correct never depends on them; only gpuemu.toml says that.

    ``cases`` is per dtype; without a number they are as many as a save can afford (:attr:`most`). ``arch`` overrides
    the configured architectures. ``execute`` False stops after lint (an untrusted workspace). ``seed_given`` says the
    user chose the seed, so that ``[validation].seed`` does not. ``store_root`` is the folder whose ``.gpuemu/`` keeps
    failures, None to keep none.
    """

    cases: int | None = None
    seed: int = DEFAULT_SEED
    seed_given: bool = False
    arch: str | None = None
    executor: str = "auto"
    execute: bool = True
    store_root: str | None = None
    max_failures: int = 3
    case_seconds: float = 10.0
    strategy: str = DEFAULT_STRATEGY
    dtypes: tuple[str, ...] = ()
    """Only these dtypes are run, of a kernel that has any of them; empty for all."""
    coverage: bool = False
    """Whether the report tells which lines and branches were reached. From the ninth case on, every other case is then
    made to reach what no case has reached yet."""
    unoptimized: bool = False
    """Run some of the cases once more on PTX that was compiled without optimisation (the deep check)."""
    counters: bool = False
    """Run the largest clean case once more and count what it does: memory traffic, bank conflicts, idle lanes."""
    seconds: float | None = None
    """No new case is begun after so long, however many were asked for; the first one always runs."""

    @property
    def most(self) -> int:
        """The largest number of cases per dtype."""
        return DEFAULT_CASES if self.cases is None else self.cases


@dataclass(frozen=True, slots=True)
class CheckRequest:
    """One kernel to check. ``text`` is an editor's unsaved buffer, None to read the file.

    ``overlay`` has texts of headers that an editor has not saved, by absolute path.
    ``registered`` is False for a kernel that no gpuemu.toml mentions.
    """

    spec: KernelSpec
    options: CheckOptions = CheckOptions()
    validation: Validation = Validation()
    registered: bool = True
    text: str | None = None
    root: str = "."
    overlay: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Stage:
    """Where a check is: ``compile``, ``reference``, ``execute``, ... with a count where there is one."""

    kernel: str
    stage: str
    done: int = 0
    total: int = 0


@dataclass(frozen=True, slots=True)
class CaseCount:
    """Cases executed and judged, and how many of them were clean."""

    run: int = 0
    passed: int = 0


@dataclass(frozen=True, slots=True)
class DtypeMeasurements:
    """The numbers of one dtype of a kernel.

    ``errors`` has one figure per compared case: the largest error over the largest magnitude of the output.
    ``max_diff`` is the largest absolute error of them all, ``worst`` as in :class:`KernelReport`. Without a reference
    nothing is compared, and ``errors`` is empty. ``needed`` has, by the dtype of an output, the least tolerance that
    each of those cases needs.
    """

    dtype: str
    cases: CaseCount = CaseCount()
    max_diff: float = 0.0
    worst: float | None = None
    errors: tuple[float, ...] = ()
    needed: Mapping[str, tuple[float, ...]] = field(default_factory=dict)

    @property
    def relative(self) -> float:
        """The largest of the errors."""
        return max(self.errors, default=0.0)


@dataclass(frozen=True, slots=True)
class BranchOutcome:
    """One way a branch can go: to the line ``to`` (0-based; None: out of the kernel, or past what is guarded)."""

    to: int | None
    reached: bool


@dataclass(frozen=True, slots=True)
class LineCoverage:
    """A 0-based line of a source that is code, whether a case reached it, and the ways out of its branches."""

    path: str
    line: int
    reached: bool
    ways: tuple[BranchOutcome, ...] = ()


@dataclass(frozen=True, slots=True)
class LineTraffic:
    """The requests of a line to one space: ``kind`` is load, store, copy or atomic. A request is that of a warp.

    ``bytes`` is what lanes asked for; ``units`` the sectors (global) or passes over the banks (shared) that took,
    ``least`` the fewest that could have held the same bytes.
    """

    space: str
    kind: str
    requests: int
    bytes: int
    units: int
    least: int


@dataclass(frozen=True, slots=True)
class LineCounters:
    """A 0-based line: instructions of a warp, the lanes that ran them, and what went to memory."""

    path: str
    line: int
    instructions: int
    lanes: int
    traffic: tuple[LineTraffic, ...] = ()


@dataclass(frozen=True, slots=True)
class KernelCounters:
    """One case of one dtype: the largest that was clean.

    ``bytes`` is what global memory moves, in whole sectors and without caches; ``touched`` what it would move with
    perfect ones. ``operations`` are floating-point additions and multiplications, a fused one two.
    """

    dtype: str
    case: str
    dims: Mapping[str, int] = field(default_factory=dict)
    instructions: int = 0
    lanes: int = 0
    operations: int = 0
    bytes: int = 0
    touched: int = 0
    lines: tuple[LineCounters, ...] = ()

    @property
    def intensity(self) -> float | None:
        """Operations per byte moved; None where nothing is moved."""
        return self.operations / self.bytes if self.bytes else None


@dataclass(frozen=True, slots=True)
class KernelReport:
    """The verdict on one kernel.

    ``status`` is ``passed``, ``failed``, ``error`` (it could not be judged: compile or reference trouble),
    ``unreferenced`` (it ran clean under the checkers, but no reference says what is right) or ``not-executed``.
    ``worst`` is the largest error of any passed case as a fraction of what was allowed. ``registered`` says that a
    gpuemu.toml names the kernel: one that then did not run is a failure of the configuration.
    """

    name: str
    source: str
    status: str
    compiled: bool
    executor: str = "emulator"
    cases: CaseCount = CaseCount()
    resources: Mapping[str, ResourceUsage] = field(default_factory=dict)
    timing_ms: Mapping[str, float] = field(default_factory=dict)
    first_failure: int | None = None
    worst: float | None = None
    approximate: tuple[str, ...] = ()
    registered: bool = True
    toolchain: str = ""
    measured: tuple[DtypeMeasurements, ...] = ()
    coverage: tuple[LineCoverage, ...] = ()
    counters: tuple[KernelCounters, ...] = ()
    """By dtype, where they were asked for and a clean case could be counted."""


CheckEvent: TypeAlias = "Stage | Finding | KernelReport"


# ---- stored cases, run again ----------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class InputPreview:
    """An input of a case, as much of it as a person can read. ``nonzero`` counts elements that are not zero."""

    name: str
    dtype: str
    shape: tuple[int, ...]
    nonzero: int
    text: str


@dataclass(frozen=True, slots=True)
class Replay:
    """A stored case, run again.

    ``verdict`` is ``still fails`` (the same rule), ``fixed`` (no error), ``changed`` (another error) or ``not
    executed``, and then ``findings`` say why. ``rule`` and ``message`` are what was stored. ``digest`` identifies the
    bits that went in: sizes, launch and every argument.
    """

    kernel: str
    dtype: str
    case: str
    verdict: str
    rule: str
    message: str
    dims: Mapping[str, int] = field(default_factory=dict)
    findings: tuple[Finding, ...] = ()
    inputs: tuple[InputPreview, ...] = ()
    digest: str = ""

    @property
    def error(self) -> Finding | None:
        """How it fails now: as it was stored if it still does, else the first error."""
        errors = [finding for finding in self.findings if finding.severity is Severity.ERROR]
        return next((finding for finding in errors if finding.rule == self.rule), errors[0] if errors else None)


@dataclass(frozen=True, slots=True)
class MinimisedFailure:
    """What the minimiser made of a stored case.

    ``case`` is the id of the new, stored case, None when nothing smaller fails; ``replay`` is then the case as it was.
    ``complete`` False: the budget ran out first; the case fails nevertheless.
    """

    original: str
    original_dims: Mapping[str, int]
    case: str | None
    replay: Replay
    runs: int = 0
    seconds: float = 0.0
    complete: bool = True
