"""Events and results of a check; what to check is :mod:`gpuemu_lsp.engine.subjects.request`.

Imports neither NumPy nor the emulator, so that the front ends start quickly.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

from gpuemu_lsp.engine.check.clean_sizes import CleanSizes
from gpuemu_lsp.engine.compile.model import ResourceUsage, Specialisation
from gpuemu_lsp.engine.debug.explanation import Explanation
from gpuemu_lsp.engine.findings import Finding, Json, Place, Severity
from gpuemu_lsp.engine.subjects.languages import OPS, language_of_entry
from gpuemu_lsp.engine.subjects.request import CheckRequest


@dataclass(frozen=True, slots=True)
class StartedCase:
    """A case that an op is about to run, which may end the process: what rebuilds it, as in a stored failure.

    ``kept``: it is in the store already.
    """

    case: str
    dtype: str
    strategy: str
    dims: Mapping[str, int]
    key_dims: Mapping[str, int] | None = None
    kept: bool = False


@dataclass(frozen=True, slots=True)
class Stage:
    """Progress of a check: ``compile``, ``reference``, ``execute``, ...; with a count of cases where there is one.

    ``started`` is the case of an op that runs next.
    """

    kernel: str
    stage: str
    done: int = 0
    total: int = 0
    started: StartedCase | None = None


@dataclass(frozen=True, slots=True)
class CaseCount:
    """Number of cases that were executed and judged, and of those that passed.

    ``assumed`` of those that passed have findings that are informations, because they rest on sizes that the program
    may not have.
    """

    run: int = 0
    passed: int = 0
    assumed: int = 0


@dataclass(frozen=True, slots=True)
class DtypeMeasurements:
    """Errors of one dtype of a kernel.

    ``errors`` has the relative error of each compared case: the largest error over the largest magnitude of the output;
    it is empty without a reference. ``max_diff`` is the largest absolute error of all cases, ``worst`` is as in
    :class:`KernelReport`. ``needed`` has, by the dtype of an output, the smallest tolerance that each case needs.
    """

    dtype: str
    cases: CaseCount = CaseCount()
    max_diff: float = 0.0
    worst: float | None = None
    errors: tuple[float, ...] = ()
    needed: Mapping[str, tuple[float, ...]] = field(default_factory=dict)

    @property
    def relative(self) -> float:
        """The largest relative error."""
        return max(self.errors, default=0.0)


@dataclass(frozen=True, slots=True)
class BranchOutcome:
    """One outcome of a branch: the 0-based line it continues at, None for the exit or past a guarded statement."""

    to: int | None
    reached: bool


@dataclass(frozen=True, slots=True)
class LineCoverage:
    """Coverage of a 0-based source line with code; ``ways`` has the outcomes of its branches."""

    path: str
    line: int
    reached: bool
    ways: tuple[BranchOutcome, ...] = ()


@dataclass(frozen=True, slots=True)
class LineTraffic:
    """Memory requests of one line to one space, one request per warp; ``kind`` is load, store, copy or atomic.

    ``bytes`` is the number of bytes that lanes requested. ``units`` is the number of 32-byte sectors (global memory) or
    passes over the banks (shared memory) that this took, ``least`` the smallest number that holds the same bytes.
    """

    space: str
    kind: str
    requests: int
    bytes: int
    units: int
    least: int


@dataclass(frozen=True, slots=True)
class LineCounters:
    """Counters of a 0-based line: warp instructions, active lanes summed over them, memory traffic."""

    path: str
    line: int
    instructions: int
    lanes: int
    traffic: tuple[LineTraffic, ...] = ()


@dataclass(frozen=True, slots=True)
class KernelCounters:
    """Counters of one case of one dtype, the largest that passed.

    ``bytes`` is the global memory traffic in whole sectors, without caches; ``touched`` the traffic with perfect
    caches. ``operations`` are floating-point additions and multiplications; a fused multiply-add counts as two.
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
        """Arithmetic intensity: operations per byte, None without traffic."""
        return self.operations / self.bytes if self.bytes else None


@dataclass(frozen=True, slots=True)
class KernelReport:
    """Result of checking one kernel.

    ``status`` is ``passed``, ``failed``, ``error`` (not verified: it does not compile or its reference fails),
    ``unreferenced`` (no checker found anything, but there is no reference to compare with) or ``not-executed``.
    ``worst`` is the largest error of any passed case as a fraction of the allowed error. ``registered`` is True if a
    gpuemu.toml contains the kernel; not running is then a failure of the configuration.
    """

    name: str
    source: str
    status: str
    compiled: bool
    executor: str = "emulator"
    cases: CaseCount = CaseCount()
    clean_at: CleanSizes | None = None
    """What the sizes of the cases without a finding have in common, and no other case: ``n a multiple of 4``."""
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
    """By dtype, if they were requested and a case passed."""
    reused: bool = False
    """The verdict is that of an earlier check of the same code."""
    specialisation: Specialisation | None = None
    """For a Triton kernel, the variant that ``resources`` are of: that of the first case."""
    language: str = ""
    """The name of its language."""

    @property
    def op(self) -> bool:
        """Whether it is an entry of ``[[ops]]``."""
        return self.language == OPS.name

    @property
    def compared(self) -> bool:
        """Whether numbers of a case were compared with a reference."""
        return any(item.errors for item in self.measured)


def unfinished_report(
    request: CheckRequest, status: str, compiled: bool = False, timing_ms: Mapping[str, float] | None = None
) -> KernelReport:
    """Return the report of a kernel whose check did not finish."""
    spec = request.spec
    return KernelReport(
        spec.name,
        spec.source,
        status,
        compiled,
        timing_ms=timing_ms or {},
        registered=request.registered,
        language=language.name if (language := language_of_entry(spec)) is not None else "",
    )


CheckEvent: TypeAlias = "Stage | Finding | KernelReport"


# ---- stored cases, run again ----------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class InputPreview:
    """Readable excerpt of an input; ``nonzero`` counts its elements that are not zero."""

    name: str
    dtype: str
    shape: tuple[int, ...]
    nonzero: int
    text: str


@dataclass(frozen=True, slots=True)
class Replay:
    """Result of replaying a stored case.

    ``verdict`` is ``still fails`` (the same rule), ``fixed`` (no error), ``changed`` (another error) or ``not
    executed``, with the reason in ``findings``. ``rule`` and ``message`` are the stored ones. ``digest`` identifies the
    inputs bit for bit: sizes, launch and every argument.
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
        """The error of the stored rule if it still occurs, else the first error, None without errors."""
        errors = [finding for finding in self.findings if finding.severity is Severity.ERROR]
        same = (one for one in errors if self.rule in (one.rule, *(other.rule for other in one.consequences)))
        return next(same, errors[0] if errors else None)


@dataclass(frozen=True, slots=True)
class Why:
    """Why a stored case fails. Without an ``explanation``, ``problem`` says why there is none.

    ``verdict`` is as in :class:`Replay`. The ``finding`` is what the case shows now.
    """

    kernel: str
    dtype: str
    case: str
    verdict: str = "not executed"
    finding: Finding | None = None
    explanation: Explanation | None = None
    problem: str = ""


@dataclass(frozen=True, slots=True)
class ElementDifference:
    """The first element of a case in which two versions of a kernel differ, and the store of the second that wrote it.

    ``count`` of ``total`` elements of the output differ, by at most ``largest``. Without a store ``place`` is None.
    """

    case: str
    dims: Mapping[str, int]
    output: str
    index: tuple[int, ...]
    before: Json
    after: Json
    count: int
    total: int
    largest: float
    place: Place | None = None
    thread: tuple[int, ...] = ()
    block: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class ComparedVersions:
    """Two versions of a kernel on the same cases of one dtype.

    ``cases`` ran on both, ``differing`` of them with other outputs. ``left_out`` counts the others by reason;
    ``problem`` is why no case ran.
    """

    kernel: str
    dtype: str
    cases: int = 0
    differing: int = 0
    difference: ElementDifference | None = None
    left_out: Mapping[str, int] = field(default_factory=dict)
    problem: str = ""


@dataclass(frozen=True, slots=True)
class MinimisedFailure:
    """Result of minimising a stored case.

    ``case`` is the id of the new stored case, None if nothing smaller fails; ``replay`` is then that of the original.
    ``complete`` is False if the budget ended the search; the case fails nevertheless.
    """

    original: str
    original_dims: Mapping[str, int]
    case: str | None
    replay: Replay
    runs: int = 0
    seconds: float = 0.0
    complete: bool = True
